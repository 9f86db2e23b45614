"""The colours of the report: enough contrast in light and dark, and told apart without colour vision.

Limits: WCAG 2.2, 1.4.3 (text 4.5 to 1) and 1.4.11 (figures 3 to 1). Colour blindness: Machado, Oliveira, Fernandes
2009, "A physiologically-based model for simulation of color vision deficiency", table 1, severity 1.0.
"""

import re

import numpy as np
import numpy.typing as npt
import pytest

from dpwgan.evaluate.report.page import FOLDER

SIMULATIONS = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def read_palettes() -> dict[str, dict[str, str]]:
    style = (FOLDER / "style.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{(.*?)\}", style, flags=re.DOTALL)
    light, dark = (dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", block)) for block in blocks)
    assert light.keys() == dark.keys()
    return {"light": light, "dark": dark}


PALETTES = read_palettes()


def to_linear(colour: str) -> npt.NDArray[np.float64]:
    channels = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def contrast(first: str, second: str) -> float:
    levels = sorted(float(to_linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (first, second))
    return (levels[1] + 0.05) / (levels[0] + 0.05)


def to_lab(linear: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """CIE L*a*b* under D65."""
    matrix = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
    xyz = np.array(matrix) @ np.clip(linear, 0.0, 1.0) / [0.95047, 1.0, 1.08883]
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def distance(first: str, second: str, simulation: list[list[float]]) -> float:
    """The distance (CIE 1976) of two colours as seen by a colour-blind eye; 2.3 is just noticeable."""
    return float(np.linalg.norm(np.subtract(*(to_lab(np.array(simulation) @ to_linear(c)) for c in (first, second)))))


def test_contrast_is_what_the_standard_says_when_colours_are_known():
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_red_and_green_fall_together_when_simulated():
    assert distance("#b56a00", "#6f8f00", SIMULATIONS["deuteranopia"]) < 15
    assert distance("#b56a00", "#6f8f00", np.eye(3).tolist()) > 40


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    ("ink", "ground", "least"),
    [
        *((text, "page", 4.5) for text in ("ink", "muted", "link")),
        *((text, "alarm-panel", 4.5) for text in ("ink", "alarm", "link")),
        *((mark, "page", 3.0) for mark in ("real", "synthetic")),
    ],
)
def test_contrast_is_enough_when_text_or_mark_is_on_its_ground(theme, ink, ground, least):
    assert contrast(PALETTES[theme][ink], PALETTES[theme][ground]) >= least


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("eye", list(SIMULATIONS))
def test_real_and_synthetic_are_told_apart_when_seen_by_a_colour_blind_eye(theme, eye):
    palette = PALETTES[theme]
    assert distance(palette["real"], palette["synthetic"], SIMULATIONS[eye]) > 40
