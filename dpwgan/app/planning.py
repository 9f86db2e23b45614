"""What a run will spend, before it spends anything: budget, parts and the method's plan, from public facts alone.

Privacy: sees the specs, the settings and the public n. No row is within reach of this module.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from threadpoolctl import threadpool_limits

from dpwgan.app.config import SynthesisConfig, default_delta
from dpwgan.app.logs import LOGGER
from dpwgan.app.memory import BASE_BYTES, check_memory, choose_limit, gigabytes
from dpwgan.errors import DataError, PrivacyError, UsageError, quote
from dpwgan.marginals.one_way.one_ways import ONE_WAYS_LABEL
from dpwgan.marginals.selection.queries import ANSWER_LABEL
from dpwgan.marginals.selection.rank_correlations import CORRELATIONS_LABEL
from dpwgan.methods.base import Method
from dpwgan.methods.registry import get_method, make_settings, samples_units
from dpwgan.plan import Plan
from dpwgan.privacy.budget import Budget, NeighboringRelation, list_weaknesses
from dpwgan.privacy.events import DiscreteGaussian, StableSelection, Unprotected
from dpwgan.privacy.journal import Journal, Spent
from dpwgan.privacy.ledger import GIVEN_UP, Ledger, Observer
from dpwgan.privacy.noise_source import NoiseSource
from dpwgan.privacy.release import Release
from dpwgan.privacy.terms import RULES, AccountantChoice, Terms
from dpwgan.privacy.unit import Unit
from dpwgan.privacy.unit_counts import plan_links, plan_sizes
from dpwgan.table.calendar import CalendarColumn
from dpwgan.table.encoded import TableShape, lay_out_spans
from dpwgan.table.encoder import TableEncoder
from dpwgan.table.schema import CategoricalColumn, IdentifierColumn, Schema
from dpwgan.table.source import choose_step
from dpwgan.table.units.forms import list_forms
from dpwgan.table.units.links import TURNS, count_turns

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
# And to have a row hang together with others of its unit.
SECONDS_A_LINKED_ROW = 3e-5
_TIMES_WITH_RULES = 4


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """What one run will do with its budget.

    `discoveries` holds the event of each column whose list of cells has to be paid for; `spent` what the run charged
    under an earlier plan, before it was killed. `of_units` is what is released of units, where the output has them.
    """

    schema: Schema
    config: SynthesisConfig
    delta_chosen_by: str
    discoveries: Mapping[str, StableSelection]
    spent: tuple[Spent, ...]
    of_units: tuple[Release, ...]
    method: Method
    plan: Plan[Any]

    @property
    def shape(self) -> TableShape:
        """The public shape of the table; a guess where lists of cells have not been read yet."""
        return self.plan.shape

    @property
    def choice(self) -> AccountantChoice:
        """The accountant and why."""
        return self.plan.choice

    @property
    def terms(self) -> Terms:
        """The budget and the neighbours."""
        return self.choice.terms

    @property
    def undiscovered(self) -> bool:
        """Whether the shape still rests on a guess: lists that are paid for, or waived, have not been read yet."""
        return bool(self.schema.undiscovered)

    @property
    def seconds(self) -> float:
        """Estimate of the time that the run takes on two cores, from its start to the claim."""
        cells = self.shape.records * len(self.schema.columns)
        names, rules = ((), ()) if self.schema.unit is None else (self.schema.unit.linked, self.schema.unit.rules)
        of_moments = any(isinstance(self.schema.by_name[name], CalendarColumn) for name in names)
        # Few units may be put together of as many rows as a chunk has, which is one core's work.
        rows = max(self.shape.records, choose_step(len(self.schema.columns)))
        linked = float(rows * len(names))
        if self.schema.unit is not None:
            linked *= count_turns(self.schema.unit.max_rows, of_moments=of_moments) / TURNS
        # Rows are placed one by one, broken rules counted in each turn, and some units made anew.
        linked = _TIMES_WITH_RULES * linked + rows if rules else linked
        return START_SECONDS + cells * SECONDS_A_CELL + linked * SECONDS_A_LINKED_ROW + self.plan.cost.seconds

    def plan_memory(self) -> "MemoryPlan":
        """Where the rows lie: on disk, if they do not fit in the memory that the run may use with all else.

        Raises: ResourceError if all else does not fit either.
        """
        limit, needed, on_disk = choose_limit(self.config.memory), BASE_BYTES + self.plan.cost.memory_bytes, 0
        if needed > limit and self.plan.cost.row_bytes:
            needed -= self.plan.cost.row_bytes
            # The encoded table, and one of as many columns that a method makes of it, of groups.
            on_disk = self.shape.row_bytes + 2 * self.shape.records * len(self.shape.spans)
        check_memory(needed, limit=limit, spans=self.shape.spans)
        return MemoryPlan(limit=limit, needed=needed, on_disk=on_disk)

    @property
    def unprotected(self) -> Unprotected | None:
        """Why no guarantee can be stated, and what was published instead; None where one is stated."""
        events = (release.event for release in self.plan.releases)
        return next((event for event in events if isinstance(event, Unprotected)), None)

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
            self.terms.budget,
            accountant=self.choice.accountant,
            neighboring_relation=self.terms.neighboring_relation,
            unit=self.terms.unit,
            no_guarantee=self.unprotected is not None,
            journal=journal,
            source=source,
            observers=observers,
        )
        for line in self.spent:
            # What was given up is not drawn again: only noise on whole counts has a sensitivity to agree with.
            moved = line.event.sensitivity if isinstance(line.event, DiscreteGaussian) else 1.0
            lost = Release(label=line.label, event=line.event, times=line.count, mechanism=GIVEN_UP, sensitivity=moved)
            ledger.reserve(lost, as_charged=True)
        shared = () if self.schema.unit is None else self.schema.unit.shared
        for column, event in self.discoveries.items():
            how, label = "stable selection of a column's cells", discovery_label(column)
            # What all rows of a unit have in common is counted once, so that a unit is as a row.
            how += COUNTED_ONCE if column in shared else ""
            release = Release(label=label, event=event, times=1, mechanism=how, sensitivity=1.0)
            ledger.reserve(release, as_charged=column in shared)
        for release in self.of_units:
            ledger.reserve(release, as_charged=True)
        if not self.undiscovered:
            self.reserve_training(ledger)
        return ledger

    def foresee(self, journal: Journal | None = None) -> Ledger:
        """A ledger to be looked at, with all that the run will reserve, as far as a guess where lists are to be read.

        Raises: as `open_ledger`.
        """
        ledger = self.open_ledger(journal)
        if self.undiscovered:
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
        rule = chosen.accountant.name if chosen.accountant.name in RULES else self.terms.accountant_rule
        terms = replace(self.terms, accountant_rule=rule)
        plan = _plan_method(schema, records=self.shape.records, config=self.config, terms=terms)
        choice = replace(plan.choice, terms=self.terms, reason=chosen.reason)
        return replace(self, schema=schema, plan=replace(plan, choice=choice))

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


# One-way counts whose noise has such a share of all rows as its stddev leave little of a table.
_MUCH_NOISE = 0.03
# Of lists of which each cell has so many times fewer rows in the mean, they leave little but the frequent cells.
_MUCH_NOISE_OF_LISTS = 2.5
# Columns that are named where any may say whose a row is.
_MOST_NAMED = 5


COUNTED_ONCE = ", each unit counted once"
"""How the ledger says that a list of cells costs a unit what it costs a row."""


def discovery_label(column: str) -> str:
    """Names a column's discovery in the ledger."""
    return f"cells of {column}"


def plan_run(schema: Schema, *, records: int, config: SynthesisConfig, spent: tuple[Spent, ...] = ()) -> RunPlan:
    """Plans a run for a table of `records` rows, with what is not `spent` of the budget.

    Privacy: see the module; warns where delta is above 1/n, since one row in n could then be shown outright.
    Raises: UsageError, PrivacyError if the budget cannot be met, DataError for a table without rows.
    """
    if records < 1:
        raise DataError("the table has no rows")
    delta = config.delta if config.delta is not None else default_delta(records)
    budget = Budget(epsilon=config.epsilon, delta=delta)
    for weakness in list_weaknesses(budget, records=records):
        LOGGER.warning("%s", weakness)
    paid_for = [column.name for column in schema.undiscovered if column.privacy == "private"]
    parts = max(len(paid_for), 1)
    event = StableSelection(epsilon=DISCOVERY_SHARE * budget.epsilon / parts, delta=DISCOVERY_SHARE * delta / parts)
    unit = choose_unit(schema, config)
    terms = Terms(
        budget=budget,
        unit=unit,
        neighboring_relation=NeighboringRelation.read(config.neighbours),
        accountant_rule=config.accountant,
        other_charges=(
            *((event, 1) for _ in paid_for),
            *((line.event, line.count) for line in spent),
        ),
    )
    of_units: tuple[Release, ...] = ()
    if schema.unit is not None and schema.unit.has_sizes:
        sizes, linked = plan_sizes(terms), len(schema.unit.linked)
        of_units = (sizes, plan_links(terms, columns=linked)) if linked else (sizes,)
        terms = replace(terms, other_charges=(*terms.other_charges, *(release.charge for release in of_units)))
        if schema.unit.kind_of_row is not None and (forms := len(list_forms(schema))) * sizes.stddev > records:
            LOGGER.warning(
                "units have %s forms by their rows of each kind, and noise of %.0f on each count is more than all "
                "rows: most forms written will be chance; leave 'kind' out, or keep fewer rows of a unit",
                f"{forms:,}",
                sizes.stddev,
            )
    rule = "1/n^2" if records > 1 else "1/4, as for n = 2"
    run_plan = RunPlan(
        schema=schema,
        config=config,
        delta_chosen_by="asked for" if config.delta is not None else f"default: {rule}",
        discoveries=dict.fromkeys(paid_for, event),
        spent=spent,
        of_units=of_units,
        method=get_method(config.method),
        plan=_plan_method(schema, records=records, config=config, terms=terms),
    )
    _refuse_other_guarantee(run_plan)
    names = [column.name for column in schema.columns if isinstance(column, IdentifierColumn) or not column.is_written]
    if names and unit.is_row and config.rows_per_unit is None and run_plan.unprotected is None:
        LOGGER.warning(
            "what is protected is one row: if column %s says whose a row is and somebody may have several, name it as "
            'the "unit" in the specs; --rows-per-unit 1 says that nobody has',
            " or ".join(quote(name) + " (the one without a name)" * (not name) for name in names[:_MOST_NAMED]),
        )
    return run_plan


def warn_of_noise(run_plan: RunPlan) -> None:
    """Says so where noise leaves little of a table or a list, or lets few columns be tied to each other.

    Privacy: sees public facts only.
    """
    records = run_plan.shape.records
    # How many rows a unit has is written in no file, and listed by no specs.
    lists = [own for own in run_plan.schema.columns if isinstance(own, CategoricalColumn) and own.is_written]
    for stddev in [line.stddev for line in run_plan.plan.releases if line.label == ONE_WAYS_LABEL]:
        if stddev > _MUCH_NOISE * records:
            LOGGER.warning(
                "noise of %.0f on each count is %.0f%% of the rows: what fewer rows have in common, and the tails of "
                "numbers, will be chance; a larger epsilon, more rows or fewer of each unit would help",
                stddev,
                100.0 * stddev / records,
            )
        if hidden := [each for each in lists if len(each.tokens) * stddev > _MUCH_NOISE_OF_LISTS * records]:
            LOGGER.warning(
                "noise of %.0f on each count hides most cells of %s: many rows written will have one that no real row "
                "has; list fewer cells, or coarser ones (docs/specs.md, Helping columns)",
                stddev,
                ", ".join(f"{quote(each.name)} ({len(each.tokens):,})" for each in hidden[:_MOST_NAMED]),
            )
    asked = {line.label: line.times for line in run_plan.plan.releases}
    answers, joined = asked.get(ANSWER_LABEL, 0), len(run_plan.shape.spans) - 1
    if 0 < answers < joined / 2 and CORRELATIONS_LABEL not in asked:
        LOGGER.warning(
            "the budget pays for %d pairs of columns, and it takes %d to tie all of them together: most will have "
            "nothing to do with each other in the output; a larger epsilon, more rows or fewer columns would help",
            answers,
            joined,
        )


def choose_unit(schema: Schema, config: SynthesisConfig) -> Unit:
    """Whose rows are protected together. Raises: UsageError if specs and settings both say how many they are."""
    if schema.unit is None:
        return Unit(rows=config.rows_per_unit or 1)
    if config.rows_per_unit is not None:
        raise UsageError("the specs name a unit, and how many rows it keeps: leave --rows-per-unit out")
    # Rows that are dropped are not told apart from those of whom they are; one row of each needs no units.
    whole = schema.unit.max_rows > 1 and not schema.drops_rows
    settings = make_settings(config.method, **config.training)
    return Unit(
        rows=schema.unit.max_rows, named=schema.unit.name, sampled=whole and samples_units(config.method, settings)
    )


def resume_plan(run_plan: RunPlan, journal: Journal) -> RunPlan:
    """The plan that the run of a journal goes on with: its own, or if that was given up one of the budget that is left.

    Privacy: all plans of a run are together within its budget. That some of it was planned anew shows when the run was
      killed, which must not depend on rows.
    Raises: PrivacyError if too little is left.
    """
    spent, budget = journal.spent, run_plan.terms.budget
    if not spent:
        return run_plan
    alone = replace(run_plan.terms, other_charges=tuple((line.event, line.count) for line in spent))
    epsilon = alone.get_epsilon(run_plan.choice.accountant)
    if epsilon > _MOST_SPENT * budget.epsilon:
        raise PrivacyError(
            "The run was stopped while what it cannot do without was being released; that is spent, and too little of "
            "the budget is left to release it again: begin anew in another folder, with a budget of its own"
        )
    return plan_run(run_plan.schema, records=run_plan.shape.records, config=run_plan.config, spent=spent)


def _plan_method(schema: Schema, *, records: int, config: SynthesisConfig, terms: Terms) -> Plan[Any]:
    cells = tuple(f"cell {number}" for number in range(ASSUMED_CATEGORIES))
    lists = (CategoricalColumn(name=own.name, tokens=cells, domain=own.privacy) for own in schema.undiscovered)
    assumed = schema.put(*lists)
    rules = TableEncoder(assumed, tuple(filter(assumed.is_written, assumed.by_name))).list_rules()
    shape = TableShape(records=records, spans=lay_out_spans(assumed), image=schema.layout, rules=rules)
    method = get_method(config.method)
    # The accountants' products are so small that threads would do nothing but wait for each other.
    with threadpool_limits(limits=1):
        return method.plan(shape, terms, settings=make_settings(config.method, **config.training))


def _refuse_other_guarantee(run_plan: RunPlan) -> None:
    """Raises: UsageError if there is a guarantee where none was asked for, or none where one was."""
    config, schema, unprotected = run_plan.config, run_plan.schema, run_plan.unprotected
    if unprotected is None:
        if config.no_guarantee:
            raise UsageError(
                f"--no-guarantee is for methods that have none; {config.method} has one with these settings: leave it "
                "out"
            )
        return
    none = f"the method {config.method} has no guarantee with these settings, and"
    if schema.unit is not None or config.rows_per_unit is not None:
        raise UsageError(f"{none} there is none for a unit: leave the unit out")
    if schema.drops_rows:
        raise UsageError(
            f'{none} its batches are of all rows: it cannot drop those that break a rule ("violations": "drop")'
        )
    if not config.no_guarantee:
        raise UsageError(f"{none} runs only with --no-guarantee: {unprotected.reason}")
    if config.checkpoint is not None:
        raise UsageError(f"{none} keeps no checkpoint")
