"""The mixture of codes that is fitted to answers: the fit and its plan, first codes, and cells it learns to be empty.

Start with mixture.py.
"""
