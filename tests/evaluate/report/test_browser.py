"""The report in a real browser, headless Chromium: it opens by itself, fits a phone, prints, and runs nothing.

Screenshots are written to the folder named by REPORT_SCREENSHOTS, if it is set, for people to look at.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.claims import make_claim
from tests.evaluate.report.samples import make_audit, make_tables, render

pytestmark = pytest.mark.browser

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),  # the first, because CI runs as root
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}
PAGES: dict[str, dict[str, Any]] = {
    "plain": {"columns": 8},
    "hostile": {"columns": 22, "hostile": True},
    "many": {"columns": 98},
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if not CHROMIUM.exists() and not os.environ.get("CI"):
        pytest.skip("needs Debian's package chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    claim = make_claim().document
    for name, settings in PAGES.items():
        real, synthetic = make_tables(**settings)
        text = render(real, synthetic, claim=claim, claim_matches=True, audit=make_audit())
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return folder


@dataclass
class Visit:
    """A page that is open, and what it did while it opened."""

    page: Any
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@contextmanager
def visit(browser: Any, path: Path, **settings: Any) -> Iterator[Visit]:
    with browser.new_context(**settings) as context:
        seen = Visit(page=context.new_page())
        seen.page.on("request", lambda request: seen.requests.append(request.url))
        seen.page.on("console", lambda message: seen.complaints.append(message.text))
        seen.page.on("pageerror", lambda error: seen.complaints.append(str(error)))
        seen.page.goto(path.as_uri(), wait_until="load")
        yield seen


def keep(name: str, picture: bytes) -> None:
    assert picture.startswith((b"\x89PNG", b"%PDF"))
    folder = os.environ.get("REPORT_SCREENSHOTS")
    if folder:
        (Path(folder) / name).write_bytes(picture)


def scrolls_sideways(page: Any) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_page_opens_by_itself_and_fits_when_the_screen_is_wide_or_narrow(browser, folder, name, viewport):
    path = folder / f"{name}.html"
    with visit(browser, path, viewport=viewport) as seen:
        assert seen.requests == [path.as_uri()]
        assert seen.complaints == []
        assert seen.page.title() == "Evaluation of synthetic.csv (private)"
        assert seen.page.locator("#privacy").is_visible()
        assert seen.page.locator("article.card[id]").count() == PAGES[name]["columns"]
        assert not scrolls_sideways(seen.page)
        keep(f"{name}-{viewport['width']}.png", seen.page.screenshot(full_page=True))


def find_barriers(browser: Any, path: Path, **settings: Any) -> list[str]:
    """The rules of axe-core that a page breaks."""
    from axe_playwright_python.sync_playwright import Axe

    with visit(browser, path, bypass_csp=True, **settings) as seen:
        return [violation["id"] for violation in Axe().run(seen.page).response["violations"]]


@pytest.mark.parametrize(
    ("name", "scheme", "viewport"),
    [("plain", "light", WIDE), ("plain", "dark", PHONE), ("hostile", "light", PHONE), ("hostile", "dark", WIDE)],
)
def test_page_has_no_barrier_that_axe_knows(browser, folder, name, scheme, viewport):
    assert find_barriers(browser, folder / f"{name}.html", viewport=viewport, color_scheme=scheme) == []


def test_axe_sees_what_must_not_be_when_a_page_is_bad(browser, folder, tmp_path):
    """The broken twin: no language, a figure without words, grey on grey, text outside of every landmark."""
    text = (folder / "plain.html").read_text(encoding="utf-8")
    bad = '<svg role="img" width="9" height="9"></svg><p><font color="#ccc">Pale</font></p></main><p>Lost</p><main>'
    path = tmp_path / "bad.html"
    path.write_text(text.replace(' lang="en"', "").replace("<main>", f"<main>{bad}"), encoding="utf-8")
    assert {"html-has-lang", "svg-img-alt", "color-contrast", "region"} <= set(find_barriers(browser, path))


def test_every_link_leads_somewhere_when_followed(browser, folder):
    with visit(browser, folder / "hostile.html", viewport=PHONE) as seen:
        targets = seen.page.eval_on_selector_all("a", "links => links.map(link => link.getAttribute('href'))")
        assert targets
        assert all(seen.page.locator(target).count() == 1 for target in targets)


def test_page_is_whole_when_scripts_are_switched_off(browser, folder):
    with visit(browser, folder / "plain.html", viewport=PHONE, java_script_enabled=False) as seen:
        figures = seen.page.locator("svg.figure")
        assert figures.count() > 20
        assert seen.page.get_by_role("img", name="Agreement").count() == 8
        for place in range(figures.count()):
            box = figures.nth(place).bounding_box()
            assert box["width"] > 200
            assert box["height"] > 15


def test_page_turns_dark_when_the_reader_asks_for_it(browser, folder):
    colours = {}
    for scheme in ("light", "dark"):
        with visit(browser, folder / "plain.html", viewport=WIDE, color_scheme=scheme) as seen:
            colours[scheme] = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
            keep(f"plain-{scheme}.png", seen.page.screenshot(full_page=True))
    assert colours == {"light": "rgb(255, 255, 255)", "dark": "rgb(18, 22, 26)"}


def test_page_prints_in_light_colours_when_the_reader_asks_for_dark(browser, folder):
    with visit(browser, folder / "plain.html", viewport=WIDE, color_scheme="dark") as seen:
        seen.page.emulate_media(media="print")
        assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert not seen.page.locator("nav").is_visible()
        printed = seen.page.pdf(format="A4", prefer_css_page_size=True)
        pages = max(int(count) for count in re.findall(rb"/Count (\d+)", printed))
        assert 4 <= pages <= 18  # four groupings among them
        keep("plain.pdf", printed)


def test_recorder_sees_what_must_not_be_when_a_page_is_bad(browser, folder, tmp_path):
    """The broken twin: without the policy and the escaping, each of the checks above would fail."""
    text = (folder / "plain.html").read_text(encoding="utf-8")
    start, end = text.index('<meta http-equiv="Content-Security'), text.index('<meta name="viewport"')
    bad = '<script>document.title="owned"; console.error("ran")</script><img src="other.png"><p><svg width="900"></svg>'
    with_policy, without = tmp_path / "with.html", tmp_path / "without.html"
    with_policy.write_text(text.replace("<main>", f"<main>{bad}"), encoding="utf-8")
    without.write_text((text[:start] + text[end:]).replace("<main>", f"<main>{bad}"), encoding="utf-8")

    with visit(browser, without, viewport=PHONE) as seen:
        assert len(seen.requests) == 2
        assert "ran" in seen.complaints
        assert seen.page.title() == "owned"
        assert scrolls_sideways(seen.page)

    # And the page's own policy would stop them even if the escaping failed.
    with visit(browser, with_policy, viewport=PHONE) as seen:
        assert seen.page.title() == "Evaluation of synthetic.csv (private)"
        assert "ran" not in seen.complaints
        assert len(seen.complaints) >= 2
