"""The same note, written differently: text in, edits out, or the reason why a note can't be written so.

    reading     words, tags and places that no edit may touch
    typos       slips of the finger and of a scanner, by dose
    layout      capitals, punctuation, white space, line breaks
    sections    the order of sections; de-identification tags
    formats     dates and numbers
    terms       abbreviations, brand names, spellings, contractions
    sentences   a denial added or removed, an irrelevant sentence added
    own         perturbations from a user's YAML file or Python function

A perturbation has one group or several (doses, or small letters and capitals), and a note is in all of them or in
none. It expects `same` (an invariance, INV, of Ribeiro et al. 2020: the prediction must not move) or, where it changes
what the note says, a direction (DIR): the prediction may go `down only` or `up only`.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from palpate.cases.edits import Edit
from palpate.perturb.robustness import formats, layout, sections, sentences, terms, typos
from palpate.perturb.robustness.reading import Rng, WrittenNote

__all__ = ["BUILT_IN", "DOSES", "Expectation", "Perturbation", "WrittenNote", "dose_name", "note_stream", "perturbed"]

Expectation = Literal["same", "down only", "up only"]
Form = Callable[[WrittenNote, Rng], list[Edit] | str]
"""Edits in order, or why there are none."""
Slips = Callable[..., list[Edit] | str]
"""(note, rng, n, known): n edits in random order, or why there are not."""
_UNUSED = np.random.default_rng(0)
"""For perturbations that draw nothing: to make a generator takes longer than most of them."""
DOSES = (0.01, 0.02, 0.05)
"""Shares of the words of a note."""


@dataclass(frozen=True, eq=False)
class Perturbation:
    """One way to write notes differently: `forms`, one per group, or `slips`, in doses."""

    name: str
    question: str
    """Which question of the audit it helps to answer."""
    about: str
    """What is done to a note, in words that follow "writing the note": `with typing errors`."""
    forms: tuple[tuple[str, Form], ...] = ()
    slips: Slips | None = None
    expects: Expectation = "same"
    tolerance: float | None = None
    """The largest change of the mean risk that does not matter; by default the margin `shift`."""
    drawn: bool = True
    """Whether it draws random numbers."""
    source: str = "built in"
    """Where it comes from, with its version, so that a changed function or file is another perturbation."""

    def __str__(self) -> str:
        return f"{self.name} ({self.source}, {self.expects}, tolerance {self.tolerance})"

    def groups(self, doses: Sequence[float]) -> tuple[str, ...]:
        """The names of its groups."""
        return tuple(map(dose_name, doses)) if self.slips else tuple(name for name, _ in self.forms)


def dose_name(dose: float) -> str:
    """A share of the words as the name of a group: `2%`."""
    return f"{100 * dose:g}%"


def perturbed(
    perturbation: Perturbation,
    note: WrittenNote,
    rng: Rng,
    *,
    doses: Sequence[float] = DOSES,
    known: Collection[str] = (),
) -> list[list[Edit]] | str:
    """The edits of each group, or why the note is in none of them.

    The edits of a dose are among those of the higher ones. `known` are words that no slip may make, in small letters.
    """
    if perturbation.slips is None:
        out = []
        for _, form in perturbation.forms:
            edits = form(note, rng)
            if isinstance(edits, str):
                return edits
            out.append(edits)
        return out
    counts = [max(1, math.ceil(dose * note.n_words - 1e-9)) for dose in doses]
    found = perturbation.slips(note, rng, max(counts), known=known)
    return found if isinstance(found, str) else [sorted(found[:n]) for n in counts]


def note_stream(seed: int, perturbation: Perturbation, note: WrittenNote) -> Rng:
    """Random numbers for one note and perturbation: the same whatever the other notes and perturbations are."""
    if not perturbation.drawn:
        return _UNUSED
    return np.random.default_rng([seed, zlib.crc32(perturbation.name.encode()), note.checksum])


def _inv(name: str, question: str, about: str, *forms: tuple[str, Form], slips: Slips | None = None) -> Perturbation:
    return Perturbation(name, question, about, forms, slips, drawn=slips is not None)


BUILT_IN: dict[str, Perturbation] = {
    each.name: each
    for each in (
        _inv("typos", "spelling", "with typing errors", slips=typos.keyboard_slips),
        _inv("ocr", "spelling", "as a scanner misreads it", slips=typos.scanner_slips),
        _inv(
            *("case", "layout", "in other letters"),
            *(("lower case", layout.lower_case), ("capitals", layout.upper_case)),
        ),
        _inv("punctuation", "layout", "with other punctuation", ("changed", layout.punctuation)),
        _inv("spaces", "layout", "with other white space", ("changed", layout.spaces)),
        _inv("wrapping", "layout", "with its lines broken", ("wrapped", layout.wrapped_lines)),
        _inv("one_line", "layout", "on one line", ("joined", layout.one_line)),
        _inv("section_order", "layout", "with its sections in another order", ("moved", sections.section_order)),
        _inv("tags", "layout", "with other de-identification tags", ("changed", sections.tags)),
        _inv("dates", "layout", "with dates in another format", ("changed", formats.dates)),
        _inv("numbers", "layout", "with numbers in another format", ("changed", formats.numbers)),
        _inv("abbreviations", "wording", "with abbreviations", ("abbreviated", terms.abbreviated)),
        _inv("full_forms", "wording", "without abbreviations", ("written out", terms.written_out)),
        _inv("brands", "wording", "with brand names of medicines", ("brand names", terms.brand_names)),
        _inv("generics", "wording", "with generic names of medicines", ("generic names", terms.generic_names)),
        _inv("british", "wording", "in British spelling", ("British", terms.british_spelling)),
        _inv("american", "wording", "in American spelling", ("American", terms.american_spelling)),
        _inv("contractions", "wording", "with contractions", ("contracted", terms.contractions)),
        _inv("no_contractions", "wording", "without contractions", ("written out", terms.no_contractions)),
        Perturbation(
            *("irrelevant", "wording", "with an irrelevant sentence added"),
            forms=(("added", sentences.irrelevant_added),),
        ),
        Perturbation(
            *("denial_added", "denials", "with a denied finding added"),
            forms=(("added", sentences.denial_added),),
            expects="down only",
        ),
        Perturbation(
            *("denial_removed", "denials", "with a denied finding removed"),
            forms=(("removed", sentences.denial_removed),),
            expects="up only",
        ),
    )
}
