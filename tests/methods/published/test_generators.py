"""The generator of smooth images of given labels, and its sampler."""

import numpy as np
import pytest
import tensorflow as tf

from dpwgan.images.basis import REACH, SmoothFrame
from dpwgan.methods.published.generators import LabelledImages
from dpwgan.methods.published.samplers import LabelledSampler
from tests.images.test_grid import make_grid
from tests.methods.published.test_convolutions import SHARES, draw_input

DIMENSION = 6


def make_frame(image: tuple[int, int, int]) -> SmoothFrame:
    return SmoothFrame(grid=make_grid(image), dimension=DIMENSION)


def make_generator(image: tuple[int, int, int]) -> LabelledImages:
    rng = np.random.default_rng(4)
    centre = make_frame(image).to_points(np.full((1, np.prod(image)), 0.4))[0]
    generator = LabelledImages(make_frame(image), centre=centre, latent=5, hidden=8, rng=rng)
    for weight in generator.weights:  # biases start at 0, which would hide mistakes
        weight.assign(weight + 0.3 * rng.standard_normal(weight.shape))
    return generator


def make_sampler(image: tuple[int, int, int] = (8, 9, 1)) -> LabelledSampler:
    weights = tuple(weight.numpy() for weight in make_generator(image).weights)
    return LabelledSampler(grid=make_grid(image), shares=SHARES, weights=weights, dimension=DIMENSION)


@pytest.mark.parametrize("image", [(8, 9, 1), (9, 8, 3)])
def test_points_stay_in_reach_and_keep_distances_of_smooth_pictures_when_pixels_are_legal(image):
    frame = make_frame(image)
    full = frame.to_points(np.ones((1, np.prod(image))))
    assert np.linalg.norm(full) == pytest.approx(REACH)
    pixels = np.random.default_rng(1).integers(0, 2, (200, np.prod(image)))
    assert np.linalg.norm(frame.to_points(pixels), axis=1).max() <= REACH
    smooth = 0.1 * frame.basis.pictures
    apart = np.linalg.norm(frame.to_points(smooth[:1]) - frame.to_points(smooth[1:2]))
    assert apart == pytest.approx(frame.scale * np.linalg.norm(smooth[0] - smooth[1]))


@pytest.mark.parametrize("image", [(8, 9, 1), (9, 8, 3)])
def test_generator_and_sampler_draw_the_same_pictures_when_they_have_the_same_weights(image):
    sampler, generator = make_sampler(image), make_generator(image)
    latents, labels = draw_input(7)
    pixels = sampler.draw_images(latents, labels)
    assert (pixels.min(), pixels.max()) == (0, 1)
    centre = make_frame(image).to_points(np.full((1, np.prod(image)), 0.4))[0]
    known = generator.generate(tf.constant(latents), tf.constant(labels)).numpy() + centre
    np.testing.assert_allclose(sampler.frame.to_points(pixels), known, rtol=1e-3, atol=1e-4)
    (rows,) = sampler.sample(20, rng=np.random.default_rng(2))
    assert rows.numbers.shape == (20, np.prod(image))
    assert 0 <= rows.numbers.min() < rows.numbers.max() <= 1


def test_gradients_pass_through_the_cut_when_pixels_leave_the_range():
    generator = make_generator((8, 8, 1))
    generator.weights[-1].assign(100.0 * tf.ones(DIMENSION))
    latents, labels = draw_input(6)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(generator.generate(tf.constant(latents), tf.constant(labels)))
    assert np.abs(tape.gradient(total, generator.weights[-1]).numpy()).min() > 0
