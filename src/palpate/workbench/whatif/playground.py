"""The template playground: one template of a suite, filled in and answered by all models."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from palpate.errors import ConfigError, InputError
from palpate.files import parse_yaml
from palpate.perturb.suites import SuiteLabels, check_templates, list_suites, load_suite
from palpate.perturb.suites.lexicons import Lexicon, read_lexicon
from palpate.perturb.suites.readers import TestReader
from palpate.perturb.suites.suite import Suite
from palpate.privacy import hides
from palpate.workbench.pages import BenchProblem

MOST_CASES = 60
LONGEST_TEMPLATE = 2_000
_HERE = Path("template")


@hides("texts")
class FilledTexts(NamedTuple):
    """Texts of a template, and how many it has in all."""

    texts: list[str]
    n_all: int


def fill_template(template: str, base: str, own: str, n: int = MOST_CASES) -> FilledTexts:
    """The texts of a template: `[has|denies]` in all its variations, `{slot}` filled from a suite's words or one's own.

    `own` has one slot per line: `drug: Zoloft, Prozac`.
    """
    text = " ".join(template.split())
    if not text:
        raise BenchProblem("empty_template")
    suite = _suite(text, base, own)
    n_all = suite.size(full=True)
    rng = np.random.default_rng(0)
    cases = suite.sample(min(n, n_all), rng)
    texts = sorted(dict.fromkeys(case.text for case in cases))
    return FilledTexts(texts, n_all if n_all > n else len(texts))


def slots_of(base: str) -> dict[str, Sequence[str]]:
    """The slots of a suite, with some of their values."""
    return {name: lexicon.values[:6] for name, lexicon in load_suite(base).lexicons.items()}


def _suite(text: str, base: str, own: str) -> Suite:
    """A suite of this one template."""
    if base not in list_suites():
        raise BenchProblem("no_suite")
    known = load_suite(base)
    lexicons: dict[str, Lexicon] = {**known.lexicons, **_own_words(own)}
    test = {"id": "tried", "type": "MFT", "label": "yes", "variations": "all", "templates": [_template(text)]}
    node = parse_yaml(json.dumps({"id": "playground", "tests": [test]}), _HERE, needs="a template")
    try:
        reader = TestReader(SuiteLabels("yes", "no"), lexicons, "all")
        capability = reader.capability(node)
        suite = replace(
            known, name="playground", capabilities=(capability,), lexicons=lexicons, labels=SuiteLabels("yes", "no"),
            relations=(), sizes={}, classes=(), choose=(), file=None,
        )  # fmt: skip
        check_templates(suite)
    except ConfigError as error:
        said = InputError(error.problem.removeprefix("line 1: "), hint=error.hint)
        raise BenchProblem("template", said=str(said)) from None
    return suite


def _template(text: str) -> dict[str, str]:
    return {"id": "tried-01", "text": text}


def _own_words(own: str) -> dict[str, Lexicon]:
    found = {}
    for line in own.splitlines():
        if not line.strip():
            continue
        name, colon, values = (part.strip() for part in line.partition(":"))
        listed = [value.strip() for value in values.split(",") if value.strip()]
        if not colon or not name.isidentifier() or not listed:
            raise BenchProblem("slot_line")
        node = parse_yaml(json.dumps({"values": listed}), _HERE, needs="words").mapping("words")["values"]
        found[name] = read_lexicon(node, name, Path())
    return found
