"""The domain.yaml of google/dpsynth: attributes with all of their domain.

Source: google/dpsynth, "Specifying Attribute Domains", and its module domain. A cell outside a number's range goes to
its end, unless `clip_to_range` is false; an open set of categories is found privately, as `domain_privacy` "private"
does.
"""

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from dpwgan.drafts.entry import Entry, Source, read_number
from dpwgan.errors import SpecsError, UsageError

_MARKS = ("CategoricalAttribute", "NumericalAttribute", "FreeFormTextAttribute", "possible_values:", "min_value:")


def recognise(source: Source) -> bool:
    """Whether it names attributes as dpsynth does."""
    return source.document is None and any(mark in source.text for mark in _MARKS)


def read(source: Source) -> Iterator[Entry]:
    """The attributes. Raises: SpecsError if it is not such YAML; UsageError where no package reads YAML."""
    try:
        import yaml
    except ImportError:
        raise UsageError(
            "a domain.yaml needs the package PyYAML, which is not installed: turn it into JSON, or install it"
        ) from None
    try:
        document = yaml.safe_load(source.text)
    except yaml.YAMLError:
        raise SpecsError("The dictionary is not YAML that can be read.") from None
    if isinstance(document, Mapping) and isinstance(document.get("tables"), Mapping):
        document = source.choose(dict(document["tables"]))
    if isinstance(document, Mapping) and isinstance(document.get("attributes"), Mapping):
        document = document["attributes"]
    if not isinstance(document, Mapping) or not all(isinstance(said, Mapping) for said in document.values()):
        raise SpecsError("The dictionary is not a domain.yaml: attributes by their name are missing.")
    for name, said in document.items():
        yield _read_attribute(str(name), said)


def _read_attribute(name: str, said: Mapping[str, Any]) -> Entry:
    tell = functools.partial(Entry, name=name, description=said.get("description") or "")
    if "possible_values" in said:
        values = list(said["possible_values"])
        if all(isinstance(value, bool) for value in values):
            return tell(type="boolean")
        return tell(type="enum", values=[value if isinstance(value, int) else str(value) for value in values])
    if "min_value" in said:
        clips, sentinel = said.get("clip_to_range", True), said.get("sentinel")
        return tell(
            type="integer" if said.get("dtype") == "int" else "float",
            minimum=read_number(said["min_value"]),
            maximum=read_number(said["max_value"]),
            missing=[] if clips else ["" if sentinel is None else str(sentinel)],
            more={"out_of_domain": "clamp" if clips else "missing"},
        )
    if "max_tokens" in said or said.get("type") == "FreeFormTextAttribute":
        return tell(type="text")
    missing = [said.get("default_value", "<OOD>")]
    return tell(type="enum", missing=missing, more={"values_from": "data", "domain_privacy": "private"})
