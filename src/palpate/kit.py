"""Everything that the author of an audit needs, in one import: the contract, the edits, and the audits' shared kit.

    from palpate import kit

An audit plans with `Plan`, `VariantsBuilder` and `Edit`, and reports with `RowWriter`, `table`, `forest` and `Finding`.
`docs/extend.md` has a whole one.
"""

from palpate.audits.kit import *  # noqa: F403
from palpate.audits.kit import __all__ as _shared
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Edit, Skip, Variants, VariantsBuilder
from palpate.errors import CohortError, ConfigError
from palpate.results import (
    ALL_LABELS,
    MACRO,
    AuditResult,
    Axis,
    Chart,
    Column,
    Estimate,
    Examples,
    Finding,
    ModelPredictions,
    Plan,
    Predictions,
    Table,
    estimates_frame,
    finite,
)

__all__ = [
    "ALL_LABELS",
    "MACRO",
    "AuditResult",
    "Axis",
    "Chart",
    "Cohort",
    "CohortError",
    "Column",
    "ConfigError",
    "Edit",
    "Estimate",
    "Examples",
    "Finding",
    "ModelPredictions",
    "Plan",
    "Predictions",
    "Skip",
    "Table",
    "Variants",
    "VariantsBuilder",
    "estimates_frame",
    "finite",
    *_shared,
]
