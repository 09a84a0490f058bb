"""Answers that have not the shape of a chat completion: an outcome of a chat endpoint, an error of any other server.

A chat endpoint sends one now and then (no choices, no log-probabilities for one answer): it can't be read, and counts
so. A server that never sends another speaks no chat protocol. Until the first completion comes, the others are held.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from palpate.models.adapters.chat.questions import ChatQuestion
from palpate.models.adapters.chat.reading import AnswerReading
from palpate.privacy import hides
from palpate.results.plan import AnswerKind

_MOST_HELD = 20
"""If so many first answers have the wrong shape, no others are asked for."""


@hides("content", "question")
class ChatAnswer(NamedTuple):
    """An answer, with what was asked."""

    question: ChatQuestion
    sent: int
    """Characters of the question."""
    found: Sequence[AnswerReading]
    usage: Any
    content: str
    misshapen: str | None = None
    """What is wrong with its shape."""


class NeverAChat(Exception):
    """No answer has the right shape; `answer` is the first."""

    def __init__(self, answer: ChatAnswer) -> None:
        super().__init__(answer.misshapen)
        self.answer = answer


class Shapes:
    """Holds misshapen answers back until it is known that the endpoint speaks the protocol.

    A refusal shows that it does, but not that it gives log-probabilities.
    """

    def __init__(self, *, with_logprobs: bool) -> None:
        self.spoken = False
        self._with_logprobs = with_logprobs
        self._held: list[ChatAnswer] = []

    def settled(self, answer: ChatAnswer) -> list[ChatAnswer]:
        """Answers that count from now on."""
        if answer.misshapen is None:
            refused = all(each.outcome == AnswerKind.REFUSED for each in answer.found)
            self.spoken = self.spoken or not (refused and self._with_logprobs)
            settled, self._held = ([*self._held, answer], []) if self.spoken else ([answer], self._held)
            return settled
        if self.spoken:
            return [answer]
        self._held.append(answer)
        if len(self._held) >= _MOST_HELD:
            self.end()
        return []

    def end(self) -> None:
        """After the first call: what is still held was no chat."""
        if self._held:
            first, self._held = self._held[0], []
            raise NeverAChat(first)
