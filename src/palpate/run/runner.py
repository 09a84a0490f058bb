"""The runner: plan, score, analyse. All audits, all models, one list of inputs.

An audit never calls a model. The runner asks each audit what it wants scored, scores it once for every model
(cached, batched, resumable), and hands the answers back.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import platform
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from palpate import __version__
from palpate.cases.cohort import Cohort
from palpate.errors import ConfigError, RunError
from palpate.models import Model, ModelSpec, load_model
from palpate.perturb.words.substitutes import ContextModel, whole_words
from palpate.results import AsksAgain, Audit, AuditResult, Borrows, KnownWords, Lender, ModelPredictions, Plan
from palpate.run.directory import RunDirectory
from palpate.run.execute.cache import ScoreCache
from palpate.run.execute.explaining import Explainer, check_models, explained
from palpate.run.execute.images import check_images, seen_cohort
from palpate.run.execute.scoring import Execution, Progress, Scored, score
from palpate.run.execute.wanted import gather

ALREADY_RUN = "already holds a run"
_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "polars", "torch", "transformers", "xgboost-cpu")


class Silence:
    """Progress that nobody watches."""

    def stage(self, text: str) -> None:
        """Say what is done now."""

    def begin(self, model: str, total: int) -> None:
        """See `Progress`."""

    def advance(self, n: int) -> None:
        """See `Progress`."""


class Watcher(Progress, Protocol):
    """Progress, and the stages of a run."""

    def stage(self, text: str) -> None:
        """Say what is done now."""


@dataclass(frozen=True)
class Contender:
    """A model of the run: one checkpoint, or several that are reported as one."""

    name: str
    specs: Sequence[ModelSpec]
    loaded: Sequence[Model] = ()
    """Models that are there already, for use from Python; otherwise they are loaded from the specs."""
    call_timeout: float | None = None


@dataclass(frozen=True)
class Job:
    """What is run."""

    cohort: Cohort
    contenders: Sequence[Contender]
    audits: Mapping[str, Audit]
    seed: int = 0
    execution: Execution = field(default_factory=Execution)
    resume: bool = False
    about: Mapping[str, Any] = field(default_factory=dict)
    """What else belongs in the manifest: title, files, configuration."""


@dataclass(frozen=True)
class _Checkpoint:
    spec: ModelSpec
    model: Model
    family: str | None
    call_timeout: float | None
    visible: dict[int, int] = field(default_factory=dict)


def without_query(source: str) -> str:
    """A source fit to be written down: the query of a URL may hold a key."""
    address, mark, _ = source.partition("?")
    return f"{address}?…" if mark and address.startswith(("http:", "https:")) else source


def stream(seed: int, *names: str) -> np.random.Generator:
    """A random stream for one piece of work, the same whatever else is run."""
    return np.random.default_rng([seed, *(zlib.crc32(name.encode()) for name in names)])


def run(job: Job, out: RunDirectory, cache: ScoreCache, watcher: Watcher | None = None) -> list[AuditResult]:
    """Run all audits on all models; everything is written to `out` as soon as it is known."""
    watcher = watcher or Silence()
    watcher.stage("loading models")
    checkpoints = _load(job.contenders)
    job = replace(job, cohort=seen_cohort(job.cohort, [checkpoint.model for checkpoint in checkpoints]))
    manifest = _begin(job, checkpoints, out)
    watcher.stage("planning")
    lender = ModelLender([checkpoint.model for checkpoint in checkpoints], Path(checkpoints[0].spec.folder))
    plans = make_plans(job.audits, job.cohort, job.seed, lender)
    _check(job, checkpoints, plans)
    manifest["cohorts"] = _describe(job.cohort, plans)
    out.write_manifest(manifest)
    turn = 0
    while True:
        predictions = _score_all(job, checkpoints, plans, out, cache, watcher, manifest["scoring"], turn)
        larger = _plan_again(job, plans, predictions, turn)
        if not larger:
            break
        plans, turn = {**plans, **larger}, turn + 1
    for checkpoint in checkpoints:
        checkpoint.model.close()
    out.write_manifest(manifest)
    return [_analyse(job, name, plans[name], predictions[name], out, watcher.stage) for name in plans]


def make_plans(audits: Mapping[str, Audit], cohort: Cohort, seed: int, lender: Lender) -> dict[str, Plan]:
    """What each audit wants scored."""
    plans = {}
    for name, audit in audits.items():
        rng = stream(seed, name, "plan")
        plans[name] = audit.plan_with(cohort, rng, lender) if isinstance(audit, Borrows) else audit.plan(cohort, rng)
    return plans


class ModelLender:
    """Lends what the models of a run know, to audits that may not call them."""

    def __init__(self, models: Sequence[Model], folder: Path) -> None:
        self._models, self._folder = models, folder

    def vocabulary(self) -> KnownWords:
        """See `Lender`."""
        found: dict[bool, set[str]] = {False: set(), True: set()}
        for model in self._models:
            found[model.learned_words].update(whole_words(model.words() or ()))
        return KnownWords(*(tuple(sorted(found[learned])) for learned in (False, True)))

    def context_model(self, source: str) -> ContextModel:
        """See `Lender`."""
        from palpate.models.text.masked import load_masked  # which needs an extra

        scheme, _, target = source.partition(":")
        if scheme != "hf" or not target:
            raise ConfigError(
                f"'{source}' is no masked language model", hint="give a checkpoint's folder, as hf:FOLDER"
            )
        return load_masked(self._folder / target)


def _score_all(
    job: Job,
    checkpoints: Sequence[_Checkpoint],
    plans: Mapping[str, Plan],
    out: RunDirectory,
    cache: ScoreCache,
    watcher: Watcher,
    counts: dict[str, Any],
    turn: int,
) -> dict[str, dict[str, ModelPredictions]]:
    """Every model's answers to every audit; what an earlier turn asked comes from the cache."""
    for name, plan in plans.items():
        out.write_variants(name, plan)
    asked = gather(job.cohort, plans)
    predictions: dict[str, dict[str, ModelPredictions]] = {name: {} for name in plans}
    for checkpoint in checkpoints:
        rows = asked.rows_for(checkpoint.spec.name, plans)
        scored = score(
            checkpoint.spec,
            checkpoint.model,
            asked if rows is None else asked.take(rows),
            cache=cache,
            pending=out,
            execution=job.execution,
            progress=watcher,
            call_timeout=checkpoint.call_timeout,
            turn=turn,
        )
        spread = scored if rows is None else scored.spread(rows, len(asked.inputs))
        who = Explainer(checkpoint.spec.name, checkpoint.model, out, watcher, checkpoint.visible)
        parts = _by_audit(checkpoint, spread, asked.slices, plans, who)
        out.write_predictions(checkpoint.spec.name, parts)
        for name, part in parts.items():
            predictions[name][checkpoint.spec.name] = part
        lasting = {key: n for key, n in scored.counts.items() if key not in ("cached", "scored")}
        counts[checkpoint.spec.name] = lasting
    return predictions


def _plan_again(
    job: Job, plans: Mapping[str, Plan], predictions: Mapping[str, dict[str, ModelPredictions]], turn: int
) -> dict[str, Plan]:
    """The larger plans of audits that have not seen enough."""
    larger = {}
    for name, audit in job.audits.items():
        if isinstance(audit, AsksAgain):
            more = audit.plan_again(plans[name], predictions[name], stream(job.seed, name, "again", str(turn)))
            if more is not None:
                larger[name] = more
    return larger


def _load(contenders: Sequence[Contender]) -> list[_Checkpoint]:
    """Every checkpoint, loaded."""
    checkpoints = []
    for contender in contenders:
        models = contender.loaded or [load_model(spec) for spec in contender.specs]
        family = contender.name if len(models) > 1 else None
        checkpoints += [
            _Checkpoint(spec, model, family, contender.call_timeout)
            for spec, model in zip(contender.specs, models, strict=True)
        ]
    return checkpoints


def _check(job: Job, checkpoints: Sequence[_Checkpoint], plans: Mapping[str, Plan]) -> None:
    """Compatibility, before any expensive work."""
    check_models(job.audits, plans, {each.spec.name: (each.model, each.family) for each in checkpoints})
    cases = job.cohort.cases
    repeated = cases["case_id"].n_unique() < cases.height
    for checkpoint in checkpoints:
        name, model = checkpoint.spec.name, checkpoint.model
        if model.reads == "text" and not job.cohort.has_text:
            raise ConfigError(f"model '{name}' reads text, but the cohort has none", hint="set `text:` of the cohort")
        if model.reads == "image":
            check_images(name, job.cohort, plans)
        if model.reads == "case" and repeated and not model.tells_cohorts_apart:
            raise ConfigError(
                f"model '{name}' answers by case id, and two cohorts share case ids",
                hint="add a column `cohort` to its file",
            )
        for plan in plans.values():
            label_columns(name, model.labels, plan.labels)


def _short(label: str) -> str:
    """A label fit to be shown: a column of notes may have been taken for labels by mistake."""
    return label if len(label) <= 40 and label.count(" ") <= 3 else f"(a text of {len(label)} characters)"


def label_columns(name: str, given: Sequence[str], wanted: Sequence[str]) -> NDArray[np.int64]:
    """Which column of a model's answer is which label; one label each is a match whatever it is called."""
    if len(given) == len(wanted) == 1:
        return np.zeros(1, dtype=np.int64)
    position = {label: k for k, label in enumerate(given)}
    missing = [label for label in wanted if label not in position]
    if missing:
        near = difflib.get_close_matches(missing[0], given, n=1) or list(given[:3])
        raise ConfigError(
            f"model '{name}' gives no label '{_short(missing[0])}' ({len(missing)} of {len(wanted)} are missing; "
            f"it gives '{_short(near[0])}' and {len(given) - 1} others)",
            hint="name the model's columns with its option `labels`, or audit fewer labels of the cohort",
        )
    return np.asarray([position[label] for label in wanted], dtype=np.int64)


def _by_audit(
    checkpoint: _Checkpoint, scored: Scored, slices: Mapping[str, slice], plans: Mapping[str, Plan], who: Explainer
) -> dict[str, ModelPredictions]:
    """One model's answers, cut into what each audit asked."""
    parts = {}
    for name, plan in plans.items():
        columns = label_columns(checkpoint.spec.name, checkpoint.model.labels, plan.labels)
        part = ModelPredictions(
            labels=plan.labels,
            p=scored.p[slices[name]][:, columns],
            seen=scored.seen[slices[name]],
            threshold=checkpoint.model.threshold,
            family=checkpoint.family,
        )
        parts[name] = explained(name, who, plan, part, columns)
    return parts


def _analyse(
    job: Job,
    name: str,
    plan: Plan,
    predictions: dict[str, ModelPredictions],
    out: RunDirectory,
    stage: Callable[[str], None],
) -> AuditResult:
    stage(f"analysing {name}")
    result = job.audits[name].analyse(plan, predictions, stream(job.seed, name, "analyse"))
    out.write_result(result)
    return result


def _begin(job: Job, checkpoints: Sequence[_Checkpoint], out: RunDirectory) -> dict[str, Any]:
    """The manifest, written before any scoring; a run can be resumed only as what it was begun."""
    manifest = {
        **job.about,
        "palpate": __version__,
        "created": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seed": job.seed,
        "audits": {name: _spec(audit) for name, audit in job.audits.items()},
        "facts": list(job.cohort.facts),
        "models": [
            {
                "name": checkpoint.spec.name,
                "family": checkpoint.family,
                "source": without_query(checkpoint.spec.source),
                "labels": list(checkpoint.model.labels[:50]),
                "n_labels": len(checkpoint.model.labels),
                "window": checkpoint.model.window,
                "threshold": checkpoint.model.threshold,
                "fingerprint": checkpoint.model.fingerprint,
            }
            for checkpoint in checkpoints
        ],
        "packages": _versions(),
        "scoring": {},
    }
    identity = {key: manifest[key] for key in ("palpate", "seed", "audits", "models")}
    identity["cohort"] = job.cohort.fingerprint
    manifest["fingerprints"] = {
        key: hashlib.blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=16).hexdigest()
        for key, value in identity.items()
    }
    if out.exists:
        earlier = _resumable(job, manifest, out)
        manifest["created"] = earlier["created"]
    out.write_manifest(manifest)
    return manifest


def _resumable(job: Job, manifest: Mapping[str, Any], out: RunDirectory) -> dict[str, Any]:
    if not job.resume:
        raise RunError(ALREADY_RUN, file=out.path, hint="add --resume to finish it, or choose another --out")
    earlier = out.read_manifest()
    changed = [
        key for key, value in manifest["fingerprints"].items() if earlier.get("fingerprints", {}).get(key) != value
    ]
    if changed:
        raise RunError(
            f"was begun with other {' and other '.join(changed)}",
            file=out.path,
            hint="choose another --out",
        )
    return earlier


def _spec(audit: Audit) -> dict[str, Any]:
    """An audit's fields, as JSON."""
    spec: dict[str, Any] = json.loads(json.dumps(asdict(audit), default=str))  # type: ignore[call-overload]
    return spec


def _describe(cohort: Cohort, plans: Mapping[str, Plan]) -> list[dict[str, Any]]:
    """Who was audited, for the report: the cases that the results are about, and the table that they come from."""
    audited = np.zeros(len(cohort), dtype=bool)
    for plan in plans.values():
        rows = plan.variants.parent if plan.cases is None else plan.cases
        audited[rows[rows < len(cohort)]] = True
    described = []
    for name in cohort.names:
        table = cohort.rows(cohort=name)
        rows = table[audited[table]]
        positive = np.asarray(cohort.y.tocsr()[rows].sum(axis=0)).ravel()
        top = np.argsort(-positive, kind="stable")[:50]
        splits = cohort.cases[table]["split"].value_counts() if "split" in cohort.cases.columns else None
        described.append(
            {
                "name": name,
                "n": len(rows),
                "n_patients": len(np.unique(cohort.patients[rows])),
                "n_labels": len(cohort.labels),
                "labels": [{"name": cohort.labels[k], "n_positive": int(positive[k])} for k in top],
                "n_table": len(table),
                "splits": {} if splits is None else dict(sorted(splits.drop_nulls().iter_rows())),
            }
        )
    return described


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions
