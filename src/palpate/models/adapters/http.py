"""`http://HOST/PATH` and `https://HOST/PATH`: a model behind an endpoint of your own.

What the endpoint must answer:

    POST {"texts": ["...", "..."]}   ->  {"probabilities": [[0.1, 0.7], [0.2, 0.4]], "labels": ["a", "b"]}

One row per text, one number in [0, 1] per label; with one label, `[0.1, 0.2]` is enough. `labels` is optional.
A two-class model gives the probability of its positive class only. With `missing: report`, a null is a missing score.

Labels are those of the option `labels`; without it, those that the endpoint names in answer to a `GET`
(`{"labels": [...]}`); without those, there is one label called "positive".

An endpoint can change behind its URL without palpate noticing, so its scores are not reused by another run, unless its
version is stated:

    models:
      mine: {source: http://127.0.0.1:8000/predict, labels: [readmission], fingerprint: v3}

Headers are not part of the fingerprint, because they contain secrets. With `api: chat`, the endpoint is a language
model: see `palpate.models.adapters.chat`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from palpate.cases.edits import Inputs
from palpate.errors import ConfigError, parse_json
from palpate.models import Model, Probabilities
from palpate.models.adapters.chat import ChatOptions, chat_model, chat_url, check_chat, check_options
from palpate.models.adapters.remote import (
    MAY_CHANGE,
    Endpoint,
    RemoteOptions,
    checked_url,
    expanded_headers,
    tls_context,
)
from palpate.models.options import REPORT_MISSING, checked_by, digest, parse_options
from palpate.privacy import hides

VERSION = "http-1"


class HttpOptions(RemoteOptions):
    """Options of an endpoint that gives probabilities."""

    api: Literal["probabilities"] = "probabilities"
    """`probabilities`: the exchange above. `chat`: an OpenAI-compatible chat endpoint."""
    batch_size: int | None = Field(default=16, ge=1)
    """Texts in one request."""


@hides("texts")
class _Request(NamedTuple):
    texts: list[str]
    case_ids: list[str]


class HttpModel(Model):
    """A model that answers over HTTP."""

    def __init__(self, endpoint: Endpoint, options: HttpOptions, *, labels: tuple[str, ...], fingerprint: str):
        self.labels, self.fingerprint = labels, fingerprint
        self.may_change = MAY_CHANGE if options.fingerprint is None else None
        self._endpoint = endpoint
        self._batch_size = options.batch_size or 16
        self.rows_per_call = self._batch_size * options.concurrency

    def predict(self, inputs: Inputs) -> Probabilities:
        """Probabilities from as many requests as the texts need, several of them at the same time."""
        texts, case_ids = inputs.texts, list(inputs.case_ids)
        size = self._batch_size
        requests = [
            _Request(texts[first : first + size], case_ids[first : first + size])
            for first in range(0, len(texts), size)
        ]
        answers = self._endpoint.map(self._ask, requests)
        return np.concatenate([np.zeros((0, len(self.labels))), *answers])

    def close(self) -> None:
        """Close the connections."""
        self._endpoint.close()

    async def _ask(self, request: _Request) -> Probabilities:
        # An error that concerns the whole request names its first case, so that it can be found again.
        case = request.case_ids[0]
        answer = await self._endpoint.post({"texts": request.texts}, case=case)
        rows = answer.get("probabilities") if isinstance(answer, dict) else None
        if not isinstance(rows, list):
            raise self._endpoint.error("the answer has no list 'probabilities'", case=case)
        self._check_labels(answer.get("labels"), case)
        if len(rows) != len(request.texts):
            raise self._endpoint.error(f"the answer has {len(rows)} rows for {len(request.texts)} texts", case=case)
        table = np.empty((len(rows), len(self.labels)))
        for i, row in enumerate(rows):
            table[i] = self._row(row, request.case_ids[i])
        return table

    def _check_labels(self, names: Any, case: str) -> None:
        """The answer's names may differ from the option's, which renames columns, but their order may not."""
        given = tuple(map(str, names)) if isinstance(names, list) else self.labels
        if given != self.labels and set(given) == set(self.labels):
            raise self._endpoint.error("the answer has the labels in a different order", case=case)

    def _row(self, row: Any, case: str) -> list[float]:
        values = row if isinstance(row, list) else [row]
        if len(values) != len(self.labels):
            raise self._endpoint.error(
                f"the answer has {len(values)} numbers for {len(self.labels)} labels",
                case=case,
                hint="the option `labels` names the columns of the answer",
            )
        return [self._number(value, case) for value in values]

    def _number(self, value: Any, case: str) -> float:
        """One probability; null and NaN are a missing one."""
        if value is None or value != value:
            if self.may_miss:
                return float("nan")
            problem = f"the answer contains {'null' if value is None else 'NaN'} instead of a probability"
            raise self._endpoint.error(problem, case=case, hint=REPORT_MISSING)
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not 0 <= value <= 1:
            raise self._endpoint.error("the answer contains a value that is not a probability", case=case)
        return float(value)


def check(target: str, options: Mapping[str, Any], *, folder: Path) -> HttpOptions | ChatOptions:
    """The options, if they and the address are right; nothing is sent."""
    return _checked(f"http:{target}", options, folder)


def check_https(target: str, options: Mapping[str, Any], *, folder: Path) -> HttpOptions | ChatOptions:
    """The same for `https:`."""
    return _checked(f"https:{target}", options, folder)


@checked_by(check)
def load(target: str, options: Mapping[str, Any], *, folder: Path) -> Model:
    """The model at `http:TARGET`."""
    return _load(f"http:{target}", options, folder)


@checked_by(check_https)
def load_https(target: str, options: Mapping[str, Any], *, folder: Path) -> Model:
    """The model at `https:TARGET`."""
    return _load(f"https:{target}", options, folder)


def _checked(url: str, options: Mapping[str, Any], folder: Path) -> HttpOptions | ChatOptions:
    own: HttpOptions | ChatOptions
    if options.get("api") == "chat":
        own = check_options(url, options)
        if own.labels is not None or not (own.parser == "json" or "{label}" in own.prompt or own.examples):
            check_chat(url, options, folder)  # otherwise once the cohort's labels are known
    else:
        chats = [name for name in ("model", "prompt", "parser", "system") if name in options]
        if chats and "api" not in options:
            problem = f"option '{chats[0]}' of {url} is for a language model, and `api: chat` is missing"
            raise ConfigError(problem, hint="add `api: chat`", at=(chats[0],))
        if options.get("api") not in (None, "probabilities"):
            raise ConfigError(f"option 'api' of {url} must be 'probabilities' or 'chat'", at=("api",))
        own = parse_options(HttpOptions, url, options)
    expanded_headers(own.headers)
    tls_context(checked_url(url, allow_remote=own.allow_remote), own.ca, folder or Path())
    return own


def _load(url: str, options: Mapping[str, Any], folder: Path) -> Model:
    own = _checked(url, options, folder)
    if isinstance(own, ChatOptions):
        url = chat_url(url)
        return chat_model(Endpoint(url, own, folder), *check_chat(url, options, folder), url)
    endpoint = Endpoint(url, own, folder)
    labels = own.labels or _labels_of(endpoint)
    answer_options = {"url": url, "labels": labels, "fingerprint": own.fingerprint}
    return HttpModel(endpoint, own, labels=labels, fingerprint=digest(VERSION, answer_options))


def _labels_of(endpoint: Endpoint) -> tuple[str, ...]:
    status = endpoint.get()
    try:
        answer = parse_json(status.body) if status.code == 200 else None
    except ValueError:
        answer = None
    names = answer.get("labels") if isinstance(answer, dict) else None
    return tuple(map(str, names)) if isinstance(names, list) and names else ("positive",)
