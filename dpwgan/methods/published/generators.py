"""Generators of the published GANs: of images as sums of a few smooth pictures, and of a table's rows.

Pixels are cut to [0, 1] as they are when rows are written; gradients pass through the cut.
"""

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from dpwgan.array_types import Floats, Floats32
from dpwgan.critic.generators import LAST_LAYER_SCALE, apply_hidden, draw_one_hot, draw_perceptron, harden, split_spans
from dpwgan.gaussians.projected_gaussian import ClassSampler
from dpwgan.images.basis import CENTRE, LENGTH, CosineSpace, SmoothFrame
from dpwgan.images.sampler import GaussianImages
from dpwgan.marginals.groups import lay_out_groups
from dpwgan.methods.published.samplers import KEPT, RefinedTable, SmoothSampler, draw_groups

# What the first images are like without a prior: gray, and this far from it, in amplitudes.
_FIRST_STDDEV = 0.5
# In points of a frame: a full picture is 10 away from a black one.
_FIRST_POINTS_STDDEV = 2.0


def _cut(pixels: tf.Tensor) -> tf.Tensor:
    return pixels + tf.stop_gradient(tf.clip_by_value(pixels, 0.0, 1.0) - pixels)


class LabelledImages:
    """Maps latents and labels to points of a frame: pictures in few coordinates, as differences from the mean picture.

    The perceptron has one hidden layer. The first pictures are the mean one, and smooth noise on it that falls with the
    frequency.
    Privacy: sees released numbers alone.
    Shapes: `weights` are matrices and biases: (latent + classes, hidden), (hidden,), (hidden, dimension), (dimension,).
    """

    def __init__(
        self,
        frame: SmoothFrame,
        *,
        centre: Floats,
        latent: int,
        hidden: int,
        rng: np.random.Generator,
    ) -> None:
        """Draws the first weights (He et al. 2015, arXiv:1502.01852). Shapes: `centre` (dimension,), a point."""
        basis, frequencies = frame.basis
        self._basis = tf.constant(basis, tf.float32)
        self._scale = frame.scale
        self._centre = tf.constant(centre, tf.float32)
        self.weights = draw_perceptron([latent + frame.grid.classes, hidden, len(basis)], last=1.0, rng=rng)
        # Amplitudes fall as 1/f in pictures of most things (Field 1987).
        falls = (_FIRST_POINTS_STDDEV / math.sqrt(hidden) / (1.0 + frequencies)).astype(np.float32)
        self.weights[2].assign(self.weights[2] * falls)
        self.weights[3].assign(centre)

    def generate(self, latents: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Draws a batch of points. Shapes: (b, latent) and one-hot (b, classes) to (b, dimension)."""
        hidden = apply_hidden(self.weights, tf.concat([latents, labels], axis=1))
        pixels = ((hidden @ self.weights[-2] + self.weights[-1]) / self._scale) @ self._basis
        return tf.matmul(_cut(pixels), self._basis, transpose_b=True) * self._scale - self._centre


class SmoothGenerator:
    """Draws a label and a latent; the image is what the perceptron makes of both, in a basis of smooth pictures.

    With a prior, the image is that of the prior for the same latent, and the perceptron's picture, next to 0, is
    added: a generator that starts as RON-Gauss. Rows are points of the space, as the discriminator sees them.
    Privacy: sees released numbers alone.
    Shapes: `weights` begins with the logits of the label (classes,), then alternates matrices and biases.
    """

    def __init__(
        self,
        space: CosineSpace,
        *,
        latent: int,
        hidden: Sequence[int],
        prior: GaussianImages | None = None,
        rng: np.random.Generator,
    ) -> None:
        """Draws the first weights: smooth pictures without a prior, next to nothing with one."""
        self.space, self.latent, self._prior = space, latent, prior
        shares = np.full(space.grid.classes, 1.0 / space.grid.classes) if prior is None else prior.shares
        # The network's output becomes pixels, and pixels points, each by one product.
        self._drawing = tf.constant(space.amplitudes[:, np.newaxis] * space.basis.pictures, tf.float32)
        self._looking = tf.constant(space.basis.pictures.T * space.weights, tf.float32)
        if prior is not None:
            self._locations, self._spreads, self._loadings = (tf.constant(part, tf.float32) for part in prior.weights)
        sizes = [latent + space.grid.classes, *hidden, space.dimension]
        last = _FIRST_STDDEV / math.sqrt(sizes[-2]) if prior is None else LAST_LAYER_SCALE
        logits = tf.Variable(np.log(np.maximum(shares, 1e-6)).astype(np.float32))
        self.weights = [logits, *draw_perceptron(sizes, last=last, rng=rng)]

    def rows(self, latents: tf.Tensor, uniforms: tf.Tensor) -> tf.Tensor:
        """Draws a batch of points. Shapes: (b, latent), (b, classes or more) to (b, features + classes)."""
        classes = self.space.grid.classes
        logits = tf.tile(self.weights[0][tf.newaxis], [tf.shape(latents)[0], 1])
        label = draw_one_hot(logits, uniforms[:, :classes])
        activation = apply_hidden(self.weights[1:], tf.concat([latents, label], axis=1))
        pixels = (activation @ self.weights[-2] + self.weights[-1]) @ self._drawing
        if self._prior is None:
            pixels += CENTRE
        else:
            pixels += self._draw_prior(latents, tf.stop_gradient(label))
        return tf.concat([self._embed(_cut(pixels)), label], axis=1)

    def cells(self, latents: tf.Tensor, uniforms: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Draws the same points as encoded ones. Shapes: as `rows`, to codes (b, 1) and numbers (b, features)."""
        numbers, label = tf.split(self.rows(latents, uniforms), [self.space.features, self.space.grid.classes], axis=1)
        return tf.argmax(label, axis=1, output_type=tf.int32)[:, tf.newaxis], numbers

    def to_sampler(self, weights: Sequence[Floats32]) -> SmoothSampler:
        """The sampler with these weights."""
        chances = np.exp(weights[0].astype(np.float64) - weights[0].max())
        return SmoothSampler(
            grid=self.space.grid,
            shares=chances / chances.sum(),
            weights=tuple(weights),
            dimension=self.space.most,
            prior=self._prior,
        )

    def _embed(self, pixels: tf.Tensor) -> tf.Tensor:
        """Gives points of images, as `CosineSpace.to_points` does of rows. Shapes: (b, pixels) to (b, features)."""
        scaled = (pixels - CENTRE) @ self._looking
        whole = tf.pad(scaled, [[0, 0], [0, 1]], constant_values=self.space.constant)
        # The constant is never 0, so that no length is.
        return LENGTH * whole / tf.norm(whole, axis=1, keepdims=True)

    def _draw_prior(self, latents: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
        classes, matrices = self.space.grid.classes, int(self._loadings.shape[0])
        if matrices == 1:
            bent = latents @ self._loadings[0]
        else:
            # One product for all classes: each latent stands in the place of its own class, zeros in the others.
            placed = tf.reshape(label[:, :, tf.newaxis] * latents[:, tf.newaxis], [-1, classes * self.latent])
            bent = placed @ tf.reshape(self._loadings, [classes * self.latent, -1])
        return label @ self._locations + (label @ self._spreads) * bent


class TableRefiner:
    """Takes rows of the prior, and adds a perceptron's logits to those of their cells; the largest of each column wins.

    Privacy: sees releases alone. Shapes: `weights` as `RefinedTable` has them.
    """

    def __init__(self, prior: ClassSampler, *, rows: int, hidden: Sequence[int], rng: np.random.Generator) -> None:
        """Draws `rows` rows of the prior to learn on, and the first weights: all rows are the prior's own."""
        self._prior = prior
        coarsening = prior.models[0].coarsening
        columns, width = [attribute.column for attribute in coarsening.attributes], coarsening.width
        self.spans = lay_out_groups(columns, coarsening.sizes)
        self._groups = tf.constant(draw_groups(prior, rows, rng=rng))
        self.weights = draw_perceptron([width, *hidden, width], last=LAST_LAYER_SCALE, active=len(columns), rng=rng)

    def rows(self, latents: tf.Tensor, uniforms: tf.Tensor) -> tf.Tensor:
        """Draws rows, hard forwards and soft backwards. Shapes: (b,) numbers of rows of the prior to (b, width)."""
        del uniforms  # the prior's draw is all the chance there is
        pieces = split_spans(self._logits(latents), self.spans)
        return tf.concat([harden(tf.nn.softmax(piece), piece) for piece in pieces], axis=1)

    def cells(self, latents: tf.Tensor, uniforms: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Draws the same rows as encoded ones. Shapes: as `rows`, to codes (b, columns) and no numbers, (b, 0)."""
        del uniforms
        pieces = split_spans(self._logits(latents), self.spans)
        codes = tf.stack([tf.argmax(piece, axis=1, output_type=tf.int32) for piece in pieces], axis=1)
        return codes, tf.zeros([tf.shape(codes)[0], 0])

    def _logits(self, latents: tf.Tensor) -> tf.Tensor:
        groups = tf.gather(self._groups, latents)
        one_hot = tf.concat([tf.one_hot(groups[:, span.source], span.width) for span in self.spans], axis=1)
        return KEPT * one_hot + apply_hidden(self.weights, one_hot) @ self.weights[-2] + self.weights[-1]

    def to_sampler(self, weights: Sequence[Floats32]) -> RefinedTable:
        """The sampler with these weights."""
        return RefinedTable(prior=self._prior, weights=tuple(weights))
