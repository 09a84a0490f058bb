"""Effect phrases from the PsyTAR workbook, as a lexicon for a template suite (ADE template paper, section 4.2.1).

PsyTAR (Zolnoori et al. 2019, CC BY 4.0) has the adverse reactions that annotators found in 891 patients' reviews of
four drugs, on the sheet `ADR_Identified`, one a cell in the columns `ADR1`, `ADR2`, … Those that are short noun phrases
fit into a template. Spelling and capitals stay as the patients wrote them.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import polars as pl
import yaml

from palpate.data.lexicons.noun_phrases import MOST_TOKENS, Tagger, load_tagger, reject_tags, reject_words
from palpate.data.tables.workbook import read_sheet
from palpate.errors import InputError

SHEET = "ADR_Identified"
DRUGS = frozenset(
    "zoloft lexapro cymbalta effexor effexorxr xr sertraline escitalopram duloxetine venlafaxine".split()  # noqa: SIM905
)
"""The four drugs of the corpus."""
KEPT = "kept"
AGAIN = "the same phrase again"


class Extraction(NamedTuple):
    """Phrases and what became of the rest."""

    phrases: tuple[str, ...]
    """In the order of the workbook, each once."""
    rejected: tuple[tuple[str, str], ...]
    """Each other phrase and why it is left out."""
    n_mentions: int
    """Cells with a reaction; a phrase may stand in many."""
    tagger: str
    """The model that tagged the words."""

    @property
    def n_distinct(self) -> int:
        """Distinct cells, the denominator of the yield, as in the paper."""
        return len(self.phrases) + len(self.rejected)

    @property
    def table(self) -> pl.DataFrame:
        """How many distinct phrases were kept, and left out for each reason: `outcome`, `n`, `share`."""
        counts = Counter(reason for _, reason in self.rejected).most_common()
        rows = [(KEPT, len(self.phrases)), *sorted(counts, key=lambda row: (-row[1], row[0]))]
        schema = {"outcome": pl.String, "n": pl.Int64}
        total = self.n_distinct
        return pl.DataFrame(rows, schema=schema, orient="row").with_columns(share=pl.col("n") / total)


def extract_effects(
    file: Path, *, max_tokens: int = MOST_TOKENS, fold: bool = False, tagger: Tagger | None = None
) -> Extraction:
    """The noun phrases among the reactions of a PsyTAR workbook; with `fold`, capitals make no other phrase."""
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
    """Every reaction, as it stands in its cell."""
    rows = [*read_sheet(file, SHEET)]
    mentions = [value for row in rows for name, value in row.items() if re.fullmatch(r"ADR\d+", name) and value.strip()]
    if not mentions:
        raise InputError(
            f"sheet '{SHEET}' has no reactions in columns ADR1, ADR2, …", file=file, hint="give the PsyTAR workbook"
        )
    return mentions


def lexicon_text(extraction: Extraction, *, name: str = "effects") -> str:
    """The phrases as a lexicon file that a suite can name."""
    n, total = len(extraction.phrases), extraction.n_distinct
    head = (
        f"# {n:,} of {total:,} distinct reactions ({n / total:.1%}) of the PsyTAR corpus,\n"
        f"# Zolnoori et al. 2019, CC BY 4.0; tagged by {extraction.tagger}.\n"
        "# As patients wrote them: with misspellings, and with words of degree, which leave the label of a negated\n"
        "# effect in doubt. Some are no noun phrases after all. Read before use.\n"
    )
    content = {
        "lexicon": name,
        "about": "Effects as patients wrote them, from PsyTAR",
        "article": "none",
        "values": list(extraction.phrases),
    }
    return head + yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=10**6)


def write_effects(extraction: Extraction, out: Path, *, name: str = "effects") -> None:
    """Write the lexicon, and `OUT.reasons.csv` with the table of what was left out and why."""
    if out.suffix not in (".yaml", ".yml"):
        raise InputError("a lexicon is a YAML file", file=out, hint="let the name end in .yaml")
    if not extraction.phrases:
        raise InputError("no phrase is left for the lexicon", file=out, hint="see the table of reasons")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(lexicon_text(extraction, name=name), encoding="utf-8")
        extraction.table.write_csv(out.with_name(f"{out.name}.reasons.csv"))
    except OSError as error:
        raise InputError(
            f"the lexicon can't be written ({error.strerror})", file=out, hint="check the folder"
        ) from None
