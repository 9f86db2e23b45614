"""The application: the command line, the settings, the story of a run, the claim, saved models, the Python interface.

A run is one road: pipeline.py tells it from specs to claim, by the stages of the Synthesizer in api.py, which Python
takes as well. What a stage does stands in planning.py (what will be spent), fitting.py and links.py (rows as numbers,
the model and its claim), together.py and sampling.py (rows of the model). Nothing below this room knows a file path
that a user typed, a log line or a progress bar.
"""
