"""The training loop of methods without a guarantee: charge, draw a batch, step. It counts what it reads."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dpwgan.privacy.ledger import Ledger

_PROGRESS_CALLS = 100


def train_plainly(
    *,
    label: str,
    records: int,
    batch_size: int,
    steps: int,
    critic_step: Callable[[npt.NDArray[np.int64]], None],
    generator_step: Callable[[], None] | None = None,
    critic_steps_per_generator_step: int = 1,
    ledger: Ledger,
    progress: Callable[[int, int, float], None],
) -> None:
    """Runs `steps` critic steps, each on `batch_size` rows drawn without replacement, and generator steps in between.

    Privacy: none. Each critic step is charged, as `label`, before its batch is drawn, so that the claim says how often
      rows were read.
    Raises: PrivacyError from the ledger.
    Source: Goodfellow et al. 2014, arXiv:1406.2661, Algorithm 1.
    """
    batches = ledger.lend_streams(label).batches
    every = max(1, steps // _PROGRESS_CALLS)
    for step in range(steps):
        ledger.charge(label)
        critic_step(batches.choice(records, size=batch_size, replace=False, shuffle=False))
        if generator_step is not None and (step + 1) % critic_steps_per_generator_step == 0:
            generator_step()
        if (step + 1) % every == 0 or step + 1 == steps:
            progress(step + 1, steps, ledger.epsilon_spent())
