"""Tests whose own function says whether a case passes (CheckList's expectation functions)."""

from __future__ import annotations

import numpy as np

from palpate.audits.capabilities.plan import LabelledTest, PlannedSuite, sentence_of
from palpate.errors import ConfigError
from palpate.perturb.suites import ExpectedCase, Suite
from palpate.results import Plan
from palpate.stats.clustered_rates import Floats


def check_functions(suite: Suite) -> None:
    """Load every function of a suite, so that a missing one is told before anything is scored."""
    for capability in suite.capabilities:
        for test in capability.tests:
            if test.expect is not None:
                test.expect.resolve()


def expectation_passes(plan: Plan[PlannedSuite], p: Floats) -> dict[LabelledTest, Floats]:
    """For each test with a function, [model, case of the test] whether it passes; `p` is [model, variant, label]."""
    examined = plan.memory.examined
    out = {}
    for test in examined.tests:
        if test.test.expect is None:
            continue
        function = test.test.expect.resolve()
        passed = np.zeros((len(p), len(test.cases)))
        for k, case in enumerate(test.cases.tolist()):
            first, second = int(examined.first[case]), int(examined.second[case])
            text, changed = sentence_of(plan, first), sentence_of(plan, second) if second >= 0 else ""
            slots = {slot: use.values[use.code[case]] for slot, use in examined.slots.items() if use.code[case] >= 0}
            template = examined.templates[int(examined.template[case])]
            for m, probabilities in enumerate(p):
                before = dict(zip(plan.labels, probabilities[first].tolist(), strict=True))
                after = dict(zip(plan.labels, probabilities[second].tolist(), strict=True)) if second >= 0 else None
                asked = ExpectedCase(text, before, changed, after, slots, template)
                passed[m, k] = _ask(test, asked, function)
        out[test] = passed
    return out


def _ask(test: LabelledTest, asked: ExpectedCase, function: object) -> bool:
    name = test.test.expect.name if test.test.expect is not None else ""
    where = f"expectation '{name}' of test '{test.test.id}', template '{asked.template}'"
    if not callable(function):
        raise ConfigError(f"{where}: it is no function")
    try:
        answer = function(asked)
    except Exception as error:
        raise ConfigError(f"{where}: {type(error).__name__}: {error}", hint="mend the function") from error
    if not isinstance(answer, bool | np.bool_):
        raise ConfigError(f"{where}: it gives {type(answer).__name__}", hint="give True or False")
    return bool(answer)
