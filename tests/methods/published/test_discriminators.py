"""The noisy discriminators: gradients, joint clip and noise layers against automatic differentiation, row by row."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf
from scipy import stats

from dpwgan.critic.critic import LEAK
from dpwgan.critic.layer_noise import LayerNoise
from dpwgan.critic.rows import densify
from dpwgan.errors import PrivacyError
from dpwgan.methods.published.discriminators import NoisyDiscriminator, NoisyProducts
from tests.critic.tables import flat, make_encoded

CLIP, NOISE = 0.3, 0.7
Places = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class OfRows:
    """A discriminator of a table's rows, away from its first weights, so that no probability is one half."""

    widths: tuple[int, ...] = (7, 5)

    def __init__(self, records: int, *, noise: float = NOISE, key: int = 4) -> None:
        self.encoded = make_encoded(records)
        self.cells = tf.constant(self.encoded.codes), tf.constant(self.encoded.numbers)
        self.dense = densify(self.encoded, np.arange(records))
        self.critic = self.make(layer_noise=noise, rng=np.random.default_rng(1), secrets=np.random.default_rng(key))
        rng = np.random.default_rng(2)
        for weight in self.critic.weights:
            weight.assign_add(0.3 * rng.standard_normal(weight.shape).astype(np.float32))

    def make(self, **noise: Any) -> Any:
        return NoisyDiscriminator(self.encoded.spans, hidden=self.widths, weight_clip=5.0, **noise)

    def logit(self, row: int, noises: list[Any]) -> tf.Tensor:
        """The logit of a row by the formula as written: another route altogether."""

        def score(weights: Any) -> tf.Tensor:
            value = self.dense[row : row + 1]
            for layer, (kernel, bias) in enumerate(zip(weights[:-1:2], weights[1::2], strict=True)):
                value = value @ kernel + bias
                value = tf.maximum(value, LEAK * value) + noises[layer][tf.newaxis]
            return tf.squeeze(value @ weights[-1])

        return score(self.critic.weights) - tf.stop_gradient(score(self.critic.initial))

    def take(self, places: Places) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.gather(self.cells[0], places), tf.gather(self.cells[1], places)

    def draw_noise(self, places: Places) -> tf.Tensor:
        return self.critic.layer_noise.of_records(tf.constant(places))

    def draw_generated_noise(self, rows: int) -> tf.Tensor:
        noise = self.critic.layer_noise
        layers = enumerate(self.widths)
        return tf.concat(
            [noise.of_generated(tf.constant([rows, width]), layer=layer) for layer, width in layers], axis=1
        )

    def clipped_sum(self, places: Places, noise: tf.Tensor | None = None, *, clip: float = CLIP) -> Any:
        noise = self.draw_noise(places) if noise is None else noise
        return self.critic.clipped_sum_of_rows(*self.take(places), noise, l2_clip_norm=clip)

    def generated_sum(self, places: Places, *, clip: float = CLIP) -> Any:
        none = *self.take(places[:0]), tf.zeros((0, sum(self.widths)))
        return self.critic.clipped_sums(none, self.take(places), l2_clip_norm=clip)[1]

    def gradients(self, places: Places, noise: tf.Tensor, *, generated: bool = False) -> list[Floats]:
        """Each record's gradient of ln D, or of -ln(1 - D), by automatic differentiation."""
        found = []
        for row, own in zip(places, noise, strict=True):
            with tf.GradientTape() as tape:
                logit = self.logit(int(row), tf.split(own, self.widths))
                objective = tf.nn.softplus(logit) if generated else -tf.nn.softplus(-logit)
            gradients = tape.gradient(objective, self.critic.weights)
            found.append(flat([tf.convert_to_tensor(gradient) for gradient in gradients]))
        return found


class OfImages(OfRows):
    """A discriminator of images' points, whose matrices are not symmetric."""

    widths, classes, length = (5,), 3, 4.0

    def __init__(self, records: int, *, noise: float = NOISE, key: int = 4, moved: bool = True) -> None:
        rng = np.random.default_rng(3)
        points = rng.standard_normal((records, 5))
        points *= self.length / np.linalg.norm(points, axis=1, keepdims=True)
        self.cells = tf.constant(rng.integers(0, 3, (records, 1)), tf.int32), tf.constant(points, tf.float32)
        self.critic = self.make(layer_noise=noise, rng=np.random.default_rng(1), secrets=np.random.default_rng(key))
        rng = np.random.default_rng(2)
        if moved:
            for weight in self.critic.weights:
                weight.assign(rng.standard_normal(weight.shape))

    def make(self, **noise: Any) -> Any:
        return NoisyProducts(features=5, classes=self.classes, length=self.length, **noise)

    def logit(self, row: int, noises: list[Any]) -> tf.Tensor:
        codes, numbers = self.cells
        hidden, (apart, common) = numbers[row] + noises[0], self.critic.weights
        of_class = apart[int(codes[row, 0])] + common
        return tf.tensordot(hidden, tf.linalg.matvec(of_class, hidden), 1) / (self.length**2 * np.sqrt(2.0))


both = pytest.mark.parametrize("kind", [OfRows, OfImages])


@both
@pytest.mark.parametrize("generated", [False, True])
@pytest.mark.parametrize("clip", [CLIP, 1e3])
def test_clipped_sum_is_that_of_automatic_gradients_when_layers_are_noisy(kind, clip, generated):
    subject, everyone = kind(12), np.arange(12)
    noise = subject.draw_generated_noise(12) if generated else subject.draw_noise(everyone)
    rows = subject.gradients(everyone, noise, generated=generated)
    expected = np.sum([row * min(1.0, clip / np.linalg.norm(row)) for row in rows], axis=0)
    found = flat((subject.generated_sum if generated else subject.clipped_sum)(everyone, clip=clip))
    np.testing.assert_allclose(found, expected, atol=2e-5 * max(1.0, float(np.abs(expected).max())))


def influences(total: Callable[[Places], Any], records: int) -> Floats:
    """How far each record moves the sum of a batch in order when it is taken out: from the first place to the last."""
    everyone = np.arange(records)
    there = flat(total(everyone))
    return np.array([np.linalg.norm(there - flat(total(np.delete(everyone, row)))) for row in everyone])


@both
def test_sum_moves_by_the_clip_norm_at_most_when_the_first_a_middle_or_the_last_record_is_taken_out(kind):
    moved = influences(kind(40).clipped_sum, 40)
    assert np.all(moved <= CLIP * (1 + 1e-4))
    assert np.max(moved) > 0.99 * CLIP


@pytest.mark.slow
@both
def test_sum_moves_further_when_a_twin_has_noise_by_place_or_clips_each_tensor_or_before_the_noise(kind):
    subject, everyone = kind(20), np.arange(20)
    sizes = np.cumsum([int(np.prod(weight.shape)) for weight in subject.critic.weights])[:-1]
    noise = subject.draw_noise(everyone)
    noisy, bare = (np.array(subject.gradients(everyone, of_rows)) for of_rows in (noise, 0.0 * noise))

    def by_place(places: Places) -> Any:
        return subject.clipped_sum(places, subject.draw_noise(np.arange(len(places))))

    def per_tensor(places: Places) -> Any:
        parts = [np.split(row, sizes) for row in noisy[places]]
        return [
            sum(row[tensor] * min(1.0, CLIP / max(np.linalg.norm(row[tensor]), 1e-30)) for row in parts)
            for tensor in range(len(sizes) + 1)
        ]

    def before_the_noise(places: Places) -> Any:
        pairs = zip(noisy[places], bare[places], strict=True)
        return [sum(a * min(1.0, CLIP / np.linalg.norm(b)) for a, b in pairs)]

    moved = influences(by_place, 20)
    assert moved[0] > 1.2 * CLIP
    assert moved[-1] <= CLIP * (1 + 1e-4)  # who looks at the last place alone sees nothing
    for twin in (per_tensor, before_the_noise):
        assert np.max(influences(twin, 20)) > 1.2 * CLIP


def test_records_are_refused_when_their_noise_does_not_come_with_them():
    subject = OfRows(3)
    with pytest.raises(PrivacyError):
        subject.critic.clipped_sum_of_rows(*subject.cells, l2_clip_norm=CLIP)
    published = subject.make(layer_noise=NOISE, rng=np.random.default_rng(1))
    with pytest.raises(PrivacyError):
        published.layer_noise.of_records(tf.range(3, dtype=tf.int64))


def test_key_of_the_records_noise_has_128_bits_when_drawn():
    known: Any = SimpleNamespace(bytes=lambda size: bytes(range(size)))
    assert LayerNoise(stddev=1.0, widths=(3,), rng=np.random.default_rng(1), secrets=known)._key == bytes(range(16))


@both
def test_noise_of_the_layers_has_its_stddev_and_is_fresh_when_a_step_has_passed(kind):
    subject, everyone = kind(4_000), np.arange(4_000)

    def noise() -> Floats:
        return np.ravel(subject.draw_noise(everyone))

    first = noise()
    assert np.std(first) == pytest.approx(NOISE, rel=0.02)
    assert stats.kstest(first / NOISE, "norm").pvalue > 1e-4
    subject.generated_sum(everyone[:0])
    np.testing.assert_array_equal(first, noise())  # a look at real rows alone is no step
    other = np.ravel(subject.draw_generated_noise(4_000))
    subject.generated_sum(everyone[:2])
    later = noise()
    subject.critic.loss_of_generated(tf.zeros(3))
    stranger = np.ravel(kind(4_000, key=5).draw_noise(everyone))
    width = sum(subject.widths)
    for one in (other, later, noise(), stranger, np.roll(first, 1), np.roll(first, width)):
        assert abs(np.corrcoef(first, one)[0, 1]) < 0.03


def test_noise_of_a_record_is_its_own_when_others_come_before_it():
    subject, far = OfRows(3), 1 << 40
    alone, among = (subject.draw_noise(np.array(places)) for places in ([far], [0, 7, far, far + 1]))
    np.testing.assert_allclose(alone[0], among[2], rtol=1e-6)
    assert np.all(among[3] != among[2])


def test_every_row_begins_at_one_half_when_nothing_was_learnt():
    subject = OfRows(30)
    for weight, first in zip(subject.critic.weights, subject.critic.initial, strict=True):
        weight.assign(first)
    np.testing.assert_array_equal(subject.critic.logit(subject.dense), np.zeros(30))


@both
def test_sum_is_zero_when_the_batch_is_empty(kind):
    assert np.all(flat(kind(3).clipped_sum(np.zeros(0, np.int64))) == 0.0)


def test_discriminator_is_the_critics_network_when_its_layers_have_no_noise():
    subject = OfRows(30, noise=0.0)
    value, weights = subject.dense, subject.critic.weights
    for kernel, bias in zip(weights[:-1:2], weights[1::2], strict=True):
        value = tf.nn.leaky_relu(value @ kernel + bias, LEAK)
    np.testing.assert_allclose(subject.critic.score(subject.dense), tf.squeeze(value @ weights[-1], axis=1), atol=1e-4)


def test_score_of_an_image_is_its_logit_when_its_label_is_one_hot():
    subject = OfImages(6, noise=0.0)
    codes, numbers = subject.cells
    dense = tf.concat([numbers, tf.one_hot(codes[:, 0], subject.classes)], axis=1)
    expected = [subject.logit(row, [tf.zeros(5)]) for row in range(6)]
    np.testing.assert_allclose(subject.critic.score(dense), expected, rtol=1e-4)


def test_image_counts_as_zero_when_its_numbers_are_not_finite():
    subject = OfImages(4)
    codes, numbers = subject.cells
    without = subject.clipped_sum(np.arange(3))
    subject.cells = codes, tf.concat([numbers[:3], [[np.inf, 0.0, np.nan, 1.0, 1.0]]], axis=0)
    np.testing.assert_allclose(flat(subject.clipped_sum(np.arange(4))), flat(without), atol=1e-6)


def test_every_image_has_a_gradient_of_about_one_half_when_nothing_is_known():
    subject = OfImages(50, moved=False)
    lengths = [np.linalg.norm(row) for row in subject.gradients(np.arange(50), tf.zeros((50, 5)))]
    np.testing.assert_allclose(lengths, 0.5, rtol=1e-5)
