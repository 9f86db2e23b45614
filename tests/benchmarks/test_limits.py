"""The switches do what they say, inside their block alone: a figure by a switch that does nothing would say nothing."""

import numpy as np

from benchmarks import limits
from dpwgan.marginals.anchor import FittedAnchor, fit_anchor
from dpwgan.marginals.anchor_plan import plan_anchor
from dpwgan.marginals.settings import AnchorSettings
from dpwgan.privacy.events import ExponentialSelection
from tests.counts import count_marginal
from tests.ledgers import make_release, open_ledger
from tests.methods.runs import make_table, reserve
from tests.plans import make_terms
from tests.rows import make_run


def fit() -> FittedAnchor:
    encoded = make_table(300)
    plan = plan_anchor(
        encoded.shape,
        make_terms(epsilon=0.5),
        kind="queries",
        settings=AnchorSettings(rounds=2, codes=30, fit_steps=5),
    )
    return fit_anchor(make_run(encoded, ledger=reserve(plan), seed=3), plan.design)


def find_errors(fitted: FittedAnchor) -> list[float]:
    """How far each answer of two columns or more is from the count, in records, at most."""
    table, groups = fitted.table, fitted.table.rows.own.groups
    views = table.measured.views
    errors = []
    for marginal in table.measured:
        if len(marginal) > 1:
            counts = views.join(count_marginal(groups, views.find_attributes(marginal), table.layout), marginal)
            errors.append(float(np.abs(table.measured.get_shares(marginal) * len(groups) - counts).max()))
    return errors


def test_answers_are_exact_when_noise_is_off_and_not_when_it_is_on_again():
    with limits.without_noise():
        exact = find_errors(fit())
    assert exact
    assert max(exact) < 0.01
    assert min(find_errors(fit())) > 0.1


def test_the_best_is_selected_when_there_is_no_selection_error():
    with limits.without_selection_error():
        ledger = open_ledger([make_release("line", ExponentialSelection(epsilon=1e-9))])
        assert ledger.select("line", lambda: [1.0, 5.0, 2.0]) == 1
