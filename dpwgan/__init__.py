"""Synthetic tables with differential privacy: a private table in, a releasable table and its claim out.

`dpwgan.synthesize(frame, specs, epsilon)` and `dpwgan.Synthesizer` are the whole interface; both are loaded on first
use, so that importing the package costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

from dpwgan.version import __version__

if TYPE_CHECKING:
    from dpwgan.app.api import Synthesizer, synthesize

__all__ = ["Synthesizer", "__version__", "synthesize"]


def __getattr__(name: str) -> Any:
    if name in ("Synthesizer", "synthesize"):
        # By name, so that nothing that imports a part of the package depends on the whole of it.
        return getattr(importlib.import_module("dpwgan.app.api"), name)
    raise AttributeError(f"module 'dpwgan' has no attribute {name!r}")
