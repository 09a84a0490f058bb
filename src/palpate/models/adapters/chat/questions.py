"""The messages that are sent: one question per text (or per text and label), and per sample."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from palpate.cases.hashing import KEY_BYTES
from palpate.models.adapters.chat.examples import Example
from palpate.models.adapters.chat.options import ChatOptions
from palpate.privacy import hides

FIELD = re.compile(r"\{(text|label)\}")


@hides("text")
class ChatQuestion(NamedTuple):
    """One request."""

    row: int
    text: str
    labels: tuple[int, ...]
    """The columns that the answer is about: all of them where answers are JSON."""
    sample: int
    case: str
    key: bytes


def question_key(key: bytes, first_label: int, sample: int) -> bytes:
    """The key of one request about an input."""
    return hashlib.blake2b(b"%d %d " % (first_label, sample) + key, digest_size=KEY_BYTES).digest()


@dataclass(frozen=True)
class Questions:
    """How questions are put."""

    own: ChatOptions
    labels: tuple[str, ...]
    schema: dict[str, Any] | None
    examples: tuple[Example, ...] = ()

    @cached_property
    def asked_together(self) -> list[tuple[int, ...]]:
        """The labels of each question about a text."""
        columns = range(len(self.labels))
        return [tuple(columns)] if self.schema is not None else [(column,) for column in columns]

    @property
    def per_text(self) -> int:
        """Questions about one text."""
        return len(self.asked_together) * self.own.samples

    def about(self, row: int, text: str, case: str, key: bytes) -> list[ChatQuestion]:
        """Everything that is asked about one text."""
        return [
            ChatQuestion(row, text, columns, sample, case, question_key(key, columns[0], sample))
            for columns in self.asked_together
            for sample in range(self.own.samples)
        ]

    @cached_property
    def shown_before(self) -> tuple[str, ...]:
        """Texts and answers of the examples."""
        return tuple(part for example in self.examples for part in (example.text, example.answer))

    def request(self, question: ChatQuestion) -> tuple[dict[str, Any], int]:
        """The request, in which only what is set is sent, and how many characters its messages have."""
        own, messages = self.own, self.messages(question.text, question.labels)
        message: dict[str, Any] = {"model": own.model, "messages": messages}
        for name in ("temperature", "max_tokens", "max_completion_tokens"):
            if getattr(own, name) is not None:
                message[name] = getattr(own, name)
        if own.seed is not None:
            message["seed"] = own.seed + question.sample
        if own.parser == "logprobs":
            message |= {"logprobs": True, "top_logprobs": own.top_logprobs}
        if self.schema is not None and own.send_schema != "none":
            message |= _with_schema(self.schema, own.send_schema)
        return message | own.extra_body, _characters(messages)

    def messages(self, text: str, columns: Sequence[int]) -> list[dict[str, str]]:
        """System message, examples, question."""
        label = self.labels[columns[0]] if len(columns) == 1 else ""
        said = [] if self.own.system is None else [{"role": "system", "content": self.own.system}]
        for example in self.examples:
            if example.label is None or example.label == label or len(columns) > 1:
                said.append({"role": "user", "content": self._prompt(example.text, label)})
                said.append({"role": "assistant", "content": example.answer})
        return [*said, {"role": "user", "content": self._prompt(text, label)}]

    def _prompt(self, text: str, label: str) -> str:
        # In one pass, so that a note that contains "{label}" stays as it is.
        values = {"text": text, "label": label}
        return FIELD.sub(lambda found: values[found[1]], self.own.prompt)

    def n_characters(self, text: str, columns: Sequence[int]) -> int:
        """Characters of everything that is sent with a question."""
        return _characters(self.messages(text, columns))


def _characters(messages: Sequence[dict[str, str]]) -> int:
    return sum(len(each["content"]) for each in messages)


def _with_schema(schema: dict[str, Any], where: str) -> dict[str, Any]:
    if where == "guided_json":
        return {"guided_json": schema}
    if where == "structured_outputs":
        return {"structured_outputs": {"json": schema}}
    named = {"name": "answer", "schema": schema, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": named}}
