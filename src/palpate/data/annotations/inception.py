"""Exports of INCEpTION and WebAnno: a project as a folder or as the zip file that was downloaded, or one document.

A project has `annotation/DOCUMENT/ANNOTATOR.EXT`, and the curated version in `curation/DOCUMENT/CURATION_USER.EXT`. EXT
is that of the format: `.tsv` (WebAnno TSV 3), `.json` (UIMA CAS JSON), `.xmi`, or a `.zip` that holds an XMI file and
its `TypeSystem.xml`. Other formats (text, binary) hold no annotations that can be read, and are refused.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable, Iterator
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import NamedTuple

from palpate.cases.growth import refuse_growth
from palpate.data.annotations import uima_cas, webanno
from palpate.data.annotations.webanno import CURATED, Document
from palpate.errors import CohortError

FORMATS = (".tsv", ".json", ".xmi", ".zip")
HOW_TO_EXPORT = (
    "in INCEpTION choose Settings, Export, the format WebAnno TSV v3.3, UIMA CAS JSON or UIMA CAS XMI, and export the "
    "whole project"
)


class Export(NamedTuple):
    """A project, or one document: its name, the folder or file that holds it, and its path for messages."""

    name: str
    place: Traversable
    path: Path


def find_exports(path: Path, *, curated: bool = False) -> list[Export]:
    """The export at a path, or those in a folder: exported projects, unpacked or as zip files."""
    if path.is_file():
        return _open(path)
    if not path.is_dir():
        raise CohortError("file or folder not found", file=path, hint=HOW_TO_EXPORT)
    part = _part(curated)
    if (path / part).is_dir():
        return [Export(path.resolve().name, path, path)]
    inside = [Export(place.name, place, place) for place in sorted(path.iterdir()) if (place / part).is_dir()]
    inside += [export for file in sorted(path.glob("*.zip")) for export in _open(file)]
    return inside or [Export(path.resolve().name, path, path)]


def read_export(export: Export, *, curated: bool = False) -> dict[str, dict[str, Document]]:
    """The documents of an export, by name and annotator; one document is by an annotator of its own name.

    The curated and the original version do not belong to an annotator and are left out; with `curated`, only the
    curated one is read.
    """
    place, path = export.place, export.path
    if place.is_file():
        return {_stem(place.name): {_stem(place.name): _read(place, path)}}
    alone = [file for file in _files(place) if Path(file.name).suffix.lower() in FORMATS[:-1]]
    if len(alone) == 1 and not _folders(place):
        return {_stem(alone[0].name): {_stem(alone[0].name): _read(alone[0], path / alone[0].name, place)}}
    part = _part(curated)
    if isinstance(place, zipfile.Path) and not place.joinpath(part).is_dir():
        # Somebody packed the unpacked folder again.
        place = next((folder for folder in _folders(place) if folder.joinpath(part).is_dir()), place)
    is_project = place.joinpath(part).is_dir()
    top, above = (place.joinpath(part), path / part) if is_project else (place, path)
    found: dict[str, dict[str, Document]] = {}
    other: set[str] = set()
    for document in _folders(top):
        for who, file in _versions(document, curated, other).items():
            at = above / document.name / file.name
            found.setdefault(document.name, {})[who] = _read(file, at, document)
    if found:
        return found
    what, who = ("curated", CURATED[0]) if curated else ("annotated", "ANNOTATOR")
    if other:
        problem = f"the project was exported as {', '.join(sorted(other))}, which has no annotations that can be read"
        raise CohortError(problem, file=path, hint=HOW_TO_EXPORT)
    hint = f"palpate looks for {part}/DOCUMENT/{who} with the ending {', '.join(FORMATS)}; {HOW_TO_EXPORT}"
    raise CohortError(f"the {'folder' if path.is_dir() else 'file'} has no {what} documents", file=path, hint=hint)


def _open(path: Path) -> list[Export]:
    """The export in a file, or those in a zip file of exported projects."""
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise CohortError(f"a file '{path.suffix}' is not an export", file=path, hint=HOW_TO_EXPORT)
    if ending != ".zip":
        return [Export(path.stem, path, path)]
    place = _zipped(path.read_bytes(), path)
    return _projects_in(place, path) or [Export(path.stem, place, path)]


def _projects_in(place: Traversable, path: Path) -> list[Export]:
    """The exported projects that somebody packed into one zip file, in a folder or not."""
    packed = [file for folder in (place, *_folders(place)) for file in _files(folder) if file.name.endswith(".zip")]
    found = []
    for file in packed:
        inside = _zipped(_bytes(file, path / file.name), path / file.name)
        if any(inside.joinpath(_part(curated)).is_dir() for curated in (False, True)):
            found.append(Export(_stem(file.name), inside, path / file.name))
    return found


def _zipped(content: bytes, path: Path) -> Traversable:
    try:
        packed = zipfile.ZipFile(io.BytesIO(content))
    except (zipfile.BadZipFile, NotImplementedError, ValueError):  # what zipfile raises for other and damaged files
        raise CohortError("the file is not a zip file", file=path, hint="download the export again") from None
    refuse_growth(path, len(content), sum(one.file_size for one in packed.infolist()))  # no more of each is unpacked
    return zipfile.Path(packed)


def _bytes(file: Traversable, path: Path) -> bytes:
    try:
        return file.read_bytes()
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError):
        # RuntimeError: it needs a password.
        problem = "the file is damaged, or needs a password"
        raise CohortError(problem, file=path, hint="download the export again, or unpack it first") from None


def _part(curated: bool) -> str:
    return "curation" if curated else "annotation"


def _versions(document: Traversable, curated: bool, other: set[str]) -> dict[str, Traversable]:
    """A document's file for each annotator; endings that hold no annotations are added to `other`."""
    found: dict[str, Traversable] = {}
    ranks: dict[str, int] = {}
    for file in _files(document):
        who, ending = _stem(file.name), Path(file.name).suffix.lower()
        if file.name == uima_cas.TYPE_SYSTEM or (who != CURATED[0] if curated else who in CURATED):
            continue
        if ending not in FORMATS:
            other.add(ending or "a file without an ending")
        elif FORMATS.index(ending) < ranks.get(who, len(FORMATS)):
            found[who], ranks[who] = file, FORMATS.index(ending)
    return dict(sorted(found.items()))


def _read(file: Traversable, path: Path, folder: Traversable | None = None) -> Document:
    """A document in one of the formats; the type system of XMI is in the same folder."""
    ending = Path(file.name).suffix.lower()
    readers: dict[str, Callable[[bytes, Path], Document]] = {
        ".tsv": webanno.parse,
        ".json": uima_cas.read_json,
        ".xmi": lambda content, at: uima_cas.read_xmi(content, _type_system(folder, at), at),
        ".zip": _read_zipped,
    }
    return readers[ending](_bytes(file, path), path)


def _read_zipped(content: bytes, path: Path) -> Document:
    """A zip file of one document, as INCEpTION writes XMI."""
    inside = _zipped(content, path)
    files = [file for file in _files(inside) if Path(file.name).suffix.lower() in FORMATS[:-1]]
    if len(files) != 1:
        problem = f"the zip file of a document has {len(files)} documents instead of one"
        raise CohortError(problem, file=path, hint=HOW_TO_EXPORT)
    return _read(files[0], path / files[0].name, inside)


def _type_system(folder: Traversable | None, path: Path) -> bytes | None:
    """The type system beside a file; with folders on disk, also in the folders above, up to the project's."""
    beside = folder.joinpath(uima_cas.TYPE_SYSTEM) if folder is not None else path.parent / uima_cas.TYPE_SYSTEM
    if beside.is_file():
        return beside.read_bytes()
    above = (parent / uima_cas.TYPE_SYSTEM for parent in list(path.parents)[1:3])
    return next((file.read_bytes() for file in above if file.is_file()), None)


def _files(place: Traversable) -> list[Traversable]:
    return [one for one in _inside(place) if one.is_file()]


def _folders(place: Traversable) -> list[Traversable]:
    return [one for one in _inside(place) if one.is_dir()]


def _inside(place: Traversable) -> Iterator[Traversable]:
    """Without what a Mac adds to folders: .DS_Store, ._NAME and __MACOSX."""
    kept = (one for one in place.iterdir() if not one.name.startswith(".") and one.name != "__MACOSX")
    return iter(sorted(kept, key=lambda one: one.name))


def _stem(name: str) -> str:
    return Path(name).stem
