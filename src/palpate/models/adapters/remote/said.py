"""What a server says about an error, as far as it may be shown.

A server may repeat the note or the key in its error, whole, cut or escaped. So of its text only those words are shown
that no note in flight and no header contains, or that any server uses when it speaks of errors and that say nothing
about a patient ("positive", "denied" and "failed" do); of these, too, no three in a row that a note has in a row. A
number is shown only where no note has it, a row of numbers (the tokens of a note) never, nor anything encoded.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote_plus

from palpate.errors import parse_json

_LONGEST, _LONGEST_WORD, _MOST_HIDDEN = 300, 24, 0.5
_A_ROW = 3
_GAP = "…"
_WORD = re.compile(r"\w+(?:['.\-]\w+)*")
_NOT_LETTERS = re.compile(r"[\W_]+")
_ESCAPED = re.compile(r"\\+(?:u([0-9a-fA-F]{4})|[nrtbf\"'/])")
_GAPS = re.compile(rf"{_GAP}(?:[^\w{_GAP}]*{_GAP})+")
_OF_ERRORS = frozenset(
    """
    a about above actual after again all allowed already an and any api are argument as at authentication available
    bad be because been before being below but by call can cannot chat check code completion completions connection
    contain contains content context could current default deployment detail do does doesn each engine error exceed
    exceeded exceeds exist exists expected false field file for forbidden format from gateway given gpu greater
    guided has have header headers however http if in incompatible incorrect input inputs instead integer invalid is
    it its json key keys least length less limit limited limits list loaded loading logprobs long longer malformed
    many max maximum may message messages min minimum missing model models more must no none not null number object
    of off on only option options or organization out over overloaded parameter parameters parse parsed parsing
    payload per permitted please post prompt property provide provided queue quota read request requested requests
    require required requires retry schema see send sent server service should smaller status stream streaming
    string structured such support supported supports temperature template than that the their then there this time
    timed timeout to token tokens too true try type unauthorized unavailable unexpected unknown unprocessable
    unrecognized unsupported until up upgrade url usage use used uses valid value values version was we were when
    which while will with within without would you your max_tokens max_completion_tokens top_logprobs
    response_format json_schema guided_json structured_outputs extra_body keep_alive content_filter
    context_length_exceeded insufficient_quota invalid_request_error
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
    if not text and isinstance(found.get("detail"), list):  # what is wrong with each field, without what was in it
        wrong = [each for each in found["detail"] if isinstance(each, dict) and isinstance(each.get("msg"), str)]
        text = "; ".join(f"{'.'.join(map(str, each.get('loc') or ()))}: {each['msg']}" for each in wrong)
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
    repeated = _repeated(plain, secrets)
    words, gone = 0, 0

    def one(found: re.Match[str]) -> str:
        nonlocal words, gone
        word = found[0].casefold()
        words += 1
        if found.start() in repeated:
            gone += 1
            return _GAP
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


def _repeated(plain: str, secrets: str) -> set[int]:
    """Where words begin that stand in a row in a secret, too, and numbers that stand in a row."""
    found = list(_WORD.finditer(plain.casefold()))
    bare = [_NOT_LETTERS.sub("", each[0]) for each in found]
    own = [_NOT_LETTERS.sub("", word) for word in _WORD.findall(secrets)]
    rows = {tuple(own[k : k + _A_ROW]) for k in range(len(own) - _A_ROW + 1)}
    hidden = set[int]()
    for k in range(len(found) - _A_ROW + 1):
        some = bare[k : k + _A_ROW]
        if tuple(some) in rows or all(word.isdigit() for word in some):
            hidden |= {each.start() for each in found[k : k + _A_ROW]}
    return hidden
