"""What pages name exists: links and their headings, files, modules, functions, and the pages that code names."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.api_page import write_page

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("docs/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
CODE = sorted(path for folder in ("dpwgan", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py"))

LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
DOTTED = re.compile(r"(?:`|-m )(dpwgan(?:\.\w+)+)")
FILE = re.compile(r"(?<![\w/.\"-])(?:dpwgan|tests|benchmarks|specs|scripts|examples)/[\w/.-]*\w")
PAGE = re.compile(r"docs/[\w-]+\.md")


def find_broken(page: Path, text: str) -> list[str]:
    """Lists what a page names and nobody finds."""
    broken = []
    for name, heading in LINK.findall(text):
        target = (page.parent / name).resolve() if name else page
        if not target.exists():
            broken.append(name)
        elif heading and heading not in list_headings(target):
            broken.append(f"{name}#{heading}")
    broken += [name for name in DOTTED.findall(text) if not is_defined(name)]
    broken += [name for name in FILE.findall(text) if not (ROOT / name).exists()]
    return broken


@cache
def list_headings(page: Path) -> frozenset[str]:
    """Lists a page's headings as links write them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)


def is_defined(name: str) -> bool:
    """Finds a dotted name in the source, without importing it: a package, a module, or what one defines."""
    path, parts = ROOT, name.split(".")
    while parts and (path / parts[0]).is_dir():
        path /= parts.pop(0)
    module = path / f"{parts[0]}.py" if parts else path / "__init__.py"
    if parts and module.exists():
        parts.pop(0)
    else:
        module = path / "__init__.py"
    body = ast.parse(module.read_text(encoding="utf-8")).body
    for part in parts:
        found = [node for node in body if part in _names(node)]
        if not found:
            return module.parent == ROOT / "dpwgan" and f'"{part}"' in module.read_text(encoding="utf-8")
        body = getattr(found[0], "body", [])
    return True


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign):
        return [node.target.id] if isinstance(node.target, ast.Name) else []
    return [getattr(node, "name", "")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_everything_named_exists_when_a_page_is_read(page):
    assert find_broken(page, page.read_text(encoding="utf-8")) == []


def test_every_page_exists_when_code_names_it():
    named = {(path.name, page) for path in CODE for page in PAGE.findall(path.read_text(encoding="utf-8"))}
    assert [(file, page) for file, page in sorted(named) if not (ROOT / page).exists()] == []


def test_every_page_is_in_the_index_when_the_index_is_read():
    index = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    assert [
        page.name for page in ROOT.glob("docs/*.md") if f"({page.name})" not in index and page.name != "README.md"
    ] == []


@pytest.mark.parametrize(
    "text",
    [
        "[gone](gone.md)",
        "[a heading](privacy.md#no-such-heading)",
        "`dpwgan.no_such_module.anything`",
        "`dpwgan.privacy.ledger.NoSuchThing`",
        "`dpwgan.privacy.ledger.Ledger.no_such_method`",
        "see dpwgan/no_such_file.py",
        "run `python -m dpwgan.nothing`",
    ],
)
def test_it_is_told_when_a_page_names_what_is_not_there(text):
    assert len(find_broken(ROOT / "docs/privacy.md", text)) == 1


def test_page_of_the_python_interface_is_what_the_code_says_when_written_anew():
    assert (ROOT / "docs" / "api.md").read_text(encoding="utf-8") == write_page()
