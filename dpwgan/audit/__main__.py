"""`python -m dpwgan.audit`."""

import sys

from dpwgan.audit.cli import main

if __name__ == "__main__":
    sys.exit(main())
