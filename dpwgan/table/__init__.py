"""The private table: specs and schema, cells in and out, rows as arrays wherever they lie, files that appear whole.

Start with schema.py (what a column is), codecs (each type of column both ways), encoder.py (a whole table), files (to
cells and back) and units (rows that belong together).
"""
