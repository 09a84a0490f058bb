"""palpate: how a clinical prediction model behaves, beyond its AUROC.

    import palpate

    result = palpate.audit(frame, labels=["readmitted"], text="note", models={"lr": pipeline})
    result                                   # in a notebook: scorecard, findings, charts
    result["performance"].to_pandas()        # one long table, with intervals

Names are imported when they are first used, so `import palpate` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

_HOME = {
    "Audit": "palpate.results",
    "AuditResult": "palpate.results",
    "Capabilities": "palpate.audits.capabilities",
    "Characteristics": "palpate.audits.characteristics",
    "Cohort": "palpate.cases.cohort",
    "Context": "palpate.audits.context",
    "Data": "palpate.audits.data",
    "Drift": "palpate.audits.drift",
    "Edit": "palpate.cases.edits",
    "Estimate": "palpate.results",
    "Evidence": "palpate.audits.evidence",
    "InMemory": "palpate.models.memory",
    "InputError": "palpate.errors",
    "Inputs": "palpate.cases.edits",
    "Model": "palpate.models",
    "ModelError": "palpate.errors",
    "ModelSpec": "palpate.models",
    "Operating": "palpate.audits.operating",
    "PalpateError": "palpate.errors",
    "Performance": "palpate.audits.performance",
    "Plan": "palpate.results",
    "Recalibration": "palpate.audits.recalibration",
    "Result": "palpate.api.result",
    "Robustness": "palpate.audits.robustness",
    "RunDirectory": "palpate.run.directory",
    "Slices": "palpate.audits.slices",
    "Subgroups": "palpate.audits.subgroups",
    "TableSpec": "palpate.data.tables",
    "Variants": "palpate.cases.edits",
    "Vocabulary": "palpate.audits.vocabulary",
    "alter": "palpate.api.steps",
    "audit": "palpate.api",
    "compare": "palpate.api.steps",
    "list_suites": "palpate.perturb.suites",
    "load_model": "palpate.api.steps",
    "match_pairs": "palpate.stats.context.matching",
    "read_cohort": "palpate.data.tables",
    "read_run": "palpate.api.steps",
    "suite": "palpate.api.steps",
}

if TYPE_CHECKING:
    from palpate import stats
    from palpate.api import audit
    from palpate.api.result import Result
    from palpate.api.steps import alter, compare, load_model, read_run, suite
    from palpate.audits.capabilities import Capabilities
    from palpate.audits.characteristics import Characteristics
    from palpate.audits.context import Context
    from palpate.audits.data import Data
    from palpate.audits.drift import Drift
    from palpate.audits.evidence import Evidence
    from palpate.audits.operating import Operating
    from palpate.audits.performance import Performance
    from palpate.audits.recalibration import Recalibration
    from palpate.audits.robustness import Robustness
    from palpate.audits.slices import Slices
    from palpate.audits.subgroups import Subgroups
    from palpate.audits.vocabulary import Vocabulary
    from palpate.cases.cohort import Cohort
    from palpate.cases.edits import Edit, Inputs, Variants
    from palpate.data.tables import TableSpec, read_cohort
    from palpate.errors import InputError, ModelError, PalpateError
    from palpate.models import Model, ModelSpec
    from palpate.models.memory import InMemory
    from palpate.perturb.suites import list_suites
    from palpate.results import Audit, AuditResult, Estimate, Plan
    from palpate.run.directory import RunDirectory
    from palpate.stats.context.matching import match_pairs

__all__ = [
    "Audit",
    "AuditResult",
    "Capabilities",
    "Characteristics",
    "Cohort",
    "Context",
    "Data",
    "Drift",
    "Edit",
    "Estimate",
    "Evidence",
    "InMemory",
    "InputError",
    "Inputs",
    "Model",
    "ModelError",
    "ModelSpec",
    "Operating",
    "PalpateError",
    "Performance",
    "Plan",
    "Recalibration",
    "Result",
    "Robustness",
    "RunDirectory",
    "Slices",
    "Subgroups",
    "TableSpec",
    "Variants",
    "Vocabulary",
    "__version__",
    "alter",
    "audit",
    "compare",
    "list_suites",
    "load_model",
    "match_pairs",
    "read_cohort",
    "read_run",
    "stats",
    "suite",
]


def __getattr__(name: str) -> Any:
    if name == "stats":
        return import_module("palpate.stats")
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'palpate' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
