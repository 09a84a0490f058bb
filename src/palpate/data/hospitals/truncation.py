"""Whether a text file is all there: what DuckDB lets pass is found before it reads.

DuckDB drops a last row whose quote is never closed, which is how a copy that stopped half-way looks, and does not
compare a gzip file's checksum.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from palpate.data.tables.formats import format_of
from palpate.errors import CohortError

BLOCK = 4 * 2**20


def check_whole(file: Path) -> None:
    """Read a CSV or gzipped CSV once and refuse it if it is damaged or if a quote stays open."""
    zipped = file.name.lower().endswith(".gz")
    n_quotes = 0
    try:
        with gzip.open(file, "rb") if zipped else file.open("rb") as content:
            while block := content.read(BLOCK):
                n_quotes += block.count(b'"')
    except EOFError:
        raise CohortError("the gzip file ends too early", file=file, hint="copy or export the file again") from None
    except (gzip.BadGzipFile, zlib.error):
        raise CohortError("the gzip file is damaged", file=file, hint="copy or export the file again") from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise CohortError(f"the file can't be read ({reason})", file=file, hint="check its permissions") from None
    if n_quotes % 2:
        # The exact reader can say in which row; it only reads a file again that is known to be wrong.
        form = format_of(file)
        form.frame(file, form.columns(file)[:1], {})
        raise CohortError("a quote is not closed", file=file, hint="copy or export the file again")
