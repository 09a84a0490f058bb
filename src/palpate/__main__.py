"""`python -m palpate` is `palpate`: modules are not looked for in the current folder, which may hold anybody's."""

import os
import sys

if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:  # noqa: PTH109  (no more imports before this)
    del sys.path[0]

from palpate.cli import main

main()
