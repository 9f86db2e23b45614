"""The layer that bounds and noises a critic's features: published as private, and not private by itself."""

import numpy as np
import tensorflow as tf


class NoisyFeatures:
    """Shortens each row's features to `l2_clip_norm` and adds Gaussian noise.

    Privacy: none that lasts. One pass of one row would be a Gaussian mechanism, but the gradients that train the layers
      below, and the weights that come of them, are released or used without any accounting for them.
    Shapes: (b, features) to the same.
    Units: `noise_multiplier` is the noise's stddev over `l2_clip_norm`.
    Source: Triastcyn and Faltings 2019, sections 4.1 and 5.2 (C = 1, sigma = 1.5).
    """

    def __init__(self, *, l2_clip_norm: float, noise_multiplier: float, device_rng: tf.random.Generator) -> None:
        self._l2_clip_norm = l2_clip_norm
        self._stddev = noise_multiplier * l2_clip_norm
        self._device_rng = device_rng

    def __call__(self, features: tf.Tensor) -> tf.Tensor:
        """Bounds and noises a batch; the noise is fresh with each call."""
        # The root is kept from 0, where its gradient is not finite; of no weight beside a norm of the clip's size.
        norms = tf.sqrt(tf.reduce_sum(tf.square(features), axis=1, keepdims=True) + 1e-12)
        bounded = features / tf.maximum(norms / self._l2_clip_norm, 1.0)
        return bounded + self._device_rng.normal(tf.shape(features), stddev=self._stddev)


def make_device_rng(rng: np.random.Generator) -> tf.random.Generator:
    """Makes a generator on the device, keyed and placed with 192 bits of a stream."""
    state = rng.integers(0, 2**64, size=3, dtype=np.uint64).view(np.int64)
    return tf.random.Generator.from_state(state, alg="philox")
