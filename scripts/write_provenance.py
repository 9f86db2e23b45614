"""Writes where an image of dpwgan comes from: a SLSA provenance (v1) in an in-toto Statement, as JSON on stdout.

The Dockerfile runs it in the build with the base's own Python, so it needs nothing but the standard library:
    python3 write_provenance.py TREE SBOM REQUIREMENTS...
It names files by their digests, and of where they lie nothing but their last names. The tree's digest is that of the
lines that `sha256sum` writes of its files (`dirHash1` of the in-toto digest set), without compiled ones. Nothing of the
environment is read but the build's arguments.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

ARGUMENTS = ("BASE_IMAGE", "TENSORFLOW", "VERSION", "REVISION", "CREATED")


def digest_file(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def digest_tree(tree: Path) -> str:
    """The digest of all files below a folder, by name."""
    files = {path.relative_to(tree).as_posix(): path for path in tree.rglob("*") if path.is_file()}
    named = (f"{digest_file(path)}  {name}\n" for name, path in sorted(files.items()) if not name.endswith(".pyc"))
    return hashlib.sha256("".join(named).encode()).hexdigest()


def describe_file(path: Path) -> dict[str, object]:
    """A file as in-toto names it."""
    return {"name": path.name, "digest": {"sha256": digest_file(path)}}


def main(tree: Path, sbom: Path, *requirements: Path) -> None:
    """Writes the statement."""
    given = {name: os.environ[name] for name in ARGUMENTS}
    name, _, digest = given["BASE_IMAGE"].partition("@sha256:")
    base = {"name": name, **({"digest": {"sha256": digest}} if digest else {})}
    commit = {} if given["REVISION"] == "unknown" else {"digest": {"gitCommit": given["REVISION"]}}
    build = {
        "buildType": "urn:dpwgan:image-build:1",
        "externalParameters": given,
        "resolvedDependencies": [base, {"name": "dpwgan", **commit}, *map(describe_file, requirements)],
    }
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": tree.name, "digest": {"dirHash1": digest_tree(tree)}}, describe_file(sbom)],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {"buildDefinition": build, "runDetails": {"builder": {"id": os.environ["BUILDER"]}}},
    }
    json.dump(statement, sys.stdout, indent=2)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
