#!/usr/bin/env python3
"""Makes a synthetic table from a private one: argv in, exit code out."""

import os
import signal

if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):  # until there is more of the tool to answer them
        signal.signal(number, lambda number, frame: os._exit(128 + number))

    from dpwgan.app.process import run_watched

    run_watched("dpwgan.app.cli")
