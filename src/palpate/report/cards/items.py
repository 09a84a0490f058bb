"""The items of each kind of card, from the run and the facts: what every format writes out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from palpate.files import read_resource
from palpate.report.cards.entries import Item, Wells

TITLES = {
    "chai": "Applied Model Card (CHAI v0.2)",
    "tripod-ai": "TRIPOD+AI checklist",
    "hti-1": "Source attributes of a predictive decision support intervention (HTI-1)",
    "markdown": "Model card",
}
LEGEND = (
    "Every measured sentence cites its row of the run's results. What only people know comes from a facts file; what "
    "is missing there says who must write it."
)


_MEASURED = ("KeyMetrics/", "Warnings/")


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
    def run(self) -> str:
        """Which run it is of."""
        made = self.manifest
        title = made.get("title") or "untitled"
        return f"{title}, run {made.get('id')}, {made.get('created')}, palpate {made.get('palpate')}"


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
        wells.item(entry["name"], entry.get("asks", ""), entry.get("section", ""), entry["from"]) for entry in listed
    )
    return Card(kind, model, manifest, tuple(items))
