"""What asking costs: tokens counted, limits that hold, and what a run would take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from palpate.errors import LimitReached
from palpate.models.adapters.chat.options import ChatOptions
from palpate.models.ledger import Counter, Forecast, Ledger, Spending

CHARACTERS_PER_TOKEN = 4.0
_USUAL_ANSWER = 20
"""Tokens of an answer, before any was seen."""


class AskingBudget:
    """Counts requests and tokens, and refuses the request that would go over a limit.

    What is in flight is reckoned with: each request is expected to cost as much as the dearest one before it.
    """

    def __init__(self, own: ChatOptions, name: str) -> None:
        self._own, self._name = own, name
        self.ledger: Ledger = Counter()
        self._spent = Spending()
        self._in_flight: dict[int, float] = {}
        self._dearest = 0.0
        self._characters = self._unsaved = 0

    def use(self, ledger: Ledger) -> None:
        """Count there."""
        self.ledger, self._spent = ledger, ledger.spent()

    @property
    def spent(self) -> Spending:
        """So far, in this run."""
        return self._spent

    def cost(self, spent: Spending) -> float | None:
        """What tokens cost; None without a price."""
        price = self._own.price
        return None if price is None else (spent.input_tokens * price.input + spent.output_tokens * price.output) / 1e6

    def send(self, number: int, n_characters: int) -> None:
        """Before each try of a request; an error if it would go over a limit."""
        own, spent = self._own, self._spent
        if own.max_requests is not None and spent.requests >= own.max_requests:
            raise self.stop(f"max_requests: {own.max_requests:,}")
        if own.max_cost is not None:
            expected = max(self._guess(n_characters), self._dearest)
            others = sum(cost for each, cost in self._in_flight.items() if each != number)
            if (self.cost(spent) or 0.0) + others + expected > own.max_cost:
                raise self.stop(f"max_cost: {own.max_cost:g}")
            self._in_flight[number] = expected
        self._unsaved += 1
        self._spent = self._spent.plus(Spending(requests=1))

    def done(self, number: int) -> None:
        """A request that is no longer in flight."""
        self._in_flight.pop(number, None)

    def answered(self, key: bytes, packed: bytes, usage: Any, *, sent: int, received: int) -> None:
        """An answer: it is stored, and what it cost is counted; `sent` and `received` are characters."""
        spent = _tokens(usage, sent, received)
        self._characters += sent
        self.ledger.keep(key, packed, spent._replace(requests=self._unsaved))
        self._unsaved = 0
        self._spent = self._spent.plus(spent)
        self._dearest = max(self._dearest, self.cost(spent) or 0.0)

    def save(self) -> None:
        """Count in the ledger what was sent without an answer; the rest is counted with the answers."""
        self.ledger.spend(Spending(requests=self._unsaved))
        self._unsaved = 0

    def _guess(self, n_characters: int) -> float:
        longest = self._own.max_tokens or self._own.max_completion_tokens or _USUAL_ANSWER
        return self.cost(Spending(1, 1, math.ceil(n_characters / CHARACTERS_PER_TOKEN), longest)) or 0.0

    def stop(self, limit: str) -> LimitReached:
        """The error at a limit, with what is spent by now."""
        spent, cost = self._spent, self.cost(self._spent)
        money = "" if cost is None else f", {cost:.4g} spent"
        return LimitReached(
            f"the limit {limit} is reached ({spent.requests:,} requests{money})",
            limit=limit,
            model=self._name,
            hint="raise it and continue with --resume: what was answered is kept and not asked again",
        )

    def forecast(self, n_requests: int, n_characters: int) -> Forecast:
        """What so many requests with so many characters altogether would take, judged by those so far."""
        seen = self._spent
        rate = seen.input_tokens / self._characters if self._characters else 1 / CHARACTERS_PER_TOKEN
        per_answer = seen.output_tokens / seen.answers if seen.answers else _USUAL_ANSWER
        tokens = Spending(n_requests, n_requests, math.ceil(n_characters * rate), math.ceil(n_requests * per_answer))
        cost, own = self.cost(tokens), self._own
        stops = None
        if own.max_requests is not None and n_requests > own.max_requests:
            stops = f"max_requests: {own.max_requests:,}"
        elif own.max_cost is not None and cost is not None and cost > own.max_cost:
            stops = f"max_cost: {own.max_cost:g}"
        return Forecast(n_requests, tokens.input_tokens, tokens.output_tokens, cost, stops)


def _tokens(usage: Any, sent: int, received: int) -> Spending:
    """Tokens as the endpoint counts them, or about so many."""
    counts = usage if isinstance(usage, Mapping) else {}
    found = [counts.get(name) for name in ("prompt_tokens", "completion_tokens")]
    whole = [n for n in found if isinstance(n, int) and not isinstance(n, bool) and n >= 0]
    if len(whole) == 2:
        return Spending(0, 1, *whole)
    return Spending(0, 1, math.ceil(sent / CHARACTERS_PER_TOKEN), math.ceil(received / CHARACTERS_PER_TOKEN), guessed=1)
