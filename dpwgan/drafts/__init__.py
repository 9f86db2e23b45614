"""Specs drafted from public dictionaries: a file for each format. Start with entry.py, then kinds.py."""
