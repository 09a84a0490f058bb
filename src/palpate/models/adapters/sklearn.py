"""`sklearn:FILE` — a fitted scikit-learn pipeline that takes texts, saved with skops.

XGBoost's classifiers and scikit-learn's trees are not among the types that skops trusts: they hand bytes of
the file to native code that does not check them. List them under `trusted_types`, or let `palpate train` save
the model, which keeps XGBoost's own JSON. Pickles are opened with `trust: true` only.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from palpate.errors import ConfigError
from palpate.models.bagofwords import estimator_model
from palpate.models.digest import digest
from palpate.models.estimators import EstimatorModel, EstimatorOptions, read_estimator
from palpate.models.options import existing, parse_options

VERSION = "sklearn-1"
SUFFIXES = (".skops", ".joblib", ".pkl", ".pickle")


def load(target: str, options: Mapping[str, Any], *, folder: Path) -> EstimatorModel:
    """Read the file, and score edits from count differences where the pipeline allows it."""
    own = parse_options(EstimatorOptions, f"sklearn:{target}", options)
    file = existing(target, folder)
    if not file.is_file() or file.suffix not in SUFFIXES:
        raise ConfigError(f"a scikit-learn model is a file that ends in {', '.join(SUFFIXES)}", file=file)
    data = file.read_bytes()
    fingerprint = digest(VERSION, {"labels": own.labels, "fingerprint": own.fingerprint}, [file])
    return estimator_model(read_estimator(data, own, file=file), own, fingerprint=fingerprint, file=file)
