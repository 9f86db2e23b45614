"""Generators of rows, and their random input: the multilayer perceptron of the DP-WGAN, and a mixture of codes."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from dpwgan.array_types import Floats32
from dpwgan.table.encoded import Span

# Uniform draws are kept away from 0 and 1 so that the double logarithm below stays finite in float32.
_LEAST_UNIFORM = 1e-7


def draw_rows(logits: tf.Tensor, uniforms: tf.Tensor, spans: Sequence[Span]) -> tf.Tensor:
    """Draws rows like the real ones, ones and zeros, through which the gradient passes as if they were probabilities.

    The critic then compares like with like: it cannot tell rows apart by how soft they are. The number of a
    number-or-not-available column is 0 where the draw says not available, as in encoded rows.
    Shapes: `logits` and `uniforms` (b, width), uniforms in [0, 1); the result (b, width).
    Source: Bengio, Leonard, Courville 2013, arXiv:1308.3432 (straight-through); Gumbel 1954 (the draw).
    """
    pieces = []
    available: tf.Tensor | None = None
    parts = [split_spans(values, spans) for values in (logits, logits + _draw_gumbel(uniforms), uniforms)]
    for span, logit, scores, uniform in zip(spans, *parts, strict=True):
        soft = _apply_head(logit, span)
        if span.head == "linear":
            pieces.append(soft if available is None else soft * available)
            available = None
            continue
        if span.head == "softmax":
            row = harden(soft, scores)
        else:
            hard = tf.cast(uniform < soft, tf.float32)
            row = soft + tf.stop_gradient(hard - soft)
        available = row[:, -1:] if span.role == "available" else None
        pieces.append(row)
    return tf.concat(pieces, axis=1)


def draw_cells(logits: tf.Tensor, uniforms: tf.Tensor, spans: Sequence[Span]) -> tuple[tf.Tensor, tf.Tensor]:
    """Draws the rows that `draw_rows` draws, as encoded ones: for those who want no gradient, and read by index.

    Spans of one width that follow each other are drawn together.
    Shapes: `logits` and `uniforms` (b, width), uniforms in [0, 1), to codes (b, code columns), numbers (b, numbers).
    """
    runs = [list(run) for _, run in itertools.groupby(spans, key=lambda span: (span.head, span.width))]
    widths = [sum(span.width for span in run) for run in runs]
    codes: list[tuple[int, tf.Tensor]] = []
    numbers: list[tuple[int, tf.Tensor]] = []
    available: dict[int, tf.Tensor] = {}
    parts = [tf.split(values, widths, axis=1) for values in (logits, logits + _draw_gumbel(uniforms), uniforms)]
    for run, logit, scores, uniform in zip(runs, *parts, strict=True):
        if run[0].head == "linear":
            drawn = logit + 0.5
        elif run[0].head == "sigmoid":
            drawn = tf.cast(uniform < tf.sigmoid(logit), tf.int32)
        else:
            drawn = tf.argmax(tf.reshape(scores, [-1, len(run), run[0].width]), axis=2, output_type=tf.int32)
        for span, column in zip(run, tf.unstack(drawn, num=len(run), axis=1), strict=True):
            before = span.start - 1
            if span.head == "linear":
                numbers.append((span.source, column * available[before] if before in available else column))
                continue
            codes.append((span.source, column))
            if span.role == "available":
                last = 1 if span.head == "sigmoid" else span.width - 1
                available[span.start + span.width - 1] = tf.cast(tf.equal(column, last), tf.float32)
    rows = tf.shape(logits)[0]
    return _stack(codes, empty=tf.zeros([rows, 0], tf.int32)), _stack(numbers, empty=tf.zeros([rows, 0]))


def draw_one_hot(logits: tf.Tensor, uniforms: tf.Tensor) -> tf.Tensor:
    """Draws a category a row, one-hot, through which the gradient passes as if it were the softmax.

    Shapes: `logits` and `uniforms` (b, k), uniforms in [0, 1); the result (b, k).
    """
    return harden(tf.nn.softmax(logits), logits + _draw_gumbel(uniforms))


def harden(soft: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """The category with the greatest score, one-hot, with the gradient of `soft`. Shapes: (b, k) all."""
    hard = tf.one_hot(tf.argmax(scores, axis=1), soft.shape[1])
    return soft + tf.stop_gradient(hard - soft)


def _draw_gumbel(uniforms: tf.Tensor) -> tf.Tensor:
    return -tf.math.log(-tf.math.log(tf.clip_by_value(uniforms, _LEAST_UNIFORM, 1.0 - _LEAST_UNIFORM)))


def _stack(columns: list[tuple[int, tf.Tensor]], *, empty: tf.Tensor) -> tf.Tensor:
    """Puts columns side by side in the order of their sources. Shapes: (b,) each to (b, columns)."""
    return tf.stack([column for _, column in sorted(columns, key=lambda pair: pair[0])], axis=1) if columns else empty


def _apply_head(logits: tf.Tensor, span: Span) -> tf.Tensor:
    """Turns a span's logits into probabilities (softmax, sigmoid) or a number (linear).

    A number's range is [0, 1] and its head is centred there: 0.5 plus the logit; it is cut to the range at decode.
    Source: Srivastava and Alzantot 2019, section 7.
    """
    if span.head == "softmax":
        return tf.nn.softmax(logits)
    return tf.sigmoid(logits) if span.head == "sigmoid" else logits + 0.5


def split_spans(values: tf.Tensor, spans: Sequence[Span]) -> list[tf.Tensor]:
    """Cuts (b, width) into one piece a span, of spans that follow each other.

    The gradient of a split is one concatenation; those of slices would be one array of the whole width for each span.
    """
    pieces: list[tf.Tensor] = tf.split(values, [span.width for span in spans], axis=1)
    return pieces


class LatentSource:
    """Draws latent vectors and the uniforms that make hard rows of logits, on the device. Not secret: no row is met."""

    def __init__(self, *, latent: int, width: int, rng: np.random.Generator | tf.random.Generator) -> None:
        """Takes a generator on the device, or seeds one from the model stream."""
        self._latent, self._width = latent, width
        if isinstance(rng, np.random.Generator):
            rng = tf.random.Generator.from_seed(int(rng.integers(2**63)), alg="philox")
        self._device_rng = rng

    def draw(self, batch: int) -> tuple[tf.Tensor, tf.Tensor]:
        """Standard normal latents (batch, latent) and uniforms in [0, 1), (batch, width)."""
        return self._device_rng.normal([batch, self._latent]), self._device_rng.uniform([batch, self._width])


class CodeSource(LatentSource):
    """Draws codes in the place of latent vectors."""

    def __init__(self, *, codes: int, width: int, rng: np.random.Generator) -> None:
        super().__init__(latent=0, width=width, rng=rng)
        self._codes = codes

    def draw(self, batch: int) -> tuple[tf.Tensor, tf.Tensor]:
        """Indices of codes, all alike (batch,), and uniforms in [0, 1), (batch, width)."""
        indices = self._device_rng.uniform([batch], maxval=self._codes, dtype=tf.int32)
        return indices, self._device_rng.uniform([batch, self._width])


LAST_LAYER_SCALE = 0.01
"""The last layer starts small, so that every category starts about equally likely."""


def draw_perceptron(
    sizes: Sequence[int], *, last: float, active: int | None = None, rng: np.random.Generator
) -> list[tf.Variable]:
    """Draws first weights: matrices (inputs, outputs) by turns with biases (outputs,), which are 0.

    `last`: stddev of the last matrix. `active`: how many of the first layer's inputs are not 0, where not all are.
    Source: He et al. 2015, arXiv:1502.01852.
    """
    weights: list[tf.Variable] = []
    for layer, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        scale = math.sqrt(2.0 / (active if active and layer == 0 else inputs)) if layer < len(sizes) - 2 else last
        kernel = rng.standard_normal((inputs, outputs), dtype=np.float32) * np.float32(scale)
        weights += [tf.Variable(kernel), tf.Variable(np.zeros(outputs, np.float32))]
    return weights


def apply_hidden(weights: Sequence[tf.Tensor], value: tf.Tensor) -> tf.Tensor:
    """Takes rows through all layers but the last, each with a rectifier. Shapes: (b, inputs) to (b, last hidden)."""
    for kernel, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        value = tf.nn.relu(value @ kernel + bias)
    return value


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
        self.weights = draw_perceptron(sizes, last=LAST_LAYER_SCALE, rng=rng)

    def logits(self, latents: tf.Tensor) -> tf.Tensor:
        """Computes the logits of a batch. Shapes: (b, latent) to (b, width)."""
        return apply_hidden(self.weights, latents) @ self.weights[-2] + self.weights[-1]

    def rows(self, latents: tf.Tensor, uniforms: tf.Tensor) -> tf.Tensor:
        """Draws a batch of generated rows. Shapes: (b, latent) and (b, width) to (b, width)."""
        return draw_rows(self.logits(latents), uniforms, self.spans)

    def cells(self, latents: tf.Tensor, uniforms: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Draws the same rows as encoded ones. Shapes: as `rows`, to codes and numbers, (b, columns) each."""
        return draw_cells(self.logits(latents), uniforms, self.spans)


class CodeTable:
    """A mixture's codes where rows are drawn of them.

    Privacy: sees released numbers alone. Shapes: `logits` (codes, width).
    """

    def __init__(self, spans: Sequence[Span], logits: Floats32) -> None:
        self._spans, self._logits = tuple(spans), tf.Variable(logits)

    def put(self, logits: Floats32) -> None:
        """Takes the codes as they are now. Shapes: (codes, width)."""
        self._logits.assign(logits)

    def rows(self, latents: tf.Tensor, uniforms: tf.Tensor) -> tf.Tensor:
        """Draws a row of each of the given codes, ones and zeros.

        Shapes: `latents`, indices of codes, (b,) and `uniforms` (b, width) to (b, width).
        """
        scores = split_spans(tf.gather(self._logits, latents) + _draw_gumbel(uniforms), self._spans)
        return tf.concat([tf.one_hot(tf.argmax(piece, axis=1), piece.shape[1]) for piece in scores], axis=1)

    def cells(self, latents: tf.Tensor, uniforms: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Draws the same rows as encoded ones. Shapes: as `rows`, to codes and numbers, (b, columns) each."""
        return draw_cells(tf.gather(self._logits, latents), uniforms, self._spans)
