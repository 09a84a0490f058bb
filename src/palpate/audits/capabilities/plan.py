"""What the capabilities audit wants scored: a suite's sentences in columns, held-out cases and the validation split."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from palpate.audits.capabilities.embedding import Hosts, embed_sentences
from palpate.audits.kit.scope import training_rows
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints, Variants
from palpate.perturb.suites import RightAnswer, Suite, SuiteCases, Test
from palpate.perturb.words import find_words
from palpate.perturb.words.tokens import normalise_word
from palpate.results import Plan, VariantNames

PARTS = ("main", "further")
"""The parts of a suite, which are reported apart."""
_GROUPS = ("held out", "validation", "template", "changed")


@dataclass(frozen=True, eq=False)
class LabelledTest:
    """What a pass rate is about: one test with one label, or without a label where only the movement counts."""

    capability: str
    capability_title: str
    part: str
    test: Test
    label: str
    """The suite's word for the label, or empty."""
    positive: bool | None
    cases: Ints
    """Its cases, as indices into the columns of `ExaminedCases`."""
    wanted: RightAnswer | None = None
    """The right answer where the suite has more than two labels."""
    column: int = 0
    """The label whose probability is moved by a DIR test, and shown of a sentence that fails."""

    @property
    def decides(self) -> bool:
        """Whether it asks for the right label (MFT); pairs (INV, DIR) and functions only need probabilities."""
        return self.test.type == "MFT" and self.test.expect is None

    @property
    def paired(self) -> bool:
        """Whether its cases are pairs of sentences."""
        return self.test.type != "MFT"

    @property
    def group(self) -> str:
        """Its name in the estimates."""
        return f"{self.test_group}: {self.label}" if self.label else self.test_group

    @property
    def test_group(self) -> str:
        """The name of the test in the estimates, both labels together."""
        return f"{self.capability}/{self.test.id}"

    @property
    def title(self) -> str:
        """Its name for readers."""
        return f"{self.test_title}: {self.label}" if self.label else self.test_title

    @property
    def test_title(self) -> str:
        """The test's name for readers; an untitled test with its capability's name has the capability's title."""
        title, whole = self.test.title, self.capability_title
        if title in ("", self.test.id, self.test.id.replace("_", " ")):
            title = whole if self.test.id == self.capability else _spoken(self.test.id)
        return title if title.lower().startswith(whole.lower()) else f"{whole}: {title}"


class SlotValues(NamedTuple):
    """What fills one slot in this run."""

    values: tuple[str, ...]
    code: Ints
    """[case] the index of its value, -1 without the slot."""
    mentions: Ints
    """[value] how often it is in the training notes, in upper or lower case."""
    exact: Ints
    """[value] how many of these mentions are written exactly so."""


@dataclass(frozen=True, eq=False)
class ExaminedCases:
    """The cases of a run, in columns; `first` and `second` are rows of the plan's variants."""

    suite: str
    positive: str
    negative: str
    classes: tuple[str, ...]
    """The labels of a suite with more than two."""
    fingerprint: str
    n_cases: int
    tests: tuple[LabelledTest, ...]
    templates: tuple[str, ...]
    template: Ints
    change: Ints
    """[case] an index into `changes`."""
    changes: tuple[str, ...]
    first: Ints
    second: Ints
    """-1 where a case is not a pair."""
    slots: Mapping[str, SlotValues]
    n_training: int | None
    """How many training notes mentions are counted in; None without a training split."""
    dropped: tuple[str, ...]
    n_hosts: int = 0
    """In how many notes the sentences stand; 0 if they stand alone."""
    host: Ints | None = None
    """[case] the patient of the note that it stands in, from 0; None if it stands alone."""

    @property
    def units(self) -> str:
        """What intervals of sentences are by."""
        return "base template" if self.host is None else "base template and by the patient of the note"

    def tests_of(self, part: str, *, decides: bool | None = None) -> list[LabelledTest]:
        """The tests and labels of a part; `decides`: only MFT, or only pairs of sentences (INV and DIR)."""
        return [test for test in self.tests if test.part == part and decides in (None, test.decides)]

    def both_labels(self, part: str) -> list[tuple[LabelledTest, LabelledTest]]:
        """The tests of a part that have both labels: (positive, negative)."""
        found: dict[str, list[LabelledTest]] = {}
        for test in self.tests_of(part, decides=True):
            found.setdefault(test.test_group, []).append(test)
        two = (tests for tests in found.values() if {test.positive for test in tests} == {True, False})
        pairs = (sorted(tests, key=lambda test: not test.positive) for tests in two)
        return [(positive, negative) for positive, negative in pairs]

    def capabilities(self, part: str) -> dict[str, list[LabelledTest]]:
        """The capabilities of a part with their tests."""
        found: dict[str, list[LabelledTest]] = {}
        for test in self.tests_of(part):
            found.setdefault(test.capability, []).append(test)
        return found


class PlannedSuite(NamedTuple):
    """What the plan remembers: the cases, and which rows of its variants are the cohort's."""

    examined: ExaminedCases
    held_out: slice
    validation: slice

    def variant_names(self) -> dict[str, VariantNames]:
        """The test, template and label of each sentence, and what was changed in the second sentences of pairs."""
        examined, test = self.examined, np.full(self.examined.n_cases, -1, dtype=np.int64)
        for k, each in enumerate(examined.tests):
            test[each.cases] = k
        pairs = np.flatnonzero(examined.second >= 0)
        row = np.concatenate([examined.first, examined.second[pairs]])
        case = np.concatenate([np.arange(examined.n_cases), pairs])
        labels = [each.label for each in examined.tests]
        said = np.asarray([*(k if label else -1 for k, label in enumerate(labels)), -1], dtype=np.int64)
        return {
            "test": VariantNames(row, test[case], [each.test_group for each in examined.tests]),
            "template": VariantNames(row, examined.template[case], examined.templates),
            "label": VariantNames(row, said[test[case]], labels),
            "change": VariantNames(examined.second[pairs], examined.change[pairs], examined.changes),
        }


def plan_suite(
    cohort: Cohort,
    labels: tuple[str, ...],
    held_out: Ints,
    validation: Ints,
    suite: Suite,
    cases: SuiteCases,
    chosen: Sequence[str],
    hosts: Hosts | None = None,
) -> Plan[PlannedSuite]:
    """Held-out cases, validation cases, the sentences, and the second sentences of pairs; alone or in `hosts`."""
    first_row = len(held_out) + len(validation)
    training = training_rows(cohort)
    notes = [cohort.texts[row] for row in training.tolist()] if len(training) and cohort.has_text else None
    made = (*cases.texts, *(text for text in cases.changed if text))
    sizes = [len(held_out), len(validation), len(cases), len(made) - len(cases)]
    group = np.repeat(np.arange(len(sizes)), sizes).astype(np.int64)
    examined = examine_cases(suite, cases, first_row=first_row, training=notes, capabilities=chosen)
    unedited = np.concatenate([held_out, validation]).astype(np.int64)
    notices: tuple[str, ...] = ()
    if hosts is None:
        parent = np.concatenate([unedited, len(cohort) + np.arange(len(made))]).astype(np.int64)
        variants = replace(Variants.of_cases(parent), made=made)
    else:
        variants = _in_notes(cohort, unedited, hosts, cases)
        patient = cohort.patients[variants.parent[examined.first]]
        host = np.unique(patient, return_inverse=True)[1].astype(np.int64)
        examined = replace(examined, n_hosts=len(hosts.rows), host=host)
        notices = tuple(filter(None, [hosts.notice()]))
    variants = replace(variants, group=group, group_names=_GROUPS)
    memory = PlannedSuite(examined, slice(0, len(held_out)), slice(len(held_out), first_row))
    return Plan(cohort, variants, labels, cases=held_out, memory=memory, notices=notices)


def _in_notes(cohort: Cohort, unedited: Ints, hosts: Hosts, cases: SuiteCases) -> Variants:
    """The cohort's own cases, then the sentences as insertions into notes."""
    parent, edits = embed_sentences(cohort, hosts, cases)
    texts = {text: k for k, text in enumerate(dict.fromkeys(edit.text for edit in edits))}
    at = np.array([edit.start for edit in edits], dtype=np.int64)
    rows = np.concatenate([unedited, parent]).astype(np.int64)
    return replace(
        Variants.of_cases(rows),
        first_edit=np.concatenate([np.zeros(len(unedited), np.int64), np.arange(len(edits) + 1)]).astype(np.int64),
        start=at,
        end=at,
        replacement=np.array([texts[edit.text] for edit in edits], dtype=np.int64),
        replacements=tuple(texts),
    )


def sentence_of(plan: Plan[PlannedSuite], row: int) -> str:
    """The sentence that a row of the variants asks about, without the note that it may stand in."""
    parent = int(plan.variants.parent[row])
    if parent >= len(plan.cohort):
        return plan.variants.made[parent - len(plan.cohort)]
    return plan.variants.edits(row)[0].text.strip()


def examine_cases(
    suite: Suite, cases: SuiteCases, *, first_row: int, training: Sequence[str] | None, capabilities: Sequence[str]
) -> ExaminedCases:
    """The columns of some cases; their texts are the variants from `first_row` on, then the second texts of pairs."""
    names, template = np.unique(np.array(cases.names("template"), dtype=object), return_inverse=True)
    changes, change = np.unique(np.array(cases.names("change"), dtype=object), return_inverse=True)
    pairs = np.array([bool(text) for text in cases.changed], dtype=bool)
    second = np.full(len(cases), -1, dtype=np.int64)
    second[pairs] = first_row + len(cases) + np.arange(int(pairs.sum()))
    capability_of = {unit.template.id: unit.capability.id for unit in suite.units}
    return ExaminedCases(
        suite=suite.name,
        positive=suite.labels.positive,
        negative=suite.labels.negative,
        classes=suite.classes,
        fingerprint=fingerprint(suite),
        n_cases=len(cases),
        tests=_labelled_tests(suite, cases),
        templates=tuple(map(str, names)),
        template=template.astype(np.int64),
        change=change.astype(np.int64),
        changes=tuple(map(str, changes)),
        first=first_row + np.arange(len(cases), dtype=np.int64),
        second=second,
        slots=_slots(cases, training),
        n_training=None if training is None else len(training),
        dropped=tuple(
            f"{name} ({f'{under}: ' if under else ''}{reason})"
            for name, under, reason in suite.dropped
            if not capabilities or capability_of[name] in capabilities
        ),
    )


def _labelled_tests(suite: Suite, cases: SuiteCases) -> tuple[LabelledTest, ...]:
    """The suite's tests by label, as far as they have cases."""
    keys = [
        (unit.capability.id, unit.test.id, unit.template.label, unit.template.wanted, unit.test.expect)
        for unit in suite.units
    ]
    units = dict(zip(reversed(keys), reversed(suite.units), strict=True))
    codes = {key: k for k, key in enumerate(dict.fromkeys(keys))}
    code = np.array([codes[key] for key in keys])[cases.unit]
    tests = []
    for key, k in codes.items():
        mine, unit = np.flatnonzero(code == k), units[key]
        capability, label, wanted = unit.capability, unit.template.label, unit.template.wanted
        title, name = capability.title or _spoken(capability.id), suite.label_of(unit.template)
        column = 0 if wanted is None else suite.classes.index(wanted.first)
        if len(mine):
            place = (capability.id, title, capability.part, unit.test, name, label, mine)
            tests.append(LabelledTest(*place, wanted=wanted, column=column))
    return tuple(tests)


def _spoken(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _slots(cases: SuiteCases, training: Sequence[str] | None) -> dict[str, SlotValues]:
    """The slots that the cases fill, in the suite's order, with how often each value is in the training notes."""
    found: dict[str, tuple[tuple[str, ...], Ints]] = {}
    for slot, index in cases.fill.items():
        used = np.unique(index[index >= 0])
        if not len(used):
            continue
        code = np.full(len(cases), -1, dtype=np.int64)
        code[index >= 0] = np.searchsorted(used, index[index >= 0])
        entries = cases.lexicons[slot].entries
        found[slot] = (tuple(entries[int(k)].value for k in used), code)
    mentions = _mentions({value for values, _ in found.values() for value in values}, training or ())
    return {
        slot: SlotValues(values, code, *(np.array([mentions[value][k] for value in values]) for k in (0, 1)))
        for slot, (values, code) in found.items()
    }


def _mentions(values: set[str], texts: Sequence[str]) -> dict[str, tuple[int, int]]:
    """How often each value is in the texts, in upper or lower case, and exactly as it is written."""
    spelled = {value: normalise_word(value) for value in values}
    words = sorted({word for word in spelled.values() if any(map(str.isalnum, word))})
    if not texts or not words:
        return dict.fromkeys(values, (0, 0))
    hits = find_words(texts, words, occurrences="all")
    n = np.bincount(hits.word, minlength=len(words))
    written: dict[str, int] = {}
    for text, start, end in zip(hits.text.tolist(), hits.start.tolist(), hits.end.tolist(), strict=True):
        form = texts[text][start:end]
        written[form] = written.get(form, 0) + 1
    place = {word: k for k, word in enumerate(words)}
    return {
        value: (int(n[place[word]]) if word in place else 0, written.get(value, 0)) for value, word in spelled.items()
    }


def fingerprint(suite: Suite) -> str:
    """Changes when a sentence, a label, a rule, a relation or a value of the suite does."""
    digest = hashlib.blake2b(digest_size=16)
    for unit in suite.units:
        rule = unit.test.type, unit.test.tolerance, unit.test.direction, unit.test.margin, unit.test.all_variations
        place = unit.capability.id, unit.capability.part, unit.test.id, unit.template.id, suite.label_of(unit.template)
        if unit.test.expect is not None:
            digest.update(unit.test.expect.fingerprint().encode())
        sizes = sorted(unit.test.sizes.items())
        digest.update(repr((place, rule, sizes, unit.change, unit.variations, unit.changed)).encode())
    for slot, lexicon in sorted(suite.lexicons.items()):
        entries = [(entry.value, entry.article, sorted(entry.attributes.items())) for entry in lexicon.entries]
        digest.update(repr((slot, entries)).encode())
    digest.update(repr((suite.labels, suite.relations, sorted(suite.sizes.items()))).encode())
    return digest.hexdigest()
