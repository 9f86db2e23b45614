"""The generator beside a Gaussian prior of a table: it starts as the prior, and learns which cells to change."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from dpwgan.critic.heads import split_spans
from dpwgan.gaussians.projected_gaussian import ClassSampler
from dpwgan.marginals.groups import lay_out_groups
from dpwgan.methods.published.refined_table import KEPT, RefinedTable, draw_groups

_LAST_LAYER_SCALE = 0.01


class TableRefiner:
    """Takes rows of the prior, and adds a perceptron's logits to those of their cells; the largest of each column wins.

    Privacy: sees releases alone. Shapes: `weights` as `RefinedTable` has them.
    """

    def __init__(self, prior: ClassSampler, *, rows: int, hidden: Sequence[int], rng: np.random.Generator) -> None:
        """Draws `rows` rows of the prior to learn on, and the first weights: all rows are the prior's own."""
        self._prior = prior
        parts = prior.models[0].coarsening
        sizes = [part.size for part in parts.parts]
        self.spans = lay_out_groups([attribute.column for attribute in parts.attributes], sizes)
        self._groups = tf.constant(draw_groups(prior, rows, rng=rng))
        self.weights: list[tf.Variable] = []
        widths = [sum(sizes), *hidden, sum(sizes)]
        for layer, (inputs, outputs) in enumerate(pairwise(widths)):
            scale = math.sqrt(2.0 / len(sizes)) if layer == 0 else math.sqrt(2.0 / inputs)
            scale = scale if layer < len(hidden) else _LAST_LAYER_SCALE
            kernel = rng.standard_normal((inputs, outputs), dtype=np.float32) * np.float32(scale)
            self.weights += [tf.Variable(kernel), tf.Variable(np.zeros(outputs, np.float32))]

    def rows(self, latents: tf.Tensor, uniforms: tf.Tensor) -> tf.Tensor:
        """Gives rows, hard forwards and soft backwards. Shapes: (b,) numbers of rows of the prior to (b, width)."""
        del uniforms  # the prior's draw is all the chance there is
        pieces = []
        for span, piece in zip(self.spans, split_spans(self._logits(latents), self.spans), strict=True):
            soft = tf.nn.softmax(piece)
            pieces.append(soft + tf.stop_gradient(tf.one_hot(tf.argmax(piece, axis=1), span.width) - soft))
        return tf.concat(pieces, axis=1)

    def cells(self, latents: tf.Tensor, uniforms: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Gives the same rows as encoded ones. Shapes: as `rows`, to codes (b, columns) and no numbers, (b, 0)."""
        del uniforms
        pieces = split_spans(self._logits(latents), self.spans)
        codes = tf.stack([tf.argmax(piece, axis=1, output_type=tf.int32) for piece in pieces], axis=1)
        return codes, tf.zeros([tf.shape(codes)[0], 0])

    def _logits(self, latents: tf.Tensor) -> tf.Tensor:
        groups = tf.gather(self._groups, latents)
        one_hot = tf.concat([tf.one_hot(groups[:, span.source], span.width) for span in self.spans], axis=1)
        activation = one_hot
        for kernel, bias in zip(self.weights[:-2:2], self.weights[1:-2:2], strict=True):
            activation = tf.nn.relu(activation @ kernel + bias)
        return KEPT * one_hot + activation @ self.weights[-2] + self.weights[-1]

    def to_sampler(self, weights: Sequence[npt.NDArray[np.float32]]) -> RefinedTable:
        """Gives the sampler with these weights."""
        return RefinedTable(prior=self._prior, weights=tuple(weights))
