"""Writes examples/rand-hie/data.csv from the statsmodels package, which ships the table.

statsmodels serves this script alone, so it is in no requirements file. Run it in a scratch environment:
    python -m venv scratch && scratch/bin/pip install --no-deps statsmodels==0.14.4
    scratch/bin/python scripts/build_example.py
The bytes are copied, so every number stays as the package writes it; the script stops if they are not the known ones.
"""

import hashlib
import importlib.metadata
import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "examples" / "rand-hie" / "data.csv"
SOURCE = "statsmodels/datasets/randhie/randhie.csv"
SHA256 = "9f6c87d05aef087a82cc4465310c8cd3f38327be6eafa43bd81fb98c4f3d088c"


def main() -> int:
    """Copies the table, if it is the one that data-specs.json was written for."""
    try:
        files = importlib.metadata.files("statsmodels") or []
    except importlib.metadata.PackageNotFoundError:
        print("statsmodels is not installed in this environment; the head of this script says how", file=sys.stderr)
        return 1
    found = next((file for file in files if file.as_posix() == SOURCE), None)
    if found is None:
        print(f"this statsmodels ships no {SOURCE}", file=sys.stderr)
        return 1
    table = found.read_binary()
    if hashlib.sha256(table).hexdigest() != SHA256:
        print(f"{SOURCE} is not the table that the example's specs were written for", file=sys.stderr)
        return 1
    TARGET.write_bytes(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
