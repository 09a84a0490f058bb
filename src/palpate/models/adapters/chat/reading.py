"""From a chat completion to probabilities: which outcome it is, and what it says about each label."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from palpate.models.adapters.chat.options import ChatOptions
from palpate.models.adapters.chat.refusals import declined, declined_before, declined_in_words
from palpate.models.adapters.chat.verdicts import Unreadable, plain, read_choice, without_thoughts
from palpate.results.plan import AnswerKind

_NUMBER = re.compile(r"[-+]?(?:\d+(?:[.,]\d+)?|\.\d+)(?:[eE][-+]?\d+)?")
_SCALE = re.compile(r"(?<![\d.,])0(?:[.,]0+)? ?%? ?(?:to|and|[-–—]) ?(?:1(?:[.,]0+)?|100) ?%?(?![\d.,]*\d)")
"""The scale, and not a place on it: "from 0 to 1"."""
_RANGE = re.compile(r"(?:%\s*)?(?:[-–—]|to\b|and\b)\s*[\d.]*\d")
_ODDS = re.compile(r"(\d+(?:[.,]\d+)?) ?(?:chances? )?(?:out of|in(?: every)?|of) ?(\d+(?:[.,]\d+)?)\b(?! ?%)")
""" "1 in 5", "3 out of 10"; "3/10" may be a day."""
_COUNT = re.compile(
    r" ?(?::|\.(?=\s)|\)|-?(?!percent|probab|likel|chance|risk|because|since|as|given|for|based|due|is|if|with|but|"
    r"and)[a-z])"
)
"""What follows a number that counts, numbers a list or names a day: "1 prior admission", "1. Risk", "1:4"."""
_CUT_NUMBER = re.compile(r"\d[.,]?\s*\Z")
"""An answer that ends in a number; if it is cut off, so may be the number."""
_OF_TEXT = ("text", "output_text", None)
_FENCED = re.compile(r"```[a-zA-Z]*\s*\n?(.*?)```", re.DOTALL)
_EDGES = " \n\r\t▁Ġ\"'*`.,:;!()[]"
_END_OF_THOUGHT = re.compile(r"</(?:think|thinking|reasoning)>")
_SHORTEST_PREFIX = 2


class AnswerReading(NamedTuple):
    """What one answer says about one label."""

    p: float
    """NaN where it says nothing."""
    outcome: AnswerKind
    mass: float = math.nan
    """The probability of all choices together, where log-probabilities tell."""
    why: str = ""
    """Why it could not be read, without the answer."""


def nothing(outcome: AnswerKind, why: str = "", mass: float = math.nan) -> AnswerReading:
    """An answer that says nothing."""
    return AnswerReading(math.nan, outcome, mass, why)


class NotAChat(Exception):
    """An answer has not the shape of a chat completion; the message says what is missing."""


def content_of(answer: Any, *, with_logprobs: bool) -> tuple[Mapping[str, Any], str, Any]:
    """The choice of a completion, its text, and its log-probabilities."""
    try:
        choices = answer["choices"]
        if choices == [] and "usage" in answer:  # a completion in which the model said nothing
            return {}, "", []
        choice = choices[0]
        message = choice["message"]
        if message is None and "finish_reason" in choice:
            message = {}
        content = _text_of(message.get("content"))
        if not with_logprobs or declined(choice):
            return choice, content, None
        tokens = (choice.get("logprobs") or {}).get("content")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise NotAChat("the answer is not a chat completion") from None
    if not isinstance(tokens, list):
        raise NotAChat("the answer has no log-probabilities")
    return choice, content, tokens


def _text_of(content: Any) -> str:
    """The text of a message: a string, or parts as some servers send them, of which thoughts are none of the answer."""
    if isinstance(content, list):
        parts = [{"text": part} if isinstance(part, str) else part for part in content]
        content = "".join(str(part.get("text") or "") for part in parts if part.get("type") in _OF_TEXT)
    if not isinstance(content, str | None):
        raise TypeError
    return content or ""


def readings(answer: Any, own: ChatOptions, labels: Sequence[str]) -> list[AnswerReading]:
    """What an answer says about each label that it was asked about."""
    choice, content, tokens = content_of(answer, with_logprobs=own.parser == "logprobs")
    if declined(choice):
        return [nothing(AnswerKind.REFUSED)] * len(labels)
    if own.parser == "logprobs":
        return [read_logprobs(tokens, own)] * len(labels)
    text = without_thoughts(content)
    cut = choice.get("finish_reason") == "length"
    if own.parser == "json":
        found = _from_json(text, own, labels)
    elif own.parser == "number" and cut and _CUT_NUMBER.search(text):
        found = [nothing(AnswerKind.UNREADABLE)] * len(labels)
    else:
        found = [_from_text(text, own)] * len(labels)
    return [each._replace(why=_why(each.why, choice, text, cut)) if each.why or cut else each for each in found]


def _why(why: str, choice: Mapping[str, Any], text: str, cut: bool) -> str:
    """Why an answer says nothing, by what the protocol tells about it."""
    if cut:
        spent = " by thinking" if not text.strip() else ""
        return f"the answer was cut off{spent} (finish_reason: length); raise max_tokens or max_completion_tokens"
    if text.strip():
        return why
    message = choice.get("message")
    calls = isinstance(message, Mapping) and message.get("tool_calls")
    return "the answer calls a tool and has no text" if calls else "the answer is empty"


def silent_so_far(outcomes: Mapping[tuple[AnswerKind, str], int]) -> str:
    """How many answers say nothing, and why most of them do; empty if all say something."""
    silent = {key: n for key, n in outcomes.items() if key[0] != AnswerKind.ANSWERED}
    if not silent:
        return ""
    refused = sum(n for (kind, _), n in silent.items() if kind == AnswerKind.REFUSED)
    unread = {why: n for (kind, why), n in silent.items() if kind != AnswerKind.REFUSED}
    said = f"refused {refused:,} of {sum(outcomes.values()):,} trial questions"
    if not unread:
        return said
    why = max(unread, key=lambda each: unread[each])
    return f"{said} and gave no answer that can be read to {sum(unread.values()):,} (mostly because {why})"


def _from_text(text: str, own: ChatOptions) -> AnswerReading:
    refused = declined_in_words(text)
    if own.parser != "yes-no":  # the numbers of a refusal are not its answer, but a number may come with advice
        first = _NUMBER.search(text)
        if declined_in_words(text[: first.start()] if first else text):
            return nothing(AnswerKind.REFUSED)
    try:
        return AnswerReading(parsed(text, own.parser, own.choices), AnswerKind.ANSWERED)
    except Unreadable as problem:
        return nothing(AnswerKind.REFUSED if refused else AnswerKind.UNREADABLE, str(problem))


def parsed(answer: str, parser: str, choices: Mapping[str, float]) -> float:
    """The probability that an answer states."""
    if parser == "yes-no":
        return read_choice(answer, choices)
    if parser == "number":
        return read_number(answer)
    found = re.search(parser, answer) or re.search(parser, plain(answer))
    if found is None or found[1] is None:
        raise Unreadable("the regular expression does not match the answer")
    return read_number(found[1]) if any(map(str.isdigit, found[1])) else read_choice(found[1], choices)


def read_number(answer: str) -> float:
    """The first number in an answer, if it is a probability; a percentage is a hundredth."""
    answer = _SCALE.sub(" ", plain(answer))
    found = _NUMBER.search(answer)
    if found is None:
        raise Unreadable("the answer contains no number")
    if odds := _ODDS.match(answer, found.start()):
        return _share(*(float(each.replace(",", ".")) for each in odds.groups()))
    behind = answer[found.end() :].lstrip(" *_`")
    if _RANGE.match(behind):
        raise Unreadable("the answer is a range, not one number")
    value = float(found[0].replace(",", "."))
    if behind.startswith(("%", "percent", "per cent")):
        value /= 100
    elif value in (0, 1) and found[0].isdigit() and _COUNT.match(answer, found.end()):
        raise Unreadable("the first number in the answer counts something")
    if behind.startswith("/") or not 0 <= value <= 1:
        raise Unreadable("the first number in the answer is not a probability")
    return value


def _share(n: float, of: float) -> float:
    """ "1 in 5" is 0.2."""
    if not 0 <= n <= of or of < 1:
        raise Unreadable("the first number in the answer is not a probability")
    return n / of


# --- JSON ---------------------------------------------------------------------------------------------------


def _from_json(text: str, own: ChatOptions, labels: Sequence[str]) -> list[AnswerReading]:
    own_objects, wanted = list(objects(text)), {label.casefold() for label in labels}
    about = (each for each in own_objects if any(str(name).strip().casefold() in wanted for name in each))
    found = next(about, next(iter(own_objects), None))
    if declined_before(text, text.find("{")):
        return [nothing(AnswerKind.REFUSED)] * len(labels)
    if found is None:
        kind = AnswerKind.REFUSED if declined_in_words(text) else AnswerKind.UNREADABLE
        return [nothing(kind, "the answer contains no JSON object")] * len(labels)
    named = {str(name).strip().casefold(): value for name, value in found.items()}
    return [_value(named.get(label.casefold()), label, own) for label in labels]


def _value(value: Any, label: str, own: ChatOptions) -> AnswerReading:
    try:
        if isinstance(value, bool):
            return AnswerReading(float(value), AnswerKind.ANSWERED)
        if isinstance(value, int | float) and 0 <= value <= 1:
            return AnswerReading(float(value), AnswerKind.ANSWERED)
        if isinstance(value, str):
            digits = any(map(str.isdigit, value))
            return AnswerReading(read_number(value) if digits else read_choice(value, own.choices), AnswerKind.ANSWERED)
    except Unreadable:
        pass
    return nothing(AnswerKind.UNREADABLE, f"the answer's JSON has no probability for '{label}'")


def objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of an answer: in code fences, or anywhere in it."""
    decoder = json.JSONDecoder()
    for part in (*_FENCED.findall(text), text):
        at = part.find("{")
        while at >= 0:
            try:
                found, end = decoder.raw_decode(part, at)
            except (ValueError, RecursionError):
                end = at + 1
            else:
                if isinstance(found, dict):
                    yield found
            at = part.find("{", end)


# --- log-probabilities --------------------------------------------------------------------------------------


def read_logprobs(tokens: Any, own: ChatOptions) -> AnswerReading:
    """The mean of the choices' values, weighted by their probability at the first token of the answer."""
    try:
        alternatives = _first_token(tokens)
    except (KeyError, IndexError, TypeError, ValueError, OverflowError, AttributeError):
        return nothing(AnswerKind.UNREADABLE, "the answer has no top_logprobs for its first token")
    mass = dict.fromkeys(own.choices, 0.0)
    for token, p in alternatives.items():
        chosen = _choice_of(token, own.choices)
        if chosen is not None:
            mass[chosen] += p
    total = sum(mass.values())
    if not 0 <= total <= 1 + 1e-3:
        return nothing(AnswerKind.UNREADABLE, "the probabilities of the first token do not add up")
    if total <= 0 or total < own.floor:
        why = f"the choices have {total:.1%} of the probability of the first token, less than `floor`"
        return nothing(AnswerKind.NO_CHOICE, why, min(total, 1.0))
    p = sum(own.choices[word] * part for word, part in mass.items()) / total
    return AnswerReading(min(max(p, 0.0), 1.0), AnswerKind.ANSWERED, min(total, 1.0))


def _first_token(tokens: Any) -> dict[str, float]:
    """The alternatives for the first token that says anything, with their probabilities."""
    texts = [str(token["token"]) if "token" in token else "" for token in tokens]
    thought = _END_OF_THOUGHT.search("".join(texts))
    begin, passed = 0, 0
    while thought is not None and begin < len(texts) and passed < thought.end():
        passed += len(texts[begin])
        begin += 1
    at = next((k for k in range(begin, len(texts)) if texts[k].strip(_EDGES)), begin)
    found = {str(each["token"]): float(each["logprob"]) for each in tokens[at]["top_logprobs"]}
    if not found:
        raise ValueError
    if tokens[at].get("logprob") is not None:
        found.setdefault(texts[at], float(tokens[at]["logprob"]))
    if any(math.isnan(value) for value in found.values()):
        raise ValueError
    return {token: math.exp(value) for token, value in found.items()}


def _choice_of(token: str, choices: Mapping[str, float]) -> str | None:
    """The choice that a token is, or begins, if it is only one: " Yes", "yes" and "YES" are one, "Ne" begins "Nein"."""
    word = plain(token).strip(_EDGES)
    same = [name for name in choices if (name == word if len(name) == 1 else name.casefold() == word.casefold())]
    if same:
        return same[0]
    if len(word) < _SHORTEST_PREFIX:
        return None
    begun = [name for name in choices if name.casefold().startswith(word.casefold())]
    return begun[0] if len(begun) == 1 else None
