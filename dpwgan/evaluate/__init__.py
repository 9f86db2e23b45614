"""How good a synthetic table is, measured against real rows: NOT private, and never part of a release."""
