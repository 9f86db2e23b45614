"""TensorFlow's import for half the time: modules that nobody may need run when something of them is asked for."""

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

# Modules that hold names of others and do nothing else.
_LATE = ("tensorflow._api.v2.", "tensorboard.summary")
# TensorFlow imports it to have its optimisers on a list, and goes on where there is none: `tf.keras` finds it later.
_KERAS = "keras.src.optimizers"
_LOCK = threading.RLock()


@contextmanager
def loading_late() -> Iterator[None]:
    """Has `import tensorflow` in the block load what is used; the rest comes when it is asked for."""
    sys.meta_path.insert(0, _LateFinder)
    known: ModuleType | None = sys.modules.setdefault(_KERAS, None)  # type: ignore[arg-type]
    try:
        yield
    finally:
        sys.meta_path.remove(_LateFinder)
        if known is None:
            del sys.modules[_KERAS]


class _LateFinder(PathFinder):
    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = super().find_spec(fullname, path, target) if fullname.startswith(_LATE) else None
        if spec is not None and spec.loader is not None:
            _put_off(spec.loader)
        return spec


def _put_off(loader: Loader) -> None:
    """Has a loader run its module when that is first asked for a name that it does not have."""
    run = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        names, waiting = vars(module), [run]

        def find(name: str) -> Any:
            with _LOCK:  # another thread waits until the module is complete; this one may ask while it runs
                if waiting:
                    waiting.pop()(module)
            if name in names:
                return names[name]
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

        names["__getattr__"] = find

    loader.exec_module = exec_module  # type: ignore[method-assign]
