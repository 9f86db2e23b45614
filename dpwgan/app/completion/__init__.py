"""Completion of words and flags in a shell."""
