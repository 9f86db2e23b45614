"""Counts of rows, measured with noise, and the mixture of codes that is fitted to them.

Start with anchor.py, which tells it in order: one-way counts, groups, a tree of pairs, rounds of queries, the last fit.
anchor_plan.py fixes all of it before.
"""
