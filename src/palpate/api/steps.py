"""Each step by itself: alter a note, draw cases of a suite, load a model, compare two runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from markupsafe import escape
from numpy.typing import NDArray

from palpate.api.result import Result
from palpate.api.shown import ShownTable
from palpate.cases.edits import Edit, Inputs, splice
from palpate.commands.audit import Outcome
from palpate.errors import ConfigError
from palpate.models import Model, ModelSpec, Probabilities
from palpate.models import load_model as load_spec
from palpate.perturb.suites.cases import SuiteCases
from palpate.perturb.suites.suite import Suite
from palpate.results import Asked, Attributions, AuditResult
from palpate.run.directory import RunDirectory
from palpate.run.gate import Judgement, difference_interval

_KEYS = ["audit", "model", "metric", "label", "group"]


class ShownNote:
    """A note with a characteristic of its patient changed: `text`, `edits`, `action` and, if skipped, the `reason`."""

    def __init__(self, note: str, edits: Sequence[Edit], action: str, reason: str | None) -> None:
        self.note, self.edits, self.action, self.reason = note, tuple(edits), action, reason
        self.text = splice(note, edits)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        """What was done, and no text of the note."""
        why = f": {self.reason}" if self.reason else ""
        return f"<note {self.action}{why}; {len(self.edits)} edits>"

    def _repr_html_(self) -> str:
        parts: list[str] = []
        position = 0
        for start, end, text in self.edits:
            parts.append(str(escape(self.note[position:start])))
            if end > start:
                parts.append(f'<del style="background:#fdecee;color:#a11521">{escape(self.note[start:end])}</del>')
            if text:
                parts.append(f'<ins style="background:#e6f5ee;color:#0a6040">{escape(text)}</ins>')
            position = end
        parts.append(str(escape(self.note[position:])))
        why = f": {escape(self.reason)}" if self.reason else ""
        return f'<p><b>{self.action}</b>{why}</p><pre style="white-space:pre-wrap">{"".join(parts)}</pre>'


def alter(
    text: str,
    *,
    contradictory: Literal["skip", "alter"] = "skip",
    sure: Literal["strict", "normal"] = "strict",
    **groups: str | int,
) -> ShownNote:
    """Change characteristics of the patient in a note, and nothing else.

    A note of which a second reader is not sure is skipped; `sure="normal"` alters it all the same.

    >>> alter("A 60 year old man with his wife.", gender="female").text
    'A 60 year old woman with her husband.'
    """
    from palpate.perturb.characteristics import Alterer

    if not groups:
        raise ConfigError("nothing to change", hint='name a characteristic, as gender="female" or age=40')
    wanted = {name: str(group) for name, group in groups.items()}
    alterer = Alterer(list(wanted), contradictory=contradictory, sure=sure)
    for name, group in wanted.items():
        alterer.check(name, group)
    outcome = alterer.edits(alterer.plan(text), wanted)
    return ShownNote(text, outcome.edits, outcome.action, outcome.reason)


class ShownCases(ShownTable):
    """Cases of a suite as a table; `cases` are the cases themselves."""

    def __init__(self, cases: SuiteCases) -> None:
        self.cases = cases
        rows = [
            {"text": case.text, "label": case.label, "capability": case.capability, "test": case.test}
            | {"template": case.template, "changed": case.changed}
            for case in cases
        ]
        super().__init__(pl.DataFrame(rows, infer_schema_length=None))


class ShownSuite:
    """A suite of template tests: `cases(n)` draws some of its cases."""

    def __init__(self, suite: Suite) -> None:
        self.suite = suite

    def cases(self, n: int = 100, *, seed: int = 0, capabilities: Sequence[str] | None = None) -> ShownCases:
        """`n` distinct cases, every base template equally often."""
        rng = np.random.default_rng(seed)
        return ShownCases(self.suite.sample(n, rng, capabilities=capabilities, balance="template"))

    def __repr__(self) -> str:
        names = ", ".join(capability.title for capability in self.suite.capabilities)
        return f"suite {self.suite.name}: {names}"

    def _repr_html_(self) -> str:
        return f"<p><b>{escape(self.suite.name)}</b></p>{self.cases(10)._repr_html_()}"


def suite(name: str | Path) -> ShownSuite:
    """A suite that comes with palpate (`ade`, `notes`, ...), or one in a YAML file.

    >>> len(suite("ade").cases(n=100))
    100
    """
    from palpate.perturb.suites import load_suite, read_suite_yaml

    path = Path(name)
    return ShownSuite(read_suite_yaml(path) if path.suffix in (".yaml", ".yml") else load_suite(str(name)))


class LoadedModel(Model):
    """A model that takes a list of texts as well as `Inputs`."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.labels, self.fingerprint, self.threshold = model.labels, model.fingerprint, model.threshold
        self.explains, self.window, self.classes = model.explains, model.window, model.classes

    def predict(self, inputs: Inputs | Sequence[str]) -> Probabilities:
        """Probabilities, one row per text and one column per label."""
        return self.model.predict(_inputs(inputs))

    def explain(self, inputs: Inputs | Sequence[str], asked: Asked, way: str) -> Attributions:
        """What speaks for the asked labels in the asked rows."""
        return self.model.explain(_inputs(inputs), asked, way)

    def visible_ends(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """How many characters of each text the model reads."""
        return self.model.visible_ends(texts)

    def words(self) -> Sequence[str] | None:
        """The model's vocabulary."""
        return self.model.words()

    def close(self) -> None:
        """Release threads and connections."""
        self.model.close()


def _inputs(given: Inputs | Sequence[str]) -> Inputs:
    return given if isinstance(given, Inputs) else Inputs.from_texts([given] if isinstance(given, str) else list(given))


def load_model(source: str | ModelSpec, **options: Any) -> LoadedModel:
    """A model by its `scheme:target`, as in a configuration: `load_model("hf:models/bert").predict(texts)`.

    >>> import sys, types
    >>> sys.modules["coin"] = types.ModuleType("coin")
    >>> sys.modules["coin"].toss = lambda texts: [0.5 for _ in texts]
    >>> load_model("python:coin:toss").predict(["a note", "another"]).ravel().tolist()
    [0.5, 0.5]
    """
    spec = source if isinstance(source, ModelSpec) else ModelSpec(source, source, options=options)
    return LoadedModel(load_spec(spec))


def compare(before: Result | Path | str, after: Result | Path | str) -> ShownTable:
    """Two runs side by side: every number that both have, what it changed by and, where resamples were kept, between
    which limits (95%). Runs of the same cohort and seed are compared as paired.

    >>> import palpate, polars as pl
    >>> frame = pl.DataFrame({"sick": [0, 1] * 40, "risk": [0.2, 0.8, 0.6, 0.4] * 20})
    >>> before = palpate.audit(frame, labels="sick", models={"m": "risk"}, progress=False)
    >>> after = palpate.audit(frame, labels="sick", models={"m": 1 - frame["risk"]}, progress=False)
    >>> compare(before, after).to_polars().filter(metric="auroc")["change"].to_list()
    [-0.5]
    """
    first, second = (_read(each) for each in (before, after))
    levels = [
        pl.concat([each.estimates for each in run]).filter(pl.col("reference").is_null()) for run in (first, second)
    ]
    shown = [*_KEYS, "value", "low", "high"]
    both = levels[0].select(shown).join(levels[1].select(shown), on=_KEYS, suffix="_after", nulls_equal=True)
    if both.is_empty():
        raise ConfigError("the two runs have no number in common", hint="they need the same audits and names of models")
    both = both.with_columns((pl.col("value_after") - pl.col("value")).alias("change"))
    ends = _limits(first, second)
    limits = [ends.get(tuple(row), (None, None)) for row in both.select(_KEYS[1:]).iter_rows()]
    return ShownTable(
        both.with_columns(
            pl.Series("change_low", [low for low, _ in limits], dtype=pl.Float64),
            pl.Series("change_high", [high for _, high in limits], dtype=pl.Float64),
        )
    )


def read_run(path: Path | str) -> Result:
    """A finished run, from its directory: what `palpate.audit` returned when it was made.

    >>> import palpate, polars as pl
    >>> frame = pl.DataFrame({"sick": [0, 1] * 40, "risk": [0.2, 0.8, 0.6, 0.4] * 20})
    >>> result = palpate.audit(frame, labels="sick", models={"m": "risk"}, progress=False)
    >>> list(read_run(result.directory.path))
    ['data', 'performance']
    """
    directory = RunDirectory(Path(path))
    directory.read_manifest()
    judged = [Judgement(**row) for row in directory.read_gate() or ()]
    report = directory.path / "report.html"
    return Result(Outcome(directory, directory.read_results(), judged, report))


def _read(run: Result | Path | str) -> list[AuditResult]:
    return run.results if isinstance(run, Result) else RunDirectory(Path(run)).read_results()


def _limits(first: Sequence[AuditResult], second: Sequence[AuditResult]) -> dict[tuple[Any, ...], tuple[float, float]]:
    """Of each number whose resamples both runs kept: the interval of its change."""
    kept = [{each.audit: each.replicates for each in run if each.replicates is not None} for run in (first, second)]
    found = {}
    for audit in kept[0].keys() & kept[1].keys():
        joined = kept[0][audit].join(kept[1][audit], on=_KEYS[1:], suffix="_after")
        for row in joined.iter_rows(named=True):
            ends = difference_interval(row["values_after"], row["values"])
            if ends is not None:
                found[tuple(row[key] for key in _KEYS[1:])] = ends
    return found
