#!/usr/bin/env python3
"""Makes a synthetic table from a private one: argv in, exit code out."""

import sys

from dpwgan.app.cli import main

if __name__ == "__main__":
    sys.exit(main())
