"""The private critic of a Wasserstein GAN: its plan, Poisson batches, clipped sums, noise, updates, the training loop.

Start with plan.py (what is fixed before training) and private_step.py (one step, exact).
"""
