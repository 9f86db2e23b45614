"""`python -m dpwgan.images`."""

import sys

from dpwgan.images.cli import main

if __name__ == "__main__":
    sys.exit(main())
