"""`sklearn:FILE`: a fitted scikit-learn pipeline that takes texts, saved with skops.

A skops file is data: only types that are known to be harmless are built from it. XGBoost's classifiers and
scikit-learn's trees are not among the types that skops trusts, because they hand bytes of the file to native code
that does not check them. List them under `trusted_types`, or let `palpate train` save the model, which keeps
XGBoost's own JSON. A pickle is a program, and is opened only with `trust: true`; local modules that it names (an
analyzer of yours) are part of the fingerprint.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from palpate.errors import ConfigError
from palpate.models.bagofwords import estimator_model
from palpate.models.classes import ClassOptions
from palpate.models.estimators import EstimatorModel, brief
from palpate.models.options import checked_by, digest, existing, parse_options
from palpate.models.reads import Reads

VERSION = "sklearn-2"
SUFFIXES = (".skops", ".joblib", ".pkl", ".pickle")


class EstimatorOptions(ClassOptions):
    """Options of a model that is read from a scikit-learn file."""

    trust: bool = False
    """Run whatever the file asks to run: pickles, and any type in a skops file. Only for files of your own."""
    trusted_types: tuple[str, ...] = ()
    """Types to allow in a skops file, beyond those that skops itself trusts."""


def check(target: str, options: Mapping[str, Any], *, folder: Path) -> EstimatorOptions:
    """The options, if they and the file's name are right."""
    own = parse_options(EstimatorOptions, f"sklearn:{target}", options)
    file = existing(target, folder)
    if not file.is_file() or file.suffix not in SUFFIXES:
        raise ConfigError(f"a scikit-learn model is a file that ends in {', '.join(SUFFIXES)}", file=file)
    return own


@checked_by(check)
def load(target: str, options: Mapping[str, Any], *, folder: Path) -> EstimatorModel:
    """Read the file; edits are scored from count differences where the pipeline allows it."""
    own, file = check(target, options, folder=folder), existing(target, folder)
    data, reads = file.read_bytes(), Reads(folder)
    with reads:
        estimator = read_estimator(data, own, file=file)
    answer_options = {"labels": own.labels, "positive": own.positive, "fingerprint": own.fingerprint}
    fingerprint = digest(VERSION, answer_options, {file, *reads.files()})
    return estimator_model(estimator, own, fingerprint=fingerprint, file=file)


def read_estimator(data: bytes, options: EstimatorOptions, *, file: Path) -> Any:
    """The object in a skops file, joblib file or pickle."""
    if file.suffix == ".skops":
        return _read_skops(data, options, file=file)
    if not options.trust:
        raise ConfigError(
            "this may be a pickle, which can run any program when it is opened",
            file=file,
            hint="save the model with skops.io.dump as .skops, or set `trust: true` if the file is your own",
        )
    import joblib

    try:
        return joblib.load(io.BytesIO(data))
    except Exception as error:
        raise ConfigError(f"can't be read as a joblib or pickle file ({brief(error)})", file=file) from error


def _read_skops(data: bytes, options: EstimatorOptions, *, file: Path) -> Any:
    import skops.io

    try:
        unknown = set(skops.io.get_untrusted_types(data=data))
        refused = sorted(set() if options.trust else unknown - set(options.trusted_types))
        if not refused:
            return skops.io.loads(data, trusted=sorted(unknown))
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise ConfigError("not a skops file, or a damaged one", file=file) from error
    except Exception as error:
        raise ConfigError(f"can't be read ({brief(error)})", file=file) from error
    raise ConfigError(
        f"contains types that are not known to be safe: {', '.join(refused)}",
        file=file,
        hint="if you know where the file comes from, list them under `trusted_types` or set `trust: true`",
    )
