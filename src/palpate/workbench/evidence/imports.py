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
from palpate.data.annotations.cas_changes import CasSource, coded_places
from palpate.data.annotations.webanno_projects import annotations_in, choose_feature, read_annotator
from palpate.errors import InputError, parse_json
from palpate.run.directory import RunDirectory
from palpate.workbench.evidence.decisions import BOTH, CODER, MODEL, ProposedSpan, ReviewedNote
from palpate.workbench.pages import BenchProblem

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
    source: CasSource | None = None


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
        raise BenchProblem("code_system", known=", ".join(CODE_SYSTEMS))
    plain = _NOT_IN_A_NAME.sub("_", PurePosixPath(name.replace("\\", "/")).name)[-80:].strip(". ")
    ending = Path(plain).suffix.lower()
    if ending not in (".json", ".zip"):
        raise BenchProblem("chart_file")
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
        except BenchProblem:
            raise
        except InputError as error:
            hint = None if error.hint is None else _OPTION.sub(r"the field \1", error.hint)
            said = InputError(error.problem, row=error.row, column=error.column, hint=hint)
            raise BenchProblem("file", said=str(said)) from None
        except OSError:
            raise BenchProblem("not_unpacked") from None


def _unpacked(content: bytes) -> dict[str, bytes]:
    """The JSON files of a zip file, by their paths in it; nothing is unpacked that is too large or packed again."""
    try:
        packed = zipfile.ZipFile(io.BytesIO(content))
        listed = [one for one in packed.infolist() if not one.is_dir()]
        if len(listed) > MOST_FILES or sum(one.file_size for one in listed) > LARGEST_UNPACKED:
            raise BenchProblem("zip_large")
        if any(one.filename.lower().endswith(".zip") for one in listed):
            raise BenchProblem("zip_in_zip")
        return {one.filename: packed.read(one) for one in listed if one.filename.lower().endswith(".json")}
    except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, LookupError, ValueError, OSError):
        raise BenchProblem("zip_damaged") from None


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
        found = parse_json(content)
    except ValueError:
        return False
    return isinstance(found, dict) and "hadm_id" in found


def _of_charts(charts: Iterator[AnnotatedChart] | Sequence[AnnotatedChart]) -> Iterator[MarkedNote]:
    for chart in charts:
        for note in chart.notes:
            names = (str(chart.hadm_id), str(note.note_id))
            kept = ReviewedNote(
                0, *names, note.category, note.description, chart.comment, chart.setting, chart.system, note.text
            )
            key = " ".join(part for part in (names[0], chart.setting, chart.system) if part)
            yield MarkedNote((key, names[1]), kept, note.annotations)


def _of_project(path: Path, how: ReadHow) -> Iterator[MarkedNote]:
    """The documents of an INCEpTION export, or one: each is a chart of one note."""
    annotator, layer, feature = (value.strip() or None for value in how[1:])
    read = read_annotator(path, annotator)
    known, name = choose_feature(read, layer, feature, path)
    seen: set[str] = set()
    for one in read:
        if one.document in seen:
            raise BenchProblem("two_projects", document=one.document)
        seen.add(one.document)
        raw = one.content.raw
        spans = tuple(annotations_in(one, known, name, how.code_system))
        source = None if raw is None else _source(raw, known, name, spans)
        note = ReviewedNote(0, one.document, one.document, text=one.content.text)
        yield MarkedNote((one.document, one.document), note, spans, source)


def _source(raw: bytes, layer: str, feature: str, spans: Sequence[Annotation]) -> CasSource | None:
    """The document itself, if its spans are found in it as they were read; else new ones are written for it."""
    try:
        source = CasSource(raw.decode("utf-8-sig"), layer, feature)
        found = set(coded_places(source))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        return None
    return source if found == {(one.begin, one.end, one.code) for one in spans} else None


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
            known = notes[place] = _with_source(notes[place], side, one.source)
            if one.note.text is not None and one.note.text != known.text:
                if known.text is not None:
                    raise BenchProblem("two_texts", note=known.note, chart=known.chart)
                notes[place] = known._replace(text=one.note.text)
            for span in one.annotations:
                key = (place, span.begin, span.end, span.code)
                new = ProposedSpan(0, *key, span.code_system, side, span.type, span.description)
                other = spans.setdefault(key, new)
                spans[key] = other if other.by == side else other._replace(by=BOTH)
    listed = [spans[key]._replace(place=place) for place, key in enumerate(sorted(spans))]
    return checked_charts(notes, listed)


def _with_source(note: ReviewedNote, side: str, source: CasSource | None) -> ReviewedNote:
    """The note with the document that it came from."""
    if source is None:
        return note
    kept = {**({} if note.source is None else json.loads(note.source)), side: source}
    return note._replace(source=json.dumps(kept))


def _known_key(
    one: MarkedNote, place_of: Mapping[tuple[str, str], int], notes: Sequence[ReviewedNote]
) -> tuple[str, str]:
    """The key of the same note in what was read before, where one of the two files names no setting or code system."""
    if one.key in place_of:
        return one.key
    found = [key for key, place in place_of.items() if _may_be_same(notes[place], one.note)]
    return found[0] if len(found) == 1 else one.key


def _may_be_same(one: ReviewedNote, other: ReviewedNote) -> bool:
    """Whether two files can be about the same note: they name no different setting or code system."""
    named = ((one.setting, other.setting), (one.system, other.system))
    same = (one.chart, one.note) == (other.chart, other.note)
    return same and all(first is None or second in (None, first) for first, second in named)


def checked_charts(notes: list[ReviewedNote], spans: list[ProposedSpan]) -> ImportedCharts:
    """Refuse too many, and spans that go beyond their note."""
    if len(notes) > MOST_NOTES or len(spans) > MOST_SPANS:
        raise BenchProblem("too_many_spans", notes=f"{MOST_NOTES:,}", spans=f"{MOST_SPANS:,}")
    for span in spans:
        note = notes[span.note]
        if span.end > (LONGEST_NOTE if note.text is None else len(note.text)):
            raise BenchProblem("span_beyond", note=note.note, chart=note.chart)
    try:
        "".join(str(part) for one in (*notes, *spans) for part in one).encode()
    except UnicodeEncodeError:
        raise BenchProblem("half_character") from None
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
        raise BenchProblem("no_spans_of_run")
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
