"""Measures what a released table gives away, by looking at the private rows: attacks, estimates, canaries. NOT private.

Imported by nobody in the package; nothing here runs in the main job, and what it writes stays with the custodian.
"""
