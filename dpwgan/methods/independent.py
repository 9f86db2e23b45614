"""Independent noisy one-way marginals: the baseline that every other method has to beat, and nothing of a paper."""

from collections.abc import Mapping
from typing import Any

from dpwgan.marginals.anchor import AnchorPlan, fit_anchor, plan_anchor
from dpwgan.marginals.mixture_sampler import MixtureSampler
from dpwgan.marginals.serving import RowServer
from dpwgan.marginals.settings import AnchorSettings
from dpwgan.methods.base import Progress
from dpwgan.plan import Plan, Terms
from dpwgan.privacy.ledger import Ledger
from dpwgan.privacy.randomness import Streams
from dpwgan.settings import MethodSettings
from dpwgan.table.encoded import EncodedTable, TableShape
from dpwgan.table.workers import Task, Team


class Independent:
    """Draws every column by itself, from its noisy counts.

    Privacy: one Gaussian release of all one-way counts; see docs/privacy.md.
    """

    name = "independent"
    title = "Independent noisy one-way marginals"
    paper = "none: a baseline of Gaussian noise on one-way counts (Dwork and Roth 2014, Appendix A)"

    def make_settings(self, **asked: Any) -> MethodSettings:
        """Takes no settings. Raises: UsageError for any."""
        return MethodSettings.make(self.name, asked)

    def plan(self, shape: TableShape, terms: Terms, *, settings: MethodSettings) -> Plan[AnchorPlan]:
        """Fixes the noise. Privacy: sees the public shape only. Raises: PrivacyError."""
        return plan_anchor(shape, terms, kind="one-ways", settings=AnchorSettings())

    def fit(
        self,
        encoded: EncodedTable,
        plan: Plan[AnchorPlan],
        *,
        streams: Streams,
        ledger: Ledger,
        progress: Progress,
        device: str = "auto",
        threads: int | None = None,
        team: Team | None = None,
    ) -> MixtureSampler:
        """Releases the one-way counts. Privacy: charged before rows are read. Raises: PrivacyError.

        `device` and `threads` have nothing to do here.
        """
        fitted = fit_anchor(encoded, plan.design, streams=streams, ledger=ledger, progress=progress, team=team)
        return MixtureSampler(probabilities=fitted.generator.probabilities(), coarsening=fitted.coarsening)

    def check_shared(self, plan: Plan[AnchorPlan]) -> None:
        """Has nothing to refuse: counts can always be added up."""

    def make_tasks(
        self, encoded: EncodedTable, plan: Plan[AnchorPlan], *, streams: Streams, ledger: Ledger
    ) -> Mapping[str, Task]:
        """Gives what another worker than the chief does with its own rows when asked."""
        return RowServer(encoded, plan.design.one_way_plan).tasks
