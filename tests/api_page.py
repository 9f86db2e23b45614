"""docs/api.md, made of docstrings and of what is declared of the settings: `python -m tests.api_page > docs/api.md`."""

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping

import dpwgan
from dpwgan.app.claim import Claim
from dpwgan.app.config import TRAINING_OPTIONS, SynthesisConfig
from dpwgan.settings import Setting, declared

SHOWN = {
    dpwgan.Synthesizer: ("fit", "sample", "claim", "plan", "save", "load"),
    Claim: ("private", "to_json", "to_text"),
}


def write_page() -> str:
    """Writes the whole page."""
    lines = [
        "# The Python interface",
        "",
        "For users who call the tool from Python: classes, functions and the values that their options take. Made by",
        "`python -m tests.api_page > docs/api.md` from the code.",
        "",
        *_describe("dpwgan.synthesize", dpwgan.synthesize),
    ]
    for owner, names in SHOWN.items():
        lines += ["", *_describe(f"dpwgan.{owner.__name__}" if owner is dpwgan.Synthesizer else "Claim", owner)]
        for name in names:
            lines += ["", *_describe(f"{owner.__name__}.{name}", inspect.getattr_static(owner, name), level=3)]
    settings = {**declared(SynthesisConfig), **TRAINING_OPTIONS}
    renamed = [f"`{key}` (`--{one.name}`)" for key, one in settings.items() if one.name != key.replace("_", "-")]
    lines += ["", "## Options", "`dpwgan --help` explains each under its flag: `critic_share` is `--critic-share`."]
    lines += [f"Other names: {', '.join(renamed)}.", "", _list("Options", declared(SynthesisConfig))]
    return "\n".join([*lines, _list("Keys of `settings={...}`", TRAINING_OPTIONS)]) + "\n"


def _describe(name: str, thing: object, *, level: int = 2) -> Iterator[str]:
    yield f"{'#' * level} {name}"
    own = thing.fget if isinstance(thing, property) else getattr(thing, "__func__", thing)
    if own is not Claim and not isinstance(thing, property):
        yield f"```python\n{name}{_sign(own)}\n```"
    yield re.sub(r"\n+(?=Privacy: |Raises: )", "\n\n", inspect.getdoc(own) or "")


def _sign(own: Callable[..., object]) -> str:
    """Writes arguments and types as a caller would, without the modules they come from."""
    signature = inspect.signature(own)
    parts = [part for part in signature.parameters.values() if part.name not in ("self", "cls")]
    return re.sub(r"'|\b(?!pd|pl)[a-z_.]+\.(?=[A-Z])", "", str(signature.replace(parameters=parts)))


def _list(name: str, settings: Mapping[str, Setting]) -> str:
    return f"- {name}: {', '.join(f'`{key}`' for key in settings)}."


if __name__ == "__main__":
    sys.stdout.write(write_page())
