"""The mutual information between codes and columns: a penalty that lets codes differ only as far as answers ask."""

import numpy as np

from dpwgan.marginals.loss import Probabilities

_FLOOR = np.float32(1e-12)
# So many cells at a time, which stay in a core's cache.
_BLOCK_CELLS = 1 << 15


class CodeInformation:
    """The mutual information between a row's code and each of its attributes, added up, as a loss.

    Answers leave most of a table open, and a fit without this fills it with what the noise and the first codes happen
    to say. Of all mixtures that meet the answers equally well this one prefers that in which codes differ least. It is
    0 for independent columns and leaves what the mixture says of single columns alone.
    Privacy: sees released numbers alone.
    Source: the information bottleneck's rate (Tishby, Pereira, Bialek 1999, arXiv:physics/0004057, equation 15), for
      the sum over attributes; it is at least the total correlation of the rows (Watanabe 1960).
    """

    def __init__(self, *, weight: float) -> None:
        """Units: `weight` is in units of the loss for one nat."""
        self._weight = weight

    def add_gradient(self, probabilities: Probabilities, *, into: Probabilities) -> None:
        """Adds the gradient to others, as `ReleasedLoss` has it."""
        rows, sums = probabilities.T, into.T
        scale = np.float32(self._weight / len(probabilities))
        many = max(1, _BLOCK_CELLS // len(probabilities))
        for start in range(0, len(rows), many):
            block = rows[start : start + many]
            information = np.maximum(block, _FLOOR)
            np.log(information, out=information)
            information -= np.log(np.maximum(block.mean(axis=1), _FLOOR))[:, np.newaxis]
            information *= scale
            sums[start : start + many] += information
