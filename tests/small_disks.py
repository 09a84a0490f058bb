"""A disk of 64 KB, for a script that fills it: a file system in memory, mounted in a namespace of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

_NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
_FILLED = """
import sys
from pathlib import Path
place = Path(sys.argv[1])
def fill(but):
    for each in place.glob("filled"):
        each.unlink()
    (place / "filled").write_bytes(bytes(65536 - but))
"""


@cache
def _can_be_mounted() -> bool:
    mounting = [*_NAMESPACE, "mount -t tmpfs -o size=64k none /mnt"]
    return bool(shutil.which("unshare")) and not subprocess.call(mounting, stderr=subprocess.DEVNULL)


def run_on_small_disk(script: str, place: Path) -> subprocess.CompletedProcess[str]:
    """Run a script that knows the disk as `place` and leaves some bytes of it free with `fill(but=...)`."""
    if not _can_be_mounted():
        pytest.skip("a small file system can't be mounted here")
    file = place.with_name(f"{place.name}.py")
    file.write_text(_FILLED + script)
    place.mkdir(exist_ok=True)
    command = f"mount -t tmpfs -o size=64k none '{place}' && '{sys.executable}' '{file}' '{place}'"
    return subprocess.run([*_NAMESPACE, command], capture_output=True, text=True, check=False)
