"""Writes requirements.txt and those beside it: every package behind pyproject.toml.

Each comes in one version, with hashes. requirements.txt is what a release needs and the image holds; -evaluation and
-dev hold what goes on top of it, and one on top of the other, -cpu what takes TensorFlow's place in an image without
GPU, and -sbom what lists the contents of an image. One version serves every Python that can have it; a marker says
which ones a version is for. Run by `make lock`, which provides uv. Packages keep the version they are locked to unless
pyproject.toml asks for another.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = "# Every package with its version and hashes. Written by `make lock` from pyproject.toml; do not edit.\n"


def compile_lock(arguments: list[str], lock: Path, *, upgrade: bool) -> str:
    """Returns what uv resolves for `arguments`, starting from the versions in `lock`."""
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "lock.txt"
        if lock.exists() and not upgrade:
            lines = (line for line in lock.read_text(encoding="utf-8").splitlines(keepends=True))
            output.write_text("".join(line for line in lines if not line.startswith("-r ")), encoding="utf-8")
        command = [
            *(sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate"),
            *(
                "--universal",
                "--python-version",
                "3.10",
                "--fork-strategy",
                "fewest",
                "--generate-hashes",
                "--no-strip-extras",
            ),
            *("--output-file", str(output), *arguments),
        ]
        subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        return output.read_text(encoding="utf-8")


def split_packages(lock: str) -> dict[str, str]:
    """Returns the block of lines of each line of a lock that names a package, its version and where it is for."""
    blocks = re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE)
    return {block.split(" \\\n", 1)[0]: block for block in blocks if re.match("[A-Za-z0-9]", block)}


def main() -> None:
    """Writes the locks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions that fit")
    upgrade = parser.parse_args().upgrade
    run, evaluation = ROOT / "requirements.txt", ROOT / "requirements-evaluation.txt"
    for name, wanted, below in (
        ("", ["pyproject.toml"], []),
        ("-evaluation", ["pyproject.toml", "--extra", "evaluation"], [run]),
        ("-dev", ["pyproject.toml", "--extra", "evaluation", "--group", "dev"], [run, evaluation]),
        ("-cpu", ["pyproject.toml", "--group", "cpu"], [run]),
        ("-sbom", ["--group", "sbom"], []),
    ):
        lock = ROOT / f"requirements{name}.txt"
        constraints = [word for file in below for word in ("--constraint", str(file))]
        packages = split_packages(compile_lock([*wanted, *constraints], lock, upgrade=upgrade))
        locked = {line for file in below for line in split_packages(file.read_text(encoding="utf-8"))}
        # The image puts one lock in the place of a part of the other, so that the one has no need to name it.
        start = HEADER + (f"-r {below[-1].name}\n" if below and name != "-cpu" else "")
        own = [block for line, block in packages.items() if line not in locked]
        lock.write_text(start + "".join(own), encoding="utf-8")


if __name__ == "__main__":
    main()
