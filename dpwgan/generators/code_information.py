"""What codes know of the columns: the generator's own wish to know no more than the answers ask for."""

import numpy as np

from dpwgan.discriminators.base import Probabilities

_FLOOR = np.float32(1e-12)


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

    def loss_and_gradient(self, probabilities: Probabilities) -> tuple[float, Probabilities]:
        """Gives the weighted information in nats, and its gradient. Shapes: (codes, width) to a number and the same.

        Privacy: post-processing.
        """
        codes = len(probabilities)
        information = np.maximum(probabilities, _FLOOR)
        np.log(information, out=information)
        information -= np.log(np.maximum(probabilities.mean(axis=0), _FLOOR))
        scale = np.float32(self._weight / codes)
        information *= scale
        return float(np.vdot(probabilities, information)), information
