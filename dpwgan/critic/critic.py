"""The critic f_w: a small dense network whose per-record gradients are clipped without being stored.

For a dense layer the gradient of one record is the outer product of its input and its error, so the norm over all
weights is a sum of products of two small norms, and the clipped sum over a batch is one weighted matrix product.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import tensorflow as tf

from dpwgan.critic.layer_noise import LayerNoise
from dpwgan.table.encoded import Span

LEAK = 0.2
"""The slope of a hidden layer's rectifier where its input is negative."""

Cells = tuple[tf.Tensor, ...]
"""Rows as encoded: codes (b, code columns) and numbers (b, number columns); real ones also their noise (b, hidden
units), for a critic whose layers have some."""

Sums = list[tf.Tensor]
"""Like a critic's weights."""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """A batch as the first layer sees it: rows by index and dense numbers; real or generated.

    `noise`: what each real row brings along for every hidden layer, where layers have noise.
    """

    dense: tf.Tensor
    indices: tf.Tensor | None
    squared_norm: tf.Tensor
    generated: bool = False
    noise: Sequence[tf.Tensor] = ()


class Critic:
    """A multilayer perceptron with leaky rectifiers and one unbounded score a record.

    There is no bias in the last layer: it would add the same number to every score, real or not, and cost privacy.
    Rows are fed as indices: the first product then costs one addition a column, whatever the one-hot width.
    Shapes: `weights` alternates (inputs, outputs) matrices and (outputs,) biases, and ends with a (inputs, 1) matrix.
    Source: Arjovsky, Chintala, Bottou 2017, arXiv:1701.07875; Goodfellow 2015, arXiv:1510.01799 (norms).
    """

    divides = True
    """Whether sums over parts of a batch add up to the batch's: a row's does not depend on its place."""
    layer_noise: LayerNoise | None = None
    """The noise of the hidden layers, where they have any."""

    def __init__(
        self, spans: Sequence[Span], *, hidden: Sequence[int], weight_clip: float, rng: np.random.Generator
    ) -> None:
        """Draws the first weights, of variance 1 / (number of inputs that are not 0), inside the weight box.

        A first weight outside the box would be moved by the clip at every step, and what the critic learnt would be
        lost beside that.
        """
        self.spans = tuple(spans)
        width = sum(span.width for span in spans)
        softmax = [span for span in spans if span.head == "softmax"]
        sigmoid = [span for span in spans if span.head == "sigmoid"]
        linear = [span for span in spans if span.head == "linear"]
        self._softmax_sources = [span.source for span in softmax]
        self._softmax_starts = np.array([span.start for span in softmax], np.int32)
        self._sigmoid_sources = [span.source for span in sigmoid]
        self._number_sources = [span.source for span in linear]
        self._dense_positions = np.array([[span.start] for span in (*sigmoid, *linear)], np.int32).reshape(-1, 1)
        sizes = [width, *hidden, 1]
        self.weights: list[tf.Variable] = []
        for layer, (inputs, outputs) in enumerate(pairwise(sizes)):
            active = len(self.spans) if layer == 0 else inputs
            matrix = rng.standard_normal((inputs, outputs), dtype=np.float32) / np.float32(math.sqrt(active))
            matrix = np.clip(matrix, -weight_clip, weight_clip)
            self.weights.append(tf.Variable(matrix, name=f"critic_kernel_{layer}"))
            if layer < len(hidden):
                self.weights.append(tf.Variable(np.zeros(outputs, np.float32), name=f"critic_bias_{layer}"))
        # Variables only so that a checkpoint can bring them back: nothing trains them.
        self.initial = [tf.Variable(weight.numpy(), trainable=False) for weight in self.weights]

    def features(self, dense: tf.Tensor, weights: Sequence[tf.Tensor] | None = None) -> tf.Tensor:
        """The last hidden layer of dense rows. Shapes: (b, width) to (b, last hidden width)."""
        weights = self.weights if weights is None else weights
        activation = dense
        for layer, (kernel, bias) in enumerate(zip(weights[:-1:2], weights[1::2], strict=True)):
            activation = self._perturb(tf.nn.leaky_relu(activation @ kernel + bias, LEAK), layer=layer)
        return activation

    def score(self, dense: tf.Tensor, weights: Sequence[tf.Tensor] | None = None) -> tf.Tensor:
        """Scores dense rows. Shapes: (b, width) to (b,)."""
        weights = self.weights if weights is None else weights
        return tf.squeeze(self.features(dense, weights) @ weights[-1], axis=1)

    def loss_of_generated(self, score: tf.Tensor) -> tf.Tensor:
        """What the generator goes down, from the scores of its rows. Shapes: (b,) to a number."""
        return -tf.reduce_mean(score)

    def clipped_sum_of_rows(self, codes: tf.Tensor, numbers: tf.Tensor, *, l2_clip_norm: float) -> list[tf.Tensor]:
        """Limits how far one record can move the weights, then adds the records up.

        Privacy: zeroing out a record moves the result by at most `l2_clip_norm` in L2, over all weights jointly, but
          for the rounding of float32 sums. No noise is added here. A record whose gradient is not finite counts as
          zero.
        Shapes: `codes` (b, code columns), `numbers` (b, number columns), b may be 0; the result is like `weights`.
        Units: `l2_clip_norm` is in score per unit of weight.
        Source: Abadi et al. 2016, arXiv:1607.00133, Algorithm 1; Srivastava and Alzantot 2019, Algorithm 2, line 9.
        """
        return self._clipped_sum(self.read_rows(codes, numbers), l2_clip_norm=l2_clip_norm)

    def clipped_sums(self, rows: Cells, generated: Cells, *, l2_clip_norm: float) -> tuple[Sums, Sums]:
        """The clipped sums of real and of generated rows, from one pass forwards and one back for both.

        Privacy: the generated half gets no noise. On a processor it is to the bit what it would be without real rows,
          from some tens of generated ones on; of fewer, products are rounded by how many there are in all.
        Shapes: `rows` and `generated` are codes and numbers, (b, code columns) and (b, number columns).
        """
        return self._sum_both(rows, generated, scale=partial(clip_factors, l2_clip_norm=l2_clip_norm))

    def clipped_sums_of_units(
        self, rows: Cells, generated: Cells, *, l2_clip_norm: float, units: tf.Tensor, share: float
    ) -> tuple[Sums, Sums]:
        """The same, with a limit on how far one unit can move the weights; no row counts more than its `share`.

        Privacy: all gradients of a unit are multiplied by the same number, at most C over the sum of their lengths, so
          that the unit adds a vector of length C at most; a gradient that is not finite takes its unit with it.
        Shapes: as `clipped_sums`; `units` (b,), whose each real row is, whole numbers below b.
        """
        scale = partial(clip_units, units, share=share, l2_clip_norm=l2_clip_norm)
        return self._sum_both(rows, generated, scale=scale)

    def _sum_both(self, rows: Cells, generated: Cells, *, scale: Callable[[tf.Tensor], tf.Tensor]) -> tuple[Sums, Sums]:
        codes, numbers = (tf.concat(pair, axis=0) for pair in zip(rows, generated, strict=True))
        inputs = self.read_rows(codes, numbers)
        errors, activations, dense = self._clip(inputs, scale=scale)
        halves = tf.stack([tf.shape(rows[0])[0], tf.shape(generated[0])[0]])

        def cut(values: list[tf.Tensor]) -> list[list[tf.Tensor]]:
            return [list(half) for half in zip(*(tf.split(value, halves, num=2) for value in values), strict=True)]

        indices: list[Any] = [None, None] if inputs.indices is None else tf.split(inputs.indices, halves, num=2)
        pieces = zip(cut(errors), cut(activations), tf.split(dense, halves, num=2), indices, strict=True)
        real, fake = (
            self._sum(error, activation, first=self._first_gradient(numbers, places, error[0]))
            for error, activation, numbers, places in pieces
        )
        return real, fake

    def read_rows(self, codes: tf.Tensor, numbers: tf.Tensor) -> Inputs:
        """Encoded rows as the first layer reads them: ones by their place, all else dense.

        Shapes: `codes` (b, code columns), `numbers` (b, number columns), b may be 0.
        """
        rows = tf.shape(codes)[0]
        parts = []
        if self._sigmoid_sources:
            parts.append(tf.cast(tf.gather(codes, self._sigmoid_sources, axis=1), tf.float32))
        if self._number_sources:
            parts.append(tf.gather(numbers, self._number_sources, axis=1))
        dense = tf.concat(parts, axis=1) if parts else tf.zeros((rows, 0))
        indices = None
        if self._softmax_sources:
            indices = tf.gather(codes, self._softmax_sources, axis=1) + self._softmax_starts
        squared_norm = float(len(self._softmax_sources)) + tf.reduce_sum(tf.square(dense), axis=1)
        return Inputs(dense=dense, indices=indices, squared_norm=squared_norm)

    def _clipped_sum(self, inputs: Inputs, *, l2_clip_norm: float) -> Sums:
        errors, activations, dense = self._clip(inputs, scale=partial(clip_factors, l2_clip_norm=l2_clip_norm))
        return self._sum(errors, activations, first=self._first_gradient(dense, inputs.indices, errors[0]))

    def _clip(
        self, inputs: Inputs, *, scale: Callable[[tf.Tensor], tf.Tensor]
    ) -> tuple[list[tf.Tensor], list[tf.Tensor], tf.Tensor]:
        """What the sums are made of: clipped errors, activations, dense inputs, none but finite ones.

        `scale` gives each row's factor from the squared lengths of all gradients.
        """
        outputs, after = self._go_forward(inputs, self.weights)
        # Errors from the last layer back: d score / d (input of each activation).
        errors = [self._last_error(inputs, after[-1])]
        for kernel, output in zip(reversed(self.weights[2::2]), reversed(outputs), strict=True):
            errors.insert(0, pass_back(tf.matmul(errors[0], kernel, transpose_b=True), output))
        squared_norm = (inputs.squared_norm + 1.0) * square_rows(errors[0])
        for activation, error in zip(after[:-1], errors[1:-1], strict=True):
            squared_norm += (square_rows(activation) + 1.0) * square_rows(error)
        squared_norm += square_rows(after[-1]) * tf.square(errors[-1][:, 0])
        factors = scale(squared_norm)[:, tf.newaxis]
        finite = tf.math.is_finite(squared_norm)[:, tf.newaxis]
        values = [*errors, *after, inputs.dense]
        # 0 times infinity is not 0: what is not finite has to go before the products. There hardly ever is any.
        values = tf.cond(
            tf.reduce_all(finite),
            lambda: [tf.identity(value) for value in values],
            lambda: [tf.where(finite, value, 0.0) for value in values],
        )
        return [error * factors for error in values[: len(errors)]], values[len(errors) : -1], values[-1]

    def _go_forward(self, inputs: Inputs, weights: Sequence[tf.Tensor]) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """What the hidden layers make of a batch: rectified, and as the next layer sees it. Shapes: (b, width) each."""
        outputs = [tf.nn.leaky_relu(self._first_product(inputs, weights[0]) + weights[1], LEAK)]
        after = [self._perturb(outputs[0], layer=0, noise=inputs.noise)]
        for layer, (kernel, bias) in enumerate(zip(weights[2:-1:2], weights[3::2], strict=True), start=1):
            outputs.append(tf.nn.leaky_relu(after[-1] @ kernel + bias, LEAK))
            after.append(self._perturb(outputs[-1], layer=layer, noise=inputs.noise))
        return outputs, after

    def _sum(self, errors: list[tf.Tensor], activations: list[tf.Tensor], *, first: tf.Tensor) -> Sums:
        """Adds records up. Shapes: lists of (b, layer width); the result is like the weights, `first` its first."""
        sums = [first, tf.reduce_sum(errors[0], axis=0)]
        for activation, error in zip(activations[:-1], errors[1:-1], strict=True):
            sums += [tf.matmul(activation, error, transpose_a=True), tf.reduce_sum(error, axis=0)]
        sums.append(tf.matmul(activations[-1], errors[-1], transpose_a=True))
        return sums

    def _perturb(self, output: tf.Tensor, *, layer: int, noise: Sequence[tf.Tensor] = ()) -> tf.Tensor:
        """Changes a hidden layer's output before the next one sees it; here not at all."""
        return output

    def _last_error(self, inputs: Inputs, activation: tf.Tensor) -> tf.Tensor:
        """What a record's objective changes by with its score. Shapes: (b, hidden) to (b, 1)."""
        return tf.ones_like(activation[:, :1])

    def _first_product(self, inputs: Inputs, kernel: tf.Tensor) -> tf.Tensor:
        """Multiplies rows by the first matrix: a sum of its rows, plus a small dense product where there is one."""
        if inputs.indices is None:
            return inputs.dense @ tf.gather_nd(kernel, self._dense_positions)
        places, rows = _list_places(inputs.indices)
        # The operation adds up nothing for an empty batch, but refuses to: one segment too many, cut off again.
        sums = tf.raw_ops.SparseSegmentSumWithNumSegments(
            data=kernel, indices=places, segment_ids=rows, num_segments=tf.shape(inputs.indices)[0] + 1
        )[:-1]
        if not len(self._dense_positions):
            return sums
        return sums + inputs.dense @ tf.gather_nd(kernel, self._dense_positions)

    def _first_gradient(self, dense: tf.Tensor, indices: tf.Tensor | None, error: tf.Tensor) -> tf.Tensor:
        """The transpose of the above applied to the errors: (width, hidden)."""
        shape = self.weights[0].shape
        total = tf.zeros(shape)
        if indices is not None:
            places, rows = _list_places(indices)
            sums = tf.raw_ops.SparseSegmentSumGrad(grad=error, indices=places, segment_ids=rows, output_dim0=shape[0])
            # For an empty batch the operation returns memory as it found it.
            total = tf.where(tf.size(places) == 0, 0.0, sums)
        if not len(self._dense_positions):
            return total
        return tf.tensor_scatter_nd_add(total, self._dense_positions, tf.matmul(dense, error, transpose_a=True))


def _list_places(indices: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The places of all ones, row by row, and the row of each. Shapes: (b, columns) to (b columns,) twice."""
    rows = tf.tile(tf.reshape(tf.range(tf.shape(indices)[0]), [-1, 1]), [1, indices.shape[1]])
    return tf.reshape(indices, [-1]), tf.reshape(rows, [-1])


def square_rows(value: tf.Tensor) -> tf.Tensor:
    """Gives each row's squared norm, without writing its squares down. Shapes: (b, width) to (b,)."""
    return tf.square(tf.raw_ops.EuclideanNorm(input=value, axis=1))


def clip_factors(squared_norm: tf.Tensor, *, l2_clip_norm: float) -> tf.Tensor:
    """Gives each record's factor min(1, C / norm), and 0 where the norm is not finite.

    Privacy: a gradient times its factor is no longer than C but for float32 rounding, for which the caller leaves room
      (`dpwgan.critic.plan.TrainingDesign.clip_target`).
    Shapes: (b,) to (b,).
    """
    factors = tf.minimum(1.0, l2_clip_norm / tf.maximum(tf.sqrt(squared_norm), 1e-30))
    return tf.where(tf.math.is_finite(squared_norm), factors, tf.zeros_like(factors))


def clip_units(units: tf.Tensor, squared_norm: tf.Tensor, *, share: float, l2_clip_norm: float) -> tf.Tensor:
    """Gives each real row min(share, C over the sum of the lengths of its unit's gradients), then all others theirs.

    Privacy: as `clip_factors`, of a unit: a sum of vectors is no longer than their lengths are together.
    Shapes: (r,) and (b,) to (b,), r at most b.
    """
    rows = tf.shape(units)[0]
    lengths = tf.math.unsorted_segment_sum(tf.sqrt(squared_norm[:rows]), units, num_segments=rows)
    whole = tf.gather(lengths, units)
    limited = share * clip_factors(tf.square(whole), l2_clip_norm=l2_clip_norm / share)
    return tf.concat([limited, clip_factors(squared_norm[rows:], l2_clip_norm=l2_clip_norm)], axis=0)


def pass_back(error: tf.Tensor, output: tf.Tensor) -> tf.Tensor:
    """Takes an error back through a leaky rectifier whose output was `output`: its sign is that of the input.

    Shapes: (b, hidden) each.
    """
    return tf.raw_ops.LeakyReluGrad(gradients=error, features=output, alpha=LEAK)
