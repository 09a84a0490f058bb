"""Code evidence in MDACE's layout: charts with notes, and in each note the spans that support a code.

MDACE paper (evidence), Sections 3 and 4. The layout is one JSON file a chart in `SETTING/SYSTEM/VERSION/`, for example
`Inpatient/ICD-10/1.0/141751-ICD-10.json`, and lists of charts in `splits/SETTING/`. The files hold offsets and no
text: `mdace_notes.with_notes` adds the text from MIMIC-III. Predictions are written in the same layout, so `read`
takes any folder of such files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from palpate.cases.columns import SPLIT_NAMES, quote
from palpate.errors import CohortError

SETTINGS = ("Inpatient", "Profee")
SYSTEMS = ("ICD-9", "ICD-10")
CODE_SYSTEMS = ("ICD-9-CM", "ICD-9-PCS", "ICD-10-CM", "ICD-10-PCS", "CPT")
COMPLETENESS = {"Inpatient": "sufficient", "Profee": "complete"}
"""What the annotators were asked for: the first evidence that suffices, or all of it (Section 3.1)."""
_TYPES: dict[str, tuple[type, ...]] = {"a whole number": (int,), "text": (str,), "a list": (list,)}


@dataclass(frozen=True, slots=True)
class Annotation:
    """A span of a note, in characters, and the code that it supports; `type` says where the code comes from."""

    begin: int
    end: int
    code: str
    code_system: str
    type: str = "Human"
    description: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """A note of a chart, with its annotations in the order of the file; `text` is there after a merge."""

    note_id: int
    category: str
    annotations: tuple[Annotation, ...]
    description: str = ""
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Chart:
    """An admission. `setting`, `system` and `file` come from where the chart was read, the patient from a merge."""

    hadm_id: int
    notes: tuple[Note, ...]
    comment: str = ""
    setting: str | None = None
    system: str | None = None
    file: Path | None = None
    subject_id: int | None = None

    @property
    def completeness(self) -> str | None:
        """Whether the evidence is only sufficient or complete; None if the setting is not known."""
        return None if self.setting is None else COMPLETENESS[self.setting]


def read(folder: str | Path, *, setting: str | None = None, system: str | None = None) -> Iterator[Chart]:
    """Every chart below a folder, in the order of settings, code systems and admissions.

    `setting` ("Inpatient", "Profee") and `system` ("ICD-9", "ICD-10") leave out the other files. A whole copy of MDACE
    has each chart twice, once for each code system.
    """
    top = Path(folder)
    if not top.is_dir():
        raise CohortError("there is no such folder", file=top, hint="give a folder of MDACE's JSON files")
    _known(setting, SETTINGS, "setting")
    _known(system, SYSTEMS, "code system")
    files = sorted(top.rglob("*.json"), key=lambda file: (file.parent, len(file.name), file.name))
    chosen = [
        file
        for file in files
        if (setting is None or _above(file, SETTINGS) == setting) and (system is None or _system(file) == system)
    ]
    if not chosen:
        wanted = " ".join(part for part in (setting, system) if part)
        problem = f"the folder has no chart{' of ' + wanted if wanted else ''}"
        raise CohortError(problem, file=top, hint="palpate looks for JSON files, one a chart, in all folders below")
    return _charts(chosen)


def read_chart(file: str | Path) -> Chart:
    """One chart from its JSON file."""
    path = Path(file)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CohortError("there is no such file", file=path) from None
    except json.JSONDecodeError as error:
        # Not the message itself: it may quote a note.
        raise CohortError("this is not JSON", file=path, row=error.lineno, hint="export the chart again") from None
    except UnicodeDecodeError:
        raise CohortError("the file is not UTF-8", file=path, hint="export the chart again") from None
    if not isinstance(content, dict):
        raise CohortError("a chart is an object with hadm_id and notes", file=path)
    notes = _value(content, "notes", "a list", "the chart", path)
    chart = Chart(
        hadm_id=_value(content, "hadm_id", "a whole number", "the chart", path),
        notes=tuple(_note(row, number, path) for number, row in enumerate(notes, start=1)),
        comment=str(content.get("comment") or ""),
        setting=_above(path, SETTINGS),
        system=_system(path),
        file=path,
    )
    seen: set[int] = set()
    for note in chart.notes:
        if note.note_id in seen:
            raise CohortError(f"note {note.note_id} is there twice", file=path, hint="keep one")
        seen.add(note.note_id)
    return chart


def write(charts: Iterable[Chart], folder: str | Path, *, include_text: bool = False) -> int:
    """Write charts in MDACE's layout, each below its setting and system if it has them; says how many.

    Text of notes is written only with `include_text`. Two charts that would get one file are an error.
    """
    written: set[Path] = set()
    for chart in charts:
        place = Path(folder)
        for part in (chart.setting, chart.system):
            place = place / part if part else place
        if chart.setting and chart.system:
            place = place / "1.0"
        path = place / f"{chart.hadm_id}{'-' + chart.system if chart.system else ''}.json"
        if path in written:
            raise CohortError(f"admission {chart.hadm_id} is there twice", file=path, hint="write one chart for each")
        written.add(path)
        place.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(_object(chart, include_text), ensure_ascii=False), encoding="utf-8")
    return len(written)


def read_splits(folder: str | Path, setting: str, *, kind: Literal["ev", "code-ev"] = "ev") -> dict[int, str]:
    """The split of each admission, from `splits/SETTING/MDace-KIND-{train,val,test}.csv` (Section 6.1, Table 8).

    Kind "ev" are the charts with evidence; "code-ev" are all charts of the code-prediction task.
    """
    _known(setting, SETTINGS, "setting")
    splits: dict[int, str] = {}
    for name in ("train", "val", "test"):
        file = Path(folder) / "splits" / setting / f"MDace-{kind}-{name}.csv"
        if not file.is_file():
            raise CohortError("the list of charts is missing", file=file, hint="give the folder that holds splits/")
        for row, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            cell = line.strip()
            if not cell.isdecimal():
                problem = f"the line is {quote(cell)}, which is no whole number" if cell else "the line is empty"
                raise CohortError(problem, file=file, row=row, hint="write one admission a line")
            split = SPLIT_NAMES[name]
            other = splits.setdefault(int(cell), split)
            if other != split:
                problem = f"admission {cell} is also in the {other} split"
                raise CohortError(problem, file=file, row=row, hint="a chart belongs to one split")
    return splits


def place_of(note_id: int, number: int | None = None) -> str:
    """Where something is in a chart's file, for messages; annotations count from 1."""
    return f"note {note_id}" + ("" if number is None else f", annotation {number}")


# --- one file ---------------------------------------------------------------------------------------------------


def _charts(files: Iterable[Path]) -> Iterator[Chart]:
    seen: dict[tuple[str | None, str | None, int], Path] = {}
    for file in files:
        chart = read_chart(file)
        key = (chart.setting, chart.system, chart.hadm_id)
        if key in seen:
            problem = f"admission {chart.hadm_id} is also in {seen[key]}"
            raise CohortError(problem, file=file, hint="keep one file for each, or read one folder")
        seen[key] = file
        yield chart


def _note(row: Any, number: int, file: Path) -> Note:
    if not isinstance(row, dict):
        raise CohortError(f"note number {number} is not an object", file=file)
    note_id = _value(row, "note_id", "a whole number", f"note number {number}", file)
    place = place_of(note_id)
    text = row.get("text")
    if text is not None and not isinstance(text, str):
        raise CohortError(f"{place}: the text is not text", file=file)
    rows = _value(row, "annotations", "a list", place, file)
    note = Note(
        note_id=note_id,
        category=_value(row, "category", "text", place, file),
        annotations=tuple(_annotation(a, place_of(note_id, k), file) for k, a in enumerate(rows, start=1)),
        description=str(row.get("description") or ""),
        text=text,
    )
    check_offsets(note, file)
    return note


def _annotation(row: Any, place: str, file: Path) -> Annotation:
    if not isinstance(row, dict):
        raise CohortError(f"{place}: this is not an object", file=file)
    begin = _value(row, "begin", "a whole number", place, file)
    end = _value(row, "end", "a whole number", place, file)
    if not 0 <= begin < end:
        problem = f"{place}: the span goes from {begin} to {end}"
        raise CohortError(problem, file=file, hint="a span begins at 0 or later and ends behind its begin")
    system = _value(row, "code_system", "text", place, file)
    if system not in CODE_SYSTEMS:
        problem = f"{place}: the code system {quote(system)} is not known"
        raise CohortError(problem, file=file, hint=f"there are {', '.join(CODE_SYSTEMS)}")
    code = _value(row, "code", "text", place, file).strip()
    if not code:
        raise CohortError(f"{place}: the code is empty", file=file)
    kind = str(row.get("type") or "Human")
    return Annotation(begin, end, code, system, kind, str(row.get("description") or ""))


def check_offsets(note: Note, file: Path | None) -> None:
    """Raise if a span reaches past the end of its note's text."""
    if note.text is None:
        return
    for number, annotation in enumerate(note.annotations, start=1):
        if annotation.end > len(note.text):
            span = f"the span goes from {annotation.begin} to {annotation.end}"
            problem = f"{place_of(note.note_id, number)}: {span}, but the note has {len(note.text)} characters"
            raise CohortError(problem, file=file, hint="take the notes that were annotated (MIMIC-III 1.4), unchanged")


def _value(row: Mapping[str, Any], key: str, kind: str, place: str, file: Path) -> Any:
    if key not in row:
        raise CohortError(f"{place}: {key} is missing", file=file)
    value = row[key]
    if not isinstance(value, _TYPES[kind]) or isinstance(value, bool):
        raise CohortError(f"{place}: {key} is not {kind}", file=file)
    return value


def _object(chart: Chart, include_text: bool) -> dict[str, Any]:
    notes = []
    for note in chart.notes:
        row: dict[str, Any] = {
            "note_id": note.note_id,
            "category": note.category,
            "description": note.description,
        }
        if include_text and note.text is not None:
            row["text"] = note.text
        row["annotations"] = [
            {
                "begin": a.begin,
                "end": a.end,
                "code": a.code,
                "code_system": a.code_system,
                "description": a.description,
                "type": a.type,
            }
            for a in note.annotations
        ]
        notes.append(row)
    return {"hadm_id": chart.hadm_id, "comment": chart.comment, "notes": notes}


def _above(file: Path, names: tuple[str, ...]) -> str | None:
    """The innermost folder above a file that has one of these names."""
    return next((parent.name for parent in file.parents if parent.name in names), None)


def _system(file: Path) -> str | None:
    """From the file's name, else from the folders."""
    return next((s for s in SYSTEMS if file.stem.endswith(f"-{s}")), None) or _above(file, SYSTEMS)


def _known(value: str | None, names: tuple[str, ...], what: str) -> None:
    if value is not None and value not in names:
        raise CohortError(f"no {what} is named {quote(value)}", hint=f"there are {', '.join(names)}")
