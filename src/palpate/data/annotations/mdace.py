"""Annotated charts in MDACE's layout: reads and writes charts, and reads the lists of charts in each split.

Evidence paper, Sections 3 and 4. The layout is one JSON file per chart in `SETTING/SYSTEM/VERSION/`, for example
`Inpatient/ICD-10/1.0/141751-ICD-10.json`, and lists of charts in `splits/SETTING/`. The published repository has the
charts in `data/`, and beside it `splits/` and `predictions/MODEL/SETTING/SYSTEM/NOTES/`, which are a model's evidence
in the same format; `read` never takes these for coders' annotations. The files hold offsets but no text:
`mdace_notes.with_notes` adds the text from MIMIC-III.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from palpate.cases.columns import SPLIT_NAMES, quote
from palpate.data.annotations import (
    CODE_SYSTEMS,
    SETTINGS,
    SYSTEMS,
    AnnotatedChart,
    AnnotatedNote,
    Annotation,
    check_offsets,
    place_of,
)
from palpate.errors import CohortError, parse_json
from palpate.files import write_atomically

DATA, PREDICTIONS = "data", "predictions"
"""Folders of the published repository."""
HUMAN, MAPPED = "Human", "MapType."
"""Types of coders' annotations: as they were made, or with a code that was mapped."""
_TYPES: dict[str, tuple[type, ...]] = {"a whole number": (int,), "a string": (str,), "a list": (list,)}


def read(
    folder: str | Path, *, setting: str | None = None, system: str | None = None, predictions: bool = False
) -> Iterator[AnnotatedChart]:
    """Every chart below a folder, sorted by setting, code system and admission.

    `setting` ("Inpatient", "Profee") and `system` ("ICD-9", "ICD-10") exclude other files. A complete copy of MDACE has
    each chart twice, once per code system. Of the published repository, `data/` is read. A folder of a model's
    predictions is read with `predictions`, and refused without it.
    """
    top = Path(folder)
    if not top.is_dir():
        raise CohortError("folder not found", file=top, hint="give a folder with MDACE's JSON files")
    _known(setting, SETTINGS, "setting")
    _known(system, SYSTEMS, "code system")
    if holds_predictions(top) and not predictions:
        problem = "the folder has a model's predictions, which are not what coders annotated"
        raise CohortError(problem, file=top, hint="give MDACE's data/, or use the predictions as a model's evidence")
    place = top if predictions else charts_folder(top)
    files = sorted(place.rglob("*.json"), key=lambda file: (file.parent, len(file.name), file.name))
    chosen = [
        file
        for file in files
        if (setting is None or _above(file, SETTINGS) == setting) and (system is None or _system(file) == system)
    ]
    if not predictions:
        chosen = [file for file in chosen if PREDICTIONS not in file.relative_to(place).parts]
    if not chosen:
        raise _no_charts(top, " ".join(part for part in (setting, system) if part))
    return _charts(chosen)


def charts_folder(folder: Path) -> Path:
    """Where coders' annotations are: the folder itself, or `data/` in it, as in the published repository."""
    inner = folder / DATA
    return inner if has_settings(inner) and not has_settings(folder) else folder


def has_settings(folder: Path) -> bool:
    """Whether a folder has charts by setting and code system (`Inpatient/ICD-9/`)."""
    return any((folder / setting / system).is_dir() for setting in SETTINGS for system in SYSTEMS)


def holds_predictions(folder: Path) -> bool:
    """Whether a folder is in the repository's `predictions/`, with spans of a type that coders' spans never have."""
    if PREDICTIONS not in folder.absolute().parts:
        return False
    first = next(iter(sorted(folder.rglob("*.json"))), None)
    types = {a.type for note in read_chart(first).notes for a in note.annotations} if first else set()
    return not types or not all(kind == HUMAN or kind.startswith(MAPPED) for kind in types)


def read_chart(file: str | Path) -> AnnotatedChart:
    """Read one chart from its JSON file."""
    path = Path(file)
    try:
        content = parse_json(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise CohortError("file not found", file=path) from None
    except json.JSONDecodeError as error:
        # Not the error's own message: it may quote a note.
        raise CohortError("the file is not JSON", file=path, row=error.lineno, hint="export the chart again") from None
    except UnicodeDecodeError:
        raise CohortError("the file is not UTF-8", file=path, hint="export the chart again") from None
    if not isinstance(content, dict):
        raise CohortError("the file is not a JSON object with hadm_id and notes", file=path)
    notes = _value(content, "notes", "a list", "the chart", path)
    chart = AnnotatedChart(
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
            raise CohortError(f"note {note.note_id} occurs twice", file=path, hint="keep one of them")
        seen.add(note.note_id)
    return chart


def write(charts: Iterable[AnnotatedChart], folder: str | Path, *, include_text: bool = False) -> int:
    """Write charts in MDACE's layout, in folders of their setting and system if they have them; returns how many.

    The text of notes is written only with `include_text`. Two charts with the same file name are an error.
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
            raise CohortError(f"admission {chart.hadm_id} occurs twice", file=path, hint="give one chart per admission")
        written.add(path)
        write_atomically(path, json.dumps(_object(chart, include_text), ensure_ascii=False))
    return len(written)


def read_splits(folder: str | Path, setting: str, *, kind: Literal["ev", "code-ev"] = "ev") -> dict[int, str]:
    """The split of each admission, from `splits/SETTING/MDace-KIND-{train,val,test}.csv` (Section 6.1, Table 8).

    Kind "ev" has the charts with evidence; "code-ev" has all charts of the code-prediction task. `splits/` is in the
    folder or, where the folder is the repository's `data/`, beside it.
    """
    _known(setting, SETTINGS, "setting")
    splits: dict[int, str] = {}
    top = Path(folder)
    beside = not (top / "splits").is_dir() and top.name == DATA and (top.parent / "splits").is_dir()
    top = top.parent if beside else top
    for name in ("train", "val", "test"):
        file = top / "splits" / setting / f"MDace-{kind}-{name}.csv"
        if not file.is_file():
            raise CohortError("list of charts not found", file=file, hint="give the folder that contains splits/")
        for row, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            cell = line.strip()
            if not cell.isdecimal():
                problem = f"the line is {quote(cell)}, which is not a whole number" if cell else "the line is empty"
                raise CohortError(problem, file=file, row=row, hint="write one admission per line")
            split = SPLIT_NAMES[name]
            other = splits.setdefault(int(cell), split)
            if other != split:
                problem = f"admission {cell} is also in the {other} split"
                raise CohortError(problem, file=file, row=row, hint="a chart belongs to one split")
    return splits


def _no_charts(folder: Path, wanted: str) -> CohortError:
    problem = f"the folder has no charts{' for ' + wanted if wanted else ''}"
    hint = "palpate looks for JSON files, one per chart, in all folders below"
    if (folder / PREDICTIONS).is_dir():
        hint = "it has predictions/ of a model, which are not annotations; add the repository's data/"
    return CohortError(problem, file=folder, hint=hint)


# --- one file ---------------------------------------------------------------------------------------------------


def _charts(files: Iterable[Path]) -> Iterator[AnnotatedChart]:
    seen: dict[tuple[str | None, str | None, int], Path] = {}
    for file in files:
        chart = read_chart(file)
        key = (chart.setting, chart.system, chart.hadm_id)
        if key in seen:
            problem = f"admission {chart.hadm_id} is also in {seen[key]}"
            raise CohortError(problem, file=file, hint=f"keep one file per admission, or give the folder {file.parent}")
        seen[key] = file
        yield chart


def _note(row: Any, number: int, file: Path) -> AnnotatedNote:
    if not isinstance(row, dict):
        raise CohortError(f"note number {number} is not a JSON object", file=file)
    note_id = _value(row, "note_id", "a whole number", f"note number {number}", file)
    place = place_of(note_id)
    text = row.get("text")
    if text is not None and not isinstance(text, str):
        raise CohortError(f"{place}: text is not a string", file=file)
    rows = _value(row, "annotations", "a list", place, file)
    note = AnnotatedNote(
        note_id=note_id,
        category=_value(row, "category", "a string", place, file),
        annotations=tuple(_annotation(a, place_of(note_id, k), file) for k, a in enumerate(rows, start=1)),
        description=str(row.get("description") or ""),
        text=text,
    )
    check_offsets(note, file)
    return note


def _annotation(row: Any, place: str, file: Path) -> Annotation:
    if not isinstance(row, dict):
        raise CohortError(f"{place}: not a JSON object", file=file)
    begin = _value(row, "begin", "a whole number", place, file)
    end = _value(row, "end", "a whole number", place, file)
    if not 0 <= begin < end:
        problem = f"{place}: the span goes from {begin} to {end}"
        raise CohortError(problem, file=file, hint="a span starts at 0 or later and ends after its start")
    system = _value(row, "code_system", "a string", place, file)
    if system not in CODE_SYSTEMS:
        problem = f"{place}: unknown code system {quote(system)}"
        raise CohortError(problem, file=file, hint=f"use one of {', '.join(CODE_SYSTEMS)}")
    code = _value(row, "code", "a string", place, file).strip()
    if not code:
        raise CohortError(f"{place}: the code is empty", file=file)
    kind = str(row.get("type") or "Human")
    return Annotation(begin, end, code, system, kind, str(row.get("description") or ""))


def _value(row: Mapping[str, Any], key: str, kind: str, place: str, file: Path) -> Any:
    if key not in row:
        raise CohortError(f"{place}: {key} is missing", file=file)
    value = row[key]
    if not isinstance(value, _TYPES[kind]) or isinstance(value, bool):
        raise CohortError(f"{place}: {key} is not {kind}", file=file)
    return value


def _object(chart: AnnotatedChart, include_text: bool) -> dict[str, Any]:
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
    """The name of the innermost folder above a file that is one of these names."""
    return next((parent.name for parent in file.parents if parent.name in names), None)


def _system(file: Path) -> str | None:
    """The code system in the file's name, or else in its folders."""
    return next((s for s in SYSTEMS if file.stem.endswith(f"-{s}")), None) or _above(file, SYSTEMS)


def _known(value: str | None, names: tuple[str, ...], what: str) -> None:
    if value is not None and value not in names:
        raise CohortError(f"unknown {what} {quote(value)}", hint=f"use one of {', '.join(names)}")
