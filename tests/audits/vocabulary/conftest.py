"""One audit of both models, which several files of tests look at."""

from __future__ import annotations

import pytest

from palpate.results import AuditResult
from tests.audits.vocabulary.audited_words import MODELS, WORDS, rated, run
from tests.audits.vocabulary.vocabulary_cases import Case, build, hospital, random_notes


@pytest.fixture(scope="package")
def audited() -> Case:
    return build(hospital(random_notes(100, WORDS, chance=0.4)), (*WORDS, "absent"))


@pytest.fixture(scope="package")
def result(audited: Case) -> AuditResult:
    return run(audited, MODELS, rated())
