"""No object shows text of a note when it is printed: every class that can hold some, and those that a user holds."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import palpate
from palpate.cases.cohort import Cohort, arrange
from palpate.cases.edits import Edit, Inputs, VariantsBuilder
from palpate.perturb.characteristics import Alterer
from palpate.perturb.words import tokens
from palpate.results import Plan
from palpate.run.runner import Job

SECRET = "MARKERXYZ"
HOLD_TEXT = {"text", "texts", "note", "notes", "made", "sentence", "parents", "replacements", "passage", "prior"}
HOLD_TEXT |= {"cases", "tables", "changed", "example", "quote", "snippet", "_texts", "_made", "prompt"}
NOT_OF_NOTES = {
    "commands.suggestions.Suggestion": "a sentence of a suite",
    "data.annotations.mdace_predictions.PublishedPredictions": "which notes were read, one word",
    "data.hospitals.records.Records": "reasons for dropping a note",
    "data.tables.TableSpec": "names of columns",
    "models.memory.CaseFrame": "names of columns",
    "models.adapters.python.PythonOptions": "names of files",
    "models.tables.TableFile": "names of columns",
    "data.cohorts.mdace.MdaceOptions": "which notes to take, one word",
    "models.adapters.chat.options.ChatOptions": "the template of the question, without a note",
    "audits.vocabulary.Vocabulary": "words that the user lists",
    "audits.vocabulary.substitutes.SubstituteOptions": "words that the user lists",
    "audits.evidence.Evidence": "a table of positions",
    "audits.evidence.inputs.EvidenceInputs": "positions",
    "perturb.suites.cases.Case": "a text that a suite made",
    "perturb.suites.cases.SuiteCases": "texts that a suite made",
    "perturb.suites.wellformed.Flaw": "a text that a suite made",
    "report.blocks.CellView": "a cell of a table",
    "report.blocks.FigureView": "footnotes",
    "report.blocks.Footnotes": "footnotes",
    "report.chartdata.ChartData": "footnotes",
    "report.cards.": "a sentence of a card",
    "report.charts.Drawing": "footnotes",
    "report.charts.Key": "a word of a legend",
    "report.findings.FindingView": "a finding",
    "report.headline.LevelView": "a number in words",
    "report.headline.DifferenceView": "a number in words",
    "report.history.HistoryLine": "what changed between two runs",
    "report.inline._Key": "a word of a legend",
    "report.inline._ChartView": "footnotes",
    "results.blocks.Finding": "a finding",
    "results.blocks.AuditResult": "tables of results",
    "run.conditions.": "a condition of the gate",
    "run.extrapolation.RunPreview": "remarks for the user",
    "train.coding.batches.EvidencePairs": "numbers",
    "synthetic.": "made-up patients",
    "testing.": "made-up cases",
}


def classes() -> Iterator[tuple[str, type]]:
    for found in pkgutil.walk_packages(palpate.__path__, "palpate."):
        if found.name.endswith("__main__"):
            continue
        module = importlib.import_module(found.name)
        for name, kind in vars(module).items():
            if isinstance(kind, type) and kind.__module__ == found.name:
                yield f"{found.name.removeprefix('palpate.')}.{name}", kind


def fields(kind: Any) -> list[str]:
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    return list(getattr(kind, "_fields", ()) or getattr(kind, "model_fields", ()))


def may_hold_text(kind: Any) -> set[str]:
    """The fields by their names and types."""
    annotated = {name: str(of) for base in kind.__mro__ for name, of in getattr(base, "__annotations__", {}).items()}
    return {
        name
        for name in HOLD_TEXT & set(fields(kind))
        if any(part in annotated.get(name, "str") for part in ("str", "DataFrame", "Any"))
    }


def filled(kind: Any, names: list[str]) -> Any:
    """An object of the class with the secret in every field that may hold text."""
    secret = may_hold_text(kind)
    values = {name: ((SECRET,),) if name in secret else None for name in names}
    if issubclass(kind, tuple):
        return kind._make([values[name] for name in names])
    if hasattr(kind, "model_construct"):
        return kind.model_construct(**values)
    made = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def test_every_class_that_can_hold_text_hides_it() -> None:
    shown = []
    for name, kind in classes():
        names = fields(kind)
        if not may_hold_text(kind):
            continue
        try:
            said = f"{filled(kind, names)!r} {filled(kind, names)!s}"
        except (AttributeError, TypeError):  # it shows something that it computes from its fields
            continue
        if SECRET in said:
            shown += [] if any(name.startswith(known) for known in NOT_OF_NOTES) else [name]
    assert shown == [], "use palpate.privacy.hides"


def objects(text: str) -> list[Any]:
    frame = pl.DataFrame({"case_id": ["a", "b"], "text": [text, text], "prior": [text, text], "sick": [0, 1]})
    cohort = Cohort.from_frame(frame, labels=["sick"])
    builder = VariantsBuilder(2)
    builder.add(0, "original")
    builder.add(1, "swapped", [Edit(0, 1, text)])
    builder.make(text, "made")
    variants = builder.build()
    alterer = Alterer(["gender"])
    plan = alterer.plan(text)
    arranged = arrange(frame, name="c", roles={"case_id": "case_id", "text": "text"}, attributes={})
    inputs = Inputs.from_texts([text, text])
    job = Job(cohort, (), {})
    return [
        *(cohort, cohort._repr_html_(), variants, builder, inputs, inputs.take(np.array([0])), plan, arranged, job),
        *(Plan(cohort, variants, ("sick",)), Edit(0, 1, text), alterer.edits(plan, {"gender": "female"})),
        *(list(tokens(text)),),
    ]


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["{} is a 60 year old man.", "He has {}.", "{}\n\nMr. {} {}", "{} {}"]),
    st.sampled_from([SECRET, SECRET.lower(), f"{SECRET}'s", f"x{SECRET}y"]),
)
def test_objects_that_people_hold(form: str, secret: str) -> None:
    for each in objects(form.replace("{}", secret)):
        said = f"{each!r} {each!s}".lower()
        assert secret.lower() not in said, type(each)


def test_an_error_shows_no_note() -> None:
    with pytest.raises(palpate.errors.CohortError) as caught:
        Cohort.from_frame(pl.DataFrame({"case_id": ["a"], "text": [None], "sick": [SECRET]}), labels=["sick"])
    assert "row 1" in str(caught.value)
