"""Template suites: what a model should be able to do, as sentences with slots (ADE template paper, section 3).

`load_suite("ade")` reads a suite, `suite.default_cases(rng)` is its default run, `suite.sample(n, rng)` draws from all
variations with all fill-ins without expanding them.
"""

from palpate.perturb.suites.cases import Case, Filled, SuiteCases
from palpate.perturb.suites.loader import list_suites, load_suite, read_suite_yaml
from palpate.perturb.suites.schema import Capability, Change, SlotRelation, SuiteLabels, Template, Test
from palpate.perturb.suites.suite import Dropped, Suite
from palpate.perturb.suites.wellformed import Flaw, find_flaws

__all__ = [
    "Capability",
    "Case",
    "Change",
    "Dropped",
    "Filled",
    "Flaw",
    "SlotRelation",
    "Suite",
    "SuiteCases",
    "SuiteLabels",
    "Template",
    "Test",
    "find_flaws",
    "list_suites",
    "load_suite",
    "read_suite_yaml",
]
