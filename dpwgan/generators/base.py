"""What a critic step needs of a generator: rows, from whatever its random input is."""

from typing import Protocol

import tensorflow as tf


class RowGenerator(Protocol):
    """Gives generated rows like encoded ones."""

    def rows(self, latents: tf.Tensor, uniforms: tf.Tensor) -> tf.Tensor:
        """Draws a batch of rows. Shapes: (b, ...) and (b, width) to (b, width)."""


class LatentDraws(Protocol):
    """Draws a generator's random input."""

    def draw(self, batch: int) -> tuple[tf.Tensor, tf.Tensor]:
        """Gives what `rows` takes, for a batch."""
