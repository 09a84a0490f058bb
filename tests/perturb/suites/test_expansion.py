"""Numbering, sampling and spans against a slow expansion that lists everything."""

from __future__ import annotations

import itertools
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palpate.errors import ConfigError
from palpate.perturb.suites import Suite, load_suite, read_suite_yaml
from palpate.perturb.suites.lexicons import Lexicon, make_entry
from palpate.perturb.suites.patterns import parse
from palpate.perturb.suites.schema import Capability, SlotRelation, Template, Test
from tests.perturb.suites.small import HEAD, ONE_TEST, write

DAYS = {"1 day": 1.0, "3 days": 3.0, "1 week": 7.0, "7 days": 7.0, "1 month": 30.0}
MIXED = """
suite: mixed
labels: {positive: "yes", negative: "no"}
lexicons:
  drug: {forms: [lower, upper], values: [Zoloft, {value: Prozac, variants: [prozak]}, aspirin]}
  effect: [nausea, headaches]
  time: [{value: 1 day, days: 1}, {value: 3 days, days: 3}, {value: 1 week, days: 7}, {value: 7 days, days: 7},
    {value: 1 month, days: 30}]
slots: {longer: time, shorter: time, other: drug}
relations:
  - {more: longer, than: shorter, by: days, sample: 2}
  - {different: [drug, other]}
sizes: {drug: 2, effect: 1}
capabilities:
  - id: order
    tests:
      - id: pairs
        type: MFT
        templates:
          - {id: p1, label: "yes", text: "I took {drug} for {longer}, [and|but] {drug} gave me {effect} {shorter} ago."}
          - {id: p2, label: "no", text: "Nothing happens."}
      - id: all
        type: MFT
        label: no
        variations: all
        templates:
          - {id: a1, text: "[I|We] never [took|had] {drug}."}
      - id: invariant
        type: INV
        tolerance: 0.2
        changes:
          - {name: loud, replace: {drug: "drug:upper"}}
          - {name: other, replace: {drug: other}}
          - {name: tag, append: " #{effect}"}
        templates:
          - {id: i1, label: "yes", text: "My {drug} [hurts|harms]."}
      - id: direction
        type: DIR
        direction: down
        margin: 0.1
        templates:
          - {id: d1, text: "I have [bad|mild] {effect}.", to: "I have no [bad|mild] {effect}."}
"""


@pytest.fixture
def mixed(tmp_path: Path) -> Suite:
    return read_suite_yaml(write(tmp_path, MIXED))


def test_every_number_is_a_case_and_relations_are_exact(mixed: Suite) -> None:
    drugs = mixed.lexicons["drug"].values
    assert drugs == ("Zoloft", "zoloft", "ZOLOFT", "Prozac", "prozak", "prozac", "PROZAC", "aspirin", "ASPIRIN")
    effects = mixed.lexicons["effect"].values
    expected = [
        f"I took {drug} for {longer}, {joint} {drug} gave me {effect} {shorter} ago."
        for joint, drug, effect, longer, shorter in itertools.product(("and", "but"), drugs, effects, DAYS, DAYS)
        if DAYS[longer] > DAYS[shorter]
    ]
    expected += ["Nothing happens."]
    expected += [f"{who} never {verb} {drug}." for who in ("I", "We") for verb in ("took", "had") for drug in drugs]
    pairs = []
    for drug, verb in itertools.product(drugs, ("hurts", "harms")):
        text = f"My {drug} {verb}."
        pairs += [(text, f"My {drug.upper()} {verb}.")] if drug.upper() != drug else []
        pairs += [(text, f"My {other} {verb}.") for other in drugs if other[0].lower() != drug[0].lower()]
        pairs += [(text, f"{text} #{effect}") for effect in effects]
    pairs += [
        (f"I have {how} {effect}.", f"I have no {how} {effect}.") for how in ("bad", "mild") for effect in effects
    ]
    cases = mixed.cases(range(mixed.size()))
    plain = [text for text, changed in zip(cases.texts, cases.changed, strict=True) if not changed]
    changed = [(text, changed) for text, changed in zip(cases.texts, cases.changed, strict=True) if changed]
    assert sorted(plain) == sorted(expected)
    assert sorted(changed) == sorted(pairs)


def test_cases_know_their_place_and_their_spans(mixed: Suite) -> None:
    for case in mixed.cases(range(mixed.size())):
        assert case.label is {"p1": True, "p2": False, "a1": False, "i1": True, "d1": None}[case.template]
        assert (case.type == "MFT") == (case.changed is None)
        for text, slots in ((case.text, case.slots), (case.changed or "", case.changed_slots)):
            for filled in slots:
                written = text[filled.start : filled.end]
                assert written in (filled.value, filled.value.upper())
                assert filled.value in mixed.lexicons[filled.slot].values
        if case.template == "p1":
            assert [filled.slot for filled in case.slots] == ["drug", "longer", "drug", "effect", "shorter"]
            assert case.slots[0].value == case.slots[2].value


def test_default_run_counts(mixed: Suite) -> None:
    cases = mixed.default_cases(np.random.default_rng(0))
    # p1: 2 drugs × 1 effect × 2 pairs; a1: 4 variations × 2 drugs; i1: 2 drugs, 2 pairs, 2 × 1; d1: 1.
    assert Counter(cases.names("template")) == {"p1": 4, "p2": 1, "a1": 8, "i1": 2 + 2 + 2, "d1": 1}
    assert len(cases) == mixed.size(full=False)


def test_default_run_uses_the_same_values_everywhere(mixed: Suite) -> None:
    cases = mixed.default_cases(np.random.default_rng(4))
    by_template: dict[str, set[str | None]] = {}
    for template, drug in zip(cases.names("template"), cases.values("drug"), strict=True):
        by_template.setdefault(template, set()).add(drug)
    assert by_template["p1"] == by_template["a1"]


def test_seed_decides_and_nothing_else(mixed: Suite) -> None:
    def runs(seed: int) -> tuple[list[str], list[str]]:
        rng = np.random.default_rng(seed)
        return mixed.default_cases(rng).texts, mixed.sample(50, rng).texts

    assert runs(1) == runs(1)
    assert runs(1) != runs(2)


def test_a_capability_alone_is_the_same_as_with_others() -> None:
    ade = load_suite("ade")
    alone = ade.default_cases(np.random.default_rng(2), capabilities=["negation"])
    whole = ade.default_cases(np.random.default_rng(2), further=True)
    kept = [text for text, name in zip(whole.texts, whole.names("capability"), strict=True) if name == "negation"]
    assert alone.texts == kept


def test_sample_of_everything_is_everything(mixed: Suite) -> None:
    n = mixed.size()
    for balance in ("case", "template"):
        numbers = mixed.draw(n + 5, np.random.default_rng(0), balance=balance)  # type: ignore[arg-type]
        assert sorted(numbers.tolist()) == list(range(n))


def test_sample_has_no_repeats_and_is_even() -> None:
    ade = load_suite("ade")
    numbers = ade.draw(200_000, np.random.default_rng(9))
    assert len(np.unique(numbers)) == 200_000
    # Every case alike: a tenth of the numbers in every tenth of the expansion, within 5 standard errors.
    counts = np.histogram(numbers, bins=10, range=(0, ade.size()))[0]
    assert np.abs(counts - 20_000).max() < 5 * np.sqrt(200_000 * 0.1 * 0.9)


def test_balanced_sample_takes_every_template_alike() -> None:
    ade = load_suite("ade")
    cases = ade.sample(990, np.random.default_rng(9), balance="template")
    assert set(Counter(cases.names("template")).values()) == {10}
    # Also where a template has many changes: then its changes share alike.
    noise = ade.sample(40, np.random.default_rng(9), capabilities=["social_media_noise"], balance="template")
    counts = Counter(zip(noise.names("template"), noise.names("change"), strict=True))
    n_templates, n_pairs = (len(set(key)) for key in (noise.names("template"), counts))
    assert n_templates < n_pairs
    assert max(Counter(noise.names("template")).values()) - min(Counter(noise.names("template")).values()) <= 1


def test_a_sample_smaller_than_the_suite_favours_no_template() -> None:
    ade = load_suite("ade")
    drawn: Counter[str] = Counter()
    for seed in range(200):
        names = ade.sample(33, np.random.default_rng(seed), balance="template").names("template")
        assert len(set(names)) == 33
        drawn.update(names)
    # A third of 99 templates, 200 times: 67 of each are expected, with a standard deviation of 7.
    assert len(drawn) == 99
    assert 33 < min(drawn.values()) <= max(drawn.values()) < 100


def test_sampling_holds_the_sample_and_no_more() -> None:
    ade = load_suite("ade")
    assert ade.size() > 10**9
    rng = np.random.default_rng(0)
    ade.sample(10, rng)
    tracemalloc.start()
    for batch in ade.sample_batches(20_000, rng, batch=1000):
        assert len(batch) == 1000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000


def test_batches_are_the_sample(mixed: Suite) -> None:
    whole = mixed.sample(100, np.random.default_rng(5)).texts
    parts = [text for part in mixed.sample_batches(100, np.random.default_rng(5), batch=7) for text in part.texts]
    assert parts == whole


def test_numbers_outside_are_refused(mixed: Suite) -> None:
    for number in (-1, mixed.size()):
        with pytest.raises(ValueError, match="case numbers of suite 'mixed' run from 0"):
            mixed.cases([number])
    assert len(mixed.cases([])) == 0


def test_chosen_capability_must_exist(mixed: Suite) -> None:
    with pytest.raises(ConfigError, match="has no capability 'negatoin'; its capabilities are: order"):
        mixed.sample(1, np.random.default_rng(0), capabilities=["negatoin"])


def test_other_values_for_a_slot(tmp_path: Path) -> None:
    suite = read_suite_yaml(write(tmp_path, HEAD + ONE_TEST)).with_slots(
        {"drug": ["Prozac", "Xanax"], "effect": "hives"}
    )
    assert sorted(suite.cases(range(suite.size())).texts) == sorted(
        f"I {verb} {drug} without hives." for verb in ("took", "tried") for drug in ("Prozac", "Xanax")
    )
    with pytest.raises(ConfigError, match="has no slot 'dose'; its slots are: drug, effect"):
        suite.with_slots({"dose": ["1"]})
    with pytest.raises(ConfigError, match="no values are given"):
        suite.with_slots({"drug": []})
    with pytest.raises(ConfigError, match="'a' is given twice"):
        suite.with_slots({"drug": ["a", "a"]})


def test_other_sizes(tmp_path: Path) -> None:
    suite = read_suite_yaml(write(tmp_path, HEAD + ONE_TEST))
    assert suite.size(full=False) == 6
    assert suite.with_sizes({"drug": 1, "effect": 1}).size(full=False) == 1
    with pytest.raises(ConfigError, match="has no slot 'dose'"):
        suite.with_sizes({"dose": 1})


@pytest.mark.parametrize("slot", ["drug", "other"])
def test_a_size_in_the_suite_counts_for_tied_slots(tmp_path: Path, slot: str) -> None:
    tied = f"slots: {{other: drug}}\nrelations:\n  - {{different: [drug, other]}}\nsizes: {{{slot}: 2}}\n"
    test = ONE_TEST.replace("{drug} without {effect}", "{drug} and {other}")
    suite = read_suite_yaml(write(tmp_path, HEAD + tied + test))
    assert suite.size(full=False) == 2
    assert suite.size() == 2 * 3 * 2


def test_chain_of_relations() -> None:
    """Three slots in a row of sizes; relations reach across the middle one."""
    entries = tuple(make_entry(str(n), {"size": float(n)}) for n in range(1, 6))
    lexicons = {name: Lexicon("n", entries) for name in ("a", "b", "c")}
    template = Template("t", parse("{a} {b} {c}."), label=True)
    suite = Suite(
        "chain",
        (Capability("c", "c", (Test("t", "t", "MFT", (template,)),)),),
        lexicons,
        (SlotRelation("more", "a", "b", by="size"), SlotRelation("more", "b", "c", by="size")),
    )
    expected = {f"{a} {b} {c}." for a, b, c in itertools.product(range(1, 6), repeat=3) if a > b > c}
    texts = suite.cases(range(suite.size())).texts
    assert len(texts) == len(expected) == 10
    assert set(texts) == expected


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(
        st.lists(st.text("abc é", min_size=1, max_size=4), min_size=1, max_size=4, unique=True), min_size=1, max_size=3
    ),
    options=st.lists(st.lists(st.text("xyz ", max_size=3), min_size=2, max_size=3, unique=True), max_size=2),
    seed=st.integers(0, 10),
)
def test_any_suite_counts_as_its_slow_expansion(values: list[list[str]], options: list[list[str]], seed: int) -> None:
    slots = [f"s{at}" for at in range(len(values))]
    entries = [tuple(make_entry(value) for value in row) for row in values]
    lexicons = {slot: Lexicon(slot, row) for slot, row in zip(slots, entries, strict=True)}
    text = "-".join(f"{{{slot}}}" for slot in slots) + "".join(f"<[{'|'.join(choice)}]>" for choice in options)
    template = Template("t", parse(text), label=False)
    suite = Suite("any", (Capability("c", "c", (Test("t", "t", "MFT", (template,)),)),), lexicons)
    expected = [
        "-".join(fill) + "".join(f"<{choice}>" for choice in chosen)
        for chosen in itertools.product(*options)
        for fill in itertools.product(*values)
    ]
    assert suite.cases(range(suite.size())).texts == expected
    drawn = suite.draw(len(expected), np.random.default_rng(seed))
    assert sorted(drawn.tolist()) == list(range(len(expected)))


@pytest.mark.parametrize(
    ("slot", "capability", "slots"),
    [
        ("longer", "temporal_order", ("longer", "shorter")),
        ("shorter", "temporal_order", ("longer", "shorter")),
        ("other_drug", "social_media_noise", ("drug", "other_drug")),
    ],
)
def test_the_size_of_a_slot_that_is_drawn_with_another_is_that_of_the_pairs(
    slot: str, capability: str, slots: tuple[str, str]
) -> None:
    ade = load_suite("ade")
    for n in (2, 9):
        cases = (
            ade.with_sizes({slot: 4})
            .with_sizes({slot: n})
            .default_cases(np.random.default_rng(0), capabilities=[capability])
        )
        pairs = {pair for pair in zip(*(cases.values(name) for name in slots), strict=True) if None not in pair}
        assert len(pairs) == n


def test_two_sizes_for_slots_that_are_drawn_together_are_refused() -> None:
    with pytest.raises(ConfigError, match="'longer' and 'shorter' are drawn together but have two sizes"):
        load_suite("ade").with_sizes({"longer": 3, "shorter": 4})
