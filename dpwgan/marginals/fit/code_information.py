"""The mutual information between codes and columns: a penalty that lets codes differ only as far as answers ask."""

import numpy as np

from dpwgan.marginals.loss import Codes, Probabilities, ReleasedLoss, Sums

_FLOOR = np.float32(1e-12)
# So many cells at a time, which stay in a core's cache.
_BLOCK_CELLS = 1 << 15


class CodeInformation(ReleasedLoss):
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

    def add_gradient(self, codes: Codes, means: Sums, sums: Sums, *, into: Probabilities) -> None:
        """Adds the gradient to others, as `ReleasedLoss` has it."""
        scale = codes.rows.dtype.type(self._weight * codes.share)
        logs_of_means = np.log(np.maximum(means, _FLOOR))[:, np.newaxis]
        many = max(1, _BLOCK_CELLS // codes.rows.shape[1])
        for start in range(0, len(means), many):
            block = slice(start, start + many)
            information = codes.logs[block] - logs_of_means[block]
            information *= scale
            into[block] += information
