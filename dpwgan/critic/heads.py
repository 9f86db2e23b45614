"""The generator's last layer: one head a span, and the draw of hard cells from it."""

import itertools
from collections.abc import Sequence

import tensorflow as tf

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
    for span, logit, uniform in zip(spans, split_spans(logits, spans), split_spans(uniforms, spans), strict=True):
        soft = _apply_head(logit, span)
        if span.head == "linear":
            pieces.append(soft if available is None else soft * available)
            available = None
            continue
        if span.head == "softmax":
            row = draw_one_hot(logit, uniform)
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
    pairs = zip(runs, tf.split(logits, widths, axis=1), tf.split(uniforms, widths, axis=1), strict=True)
    for run, logit, uniform in pairs:
        if run[0].head == "linear":
            drawn = logit + 0.5
        elif run[0].head == "sigmoid":
            drawn = tf.cast(uniform < tf.sigmoid(logit), tf.int32)
        else:
            shape = [-1, len(run), run[0].width]
            scores = tf.reshape(logit + _draw_gumbel(uniform), shape)
            drawn = tf.argmax(scores, axis=2, output_type=tf.int32)
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
    soft = tf.nn.softmax(logits)
    hard = tf.one_hot(tf.argmax(logits + _draw_gumbel(uniforms), axis=1), logits.shape[1])
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
