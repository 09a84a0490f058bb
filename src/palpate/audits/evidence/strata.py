"""Parts of the evidence that are reported separately.

By note category, code system and chapter, frequency of the code in training, length of the gold evidence, kind of
annotation and the model's window. A pair of a chart and a code belongs to a part by its code or its chart or, for what
is known of spans only, if it has gold evidence there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.evidence.inputs import NOT_KNOWN
from palpate.audits.evidence.plan import EvidenceMemory
from palpate.audits.kit.resampling import Resampling
from palpate.cases.edits import Ints
from palpate.cases.evidence import SUFFICIENT, is_category
from palpate.files import read_resource
from palpate.results import ModelPredictions
from palpate.stats.clustered import Units, units_of
from palpate.stats.evidence import (
    EvidenceWords,
    Spans,
    Stratum,
    strata_by_group,
    strata_by_length,
    strata_by_window,
)

Mask = NDArray[np.bool_]
_FREQUENCIES = ((0, "no training chart"), (1, "1 to 9"), (10, "10 to 99"), (100, "100 or more training charts"))

_HEADS = {"ICD-10-CM": 3, "ICD-9-CM": 3, "ICD-10-PCS": 1, "ICD-9-PCS": 2, "CPT": 5}
_FORMS = {
    "ICD-9-CM": re.compile(r"\d{3}(\.\d{1,2})?|E\d{3}(\.\d)?|V\d\d(\.\d{1,2})?"),
    "ICD-9-PCS": re.compile(r"\d\d\.\d{1,2}"),
    "ICD-10-CM": re.compile(r"[A-Z]\d[0-9AB](\.[0-9A-Z]{1,4})?"),
    "ICD-10-PCS": re.compile(r"[0-9BCDFGHX][0-9A-HJ-NP-Z]{6}"),
}
"""Of codes whose system is not told, with their dots; the first that fits is taken."""


@dataclass(frozen=True, eq=False)
class AuditedCharts:
    """What every model's evidence is compared with, and how charts are resampled."""

    memory: EvidenceMemory
    patients: Ints
    """The patient of each audited chart."""
    resampling: Resampling
    iou: float
    n_training: Ints | None = None
    """How many training charts have each label; None where there is no training split."""
    categories: tuple[str, ...] = ()
    """Note categories that are also reported together."""
    all_codes: bool = True
    """Whether codes without gold evidence are compared too."""
    weight: NDArray[np.float64] | None = None
    """The sampling weight of each audited chart, with a mean of 1; None where all count alike."""

    @property
    def n(self) -> int:
        """How many charts there are."""
        return self.memory.n_audited

    @property
    def unit(self) -> str:
        """What is resampled, in words."""
        return "patient" if self.resampling.unit == "patient" else "chart"

    @cached_property
    def units(self) -> Ints:
        """The number that each chart is resampled by."""
        return self.patients if self.resampling.unit == "patient" else np.arange(self.n)

    @property
    def weighed(self) -> Units:
        """What is resampled, with the weights of the charts."""
        return units_of(self.units, self.weight)

    def weights_of(self, chart: Ints) -> NDArray[np.float64] | None:
        """The weight of the chart of each row of a table; None where all count alike."""
        return None if self.weight is None else self.weight[chart]

    @cached_property
    def n_units(self) -> int:
        """Charts, or patients, that are resampled."""
        return len(np.unique(self.units))

    @cached_property
    def words(self) -> EvidenceWords:
        """The words of the audited charts."""
        words, stop = self.memory.charts.words, int(self.memory.charts.words.first[self.n])
        columns = (words.note[:stop], words.begin[:stop], words.end[:stop])
        return EvidenceWords(words.texts[: self.n], *columns, words.first[: self.n + 1])

    @cached_property
    def systems(self) -> list[str]:
        """The code system of each label, from the first row that names it."""
        systems = [""] * self.memory.inputs.n_codes
        for placed in (self.memory.inputs.gold, *self.memory.inputs.predicted.values()):
            for label, system in zip(placed.label.tolist(), placed.code_system, strict=True):
                systems[label] = systems[label] or system
        return [system or NOT_KNOWN for system in systems]

    @cached_property
    def chapters(self) -> list[str]:
        """The chapter of each label; empty where it is no code."""
        return [chapter_of(code, system) for code, system in zip(self.memory.inputs.codes, self.systems, strict=True)]

    @cached_property
    def frequencies(self) -> list[str] | None:
        """How frequent each label is in training, in words; None where that is not known."""
        if self.n_training is None:
            return None
        known = [*self.n_training.tolist(), *([0] * (self.memory.inputs.n_codes - len(self.n_training)))]
        return [next(name for least, name in reversed(_FREQUENCIES) if n >= least) for n in known]

    @cached_property
    def completeness(self) -> tuple[str, ...]:
        """Whether each chart's annotation is sufficient, complete, both, or not known ("")."""
        found: list[set[str]] = [set() for _ in range(self.n)]
        gold = self.memory.inputs.gold
        for chart, kind in zip(self.memory.charts.number[gold.row].tolist(), gold.completeness, strict=True):
            if kind and 0 <= chart < self.n:
                found[chart].add(kind)
        return tuple(" and ".join(sorted(kinds)) for kinds in found)

    @cached_property
    def sufficient(self) -> bool:
        """Whether some annotation marks what suffices and not everything, so that precision is a lower bound."""
        return any(SUFFICIENT in kind for kind in self.completeness)


def evidence_strata(charts: AuditedCharts, gold: Spans, predicted: Spans, answers: ModelPredictions) -> list[Stratum]:
    """The strata of two sides of evidence; a part that is all of it is left out."""
    strata = _by_category(charts, gold, predicted)
    ours, theirs = (_known(charts, side.note, side.code) for side in (gold, predicted))
    for what in _reported(charts, gold):
        strata += strata_by_group(what, ours[what], theirs[what])
    strata += strata_by_length(charts.memory.charts.words, gold)
    if answers.visible is not None and answers.facts.window is not None:
        strata += strata_by_window(answers.visible[charts.memory.charts.rows], gold)
    return strata


def pair_strata(
    charts: AuditedCharts, gold: Spans, chart: Ints, code: Ints, answers: ModelPredictions
) -> dict[str, Mask]:
    """Which pairs of a chart and a code are in each stratum; strata without a pair are left out."""
    n_codes = charts.memory.inputs.n_codes
    known = _known(charts, chart, code)
    pair, spans = chart * n_codes + code, gold.note * n_codes + gold.code
    found: dict[str, Mask] = {}
    for each in evidence_strata(charts, gold, gold, answers):
        what, _, name = each.name.partition("=")
        by_code = what in known
        of = np.asarray(known[what]) == name if by_code else np.isin(pair, spans[_kept(each, gold)])
        if of.any():
            found[each.name] = of
    return found


def words_within(charts: AuditedCharts, stratum: Stratum) -> Mask | None:
    """The words of the audited charts that a stratum by note category is about; None for the other strata."""
    what, _, name = stratum.name.partition("=")
    if what not in ("category", "categories"):
        return None
    words, rows = charts.words, charts.memory.charts.rows
    of = np.asarray(charts.memory.inputs.notes.categories(rows[words.note], words.begin), dtype=np.str_)
    return _in_categories(of, charts.categories) if what == "categories" else of == name


def _kept(stratum: Stratum, gold: Spans) -> Mask:
    return np.ones(gold.note.size, np.bool_) if stratum.gold is None else stratum.gold


def _by_category(charts: AuditedCharts, gold: Spans, predicted: Spans) -> list[Stratum]:
    rows, notes = charts.memory.charts.rows, charts.memory.inputs.notes
    if not notes.start.size:
        return []
    ours, theirs = (notes.categories(rows[side.note], side.begin) for side in (gold, predicted))
    strata = strata_by_group("category", ours, theirs)
    if charts.categories:
        name = f"categories={', '.join(charts.categories)}"
        strata.append(Stratum(name, _in_categories(ours, charts.categories), _in_categories(theirs, charts.categories)))
    return strata


def _in_categories(of: Sequence[str] | NDArray[np.str_], wanted: Sequence[str]) -> Mask:
    distinct, which = np.unique(np.asarray(of, dtype=np.str_), return_inverse=True)
    kept = np.array([any(is_category(name, each) for name in wanted) for each in distinct.tolist()], np.bool_)
    return np.asarray(kept[which.reshape(-1)] if distinct.size else np.zeros(0, np.bool_))


def _known(charts: AuditedCharts, chart: Ints, code: Ints) -> Mapping[str, list[str]]:
    """What is known of pairs by their code or their chart; "" where it is not."""
    by_code = {"code system": charts.systems, "chapter": charts.chapters}
    if charts.frequencies is not None:
        by_code["frequency"] = charts.frequencies
    found = {what: [names[k] for k in code.tolist()] for what, names in by_code.items()}
    return {**found, "annotation": [charts.completeness[k] for k in chart.tolist()]}


def _reported(charts: AuditedCharts, gold: Spans) -> list[str]:
    """What is reported: frequencies where they are known, the rest if the gold evidence has several kinds of it."""
    ours = _known(charts, gold.note, gold.code)
    order = ("code system", "chapter", "frequency", "annotation")
    return [what for what in order if what in ours and (what == "frequency" or len({*ours[what]} - {""}) > 1)]


# --- chapters of codes ------------------------------------------------------------------------------------------


class Chapter(NamedTuple):
    """A chapter's name, and the first and the last head of its codes."""

    name: str
    first: str
    last: str


def chapter_of(code: str, system: str = "") -> str:
    """The name of a code's chapter; empty for what is no code."""
    written = code.strip().upper()
    known = system if system in _HEADS else _system_of(written)
    if not known:
        return ""
    plain = written.replace(".", "")
    head = plain[: _HEADS[known] + (known == "ICD-9-CM" and plain.startswith("E"))]
    found = (chapter.name for chapter in _chapters()[known] if chapter.first <= head <= chapter.last)
    return next(found, "") if len(head) >= _HEADS[known] else ""


def _system_of(written: str) -> str:
    return next((system for system, form in _FORMS.items() if form.fullmatch(written)), "")


@cache
def _chapters() -> Mapping[str, tuple[Chapter, ...]]:
    table = read_resource("palpate.audits.evidence", "chapters.yaml")
    return {system: tuple(Chapter(*row) for row in rows) for system, rows in table.items()}
