"""Every method by its name on the command line, with its settings: a method is loaded only when it is asked for."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpwgan.errors import UsageError
from dpwgan.methods.settings import (
    AnchoredSettings,
    DpCriticSettings,
    DpGanSettings,
    GameSettings,
    IndependentSettings,
    QueryGanSettings,
    RonDpGanSettings,
    RonGaussSettings,
)
from dpwgan.settings import MethodSettings

if TYPE_CHECKING:
    from dpwgan.methods.base import Method


@dataclass(frozen=True)
class Entry:
    """Where a method is, and its settings, which --help reads without loading the method."""

    module: str
    class_name: str
    settings: type[MethodSettings]


METHODS: Mapping[str, Entry] = {
    "dp-wgan": Entry("dpwgan.methods.dp_wgan", "DpWgan", AnchoredSettings),
    "query-gan": Entry("dpwgan.methods.query_gan", "QueryGan", QueryGanSettings),
    "dp-gan": Entry("dpwgan.methods.published.dp_gan", "DpGan", DpGanSettings),
    "ron-dp-gan": Entry("dpwgan.methods.published.dp_gan", "RonDpGan", RonDpGanSettings),
    "ron-gauss": Entry("dpwgan.methods.ron_gauss", "RonGauss", RonGaussSettings),
    "dp-critic": Entry("dpwgan.methods.published.dp_critic", "DpCritic", DpCriticSettings),
    "loss-noise-gan": Entry("dpwgan.methods.published.loss_noise_gan", "LossNoiseGan", GameSettings),
    "independent": Entry("dpwgan.methods.independent", "Independent", IndependentSettings),
}


_FIND_INTERVALS = {"query-gan", "ron-gauss", "ron-dp-gan", "independent"}


def get_method(name: str) -> "Method":
    """The method of that name. Raises: UsageError for a name that is none."""
    if name not in METHODS:
        raise UsageError(f"there is no method of that name; there is {', '.join(METHODS)}")
    entry = METHODS[name]
    method: type[Method] = getattr(import_module(entry.module), entry.class_name)
    return method()


def finds_intervals(name: str, settings: MethodSettings) -> bool:
    """Says whether a method finds intervals of numbers by itself, in released counts; others see numbers or bins."""
    return name in _FIND_INTERVALS or (isinstance(settings, AnchoredSettings) and settings.anchor != "none")


def samples_units(name: str, settings: MethodSettings) -> bool:
    """Says whether the steps of a method can sample whole units, where those of others sample rows."""
    return name == "dp-wgan" and isinstance(settings, AnchoredSettings) and settings.critic.engine == "fused"


def takes_public(settings: MethodSettings) -> bool:
    """Says whether a public table can be a prior: where marginals are asked for one at a time."""
    if isinstance(settings, QueryGanSettings):
        return settings.oracle == "marginals"
    return isinstance(settings, AnchoredSettings) and settings.anchor == "queries"


def make_settings(name: str, **asked: Any) -> MethodSettings:
    """The settings of the method of that name, from what was asked for. Raises: UsageError."""
    return METHODS[name].settings.make(name, asked)
