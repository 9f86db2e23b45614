"""A claim as a record of the Differential Privacy Deployments Registry (opendp/deployments-registry-data)."""

import re
from collections.abc import Mapping
from typing import Any

from dpwgan.app.claims.text import describe_accountant, describe_ledger, round_up
from dpwgan.errors import DataError


def make_record(
    document: Mapping[str, Any], *, name: str, curator: str, use: str, region: str, date: str
) -> dict[str, Any]:
    """The record of one release, for the registry's reviewers to read on: a draft of its third tier.

    Raises: DataError if the claim promises nothing.
    """
    guarantee, output = document["guarantee"], document["output"]
    if guarantee is None:
        raise DataError("the claim promises nothing, so there is no deployment to register")
    basic = {
        "name": name,
        "data_curators": [curator],
        "description": f"A synthetic table of {output['rows']} rows, drawn from a model of a private table.",
        "intended_use": use,
        "data_product_type": "Synthetic data",
        "data_product_region": region,
        "publication_date": date,
    }
    return {
        "url_slug": "-".join(re.findall("[a-z0-9]+", f"{name} {curator} {date[:4]}".lower())),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": basic,
            "dp_variant": _describe_variant(document),
            "privacy_loss": _describe_loss(document),
            "deployment_model": {
                "model_name": "Central",
                "actors": guarantee["trust_model"],
                "release_type": "One release",
                "release_type_details": output["note"],
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": _describe_accounting(document),
            "implementation": _describe_implementation(document),
            "administrative": {"registry_authors": [curator]},
        },
    }


def _describe_variant(document: Mapping[str, Any]) -> dict[str, str]:
    public, columns = document["public"], document["columns"]
    waived = columns["domains_waived"]
    return {
        "variant_name": "Approximate DP" if document["guarantee"]["delta"] > 0 else "Pure DP",
        "data_domain": f"Tables of {public['records']} rows that fit a public description of their columns (SHA-256 "
        f"{public['specs_sha256']}).",
        "unprotected_quantities": f"The number of rows, {public['records']}; {public['other']}"
        + (f"; which cells occur in {', '.join(waived)}" if waived else "")
        + ".",
    }


def _describe_loss(document: Mapping[str, Any]) -> dict[str, Any]:
    guarantee = document["guarantee"]
    parameters = {"epsilon": guarantee["epsilon"]}
    if guarantee["delta"] > 0:
        parameters["delta"] = guarantee["delta"]
    replaced = guarantee["for_replace_one"]
    follows = (
        ""
        if replaced["epsilon"] is None
        else f" For one row replaced: epsilon {round_up(replaced['epsilon'], digits=6)}, delta "
        f"{round_up(replaced['delta'], digits=4)}."
    )
    return {
        "privacy_unit": guarantee["unit"],
        "privacy_unit_details": f"{guarantee['neighbouring_relation']['name']}: "
        f"{guarantee['neighbouring_relation']['meaning']}",
        "privacy_parameters": parameters,
        "privacy_parameters_details": f"{document['summary'][0]} {document['statement']}{follows}",
    }


def _describe_accounting(document: Mapping[str, Any]) -> dict[str, str]:
    added_up = describe_accountant(document["accountant"], verbose=True)
    return {
        "post_processing": "The generator sees the noisy releases alone; rows are drawn from it, and every cell "
        "written is one that the public description allows.",
        "composition": "\n".join(line.strip() for line in added_up),
    }


def _describe_implementation(document: Mapping[str, Any]) -> dict[str, Any]:
    tool, method, randomness = document["tool"], document["method"], document["randomness"]
    certificate = document.get("certificate")
    mechanisms = [
        *(line.strip() for line in describe_ledger(document["ledger"])),
        f"by {tool['name']} {tool['version']}, method {method['name']} ({method['paper']})",
        f"randomness: {randomness['noise_and_batches']}",
        f"floating point: {randomness['floating_point']}",
        *([] if certificate is None else [f"accuracy: {certificate['statement']}"]),
    ]
    return {
        "preprocessing_and_hyperparameter_tuning": f"{document['columns']['formats']} Not covered by the guarantee: "
        + "; ".join(document["not_covered"])
        + ".",
        "mechanisms": "\n".join(f"- {line}" for line in mechanisms),
    }
