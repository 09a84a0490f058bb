"""The conditions of a gate: what can be asked, read from text and checked before anything is read or scored.

    performance.auroc.low >= 0.70
    performance.brier[model=xgb, group=external] < 0.10
    performance.auroc.value[reference=internal] > -0.05
    no significant drop against runs/2026-10
    no significant drop in brier against runs/2026-10
    no concern
    no concern in characteristics
    performance.calibration is acceptable

A word that cannot mean anything in this run is an error before the run: an audit or model that the run does not have, a
metric or question that the audit does not have, a label that the cohort does not have. An audit says what its results
are called with `metrics`, `questions` and `beside_models` (names other than models in the column `model`, in which
`{model}` stands for one); of an audit that says nothing, the gate knows only after the run.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from palpate.errors import ConfigError, closest
from palpate.files import at_home
from palpate.results import ALL_LABELS, MACRO, MICRO
from palpate.run.answering import ANSWER_METRICS
from palpate.run.directory import RunDirectory

OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
}
_FIELDS = ("value", "low", "high", "p_value", "n", "n_positive")
_FILTERS = ("model", "label", "group", "reference")
_SPREAD = "_sd"
"""What follows a metric's name for its standard deviation over the seeds of a model."""
_NEEDS_COHORTS, _NEEDS_MODELS = {("performance", "travel")}, {("performance", "comparison")}
_COMPARES_MODELS_AND_COHORTS = ("performance",)
_BOUND = re.compile(
    r"(?P<audit>\w+)\.(?P<metric>\w+?)(?:\.(?P<field>\w+))?\s*(?:\[(?P<filters>.*)\])?"
    r"\s*(?P<operator>>=|<=|==|>|<)\s*(?P<bound>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
)
_NO_CONCERN = re.compile(r"no concern(?: in (?P<audit>\w+))?")
_VERDICT = re.compile(r"(?P<audit>\w+)\.(?P<question>\w+)\s*(?:\[(?P<filters>.*)\])?\s+is\s+(?P<verdict>.+)")
_NO_DROP = re.compile(r"no significant drop(?: in (?P<metric>\w+))? against (?P<run>.+)")


@dataclass(frozen=True)
class Bound:
    """A number on one side of a bound."""

    text: str
    audit: str
    metric: str
    field: str
    filters: Mapping[str, str]
    operator: str
    bound: float


@dataclass(frozen=True)
class NoDrop:
    """Not significantly worse than an earlier run."""

    text: str
    metric: str
    run: Path


@dataclass(frozen=True)
class NoConcern:
    """No answer of the run, or of one audit, is a concern."""

    text: str
    audit: str | None


@dataclass(frozen=True)
class IsAcceptable:
    """The answer to one question is acceptable for every model, or for one."""

    text: str
    audit: str
    question: str
    model: str | None


Condition = Bound | NoDrop | NoConcern | IsAcceptable


@dataclass(frozen=True)
class RunNames:
    """The words that conditions may use, as far as they are known before a run; what is empty is not checked."""

    audits: Mapping[str, Any] = field(default_factory=dict)
    """The audits of the run, by name."""
    models: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The models of the run, and the members of those with several seeds."""
    cohorts: Sequence[str] = ()

    def check_audit(self, sentence: str, audit: str) -> None:
        """Refuse an audit that the run does not have."""
        if self.audits and audit not in self.audits:
            raise _error(sentence, f"this run has no audit '{audit}'", audit, self.audits, "its audits are")

    def check_metric(self, sentence: str, audit: str, metric: str) -> None:
        """Refuse a metric that the audit says it does not have."""
        known = getattr(self.audits.get(audit), "metrics", None)
        if known is None or metric in (*known, *ANSWER_METRICS) or metric.removesuffix(_SPREAD) in known:
            return
        if metric in (getattr(self.audits[audit], "questions", None) or ()):
            raise ConfigError(
                f"gate condition '{sentence}': '{metric}' is a question of {audit}, not a metric",
                hint=f"write '{audit}.{metric} is acceptable'",
            )
        raise _error(sentence, f"{audit} has no metric '{metric}'", metric, known, "its metrics are")

    def check_question(self, sentence: str, audit: str, question: str) -> None:
        """Refuse a question that the audit says it does not answer."""
        known = getattr(self.audits.get(audit), "questions", None)
        if known is not None and question not in known:
            raise _error(sentence, f"{audit} has no question '{question}'", question, known, "its questions are")
        for needed, there in ((_NEEDS_COHORTS, self.cohorts), (_NEEDS_MODELS, self.models)):
            if (audit, question) in needed and len(there) == 1:
                what = "cohort" if needed is _NEEDS_COHORTS else "model"
                problem = f"'{question}' of {audit} needs two {what}s, and this run has one"
                raise ConfigError(f"gate condition '{sentence}': {problem}", hint="leave it out of the gate")

    def check_reference(self, sentence: str, audit: str, reference: str) -> None:
        """Refuse what performance cannot have compared with: it compares models, and cohorts."""
        known = [*self.models, *(seed for seeds in self.models.values() for seed in seeds), *self.cohorts]
        if audit in _COMPARES_MODELS_AND_COHORTS and known and reference not in known:
            raise _error(sentence, f"unknown reference '{reference}'", reference, known, "models and cohorts are")

    def check_model(self, sentence: str, model: str, *, audit: str, members: bool) -> None:
        """Refuse a model that neither the run nor the audit's results have."""
        known = list(self.models)
        if members:
            known += [seed for seeds in self.models.values() for seed in seeds]
            beside = getattr(self.audits.get(audit), "beside_models", ())
            known += [name.format(model=each) for name in beside for each in self.models]
        known = list(dict.fromkeys(known))
        if known and model not in known:
            raise _error(sentence, f"unknown model '{model}'", model, known, "the models are")


def parse(text: str, *, folder: Path = Path(), names: RunNames | None = None) -> Condition:
    """Read a condition; a run is named relative to the configuration's folder.

    What can be known before a run is refused here: words that are not in `names`, an earlier run without results.
    """
    names = names or RunNames()
    sentence = " ".join(text.split())
    if match := _NO_DROP.fullmatch(sentence):
        names.check_audit(sentence, "performance")
        return _parse_no_drop(sentence, match["metric"] or "auroc", folder / at_home(match["run"]))
    if match := _NO_CONCERN.fullmatch(sentence):
        if match["audit"] is not None:
            names.check_audit(sentence, match["audit"])
        return NoConcern(sentence, match["audit"])
    if match := _VERDICT.fullmatch(sentence):
        return _parse_acceptable(sentence, match, names)
    if match := _BOUND.fullmatch(sentence):
        return _parse_bound(sentence, match, names)
    raise ConfigError(
        f"gate condition '{sentence}' cannot be read",
        hint="write it like 'performance.auroc.low >= 0.70', 'no concern', 'performance.calibration is acceptable' or "
        "'no significant drop against RUN'",
    )


def check_labels(condition: Condition, labels: Collection[str], audits: Mapping[str, Any]) -> None:
    """Refuse a label that the cohort does not have, once its columns are known.

    Only for audits that declare their metrics: the rows of others may be about anything.
    """
    if not isinstance(condition, Bound) or not hasattr(audits.get(condition.audit), "metrics"):
        return
    label = condition.filters.get("label", "*")
    averages = (MACRO, MICRO, ALL_LABELS)
    if label != "*" and label not in (*labels, *averages):
        raise _error(condition.text, f"the cohort has no label '{label}'", label, labels, "its labels are")


def _parse_acceptable(sentence: str, match: re.Match[str], names: RunNames) -> IsAcceptable:
    if match["verdict"] != "acceptable":
        raise ConfigError(
            f"gate condition '{sentence}': a gate cannot ask for '{match['verdict']}'",
            hint="write 'is acceptable', or 'no concern' for the whole run",
        )
    names.check_audit(sentence, match["audit"])
    names.check_question(sentence, match["audit"], match["question"])
    model = _filters(sentence, match["filters"], ("model",)).get("model")
    if model is not None:
        names.check_model(sentence, model, audit=match["audit"], members=False)
    return IsAcceptable(sentence, match["audit"], match["question"], model)


def _parse_bound(sentence: str, match: re.Match[str], names: RunNames) -> Bound:
    field = match["field"] or "value"
    if field not in _FIELDS:
        raise _error(sentence, f"unknown field '{field}'", field, _FIELDS, "the fields are")
    names.check_audit(sentence, match["audit"])
    names.check_metric(sentence, match["audit"], match["metric"])
    filters = _filters(sentence, match["filters"], _FILTERS)
    if "model" in filters:
        names.check_model(sentence, filters["model"], audit=match["audit"], members=True)
    if "reference" in filters:
        names.check_reference(sentence, match["audit"], filters["reference"])
    return Bound(sentence, match["audit"], match["metric"], field, filters, match["operator"], float(match["bound"]))


def _filters(sentence: str, written: str | None, known: Collection[str]) -> dict[str, str]:
    filters: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in (written or "").split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if name not in known or not equals:
            raise _error(sentence, f"'{part}' is not a filter, such as [model=xgb]", name, known, "filters here are")
        filters[name] = value
    return filters


def _parse_no_drop(sentence: str, metric: str, run: Path) -> NoDrop:
    directory = RunDirectory(run)
    if not directory.exists:
        raise ConfigError(f"gate condition '{sentence}': {run} does not hold a run")
    replicates = directory.read_result("performance").replicates
    known = [] if replicates is None else sorted(replicates["metric"].unique())
    if metric not in known:
        raise _error(sentence, f"the earlier run cannot be compared by '{metric}'", metric, known, "it has")
    return NoDrop(sentence, metric, run)


def _error(sentence: str, problem: str, word: str, known: Collection[str], are: str) -> ConfigError:
    """An error about a word, with the one that was probably meant, or with those that there are."""
    return ConfigError(f"gate condition '{sentence}': {problem}", hint=closest(word, known, all_are=are))
