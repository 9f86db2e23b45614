"""The generator's last layer: one head a span, and the draw of hard cells from it."""

from collections.abc import Sequence

import tensorflow as tf

from dpwgan.encoded import Span

# Uniform draws are kept away from 0 and 1 so that the double logarithm below stays finite in float32.
_LEAST_UNIFORM = 1e-7


def apply_heads(logits: tf.Tensor, spans: Sequence[Span]) -> tf.Tensor:
    """Turns logits into probabilities (softmax, sigmoid) and numbers (linear), span by span.

    A number's range is [0, 1] and its head is centred there: 0.5 plus the logit; it is cut to the range at decode.
    Shapes: (b, width) to (b, width).
    Source: Srivastava and Alzantot 2019, section 7.
    """
    pieces = zip(spans, split_spans(logits, spans), strict=True)
    return tf.concat([_apply_head(logit, span) for span, logit in pieces], axis=1)


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


def draw_one_hot(logits: tf.Tensor, uniforms: tf.Tensor) -> tf.Tensor:
    """Draws a category a row, one-hot, through which the gradient passes as if it were the softmax.

    Shapes: `logits` and `uniforms` (b, k), uniforms in [0, 1); the result (b, k).
    """
    gumbel = -tf.math.log(-tf.math.log(tf.clip_by_value(uniforms, _LEAST_UNIFORM, 1.0 - _LEAST_UNIFORM)))
    soft = tf.nn.softmax(logits)
    hard = tf.one_hot(tf.argmax(logits + gumbel, axis=1), logits.shape[1])
    return soft + tf.stop_gradient(hard - soft)


def _apply_head(logits: tf.Tensor, span: Span) -> tf.Tensor:
    if span.head == "softmax":
        return tf.nn.softmax(logits)
    return tf.sigmoid(logits) if span.head == "sigmoid" else logits + 0.5


def split_spans(values: tf.Tensor, spans: Sequence[Span]) -> list[tf.Tensor]:
    """Cuts (b, width) into one piece a span, of spans that follow each other.

    The gradient of a split is one concatenation; those of slices would be one array of the whole width for each span.
    """
    pieces: list[tf.Tensor] = tf.split(values, [span.width for span in spans], axis=1)
    return pieces
