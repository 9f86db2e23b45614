"""The mixture generator on TensorFlow: codes, a multilayer perceptron over fixed latents, or both added."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from dpwgan.critic.heads import draw_cells, draw_rows, split_spans
from dpwgan.critic.mlp import MlpGenerator
from dpwgan.critic.optimizer import RmsProp
from dpwgan.critic.tracing import compile_step
from dpwgan.critic.weights import pack_variables, unpack_variables
from dpwgan.marginals.loss import Probabilities
from dpwgan.table.encoded import Span

_DECAY = 0.99


class TensorMixture:
    """Codes whose logits are a table, the output of a perceptron for a fixed latent vector each, or the sum of both.

    Privacy: sees released numbers alone.
    Shapes: `logits` (codes, width), the table's first values; with `table` False they only set the perceptron's bias.
    """

    def __init__(
        self,
        spans: Sequence[Span],
        logits: npt.NDArray[np.float32],
        *,
        table: bool = True,
        hidden: Sequence[int] = (),
        latent: int = 64,
        rng: np.random.Generator,
    ) -> None:
        """Draws latents and the perceptron's weights, where `hidden` names its layers."""
        self.spans = tuple(spans)
        self._codes = len(logits)
        self._table = tf.Variable(logits) if table else None
        self._mlp: MlpGenerator | None = None
        self.weights: list[tf.Variable] = [] if self._table is None else [self._table]
        if hidden:
            self._latents = tf.Variable(rng.standard_normal((self._codes, latent), dtype=np.float32), trainable=False)
            self._mlp = MlpGenerator(spans, latent=latent, hidden=hidden, rng=rng)
            if self._table is None:
                self._mlp.weights[-1].assign(logits.mean(axis=0))
            self.weights += self._mlp.weights
        self._optimizer = RmsProp(self.weights, decay=_DECAY)
        self._probabilities = compile_step(self.soft)
        self._move = compile_step(
            self._trace_move,
            input_signature=[tf.TensorSpec(logits.shape, tf.float32), tf.TensorSpec([], tf.float32)],
        )

    @property
    def variables(self) -> list[tf.Variable]:
        """Everything that training changed or drew: weights, fixed latents, the optimiser's memory."""
        latents = [] if self._mlp is None else [self._latents]
        return [*self.weights, *latents, *self._optimizer.variables]

    def pack(self) -> dict[str, npt.NDArray[np.generic]]:
        """Gives all of it as arrays by name, for a checkpoint."""
        return pack_variables(self.variables)

    def unpack(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Takes over what `pack` gave."""
        unpack_variables(self.variables, arrays)

    @property
    def codes(self) -> int:
        """Number of codes."""
        return self._codes

    def logits(self) -> tf.Tensor:
        """Gives the logits of all codes. Shapes: (codes, width)."""
        parts = [] if self._table is None else [tf.convert_to_tensor(self._table)]
        if self._mlp is not None:
            parts.append(self._mlp.logits(self._latents))
        return tf.add_n(parts)

    def soft(self) -> tf.Tensor:
        """Gives the distributions of all codes. Shapes: (codes, width)."""
        return self._soften(self.logits())

    def probabilities(self) -> Probabilities:
        """Gives the distributions of all codes. Shapes: (codes, width)."""
        values: Probabilities = self._probabilities().numpy()
        return values

    def step(self, gradient: Probabilities, *, learning_rate: float) -> None:
        """Takes one step against a gradient in the probabilities. Shapes: (codes, width)."""
        self._move(tf.constant(gradient), tf.constant(learning_rate, tf.float32))

    def rows(self, latents: tf.Tensor, uniforms: tf.Tensor) -> tf.Tensor:
        """Draws a row of each of the given codes, hard forwards and soft backwards.

        Shapes: `latents`, indices of codes, (b,) and `uniforms` (b, width) to (b, width).
        """
        return draw_rows(tf.gather(self.logits(), latents), uniforms, self.spans)

    def cells(self, latents: tf.Tensor, uniforms: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Draws the same rows as encoded ones. Shapes: as `rows`, to codes and numbers, (b, columns) each."""
        return draw_cells(tf.gather(self.logits(), latents), uniforms, self.spans)

    def _soften(self, logits: tf.Tensor) -> tf.Tensor:
        return tf.concat([tf.nn.softmax(piece) for piece in split_spans(logits, self.spans)], axis=1)

    def _trace_move(self, gradient: tf.Tensor, learning_rate: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            surrogate = tf.reduce_sum(self.soft() * gradient)
        self._optimizer.apply(tape.gradient(surrogate, self.weights), -learning_rate)


class CodeSource:
    """Draws codes and the uniforms that make hard rows of logits, on the device. Not secret: no row is met."""

    def __init__(self, *, codes: int, width: int, rng: np.random.Generator) -> None:
        """Seeds the device's generator from the model stream."""
        self._codes = codes
        self._width = width
        self._device_rng = tf.random.Generator.from_seed(int(rng.integers(2**63)), alg="philox")

    def draw(self, batch: int) -> tuple[tf.Tensor, tf.Tensor]:
        """Gives indices of codes, all alike (batch,), and uniforms in [0, 1), (batch, width)."""
        indices = self._device_rng.uniform([batch], maxval=self._codes, dtype=tf.int32)
        return indices, self._device_rng.uniform([batch, self._width])
