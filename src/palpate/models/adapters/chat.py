"""`api: chat`: a language model behind an OpenAI-compatible chat endpoint, asked one question per text and label.

    models:
      llm:
        source: http://127.0.0.1:8000/v1/chat/completions
        api: chat
        model: llama-3.1-8b-instruct
        system: You are a careful physician. Answer with yes or no.
        prompt: "{text}\\n\\nWill this patient be readmitted within 30 days?"
        parser: logprobs

`parser` is how an answer becomes a probability:

- `yes-no`: 1 or 0.
- `number`: the first number in the answer, which must be in [0, 1]; "85%" is 0.85.
- `logprobs`: P(yes) / (P(yes) + P(no)), from the alternatives that the endpoint gives for the first token.
- anything else is a regular expression, whose first group is read as a number or as yes or no.

An answer that can't be parsed is an error that names the case. The answer is not quoted, since it may repeat the
note, unless `debug_answers: true`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from palpate.cases.edits import Inputs
from palpate.errors import ConfigError
from palpate.models import Model, Probabilities
from palpate.models.adapters.remote import MAY_CHANGE, Endpoint, RemoteOptions
from palpate.models.options import digest, parse_options
from palpate.privacy import hides

VERSION = "chat-1"

_PARSERS = ("yes-no", "number", "logprobs")
_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)
_YES_OR_NO = re.compile(r"\b(yes|no)\b", re.IGNORECASE)
_NUMBER = re.compile(r"[-+]?(?:\d+(?:[.,]\d+)?|\.\d+)(?:[eE][-+]?\d+)?")
_FIELD = re.compile(r"\{(text|label)\}")


class ChatOptions(RemoteOptions):
    """Options of a chat endpoint."""

    api: Literal["chat"]
    model: str
    """The name under which the endpoint knows the model."""
    prompt: str
    """The question, with `{text}`, and with `{label}` if there are several labels."""
    system: str | None = None
    """The system message before the question."""
    parser: str = "yes-no"
    """`yes-no`, `number`, `logprobs`, or a regular expression with a group."""
    temperature: float = Field(default=0.0, ge=0)
    """0: the likeliest answer, the same every time as far as the endpoint allows."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Tokens in the answer; default: 16, or 1 with `logprobs`."""
    seed: int | None = 0
    """Passed to the endpoint; null leaves it out."""
    top_logprobs: int = Field(default=20, ge=2)
    """With `logprobs`: how many alternatives to request."""
    batch_size: int | None = Field(default=64, ge=1)
    """Texts in one call of the runner; each request has one."""
    debug_answers: bool = False
    """Quote answers that can't be parsed in the error; they may contain text of the note."""


@hides("text")
class _Question(NamedTuple):
    text: str
    label: str
    case: str


class _Unreadable(Exception):
    """The message says why, without the answer."""


class ChatModel(Model):
    """A chat endpoint as a classifier."""

    def __init__(self, endpoint: Endpoint, options: ChatOptions, *, labels: tuple[str, ...], fingerprint: str):
        self.labels, self.fingerprint = labels, fingerprint
        self.may_change = MAY_CHANGE if options.fingerprint is None else None
        self.rows_per_call = options.batch_size or 64
        self._endpoint, self._options = endpoint, options

    def predict(self, inputs: Inputs) -> Probabilities:
        """One request per text and label."""
        questions = [
            _Question(text, label, case)
            for text, case in zip(inputs.texts, inputs.case_ids, strict=True)
            for label in self.labels
        ]
        answers = self._endpoint.map(self._ask, questions)
        return np.asarray(answers, dtype=np.float64).reshape(len(inputs), len(self.labels))

    def close(self) -> None:
        """Close the connections."""
        self._endpoint.close()

    async def _ask(self, question: _Question) -> float:
        answer = await self._endpoint.post(self._message(question), case=question.case)
        try:
            choice = answer["choices"][0]
            content = choice["message"]["content"] or ""
            logprobs = choice["logprobs"]["content"] if self._options.parser == "logprobs" else []
        except (KeyError, IndexError, TypeError):
            wanted = " with logprobs" if self._options.parser == "logprobs" else ""
            raise self._endpoint.error(f"the answer is not a chat completion{wanted}", case=question.case) from None
        try:
            if self._options.parser == "logprobs":
                return probability_of_yes(logprobs)
            return parsed(str(content), self._options.parser)
        except _Unreadable as problem:
            quoted = f": {content!r}" if self._options.debug_answers else ""
            raise self._endpoint.error(
                f"{problem}{quoted}",
                case=question.case,
                hint="check prompt, parser and max_tokens; debug_answers: true shows the answer",
            ) from None

    def _message(self, question: _Question) -> dict[str, Any]:
        own = self._options
        # In one pass, so that a note that contains "{label}" stays as it is.
        values = {"text": question.text, "label": question.label}
        prompt = _FIELD.sub(lambda found: values[found[1]], own.prompt)
        system = [{"role": "system", "content": own.system}] if own.system is not None else []
        message: dict[str, Any] = {
            "model": own.model,
            "messages": [*system, {"role": "user", "content": prompt}],
            "temperature": own.temperature,
            "max_tokens": own.max_tokens or (1 if own.parser == "logprobs" else 16),
        }
        if own.seed is not None:
            message["seed"] = own.seed
        if own.parser == "logprobs":
            message |= {"logprobs": True, "top_logprobs": own.top_logprobs}
        return message


def check_chat(url: str, options: Mapping[str, Any]) -> ChatOptions:
    """The options, if they are right; nothing is sent."""
    own = parse_options(ChatOptions, url, options)
    fields, n_labels = set(_FIELD.findall(own.prompt)), len(own.labels or ("positive",))
    if "text" not in fields:
        raise ConfigError(f"model option 'prompt' of {url} has no {{text}}, so the model would not see the note")
    if n_labels > 1 and "label" not in fields:
        raise ConfigError(f"model option 'prompt' of {url} has no {{label}}, but there are {n_labels} labels")
    _check_parser(own.parser, url)
    return own


def chat_model(endpoint: Endpoint, own: ChatOptions, url: str) -> ChatModel:
    """The model behind a chat endpoint."""
    labels = own.labels or ("positive",)
    answers = ("model", "prompt", "system", "parser", "temperature", "max_tokens", "seed", "top_logprobs")
    answer_options = {name: getattr(own, name) for name in answers}
    answer_options |= {"url": url, "labels": labels, "fingerprint": own.fingerprint}
    return ChatModel(endpoint, own, labels=labels, fingerprint=digest(VERSION, answer_options))


def _check_parser(parser: str, url: str) -> None:
    try:
        usable = parser in _PARSERS or re.compile(parser).groups >= 1
    except re.error:
        usable = False
    if not usable:
        raise ConfigError(
            f"model option 'parser' of {url}: '{parser}' is neither {', '.join(_PARSERS)} nor a regular "
            "expression with a group"
        )


def parsed(answer: str, parser: str) -> float:
    """The probability that an answer states; reasoning in <think> tags is left out."""
    answer = _THOUGHT.sub("", answer)
    if parser == "yes-no":
        return _yes_or_no(answer)
    if parser == "number":
        return _number(answer)
    found = re.search(parser, answer)
    if found is None or found[1] is None:
        raise _Unreadable("the regular expression does not match the answer")
    return _number(found[1]) if any(map(str.isdigit, found[1])) else _yes_or_no(found[1])


def _yes_or_no(answer: str) -> float:
    """1 or 0; an answer with both words ("I have no doubt: yes") is unclear, unless it starts with one of them."""
    words = [word.lower() for word in _YES_OR_NO.findall(answer)]
    first = re.match(r"\W*(yes|no)\b", answer, re.IGNORECASE)
    if not words or (len(set(words)) > 1 and first is None):
        raise _Unreadable("the answer is neither yes nor no")
    return 1.0 if words[0] == "yes" else 0.0


def _number(answer: str) -> float:
    found = _NUMBER.search(answer)
    if found is None:
        raise _Unreadable("the answer contains no number")
    behind = answer[found.end() :].lstrip(" *_`")
    value = float(found[0].replace(",", "."))
    if behind.startswith(("%", "percent")):
        value /= 100
    if behind.startswith("/") or not 0 <= value <= 1:
        raise _Unreadable("the first number in the answer is not a probability")
    return value


def probability_of_yes(tokens: Any) -> float:
    """P(yes) / (P(yes) + P(no)) at the first token, ignoring case and a leading space."""
    mass = {"yes": 0.0, "no": 0.0}
    try:
        for alternative in tokens[0]["top_logprobs"]:
            word = str(alternative["token"]).strip(" \n\t▁Ġ\"'*").lower()
            if word in mass:
                mass[word] += math.exp(float(alternative["logprob"]))
    except (KeyError, IndexError, TypeError, ValueError, OverflowError):
        raise _Unreadable("the answer has no top_logprobs for its first token") from None
    total = mass["yes"] + mass["no"]
    if not total > 0:
        raise _Unreadable("neither yes nor no is among the alternatives of the first token")
    return mass["yes"] / total
