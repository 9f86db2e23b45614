"""Marginals of groups: counted in rows, answered with noise, and what the noisy answer says of its cells.

Start with measurements.py and denoising.py.
"""
