"""Models as people have them in Python: estimators, functions, networks, scores, or a source (`hf:models/bert`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from palpate import registry
from palpate.api.frames import Audited, is_pandas, series_of
from palpate.errors import ConfigError, closest
from palpate.models import Model, ModelSpec, check_model, reporting_missing
from palpate.models.memory import (
    ColumnsModel,
    InMemory,
    ScoresModel,
    TextFunctionModel,
    estimator_in_memory,
    network_in_memory,
)
from palpate.run.runner import ModelEntry

_HINT = (
    "give a fitted estimator with predict_proba, a function of a list of texts, scores (a column's name, a Series, an "
    "array), a transformers model with its tokenizer, or a source such as 'hf:models/bert'"
)


def entries(models: Any, table: Audited) -> list[ModelEntry]:
    """The models of a run, by name; a list of them under one name is one model with several seeds."""
    named = models if isinstance(models, Mapping) else {"model": models}
    if not named:
        raise ConfigError("there is no model", hint=_HINT)
    return [_entry(str(name), given, table) for name, given in named.items()]


def _entry(name: str, given: Any, table: Audited) -> ModelEntry:
    members = list(given) if _is_ensemble(given) else [given]
    if len(members) == 1:
        return _one(name, members[0], table)
    parts = [_one(f"{name}[{k}]", member, table) for k, member in enumerate(members, start=1)]
    specs = [spec for part in parts for spec in part.specs]
    if all(part.loaded for part in parts):
        return ModelEntry(name, specs, [model for part in parts for model in part.loaded])
    if not any(part.loaded for part in parts):
        return ModelEntry(name, specs)
    raise ConfigError(f"model '{name}': its seeds are in memory or in files, not both")


def _is_ensemble(given: Any) -> bool:
    """Whether a list is one of models, and not one of scores."""
    return isinstance(given, list) and bool(given) and not isinstance(given[0], int | float | np.number | list)


def _one(name: str, given: Any, table: Audited) -> ModelEntry:
    if isinstance(given, str) and _is_source(given, table):
        spec = ModelSpec(name=name, source=given, folder=str(Path.cwd()))
        check_model(spec)
        return ModelEntry(name, [spec])
    # Without a source, the model is never looked for anywhere but in memory.
    return ModelEntry(name, [ModelSpec(name=name, source="")], [model_of(name, given, table)])


def _is_source(given: str, table: Audited) -> bool:
    scheme, colon, _ = given.partition(":")
    return bool(colon) and given not in table.frame.columns and scheme in registry.names("models")


def model_of(name: str, given: Any, table: Audited) -> Model:
    """The object as a model of the run."""
    labels = table.cohort.labels
    wrapped = given if isinstance(given, InMemory) else InMemory(given)
    model = _made(name, wrapped, labels, table)
    if wrapped.threshold is not None:
        if not 0 <= wrapped.threshold <= 1:
            raise ConfigError(f"model '{name}': a threshold of {wrapped.threshold:g} is not between 0 and 1")
        model.threshold = wrapped.threshold
    if wrapped.missing not in ("error", "report"):
        raise ConfigError(f"model '{name}': missing is '{wrapped.missing}'", hint='say missing="report"')
    return reporting_missing(model) if wrapped.missing == "report" else model


def _made(name: str, given: InMemory, labels: tuple[str, ...], table: Audited) -> Model:
    it = given.model
    if isinstance(it, Model):
        return it
    if isinstance(it, type):
        raise ConfigError(f"model '{name}' is a class, not an object", hint=f"fit {it.__name__}() first")
    if isinstance(it, tuple) and len(it) == 2 and hasattr(it[0], "forward"):
        return network_in_memory(name, *it, given)
    if hasattr(it, "model") and hasattr(it, "tokenizer") and hasattr(it.model, "forward"):
        return network_in_memory(name, it.model, it.tokenizer, given)
    if hasattr(it, "forward") and hasattr(it, "config"):
        raise ConfigError(f"model '{name}' comes without its tokenizer", hint="give both: (model, tokenizer)")
    if hasattr(it, "predict_proba") or hasattr(it, "fit"):
        return estimator_in_memory(name, given, labels, table.frame)
    if callable(it):
        if given.columns is None and table.cohort.has_text:
            return TextFunctionModel(name, it, given, labels)
        return ColumnsModel(name, it, given, labels, table.frame)
    return ScoresModel(name, _scores(name, it, labels, table), tuple(given.labels or labels), table.frame)


def _scores(name: str, given: Any, labels: tuple[str, ...], table: Audited) -> Any:
    """Scores as [case, label]; every cell is checked."""
    if isinstance(given, str):
        given = _column(name, given, table)
    columns = _as_columns(name, given, labels, table)
    n = len(table.cohort)
    for column in columns:
        if len(column) != n:
            raise ConfigError(f"model '{name}' has {len(column):,} scores for {n:,} cases")
        # What is missing may belong to cases that are not asked about.
        wrong = np.flatnonzero(~((column >= 0) & (column <= 1)) & ~np.isnan(column))
        if len(wrong):
            row = int(wrong[0])
            raise ConfigError(
                f"model '{name}': the score of row {row + 1} is {column[row]:g}, which is no probability",
                hint="give risks between 0 and 1",
            )
    return np.column_stack(columns)


def _column(name: str, wanted: str, table: Audited) -> Any:
    if wanted not in table.frame.columns:
        raise ConfigError(
            f"model '{name}': '{wanted}' is neither a column of the table nor a source",
            hint=f"the columns are {', '.join(table.frame.columns[:10])}; a source is scheme:target, as hf:models/bert",
        )
    return table.frame.take(range(len(table.cohort)), [wanted])[wanted]


def _as_columns(name: str, given: Any, labels: tuple[str, ...], table: Audited | None) -> list[Any]:
    """One array for each label; scores of several cohorts come by the cohorts' names."""
    if table is not None and isinstance(given, Mapping) and tuple(given) == table.cohort.names and len(given) > 1:
        parts = [_as_columns(name, part, labels, None) for part in given.values()]
        return [np.concatenate(columns) for columns in zip(*parts, strict=True)]
    if isinstance(given, Mapping) or hasattr(given, "columns"):
        named = list(given.columns) if hasattr(given, "columns") else list(given)
        if hasattr(given, "columns") and len(named) == len(labels) == 1:
            return [_numbers(name, given[named[0]], table)]
        missing = [label for label in labels if label not in named]
        if missing:
            hint = closest(missing[0], [str(each) for each in named], all_are="it has")
            raise ConfigError(f"model '{name}' has no scores for label '{missing[0]}'", hint=hint)
        return [_numbers(name, given[label], table) for label in labels]
    if getattr(given, "ndim", 1) == 2 or (isinstance(given, list) and given and isinstance(given[0], list)):
        values = np.asarray(given, dtype=np.float64)
        if values.shape[1] != len(labels):
            raise ConfigError(f"model '{name}' has {values.shape[1]} columns of scores for {len(labels)} labels")
        return list(values.T)
    if len(labels) > 1:
        raise ConfigError(
            f"model '{name}' has one column of scores for {len(labels)} labels",
            hint="give a mapping or a frame with one column for each label",
        )
    return [_numbers(name, given, table)]


def _numbers(name: str, given: Any, table: Audited | None) -> Any:
    """A column as numbers; a pandas Series is put in the order of the frame by its index, and may leave cases out."""
    if is_pandas(given):
        source: Any = None if table is None else table.source
        if is_pandas(source) and not given.index.equals(source.index):
            if not given.index.is_unique or not given.index.isin(source.index).all():
                raise ConfigError(
                    f"model '{name}': the index of its scores is not that of the frame",
                    hint="give them as an array, in the order of the frame",
                )
            given = given.reindex(source.index)
        given = series_of(given, name)
    try:
        column = given if isinstance(given, pl.Series) else pl.Series(name, np.asarray(given))
        return column.cast(pl.Float64).to_numpy().astype(np.float64)
    except (TypeError, ValueError, pl.exceptions.PolarsError):
        raise ConfigError(f"model '{name}': a {type(given).__name__} is no model and no scores", hint=_HINT) from None
