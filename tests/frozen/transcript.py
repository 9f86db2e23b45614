"""What a run releases, before its noise: the one file to change when mechanisms are called in another way.

Every call of a mechanism is noted with the line of the ledger that was charged with its event, the event, its
sensitivity, and a hash of the exact value: counts, sums, or the scores that a selection was made from. A critic's
step is noted with a hash of its clipped sum. Nothing that a run does is changed by this.
"""

import hashlib
import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np

import dpwgan

_SENSITIVITIES = ("sensitivity", "trace_bound")
_NOT_OF_A_RUN = ("dpwgan.audit", "dpwgan.evaluate")


def digest(*parts: Any) -> str:
    """Hashes numbers, whatever their type and shape: those of equal value have equal hashes."""
    flat = [np.asarray(part, np.float64).ravel() + 0.0 for part in parts]
    return hashlib.sha256(np.concatenate(flat).astype("<f8").tobytes()).hexdigest()[:16]


def import_all() -> None:
    """Imports whatever a run may import: a mechanism that is imported later would not be seen."""
    for module in pkgutil.walk_packages(dpwgan.__path__, "dpwgan."):
        if not module.name.startswith(_NOT_OF_A_RUN) and not module.name.endswith("__main__"):
            importlib.import_module(module.name)


@contextmanager
def transcribed() -> Iterator[list[list[Any]]]:
    """Notes every release of the runs inside the block: label, event, sensitivity, hash of the exact value."""
    import_all()
    import tensorflow as tf

    from dpwgan.critic.private_step import FusedStep
    from dpwgan.critic.reference_step import ReferenceStep
    from dpwgan.methods.published.gradient_penalty_step import PrivatePenaltyStep
    from dpwgan.privacy.ledger import Ledger
    from dpwgan.privacy.mechanisms.discovery import select_categories
    from dpwgan.privacy.mechanisms.exponential import select_by_exponential_mechanism
    from dpwgan.privacy.mechanisms.gaussian import add_gaussian_noise
    from dpwgan.privacy.mechanisms.laplace import add_laplace_noise
    from dpwgan.privacy.mechanisms.wishart import add_wishart_noise

    lines: list[list[Any]] = []
    charged: list[tuple[str, Any]] = []

    def note(event: Any, sensitivity: float | None, exact: str) -> None:
        # What is drawn from an event that was not charged is no release of this ledger.
        label = next(label for label, paid in reversed(charged) if paid == event)
        lines.append([label, event.describe(), sensitivity, exact])

    def watch(mechanism: Callable[..., Any]) -> Callable[..., Any]:
        def watched(values: Any, **more: Any) -> Any:
            exact = digest([values[token] for token in sorted(values)] if isinstance(values, dict) else values)
            given = mechanism(values, **more)
            note(given[-1], next((float(more[name]) for name in _SENSITIVITIES if name in more), None), exact)
            return given

        return watched

    def charge(ledger: Ledger, label: str, count: int = 1) -> None:
        charge_on(ledger, label, count)
        charged.append((label, ledger.find(label).event))

    def note_step(plan: Any, *sums: Any) -> None:
        note(charged[-1][1], float(plan.l2_clip_norm), digest(*sums))

    def sum_fused(step: Any, rows: Any, *more: Any) -> Any:
        sums, generated = sum_fused_on(step, rows, *more)
        tf.numpy_function(lambda *parts: note_step(step._plan, *parts), list(sums), [])
        return sums, generated

    def sum_with_penalty(step: Any, rows: Any, **more: Any) -> Any:
        sums = sum_with_penalty_on(step, rows, **more)
        note_step(step._plan, *sums)
        return sums

    def sum_reference(step: Any, rows: Any, **more: Any) -> Any:
        sums = step.clipped_sum(reference_rows(step._encoded, rows))
        note_step(step._plan, *sums)
        return sum_reference_on(step, rows, **more)

    charge_on, sum_fused_on, sum_with_penalty_on = Ledger.charge, FusedStep.clipped_sums, PrivatePenaltyStep.clipped_sum
    sum_reference_on = ReferenceStep.noisy_sums
    reference_rows = sys.modules[ReferenceStep.__module__].densify
    mechanisms = (
        add_gaussian_noise,
        add_laplace_noise,
        add_wishart_noise,
        select_by_exponential_mechanism,
        select_categories,
    )
    with ExitStack() as stack:
        for mechanism in mechanisms:
            for module in [part for name, part in sys.modules.items() if name.startswith("dpwgan.")]:
                if vars(module).get(mechanism.__name__) is mechanism:
                    stack.enter_context(mock.patch.object(module, mechanism.__name__, watch(mechanism)))
        stack.enter_context(mock.patch.object(Ledger, "charge", charge))
        stack.enter_context(mock.patch.object(FusedStep, "clipped_sums", sum_fused))
        stack.enter_context(mock.patch.object(PrivatePenaltyStep, "clipped_sum", sum_with_penalty))
        stack.enter_context(mock.patch.object(ReferenceStep, "noisy_sums", sum_reference))
        yield lines
