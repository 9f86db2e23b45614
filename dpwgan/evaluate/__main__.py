"""`python -m dpwgan.evaluate`."""

import sys

from dpwgan.evaluate.cli import main

if __name__ == "__main__":
    sys.exit(main())
