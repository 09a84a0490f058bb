"""The text of a FHIR attachment: plain text before HTML before XHTML, base64 in any character set.

What has no text (a PDF, a picture) is None. What should have one and has not, an address in place of the data or data
that are no base64, is an error with what to do.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from collections.abc import Sequence
from email.message import Message
from typing import Any, NamedTuple

from palpate.data.hospitals.fhir import Line
from palpate.registry import optional

READABLE = ("text/plain", "text/html", "application/xhtml+xml", "text/xhtml", "text/xml")
"""In order of preference."""
_WHITESPACE = re.compile(r"\s+")


class ContentType(NamedTuple):
    """`text/plain; charset=latin-1`, in parts."""

    kind: str
    charset: str | None


def content_type(value: object) -> ContentType:
    """The parts of a content type; no type at all is plain text."""
    message = Message()
    message["content-type"] = str(value) if value else "text/plain"
    charset = message.get_param("charset")
    return ContentType(message.get_content_type(), charset.strip() if isinstance(charset, str) else None)


def text_of(attachments: Sequence[Any], line: Line, *, drop: bool) -> str | None:
    """The text of the best attachment; with `drop`, one that can't be read is None instead of an error."""
    known = [(content_type(each.get("contentType")), each) for each in attachments if isinstance(each, dict)]
    readable = [(kind, each) for kind, each in known if kind.kind in READABLE]
    with_data = [(kind, each) for kind, each in readable if each.get("data")]
    if with_data:
        kind, chosen = min(with_data, key=lambda pair: READABLE.index(pair[0].kind))
        return _decoded(chosen["data"], kind, line, drop=drop)
    if drop or not any(each.get("url") for _, each in readable):
        return None
    raise line.error(
        "has only the address of its text",
        "let the export include attachments as data, or leave such notes out with `--set attachments=drop`",
    )


def _decoded(data: object, kind: ContentType, line: Line, *, drop: bool) -> str | None:
    hint = "export it again, or leave such notes out with `--set attachments=drop`"
    try:
        raw = base64.b64decode(_WHITESPACE.sub("", str(data)), validate=True)
    except (binascii.Error, ValueError):
        if drop:
            return None
        raise line.error("has an attachment that is not base64", hint) from None
    charset = kind.charset or ("utf-8-sig" if raw.startswith(codecs.BOM_UTF8) else "utf-8")
    try:
        text = raw.decode(charset)
    except (LookupError, UnicodeDecodeError):
        if drop:
            return None
        raise line.error(f"has an attachment that is not {charset}", hint) from None
    return text if kind.kind == "text/plain" else html_text(text)


def html_text(html: str) -> str:
    """What a browser would show of HTML or XHTML, with line breaks where it has them."""
    inscriptis = optional("inscriptis", extra="fhir", needed_for="reading notes in HTML (inscriptis)")
    # lxml refuses a text that declares its own encoding.
    plain = re.sub(r"^\s*<\?xml[^>]*\?>", "", html)
    return str(inscriptis.get_text(plain)).strip() if plain.strip() else ""
