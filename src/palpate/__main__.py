"""`python -m palpate` is `palpate`: modules are not looked for in the current folder, which may hold anybody's.

Importing takes a while on a slow disk: whoever stops palpate meanwhile reads one line, too, and no traceback.
"""

import os
import signal
import sys

if __name__ == "__main__" and not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:  # noqa: PTH109  (no more imports before this)
    del sys.path[0]

_STOPPED = 130


def _end(*_: object) -> None:
    os.write(2, b"palpate: stopped; nothing was begun.\n")
    os._exit(_STOPPED)


def start() -> None:
    """Import the command line and run it."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    heeded = [number for number, how in before.items() if how in (signal.default_int_handler, signal.SIG_DFL)]
    for number in heeded:
        signal.signal(number, _end)

    from palpate.cli import main

    for number in heeded:
        signal.signal(number, before[number])
    main()


if __name__ == "__main__":
    start()
