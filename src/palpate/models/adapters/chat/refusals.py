"""Whether a model declined to answer: by the protocol's own signs, or in words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from palpate.models.adapters.chat.phrases import DECLINED, GOES_ON
from palpate.models.adapters.chat.verdicts import plain
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
    return DECLINED.search(plain(answer[:_BEGINNING])) is not None


def declined_before(answer: str, at: int) -> bool:
    """Whether an answer declines before a place in it, and does not go on with "but" or "here is"."""
    said = plain(answer[:at])
    found = DECLINED.search(said[:_BEGINNING])
    return found is not None and GOES_ON.search(said, found.end()) is None


def filtered(status: Status) -> bool:
    """Whether an error is a content filter that refused the question."""
    code, text = error_of(status.body)
    inner = b'"content_filter"' in status.body or b"ResponsibleAIPolicyViolation" in status.body
    return status.code in (400, 403) and (code.casefold() in _FILTERED or (inner and "filter" in text.lower()))


def too_long(status: Status) -> bool:
    """Whether an error says that the question is longer than the model can read."""
    code, text = error_of(status.body)
    if status.code == 413:  # whatever stands before the model says so, and in whichever words
        return True
    return status.code in (400, 422, 500) and _TOO_LONG.search(f"{code} {text}") is not None
