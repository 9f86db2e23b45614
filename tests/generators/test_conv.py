"""The generator of images and its sampler: sizes, labels, and agreement of both."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from dpwgan.cells.image_grid import ImageGrid, find_image_grid
from dpwgan.encoded import EncodedTable
from dpwgan.errors import InputError
from dpwgan.generators.conv import ConvGenerator
from dpwgan.generators.conv_sampler import CONV_FILE, ConvSampler
from dpwgan.methods.registry import load_synthesizer
from tests.cells.test_image_grid import make_shape

FALSE_ALARM = 1e-6
SHARES = np.array([0.5, 0.2, 0.3])


def make_generator(image: tuple[int, int, int], *, seed: int = 1) -> ConvGenerator:
    generator = ConvGenerator(image, classes=3, latent=5, filters=(8, 4), rng=np.random.default_rng(seed))
    rng = np.random.default_rng(seed + 1)
    for weight in generator.weights:  # biases start at 0 and scales at 1, which would hide mistakes
        weight.assign(weight + 0.3 * rng.standard_normal(weight.shape))
    return generator


def make_grid(image: tuple[int, int, int]) -> ImageGrid:
    grid = find_image_grid(make_shape(*image), method="m")
    assert grid is not None
    return grid


def make_sampler(image: tuple[int, int, int] = (8, 9, 1)) -> ConvSampler:
    weights = tuple(weight.numpy() for weight in make_generator(image).weights)
    return ConvSampler(weights=weights, shares=SHARES, grid=make_grid(image))


def draw_input(batch: int, *, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.eye(3, dtype=np.float32)[rng.integers(0, 3, batch)]
    return rng.standard_normal((batch, 5), dtype=np.float32), labels


@pytest.mark.parametrize("image", [(8, 8, 1), (9, 13, 3), (28, 28, 1), (10, 11, 1), (32, 32, 3)])
def test_generator_and_sampler_make_the_same_images_when_sides_are_of_any_length(image: tuple[int, int, int]) -> None:
    latents, labels = draw_input(7)
    images = make_generator(image).images(tf.constant(latents), tf.constant(labels)).numpy()
    assert images.shape == (7, *image)
    assert images.min() >= 0
    assert images.max() <= 1
    assert images.std() > 0.01
    np.testing.assert_allclose(make_sampler(image).draw_images(latents, labels), images, rtol=1e-3, atol=1e-4)


def test_images_differ_when_only_the_label_does() -> None:
    generator = make_generator((8, 8, 1))
    latents, _ = draw_input(1)
    of = [generator.images(tf.constant(latents), tf.one_hot([label], 3)).numpy() for label in range(3)]
    assert np.abs(of[0] - of[1]).max() > 1e-3
    assert np.abs(of[1] - of[2]).max() > 1e-3


def test_an_image_does_not_depend_on_the_others_when_they_are_drawn_together() -> None:
    latents, labels = draw_input(6)
    generator = make_generator((9, 9, 1))
    together = generator.images(tf.constant(latents), tf.constant(labels)).numpy()
    alone = generator.images(tf.constant(latents[2:3]), tf.constant(labels[2:3])).numpy()
    np.testing.assert_allclose(together[2:3], alone, rtol=1e-4, atol=1e-5)


def test_generator_is_refused_when_its_filters_cannot_be_grouped() -> None:
    with pytest.raises(ValueError, match="multiples of 4"):
        ConvGenerator((8, 8, 1), classes=2, latent=3, filters=(6, 4), rng=np.random.default_rng(0))


def gather(sampler: ConvSampler, records: int, *, chunk: int) -> EncodedTable:
    parts = list(sampler.sample(records, rng=np.random.default_rng(5), chunk=chunk))
    return EncodedTable(
        codes=np.concatenate([part.codes for part in parts]),
        numbers=np.concatenate([part.numbers for part in parts]),
        spans=sampler.grid.spans,
    )


@pytest.mark.statistical
def test_labels_fit_the_shares_when_counted_by_chi_square() -> None:
    drawn = gather(make_sampler(), 5_001, chunk=1_000)
    assert drawn.records == 5_001
    assert drawn.numbers.shape == (5_001, 72)
    counts = np.bincount(drawn.codes[:, 0], minlength=3)
    assert stats.chisquare(counts, 5_001 * SHARES).pvalue > FALSE_ALARM
    # The twin: equal shares do not pass.
    assert stats.chisquare(counts).pvalue < FALSE_ALARM


def test_saved_generator_draws_the_same_rows_when_it_is_read_back(tmp_path: Path) -> None:
    sampler = make_sampler((9, 8, 3))
    sampler.save(tmp_path)
    again = load_synthesizer(tmp_path)
    assert isinstance(again, ConvSampler)
    assert again.grid == sampler.grid
    assert again.certificate is None
    first, second = gather(sampler, 10, chunk=4), gather(again, 10, chunk=4)
    np.testing.assert_array_equal(first.codes, second.codes)
    np.testing.assert_array_equal(first.numbers, second.numbers)


@pytest.mark.parametrize("damage", ["grid", "weights", "shares", "cut"])
def test_saved_generator_is_refused_when_it_is_damaged(tmp_path: Path, damage: str) -> None:
    sampler = make_sampler()
    sampler.save(tmp_path)
    if damage == "grid":
        (tmp_path / "convolutions.json").write_text(json.dumps({"shape": [8]}))
    elif damage == "cut":
        (tmp_path / CONV_FILE).write_bytes((tmp_path / CONV_FILE).read_bytes()[:100])
    elif damage == "weights":
        np.savez(tmp_path / CONV_FILE, *sampler.weights[:5], shares=SHARES)
    else:
        np.savez(tmp_path / CONV_FILE, *sampler.weights, shares=2 * SHARES)
    with pytest.raises(InputError, match="damaged"):
        load_synthesizer(tmp_path)
