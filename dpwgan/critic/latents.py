"""Random input of the generator, drawn on the device. Not secret: the generator never meets a row."""

import numpy as np
import tensorflow as tf


class LatentSource:
    """Draws latent vectors and the uniforms that make hard rows of logits."""

    def __init__(self, *, latent: int, width: int, rng: np.random.Generator | tf.random.Generator) -> None:
        """Takes a generator on the device, or seeds one from the model stream."""
        self._latent = latent
        self._width = width
        if isinstance(rng, np.random.Generator):
            rng = tf.random.Generator.from_seed(int(rng.integers(2**63)), alg="philox")
        self._device_rng = rng

    def draw(self, batch: int) -> tuple[tf.Tensor, tf.Tensor]:
        """Gives standard normal latents (batch, latent) and uniforms in [0, 1), (batch, width)."""
        return self._device_rng.normal([batch, self._latent]), self._device_rng.uniform([batch, self._width])
