"""The `ade` suite: the paper's counts, well-formed sentences, and labels that an independent reader agrees with."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import yaml

from palpate.perturb.suites import Case, Suite, find_flaws, load_suite
from tests.perturb.suites.rule_reader import drug_came_first, effect_is_negated

EXCEPTIONS = yaml.safe_load((Path(__file__).parent / "label_exceptions.yaml").read_text(encoding="utf-8"))
INDICATIONS = yaml.safe_load((Path(__file__).parent / "indications.yaml").read_text(encoding="utf-8"))
DEGREE = {"severe", "excessive", "frequent", "heavy", "constant", "serious", "bad", "extreme", "chronic", "major"}
TABLE_5 = {
    "temporal_order": (36, 816),
    "positive_sentiment": (36, 504),
    "beneficial_effect": (12, 48),
    "negation": (15, 137),
}
TABLE_3 = {
    ("temporal_standard", "no ADE"): 1050,
    ("temporal_standard", "ADE"): 900,
    ("temporal_single", "no ADE"): 1050,
    ("temporal_single", "ADE"): 1050,
    ("temporal_double", "no ADE"): 1575,
    ("temporal_double", "ADE"): 1575,
    ("positive_sentiment", "ADE"): 2700,
    ("beneficial_effect", "no ADE"): 120,
    ("beneficial_effect", "ADE"): 120,
    ("negation", "no ADE"): 825,
    ("negation", "ADE"): 300,
}


@pytest.fixture(scope="module")
def ade() -> Suite:
    return load_suite("ade")


def test_base_templates_and_variations_are_the_papers(ade: Suite) -> None:
    found = {
        capability.id: (
            sum(len(test.templates) for test in capability.tests),
            sum(len(template.variations()) for test in capability.tests for template in test.templates),
        )
        for capability in ade.capabilities
        if capability.part == "main"
    }
    assert found == TABLE_5
    assert tuple(map(sum, zip(*found.values(), strict=True))) == (99, 1505)


def test_default_run_is_the_papers_table_3(ade: Suite) -> None:
    cases = ade.default_cases(np.random.default_rng(6))
    labels = [ade.labels.name(bool(label)) for label in cases.label]
    assert Counter(zip(cases.names("test"), labels, strict=True)) == TABLE_3
    assert len(cases) == ade.size(full=False) == 11_265
    assert (int((cases.label == 0).sum()), int((cases.label == 1).sum())) == (4620, 6645)
    assert len(set(cases.texts)) == 11_265


def test_default_run_uses_the_papers_sample_sizes_in_every_template(ade: Suite) -> None:
    cases = ade.default_cases(np.random.default_rng(6))
    sizes = {"drug": 5, "effect": 15, "mild_effect": 15, "time": 7}
    for slot, size in sizes.items():
        assert len(set(cases.values(slot)) - {None}) == size
    assert len({*zip(cases.values("longer"), cases.values("shorter"), strict=True)} - {(None, None)}) == 7
    per_template = Counter(zip(cases.names("template"), cases.values("drug"), strict=True))
    assert {n for (name, _), n in per_template.items() if name.startswith("standard")} == {15}
    assert len({*zip(cases.names("template"), cases.variation.tolist(), strict=True)}) == 99 - 12 + 48


def test_further_capabilities_stay_apart(ade: Suite) -> None:
    further = {capability.id for capability in ade.capabilities if capability.part == "further"}
    assert {"questions", "speculation", "hedging", "social_media_noise"} <= further
    assert not further & set(ade.default_cases(np.random.default_rng(0)).names("capability"))
    both = ade.default_cases(np.random.default_rng(0), further=True)
    assert further <= set(both.names("capability"))
    assert len(both) == ade.size(full=False, further=True)
    assert {test.type for c in ade.capabilities for test in c.tests} == {"MFT", "INV", "DIR"}


def test_full_expansion_has_a_billion_cases(ade: Suite) -> None:
    assert ade.size() > 10**9


def test_no_variation_twice(ade: Suite) -> None:
    written = [
        flat.written()
        for capability in ade.capabilities
        for test in capability.tests
        if test.type == "MFT"
        for template in test.templates
        for flat in template.variations()
    ]
    assert len(written) > 1505
    assert [text for text, n in Counter(written).items() if n > 1] == []


def test_every_variation_with_every_fill_in_is_well_formed(ade: Suite) -> None:
    assert find_flaws(ade) == []


def test_no_drug_treats_an_effect_of_the_suite(ade: Suite) -> None:
    """Else "I had anxiety on Zoloft" may speak of the illness, and its label would be in doubt."""
    generics = {str(entry.attribute("generic")) for entry in ade.lexicons["drug"].entries}
    treats = {drug: row["treats"] for row in INDICATIONS for drug in row["drugs"]}
    assert sum(len(row["drugs"]) for row in INDICATIONS) == len(treats)
    assert set(treats) == generics
    effects = [*ade.lexicons["effect"].values, *ade.lexicons["mild_effect"].values]
    assert [(d, e) for d, parts in treats.items() for e in effects for part in parts if part in e] == []


def test_lexicons_are_ample(ade: Suite) -> None:
    heads = {entry.head for entry in ade.lexicons["drug"].entries}
    assert len(heads) >= 75
    assert len(ade.lexicons["effect"]) >= 100
    assert len(ade.lexicons["mild_effect"]) >= 60


def test_effects_have_no_words_of_degree(ade: Suite) -> None:
    """ "No heavy periods" leaves room for periods: what is denied would not be the whole effect."""
    assert [effect for effect in ade.lexicons["effect"].values if DEGREE & set(effect.split())] == []


def test_effects_fit_behind_my_and_may_last(ade: Suite) -> None:
    """ "My swelling of the face began" and "chills for 24 months" are written by nobody."""
    effects = [*ade.lexicons["effect"].values, *ade.lexicons["mild_effect"].values]
    assert [effect for effect in effects if re.search(r"\b(?:of the|in the|in both|in my|on the)\b", effect)] == []
    assert [effect for effect in effects if re.search(r"\b(?:fever|chills|heart attack|stroke)", effect)] == []


def test_nothing_is_caused_me_and_no_drug_is_given_for_what_it_does_not_treat(ade: Suite) -> None:
    written = [flat.written() for unit in ade.units for flat in unit.variations]
    assert [
        text for text in written if re.search(r"caused me\b|, so my doctor|come down with|came down with", text)
    ] == []


def test_mild_effects_are_none_that_may_be_welcome(ade: Suite) -> None:
    welcome = ("dreams", "sleep", "weight", "appetite", "calm", "energy")
    assert [effect for effect in ade.lexicons["mild_effect"].values if any(word in effect for word in welcome)] == []


def test_positive_sentiment_has_a_first_clause_for_each_base_template(ade: Suite) -> None:
    """Templates are what is resampled: 12 openings with 3 endings each would be 12 and not 36."""
    tests = [test for c in ade.capabilities if c.id == "positive_sentiment" for test in c.tests]
    written = [[flat.written() for flat in template.variations()] for test in tests for template in test.templates]
    openings = [{re.split(r"[,.]", text)[0] for text in texts} for texts in written]
    assert len(openings) == 36
    assert {len(texts) for texts in written} == {14}
    assert sum(map(len, openings)) == len(set.union(*openings))


def test_mild_effects_are_other_effects(ade: Suite) -> None:
    assert not set(ade.lexicons["effect"].values) & set(ade.lexicons["mild_effect"].values)


def test_times_are_1_to_25_days_weeks_and_months(ade: Suite) -> None:
    entries = ade.lexicons["time"].entries
    assert len(entries) == 75
    days = {entry.value: entry.attributes["days"] for entry in entries}
    assert (days["1 day"], days["25 days"], days["3 weeks"]) == (1, 25, 21)
    assert days["2 months"] == pytest.approx(60.88)


def test_longer_is_always_longer_by_a_quarter(ade: Suite) -> None:
    cases = ade.sample(5000, np.random.default_rng(1), capabilities=["temporal_order"])
    days = {entry.value: float(entry.attributes["days"]) for entry in ade.lexicons["time"].entries}
    pairs = {*zip(cases.values("longer"), cases.values("shorter"), strict=True)} - {(None, None)}
    assert len(pairs) > 1000
    assert all(days[str(longer)] >= 1.25 * days[str(shorter)] for longer, shorter in pairs)


def masked(case: Case) -> str:
    """The sentence with DRUG and EFFECT in place of the values."""
    text = case.text
    for filled in sorted(case.slots, key=lambda filled: -filled.start):
        if filled.slot in ("drug", "effect"):
            text = text[: filled.start] + filled.slot.upper() + text[filled.end :]
    return text


@pytest.mark.parametrize(("capability", "n"), [("temporal_order", 816), ("negation", 137)])
def test_rule_reader_agrees_with_every_label(ade: Suite, capability: str, n: int) -> None:
    rng = np.random.default_rng(3)
    disagreed = set()
    read = 0
    for at, unit in enumerate(ade.units):
        if unit.capability.id != capability:
            continue
        start = sum(other.size for other in ade.units[:at])
        firsts = np.arange(len(unit.variations)) * unit.n_fillings
        for fill in rng.integers(unit.n_fillings, size=5):
            for case in ade.cases(start + firsts + fill):
                sentence = masked(case)
                ade_read = drug_came_first(sentence) if capability == "temporal_order" else None
                if capability == "negation":
                    ade_read = not effect_is_negated(sentence)
                if ade_read != case.label:
                    disagreed.add(case.template)
        read += len(unit.variations)
    assert read == n
    assert disagreed == (set(EXCEPTIONS) if capability == "negation" else set())


def test_both_labels_share_their_words(ade: Suite) -> None:
    """Otherwise a bag of words could pass: in standard temporal order the verbs say nothing about the label."""
    words: dict[bool | None, set[str]] = {True: set(), False: set()}
    for unit in ade.units:
        if unit.test.id == "temporal_standard":
            for flat in unit.variations:
                words[unit.template.label] |= set(flat.written().lower().strip(".").replace(",", "").split())
    shared = words[True] & words[False]
    assert {"before", "after", "since", "until", "once", "first", "later"} - shared <= {"since"}
    assert len(shared) > 0.6 * len(words[True])
