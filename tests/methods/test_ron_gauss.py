"""RON-Gauss from plan to rows: what is charged, what is refused, and what comes out."""

import math

import numpy as np
import pytest

from dpwgan.errors import PrivacyError, UsageError
from dpwgan.gaussians.projected_gaussian import draw_projection, project_on_semidefinite
from dpwgan.images.moments import MEANS_REPLACE_ONE_FACTOR
from dpwgan.methods.ron_gauss_tables import choose_dimension
from dpwgan.privacy.budget import NeighboringRelation
from dpwgan.privacy.events import DiscreteGaussian, Laplace, StableSelection, Wishart
from dpwgan.table.schema import CategoricalColumn
from tests.ledgers import make_release
from tests.marginals.tables import COLUMNS
from tests.methods.images import make_images
from tests.methods.privacy_totals import gaussian_delta, total_rho
from tests.methods.runs import NARROW, make_plan, make_table, refuse_illegal, reserve, run

ZERO_OUT, REPLACE_ONE = NeighboringRelation.ZERO_OUT, NeighboringRelation.REPLACE_ONE


@pytest.mark.parametrize("label", ["letters", "two", "same", "hours"])
@pytest.mark.parametrize("records", [1, 200])
def test_sampled_cells_are_legal_when_each_class_has_a_gaussian(label, records):
    refuse_illegal(run("ron-gauss", make_table(records), label=label).sampled)


SHAPES = {"table": make_table(300).shape, "images": make_images(300)[1]}


@pytest.mark.parametrize("relation", [ZERO_OUT, REPLACE_ONE])
@pytest.mark.parametrize(("kind", "settings"), [("table", {}), ("table", {"label": "letters"}), ("images", {})])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 30.0])
def test_pure_epsilons_add_to_the_budget_when_noise_is_laplace(relation, kind, settings, epsilon):
    plan = make_plan("ron-gauss", SHAPES[kind], epsilon=epsilon, relation=relation, **settings)
    total = 0.0
    for event, count in (release.charge for release in plan.releases):
        assert isinstance(event, (Laplace, Wishart))
        # Replaced: counts leave one cell and enter another; of matrices one goes and one comes.
        assert event.replace_one_factor == 2.0
        total += count * event.epsilon * (2.0 if relation is REPLACE_ONE else 1.0)
    assert total == pytest.approx(epsilon, rel=1e-6)
    guarantee = reserve(plan).guarantee()
    assert (guarantee.delta, guarantee.accountant) == (0.0, "basic")
    assert total <= guarantee.epsilon <= epsilon
    # The label's own histogram is one of them, as the sizes of the classes.
    plain = make_plan("ron-gauss", SHAPES[kind]).releases[0].details
    assert plan.releases[0].details.get("histograms") == plain.get("histograms")
    if kind == "table":
        counts = make_plan("ron-gauss", SHAPES[kind], noise="gaussian", **settings).releases[0]
        assert counts.event.cells == plain["histograms"]


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("label", [None, "letters"])
def test_looks_share_the_epsilon_of_the_counts_when_numbers_have_several(noise, label):
    plan = make_plan("ron-gauss", make_table(50, columns=COLUMNS).shape, noise=noise, label=label)
    *counts, _ = plan.releases
    histograms = [release.details["histograms"] for release in counts]
    assert histograms == [release.event.cells if noise == "gaussian" else release.sensitivity for release in counts]
    assert histograms[0] == 13
    assert len(histograms) > 3
    assert [release.stddev for release in counts] == pytest.approx([counts[0].stddev] * len(counts), rel=1e-6)
    if noise == "laplace":
        assert sum(release.event.epsilon for release in counts) == pytest.approx(plan.design.counts.epsilon)
    refuse_illegal(run("ron-gauss", make_table(50, columns=COLUMNS), noise=noise, label=label).sampled)


@pytest.mark.parametrize("relation", [ZERO_OUT, REPLACE_ONE])
@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 30.0])
def test_noise_is_that_of_gaussians_when_asked_for(relation, kind, epsilon):
    plan = make_plan("ron-gauss", SHAPES[kind], epsilon=epsilon, relation=relation, rule="pld", noise="gaussian")
    rho = total_rho([release.charge for release in plan.releases], relation=relation)
    assert gaussian_delta(epsilon, rho=rho) <= 1e-5
    assert reserve(plan).guarantee().delta == 1e-5
    events = [release.event for release in plan.releases]
    if kind == "table":
        # At a large budget noise is below one count, and what stands in for it costs more.
        assert gaussian_delta(epsilon, rho=rho * (1.01 if epsilon < 30 else 1.15)) > 1e-5
        assert events[0].cells == plan.releases[0].details["histograms"]
        assert events[1].replace_one_factor == math.sqrt(2)
    else:
        # The covariance's factor is the lower one; no more is claimed for the means than 2.
        assert [event.replace_one_factor for event in events] == [
            MEANS_REPLACE_ONE_FACTOR,
            MEANS_REPLACE_ONE_FACTOR,
            math.sqrt(2),
        ]


def test_lists_of_cells_come_off_the_budget_when_they_are_paid_for():
    others = ((StableSelection(epsilon=0.25, delta=1e-7), 2),)
    plan = make_plan("ron-gauss", make_table(300).shape, others=others)
    assert sum(release.event.epsilon for release in plan.releases) == pytest.approx(0.5, rel=1e-6)
    ledger = reserve(plan)
    ledger.reserve(make_release("cells", others[0][0], 2, mechanism="selection"))
    assert ledger.guarantee().delta == 1e-5
    with pytest.raises(PrivacyError, match="leave nothing"):
        make_plan("ron-gauss", make_table(300).shape, others=[(StableSelection(epsilon=1.0, delta=1e-7), 1)])


def test_gaussian_noise_is_asked_for_where_linked_rows_have_it():
    others = [(DiscreteGaussian(stddev=64.0, cells=1), 1)]
    with pytest.raises(PrivacyError, match=r"counts of linked rows, has Gaussian noise, .*--noise gaussian"):
        make_plan("ron-gauss", make_table(300).shape, others=others)
    plan = make_plan("ron-gauss", make_table(300).shape, others=others, noise="gaussian")
    assert 0 < reserve(plan).epsilon_reserved() < 1.0


MANY = CategoricalColumn(name="many", tokens=tuple(f"t{i}" for i in range(129)))


@pytest.mark.parametrize(
    ("columns", "settings", "words"),
    [
        (NARROW, {"label": "nowhere"}, "there is none named nowhere"),
        (NARROW, {"label": "age"}, "must be a column of categories"),
        (NARROW, {"label": "rate"}, "must be a column of categories"),
        (NARROW[:1], {"label": "letters"}, "besides its label"),
        ([MANY, NARROW[0]], {"label": "many"}, "129 classes"),
        (NARROW, {"projection_dimension": 1_000}, "at most 23"),
        (NARROW, {"projection": "cosine"}, "the projection cosine is for images"),
    ],
)
def test_setting_is_refused_by_name_when_it_cannot_be_had(columns, settings, words):
    with pytest.raises(UsageError, match=words):
        make_plan("ron-gauss", make_table(100, columns=columns).shape, **settings)


def test_columns_hang_together_when_the_table_holds_two_that_are_the_same():
    encoded = make_table(3_000, columns=[NARROW[0], NARROW[3], NARROW[4]])
    encoded.codes[:, 0] %= 5
    encoded.codes[:, 1] = encoded.codes[:, 0]
    for noise in ("laplace", "gaussian"):
        done = run("ron-gauss", encoded, epsilon=10.0, records=3_000, noise=noise)
        shares = np.bincount(done.sampled.codes[:, 0], minlength=5) / 3_000
        assert shares == pytest.approx(np.bincount(encoded.codes[:, 0], minlength=5) / 3_000, abs=0.03)
        assert np.mean(done.sampled.codes[:, 0] == done.sampled.codes[:, 1]) > 0.5
    # By classes it is exact, but for noise: within one, the other column has one value.
    done = run("ron-gauss", encoded, epsilon=30.0, records=3_000, label="letters")
    assert np.mean(done.sampled.codes[:, 0] == done.sampled.codes[:, 1]) > 0.9


def test_numbers_hang_together_when_one_rises_with_the_other():
    encoded = make_table(5_000, columns=[NARROW[4], NARROW[5]])
    encoded.codes[:] = 1  # available
    encoded.numbers[:, 1] = encoded.numbers[:, 0]
    done = run("ron-gauss", encoded, epsilon=10.0, records=5_000)
    # Ranks of a Gaussian, cut into a few dozen intervals: near 1, and 0 for independent columns.
    ranks = np.argsort(np.argsort(done.sampled.numbers, axis=0, kind="stable"), axis=0, kind="stable")
    there = done.sampled.codes[:, 0] == 1
    assert np.corrcoef(ranks[there].T)[0, 1] > 0.7


def test_projection_is_orthonormal_when_drawn():
    rng = np.random.default_rng(1)
    for width, dimension in ((5, 5), (30, 7), (1, 1), (4, 0)):
        found = draw_projection(width, dimension, rng=rng)
        np.testing.assert_allclose(found.T @ found, np.eye(dimension), atol=1e-12)
    signs = np.sign([draw_projection(3, 3, rng=rng)[0, 0] for _ in range(400)])
    assert abs(signs.sum()) < 120  # six stddevs: no side is preferred, which QR alone does


def test_nearest_semidefinite_matrix_is_found_when_eigenvalues_are_negative():
    rng = np.random.default_rng(2)
    noisy = rng.standard_normal((6, 6))
    noisy += noisy.T
    factor = project_on_semidefinite(noisy)
    nearest = factor @ factor.T
    assert np.linalg.eigvalsh(nearest).min() > -1e-12
    mine = np.linalg.norm(noisy - nearest)
    for _ in range(200):
        other = factor + 0.1 * rng.standard_normal((6, 6))
        assert np.linalg.norm(noisy - other @ other.T) >= mine
    done = np.diag([3.0, 1.0, 0.0])
    np.testing.assert_allclose(project_on_semidefinite(done) @ project_on_semidefinite(done).T, done, atol=1e-12)


def test_dimension_grows_with_rows_and_budget_when_it_is_chosen():
    shape = make_table(300).shape
    found = [make_plan("ron-gauss", shape, epsilon=epsilon).design.dimension for epsilon in (0.01, 1.0, 100.0)]
    assert found == sorted(found)
    assert found[0] < found[-1]
    events = [make_plan("ron-gauss", shape, noise=noise).design.covariance for noise in ("laplace", "gaussian")]
    assert all(choose_dimension(1, event) == 1 and choose_dimension(1e12, event) == 1_024 for event in events)
