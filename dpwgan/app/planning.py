"""What a run will spend, before it spends anything: budget, parts and the method's plan, from public facts alone.

Privacy: sees the specs, the settings and the public n. No row is within reach of this module.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from threadpoolctl import threadpool_limits

from dpwgan.app.config import SynthesisConfig, default_delta
from dpwgan.app.logs import LOGGER
from dpwgan.app.memory import BASE_BYTES, gigabytes
from dpwgan.errors import DataError, PrivacyError, UsageError
from dpwgan.methods.registry import get_method
from dpwgan.plan import Plan, Terms
from dpwgan.privacy.budget import Budget, NeighboringRelation
from dpwgan.privacy.choose import AccountantChoice
from dpwgan.privacy.events import DiscreteGaussian, StableSelection, Unprotected, stable_selection
from dpwgan.privacy.journal import Journal, Spent
from dpwgan.privacy.ledger import GIVEN_UP, Ledger, Observer
from dpwgan.privacy.noise_source import NoiseSource
from dpwgan.privacy.release import Release
from dpwgan.table.encoded import TableShape, lay_out_spans
from dpwgan.table.schema import CategoricalColumn, Column, Schema, UndiscoveredColumn
from dpwgan.version import __version__

# Lists of cells are found with a tenth of the budget, in equal parts: a column's list is worth little without the rest.
DISCOVERY_SHARE = 0.1
# Before discovery the number of cells is not known: plan as if it were this many, and plan again afterwards.
ASSUMED_CATEGORIES = 100

# A run is planned anew with what is left of its epsilon, but not with less than a tenth: that would be noise alone.
_MOST_SPENT = 0.9

# The interpreter with what every run imports; and what it takes to read a cell, check it, and write one like it: of CSV
# of 10 to 98 columns, and of images of 785, on two cores of a shared server (benchmarks/estimates.py).
START_SECONDS = 0.9
SECONDS_A_CELL = 2e-7

RELATIONS = {"zero-out": NeighboringRelation.ZERO_OUT, "replace-one": NeighboringRelation.REPLACE_ONE}


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """What one run will do with its budget.

    `discoveries` holds the event of each column whose list of cells has to be paid for; `spent` what the run charged
    under an earlier plan, before it was killed; `undiscovered` says whether the
    shape still rests on a guess because such lists, or waived ones, have not been read yet.
    """

    schema: Schema
    config: SynthesisConfig
    budget: Budget
    delta_chosen_by: str
    relation: NeighboringRelation
    shape: TableShape
    discoveries: Mapping[str, StableSelection]
    spent: tuple[Spent, ...]
    undiscovered: bool
    method: Any
    plan: Plan[Any]
    choice: AccountantChoice

    @property
    def memory_bytes(self) -> int:
        """Estimate of the memory that training takes, the interpreter and TensorFlow included."""
        return BASE_BYTES + self.plan.cost.memory_bytes

    @property
    def seconds(self) -> float:
        """Estimate of the time that the run takes on two cores, from its start to the claim."""
        cells = self.shape.records * len(self.schema.columns)
        return START_SECONDS + cells * SECONDS_A_CELL + self.plan.cost.seconds

    def fit_into(self, limit: int) -> "MemoryPlan":
        """Says where the rows lie if the run may use `limit` bytes of memory: on disk, if they do not fit beside it."""
        needed = self.memory_bytes
        if needed <= limit or not self.plan.cost.row_bytes:
            return MemoryPlan(limit=limit, needed=needed, on_disk=0)
        # The encoded table, and one of as many columns that a method makes of it.
        on_disk = 2 * 4 * self.shape.records * len(self.shape.spans)
        return MemoryPlan(limit=limit, needed=needed - self.plan.cost.row_bytes, on_disk=on_disk)

    @property
    def unprotected(self) -> Unprotected | None:
        """Why no guarantee can be stated, and what was published instead; None where one is stated."""
        events = (release.event for release in self.plan.releases)
        return next((event for event in events if isinstance(event, Unprotected)), None)

    @property
    def accountant(self) -> dict[str, Any]:
        """Which accountant was chosen, why, and what the others would have said; None where one has no answer."""
        choice = self.choice
        return {
            "name": choice.accountant.name,
            "version": choice.accountant.version,
            "rule": choice.rule,
            "reason": choice.reason,
            "alternatives": [
                {"name": accountant.name, choice.noise_unit: _or_none(noise), "epsilon": _or_none(epsilon)}
                for accountant, noise, epsilon in choice.alternatives
            ],
        }

    def open_ledger(
        self,
        journal: Journal | None = None,
        *,
        source: NoiseSource | None = None,
        observers: Sequence[Observer] = (),
    ) -> Ledger:
        """Opens the ledger and reserves every act, so that one that cannot be paid for is refused here.

        `source`: where noise comes from; without one the ledger is there to be looked at. `observers` are shown what is
        released. With the `journal` of an earlier life of the run, it starts with what that one charged.
        Raises: PrivacyError if the parts together would pass the budget; UsageError if another plan was charged.
        """
        ledger = Ledger(
            self.budget,
            accountant=self.choice.accountant,
            neighboring_relation=self.relation,
            no_guarantee=self.unprotected is not None,
            journal=journal,
            source=source,
            observers=observers,
        )
        for line in self.spent:
            # What was given up is not drawn again: only noise on whole counts has a sensitivity to agree with.
            cells = line.event.cells if isinstance(line.event, DiscreteGaussian) else 1
            lost = Release(
                label=line.label, event=line.event, times=line.count, mechanism=GIVEN_UP, sensitivity=math.sqrt(cells)
            )
            ledger.reserve(lost)
        for column, event in self.discoveries.items():
            mechanism = "stable selection of a column's cells"
            ledger.reserve(
                Release(label=discovery_label(column), event=event, times=1, mechanism=mechanism, sensitivity=1.0)
            )
        if not self.undiscovered:
            self.reserve_training(ledger)
        return ledger

    def reserve_training(self, ledger: Ledger) -> None:
        """Reserves the acts of the method. Raises: PrivacyError if they would pass the budget."""
        for release in self.plan.releases:
            ledger.reserve(release)

    def after_discovery(self, schema: Schema) -> "RunPlan":
        """Plans again with the lists of cells that were released, under the accountant that the ledger has already.

        That accountant was chosen once, by the rule and for the reason that the plan goes on naming.
        """
        chosen = self.choice
        again = _plan(
            schema,
            records=self.shape.records,
            config=self.config,
            accountant_rule=chosen.accountant.name,
            budget=self.budget,
            delta_chosen_by=self.delta_chosen_by,
            discoveries=self.discoveries,
            spent=self.spent,
        )
        return replace(again, choice=replace(again.choice, rule=chosen.rule, reason=chosen.reason))

    def refuse_unless_for(self, schema: Schema, *, records: int, config: SynthesisConfig) -> None:
        """Makes sure that this plan was made for these specs, these settings and a table of `records` rows.

        Privacy: the sampling probability, the noise and the default of delta are right for the planned n only.
        Raises: UsageError.
        """
        if self.shape.records != records:
            raise UsageError(f"the plan is for a table of {self.shape.records} rows; this one has {records}")
        if self.config != config:
            raise UsageError("the plan was made with other settings than this synthesizer's")
        if self.schema != schema:
            raise UsageError("the plan was made for other specs than this synthesizer's")


@dataclass(frozen=True, kw_only=True)
class MemoryPlan:
    """Where the rows of a run lie. Units: bytes, estimates but for the limit; `on_disk` is 0 for rows in memory."""

    limit: int
    needed: int
    on_disk: int

    def describe(self) -> str:
        """Says it in words."""
        rows = f"; the rows are kept on disk, about {gigabytes(self.on_disk)} in TMPDIR" if self.on_disk else ""
        return f"about {gigabytes(self.needed)} of {gigabytes(self.limit)}{rows}"


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def discovery_label(column: str) -> str:
    """Names a column's discovery in the ledger."""
    return f"cells of {column}"


def plan_run(schema: Schema, *, records: int, config: SynthesisConfig, spent: tuple[Spent, ...] = ()) -> RunPlan:
    """Turns what was asked for into a plan for a table of `records` rows, with what is not `spent` of the budget.

    Privacy: see the module; warns where delta is above 1/n, since one row in n could then be shown outright.
    Raises: UsageError, PrivacyError if the budget cannot be met, DataError for a table without rows.
    """
    if records < 1:
        raise DataError("the table has no rows")
    delta = config.delta if config.delta is not None else default_delta(records)
    if records > 1 and delta > 1.0 / records:
        LOGGER.warning("delta %.4g is above 1/n = %.4g: a whole row may be shown now and then", delta, 1 / records)
    budget = Budget(epsilon=config.epsilon, delta=delta)
    paid_for = [
        column.name
        for column in schema.columns
        if isinstance(column, UndiscoveredColumn) and column.privacy == "private"
    ]
    parts = max(len(paid_for), 1)
    event = stable_selection(epsilon=DISCOVERY_SHARE * budget.epsilon / parts, delta=DISCOVERY_SHARE * delta / parts)
    rule = "1/n^2" if records > 1 else "1/4, as for n = 2"
    # The accountants' products are so small that threads would do nothing but wait for each other.
    with threadpool_limits(limits=1):
        return _plan(
            schema,
            records=records,
            config=config,
            accountant_rule=config.accountant,
            budget=budget,
            delta_chosen_by="asked for" if config.delta is not None else f"default: {rule}",
            discoveries=dict.fromkeys(paid_for, event),
            spent=spent,
        )


def describe_facts(config: SynthesisConfig, **table: Any) -> dict[str, Any]:
    """Lists the public facts that decide a plan, each under the words for it; a run is resumed under the same only.

    `table`: what is public about the table, `records`, `header`, and the digests of `specs` and `codebook`.
    """
    return {
        "version of the tool": __version__,
        "number of rows": table["records"],
        "header": table["header"],
        "specs file": table["specs"],
        "codebook": table["codebook"],
        "epsilon": config.epsilon,
        "delta": config.delta,
        "method": config.method,
        "accountant": config.accountant,
        "neighbours": config.neighbours,
        "preset": config.preset,
        "seed": config.seed,
        **{key.replace("_", "-"): value for key, value in config.settings.items()},
    }


def resume_plan(run_plan: RunPlan, journal: Journal) -> RunPlan:
    """Gives the plan under which the run of a journal goes on.

    It is the one that it had, unless that was given up: then what is left of the budget is planned anew.
    Privacy: all plans of a run are together within its budget. That some of it was planned anew shows when the run was
      killed, which must not depend on rows.
    Raises: PrivacyError if too little is left.
    """
    spent = journal.spent
    if not spent:
        return run_plan
    budget = run_plan.budget
    epsilon = run_plan.choice.accountant.get_epsilon(
        [(line.event, line.count) for line in spent],
        delta=budget.delta,
        neighboring_relation=run_plan.relation,
    )
    if epsilon > _MOST_SPENT * budget.epsilon:
        raise PrivacyError(
            "The run was stopped while what it cannot do without was being released; that is spent, and too little of "
            "the budget is left to release it again: begin anew in another folder, with a budget of its own"
        )
    return plan_run(run_plan.schema, records=run_plan.shape.records, config=run_plan.config, spent=spent)


def _plan(
    schema: Schema,
    *,
    records: int,
    config: SynthesisConfig,
    accountant_rule: str,
    budget: Budget,
    delta_chosen_by: str,
    discoveries: Mapping[str, StableSelection],
    spent: tuple[Spent, ...],
) -> RunPlan:
    undiscovered = any(isinstance(column, UndiscoveredColumn) for column in schema.columns)
    shape = TableShape(records=records, spans=lay_out_spans(_assume_lists(schema)), image=schema.layout)
    relation = RELATIONS[config.neighbours]
    method = get_method(config.method)
    plan = method.plan(
        shape,
        Terms(
            budget=budget,
            neighboring_relation=relation,
            accountant_rule=accountant_rule,
            other_charges=(
                *((event, 1) for event in discoveries.values()),
                *((line.event, line.count) for line in spent),
            ),
        ),
        settings=method.make_settings(**config.training),
    )
    run_plan = RunPlan(
        schema=schema,
        config=config,
        budget=budget,
        delta_chosen_by=delta_chosen_by,
        relation=relation,
        shape=shape,
        discoveries=discoveries,
        spent=spent,
        undiscovered=undiscovered,
        method=method,
        plan=plan,
        choice=plan.choice,
    )
    unprotected = run_plan.unprotected
    if unprotected is not None and not config.no_guarantee:
        raise UsageError(
            f"the method {config.method} has no guarantee with these settings, and runs only with --no-guarantee: "
            f"{unprotected.reason}"
        )
    if unprotected is not None and config.checkpoint is not None:
        raise UsageError(f"the method {config.method} has no guarantee with these settings, and keeps no checkpoint")
    if unprotected is None and config.no_guarantee:
        raise UsageError(
            f"--no-guarantee is for methods that have none; {config.method} has one with these settings: leave it out"
        )
    return run_plan


def _assume_lists(schema: Schema) -> Schema:
    def assume(column: Column) -> Column:
        if not isinstance(column, UndiscoveredColumn):
            return column
        cells = tuple(f"cell {number}" for number in range(ASSUMED_CATEGORIES))
        return CategoricalColumn(name=column.name, tokens=cells, domain=column.privacy)

    return replace(schema, columns=tuple(assume(column) for column in schema.columns))
