"""`api: chat`: a language model behind an OpenAI-compatible chat endpoint, asked about each text.

    models:
      llm:
        source: http://127.0.0.1:8000/v1
        api: chat
        model: llama-3.1-8b-instruct
        system: You are a careful physician. Answer with yes or no.
        prompt: "{text}\\n\\nWill this patient be readmitted within 30 days?"
        parser: logprobs

`parser` is how an answer becomes a probability:

- `yes-no`: the choice that the whole answer makes (`choices`), 1 or 0.
- `number`: the first number in the answer, which must be in [0, 1]; "85%" is 0.85.
- `logprobs`: P(yes) / (P(yes) + P(no)), from the alternatives that the endpoint gives for the first token.
- `json`: an object with a number, true or false, or a choice for each label; one question for all labels.
- anything else is a regular expression, whose first group is read as a number or as a choice.

A refusal and an answer that can't be read are outcomes of their own, which are counted and reported. No answer is
quoted or stored, since it may repeat the note; `debug_answers: true` quotes one in an error.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from palpate.cases.edits import Inputs
from palpate.cases.hashing import case_key, key_of
from palpate.errors import ConfigError, LimitReached, ModelError
from palpate.models import Model, Probabilities
from palpate.models.adapters.chat.budget import AskingBudget
from palpate.models.adapters.chat.combining import Combined, combined, packed, unpacked
from palpate.models.adapters.chat.examples import read_examples
from palpate.models.adapters.chat.options import OURS, PARSERS, ChatOptions, schema_of
from palpate.models.adapters.chat.questions import FIELD, ChatQuestion, Questions, question_key
from palpate.models.adapters.chat.reading import (
    AnswerReading,
    NotAChat,
    content_of,
    nothing,
    readings,
    silent_so_far,
)
from palpate.models.adapters.chat.refusals import filtered, too_long
from palpate.models.adapters.chat.shapes import ChatAnswer, NeverAChat, Shapes
from palpate.models.adapters.remote import MAY_CHANGE, Endpoint, Status, Told
from palpate.models.adapters.remote.said import error_of
from palpate.models.ledger import Forecast, Ledger, Spending
from palpate.models.options import digest, parse_options
from palpate.results.plan import AnswerKind, Outcomes

__all__ = ["ChatModel", "ChatOptions", "chat_model", "chat_url", "check_chat", "check_options"]

VERSION = "chat-6"
_CALLS_PER_CONNECTION = 64
"""Questions in one call of the runner for each that is in flight: the last ones of a call leave connections idle."""
_MADE_AT_ONCE = 8
_NOTHING_READ = 100
"""If none of so many first answers about texts of some length says anything, the run ends: the prompt is wrong."""
_SOME_LENGTH = 20
_BASE = re.compile(r"/v\d+\w*(?:/openai)?\Z")
"""Where the addresses of an API's base end."""
_SAMPLES = "use `parser: yes-no` with `samples`, or an endpoint that gives logprobs"
_HINTS = {
    "temperature": "leave `temperature` out, or change it",
    "seed": "leave `seed` out",
    "response_format": "`send_schema: none` leaves it out; older versions of vLLM take `send_schema: guided_json`",
    "top_logprobs": "lower `top_logprobs`, or use `parser: yes-no` with `samples`",
    "logprobs": _SAMPLES,
    "max_tokens": "leave `max_tokens` out, or change it",
}
"""What to do about a parameter that an endpoint does not take."""
_FREE = {"prompt_tokens": 0, "completion_tokens": 0}


class ChatModel(Model):
    """A chat endpoint as a classifier."""

    asked_here = True

    def __init__(self, endpoint: Endpoint, questions: Questions, *, fingerprint: str):
        own = questions.own
        self.labels, self.fingerprint = questions.labels, fingerprint
        self.may_change = MAY_CHANGE if own.fingerprint is None else None
        self.may_miss = "missing" in (own.policy(refused=True), own.policy(refused=False))
        self.draws = own.varies
        self.rows_per_call = own.batch_size or max(1, _CALLS_PER_CONNECTION * own.concurrency // questions.per_text)
        self._endpoint, self._questions, self._own = endpoint, questions, own
        self._budget = AskingBudget(own, endpoint.name)
        self._n_answers = self._n_read = 0
        self._outcomes = Counter[tuple[AnswerKind, str]]()
        self._told = Told()
        self._shapes = Shapes(with_logprobs=own.parser == "logprobs")

    def predict(self, inputs: Inputs) -> Probabilities:
        """The answers that are not known yet are asked for; each is stored as it comes."""
        self._told = Told((*inputs.texts, *self._questions.shown_before), (*OURS, self._own.model))
        asked: list[ChatQuestion] = []
        known: dict[bytes, bytes] = {}
        todo: list[int] = []
        try:
            found = self._endpoint.map(self._ask, self._unanswered(inputs, asked, known, todo), finish=True)
            self._shapes.end()
        except NeverAChat as never:
            raise self._no_chat(never.answer) from None
        except LimitReached as reached:  # which was when others were in flight
            raise self._budget.stop(reached.limit) from None
        finally:
            self._budget.save()
        answers = dict(zip(todo, found, strict=True))
        read = [answers[k] if k in answers else unpacked(known[each.key]) for k, each in enumerate(asked)]
        return self._combine(read, len(inputs)).p

    def _unanswered(
        self, inputs: Inputs, asked: list[ChatQuestion], known: dict[bytes, bytes], todo: list[int]
    ) -> Iterator[tuple[int, ChatQuestion]]:
        """Questions to be asked, with their numbers; made a few at a time, while others are being answered.

        All questions are added to `asked`, answers that are known to `known`, the numbers of the others to `todo`.
        """
        rows = enumerate(zip(inputs.texts, inputs.case_ids, inputs.cohorts, strict=True))
        while some := list(islice(rows, _MADE_AT_ONCE)):
            first = len(asked)
            for row, (text, case, cohort) in some:
                asked += self._questions.about(row, text, case, self._key(text, case, cohort))
            known |= self._budget.ledger.known([question.key for question in asked[first:]])
            self._shapes.spoken |= bool(known)
            for k in range(first, len(asked)):
                if asked[k].key not in known:
                    todo.append(k)
                    yield k, asked[k]

    def _key(self, text: str, case: str, cohort: str) -> bytes:
        """The runner's key of an input."""
        return case_key(cohort, case, key_of(text)) if self.draws else key_of(text)

    def _combine(self, read: Sequence[Sequence[AnswerReading]], n: int) -> Combined:
        """Answers in the order of `Questions.about`, as one row per text."""
        return combined(read, n, self._questions.asked_together, self._own)

    # -- asking -----------------------------------------------------------------------------------------

    async def _ask(self, numbered: tuple[int, ChatQuestion]) -> list[AnswerReading]:
        number, question = numbered
        message, sent = self._questions.request(question)
        try:
            status = await self._endpoint.exchange(
                message,
                case=question.case,
                told=self._told,
                before=lambda: self._budget.send(number, sent),
            )
            async with self._endpoint.one_at_a_time:
                answer = self._read(status, question, sent)
                for each in self._shapes.settled(answer):
                    self._budget.answered(
                        each.question.key, packed(each.found), each.usage, sent=each.sent, received=len(each.content)
                    )
                    self._check(each)
        finally:
            self._budget.done(number)
        return list(answer.found)

    def _read(self, status: Status, question: ChatQuestion, sent: int) -> ChatAnswer:
        """What an answer says about each label, and its tokens."""
        columns = question.labels
        for kind, is_so in ((AnswerKind.REFUSED, filtered), (AnswerKind.TOO_LONG, too_long)):
            if not status.good and is_so(status):
                found = [nothing(kind, "the note is too long for the model")] * len(columns)
                return ChatAnswer(question, sent, found, _FREE, "")
        if not status.good:
            hint = _hint(status.code, " ".join(error_of(status.body)))
            raise self._endpoint.refused(status, case=question.case, told=self._told, hint=hint)
        answer = self._endpoint.parsed(status, case=question.case)
        if isinstance(answer, dict) and "error" in answer and "choices" not in answer:  # with a status that says fine
            raise self._endpoint.refused(status, case=question.case, told=self._told)
        usage = answer.get("usage") if isinstance(answer, dict) else None
        try:
            found = readings(answer, self._own, [self.labels[column] for column in columns])
            _, content, _ = content_of(answer, with_logprobs=False)
        except NotAChat as problem:
            lost = [nothing(AnswerKind.UNREADABLE, str(problem))] * len(columns)
            return ChatAnswer(question, sent, lost, usage, "", str(problem))
        return ChatAnswer(question, sent, found, usage, content)

    def _no_chat(self, answer: ChatAnswer) -> ModelError:
        """No answer of the first ones has the right shape."""
        problem = answer.misshapen or ""
        hint = _SAMPLES if "log-prob" in problem else "the URL must be that of /v1/chat/completions"
        return self._endpoint.error(problem, case=answer.question.case, hint=hint)

    def _check(self, answer: ChatAnswer) -> None:
        """End the run where a refusal is an error, or where no answer can be read at all."""
        found, question, content = answer.found, answer.question, answer.content
        self._n_read += any(each.outcome == AnswerKind.ANSWERED for each in found)
        self._n_answers += len(question.text) >= _SOME_LENGTH
        for each in found:
            self._outcomes[each.outcome, each.why] += 1
            refused = each.outcome == AnswerKind.REFUSED
            if each.outcome != AnswerKind.ANSWERED and self._own.policy(refused=refused) == "error":
                problem = "the model refused to answer" if refused else each.why
                raise self._no_answer(problem, question.case, content)
        if not self._n_read and self._n_answers >= _NOTHING_READ:
            why = next(each.why for each in found) or "the model refused"
            raise self._no_answer(f"none of the first {_NOTHING_READ} answers says anything: {why}", None, content)

    def _no_answer(self, problem: str, case: str | None, content: str) -> ModelError:
        quoted = f": {content!r}" if self._own.debug_answers else ""
        option = "`refusal: missing` counts it" if "refused" in problem else "`unreadable: missing` counts it"
        hint = f"check prompt, parser and max_tokens; debug_answers: true shows the answer, {option}"
        return self._endpoint.error(f"{problem}{quoted}", case=case or "(several)", hint=hint)

    # -- what was answered, and what it cost ------------------------------------------------------------------

    def use(self, ledger: Ledger) -> None:
        """Store answers there from now on."""
        self._budget.use(ledger)

    def outcomes(self, keys: Sequence[bytes]) -> Outcomes:
        """What came of asking, by the runner's keys of the inputs."""
        own, groups = self._own, self._questions.asked_together
        wanted = [
            question_key(key, columns[0], sample) for key in keys for columns in groups for sample in range(own.samples)
        ]
        known = self._budget.ledger.known(wanted)
        lost = nothing(AnswerKind.UNREADABLE)
        sizes = [len(columns) for _ in keys for columns in groups for _ in range(own.samples)]
        read = [
            unpacked(known[key]) if key in known else [lost] * size for key, size in zip(wanted, sizes, strict=True)
        ]
        found = self._combine(read, len(keys))
        per_key = len(groups) * own.samples
        there = np.asarray([key in known for key in wanted], bool).reshape(len(keys), per_key)
        kind = np.where(there.all(axis=1, keepdims=True), found.kind, np.int8(-1)).astype(np.int8)
        return Outcomes(kind, found.mass, found.noise, own.samples)

    def spent(self) -> Spending:
        """What this run has spent."""
        return self._budget.spent

    def cost(self, spent: Spending) -> float | None:
        """What that cost; None without `price`."""
        return self._budget.cost(spent)

    def forecast(self, n_texts: int, n_characters: int) -> Forecast:
        """What asking about so many texts would take, from what was asked so far."""
        groups, samples = self._questions.asked_together, self._own.samples
        around = sum(self._questions.n_characters("", columns) for columns in groups) * samples
        repeated = len(FIELD.findall(self._own.prompt)) and self._own.prompt.count("{text}")
        per_text = len(groups) * samples
        ahead = self._budget.forecast(n_texts * per_text, n_texts * around + n_characters * per_text * repeated)
        return ahead._replace(silent=silent_so_far(self._outcomes))

    def close(self) -> None:
        """Close the connections."""
        self._endpoint.close()


def _hint(code: int, said: str) -> str | None:
    """What to do about an error that endpoints are known for."""
    if "max_completion_tokens" in said:
        return "set `max_completion_tokens` in place of `max_tokens`"
    for name, hint in _HINTS.items():
        if name in said and re.search("support|unrecogni|unknown|permitted|allowed|invalid", said, re.IGNORECASE):
            return hint
    if code in (401, 403):
        return 'give the key as `headers: {Authorization: "Bearer ${NAME}"}`'
    if code in (404, 405):
        return "the URL must end in /v1 or /v1/chat/completions, and `model` must be one that the endpoint has"
    return None


# --- loading ------------------------------------------------------------------------------------------------


def chat_url(url: str) -> str:
    """The address that is asked: `http://HOST` and `http://HOST/v1` are short for `http://HOST/v1/chat/completions`."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return url
    path = parsed.path.rstrip("/")
    if path and not _BASE.search(path):
        return url
    return str(parsed.copy_with(path=f"{path or '/v1'}/chat/completions"))


def check_chat(url: str, options: Mapping[str, Any], folder: Path | None) -> tuple[ChatOptions, Questions]:
    """The options and the questions, if they are right; nothing is sent."""
    own = check_options(url, options)
    labels = own.labels or ("positive",)
    _check_prompt(own, len(labels), url)
    place = folder or Path()
    schema = schema_of(own, labels, place)
    examples = () if own.examples is None else read_examples(place / own.examples, labels, as_json=schema is not None)
    return own, Questions(own, labels, schema, examples)


def check_options(url: str, options: Mapping[str, Any]) -> ChatOptions:
    """The options, as far as they can be checked before the labels are known."""
    own = parse_options(ChatOptions, url, options)
    _check_parser(own.parser, url)
    _check_prompt(own, 1, url)
    return own


def _check_prompt(own: ChatOptions, n_labels: int, url: str) -> None:
    fields, at = set(FIELD.findall(own.prompt)), ("prompt",)
    if "text" not in fields:
        raise ConfigError(f"option 'prompt' of {url} has no {{text}}, so the model would not see the note", at=at)
    if n_labels > 1 and "label" not in fields and own.parser != "json":
        raise ConfigError(f"option 'prompt' of {url} has no {{label}}, but there are {n_labels} labels", at=at)
    if n_labels > 1 and "label" in fields and own.parser == "json":
        raise ConfigError(
            f"option 'prompt' of {url} has {{label}}, but with `parser: json` one answer is about all labels",
            hint="name the labels in the prompt",
            at=at,
        )


def chat_model(endpoint: Endpoint, own: ChatOptions, questions: Questions, url: str) -> ChatModel:
    """The model behind a chat endpoint."""
    asked = (
        *("model", "prompt", "system", "parser", "choices", "floor", "top_logprobs", "send_schema", "samples"),
        *("temperature", "max_tokens", "max_completion_tokens", "seed", "extra_body", "refusal", "unreadable"),
    )
    answer_options = {name: getattr(own, name) for name in asked}
    answer_options |= {"url": url, "labels": questions.labels, "fingerprint": own.fingerprint}
    answer_options |= {"schema": questions.schema, "examples": questions.examples}
    return ChatModel(endpoint, questions, fingerprint=digest(VERSION, answer_options))


def _check_parser(parser: str, url: str) -> None:
    try:
        usable = parser in PARSERS or re.compile(parser).groups >= 1
    except re.error:
        usable = False
    if not usable:
        raise ConfigError(
            f"option 'parser' of {url}: '{parser}' is neither {', '.join(PARSERS)} nor a regular expression with a "
            "group",
            at=("parser",),
        )
