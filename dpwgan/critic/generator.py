"""What a critic step needs of a generator: rows, from whatever its random input is."""

from typing import Protocol

import tensorflow as tf


class RowGenerator(Protocol):
    """Gives generated rows like encoded ones: to those who want gradients dense, to the critic's step by index."""

    def rows(self, latents: tf.Tensor, uniforms: tf.Tensor) -> tf.Tensor:
        """Draws a batch of rows. Shapes: (b, ...) and (b, width) to (b, width)."""

    def cells(self, latents: tf.Tensor, uniforms: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Draws the same rows as encoded ones. Shapes: as `rows`, to codes and numbers, (b, columns) each."""


class LatentDraws(Protocol):
    """Draws a generator's random input."""

    def draw(self, batch: int) -> tuple[tf.Tensor, tf.Tensor]:
        """Gives what `rows` takes, for a batch."""
