"""The mixture of codes that is fitted to answers: the fit, its first codes, and cells that it learns to be empty.

Start with mixture.py.
"""
