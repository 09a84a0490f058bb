"""All checks of a run before anything is scored: is the directory free, do models, cohort and audits fit together?"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from palpate.audits.kit.scope import validation_rows
from palpate.cases.cohort import Cohort
from palpate.errors import ConfigError, RunError, closest
from palpate.models import Model
from palpate.models.classes import unclear
from palpate.models.protocol import ListsCases
from palpate.results import Audit, ChecksCohort, ChecksModels, ModelFacts, ModelPredictions, Plan, Predictions
from palpate.run.directory import RunDirectory


def check_directory(out: RunDirectory, *, resume: bool) -> None:
    """Refuse a directory that already holds a run, unless it is to be resumed, and what is no directory."""
    if out.path.exists() and not out.path.is_dir():
        raise RunError("this is a file, not a folder", file=out.path, hint="choose another --out")
    if resume:
        out.set_aside_misfits()
        out.set_aside_damage()
    if out.exists and not resume:
        raise RunError(
            "this directory already holds a run",
            file=out.path,
            hint="add --resume to finish it, or choose another --out",
        )


def check_resumable(manifest: Mapping[str, Any], earlier: Mapping[str, Any], out: RunDirectory) -> None:
    """Refuse to finish a run with anything other than what it was started with."""
    before = earlier.get("fingerprints", {})
    changed = [name for name, value in manifest["fingerprints"].items() if before.get(name) != value]
    if changed:
        problem = f"this run was started with different {' and '.join(changed)}"
        raise RunError(problem, file=out.path, hint="choose another --out")


def check_scope(cohort: Cohort, audit: str, options: Mapping[str, Any]) -> None:
    """Refuse labels and a split that an audit's options name and the cohort does not have."""
    written = options.get("labels")
    for label in written if isinstance(written, list | tuple) else ():
        if label not in cohort.labels:
            hint = closest(str(label), cohort.labels, all_are="its labels are")
            raise ConfigError(f"audit '{audit}': the cohort has no label '{label}'", hint=hint, at=("labels",))
    split = options.get("split")
    if isinstance(split, str) and not len(cohort.rows(split=split)):
        hint = closest(split, cohort.cases["split"].drop_nulls().unique().to_list(), all_are="its splits are")
        raise ConfigError(f"audit '{audit}': the cohort has no case in split '{split}'", hint=hint, at=("split",))


def check_groups(cohort: Cohort, audit: Audit) -> None:
    """Refuse options of an audit that do not fit the cohort, such as an attribute that it does not have."""
    if isinstance(audit, ChecksCohort):
        audit.check_cohort(cohort)


def check_fit(
    cohort: Cohort,
    audits: Mapping[str, Audit],
    plans: Mapping[str, Plan[Any]],
    models: Mapping[str, tuple[Model, str | None]],
) -> dict[str, Plan[Any]]:
    """Refuse models that cannot score what the audits plan. A model comes with the ensemble that it is a member of.

    Returns the plans, without what an audit does not need of some models.
    """
    for model, _ in models.values():
        _excuse_validation(model, cohort, plans)
    fitted = _check_requests(audits, plans, models)
    repeated = cohort.cases["case_id"].n_unique() < cohort.cases.height
    for name, (model, _) in models.items():
        if model.reads == "text" and cohort.without_text:
            which = "the cohort" if not cohort.has_text else f"cohort '{cohort.without_text[0]}'"
            raise ConfigError(f"model '{name}' reads text, but {which} has none", hint="set `text:` of the cohort")
        if model.reads == "image":
            _check_images(name, cohort, plans)
        if model.reads == "case" and repeated and not model.tells_cohorts_apart:
            raise ConfigError(
                f"model '{name}' looks predictions up by case id, and two cohorts share case ids",
                hint="add a column `cohort` to its file",
            )
        _check_truth(name, model, cohort)
        for plan in plans.values():
            if model.classes and not set(plan.labels) <= set(model.classes):
                raise unclear(model.classes, what=f"model '{name}'")
            label_columns(name, model.labels, plan.labels)
    return fitted


def _excuse_validation(model: Model, cohort: Cohort, plans: Mapping[str, Plan[Any]]) -> None:
    """Let a file lack the validation split as a whole, if it lacks nothing else: most have held-out cases only.

    Audits score that split for a threshold, and choose it elsewhere where its scores are missing.
    """
    if not isinstance(model, ListsCases) or model.may_miss or any(_alters(plan, cohort) for plan in plans.values()):
        return
    validation = np.concatenate([validation_rows(cohort, name) for name in cohort.names])
    asked = np.unique(np.concatenate([plan.variants.parent for plan in plans.values()] or [validation]))
    unneeded = np.isin(asked, validation)
    if not unneeded.any() or unneeded.all():
        return
    cases = cohort.cases.select("case_id", "cohort")[asked]
    lacking = model.lacks(cases["case_id"], cases["cohort"])
    if lacking is not None and np.array_equal(lacking, unneeded):
        model.may_miss = True
        told = (
            "its file has no predictions of the validation split; a threshold that it does not state is chosen on the "
            "audited cases"
        )
        model.notices = (*model.notices, told)


def _check_truth(name: str, model: Model, cohort: Cohort) -> None:
    """Refuse scores that came with other labels than the cohort's: they are of another task, or reversed."""
    label = next((each for each in model.labels if each in cohort.labels), cohort.labels[0])
    if model.truth is None or (len(cohort.labels) > 1 and label not in model.labels):
        return
    y = cohort.y_true(np.arange(len(cohort)), [label])[:, 0]
    own = cohort.cases.select("case_id").with_columns(pl.Series("ours", y).cast(pl.Boolean))
    both = own.join(model.truth, on="case_id", maintain_order="left")
    differ = both.filter(pl.col("ours") != pl.col("y"))
    if differ.height:
        case, ours = differ.row(0)[:2]
        raise ConfigError(
            f"model '{name}': of {both.height:,} cases, {differ.height:,} have another label in the model's file "
            f"than in the cohort, such as case '{case}', which is {'positive' if ours else 'negative'} in the cohort",
            hint="give the predictions of this task, or remove the column boolean_value if it is wrong",
        )


def _check_requests(
    audits: Mapping[str, Audit], plans: Mapping[str, Plan[Any]], models: Mapping[str, tuple[Model, str | None]]
) -> dict[str, Plan[Any]]:
    """Refuse an audit whose options name a model that the run does not have, or do not fit a model."""
    fitted = dict(plans)
    names = {name for model, (_, ensemble) in models.items() for name in (model, ensemble) if name}
    for audit, plan in plans.items():
        for name in plan.requests.names:
            if name not in names:
                hint = f"the models are: {', '.join(sorted(names))}"
                raise ConfigError(f"audit '{audit}': unknown model '{name}'", hint=hint)
        checks = audits[audit]
        if isinstance(checks, ChecksModels):
            nothing = ModelPredictions(plan.labels, np.zeros((0, len(plan.labels))), np.zeros(0, np.bool_))
            unscored = {
                name: replace(nothing, threshold=model.threshold, ensemble=ensemble, facts=facts_of(model))
                for name, (model, ensemble) in models.items()
            }
            fitted[audit] = checks.check_models(plan, Predictions(unscored)) or plan
    return fitted


def _check_images(model: str, cohort: Cohort, plans: Mapping[str, Plan[Any]]) -> None:
    """Refuse what a model that reads images cannot score: cases without images, edited texts."""
    if not cohort.has_images:
        raise ConfigError(f"model '{model}' reads images, but the cohort has none", hint="set `image:` of the cohort")
    for name, plan in plans.items():
        if _alters(plan, cohort):
            raise ConfigError(
                f"model '{model}' reads images, but audit '{name}' alters texts",
                hint="leave one of them out, or give the model a configuration of its own",
            )


def _alters(plan: Plan[Any], cohort: Cohort) -> bool:
    """Whether an audit asks about texts other than the cases' own."""
    return bool(plan.variants.n_edits.any() or (plan.variants.parent >= len(cohort)).any())


def left_out_of(name: str, model: Model, cohort: Cohort, plans: Mapping[str, Plan[Any]]) -> list[str]:
    """The audits that a model takes no part in, because it is nothing but scores and they alter or make up texts."""
    if model.answers_altered:
        return []
    altered = [audit for audit, plan in plans.items() if _alters(plan, cohort)]
    if altered and len(altered) == sum(len(plan.variants) > 0 for plan in plans.values()):
        raise ConfigError(
            f"model '{name}' is nothing but scores, and {altered[0]} alters texts",
            hint="give the model itself, or an audit that asks about the cases as they are (performance)",
        )
    return altered


def facts_of(model: Model) -> ModelFacts:
    """What a model declares about itself."""
    return ModelFacts(tuple(model.explains), model.reads, model.uses_edits, model.window, model.may_miss)


def cases_with_images(cohort: Cohort, models: Iterable[Model]) -> Cohort:
    """The cases that all models can score: where one reads images, those whose image exists; the manifest says so."""
    return cohort.with_images() if cohort.has_images and any(model.reads == "image" for model in models) else cohort


def label_columns(name: str, given: Sequence[str], wanted: Sequence[str]) -> NDArray[np.int64]:
    """Which column of a model's prediction is which label; a single label on both sides matches whatever its name."""
    if len(given) == len(wanted) == 1:
        return np.zeros(1, dtype=np.int64)
    position = {label: k for k, label in enumerate(given)}
    missing = [label for label in wanted if label not in position]
    if missing:
        near = difflib.get_close_matches(missing[0], given, n=1) or list(given[:3])
        raise ConfigError(
            f"model '{name}' does not predict label '{_short(missing[0])}' ({len(missing)} of {len(wanted)} labels are "
            f"missing; it predicts '{_short(near[0])}' and {len(given) - 1} others)",
            hint="name the model's columns with its option `labels`, or audit fewer labels of the cohort",
        )
    return np.asarray([position[label] for label in wanted], dtype=np.int64)


def _short(label: str) -> str:
    """A label fit to be shown: a column of notes may have been taken for labels by mistake."""
    return label if len(label) <= 40 and label.count(" ") <= 3 else f"(a text of {len(label)} characters)"
