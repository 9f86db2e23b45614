"""Generators that can be fitted to released marginals: a table of codes, or TensorFlow networks."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dpwgan.marginals.anchor_plan import AnchorDesign
from dpwgan.marginals.groups import GroupLayout, lay_out_groups
from dpwgan.marginals.mixture import CodeGenerator
from dpwgan.methods.base import Run

_MLP_HIDDEN = (256, 256)


def choose_maker(
    plan: AnchorDesign, run: Run
) -> Callable[[GroupLayout, npt.NDArray[np.float32]], CodeGenerator] | None:
    """Returns the function that makes the generator of the settings, or None for a table of codes.

    Raises: ResourceError if the device is not there.
    """
    kind = plan.settings.generator
    if kind == "codes":
        return None
    # TensorFlow takes seconds to import, and a table of codes does without it.
    from dpwgan.critic.device import prepare_device

    prepare_device(run.device, threads=run.threads)
    from dpwgan.critic.generators import TensorMixture

    def make(layout: GroupLayout, logits: npt.NDArray[np.float32]) -> CodeGenerator:
        spans = lay_out_groups(plan.columns, layout.sizes)
        return TensorMixture(spans, logits, table=kind != "mlp", hidden=_MLP_HIDDEN, rng=run.model)

    return make
