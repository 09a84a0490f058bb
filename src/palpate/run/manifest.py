"""The manifest of a run: what was run, on whom, with which versions; nothing in it is a secret."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from palpate import __version__
from palpate.cases.cohort import Cohort
from palpate.models import Model, ModelSpec
from palpate.privacy import without_query, without_secrets
from palpate.registry import installed_versions
from palpate.results import ONE_COHORT, Audit, Plan
from palpate.stats.precision import n_distinct

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "polars", "torch", "transformers", "xgboost-cpu")
_MOST_LABELS = 50


def build_manifest(
    cohort: Cohort,
    audits: Mapping[str, Audit],
    models: Sequence[tuple[ModelSpec, Model, str | None]],
    seed: int,
    about: Mapping[str, Any],
) -> dict[str, Any]:
    """What is known before scoring; a model comes with the ensemble that it is a member of."""
    manifest: dict[str, Any] = {
        **about,
        "palpate": __version__,
        "id": uuid.uuid4().hex,
        "created": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seed": seed,
        "audits": {name: without_secrets(_spec(audit)) for name, audit in audits.items()},
        "facts": list(cohort.facts),
        "models": [_model_entry(*model) for model in models],
        "packages": installed_versions(PACKAGES),
        "devices": {spec.name: model.runs_on for spec, model, _ in models if model.runs_on is not None},
        "scoring": {},
    }
    identity = {key: manifest[key] for key in ("palpate", "seed", "audits", "models")}
    identity["cohort"] = cohort.fingerprint
    manifest["fingerprints"] = {
        key: hashlib.blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=16).hexdigest()
        for key, value in identity.items()
    }
    return manifest


def unreliable_cache(name: str, model: Model) -> str | None:
    """What is said of a model whose scores are not reused by another run; None: they are."""
    if model.may_change is None or not model.cached:
        return None
    return (
        f"The scores of {name} are not reused by later runs: {model.may_change}. Give the model a version with "
        "`fingerprint:`, and change it with the model, to reuse them."
    )


def noticed(name: str, model: Model) -> list[str]:
    """What a model wants to be known once it has predicted."""
    return [f"{name}: {notice}." for notice in model.notices]


def left_out_fact(name: str, audits: Sequence[str]) -> str | None:
    """What is said of a model that takes no part in some audits."""
    if not audits:
        return None
    return f"{name} is nothing but scores of the cases, so it takes no part in {', '.join(audits)}, which alter texts."


def one_cohort_fact(cohort: Cohort, plan: Plan[Any]) -> str | None:
    """What is said of an audit that is about one of several cohorts; None where it is about all, or about none."""
    rows = plan.variants.parent if plan.cases is None else plan.cases
    rows = rows[rows < len(cohort)]
    about = cohort.cases["cohort"][rows].unique(maintain_order=True).to_list() if len(rows) else []
    others = [name for name in cohort.names if name not in about]
    if len(about) != 1 or not others:
        return None
    return ONE_COHORT.format(one=about[0], others=", ".join(others))


def _model_entry(spec: ModelSpec, model: Model, ensemble: str | None) -> dict[str, Any]:
    return {
        "name": spec.name,
        "ensemble": ensemble,
        "source": without_query(spec.source),
        "labels": list(model.labels[:_MOST_LABELS]),
        "n_labels": len(model.labels),
        "window": model.window,
        "threshold": model.threshold,
        "fingerprint": model.fingerprint,
    }


def _spec(audit: Audit) -> dict[str, Any]:
    """An audit's fields, as JSON."""
    values = {field.name: getattr(audit, field.name) for field in fields(audit)}  # type: ignore[arg-type]
    spec: dict[str, Any] = json.loads(json.dumps(values, default=_plain))
    return spec


def _plain(value: Any) -> Any:
    """A dataclass as its fields, unless it has a string of its own: a suite is its file, a table its digest."""
    if is_dataclass(value) and not isinstance(value, type) and "__str__" not in vars(type(value)):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return str(value)


def describe_cohorts(cohort: Cohort, plans: Mapping[str, Plan[Any]]) -> list[dict[str, Any]]:
    """Who was audited, for the report: the cases that the results are about, and the table that they come from."""
    audited = np.zeros(len(cohort), dtype=bool)
    scoring = [plan for plan in plans.values() if len(plan.variants)]
    for plan in scoring or plans.values():
        rows = plan.variants.parent if plan.cases is None else plan.cases
        audited[rows[rows < len(cohort)]] = True
    described = []
    for name in cohort.names:
        table = cohort.rows(cohort=name)
        rows = table[audited[table]]
        positive = np.asarray(cohort.y.tocsr()[rows].sum(axis=0, dtype=np.int64)).ravel()
        top = np.argsort(-positive, kind="stable")[:_MOST_LABELS]
        splits = cohort.cases[table]["split"].value_counts() if "split" in cohort.cases.columns else None
        described.append(
            {
                "name": name,
                "n": len(rows),
                "n_patients": n_distinct(cohort.patients[rows]),
                "n_labels": len(cohort.labels),
                "labels": [{"name": cohort.labels[k], "n_positive": int(positive[k])} for k in top],
                "n_table": len(table),
                "splits": {} if splits is None else dict(sorted(splits.drop_nulls().iter_rows())),
            }
        )
    return described
