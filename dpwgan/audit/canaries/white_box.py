"""The bound of an attacker who is shown every release, and knows every row but one: how loud is that one canary?

One run with the canary is recorded. It is replayed with the canary null, so that both worlds have one history: what
differs before the noise is the canary's influence, known exactly. What was added is the noise; its stddev is bounded
from above by a chi-square interval over all numbers released. A canary of influence a in Gaussian noise of stddev s is
as private as one Gaussian release with noise multiplier s/a, and such releases compose as accountants say; here from
below. So the bound needs one or two runs where a black-box attacker needs tens of thousands.

What it assumes: that the noise is Gaussian, centred and of one stddev within a line of the ledger (of the
critic: within one weight tensor), independent of the rows. If the mechanism is what the ledger says, all of this
holds, and the bound passes the claim with `failure_probability` at most. Noise used twice is looked for in the
differences of neighbouring releases, from which it drops out. Selections and lists of cells are seen, but not bounded;
neither is, in effect, what is drawn once and is one number: a stddev cannot be bounded by that. A line of the ledger of
which fewer acts were seen than it holds fails the audit: its bounds would speak of something else than the run.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from dpwgan.app.fitting import fit_rows
from dpwgan.app.planning import RunPlan
from dpwgan.array_types import Floats
from dpwgan.audit.canaries.lower_bound import MOST_EPSILON, Signal, bound_stddev, epsilon_of_signals
from dpwgan.audit.canaries.watch import Record, Seen, choose_units, replay
from dpwgan.errors import AuditError
from dpwgan.marginals.one_way.one_ways import LOOK
from dpwgan.privacy.events import PoissonGaussian
from dpwgan.privacy.noise_source import NoiseSource
from dpwgan.privacy.randomness import make_streams
from dpwgan.privacy.release import Release
from dpwgan.table.encoded import EncodedTable
from dpwgan.table.units.units import Units

_LEAST_STDDEV = 1e-9


@dataclass(frozen=True, kw_only=True)
class LineBound:
    """One line of the ledger: what it claims and what was measured.

    Units: noise multipliers are stddevs over sensitivities; `influence` is the largest influence of the canary in one
    release, in sensitivities. `claimed_epsilon` and `found` are epsilons of the line by itself, at the claim's delta.
    What is measured is None for a line that was seen and is not bounded.
    """

    label: str
    releases: int
    influence: float | None = None
    noise_multiplier_claimed: float | None = None
    noise_multiplier_measured_at_most: float | None = None
    claimed_epsilon: float
    found: float | None = None
    passes_the_claim: bool = False


@dataclass(frozen=True, kw_only=True)
class WhiteBoxBound:
    """Lower bounds on the epsilon of a whole run and of each line of its ledger, all together at the confidence.

    Privacy: private statistics of the table and the run; not covered by epsilon.
    """

    found: float
    claimed: float
    delta: float
    lines: tuple[LineBound, ...]

    @property
    def passes_the_claim(self) -> bool:
        """Whether the run, or a line of it, is less private than claimed."""
        return self.found > self.claimed or any(line.passes_the_claim for line in self.lines)


def audit_releases(
    encoded: EncodedTable,
    run_plan: RunPlan,
    *,
    canary: int,
    failure_probability: float = 0.05,
    seed: int | None = None,
    make_source: type[NoiseSource] = NoiseSource,
    units: Units | None = None,
) -> WhiteBoxBound:
    """Fits once with the canary, replays the run with it null, and bounds epsilon from below.

    Privacy: reads rows twice and charges a ledger of its own: the result is a private statistic.
    `canary`: the row, or of `units` the one, that comes and goes. Where steps sample rows and not units only the first
    row of it is watched in them: a bound that holds, and is low.
    `seed` makes the run repeatable; noise comes from the operating system else.
    `make_source`: for tests of the audit, what makes another source of noise than the tool's.
    Raises: AuditError if part of what the ledger holds was not seen; else as the method's fit.
    """
    streams = make_streams(seed)
    # The generator's draws decide nothing about privacy, and both worlds must share them.
    model_seed = int(streams.model.integers(2**63))
    gone = (np.arange(encoded.records) if units is None else units.of_rows) == canary
    record = Record(canary=canary if run_plan.terms.unit.sampled else int(np.argmax(gone)))
    ledger = run_plan.open_ledger(source=make_source(noise=streams.noise, batches=streams.batches), observers=[record])
    fit_rows(encoded, run_plan, ledger=ledger, model=np.random.default_rng(model_seed), units=units)
    refuse_unseen(ledger.releases, record)
    influences: list[Floats] = []
    if record.seen:
        without = replay(
            encoded.take(~gone),
            run_plan,
            record,
            model=np.random.default_rng(model_seed),
            streams=streams,
            units=choose_units(units, ~gone),
        )
        influences = [seen.exact - other for seen, other in zip(record.seen, without, strict=True)]
    return bound_record(
        record, influences, run_plan, claimed=ledger.guarantee().epsilon, failure_probability=failure_probability
    )


def refuse_unseen(releases: Sequence[Release], record: Record) -> None:
    """Raises: AuditError for the lines of a ledger of which not every act went by the record."""
    unseen = [
        f"{release.label} ({record.times[release.label]} of {release.times})"
        for release in releases
        if record.times[release.label] != release.times
    ]
    if unseen:
        raise AuditError(f"the audit did not see all that the ledger holds, and proves nothing: {', '.join(unseen)}")


def bound_record(
    record: Record,
    influences: Sequence[Floats],
    run_plan: RunPlan,
    *,
    claimed: float,
    failure_probability: float,
) -> WhiteBoxBound:
    """Turns what was recorded into bounds. Each stddev bounded gets an equal part of the failure probability."""
    choice, releases = run_plan.choice, run_plan.plan.releases
    noisy = {seen.line for seen in record.seen}
    share = failure_probability / max(1, 2 * len(noisy) + 2 * len(record.sizes))
    delta = choice.terms.budget.delta
    signals: list[Signal] = []
    bounds: list[LineBound] = []
    for release in releases:
        alternative = 0.0
        claimed_alone = replace(choice.terms, other_charges=()).get_epsilon(choice.accountant, [release.charge])
        line = LineBound(label=release.label, releases=record.times[release.label], claimed_epsilon=claimed_alone)
        if isinstance(release.event, PoissonGaussian):
            signal, noise, influence, alternative = _measure_steps(record, release.event, share=share, delta=delta)
        elif release.label in noisy:
            own = [pair for pair in zip(record.seen, influences, strict=True) if pair[0].line == release.label]
            # Looks of one plan have noise of one stddev: the few counts of a late look would bound it badly.
            looks = [seen for seen in record.seen if seen.line.split(LOOK)[0] == release.label.split(LOOK)[0]]
            signal, noise, influence = _measure_releases(*zip(*own, strict=True), looks=looks, share=share)
        else:
            bounds.append(line)  # a selection
            continue
        signals.append(signal)
        line_found = max(alternative, epsilon_of_signals([signal], delta=delta))
        bounds.append(
            replace(
                line,
                influence=influence,
                noise_multiplier_claimed=release.stddev / choice.terms.unit.scale_release(release).sensitivity,
                noise_multiplier_measured_at_most=noise,
                found=line_found,
                passes_the_claim=line_found > claimed_alone,
            )
        )
    # A line by itself is part of the run: its bound is one of the run.
    found = max((line.found for line in bounds if line.found is not None), default=0.0)
    if len(signals) > 1:
        found = max(found, epsilon_of_signals(signals, delta=delta))
    return WhiteBoxBound(found=found, claimed=claimed, delta=delta, lines=tuple(bounds))


def _measure_releases(
    releases: Sequence[Seen], influences: Sequence[Floats], *, share: float, looks: Sequence[Seen]
) -> tuple[Signal, float, float]:
    """Bounds a line of releases on all rows. Returns the signal in all, the noise's stddev and the largest influence.

    `looks`: releases with noise of the same stddev, in the unit of the values, these among them.

    The larger of two signals: that of the releases as they are, and that of the differences of the first and second,
    third and fourth of equal size, where noise that is used twice drops out.
    """
    noise = [release.noise for release in releases]
    alike = [look.noise * (look.sensitivity / releases[0].sensitivity) for look in looks]
    stddev = bound_stddev(
        float(sum(np.square(part).sum() for part in alike)),
        samples=sum(part.size for part in alike),
        failure_probability=share,
    )
    signal = math.sqrt(sum(float(np.square(part).sum()) for part in influences)) / max(stddev, _LEAST_STDDEV)
    waiting: dict[int, int] = {}
    squares, moved, samples = 0.0, 0.0, 0
    for position, part in enumerate(noise):
        if part.size not in waiting:
            waiting[part.size] = position
            continue
        first = waiting.pop(part.size)
        squares += float(np.square(part - noise[first]).sum())
        moved += float(np.square(influences[position] - influences[first]).sum())
        samples += part.size
    of_difference = bound_stddev(squares, samples=samples, failure_probability=share)
    signal = max(signal, math.sqrt(moved) / max(of_difference, _LEAST_STDDEV))
    return Signal(signal, 1.0, 1), stddev, max(float(np.linalg.norm(part)) for part in influences)


def _measure_steps(
    record: Record, event: PoissonGaussian, *, share: float, delta: float
) -> tuple[Signal, float, float, float]:
    """Bounds the critic's steps: signal, the noise's stddev, the largest influence, and the epsilon of differences.

    The noise may have another stddev in each weight tensor; a canary spread over them is then as loud as the root of
    its squared signals. All steps count with the weakest signal of any.
    """
    noise = np.array([step.noise for step in record.steps])
    changes = np.array([step.change for step in record.steps if step.change is not None])
    influence = np.array([step.influence for step in record.steps])
    stddevs, of_changes = np.empty(len(record.sizes)), np.full(len(record.sizes), math.inf)
    for tensor, size in enumerate(record.sizes):
        stddevs[tensor] = bound_stddev(
            float(noise[:, tensor].sum()), samples=size * len(noise), failure_probability=share
        )
        if len(changes):
            of_changes[tensor] = bound_stddev(
                float(changes[:, tensor].sum()), samples=size * len(changes), failure_probability=share
            )
    signals = np.sqrt(np.square(influence / np.maximum(stddevs, _LEAST_STDDEV)).sum(axis=1))
    # Where the batch of the first of two steps holds the canary and that of the second does not, their difference holds
    # it too, and noise that both share is gone.
    q = event.sampling_probability
    apart = np.sqrt(np.square(influence / np.maximum(of_changes, _LEAST_STDDEV)).sum(axis=1)).min()
    alternative = _epsilon_of_pairs(float(apart), rate=q * (1 - q), pairs=len(changes), delta=delta)
    strength = float(signals.min())
    total = math.sqrt(float(np.square(stddevs) @ np.array(record.sizes)) / sum(record.sizes))
    largest = float(np.linalg.norm(influence, axis=1).max())
    return Signal(strength, q, len(record.steps)), total, largest, alternative


def _epsilon_of_pairs(apart: float, *, rate: float, pairs: int, delta: float) -> float:
    """Bounds epsilon by the test that looks for one difference of two steps past half the canary's length.

    Units: `apart` is the canary's length in stddevs of a difference; `rate` how often the first step of two has it and
    the second has not.
    """
    if pairs < 1 or rate <= 0:
        return 0.0
    falsely = pairs * float(stats.norm.sf(apart / 2))
    rightly = -math.expm1(pairs * math.log1p(-rate * float(stats.norm.cdf(apart / 2))))
    if rightly <= delta:
        return 0.0
    return min(MOST_EPSILON, max(0.0, math.log((rightly - delta) / max(falsely, 1e-300))))
