"""Rows from a trained generator: numpy alone, so that sampling from a saved model needs no TensorFlow."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from dpwgan.array_types import AnyArray, Floats32, Integers32
from dpwgan.errors import InputError
from dpwgan.table.encoded import EncodedTable, Head, Span
from dpwgan.table.saved import read_weights, reading_saved
from dpwgan.table.storage import cut_sizes

_WEIGHTS = "weights.npz"
_SPANS = "spans.json"
# Rows are drawn in chunks of so many, or fewer where their logits would not fit in about this much memory.
_CHUNK, _LOGIT_BYTES = 16_384, 64 * 2**20


@dataclass(frozen=True, kw_only=True)
class MlpSampler:
    """The trained generator as plain arrays. It holds no rows and nothing computed from them but through the ledger.

    Shapes: `weights` alternates (inputs, outputs) matrices and (outputs,) biases.
    """

    certificate: ClassVar[None] = None
    """A critic's course certifies nothing about marginals."""

    weights: tuple[Floats32, ...]
    spans: tuple[Span, ...]

    def sample(self, records: int, *, rng: np.random.Generator) -> Iterator[EncodedTable]:
        """Draws rows in chunks: categories from the softmax or sigmoid, numbers as the linear head gives them.

        Privacy: post-processing of released gradients; free, however often.
        Source: Srivastava and Alzantot 2019, section 7.2.
        """
        width = self.weights[-1].shape[0]
        for size in cut_sizes(records, most=max(1, min(_CHUNK, _LOGIT_BYTES // (8 * width)))):
            yield self._draw(size, rng=rng)

    def _draw(self, records: int, *, rng: np.random.Generator) -> EncodedTable:
        activation = rng.standard_normal((records, self.weights[0].shape[0]), dtype=np.float32)
        logits = apply_hidden(self.weights, activation) @ self.weights[-2] + self.weights[-1]
        code_columns = sum(span.head != "linear" for span in self.spans)
        codes = np.zeros((records, code_columns), np.int32)
        numbers = np.zeros((records, len(self.spans) - code_columns), np.float32)
        for span in self.spans:
            piece = logits[:, span.start : span.start + span.width]
            if span.head == "linear":
                numbers[:, span.source] = piece[:, 0] + np.float32(0.5)
            else:
                codes[:, span.source] = draw_categories(piece, head=span.head, rng=rng)
        return EncodedTable(codes=codes, numbers=numbers, spans=self.spans)

    def save(self, directory: Path) -> None:
        """Writes the weights and the spans into an existing folder."""
        np.savez(directory / _WEIGHTS, *self.weights)
        (directory / _SPANS).write_text(json.dumps([asdict(span) for span in self.spans]))

    @classmethod
    def load(cls, directory: Path) -> "MlpSampler":
        """Reads a saved generator. Raises: InputError if it is missing or damaged."""
        with reading_saved():
            weights = read_weights(directory / _WEIGHTS)
            spans = tuple(Span(**span) for span in json.loads((directory / _SPANS).read_text()))
        if len(weights) < 4 or weights[-1].shape != (sum(span.width for span in spans),):
            raise InputError("the saved generator is damaged: its weights do not fit its columns")
        return cls(weights=weights, spans=spans)


def apply_hidden(weights: Sequence[AnyArray], value: AnyArray) -> AnyArray:
    """Takes rows through all layers but the last, as the function of this name does for networks that train."""
    for kernel, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        value = np.maximum(value @ kernel + bias, 0.0)
    return value


def draw_categories(logits: Floats32, *, head: Head, rng: np.random.Generator) -> Integers32:
    """Draws one category a row, by the sigmoid for one logit of two categories, else by the softmax.

    Shapes: (b, k) to (b,).
    """
    uniform = rng.random((len(logits), 1), dtype=np.float32)
    if head == "sigmoid":
        # u < sigmoid(x), with the logarithm taken on the side that cannot overflow.
        odds = np.log(np.maximum(uniform, np.float32(1e-12))) - np.log1p(-uniform)
        below: Integers32 = (odds < logits)[:, 0].astype(np.int32)
        return below
    cumulative = np.cumsum(np.exp(logits - logits.max(axis=1, keepdims=True)), axis=1)
    codes: Integers32 = np.sum(uniform * cumulative[:, -1:] >= cumulative[:, :-1], axis=1, dtype=np.int32)
    return codes
