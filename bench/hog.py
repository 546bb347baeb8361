"""Uses all CPU it gets: `python -m bench.hog SECONDS`."""

from __future__ import annotations

import sys
import time


def main() -> None:
    """Until its time is over."""
    end_s = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end_s:
        pass


if __name__ == "__main__":
    main()
