"""`python -m dpwgan.audit`."""

from dpwgan.app.process import run_watched

if __name__ == "__main__":
    run_watched("dpwgan.audit.cli")
