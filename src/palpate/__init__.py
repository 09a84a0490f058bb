"""palpate: how a clinical prediction model behaves, beyond its AUROC.

    import palpate

    outcome = palpate.audit("audit.yaml", out="run")
    outcome.results[0].estimates        # one long table, with intervals

Names are imported when they are first used, so `import palpate` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

_HOME = {
    "Audit": "palpate.results",
    "AuditResult": "palpate.results",
    "Cohort": "palpate.cases.cohort",
    "Edit": "palpate.cases.edits",
    "Estimate": "palpate.results",
    "InputError": "palpate.errors",
    "Inputs": "palpate.cases.edits",
    "Model": "palpate.models",
    "ModelError": "palpate.errors",
    "ModelSpec": "palpate.models",
    "PalpateError": "palpate.errors",
    "Plan": "palpate.results",
    "RunDirectory": "palpate.run.directory",
    "TableSpec": "palpate.data.tables",
    "Variants": "palpate.cases.edits",
    "audit": "palpate.commands.audit",
    "load_model": "palpate.models",
    "read_cohort": "palpate.data.tables",
    "report": "palpate.commands.audit",
}

if TYPE_CHECKING:
    from palpate.cases.cohort import Cohort
    from palpate.cases.edits import Edit, Inputs, Variants
    from palpate.commands.audit import audit, report
    from palpate.data.tables import TableSpec, read_cohort
    from palpate.errors import InputError, ModelError, PalpateError
    from palpate.models import Model, ModelSpec, load_model
    from palpate.results import Audit, AuditResult, Estimate, Plan
    from palpate.run.directory import RunDirectory

__all__ = [
    "Audit",
    "AuditResult",
    "Cohort",
    "Edit",
    "Estimate",
    "InputError",
    "Inputs",
    "Model",
    "ModelError",
    "ModelSpec",
    "PalpateError",
    "Plan",
    "RunDirectory",
    "TableSpec",
    "Variants",
    "__version__",
    "audit",
    "load_model",
    "read_cohort",
    "report",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'palpate' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
