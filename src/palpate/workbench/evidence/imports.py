"""Charts to review, from files in MDACE's JSON or UIMA CAS JSON (alone or in a zip), or from a run's evidence audit."""

from __future__ import annotations

import io
import json
import re
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from palpate.data.annotations import CODE_SYSTEMS, AnnotatedChart, Annotation, mdace
from palpate.data.annotations.webanno_projects import import_evidence
from palpate.errors import InputError
from palpate.run.directory import RunDirectory
from palpate.workbench.evidence.decisions import BOTH, CODER, MODEL, ProposedSpan, ReviewedNote

LARGEST = 20_000_000
"""Bytes of the files that are sent."""
LARGEST_UNPACKED, MOST_FILES = 100_000_000, 5_000
MOST_NOTES, MOST_SPANS = 10_000, 50_000
LONGEST_NOTE = 10**9
"""Characters, where the text is not here."""
_AUDIT = "evidence"
_SIDES = {CODER: "coders", MODEL: "model"}
"""As the audit names them."""
_OPTION = re.compile(r"--(\w+)")
"""Options of the command line are fields of the page."""
_NOT_IN_A_NAME = re.compile(r"[^\w .-]+")


class MarkedNote(NamedTuple):
    """A note with what one side marked in it; `key` is its chart and its name."""

    key: tuple[str, str]
    note: ReviewedNote
    annotations: tuple[Annotation, ...]


class ImportedCharts(NamedTuple):
    """The notes and spans of a new set."""

    notes: list[ReviewedNote]
    spans: list[ProposedSpan]


class ReadHow(NamedTuple):
    """What a file does not say itself: the code system, and of an annotation project whose spans, and which."""

    code_system: str = "ICD-10-CM"
    annotator: str = ""
    layer: str = ""
    feature: str = ""


def read_file(name: str, content: bytes, how: ReadHow, *, by_model: bool) -> list[MarkedNote]:
    """The notes of a file that was sent; what is wrong with it is said without the place where it was unpacked."""
    if how.code_system not in CODE_SYSTEMS:
        raise InputError("unknown code system", hint=f"use one of {', '.join(CODE_SYSTEMS)}")
    plain = _NOT_IN_A_NAME.sub("_", PurePosixPath(name.replace("\\", "/")).name)[-80:].strip(". ")
    ending = Path(plain).suffix.lower()
    if ending not in (".json", ".zip"):
        raise InputError("charts are a .json file, or a .zip file of such files")
    with tempfile.TemporaryDirectory(prefix="palpate-") as folder:
        path = Path(folder) / plain
        try:
            if ending == ".zip":
                members = _unpacked(content)
                if any(_is_mdace(each) for each in members.values()):
                    return list(_of_charts(mdace.read(_written(members, Path(folder)), predictions=by_model)))
            path.write_bytes(content)
            if ending == ".json" and _is_mdace(content):
                return list(_of_charts([mdace.read_chart(path)]))
            return list(_of_project(path, how))
        except InputError as error:
            hint = None if error.hint is None else _OPTION.sub(r"the field \1", error.hint)
            raise InputError(error.problem, row=error.row, column=error.column, hint=hint) from None
        except OSError:
            hint = "give files and folders short names, and no file the name of a folder"
            raise InputError("the file could not be unpacked", hint=hint) from None


def _unpacked(content: bytes) -> dict[str, bytes]:
    """The JSON files of a zip file, by their paths in it; nothing is unpacked that is too large or packed again."""
    try:
        packed = zipfile.ZipFile(io.BytesIO(content))
        listed = [one for one in packed.infolist() if not one.is_dir()]
        if len(listed) > MOST_FILES or sum(one.file_size for one in listed) > LARGEST_UNPACKED:
            raise InputError("the zip file holds too much", hint="send fewer charts at once")
        if any(one.filename.lower().endswith(".zip") for one in listed):
            raise InputError("the zip file holds other zip files", hint="export as UIMA CAS JSON, or send them apart")
        return {one.filename: packed.read(one) for one in listed if one.filename.lower().endswith(".json")}
    except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError):
        raise InputError("the zip file is damaged, or needs a password") from None


def _written(members: Mapping[str, bytes], folder: Path) -> Path:
    """MDACE's files below a folder, with the folders that say setting and code system; names lead nowhere else."""
    top = folder / "charts"
    for number, (name, content) in enumerate(members.items()):
        parts = [_NOT_IN_A_NAME.sub("_", part) for part in PurePosixPath(name).parts]
        kept = [part for part in parts[:-1] if part.strip(". /_") and part != "__MACOSX"]
        if not _is_mdace(content) or parts[-1].startswith("._"):
            continue
        place = top.joinpath(*kept[-6:])
        place.mkdir(parents=True, exist_ok=True)
        path = place / (parts[-1][-80:].lstrip(".") or f"{number}.json")
        (path if not path.exists() else place / f"{number}-{path.name}").write_bytes(content)
    return top


def _is_mdace(content: bytes) -> bool:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and "hadm_id" in found


def _of_charts(charts: Iterator[AnnotatedChart] | Sequence[AnnotatedChart]) -> Iterator[MarkedNote]:
    for chart in charts:
        for note in chart.notes:
            names = (str(chart.hadm_id), str(note.note_id))
            kept = ReviewedNote(
                0, *names, note.category, note.description, chart.comment, chart.setting, chart.system, note.text
            )
            yield MarkedNote((f"{names[0]} {chart.system or ''}".strip(), names[1]), kept, note.annotations)


def _of_project(path: Path, how: ReadHow) -> Iterator[MarkedNote]:
    """The documents of an INCEpTION export, or one: each is a chart of one note."""
    annotator, layer, feature = (value.strip() or None for value in how[1:])
    found = import_evidence(path, annotator=annotator, layer=layer, feature=feature, code_system=how.code_system)
    spans: dict[str, list[Annotation]] = {}
    for row in found.evidence.iter_rows(named=True):
        span = Annotation(row["start"], row["end"], row["label"], how.code_system, row["type"] or "Human")
        spans.setdefault(row["case_id"], []).append(span)
    for case, text in found.cases.select("case_id", "text").iter_rows():
        yield MarkedNote((case, case), ReviewedNote(0, case, case, text=text), tuple(spans.get(case, ())))


def combine(coders: Sequence[MarkedNote], models: Sequence[MarkedNote], texts: Mapping[str, str]) -> ImportedCharts:
    """The spans of both sides; one that both marked alike is asked about once. `texts` are notes by name."""
    place_of: dict[tuple[str, str], int] = {}
    notes: list[ReviewedNote] = []
    spans: dict[tuple[int, int, int, str], ProposedSpan] = {}
    for side, marked in ((CODER, coders), (MODEL, models)):
        for one in marked:
            place = place_of.setdefault(_known_key(one, place_of, notes), len(notes))
            if place == len(notes):
                text = one.note.text if one.note.text is not None else texts.get(one.note.note)
                notes.append(one.note._replace(place=place, text=text))
            known = notes[place]
            if one.note.text is not None and one.note.text != known.text:
                if known.text is not None:
                    raise InputError(f"note {known.note} of chart {known.chart} has two different texts")
                notes[place] = known._replace(text=one.note.text)
            for span in one.annotations:
                key = (place, span.begin, span.end, span.code)
                new = ProposedSpan(0, *key, span.code_system, side, span.type, span.description)
                other = spans.setdefault(key, new)
                spans[key] = other if other.by == side else other._replace(by=BOTH)
    listed = [spans[key]._replace(place=place) for place, key in enumerate(sorted(spans))]
    return checked_charts(notes, listed)


def _known_key(
    one: MarkedNote, place_of: Mapping[tuple[str, str], int], notes: Sequence[ReviewedNote]
) -> tuple[str, str]:
    """The key of the same note in what was read before, where only one of the two files names a code system."""
    if one.key in place_of:
        return one.key
    bare = (one.note.chart, one.note.note)
    if one.note.system is not None:
        return bare if bare in place_of else one.key
    found = [key for key, place in place_of.items() if (notes[place].chart, notes[place].note) == bare]
    return found[0] if len(found) == 1 else one.key


def checked_charts(notes: list[ReviewedNote], spans: list[ProposedSpan]) -> ImportedCharts:
    """Refuse too many, and spans that go beyond their note."""
    if len(notes) > MOST_NOTES or len(spans) > MOST_SPANS:
        raise InputError(f"a review has at most {MOST_NOTES:,} notes and {MOST_SPANS:,} spans")
    for span in spans:
        note = notes[span.note]
        if span.end > (LONGEST_NOTE if note.text is None else len(note.text)):
            raise InputError(f"a span of note {note.note} of chart {note.chart} goes beyond its text")
    try:
        "".join(str(part) for one in (*notes, *spans) for part in one).encode()
    except UnicodeEncodeError:
        raise InputError("the charts hold half a character (a lone surrogate), which is no text") from None
    return ImportedCharts(notes, spans)


def models_of_run(run: Path) -> list[str]:
    """The models of which a run's evidence audit kept spans."""
    spans = RunDirectory(run).read_table(_AUDIT, "spans")
    return [] if spans is None else [str(name) for name in spans["model"].unique(maintain_order=True)]


def read_run(run: Path, model: str, *, code_system: str, texts: Mapping[str, str]) -> ImportedCharts:
    """The spans of coders and of one model; the text is the run's, or that of the workbench's cohort."""
    directory = RunDirectory(run)
    spans, places = directory.read_table(_AUDIT, "spans"), directory.read_table(_AUDIT, "notes")
    kept = directory.read_table(_AUDIT, "texts")
    if spans is None or model not in spans["model"]:
        raise InputError("this run has no spans of the evidence audit and this model")
    known = {**texts, **({} if kept is None else dict(kept.iter_rows()))}
    starts = {} if places is None else {(row[0], row[1]): row[2:] for row in places.iter_rows()}
    sides: dict[str, list[MarkedNote]] = {CODER: [], MODEL: []}
    for row in spans.filter(model=model).iter_rows(named=True):
        case, name = row["case_id"], row["note_id"] or row["case_id"]
        category, low, high = starts.get((case, name), ("", 0, None))
        whole = known.get(case)
        text = whole if whole is None or high is None else whole[low:high]
        end = row["end"] if high is None else min(row["end"], high)
        span = Annotation(row["start"] - low, end - low, row["label"], row["code_system"] or code_system)
        note = MarkedNote((case, name), ReviewedNote(0, case, name, category or "", text=text), (span,))
        for side, marked in sides.items():
            marked += [note] if row["marked_by"] in (_SIDES[side], BOTH) else []
    return combine(sides[CODER], sides[MODEL], {})
