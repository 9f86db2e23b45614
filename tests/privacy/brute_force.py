"""Divergences of one-dimensional laws by plain numerical integration: slow, obvious, and of no other use."""

import numpy as np
from scipy import special


class Line:
    """A fine grid on which densities of mixtures of normal laws with one stddev are integrated."""

    def __init__(self, *, stddev, reach, points=40_001):
        self.stddev = stddev
        self.x = np.linspace(-reach, reach, points)
        self.step = self.x[1] - self.x[0]

    def log_mixture(self, *parts):
        """The log density of sum of weight * N(mean, stddev^2) over (weight, mean) pairs."""
        logs = [np.log(weight) - (self.x - mean) ** 2 / (2 * self.stddev**2) for weight, mean in parts if weight > 0]
        return special.logsumexp(logs, axis=0) - np.log(self.stddev * np.sqrt(2 * np.pi))

    def renyi(self, log_p, log_q, *, order):
        """The Renyi divergence of an order above 1."""
        log_integral = special.logsumexp(order * log_p + (1 - order) * log_q) + np.log(self.step)
        if log_integral < 0.1:
            # Close to 1 the integral loses its digits; its distance from 1 does not.
            excess = np.sum(np.exp(log_p) * np.expm1((order - 1) * (log_p - log_q))) * self.step
            log_integral = np.log1p(excess)
        return log_integral / (order - 1)

    def hockey_stick(self, log_p, log_q, *, epsilon):
        """The integral of the positive part of P - e^epsilon Q: the delta at epsilon, in one direction."""
        # Points of a kink are off by a step squared; the positive part of each cell's mean is fine enough.
        return float(np.sum(np.maximum(np.exp(log_p) - np.exp(epsilon + log_q), 0.0)) * self.step)


def find_delta(losses, weights, *, epsilon):
    """The divergence of two laws at epsilon, from the law of the privacy loss."""
    return float(np.sum(weights * -np.expm1(np.minimum(epsilon - losses, 0.0))))


def find_epsilon(losses, weights, *, delta):
    """The epsilon at which the divergence of two laws is delta, from the law of the privacy loss."""
    lower, upper = 0.0, 1000.0
    for _ in range(55):
        middle = (lower + upper) / 2
        found = find_delta(losses, weights, epsilon=middle)
        lower, upper = (lower, middle) if found <= delta else (middle, upper)
    return lower


def round_at_random(places, *, variance, rounding, reach):
    """The law of a continuous N(0, variance) that is rounded to x in proportion to e^(-(x - y)^2/(2 rounding))."""
    y = np.linspace(-reach, reach, 2_000 * reach + 1)
    everywhere = np.arange(-reach - 15, reach + 16)
    kernel, all_kernels = (np.exp(-((x[:, None] - y) ** 2) / (2 * rounding)) for x in (places, everywhere))
    density = np.exp(-(y**2) / (2 * variance))
    return (kernel / all_kernels.sum(axis=0)) @ density / density.sum()
