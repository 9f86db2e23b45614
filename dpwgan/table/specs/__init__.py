"""The specs file: a module for each type of column, with its keys and its refusals. Start with document.py."""

from dpwgan.table.specs.document import load_document, parse_specs, read_specs, survey_specs
from dpwgan.table.specs.problems import Problems

__all__ = ["Problems", "load_document", "parse_specs", "read_specs", "survey_specs"]
