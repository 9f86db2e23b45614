"""Counts of rows, measured with noise, and the mixture of codes that is fitted to them.

Start with anchor.py, which tells it in order: one-way counts and groups (one_way), a tree of pairs and rounds of
queries (selection), their answers (answers), the mixture fitted to these (fit), and rows drawn from it (rows).
anchor_plan.py fixes all of it before.
"""
