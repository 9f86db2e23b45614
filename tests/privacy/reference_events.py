"""Events in the words of dp_accounting, whose sums the project's own are compared with."""

import dp_accounting

from dpwgan.privacy.events import ExponentialSelection, Gaussian, PoissonGaussian


def to_dp_event(event: PoissonGaussian | Gaussian | ExponentialSelection) -> dp_accounting.DpEvent:
    """Gives the same event, under zero-out.

    That library has none for the exponential mechanism: the Gaussian of the same zCDP stands for it, for the Renyi
    accountant only. Its Renyi divergences, a epsilon^2 / 8, are upper bounds at every order; its privacy loss
    distribution would prove nothing about a selection.
    """
    if isinstance(event, ExponentialSelection):
        return dp_accounting.GaussianDpEvent(2 / event.epsilon)
    release = dp_accounting.GaussianDpEvent(event.noise_multiplier)
    if isinstance(event, Gaussian):
        return release
    return dp_accounting.PoissonSampledDpEvent(event.sampling_probability, release)
