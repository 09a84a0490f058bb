"""The `notes` suite: all its capabilities, well-formed sentences, and a finding that the user chooses."""

from __future__ import annotations

import numpy as np
import pytest

from palpate.perturb.suites import Suite, find_flaws, load_suite

CAPABILITIES = {
    "negated_findings",
    "family_history",
    "history",
    "hypothetical",
    "resolved",
    "uncertainty",
    "abbreviations",
    "section_headings",
}


@pytest.fixture(scope="module")
def notes() -> Suite:
    return load_suite("notes")


def test_capabilities_types_and_both_labels(notes: Suite) -> None:
    assert {capability.id for capability in notes.capabilities} == CAPABILITIES
    assert {test.type for c in notes.capabilities for test in c.tests} == {"MFT", "INV", "DIR"}
    for capability in notes.capabilities:
        labels = {t.label for test in capability.tests if test.type == "MFT" for t in test.templates}
        assert labels == {True, False}, capability.id


def test_every_variation_with_every_fill_in_is_well_formed(notes: Suite) -> None:
    assert find_flaws(notes) == []


def test_the_finding_is_the_users(notes: Suite) -> None:
    assert notes.choose == ("finding",)
    chosen = notes.with_slots({"finding": ["pneumonia"]})
    assert chosen.choose == ()
    assert chosen.dropped == ()
    cases = chosen.default_cases(np.random.default_rng(0))
    assert set(cases.values("finding")) == {"pneumonia"}
    # Every text is about the chosen finding, and never names it as the other one.
    for case in cases:
        names = ("pneumonia", "pna")
        assert any(name in (case.text + " " + (case.changed or "")).lower() for name in names)
        assert all(filled.value != "pneumonia" for filled in case.slots if filled.slot == "other_finding")


def test_an_abbreviation_as_the_finding_excludes_its_long_form(notes: Suite) -> None:
    others = notes.with_slots({"finding": ["PNA"]}).lexicons["other_finding"].values
    assert "pneumonia" not in others
    assert "sepsis" in others


def test_a_finding_without_abbreviation_drops_the_templates_that_need_one(notes: Suite) -> None:
    own = notes.with_slots({"finding": [{"value": "hip fracture", "article": "a"}]})
    dropped = {drop.template for drop in own.dropped}
    assert {"short-01", "short-05", "long-01"} == dropped & {"short-01", "short-05", "long-01", "negated-01"}
    assert all(drop.reason == "no value fits slot 'finding'" for drop in own.dropped)
    texts = own.cases(range(own.size())).texts
    assert "The patient does not have a hip fracture." in texts
    assert find_flaws(own) == []
    both = notes.with_slots({"finding": [{"value": "hip fracture", "article": "a", "abbreviation": "hip fx"}]})
    assert both.dropped == ()
    assert "Pt admitted w/ hip fx." in both.cases(range(both.size())).texts


def test_lasting_diseases_leave_out_what_holds_for_acute_ones(notes: Suite) -> None:
    lasting = notes.without_tags(["acute"])
    assert 0 < lasting.size() < notes.size()
    assert not any("acute" in template.tags for template in lasting.templates)
    assert all(test.templates for capability in lasting.capabilities for test in capability.tests)


def test_pairs_differ_and_labels_of_pairs_are_told(notes: Suite) -> None:
    cases = notes.cases(range(notes.size()))
    for text, changed, kind in zip(cases.texts, cases.changed, cases.names("type"), strict=True):
        assert (kind == "MFT") == (changed == "")
        assert text != changed
    for unit in notes.units:
        assert (unit.test.direction is None) == (unit.test.type != "DIR")
        assert (unit.test.tolerance is None) == (unit.test.type != "INV")


def test_given_findings_take_the_lexicons_article_and_a_known_abbreviation_is_its_entry(notes: Suite) -> None:
    given = ["pneumonia", "PNA", "diabetes", "Atrial fibrillation", "chest pain"]
    own = notes.with_slots({"finding": given})
    written = {entry.value: entry.written("a") for entry in own.lexicons["finding"].entries}
    assert written == {value: value for value in given}
    pna = next(entry for entry in own.lexicons["finding"].entries if entry.value == "PNA")
    # Next to its long form, which is abbreviated in some templates, it must not write these sentences again.
    assert (pna.head, pna.written("abbreviation")) == ("pneumonia", None)
    alone = notes.with_slots({"finding": ["PNA"]}).lexicons["finding"].entries[0]
    assert (alone.head, alone.written("abbreviation")) == ("pneumonia", "PNA")
    assert "The patient has PNA and no fever." in own.cases(range(own.size())).texts
    assert find_flaws(own) == []


def test_articles_of_given_findings(notes: Suite) -> None:
    given = ["Pleural effusion", "PE", "SBO", "UTI", {"value": "hip fracture", "article": "a"}, {"value": "PTX"}]
    own = notes.with_slots({"finding": given})
    assert [entry.written("a") for entry in own.lexicons["finding"].entries] == [
        *("a Pleural effusion", "a PE", "an SBO", "a UTI", "a hip fracture", "a PTX")
    ]
    merged = notes.with_slots({"finding": [{"value": "pneumonia", "article": "the"}]}).lexicons["finding"].entries[0]
    assert (merged.written("a"), merged.written("abbreviation")) == ("the pneumonia", "PNA")


def test_no_negation_leaves_an_old_finding_and_no_relative_dies_of_a_trifle(notes: Suite) -> None:
    cases = notes.cases(range(notes.size()))
    assert not [text for text in (*cases.texts, *cases.changed) if "no new" in text or "died of" in text]


def test_a_finding_that_is_only_possible_has_no_label(notes: Suite) -> None:
    """Whether "possible" counts as present is the user's definition; what is asked for is the order."""
    (capability,) = (capability for capability in notes.capabilities if capability.id == "uncertainty")
    for test in capability.tests:
        for template in test.templates:
            assert (template.label is None) == (test.type != "MFT"), template.id
    moved = {test.id: test.direction for test in capability.tests if test.type == "DIR"}
    assert moved == {"doubt_direction": "down", "denial_to_doubt": "up"}
    own = notes.with_slots({"finding": ["sepsis"]})
    cases = own.default_cases(np.random.default_rng(0), capabilities=["uncertainty"])
    assert {"Sepsis cannot be excluded at this time.", "The patient may have sepsis."} <= set(cases.texts)
