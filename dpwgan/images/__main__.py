"""`python -m dpwgan.images`."""

import sys

from dpwgan.app.images.cli import main

if __name__ == "__main__":
    sys.exit(main())
