"""The version of the tool, said in one place."""

VERSION = "0.1.0"
