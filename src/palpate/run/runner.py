"""The runner: plan, score, analyse. All audits, all models, one list of inputs.

An audit never calls a model. The runner asks each audit what it wants scored, scores it once for every model (cached,
batched, resumable), and hands the predictions back: those of every model, and of every ensemble as one model.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from palpate.cases import scratch
from palpate.cases.cohort import Cohort
from palpate.errors import ConfigError
from palpate.models import Model, ModelSpec, load_model
from palpate.models.isolation import exits_are_errors
from palpate.models.options import parse_options
from palpate.perturb.words.substitutes import ContextModel, whole_words
from palpate.results import (
    AdaptiveAudit,
    Audit,
    AuditResult,
    Finding,
    KnownWords,
    ModelKnowledge,
    ModelPredictions,
    Plan,
    PlansWithModels,
    Predictions,
)
from palpate.results.verdicts import scorecard
from palpate.run.answering import spending_of, with_answering
from palpate.run.checks import (
    cases_with_images,
    check_directory,
    check_fit,
    check_resumable,
    label_columns,
    left_out_of,
)
from palpate.run.directory import RunDirectory
from palpate.run.execute import Execution, Scored, ScoringProgress, score
from palpate.run.execute.cache import ScoreCache
from palpate.run.execute.explaining import Explainer, explained
from palpate.run.execute.wanted import gather
from palpate.run.manifest import (
    build_manifest,
    describe_cohorts,
    left_out_fact,
    noticed,
    one_cohort_fact,
    unreliable_cache,
)
from palpate.run.missing import Usable, usable_predictions
from palpate.run.scores import odd_models, with_odd_models
from palpate.run.weights import with_weights


class RunProgress(ScoringProgress, Protocol):
    """Told the stages of a run as well."""

    def stage(self, text: str) -> None:
        """What the run does now."""

    def note(self, text: str) -> None:
        """What the user should know."""


class NullProgress:
    """Progress reporter that does nothing."""

    def stage(self, text: str) -> None:
        """See `RunProgress`."""

    def note(self, text: str) -> None:
        """See `RunProgress`."""

    def begin(self, model: str, total: int) -> None:
        """See `ScoringProgress`."""

    def advance(self, n: int) -> None:
        """See `ScoringProgress`."""


@dataclass(frozen=True)
class ModelEntry:
    """A model of the run: a single one, or an ensemble of several seeds that are reported as one."""

    name: str
    specs: Sequence[ModelSpec]
    loaded: Sequence[Model] = ()
    """Models that are in memory already, for use from Python; otherwise they are loaded from the specs."""
    call_timeout: float | None = None


@dataclass(frozen=True)
class Job:
    """What is run."""

    cohort: Cohort
    models: Sequence[ModelEntry]
    audits: Mapping[str, Audit]
    seed: int = 0
    execution: Execution = field(default_factory=Execution)
    resume: bool = False
    about: Mapping[str, Any] = field(default_factory=dict)
    """What else belongs in the manifest: title, files, configuration."""


@dataclass(frozen=True)
class Member:
    """One loaded model, and the ensemble that it is a member of."""

    spec: ModelSpec
    model: Model
    ensemble: str | None
    call_timeout: float | None
    visible: dict[int, int] = field(default_factory=dict)


def stream(seed: int, *names: str) -> np.random.Generator:
    """A random stream for one piece of work, the same whatever else is run."""
    return np.random.default_rng([seed, *(zlib.crc32(name.encode()) for name in names)])


def run(job: Job, out: RunDirectory, cache: ScoreCache, progress: RunProgress | None = None) -> list[AuditResult]:
    """Run all audits on all models; everything is written to `out` as soon as it is known."""
    progress = progress or NullProgress()
    progress.stage("loading models")
    members = load_members(job.models)
    try:
        return _run(job, members, out, cache, progress)
    finally:
        for member in members:
            member.model.close()


def _run(
    job: Job, members: Sequence[Member], out: RunDirectory, cache: ScoreCache, progress: RunProgress
) -> list[AuditResult]:
    job = replace(job, cohort=cases_with_images(job.cohort, [member.model for member in members]))
    manifest = _start(job, members, out)
    plans = plan_all(job, members, progress)
    for notice in (notice for plan in plans.values() for notice in plan.notices):
        progress.note(f"Concern: {notice}")
    manifest["cohorts"] = describe_cohorts(job.cohort, plans)
    out.write_manifest(manifest)
    turn = 0

    def again(name: str, some: Cohort) -> Plan[Any]:
        return _planned(job, members, {name: job.audits[name]}, some)[name]

    while True:
        predictions = _score_all(job, members, plans, out, cache, progress, manifest, turn)
        usable = usable_predictions(job.audits, plans, predictions, again)
        larger = _plan_again(job, plans, usable, turn)
        if not larger:
            break
        plans, turn = {**plans, **larger}, turn + 1
    out.write_manifest(manifest)
    for member in members:
        member.model.close()  # what a model holds is not needed any more, and the analysis may need its memory
    analysed = [_analyse(job, name, usable[name], progress) for name in plans]
    results = with_odd_models(with_answering(analysed, plans, predictions), odd_models(job.cohort, plans, predictions))
    results = with_weights(results, job.audits, usable)
    for result in results:
        out.write_result(result)
    models = dict.fromkeys(member.ensemble or member.spec.name for member in members)
    out.write_scorecard(scorecard({result.audit: result.answers for result in results}, list(models)))
    out.remove_pending()
    return results


def plan_all(job: Job, members: Sequence[Member], progress: RunProgress | None = None) -> dict[str, Plan[Any]]:
    """The plans of all audits, if the models can score them."""
    return _planned(job, members, job.audits, job.cohort, progress)


def _planned(
    job: Job,
    members: Sequence[Member],
    audits: Mapping[str, Audit],
    cohort: Cohort,
    progress: RunProgress | None = None,
) -> dict[str, Plan[Any]]:
    knowledge = LoadedModels({each.spec.name: each.model for each in members}, Path(members[0].spec.folder))
    plans = make_plans(audits, cohort, job.seed, knowledge, progress)
    for notice in knowledge.notices:
        (progress or NullProgress()).note(notice)
    known = {each.spec.name: (each.model, each.ensemble) for each in members}
    return check_fit(cohort, audits, plans, known)


def make_plans(
    audits: Mapping[str, Audit],
    cohort: Cohort,
    seed: int,
    knowledge: ModelKnowledge,
    progress: RunProgress | None = None,
) -> dict[str, Plan[Any]]:
    """What each audit wants scored."""
    plans = {}
    for name, audit in audits.items():
        (progress or NullProgress()).stage(f"planning {name}")
        rng = stream(seed, name, "plan")
        if isinstance(audit, PlansWithModels):
            plans[name] = audit.plan_with(cohort, rng, knowledge)
        else:
            plans[name] = audit.plan(cohort, rng)
    return plans


class LoadedModels:
    """What the models of a run know, for audits that may not call them (`ModelKnowledge`)."""

    def __init__(self, models: Mapping[str, Model], folder: Path) -> None:
        self._models, self._folder = models, folder
        self._context: dict[str, ContextModel] = {}

    @property
    def notices(self) -> list[str]:
        """What must be said about the models that helped to plan."""
        return [
            f"{source}: {notice}."
            for source, model in self._context.items()
            for notice in getattr(model, "notices", ())
        ]

    def vocabulary(self) -> KnownWords:
        """See `ModelKnowledge`."""
        found: dict[bool, set[str]] = {False: set(), True: set()}
        for name, model in self._models.items():
            with exits_are_errors(name, "listing its words"):
                found[model.learned_words].update(whole_words(model.words() or ()))
        return KnownWords(*(tuple(sorted(found[learned])) for learned in (False, True)))

    def context_model(self, source: str, options: Mapping[str, Any] | None = None) -> ContextModel:
        """See `ModelKnowledge`."""
        from palpate.models.text.masked import MaskedOptions, load_masked  # which needs an extra

        scheme, _, target = source.partition(":")
        if scheme != "hf" or not target:
            raise ConfigError(
                f"'{source}' is not a masked language model", hint="give a checkpoint's folder, as hf:FOLDER"
            )
        own = parse_options(MaskedOptions, f"the language model {source}", options or {})
        found = self._context[source] = load_masked(self._folder / target, trust=own.trust, options=own)
        return found


def load_members(entries: Sequence[ModelEntry]) -> list[Member]:
    """Every model of the run, loaded."""
    members: list[Member] = []
    try:
        for entry in entries:
            ensemble = entry.name if len(entry.specs) > 1 else None
            for k, spec in enumerate(entry.specs):
                model = entry.loaded[k] if entry.loaded else load_model(spec)
                members.append(Member(spec, model, ensemble, entry.call_timeout))
    except BaseException:
        for member in members:
            member.model.close()
        raise
    return members


def _start(job: Job, members: Sequence[Member], out: RunDirectory) -> dict[str, Any]:
    """The manifest, written when all checks have passed; a run can be resumed only as what it was started as."""
    check_directory(out, resume=job.resume)
    models = [(member.spec, member.model, member.ensemble) for member in members]
    manifest = build_manifest(job.cohort, job.audits, models, job.seed, job.about)
    if out.exists:
        earlier = out.read_manifest()
        check_resumable(manifest, earlier, out)
        manifest |= {name: earlier[name] for name in ("created", "id") if name in earlier}
    return manifest


def _score_all(
    job: Job,
    members: Sequence[Member],
    plans: Mapping[str, Plan[Any]],
    out: RunDirectory,
    cache: ScoreCache,
    progress: RunProgress,
    manifest: dict[str, Any],
    turn: int,
) -> dict[str, Predictions]:
    """Every model's predictions for every audit; what an earlier turn asked for comes from the cache."""
    for name, plan in plans.items():
        out.write_variants(name, plan)
    table = gather(job.cohort, plans)
    predictions: dict[str, dict[str, ModelPredictions]] = {name: {} for name in plans}
    for member in members:
        left_out = left_out_of(member.spec.name, member.model, job.cohort, plans)
        rows = table.rows_for(member.spec.name, plans, left_out)
        scored = score(
            member.spec,
            member.model,
            table if rows is None else table.take(rows),
            cache=cache,
            pending=out,
            execution=job.execution,
            progress=progress,
            run_id=manifest["id"],
            call_timeout=member.call_timeout,
            turn=turn,
        )
        spread = scored if rows is None else scored.spread(rows, len(table.inputs))
        asked = {name: plan for name, plan in plans.items() if name not in left_out}
        explainer = Explainer(member.spec, member.model, out, progress, job.execution, member.visible)
        parts = _by_audit(member, spread, table.slices, asked, explainer)
        out.write_predictions(member.spec.name, parts)
        for name, part in parts.items():
            predictions[name][member.spec.name] = part
        lasting = {key: n for key, n in scored.counts.items() if key not in ("cached", "scored")}
        manifest["scoring"][member.spec.name] = lasting | spending_of(member.model)
        name, model = member.spec.name, member.model
        for said in (unreliable_cache(name, model), left_out_fact(name, left_out), *noticed(name, model)):
            if said is not None and said not in manifest["facts"]:
                manifest["facts"].append(said)
                progress.note(said)
        if not any(isinstance(audit, AdaptiveAudit) for audit in job.audits.values()):
            model.close()  # nothing more is asked, and what it holds may be as large as all of its answers
    return {name: Predictions(parts) for name, parts in predictions.items()}


def _by_audit(
    member: Member,
    scored: Scored,
    slices: Mapping[str, slice],
    plans: Mapping[str, Plan[Any]],
    explainer: Explainer,
) -> dict[str, ModelPredictions]:
    """One model's predictions, cut into what each audit asked for, with explanations where a plan wants them."""
    parts = {}
    for name, plan in plans.items():
        columns = label_columns(member.spec.name, member.model.labels, plan.labels)
        part = ModelPredictions(
            labels=plan.labels,
            p=scratch.columns(scored.p[slices[name]], columns),
            seen=scored.seen[slices[name]],
            threshold=member.model.threshold,
            ensemble=member.ensemble,
            outcomes=None if scored.outcomes is None else scored.outcomes.take(slices[name], columns),
        )
        parts[name] = explained(name, explainer, plan, part, columns)
    return parts


def _plan_again(
    job: Job, plans: Mapping[str, Plan[Any]], usable: Mapping[str, Usable], turn: int
) -> dict[str, Plan[Any]]:
    """The larger plans of audits that have not seen enough."""
    larger = {}
    for name, audit in job.audits.items():
        if isinstance(audit, AdaptiveAudit) and not usable[name].nothing:
            more = audit.plan_again(plans[name], usable[name].predictions, stream(job.seed, name, "again", str(turn)))
            if more is not None:
                larger[name] = more
    return larger


def _analyse(job: Job, name: str, usable: Usable, progress: RunProgress) -> AuditResult:
    progress.stage(f"analysing {name}")
    if usable.nothing:
        return usable.empty(name, job.audits[name])
    found = usable.analysed(job.audits[name], stream(job.seed, name, "analyse"))
    found = usable.told(found, job.audits[name])
    said = one_cohort_fact(job.cohort, usable.plan)
    return found if said is None else replace(found, findings=(*found.findings, Finding(sentence=said)))
