"""Evidence for codes in MDACE's layout: which words of which note were written because of which code.

Inpatient charts have sufficient evidence (the first one or two mentions in a note), Profee charts complete evidence, as
in the MDACE paper. ICD-9 annotations name the kind of mapping that they come from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from palpate.files import open_named_text, read_resource
from palpate.synthetic.dice import Dice, stream
from palpate.synthetic.layouts import Tables
from palpate.synthetic.notes import ConditionSpan
from palpate.synthetic.patients import Stay
from palpate.synthetic.patients.conditions import by_name
from palpate.synthetic.plants import SITES, Site

Setting = Literal["Inpatient", "Profee"]
SETTINGS: tuple[Setting, ...] = ("Inpatient", "Profee")
SPLITS = ("train", "val", "test")
_CHARTED = {"Inpatient": 0.3, "Profee": 0.06}
_VERSION = "1.0"
TRUE_SPANS = "mdace/true_spans"


class Procedure(NamedTuple):
    """A procedure that goes with a condition."""

    word: str
    icd9: str
    icd10: str
    title9: str
    title10: str


class StoredNote(NamedTuple):
    """A note that was written, with its row in NOTEEVENTS."""

    row: int
    category: str
    description: str
    text: str
    spans: Sequence[ConditionSpan]


@lru_cache(maxsize=1)
def procedures() -> dict[str, Procedure]:
    """The procedures of procedures.yaml, by condition."""
    return {
        condition: Procedure(**row)
        for condition, row in read_resource("palpate.synthetic.layouts", "procedures.yaml").items()
    }


@lru_cache(maxsize=64)
def _finder(word: str) -> re.Pattern[str]:
    return re.compile(r"\b" + word.replace(" ", r"\s") + r"\b", re.IGNORECASE)


def procedures_in(text: str, stay: Stay) -> list[Procedure]:
    """The procedures of this stay that its summary names."""
    known = procedures()
    named = [known[condition.name] for condition in stay.conditions if condition.name in known]
    return [procedure for procedure in named if _finder(procedure.word).search(text)]


class EvidenceWriter:
    """Writes one JSON file per chart and code system, and the lists of the splits."""

    def __init__(self, folder: Path, tables: Tables, *, seed: int, site: Site) -> None:
        self._folder, self._tables, self._seed, self._site = folder, tables, seed, site
        tables.open(TRUE_SPANS, ["hadm_id", "note_id", "begin", "end", "condition", "covered_text"])
        self._stack = ExitStack()
        self._lists: dict[tuple[Setting, str, str], IO[str]] = {}
        self.n_charts = dict.fromkeys(SETTINGS, 0)
        for setting in SETTINGS:
            for system in ("ICD-9", "ICD-10"):
                (folder / setting / system / _VERSION).mkdir(parents=True, exist_ok=True)
            (folder / "splits" / setting).mkdir(parents=True, exist_ok=True)
            for kind in ("ev", "code-ev"):
                for split in SPLITS:
                    path = folder / "splits" / setting / f"MDace-{kind}-{split}.csv"
                    self._lists[setting, kind, split] = self._stack.enter_context(open_named_text(path))

    def close(self) -> None:
        """Close the lists."""
        self._stack.close()

    def add(self, patient: int, hadm: int, notes: Sequence[StoredNote], done: Sequence[Procedure]) -> None:
        """Add a chart: always to the lists for codes, sometimes with annotations. Patients are split as a whole."""
        dice = Dice(stream(self._seed, SITES[self._site], 0, patient, 2))
        split = dice.weighted({"train": 0.6, "val": 0.2, "test": 0.2})
        dice = Dice(stream(self._seed, SITES[self._site], 0, hadm, 3))
        for setting in SETTINGS:
            self._lists[setting, "code-ev", split].write(f"{hadm}\n")
            if dice.chance(_CHARTED[setting]):
                self._lists[setting, "ev", split].write(f"{hadm}\n")
                self._chart(setting, hadm, notes, done)

    def _chart(self, setting: Setting, hadm: int, notes: Sequence[StoredNote], done: Sequence[Procedure]) -> None:
        self.n_charts[setting] += 1
        if setting == "Inpatient":
            for note in notes:
                for begin, end, name in note.spans:
                    self._tables.add(TRUE_SPANS, [hadm, note.row, begin, end, name, note.text[begin:end]])
        wanted = [
            note for note in notes if setting == "Profee" or note.category.strip() in ("Discharge summary", "Physician")
        ]
        for system in ("ICD-9", "ICD-10"):
            charted = []
            for note in wanted:
                annotations = sorted(
                    _annotations(note, done, nine=system == "ICD-9", complete=setting == "Profee"),
                    key=lambda row: (row["begin"], row["end"], row["code"]),
                )
                if annotations:
                    charted.append(
                        {
                            "note_id": note.row,
                            "category": note.category.strip(),
                            "description": note.description,
                            "annotations": annotations,
                        }
                    )
            chart = {"hadm_id": hadm, "comment": "", "notes": charted}
            path = self._folder / setting / system / _VERSION / f"{hadm}-{system}.json"
            with open_named_text(path) as file:
                file.write(json.dumps(chart))


def _annotations(
    note: StoredNote, done: Sequence[Procedure], *, nine: bool, complete: bool
) -> Iterator[dict[str, Any]]:
    seen: dict[str, int] = {}
    for begin, end, name in note.spans:
        seen[name] = seen.get(name, 0) + 1
        if complete or seen[name] <= 2:
            condition = by_name()[name]
            code, title = (condition.icd9, condition.title9) if nine else (condition.icd10, condition.title10)
            yield _annotation(
                begin, end, code, "ICD-9-CM" if nine else "ICD-10-CM", title, condition.map_type if nine else ""
            )
    for procedure in done:
        for k, match in enumerate(_finder(procedure.word).finditer(note.text)):
            if complete or k < 2:
                code, title = (procedure.icd9, procedure.title9) if nine else (procedure.icd10, procedure.title10)
                system, kind = ("ICD-9-PCS", "APPROX") if nine else ("ICD-10-PCS", "")
                yield _annotation(match.start(), match.end(), code, system, title, kind)


def _annotation(begin: int, end: int, code: str, system: str, title: str, mapped: str) -> dict[str, Any]:
    kind = f"MapType.{mapped}" if mapped else "Human"
    return {"begin": begin, "end": end, "code": code, "code_system": system, "description": title, "type": kind}
