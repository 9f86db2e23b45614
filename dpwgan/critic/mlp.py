"""The generator of the DP-WGAN: a multilayer perceptron from noise to logits, with a head a span."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import tensorflow as tf

from dpwgan.critic.heads import draw_cells, draw_rows
from dpwgan.table.encoded import Span

# The last layer starts small, so that every category starts about equally likely.
_LAST_LAYER_SCALE = 0.01


class MlpGenerator:
    """Maps latent vectors to logits over the encoded width.

    Privacy: sees released numbers alone; nothing here is private or needs noise.
    Shapes: `weights` alternates (inputs, outputs) matrices and (outputs,) biases.
    Source: Srivastava and Alzantot 2019, sections 2.1 and 6.
    """

    def __init__(self, spans: Sequence[Span], *, latent: int, hidden: Sequence[int], rng: np.random.Generator) -> None:
        """Draws the first weights (He et al. 2015, arXiv:1502.01852), the last layer small."""
        self.spans = tuple(spans)
        sizes = [latent, *hidden, sum(span.width for span in spans)]
        self.weights: list[tf.Variable] = []
        for layer, (inputs, outputs) in enumerate(pairwise(sizes)):
            scale = math.sqrt(2.0 / inputs) if layer < len(hidden) else _LAST_LAYER_SCALE
            kernel = rng.standard_normal((inputs, outputs), dtype=np.float32) * np.float32(scale)
            self.weights.append(tf.Variable(kernel, name=f"generator_kernel_{layer}"))
            self.weights.append(tf.Variable(np.zeros(outputs, np.float32), name=f"generator_bias_{layer}"))

    def logits(self, latents: tf.Tensor) -> tf.Tensor:
        """Gives the logits of a batch. Shapes: (b, latent) to (b, width)."""
        activation = latents
        for kernel, bias in zip(self.weights[:-2:2], self.weights[1:-2:2], strict=True):
            activation = tf.nn.relu(activation @ kernel + bias)
        return activation @ self.weights[-2] + self.weights[-1]

    def rows(self, latents: tf.Tensor, uniforms: tf.Tensor) -> tf.Tensor:
        """Draws a batch of generated rows. Shapes: (b, latent) and (b, width) to (b, width)."""
        return draw_rows(self.logits(latents), uniforms, self.spans)

    def cells(self, latents: tf.Tensor, uniforms: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Draws the same rows as encoded ones. Shapes: as `rows`, to codes and numbers, (b, columns) each."""
        return draw_cells(self.logits(latents), uniforms, self.spans)
