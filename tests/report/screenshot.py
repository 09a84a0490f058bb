"""The picture in the README: `python -m tests.report.screenshot REPORT PNG` (make screenshot)."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.report.browser import Browser


def main() -> None:
    report, picture = map(Path, sys.argv[1:3])
    with Browser() as browser:
        browser.open(report, width=1280, height=800).screenshot(picture)


if __name__ == "__main__":
    main()
