"""The version of the tool, said in one place."""

__version__ = "0.1.0"
