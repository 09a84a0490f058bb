"""What a server says about an error, as far as it may be shown.

A server may repeat the note or the key in its error, whole, cut or escaped. So of its text only those words are shown
that no note in flight and no header contains, or that any server uses when it speaks of errors; a number only where no
note has it; and nothing that looks encoded.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote_plus

from palpate.errors import parse_json

_LONGEST, _LONGEST_WORD, _MOST_HIDDEN = 300, 24, 0.5
_GAP = "…"
_WORD = re.compile(r"\w+(?:['.\-]\w+)*")
_NOT_LETTERS = re.compile(r"[\W_]+")
_ESCAPED = re.compile(r"\\+(?:u([0-9a-fA-F]{4})|[nrtbf\"'/])")
_GAPS = re.compile(rf"{_GAP}(?:[^\w{_GAP}]*{_GAP})+")
_OF_ERRORS = frozenset(
    """
    a about above access account actual after again all allowed already an and any api are argument as at
    authentication available bad be because been before being below billing body but by call can cannot chat
    check client closed code completion completions conflict connection contact contain contains content context
    control could credentials current data day deadline default denied deployment depth detail device disabled
    disk did do does doesn due each either empty enabled engine error exceed exceeded exceeds exist exists
    expected expired failed failure false field file filter first for forbidden format found free from function
    gateway given gpu greater group guided has have header headers however http if in incompatible incorrect
    initial input inputs instead integer internal invalid is it its json keep key keys last later least length
    less level limit limited limits list load loaded loading log logprobs long longer loop malformed many max
    maximum may memory message messages method min minimum minute missing model models more must name need
    needed needs no none not null number object of off on only open operation option options or organization out
    output over overloaded parameter parameters parse parsed parsing path payload penalty per permission
    permitted plan please policy positive post preview process processing project prompt property provide
    provided pull pulling queue quota range rate reached read received refused region remaining replace request
    requested requests require required requires reset resource response retry role safety schema second seconds
    seed see send sent server service session set should size smaller status stop stream streaming string
    structured such support supported supports system take temperature template temporarily than that the their
    then there this time timed timeout to token tokens tool tools too top trigger triggered true try type unable
    unauthorized unavailable unexpected unknown unprocessable unrecognized unsupported until up upgrade url
    usage use used user uses valid value values version was we were when which while will with within without
    work worker would wrong you your max_tokens max_completion_tokens top_logprobs response_format json_schema
    guided_json structured_outputs extra_body keep_alive content_filter context_length_exceeded
    insufficient_quota invalid_request_error
    """.split()  # noqa: SIM905  (a list of 300 strings would not be read)
)


def error_of(body: bytes) -> tuple[str, str]:
    """The code and the text of an error, as servers write them; empty where there is none."""
    try:
        content: Any = parse_json(body)
    except ValueError:
        text = body[:4096].decode("utf-8", "replace")
        return "", "" if "<" in text else text
    if isinstance(content, list) and content:
        content = content[0]
    found = content.get("error", content) if isinstance(content, dict) else content
    if not isinstance(found, dict):
        return "", found if isinstance(found, str) else ""
    code = found.get("code") if isinstance(found.get("code"), str) else found.get("type")
    inner = found.get("innererror")
    if isinstance(inner, dict) and isinstance(inner.get("code"), str):
        code = inner["code"] if code in (None, "") else code
    text = next((found[name] for name in ("message", "detail", "error") if isinstance(found.get(name), str)), "")
    return (code if isinstance(code, str) else ""), text


def shown(text: str, hidden: Iterable[str], known: Iterable[str] = ()) -> str:
    """The text without what may be from `hidden` (notes, keys); words of `known` (options, names) are no secret.

    >>> shown("Unsupported parameter: max_tokens; prompt was: Mr Smith has sepsis", ["Mr Smith has sepsis."])
    'Unsupported parameter: max_tokens; prompt was: …'
    """
    plain = _ESCAPED.sub(lambda found: chr(int(found[1], 16)) if found[1] else " ", html.unescape(unquote_plus(text)))
    plain = " ".join(plain.split())
    secrets = "\n".join(part.casefold() for part in hidden)
    glued = _NOT_LETTERS.sub("", secrets)
    named = {word.casefold() for name in known for word in (name, *_WORD.findall(name))}
    words, gone = 0, 0

    def one(found: re.Match[str]) -> str:
        nonlocal words, gone
        word = found[0].casefold()
        words += 1
        if word in _OF_ERRORS or word in named:
            return found[0]
        pieces = [piece for piece in _NOT_LETTERS.split(word) if piece and piece not in _OF_ERRORS]
        secret = any(piece in secrets for piece in pieces) or _NOT_LETTERS.sub("", word) in glued
        if secret or len(word) > _LONGEST_WORD or not word.isascii():
            gone += 1
            return _GAP
        return found[0]

    cleaned = _GAPS.sub(_GAP, _WORD.sub(one, plain))
    if not words or gone > words * _MOST_HIDDEN:
        return ""
    return cleaned if len(cleaned) <= _LONGEST else f"{cleaned[:_LONGEST].rstrip()}{_GAP}"
