"""The items of each kind of card, from the run and the facts: what every format writes out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from palpate.files import read_resource
from palpate.report.cards.entries import Item, Wells
from palpate.report.cards.facts import EVALUATION_KIND

TITLES = {
    "chai": "Applied Model Card (CHAI v0.2)",
    "tripod-ai": "TRIPOD+AI checklist",
    "hti-1": "Source attributes of a predictive decision support intervention (HTI-1)",
    "markdown": "Model card",
}
LEGEND = (
    "Every measured sentence cites its row of the run's results. What only people know comes from a facts file; what "
    "is missing there says who must write it. Small counts are withheld as in Table 1."
)


_MEASURED = ("KeyMetrics/", "Warnings/")
_NOUNS = {"hti-1": ("source attribute", "source attributes"), "tripod-ai": ("entry", "entries")}
_FIELDS = ("field", "fields")
_SILENT = "Not measured"
"""How a statement begins that says what the run has no number for."""


class Card(NamedTuple):
    """A card: which one, of which model in which run, and its items."""

    kind: str
    model: str
    manifest: Mapping[str, Any]
    items: tuple[Item, ...]

    @property
    def title(self) -> str:
        """The card's own name and the model's."""
        return f"{TITLES[self.kind]}: {self.model}"

    @property
    def n_filled(self) -> int:
        """Items of which nothing is missing."""
        return sum(not item.missing for item in self.items)

    @property
    def summary(self) -> str:
        """How many items are complete, and what the others lack, as a sentence."""
        n = len(self.items)
        full = [item for item in self.items if not item.missing]
        silent = sum(all(each.text.startswith(_SILENT) for each in item.statements) for item in full)
        empty = sum(bool(item.missing) and not item.statements for item in self.items)
        rest = [
            _counted(n - len(full) - empty, "{is} filled in part"),
            _counted(empty, "{is} still to be written"),
            _counted(silent, "{was} not measured in this run"),
        ]
        complete = len(full) - silent
        one, several = _NOUNS.get(self.kind, _FIELDS)
        if complete == n:
            return f"Its only {one} is complete." if n == 1 else f"All of its {n:,} {several} are complete."
        if not complete:
            whole = f"Its only {one} is not complete" if n == 1 else f"None of its {n:,} {several} is complete"
            return f"{whole}: {_listed(rest)}."
        numbers = {_NUMBER.match(item.name)[0] for item in self.items if _NUMBER.match(item.name)}  # type: ignore[index]
        of = f" ({len(numbers):,} items)" if self.kind == "tripod-ai" else ""
        return f"Of its {n:,} {several}{of}, {_listed([_counted(complete, '{is} complete'), *rest])}."

    @property
    def run(self) -> str:
        """Which run it is of."""
        made = self.manifest
        title = made.get("title") or "untitled"
        return f"{title}, run {made.get('id')}, {made.get('created')}, palpate {made.get('palpate')}"


_NUMBER = re.compile(r"\d+")


def _counted(n: int, what: str) -> str:
    """`1 is complete`, `2 are complete`; nothing of none."""
    verbs = {"is": "is" if n == 1 else "are", "was": "was" if n == 1 else "were"}
    return f"{n:,} {what.format(**verbs)}" if n else ""


def _listed(parts: Sequence[str]) -> str:
    said = [part for part in parts if part]
    return " and ".join([", ".join(said[:-1]), said[-1]]) if len(said) > 1 else said[0]


@cache
def _lists() -> dict[str, list[dict[str, Any]]]:
    lists: dict[str, list[dict[str, Any]]] = read_resource(__package__, "items.yaml")
    return lists


def make_card(kind: str, model: str, manifest: Mapping[str, Any], wells: Wells) -> Card:
    """The items of one kind of card. The page has CHAI's fields, what was measured before what people must write."""
    listed = _lists()["chai" if kind == "markdown" else kind]
    if kind == "markdown":
        listed = sorted(listed, key=lambda entry: not entry["name"].startswith(_MEASURED))
    items = (
        wells.item(entry["name"], entry.get("asks", ""), entry.get("section", ""), _keys(entry, wells.facts))
        for entry in listed
    )
    return Card(kind, model, manifest, tuple(items))


def _keys(entry: Mapping[str, Any], facts: Mapping[str, Any]) -> Sequence[str]:
    """Where an item takes its text from; one about external data takes none from a run that is not said to be so."""
    said = facts.get(EVALUATION_KIND)
    kinds = set(said.values()) if isinstance(said, Mapping) else {said}
    keys: Sequence[str] = entry["from"]
    return keys if entry.get("needs") in (None, *kinds) else entry["otherwise"]
