"""The same critic step made of tensorflow-privacy's own parts: slow, obvious, and there to be compared with."""

from __future__ import annotations

import sys
from typing import Any

import tensorflow as tf

from dpwgan.array_types import Integers
from dpwgan.critic.critic import LEAK
from dpwgan.critic.private_step import PrivateStep, count_entries, split_like
from dpwgan.critic.rows import densify
from dpwgan.privacy.steps import Steps
from dpwgan.table.encoded import EncodedTable

# Without this the package imports all of its optimizers, and TensorFlow 1's estimators, before it gives two functions.
sys.skip_tf_privacy_import = True  # type: ignore[attr-defined]

from tensorflow_privacy.privacy.dp_query.gaussian_query import GaussianSumQuery  # noqa: E402
from tensorflow_privacy.privacy.fast_gradient_clipping import clip_grads, layer_registry  # noqa: E402


class _Score(tf.keras.losses.Loss):
    """The score itself as a loss: the critic climbs it on real rows."""

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        del y_true
        return tf.squeeze(y_pred, axis=1)


class _PaidNoiseQuery(GaussianSumQuery):
    """A Gaussian sum whose noise comes from the run's own steps instead of TensorFlow's generator."""

    def __init__(self, l2_norm_clip: float, steps: Steps) -> None:
        super().__init__(l2_norm_clip, steps.stddev)
        self._steps = steps

    def get_noised_result(self, sample_state: Any, global_state: Any) -> Any:
        """Adds the noise; the event is the parent's, from its own two numbers."""
        _, state, event = super().get_noised_result(sample_state, global_state)
        drawn = self._steps.draw_normal_numbers(sum(count_entries(sample_state)))
        noised = [value + noise for value, noise in zip(sample_state, split_like(drawn, sample_state), strict=True)]
        return noised, state, event


class ReferenceStep(PrivateStep):
    """One critic step on dense one-hot rows by fast gradient clipping and a Gaussian sum query.

    Privacy: as `FusedStep`. The same update follows the noise.
    Source: tensorflow-privacy 0.9.0; Lee and Kifer 2020, arXiv:2009.03106.
    """

    def __init__(self, encoded: EncodedTable, **parts: Any) -> None:
        super().__init__(**parts)
        self._encoded, plan = encoded, self._plan
        layers: list[Any] = [tf.keras.layers.InputLayer(input_shape=(plan.shape.width,))]
        for width in plan.settings.hidden_critic:
            layers += [tf.keras.layers.Dense(width), tf.keras.layers.LeakyReLU(LEAK)]
        layers.append(tf.keras.layers.Dense(1, use_bias=False))
        self._twin = tf.keras.Sequential(layers)
        self._twin.compile(loss=_Score(reduction=tf.keras.losses.Reduction.SUM))
        self._registry = layer_registry.make_default_layer_registry()
        self._query = _PaidNoiseQuery(plan.l2_clip_norm, self._steps)

    def __call__(self, rows: Integers, *, learning_rate: float) -> None:
        """Takes one critic step on the given row numbers, with fresh noise."""
        noisy = self.noisy_sums(rows)
        fakes = tf.stop_gradient(self._generator.rows(*self._latents.draw(self._plan.generated_batch_size)))
        self._update.apply(noisy, self.clipped_sum(fakes), learning_rate=tf.constant(learning_rate, tf.float32))

    def noisy_sums(self, rows: Integers) -> list[tf.Tensor]:
        """Clips, sums and noises through the query. The result is like the critic's weights."""
        state = self._query.initial_global_state()
        sample = self._query.initial_sample_state([tf.zeros_like(weight) for weight in self._critic.weights])
        sample = self._query.accumulate_preprocessed_record(sample, self.clipped_sum(densify(self._encoded, rows)))
        noisy, _, event = self._query.get_noised_result(sample, state)
        if abs(float(event.noise_multiplier) / self._plan.noise_multiplier - 1.0) > 1e-5:
            raise ValueError("the query's event is not the planned one")
        return list(noisy)

    def clipped_sum(self, dense: tf.Tensor) -> list[tf.Tensor]:
        """Sums the clipped gradients of dense rows. Shapes: (b, width); the result is like the critic's weights."""
        if dense.shape[0] == 0:
            return [tf.zeros_like(weight) for weight in self._critic.weights]
        for mine, twin in zip(self._critic.weights, self._twin.trainable_variables, strict=True):
            twin.assign(mine)
        sums, _, _ = clip_grads.compute_clipped_gradients_and_outputs(
            self._twin,
            self._plan.clip_target,
            self._registry,
            dense,
            tf.zeros((dense.shape[0], 1)),
            clipping_loss=_Score(reduction=tf.keras.losses.Reduction.SUM),
        )
        return list(sums)
