"""Effect phrases from the PsyTAR workbook, as a lexicon for a template suite (ADE template paper, section 4.2.1).

PsyTAR (Zolnoori et al. 2019, CC BY 4.0) has the adverse reactions that annotators found in 891 patient reviews of four
drugs, on the sheet `ADR_Identified`, one per cell in the columns `ADR1`, `ADR2`, … Those that are short noun phrases
fit into a template. Spelling and case are left as the patients wrote them.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import polars as pl
import yaml

from palpate.data.lexicons.noun_phrases import MOST_TOKENS, Tagger, load_tagger, reject_tags, reject_words
from palpate.data.tables.formats import escaped
from palpate.errors import InputError
from palpate.files import replacing, write_atomically
from palpate.registry import optional

SHEET = "ADR_Identified"
DRUGS = frozenset(
    "zoloft lexapro cymbalta effexor effexorxr xr sertraline escitalopram duloxetine venlafaxine".split()  # noqa: SIM905
)
"""The names of the four drugs in the corpus."""
KEPT = "kept"
AGAIN = "a repeated phrase"


class Extraction(NamedTuple):
    """The phrases that are kept, and those that are not."""

    phrases: tuple[str, ...]
    """Each phrase once, in the order of the workbook."""
    rejected: tuple[tuple[str, str], ...]
    """Each phrase that was left out, and why."""
    n_mentions: int
    """The number of cells with a reaction; several may hold the same phrase."""
    tagger: str
    """The model that tagged the words."""

    @property
    def n_distinct(self) -> int:
        """The number of distinct cells: the denominator of the yield, as in the paper."""
        return len(self.phrases) + len(self.rejected)

    @property
    def table(self) -> pl.DataFrame:
        """How many distinct phrases were kept, or left out for each reason: `outcome`, `n`, `share`."""
        counts = Counter(reason for _, reason in self.rejected).most_common()
        rows = [(KEPT, len(self.phrases)), *sorted(counts, key=lambda row: (-row[1], row[0]))]
        schema = {"outcome": pl.String, "n": pl.Int64}
        total = self.n_distinct
        return pl.DataFrame(rows, schema=schema, orient="row").with_columns(share=pl.col("n") / total)


def extract_effects(
    file: Path, *, max_tokens: int = MOST_TOKENS, fold: bool = False, tagger: Tagger | None = None
) -> Extraction:
    """The noun phrases among the reactions in a PsyTAR workbook; with `fold`, differences in case are ignored."""
    used = tagger or load_tagger()
    mentions = read_mentions(file)
    distinct = list(dict.fromkeys(mentions))
    words = [mention.split() for mention in distinct]
    reasons = [reject_words(each, max_tokens=max_tokens, names=DRUGS) for each in words]
    seen: set[str] = set()
    for at, each in enumerate(words):
        key = " ".join(each).casefold() if fold else " ".join(each)
        if not reasons[at] and key in seen:
            reasons[at] = AGAIN
        seen.add(key)
    left = [at for at, reason in enumerate(reasons) if not reason]
    for at, taggings in zip(left, used.tag([words[at] for at in left]), strict=True):
        reasons[at] = reject_tags(words[at], taggings)
    phrases = tuple(" ".join(each) for each, reason in zip(words, reasons, strict=True) if not reason)
    rejected = tuple((mention, reason) for mention, reason in zip(distinct, reasons, strict=True) if reason)
    return Extraction(phrases, rejected, len(mentions), used.name)


def read_mentions(file: Path) -> list[str]:
    """Every reaction, as it is in its cell."""
    frame = _read_sheet(file)
    columns = [name for name in frame.columns if re.fullmatch(r"ADR\d+", name.strip())]
    mentions = [cell for row in frame.select(columns).iter_rows() for cell in row if cell and cell.strip()]
    if not mentions:
        raise InputError(
            f"sheet '{SHEET}' has no reactions in columns ADR1, ADR2, …", file=file, hint="give the PsyTAR workbook"
        )
    return mentions


def _read_sheet(file: Path) -> pl.DataFrame:
    """The sheet with the reactions; all cells are strings."""
    fastexcel = optional("fastexcel", extra="excel", needed_for=f"reading {file.name}")  # polars reads with it

    try:
        file.open("rb").close()  # fastexcel tells an unreadable file from a damaged one only by its message
        sheets = {name.strip(): name for name in fastexcel.read_excel(file).sheet_names}
        if SHEET not in sheets:
            raise InputError(f"there is no sheet '{SHEET}'", file=file, hint=f"the sheets are: {', '.join(sheets)}")
        sheet: pl.DataFrame = pl.read_excel(file, sheet_name=sheets[SHEET], infer_schema_length=0, raise_if_empty=False)
        return sheet
    except fastexcel.FastExcelError as error:
        if "password" in str(error):
            problem, hint = "the workbook is protected by a password", "save it without one"
        else:
            problem, hint = "the file is not an Excel workbook (.xlsx), or it is damaged", "download it again"
        raise InputError(problem, file=file, hint=hint) from None
    except FileNotFoundError:
        raise InputError("file not found", file=file, hint="check the path") from None
    except OSError as error:
        raise InputError(f"the file can't be read ({error.strerror})", file=file, hint="check the path") from None


def lexicon_text(extraction: Extraction, *, name: str = "effects") -> str:
    """The content of a lexicon file with the phrases, for use in a suite."""
    n, total = len(extraction.phrases), extraction.n_distinct
    head = (
        f"# {n:,} of {total:,} distinct reactions ({n / total:.1%}) of the PsyTAR corpus,\n"
        f"# Zolnoori et al. 2019, CC BY 4.0; tagged by {extraction.tagger}.\n"
        "# As patients wrote them: with misspellings, and with words of degree, which make the label of a negated\n"
        "# effect doubtful. Some are not noun phrases after all. Check them before use.\n"
    )
    content = {
        "lexicon": name,
        "about": "Effects as patients wrote them, from PsyTAR",
        "article": "none",
        "values": list(extraction.phrases),
    }
    return head + yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=10**6)


def write_effects(extraction: Extraction, out: Path, *, name: str = "effects") -> None:
    """Write the lexicon, and `OUT.reasons.csv`, which counts the phrases that were left out by reason."""
    if out.suffix not in (".yaml", ".yml"):
        raise InputError("a lexicon is written as YAML", file=out, hint="give a file name that ends in .yaml")
    if not extraction.phrases:
        raise InputError("no phrases are left for the lexicon", file=out, hint="see the table of reasons")
    try:
        with replacing(out.with_name(f"{out.name}.reasons.csv")) as reasons:
            escaped(extraction.table).write_csv(reasons)
        write_atomically(out, lexicon_text(extraction, name=name))
    except OSError as error:
        raise InputError(
            f"the lexicon can't be written ({error.strerror})", file=out, hint="check the folder"
        ) from None
