"""Run the command line as `python -m loopcore`."""

from __future__ import annotations

import sys

from loopcore.cli import main

if __name__ == "__main__":
    sys.exit(main())
