"""A claim as an in-toto attestation: a statement about two files, the table and the claim, that names their digests.

Source: in-toto Attestation Framework, Statement v1.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpwgan.errors import DataError

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:dpwgan:privacy-claim:{}"


def make_statement(document: Mapping[str, Any], *, claim_path: str, content: bytes, table: str) -> dict[str, Any]:
    """The statement, unsigned: whoever answers for the release puts it into an envelope. `content`: the claim's bytes.

    Raises: DataError if the claim names no table.
    """
    digest = document["output"]["sha256"]
    if digest is None:
        raise DataError("the claim names no table: it was made for a data frame")
    return {
        "_type": STATEMENT,
        "subject": [
            {"name": Path(table).name, "digest": {"sha256": digest}},
            {"name": Path(claim_path).name, "digest": {"sha256": hashlib.sha256(content).hexdigest()}},
        ],
        "predicateType": PREDICATE.format(document["claim_version"]),
        "predicate": dict(document),
    }
