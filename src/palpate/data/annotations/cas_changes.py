"""Changes of a document in UIMA CAS JSON that leave everything else as it was: other layers, features, relations.

A span that stays keeps its feature structure, a corrected one keeps its other features, a removed one takes the
relations with it that it was an end of, and a new one has the features that it is given. Without a change, the document
comes back as it was, byte by byte.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from palpate.data.annotations.uima_cas import utf16_units

_ENDS = ("@Governor", "@Dependent")
_OWN = ("begin", "end")
_STRUCTURES, _VIEWS, _TYPES, _MEMBERS = "%FEATURE_STRUCTURES", "%VIEWS", "%TYPES", "%MEMBERS"
_STRING, _SUPER = "uima.cas.String", "uima.tcas.Annotation"


class CodedPlace(NamedTuple):
    """A span of a document and its code, in characters."""

    begin: int
    end: int
    code: str


class CasSource(NamedTuple):
    """A document as it was imported, and where its codes are."""

    raw: str
    layer: str
    feature: str


class AddedPlace(NamedTuple):
    """A span that the document lacks; `features` are further values, and their types where these are known."""

    place: CodedPlace
    features: Mapping[str, Any] = {}
    types: Mapping[str, Any] = {}


def coded_places(source: CasSource) -> dict[CodedPlace, dict[str, Any]]:
    """The coded spans of a document, each with its feature structure; of the same one twice, the first."""
    cas = json.loads(source.raw)
    found: dict[CodedPlace, dict[str, Any]] = {}
    for place, structure in _coded(cas, source):
        found.setdefault(place, structure)
    return found


def further_features(source: CasSource, place: CodedPlace) -> AddedPlace:
    """A coded span with the values that it has besides, to be added to another document."""
    structure = coded_places(source).get(place, {})
    own = {name: value for name, value in structure.items() if name[0] not in "%@^#" and name not in _OWN}
    own.pop(source.feature, None)
    types = json.loads(source.raw).get(_TYPES, {}).get(source.layer, {})
    return AddedPlace(place, own, {name: types[name] for name in own if name in types})


def change_cas(
    source: CasSource, kept: Mapping[CodedPlace, CodedPlace | None], added: Sequence[AddedPlace] = ()
) -> str:
    """The document after a review: each coded place becomes another, stays, or goes (None); places that are not named
    stay. `added` are new.
    """
    cas = json.loads(source.raw)
    coded = list(_coded(cas, source))
    text = _text(cas)[1]
    unit = utf16_units(text)
    gone, changed = set(), bool(added)
    for place, structure in coded:
        wanted = kept.get(place, place)
        if wanted is None:
            gone.add(structure["%ID"])
        elif wanted != place:
            changed = True
            structure |= {"begin": unit[wanted.begin], "end": unit[wanted.end], source.feature: wanted.code}
    if not gone and not changed:
        return source.raw
    _remove(cas, gone)
    for one in added:
        _add(cas, source, one, unit)
    return json.dumps(cas)


def _text(cas: Mapping[str, Any]) -> tuple[int, str]:
    """The number and the text of the document's view."""
    sofas = [row for row in cas[_STRUCTURES] if row.get("%TYPE") == "uima.cas.Sofa"]
    first = next((row for row in sofas if row.get("sofaID") == "_InitialView"), sofas[0])
    return first["%ID"], first.get("sofaString", "")


def _coded(cas: Mapping[str, Any], source: CasSource) -> Iterator[tuple[CodedPlace, dict[str, Any]]]:
    sofa, text = _text(cas)
    character = {unit: at for at, unit in enumerate(utf16_units(text))}
    members = {number for view in _views(cas, sofa) for number in view.get(_MEMBERS, ())}
    for row in cas[_STRUCTURES]:
        if row.get("%TYPE") != source.layer or row.get("@sofa") != sofa or row["%ID"] not in members:
            continue
        begin, end = (character.get(row.get(name)) for name in _OWN)
        code = str(row.get(source.feature) or "").strip()
        if begin is not None and end is not None and begin < end and code:
            yield CodedPlace(begin, end, code), row


def _views(cas: Mapping[str, Any], sofa: int) -> list[dict[str, Any]]:
    return [view for view in cas.get(_VIEWS, {}).values() if view.get("%SOFA") == sofa]


def _remove(cas: dict[str, Any], gone: set[int]) -> None:
    """Take feature structures out, with relations that end at them and references to them."""
    rows: list[dict[str, Any]] = cas[_STRUCTURES]
    before = -1
    while before != len(gone):
        before = len(gone)
        gone |= {row["%ID"] for row in rows if any(row.get(end) in gone for end in _ENDS)}
    cas[_STRUCTURES] = [_without(row, gone) for row in rows if row["%ID"] not in gone]
    for view in cas.get(_VIEWS, {}).values():
        view[_MEMBERS] = [number for number in view.get(_MEMBERS, ()) if number not in gone]


def _without(row: dict[str, Any], gone: Iterable[int]) -> dict[str, Any]:
    """A feature structure without references to what is gone."""
    left = {name: value for name, value in row.items() if not (name.startswith("@") and value in gone)}
    if "FSArray" in str(row.get("%TYPE")) or str(row.get("%TYPE")).endswith("[]"):
        left["%ELEMENTS"] = [value for value in row.get("%ELEMENTS", ()) if value not in gone]
    return left


def _add(cas: dict[str, Any], source: CasSource, one: AddedPlace, unit: Sequence[int]) -> None:
    types = cas.setdefault(_TYPES, {})
    layer = types.setdefault(source.layer, {"%NAME": source.layer, "%SUPER_TYPE": _SUPER})
    for name in (source.feature, *one.features):
        layer.setdefault(name, one.types.get(name, {"%NAME": name, "%RANGE": _STRING}))
    sofa = _text(cas)[0]
    number = 1 + max(row["%ID"] for row in cas[_STRUCTURES])
    place = {"@sofa": sofa, "begin": unit[one.place.begin], "end": unit[one.place.end]}
    cas[_STRUCTURES].append(
        {"%ID": number, "%TYPE": source.layer, **place, **one.features, source.feature: one.place.code}
    )
    for view in _views(cas, sofa)[:1]:
        view.setdefault(_MEMBERS, []).append(number)
