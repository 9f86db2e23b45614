"""Rows that belong together, as those of one person: whose they are, of which form units are, what their rows share.

Start with units.py.
"""
