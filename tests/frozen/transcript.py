"""What a run releases, before its noise: the one file to change when releases are seen in another way.

Every release is noted as an observer of the ledger is told of it: the line that was charged, its event and sensitivity,
and a hash of the exact value, counts, sums, or the scores that a selection was made from. A critic's step is noted with
a hash of its clipped sum, which the ledger does not see. Nothing that a run does is changed by this.
"""

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np

from dpwgan.privacy.events import PoissonGaussian
from dpwgan.privacy.ledger import Ledger
from tests.critic.tables import HAS_REFERENCE

Lines = list[list[Any]]


def digest(*parts: Any) -> str:
    """Hashes numbers, whatever their type and shape: those of equal value have equal hashes."""
    flat = [np.asarray(part, np.float64).ravel() + 0.0 for part in parts]
    return hashlib.sha256(np.concatenate(flat).astype("<f8").tobytes()).hexdigest()[:16]


class Transcriber:
    """Writes down what goes through a ledger. It watches no row, so that no step computes anything more."""

    watched_row = None

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def on_release(self, release: Any, *, exact: Any, noisy: Any) -> None:
        for values in exact:
            self.note(release, values)

    def on_selection(self, release: Any, *, exact: Any, chosen: Any) -> None:
        self.note(release, [exact[cell] for cell in sorted(exact)] if isinstance(exact, dict) else exact)

    def note(self, release: Any, *values: Any) -> None:
        self._lines.append([release.label, release.event.describe(), release.sensitivity, digest(*values)])


@contextmanager
def transcribed() -> Iterator[Lines]:
    """Notes every release of the runs inside the block: label, event, sensitivity, hash of the exact value."""
    import tensorflow as tf

    from dpwgan.critic.private_step import FusedStep
    from dpwgan.methods.published.gradient_penalty import PrivatePenaltyStep

    lines: Lines = []
    transcriber = Transcriber(lines)
    ledgers: list[Ledger] = []
    open_ledger, sum_fused = Ledger.__init__, FusedStep.clipped_sums
    sum_with_penalty = PrivatePenaltyStep.clipped_sum

    def open_watched(ledger: Ledger, *arguments: Any, observers: Any = (), **options: Any) -> None:
        open_ledger(ledger, *arguments, observers=[*observers, transcriber], **options)
        ledgers.append(ledger)

    def note_step(*sums: Any) -> None:
        transcriber.note(next(r for r in ledgers[-1].releases if isinstance(r.event, PoissonGaussian)), *sums)

    def note_fused(step: Any, rows: Any, *more: Any) -> Any:
        sums, generated = sum_fused(step, rows, *more)
        tf.numpy_function(note_step, list(sums), [])
        return sums, generated

    def note_with_penalty(step: Any, rows: Any, **more: Any) -> Any:
        sums = sum_with_penalty(step, rows, **more)
        note_step(*sums)
        return sums

    watches = [
        (Ledger, "__init__", open_watched),
        (FusedStep, "clipped_sums", note_fused),
        (PrivatePenaltyStep, "clipped_sum", note_with_penalty),
    ]
    if HAS_REFERENCE:
        from dpwgan.critic.reference_step import ReferenceStep, densify

        sum_reference = ReferenceStep.noisy_sums

        def note_reference(step: Any, rows: Any, **more: Any) -> Any:
            note_step(*step.clipped_sum(densify(step._encoded, rows)))
            return sum_reference(step, rows, **more)

        watches.append((ReferenceStep, "noisy_sums", note_reference))
    with ExitStack() as stack:
        for owner, name, watched in watches:
            stack.enter_context(mock.patch.object(owner, name, watched))
        yield lines
