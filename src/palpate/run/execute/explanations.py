"""An explanation as a model gives it, checked: about what was asked, inside the text, finite; errors name the case."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from palpate.cases.edits import Inputs
from palpate.errors import ModelDied, ModelError, PalpateError
from palpate.models import Model
from palpate.models.isolation import exits_are_errors, failure
from palpate.results import SAMPLED, Asked, Attributions


def checked_explanation(name: str, model: Model, inputs: Inputs, asked: Asked, way: str) -> Attributions:
    """Call the model, and refuse an impossible explanation; errors name the model and the case."""
    try:
        with exits_are_errors(name, f"explaining ({way})"):
            found = _explained(model, inputs, asked, way)
    except ModelDied:
        raise
    except ModelError as error:
        raise error.of(name, None if error.case else _culprit(model, inputs, asked, way)) from error
    except PalpateError:
        raise
    except Exception as error:
        raise failure(error, name, f"explaining ({way})", _culprit(model, inputs, asked, way)) from error
    row, label, start, end = (np.asarray(column, dtype=np.int64) for column in found[:4])
    score = np.asarray(found.score, dtype=np.float64)
    answer = Attributions(row, label, start, end, score)
    if len({len(column) for column in answer}) != 1:
        raise ModelError(f"its explanation ({way}) has columns of different lengths", model=name)
    _check_rows(name, inputs, asked, answer, way)
    return answer


def _explained(model: Model, inputs: Inputs, asked: Asked, way: str) -> Attributions:
    """By the model itself, or by what it answers without random words."""
    if way in SAMPLED and way not in model.explains:
        from palpate.models.text.sampling import explain_by_sampling

        return explain_by_sampling(model, inputs, asked, way)
    return model.explain(inputs, asked, way)


def _check_rows(name: str, inputs: Inputs, asked: Asked, found: Attributions, way: str) -> None:
    known = (found.row >= 0) & (found.row < len(inputs))
    if not known.all():
        raise ModelError(f"its explanation ({way}) is about a row that was not asked for", model=name)
    pairs = set(zip(asked.row.tolist(), asked.label.tolist(), strict=True))
    lengths = np.array([len(text) for text in inputs.parents], dtype=np.int64)
    checks: Mapping[str, NDArray[np.bool_]] = {
        "explains a label that was not asked for": np.array(
            [pair not in pairs for pair in zip(found.row.tolist(), found.label.tolist(), strict=True)], dtype=bool
        ),
        "points outside the text": (found.start < 0) | (found.end <= found.start) | (found.end > lengths[found.row]),
        "has a score that is not a finite number": ~np.isfinite(found.score),
    }
    for problem, wrong in checks.items():
        if wrong.any():
            case = inputs.case_ids[int(found.row[int(np.argmax(wrong))])]
            raise ModelError(f"its explanation ({way}) {problem}", model=name, case=case)


def _culprit(model: Model, inputs: Inputs, asked: Asked, way: str) -> str:
    """The first case on which the model fails by itself; the first of the call if it does not fail again."""
    for row in range(len(inputs)):
        mine = asked.row == row
        alone = Asked(np.zeros(int(mine.sum()), dtype=np.int64), asked.label[mine])
        try:
            with exits_are_errors("", ""):
                _explained(model, inputs.take([row]), alone, way)
        except Exception:  # the model's own failure, whatever its type, is what is searched for
            return inputs.case_ids[row]
    return inputs.case_ids[0]
