"""Rows drawn from the fitted mixture, and brought to where all that was released wants them.

Start with mixture_sampler.py.
"""
