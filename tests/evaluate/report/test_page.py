"""The page says what the document says, warns where it must, and holds nothing that runs or reaches out."""

import base64
import dataclasses
import hashlib
import html
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from dpwgan.evaluate.dependence import compare_pairs
from dpwgan.evaluate.report import page
from dpwgan.evaluate.tables import ComparedColumn, ComparedTable
from dpwgan.privacy.budget import NeighboringRelation
from tests.claims import change_part, make_claim
from tests.evaluate.report.samples import make_audit, make_document, make_tables
from tests.evaluate.report.samples import render as render_tables
from tests.evaluate.samples import make_categorical


class Reader(HTMLParser):
    """Collects every tag with its attributes, and the text outside the style sheet."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self._open.append("")

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def render(claim: Any = None, **settings: Any) -> str:
    return render_tables(*make_tables(**settings), claim=claim, claim_matches=None if claim is None else True)


def find(pattern: str, text: str) -> re.Match[str]:
    found = re.search(pattern, text, flags=re.DOTALL)
    assert found is not None
    return found


def read_claim_section(text: str) -> str:
    return Reader(find(r'<section id="claim".*?</section>', text).group()).text


def test_page_holds_nothing_that_runs_or_reaches_out_when_names_are_hostile():
    text = render(columns=22, hostile=True)
    reader = Reader(text)
    assert {tag for tag, _ in reader.tags} <= {tag for tag, _ in Reader(render(columns=22)).tags}
    assert not {tag for tag, _ in reader.tags} & {"script", "iframe", "object", "embed", "form", "img", "base"}
    for tag, attributes in reader.tags:
        assert not [
            name for name in attributes if name.startswith("on") or name in {"src", "srcset", "style", "action"}
        ]
        if "href" in attributes:
            assert str(attributes["href"]).startswith("#") or (tag, attributes["href"]) == ("link", "data:,")
    assert "url(" not in text
    assert "@import" not in text
    assert [tag for tag, _ in reader.tags].count("style") == 1


def test_page_shows_hostile_names_as_they_stand_when_they_are_short():
    reader = Reader(render(columns=22, hostile=True))
    assert "<script>document.title='owned'</script>" in reader.text
    assert "{{ 7*7 }}{% raw %}&amp;&lt;" in reader.text
    assert "A" * 100 not in reader.text


def test_policy_allows_the_one_style_sheet_and_nothing_else_when_read_by_a_browser():
    text = render()
    policy = next(a["content"] for _, a in Reader(text).tags if a.get("http-equiv") == "Content-Security-Policy")
    style = find(r"<style>(.*?)</style>", text).group(1)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert str(policy).split("; ")[:2] == ["default-src 'none'", f"style-src 'sha256-{digest}'"]


def test_page_is_the_same_when_made_twice():
    assert render(columns=9) == render(columns=9)


def test_page_carries_the_notice_and_no_folder_when_made():
    text = render()
    assert Reader(text).text.count("Contains private statistics, not covered by epsilon.") >= 2
    assert "Do not release this page" in Reader(text).text
    assert "/secret" not in text
    assert "synthetic.csv" in text


def test_every_column_has_a_card_with_its_agreement_when_there_are_many():
    real, synthetic = make_tables(columns=23)
    document = make_document(real, synthetic)
    text = render_tables(real, synthetic)
    for place, column in enumerate(document["columns"], start=1):
        card = find(rf'<article class="card" id="column-{place}">.*?</article>', text).group()
        assert column["name"] in card
        assert page.write_agreement(column["agreement"]) in card
        says = find(r'role="img" aria-label="([^"]*)"', card).group(1)
        assert "Largest difference" in html.unescape(says)


def test_card_says_that_agreement_says_little_when_one_bucket_has_nearly_all_numbers():
    real, synthetic = make_tables(columns=2)
    assert "agreement says little" not in render_tables(real, synthetic)
    real.cells[:-10, 1] = 3
    assert re.search("one has 9[78].[0-9]% of the real rows, so agreement says little", render_tables(real, synthetic))
    labels = tuple(map(str, range(100)))  # a cell of one number hides nothing
    columns = (real.columns[0], dataclasses.replace(real.columns[1], labels=labels))
    real, synthetic = (dataclasses.replace(table, columns=columns) for table in (real, synthetic))
    assert "agreement says little" not in render_tables(real, synthetic)


def test_best_and_worst_stand_first_and_link_to_their_cards_when_ranked():
    real, synthetic = make_tables(columns=23)
    document = make_document(real, synthetic)
    text = render_tables(real, synthetic)
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", text)[0] == "Best and worst"
    captions = re.findall(r"<caption>(.*?)</caption>.*?</table>", text, flags=re.DOTALL)[:4]
    assert captions == [
        f"{what}: the {which}" for which in ("worst", "best") for what in ("Columns", "Pairs of columns")
    ]
    linked = re.findall(r'<a href="#column-(\d+)"><bdi>(.*?)</bdi>', text)
    ranked = document["best_and_worst"]
    wanted = []
    for which in ("worst", "best"):
        wanted += [entry["name"] for entry in ranked["columns"][which]]
        wanted += [name for entry in ranked["pairs"][which] for name in entry["columns"]]
    assert [name for _, name in linked] == wanted
    assert [real.names[int(number) - 1] for number, _ in linked] == wanted


def test_numbers_groups_answers_and_rules_are_told_in_words():
    real, synthetic = make_tables(columns=5)
    text = Reader(render_tables(real, synthetic)).text
    moments = make_document(real, synthetic)["numbers"][0]["real"]
    assert f"mean {page.write_short(moments['mean'])} " in text
    assert "quantile 0.95" in text
    assert "Columns that tell the tables apart" in text
    assert "rule 1 ('age < 16') 0 5" in text
    assert "By column_0" in text
    assert "Of the synthetic rows 400 were drawn and are compared." in text
    few = Reader(render_tables(real, synthetic, groups=[], weights=[], intervals={"means": [], "regressions": []})).text
    assert "Groups and totals" not in few
    assert "Karr" not in few


def test_attacks_are_told_with_the_columns_that_leak_when_the_table_was_audited():
    tables = make_tables(columns=3)
    audit = make_audit()
    text = Reader(render_tables(*tables, audit=audit)).text
    assert "gives people away. 1 of the findings below is more than chance" in text
    assert "attribute inference: column_0 leak 0.900 0.500 +0.400 +0.300 to +0.500" in text
    assert "column_1 0.600" not in text
    assert "Not played: linkability" in text
    audit["attacks"][0]["parts"] = {}
    assert "No attack does better" in Reader(render_tables(*tables, audit=audit)).text
    assert "What attackers find" not in Reader(render_tables(*tables)).text


def test_page_is_written_when_scores_are_missing_and_columns_are_few():
    for columns in (1, 2):
        real, synthetic = make_tables(columns=columns, rows=3)
        document = make_document(real, synthetic)
        for scores in document["scores"].values():
            scores.update(kway_2=None, kway_3=None, detection_auc=None, classifiers=[], classifier_auc=None)
        text = render_tables(real, synthetic, **document)
        assert "nan" not in Reader(text).text.split()
        assert ('id="dependence"' in text) == (columns > 1)


def test_page_stays_small_when_the_table_has_98_columns():
    rng = np.random.default_rng(5)
    labels = tuple(f"{k} to {k + 1}" for k in range(100))
    columns = tuple(ComparedColumn(name=f"column_{k}", kind="number", labels=labels) for k in range(98))
    # Uniform noise: no two neighbouring cells are alike, so that every outline and every map is as long as can be.
    cells = [rng.integers(0, 100, (500, 98), dtype=np.int32) for _ in range(2)]
    tables = (ComparedTable(columns=columns, cells=c, numbers=c.astype(float), path="x.csv") for c in cells)
    assert len(render_tables(*tables).encode()) < 5_000_000


def test_claim_gives_epsilon_with_all_that_belongs_to_it_when_it_is_valid():
    claim = make_claim(epsilon=0.987654321).document
    shown = read_claim_section(render(claim=claim))
    assert claim["statement"] in shown
    for part in ("0.987655", "delta 1e-06", "moments", "one row of the input table", "zero_out", "null row"):
        assert part in shown
    assert "1.9753" in shown  # twice that, for a replaced row
    for item in (*claim["covered"], *claim["not_covered"]):
        assert item in shown
    assert "this report" in shown


def test_claim_names_the_other_relation_when_it_was_calibrated_for_it():
    claim = make_claim(relation=NeighboringRelation.REPLACE_ONE).document
    assert "replace_one" in read_claim_section(render(claim=claim))


@pytest.mark.parametrize(
    ("claim", "matches", "warning"),
    [
        (None, None, "No claim."),
        (make_claim(seeded=True).document, True, "NOT PRIVATE."),
        ({"guarantee": {"epsilon": 0.001}}, True, "No valid claim."),
        (make_claim().document, False, "The claim is not this table's."),
        (make_claim().document, None, "Check that this claim belongs to the table."),
    ],
)
def test_claim_is_a_warning_when_there_is_no_guarantee_to_rely_on(claim, matches, warning):
    said = read_claim_section(render_tables(*make_tables(columns=3), claim=claim, claim_matches=matches))
    assert warning in said
    if not warning.startswith("Check"):
        assert "Epsilon" not in said
        assert "Treat" in said


def test_claim_of_spent_more_than_asked_is_not_shown_when_edited_by_hand():
    claim = change_part(make_claim().document, "budget.epsilon_spent", 9.0)
    assert "No valid claim." in read_claim_section(render(claim=claim))


@pytest.mark.parametrize(
    ("found", "floor", "ceiling", "whole", "says"),
    [
        (930.0, 900.0, 1000.0, 1000.0, "30% of the way from floor to ceiling."),
        (0.6, 0.9, 0.5, -0.5, "75% of the way from floor to ceiling."),
        (1000.0, 900.0, 990.0, 1000.0, "As good as the ceiling."),
        (0.95, 0.9, 0.5, -0.5, "Worse than the floor."),
        (990.0, 1000.0, 994.0, 1000.0, ""),
        (990.0, 994.0, 995.0, 1000.0, ""),
        (0.5, None, 0.4, 1.0, ""),
    ],
)
def test_way_between_floor_and_ceiling_is_told_when_they_are_apart(found, floor, ceiling, whole, says):
    assert page.describe_way(found, floor=floor, ceiling=ceiling, whole=whole) == says


def test_agreement_is_100_percent_only_when_it_is_all():
    assert page.write_agreement(1.0) == "100.0%"
    assert page.write_agreement(0.99999) == "99.9%"
    assert page.write_agreement(0.123) == "12.3%"


def test_several_tables_are_listed_with_their_mean_when_given():
    tables = [
        {"file": f"epsilon<{epsilon}.csv", "rows": 400, "illegal_rows": 0, "nist2018": {"mean": 1000.0 * place}}
        for place, epsilon in enumerate((8, 1, 0.3), start=1)
    ]
    text = Reader(render_tables(*make_tables(columns=3), match={"tables": tables, "mean": 2000.0})).text
    assert "mean NIST 2018 score 2,000" in text
    assert "epsilon<0.3.csv 400 3,000" in text


def test_pairs_are_one_when_a_column_gives_another_away_and_zero_when_it_says_nothing():
    rng = np.random.default_rng(3)
    first = rng.integers(0, 4, 60_000)
    cells = np.column_stack([first, 3 - first, rng.integers(0, 4, 60_000), np.zeros(60_000)])
    table = make_categorical(cells, [4, 4, 4, 4])
    (same,) = compare_pairs(table, [table])
    found = same.real
    np.testing.assert_array_equal(found, same.other)
    np.testing.assert_allclose(same.agreement, 1.0)
    np.testing.assert_array_equal(found, found.T)
    assert found[0, 1] == pytest.approx(1.0, abs=1e-3)
    # Chance alone gives V above 0.02 with probability below 1e-6: n V^2 is at most chi-square with 9 degrees over 3.
    assert found[0, 2] < 0.02
    assert found[0, 3] == 0.0


def test_pairs_that_changed_most_come_first_when_ranked():
    ours = np.array([[1.0, 0.9, 0.2], [0.9, 1.0, 0.0], [0.2, 0.0, 1.0]])
    theirs = np.array([[1.0, 0.8, 0.2], [0.8, 1.0, 0.3], [0.2, 0.3, 1.0]])
    ranked = page.rank_pairs(ours, theirs, ["a", "b", "c"])
    assert [entry["names"] for entry in ranked] == [("b", "c"), ("a", "b"), ("a", "c")]
    assert [entry["difference"] for entry in ranked] == ["+0.30", "\u22120.10", "+0.00"]


def test_rare_categories_are_put_together_when_there_are_too_many_for_bars():
    real, synthetic = make_tables(columns=4)
    card = find(r'id="column-4">.*?</article>', render_tables(real, synthetic)).group()
    assert "239 others" in card
    shares = np.bincount(real.cells[:, 3], minlength=250) / real.rows
    listed = re.findall(r">town (\d+)<title>", card)
    rest = 1.0 - shares[[int(cell) for cell in listed]].sum()
    assert len(listed) == 11
    assert f">{page.figures.percent(rest)} / " in card
