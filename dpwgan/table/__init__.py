"""The private table: specs and schema, cells in and out, rows as arrays wherever they lie, files that appear whole.

Start with schema.py (what a column is), encoder.py (cells to arrays and back) and reader.py (files to cells).
"""
