"""Whether a model declined to answer: by the protocol's own signs, or in words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from palpate.models.adapters.remote import Status
from palpate.models.adapters.remote.said import error_of

_FILTERED = frozenset(
    {"content_filter", "content_policy_violation", "responsibleaipolicyviolation", "safety", "refusal", "blocklist"}
    | {"prohibited_content", "recitation", "sensitive"}
)
_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum context|context (?:length|window|size)|prompt is too long"
    r"|too many (?:input )?tokens|input is too long|max_model_len",
    re.IGNORECASE,
)
_CANNOT = r"(?:can ?not|can['’]?t|could not|couldn['’]t|am (?:unable|not able)|(?:i['’]m) (?:unable|not able)|won['’]t"
_CANNOT += r"|will not|must decline|have to decline|do not feel comfortable|don['’]t feel comfortable|decline)"
_DO = r"(?:to )?(?:\w+ )?(?:help|assist|provide|comply|answer|give|offer|make|fulfill|diagnose|determine|predict|assess"
_DO += r"|engage|continue|process|respond|do (?:that|this)|discuss|share|advise|recommend|comment|estimate|evaluate)"
_IN_WORDS = re.compile(
    r"\bI (?:\w+ )?(?:refuse|decline) to\b|\bI(?:['’]d| would) (?:rather|prefer) (?:not|to not|not to)\b"
    rf"|\bI(?:['’]m sorry|['’]m afraid| am sorry| am afraid| apologi[sz]e)?\W*(?:but )?(?:I )?{_CANNOT}\b\W*{_DO}\b"
    r"|\bas an? (?:AI|artificial intelligence|(?:large )?language model)\b"
    r"|\bI(?:['’]m| am) (?:just |only )?an? (?:AI|language model)\b"
    r"|\b(?:against|violates?) (?:my|our|the) (?:guidelines|policy|policies|programming|terms)\b"
    r"|\b(?:please )?consult (?:a|your|with a) (?:\w+ )?(?:doctor|physician|clinician|professional|provider)\b",
    re.IGNORECASE,
)
_ELSEWHERE = re.compile(
    r"\b(?:ich kann|kann ich) (?:\w+ )*(?:nicht|keine?n?)\b|\bals (?:KI|Sprachmodell)\b"
    r"|\bje ne (?:peux|suis) pas\b|\ben tant qu['’](?:IA|intelligence artificielle)\b"
    r"|\bno puedo (?:\w+ )?(?:ayudar|proporcionar|responder|dar)|\bcomo (?:IA|modelo de lenguaje)\b"
    r"|\bnon posso (?:\w+ )?(?:aiutar|fornire|rispondere|dare)",
    re.IGNORECASE,
)
"""The same in German, French, Spanish and Italian, as far as it is always said alike."""
_BEGINNING = 240
"""Characters of an answer in which it declines, if it does."""


def declined(choice: Mapping[str, Any]) -> bool:
    """Whether the protocol says so: a field or a part `refusal`, or a content filter."""
    message, why = choice.get("message"), choice.get("finish_reason")
    if isinstance(why, str) and why.casefold() in _FILTERED:
        return True
    if not isinstance(message, Mapping):
        return False
    said, content = message.get("refusal"), message.get("content")
    parts = content if isinstance(content, list) else ()
    return (isinstance(said, str) and bool(said.strip())) or any(
        isinstance(part, Mapping) and part.get("type") == "refusal" for part in parts
    )


def declined_in_words(answer: str) -> bool:
    """Whether an answer declines at its beginning."""
    return declined_at(answer) is not None


def declined_at(answer: str) -> int | None:
    """Where an answer declines, at its beginning."""
    begins = answer[:_BEGINNING]
    found = [each.start() for each in (_IN_WORDS.search(begins), _ELSEWHERE.search(begins)) if each is not None]
    return min(found, default=None)


def filtered(status: Status) -> bool:
    """Whether an error is a content filter that refused the question."""
    code, text = error_of(status.body)
    inner = b'"content_filter"' in status.body or b"ResponsibleAIPolicyViolation" in status.body
    return status.code in (400, 403) and (code.casefold() in _FILTERED or (inner and "filter" in text.lower()))


def too_long(status: Status) -> bool:
    """Whether an error says that the question is longer than the model can read."""
    code, text = error_of(status.body)
    return status.code in (400, 413, 422, 500) and _TOO_LONG.search(f"{code} {text}") is not None
