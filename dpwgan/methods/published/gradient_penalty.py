"""The loss of a Wasserstein critic with a gradient penalty, row by row."""

from typing import NamedTuple

import tensorflow as tf

from dpwgan.methods.published.networks import Networks

PENALTY = 10.0
"""Weight of the penalty, lambda, as published."""


class Match(NamedTuple):
    """Real rows, each beside a generated one of the same label.

    `mixing` is the real row's share in the point between both where the critic's slope is measured.
    Shapes: `content` and `generated` (b, ...), `labels` (b, classes), `mixing` (b,).
    """

    content: tf.Tensor
    labels: tf.Tensor
    generated: tf.Tensor
    mixing: tf.Tensor


def score_losses(networks: Networks, match: Match) -> tf.Tensor:
    """Gives the critic's loss without its penalty: the generated row's score less the real one's. Shapes: (b,)."""
    real = networks.score(match.content, match.labels)
    return networks.score(match.generated, match.labels) - real


def record_losses(networks: Networks, match: Match, *, target_slope: float = 1.0) -> tf.Tensor:
    """Gives what each record adds to the critic's loss: less its own score, and its penalty.

    The scores of generated rows are the rest of the loss, and no record is in them. Shapes: (b,).
    """
    own = networks.score(match.content, match.labels)
    return penalties(networks, match, target_slope=target_slope) - own


def penalties(networks: Networks, match: Match, *, target_slope: float = 1.0) -> tf.Tensor:
    """Gives lambda (|slope| - target)^2 at a point between each real row and its generated one.

    The slope is the gradient of a row's score by that row's own content, so that a row's penalty depends on no other.
    The target is 1 as published. With 0 a critic that finds nothing wrong is flat, and the generator comes to rest.
    Shapes: (b,).
    Source: Gulrajani et al. 2017, arXiv:1704.00028, Algorithm 1; Mescheder, Geiger, Nowozin 2018, arXiv:1801.04406,
      section 4 (the target 0, without which such games need not converge).
    """
    inner = [-1] + [1] * (len(match.content.shape) - 1)
    mixing = tf.reshape(match.mixing, inner)
    between = mixing * match.content + (1.0 - mixing) * match.generated
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(between)
        scores = networks.score(between, match.labels)
    slopes = tape.gradient(scores, between)
    squares = tf.reduce_sum(tf.square(slopes), axis=list(range(1, len(inner))))
    # The root is kept from 0, where its gradient is not finite.
    return PENALTY * tf.square(tf.sqrt(squares + 1e-12) - target_slope)
