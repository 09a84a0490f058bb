"""What an endpoint has answered and cost, one answer at a time, so that nothing is paid for twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from palpate.results.plan import Outcomes


class Spending(NamedTuple):
    """What was sent to an endpoint, and what came back."""

    requests: int = 0
    """All of them, also those that were repeated."""
    answers: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    guessed: int = 0
    """Answers whose tokens the endpoint did not count; they are taken from the characters."""

    def plus(self, other: Spending) -> Spending:
        """Both together."""
        return Spending(*(mine + its for mine, its in zip(self, other, strict=True)))


class Forecast(NamedTuple):
    """What asking would take."""

    requests: int
    input_tokens: int
    output_tokens: int
    cost: float | None
    """None where no price is known."""
    stops: str | None = None
    """The limit that would end the run, in words."""
    silent: str = ""
    """How many of the answers so far say nothing, and why, in words."""


class Ledger(Protocol):
    """Where answers are stored, without any text, and what they cost is added up."""

    def known(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The answers that are stored."""

    def keep(self, key: bytes, answer: bytes, spent: Spending) -> None:
        """Store an answer and add what it cost, both or neither."""

    def spend(self, spent: Spending) -> None:
        """Add what was spent without an answer."""

    def spent(self) -> Spending:
        """All that this run has spent."""


class Counter:
    """A ledger that only counts: for a model that is used on its own."""

    def __init__(self) -> None:
        self._spent = Spending()

    def known(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:  # noqa: ARG002
        """Nothing is stored."""
        return {}

    def keep(self, key: bytes, answer: bytes, spent: Spending) -> None:  # noqa: ARG002
        """Count."""
        self.spend(spent)

    def spend(self, spent: Spending) -> None:
        """Count."""
        self._spent = self._spent.plus(spent)

    def spent(self) -> Spending:
        """See `Ledger`."""
        return self._spent


@runtime_checkable
class AsksForAnswers(Protocol):
    """A model whose answers cost something, one by one, and may be none."""

    def use(self, ledger: Ledger) -> None:
        """Store answers there from now on."""

    def outcomes(self, keys: Sequence[bytes]) -> Outcomes:
        """What came of asking, by the runner's keys of the inputs, [key, label]."""

    def spent(self) -> Spending:
        """What was spent so far."""

    def cost(self, spent: Spending) -> float | None:
        """What that cost; None where no price is known."""

    def forecast(self, n_texts: int, n_characters: int) -> Forecast:
        """What asking about so many texts would take, from what asking took so far."""
