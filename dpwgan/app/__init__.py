"""The application: the command line, the settings, the story of a run, the claim, saved models, the Python interface.

Start with pipeline.py, which tells a run from specs to claim, and api.py, which is the same for Python. Nothing below
this room knows a file path that a user typed, a log line or a progress bar.
"""
