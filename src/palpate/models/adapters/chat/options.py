"""Options of `api: chat`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from palpate.errors import ConfigError, parse_json
from palpate.models.adapters.remote import RemoteOptions

PARSERS = ("yes-no", "number", "logprobs", "json")
OURS = ("model", "messages", "max_tokens", "max_completion_tokens", "temperature", "seed", "logprobs", "top_logprobs")
"""What `extra_body` may not say, because an option says it."""
Policy = Literal["missing", "negative", "error"]
_BOOLEANS = {True: "yes", False: "no"}
_SHORTEST_SAMPLE = 2


def _as_choices(value: Any) -> Any:
    """`[Ja, Nein]` is short for `{Ja: 1, Nein: 0}`; YAML reads a bare yes or no as true or false."""
    if isinstance(value, list | tuple):
        if len(value) != 2:
            raise ValueError("a list must be the positive and the negative choice; write more as `word: probability`")
        value = {value[0]: 1.0, value[1]: 0.0}
    if not isinstance(value, Mapping):
        return value
    named = {_BOOLEANS.get(word, str(word).strip()) if isinstance(word, bool) else str(word).strip(): p
             for word, p in value.items()}  # fmt: skip
    if len({word.casefold() for word in named}) < len(value):
        raise ValueError("two choices are the same word")
    if any(not re.search(r"\w", word) for word in named):
        raise ValueError("a choice must have a letter or digit")
    return named


def _as_text(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value if value is None else str(value)


class Price(BaseModel):
    """What an endpoint costs per million tokens, in any currency."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: float = Field(ge=0)
    """Of the prompt."""
    output: float = Field(ge=0)
    """Of the answer."""


Probability = Annotated[float, Field(ge=0, le=1)]


class ChatOptions(RemoteOptions):
    """Options of a chat endpoint. A parameter that is not set is not sent."""

    api: Literal["chat"]
    model: Annotated[str, BeforeValidator(_as_text), Field(min_length=1)]
    """The name under which the endpoint knows the model."""
    prompt: str
    """The question, with `{text}`, and with `{label}` if there are several labels."""
    system: str | None = None
    """The system message before the question."""
    examples: Path | None = None
    """Worked examples, sent before each question: a CSV, JSONL or YAML file with `text` and `answer`."""
    parser: str = "yes-no"
    """`yes-no`, `number`, `logprobs`, `json`, or a regular expression with a group."""
    choices: Annotated[dict[str, Probability], BeforeValidator(_as_choices)] = Field(
        default={"yes": 1.0, "no": 0.0}, min_length=2
    )
    """What `yes-no` and `logprobs` look for: `[Ja, Nein]`, or each word with its probability."""
    floor: float = Field(default=0.5, ge=0, lt=1)
    """With `logprobs`: choices that have less of the model's probability together are no answer."""
    top_logprobs: int = Field(default=20, ge=2)
    """With `logprobs`: how many alternatives to request."""
    answer_schema: dict[str, Any] | Path | None = None
    """With `json`: a JSON schema (or its file) with a property for each label; default: one made from the labels."""
    send_schema: Literal["response_format", "guided_json", "structured_outputs", "none"] = "response_format"
    """With `json`: the parameter that carries the schema; older versions of vLLM want `guided_json`."""
    samples: int = Field(default=1, ge=1, le=1000)
    """Answers per question; the probability is their mean."""
    refusal: Policy = "missing"
    """A refusal is a `missing` score, a `negative` answer (0), or an `error` that ends the run."""
    unreadable: Policy | None = None
    """The same for an answer that cannot be read, and for a note that is too long; default: as `refusal`."""
    temperature: float | None = Field(default=None, ge=0)
    """Sent only if set."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Tokens of the answer; sent only if set."""
    max_completion_tokens: int | None = Field(default=None, ge=1)
    """The same, as newer endpoints call it."""
    seed: int | None = None
    """Sent only if set; the samples of a question have seed, seed + 1, and so on."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Further parameters of the request, as they are."""
    price: Price | None = None
    """Per million tokens: `{input: 2.5, output: 10}`."""
    max_cost: float | None = Field(default=None, gt=0)
    """The run stops before it costs more, and can be resumed with a higher limit; needs `price`."""
    max_requests: int | None = Field(default=None, ge=1)
    """The run stops before it sends more requests, and can be resumed with a higher limit."""
    batch_size: int | None = Field(default=None, ge=1)
    """Texts in one call of the runner; each request has one."""
    debug_answers: bool = False
    """Quote answers that can't be read in errors; they may contain text of the note."""

    @model_validator(mode="after")
    def _fit(self) -> ChatOptions:
        if self.max_tokens is not None and self.max_completion_tokens is not None:
            raise ValueError("give `max_tokens` or `max_completion_tokens`, not both")
        if self.max_cost is not None and self.price is None:
            raise ValueError("`max_cost` needs `price: {input: ..., output: ...}`, per million tokens")
        if self.samples >= _SHORTEST_SAMPLE and self.temperature == 0:
            raise ValueError("`samples` with `temperature: 0` would ask for the same answer again; leave one out")
        if self.samples >= _SHORTEST_SAMPLE and self.parser == "logprobs":
            raise ValueError("`samples` is for answers that vary; log-probabilities are the same each time")
        if self.answer_schema is not None and self.parser != "json":
            raise ValueError("`answer_schema` needs `parser: json`")
        taken = [name for name in self.extra_body if name in OURS]
        if taken:
            raise ValueError(f"`extra_body` has `{taken[0]}`, which is an option of its own")
        if self.extra_body.get("stream"):
            raise ValueError("`extra_body` turns streaming on, but answers are read whole")
        if "n" in self.extra_body:
            raise ValueError("`extra_body` has `n`; several answers are asked for with `samples`")
        return self

    def policy(self, *, refused: bool) -> Policy:
        """What becomes of a refusal, or of an answer that cannot be read."""
        return self.refusal if refused or self.unreadable is None else self.unreadable

    @property
    def varies(self) -> bool:
        """Whether the same question may get another answer."""
        return self.parser != "logprobs" and self.temperature != 0


def schema_of(own: ChatOptions, labels: tuple[str, ...], folder: Path) -> dict[str, Any] | None:
    """The JSON schema of the answers; None where answers are not JSON."""
    if own.parser != "json":
        return None
    if own.answer_schema is None:
        risk = {"type": "number", "minimum": 0, "maximum": 1}
        return {
            "type": "object",
            "properties": {label: {**risk, "description": f"the probability of {label}"} for label in labels},
            "required": list(labels),
            "additionalProperties": False,
        }
    schema = _read(folder / own.answer_schema) if isinstance(own.answer_schema, Path) else own.answer_schema
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        raise ConfigError("`answer_schema` has no `properties`, so it is not the schema of an object", at=_AT)
    missing = [label for label in labels if label not in properties]
    if missing:
        has = ", ".join(map(str, list(properties)[:10])) or "none"
        raise ConfigError(
            f"`answer_schema` has no property for label '{missing[0]}'",
            hint=f"its properties are: {has}; the option `labels` of the model names those that count",
            at=_AT,
        )
    return dict(schema)


_AT = ("answer_schema",)


def _read(file: Path) -> Any:
    try:
        return parse_json(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(f"`answer_schema`: file not found: {file}", at=_AT) from None
    except (OSError, ValueError) as error:
        what = "is not JSON" if isinstance(error, ValueError) else "cannot be read"
        raise ConfigError(f"`answer_schema`: {file} {what}", at=_AT) from None
