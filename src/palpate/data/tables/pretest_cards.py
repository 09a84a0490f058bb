"""The card that `palpate train pretest` writes beside its cohort: what the context audit shows of pre-test models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from palpate.errors import ConfigError

KIND = "pretest"


def read_pretest_card(path: Path) -> dict[str, dict[str, Any]]:
    """By label: the model's name, out-of-fold AUROC and heaviest words, whether it reads notes, its training job."""
    hint = "give the pretest.json of `palpate train pretest`"
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise ConfigError("file not found", file=path, hint=hint) from None
    except ValueError:
        raise ConfigError("the file is not JSON", file=path, hint=hint) from None
    if not isinstance(card, dict) or card.get("kind") != KIND:
        raise ConfigError("the file is not a card of pre-test models", file=path, hint=hint)
    try:
        job = str(card.get("job", ""))
        return {entry["label"]: _model(entry, job) for entry in card["labels"] if entry["chosen"] is not None}
    except (KeyError, TypeError, ValueError):
        raise ConfigError("the card lacks a field of a label", file=path, hint=hint) from None


def _model(entry: dict[str, Any], job: str) -> dict[str, Any]:
    chosen = entry["chosen"]
    return {
        "name": f"{chosen['classifier']} on {chosen['features']}",
        "training_auroc": entry["performance"]["out_of_fold"]["auroc"],
        "heaviest": [f"{'+' if weight > 0 else '−'} {word}" for word, weight in entry["words"]],
        "reads_notes": chosen["family"] != "tables",
        "job": job,
    }
