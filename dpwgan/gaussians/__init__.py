"""Gaussians of classes: their noisy moments, and rows drawn from them."""
