"""What an audit gives back: estimates in one long table, blocks for the report, and findings in words.

Results are data. Nothing here draws, prints or writes; `report/` and `run/directory` do.
"""

from palpate.results.attributions import Asked, Attributions, no_attributions
from palpate.results.blocks import (
    AnyBlock,
    AuditResult,
    Axis,
    Block,
    Cell,
    Chart,
    Column,
    Examples,
    Finding,
    Table,
)
from palpate.results.estimates import ESTIMATE_SCHEMA, Estimate, estimates_frame, finite
from palpate.results.plan import (
    AsksAgain,
    Audit,
    Borrows,
    ChecksModels,
    Explain,
    KnownWords,
    Lender,
    ModelFacts,
    ModelPredictions,
    Plan,
)

__all__ = [
    "ESTIMATE_SCHEMA",
    "AnyBlock",
    "Asked",
    "AsksAgain",
    "Attributions",
    "Audit",
    "AuditResult",
    "Axis",
    "Block",
    "Borrows",
    "Cell",
    "Chart",
    "ChecksModels",
    "Column",
    "Estimate",
    "Examples",
    "Explain",
    "Finding",
    "KnownWords",
    "Lender",
    "ModelFacts",
    "ModelPredictions",
    "Plan",
    "Table",
    "estimates_frame",
    "finite",
    "no_attributions",
]
