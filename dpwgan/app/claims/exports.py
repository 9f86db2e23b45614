"""A claim as others read it: a record of a registry, or Croissant metadata for catalogues and machine learning tools.

Source: opendp/deployments-registry-data; the Croissant Format Specification, version 1.1 (MLCommons).
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl

from dpwgan.app.claims.text import describe_accountant, describe_ledger, describe_rows, write_bounds
from dpwgan.errors import DataError

CONFORMS_TO = "http://mlcommons.org/croissant/1.1"
_OWN_TERMS = (
    *("arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "extract", "field", "fileProperty"),
    *("fileObject", "fileSet", "format", "includes", "isArray", "isLiveDataset", "jsonPath", "key", "md5"),
    *("parentField", "path", "recordSet", "references", "regex", "repeated", "replace", "samplingRate", "separator"),
    *("source", "subField", "transform"),
)
_BY_LANGUAGE = {"@container": "@language"}
CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "name": _BY_LANGUAGE,
    "description": _BY_LANGUAGE,
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **{term: f"cr:{term}" for term in _OWN_TERMS},
}
_FORMATS = {".csv": "text/csv", ".parquet": "application/x-parquet"}
_WHOLE = r"^-?(0|[1-9]\d*)$"
_DECIMAL = r"^-?(0|[1-9]\d*)(\.\d+)?$"


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
            "accounting": {
                "post_processing": "The generator sees the noisy releases alone; rows are drawn from it, and every "
                "cell written is one that the public description allows.",
                "composition": "\n".join(map(str.strip, describe_accountant(document["accountant"], verbose=True))),
            },
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
        "unprotected_quantities": f"That the table has {describe_rows(public)}; {public['other']}"
        + (f"; the lists or ranges of {', '.join(waived)}, read from the rows" if waived else "")
        + ".",
    }


def _describe_loss(document: Mapping[str, Any]) -> dict[str, Any]:
    guarantee = document["guarantee"]
    parameters = {"epsilon": guarantee["epsilon"]}
    if guarantee["delta"] > 0:
        parameters["delta"] = guarantee["delta"]
    replaced = guarantee["for_replace_one"]
    follows = "" if replaced["epsilon"] is None else f" For replace-one: {write_bounds(replaced)}."
    return {
        "privacy_unit": guarantee["unit"],
        "privacy_unit_details": f"{guarantee['neighbouring_relation']['name']}: "
        f"{guarantee['neighbouring_relation']['meaning']}",
        "privacy_parameters": parameters,
        "privacy_parameters_details": f"{document['summary'][0]} {document['statement']}{follows}",
    }


def _describe_implementation(document: Mapping[str, Any]) -> dict[str, Any]:
    tool, method, randomness = document["tool"], document["method"], document["randomness"]
    certificate = document.get("certificate")
    mechanisms = [
        *map(str.strip, describe_ledger(document["ledger"])),
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


def make_metadata(
    document: Mapping[str, Any], *, table: str, claim: tuple[str, str], about: Mapping[str, str]
) -> dict[str, Any]:
    """The metadata of a table and its claim, of which path and SHA-256 are given.

    `about` has what no claim knows: name, curator, use, license, date.
    Raises: DataError if the table is neither CSV nor Parquet, or cannot be read.
    """
    file = Path(table)
    if file.suffix not in _FORMATS:
        raise DataError("Croissant metadata is made of tables that end in .csv or .parquet")
    files = [
        _describe_file("table", file, _FORMATS[file.suffix], sha256=document["output"]["sha256"]),
        _describe_file("claim", Path(claim[0]), "application/json", sha256=claim[1]),
    ]
    optional = {
        "license": about.get("license"),
        "datePublished": about.get("date"),
        "usageInfo": about.get("use"),
        "creator": {"@type": "sc:Organization", "name": about["curator"]} if "curator" in about else None,
    }
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": CONFORMS_TO,
        "name": about["name"],
        "description": f"A synthetic table. {' '.join(document['summary'])}",
        **{key: value for key, value in optional.items() if value is not None},
        "distribution": files,
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": "rows",
                "name": "rows",
                "field": [_describe_field(name, kind) for name, kind in read_types(file).items()],
            }
        ],
    }


def _describe_file(key: str, file: Path, form: str, *, sha256: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": key,
        "name": file.name,
        "contentUrl": file.name,
        "encodingFormat": form,
        "sha256": sha256,
    }


def _describe_field(name: str, kind: str) -> dict[str, Any]:
    return {
        "@type": "cr:Field",
        "@id": f"rows/{quote(name)}",
        "name": name,
        "dataType": kind,
        "source": {"fileObject": {"@id": "table"}, "extract": {"column": name}},
    }


def read_types(file: Path) -> dict[str, str]:
    """The columns of a released table, each with its Croissant type; numbers with leading zeros are text.

    Raises: DataError if it is no table of the form that its name says.
    """
    try:
        if file.suffix == ".parquet":
            return {name: _name_type(kind) for name, kind in pl.read_parquet_schema(file).items()}
        frame = pl.read_csv(file, infer_schema=False)
    except (pl.exceptions.PolarsError, OSError):
        raise DataError(f"the table {str(file)!r} cannot be read as {file.suffix[1:]}") from None
    return {column.name: _name_text(column) for column in frame}


def _name_type(kind: pl.DataType) -> str:
    if kind.is_integer():
        return "sc:Integer"
    if kind.is_numeric():
        return "sc:Float"
    return {pl.Boolean: "sc:Boolean", pl.Date: "sc:Date", pl.Datetime: "sc:DateTime"}.get(kind.base_type(), "sc:Text")


def _name_text(cells: pl.Series) -> str:
    if cells.null_count() == len(cells):
        return "sc:Text"
    whole = cells.str.contains(_WHOLE).all()
    # A reader that holds whole numbers with blanks among them holds them as floats.
    if whole and cells.null_count() == 0:
        return "sc:Integer"
    return "sc:Float" if cells.str.contains(_DECIMAL).all() else "sc:Text"
