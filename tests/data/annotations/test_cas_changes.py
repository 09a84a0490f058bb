"""Documents in UIMA CAS JSON that are changed keep everything that the change is not about."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from palpate.data.annotations.cas_changes import (
    AddedPlace,
    CasSource,
    CodedPlace,
    change_cas,
    coded_places,
    further_features,
)
from palpate.data.annotations.uima_cas import read_json
from tests.data.published import INCEPTION, needs_inception

pytest.importorskip("cassis")
TEXT = "Chest 🫁 pain, no fever. 😊 Asystole."
LAYER, OTHER, RELATION = "custom.Code", "custom.Other", "custom.Relation"


def source() -> CasSource:
    """Two coded spans, another layer, a relation between them, and an array of references, as INCEpTION writes them."""
    unit = lambda at: len(TEXT[:at].encode("utf-16-le")) // 2  # noqa: E731

    def span(number: int, words: str, layer: str = LAYER, **more: object) -> dict[str, object]:
        at = TEXT.index(words)
        return {"%ID": number, "%TYPE": layer, "@sofa": 1, "begin": unit(at), "end": unit(at + len(words)), **more}

    rows = [
        {"%ID": 1, "%TYPE": "uima.cas.Sofa", "sofaNum": 1, "sofaID": "_InitialView", "sofaString": TEXT},
        span(3, "Chest 🫁 pain", code="R07.9", sure=0.5, comment="<b>why</b>"),
        span(4, "fever", code="R50.9", sure=1.0),
        span(5, "Asystole", code=" I46.9 ", sure=0.25),
        span(6, "no", OTHER, x="kept", **{"@about": 4}),
        span(7, "fever", RELATION, **{"@Governor": 3, "@Dependent": 4}),
        {"%ID": 8, "%TYPE": "uima.cas.FSArray", "%ELEMENTS": [3, 4, 5]},
    ]
    string, real = ({"%RANGE": f"uima.cas.{name}"} for name in ("String", "Double"))
    own = {
        "code": {"%NAME": "code", **string},
        "sure": {"%NAME": "sure", **real},
        "comment": {"%NAME": "comment", **string},
    }
    base = "uima.tcas.Annotation"
    about = {"about": {"%NAME": "about", "%RANGE": base}}
    ends = {name: {"%NAME": name, "%RANGE": base} for name in ("Governor", "Dependent")}
    types = {
        LAYER: {"%NAME": LAYER, "%SUPER_TYPE": base, **own},
        OTHER: {"%NAME": OTHER, "%SUPER_TYPE": base, "x": {"%NAME": "x", **string}, **about},
        RELATION: {"%NAME": RELATION, "%SUPER_TYPE": base, **ends},
    }
    views = {"_InitialView": {"%SOFA": 1, "%MEMBERS": [3, 4, 5, 6, 7]}}
    cas = {"%TYPES": types, "%FEATURE_STRUCTURES": rows, "%VIEWS": views}
    return CasSource(json.dumps(cas, indent=2), LAYER, "code")


def place(words: str, code: str) -> CodedPlace:
    at = TEXT.index(words)
    return CodedPlace(at, at + len(words), code)


PAIN, FEVER, ASYSTOLE = place("Chest 🫁 pain", "R07.9"), place("fever", "R50.9"), place("Asystole", "I46.9")


def test_without_a_change_it_is_the_same_bytes() -> None:
    assert set(coded_places(source())) == {PAIN, FEVER, ASYSTOLE}
    assert change_cas(source(), {PAIN: PAIN, FEVER: FEVER}) == source().raw


def test_a_correction_keeps_the_other_features() -> None:
    wider = place("Chest 🫁 pain, no fever. 😊 Asystole", "R07.89")
    changed = json.loads(change_cas(source(), {PAIN: wider}))
    before = json.loads(source().raw)
    after = {row["%ID"]: row for row in changed["%FEATURE_STRUCTURES"]}
    assert (after[3]["comment"], after[3]["sure"], after[3]["code"]) == ("<b>why</b>", 0.5, "R07.89")
    assert [row for row in before["%FEATURE_STRUCTURES"] if row["%ID"] != 3] == [
        row for row in changed["%FEATURE_STRUCTURES"] if row["%ID"] != 3
    ]
    read = read_json(json.dumps(changed).encode(), Path("a.json"))
    assert ("R07.89", wider.begin, wider.end) in {
        (one.features["code"], one.begin, one.end) for one in read.spans if one.layer == LAYER
    }


def test_what_is_removed_takes_its_relations_and_references_along() -> None:
    changed = json.loads(change_cas(source(), {FEVER: None}))
    rows = {row["%ID"]: row for row in changed["%FEATURE_STRUCTURES"]}
    assert set(rows) == {1, 3, 5, 6, 8}
    assert rows[8]["%ELEMENTS"] == [3, 5]
    assert "@about" not in rows[6]
    assert rows[6]["x"] == "kept"
    assert changed["%VIEWS"]["_InitialView"]["%MEMBERS"] == [3, 5, 6]
    assert read_json(json.dumps(changed).encode(), Path("a.json")).text == TEXT


def test_what_is_added_has_what_it_is_given() -> None:
    more = further_features(source(), ASYSTOLE)
    assert (more.features, set(more.types)) == ({"sure": 0.25}, {"sure"})
    bare = json.loads(source().raw)
    bare["%TYPES"], bare["%FEATURE_STRUCTURES"] = {}, bare["%FEATURE_STRUCTURES"][:1]
    bare["%VIEWS"]["_InitialView"]["%MEMBERS"] = []
    new = [AddedPlace(place("😊", "X"), more.features, more.types), AddedPlace(place("no", "Y"))]
    read = read_json(change_cas(source()._replace(raw=json.dumps(bare)), {}, new).encode(), Path("a.json"))
    found = {(TEXT[one.begin : one.end], one.features["code"], one.features.get("sure")) for one in read.spans}
    assert found == {("😊", "X", "0.25"), ("no", "Y", None)}


@needs_inception
@pytest.mark.parametrize("file", sorted(INCEPTION.glob("casjson/*/data.json")), ids=lambda file: file.parent.name)
def test_inception_s_own_documents_are_only_added_to(file: Path) -> None:
    before = json.loads(file.read_text(encoding="utf-8"))
    if "sofaString" not in file.read_text(encoding="utf-8"):
        pytest.skip("a document without text, which is not read")
    kept = CasSource(json.dumps(before), "custom.Code", "code")
    assert change_cas(kept, {}) == kept.raw
    read = read_json(kept.raw.encode(), file)
    changed = json.loads(change_cas(kept, {}, [AddedPlace(CodedPlace(0, 2, "I10"))]))
    assert changed["%FEATURE_STRUCTURES"][:-1] == before["%FEATURE_STRUCTURES"]
    again = read_json(json.dumps(changed).encode(), file)
    assert [one for one in again.spans if one.layer != "custom.Code"] == list(read.spans)
    assert [(one.begin, one.end, one.features) for one in again.spans if one.layer == "custom.Code"] == [
        (0, 2, {"code": "I10"})
    ]
