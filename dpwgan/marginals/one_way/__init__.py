"""One-way counts, and the groups that cells are merged into by them.

Start with one_ways.py, the release, and merging.py. A number's levels are a tree of intervals (number_tree.py).
"""
