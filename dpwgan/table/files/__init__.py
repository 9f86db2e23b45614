"""Tables in files: the kinds of files, how a table of several parts is read, and how one is written.

Start with reader.py, and writer.py, by which files appear whole or not at all.
"""
