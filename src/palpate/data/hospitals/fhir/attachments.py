"""The text of a FHIR attachment: plain text before HTML before XHTML, base64 in any character set.

The data are in the attachment, in its `data:` address, or in a Binary that the resource contains. What has no text (a
PDF, RTF, a picture) is None. What should have one and has not, an address in place of the data or data that are no
base64, is an error with what to do.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from collections.abc import Sequence
from email.message import Message
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from palpate.data.hospitals.fhir import Line
from palpate.registry import optional

READABLE = ("text/plain", "text/html", "application/xhtml+xml", "text/xhtml", "text/xml")
"""In order of preference."""
_WHITESPACE = re.compile(r"\s+")
_DATA_URL = re.compile(r"data:([^,]*?)(;base64)?,(.*)", re.IGNORECASE | re.DOTALL)
_OTHER_FORMATS = ("{\\rtf", "%PDF-")
"""How files begin that are no plain text, whatever their content type says."""
_DECLARED = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_HEAD = 1024


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
    readable = _readable(attachments, line)
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


def has_further_text(attachments: Sequence[Any], line: Line) -> bool:
    """Whether another attachment of the format that is read says something else.

    To FHIR, attachments are one document in several formats; some systems put a document's pages or parts into them.
    """
    readable = _readable(attachments, line) if len(attachments) > 1 else []
    said = [(kind.kind, each["data"]) for kind, each in readable if each.get("data")]
    best = min((kind for kind, _ in said), key=READABLE.index, default=None)
    return len({data if isinstance(data, bytes) else str(data) for kind, data in said if kind == best}) > 1


def _readable(attachments: Sequence[Any], line: Line) -> list[tuple[ContentType, dict[str, Any]]]:
    """The attachments whose format is read, with their data."""
    there = [_with_data(each, line) for each in attachments if isinstance(each, dict)]
    known = [(content_type(each.get("contentType")), each) for each in there]
    return [(kind, each) for kind, each in known if kind.kind in READABLE]


def _with_data(attachment: dict[str, Any], line: Line) -> dict[str, Any]:
    """The attachment with the data that its address stands for, if they are in this line."""
    url = attachment.get("url")
    if attachment.get("data") or not isinstance(url, str):
        return attachment
    if url.startswith("#"):
        contained = [each for each in line.resource.get("contained") or () if isinstance(each, dict)]
        held = next((each for each in contained if each.get("id") == url[1:]), {})
        kind = attachment.get("contentType") or held.get("contentType")
        return {**attachment, "contentType": kind, "data": held.get("data")}
    found = _DATA_URL.fullmatch(url)
    if found is None:
        return attachment
    said, packed, body = found.groups()
    data = unquote_to_bytes(body)
    kind = attachment.get("contentType") or said or "text/plain; charset=us-ascii"
    return {**attachment, "contentType": kind, "data": data if packed else base64.b64encode(data)}


def _decoded(data: object, kind: ContentType, line: Line, *, drop: bool) -> str | None:
    hint = "export it again, or leave such notes out with `--set attachments=drop`"
    try:
        packed = data.decode("ascii") if isinstance(data, bytes) else str(data)
        raw = base64.b64decode(_WHITESPACE.sub("", packed), validate=True)
    except (binascii.Error, ValueError):
        if drop:
            return None
        raise line.error("has an attachment that is not base64", hint) from None
    charset = kind.charset or _charset(raw, kind)
    try:
        text = raw.decode(charset)
    except (LookupError, UnicodeDecodeError):
        if drop:
            return None
        raise line.error(f"has an attachment that is not {charset}", hint) from None
    if kind.kind == "text/plain":
        return None if text.startswith(_OTHER_FORMATS) else text
    return html_text(text)


def _charset(raw: bytes, kind: ContentType) -> str:
    """What HTML says of itself, where the content type says nothing; else UTF-8."""
    if raw.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    declared = None if kind.kind == "text/plain" else _DECLARED.search(raw[:_HEAD])
    return declared[1].decode() if declared else "utf-8"


def html_text(html: str) -> str:
    """What a browser would show of HTML or XHTML, with line breaks where it has them."""
    inscriptis = optional("inscriptis", extra="fhir", needed_for="reading notes in HTML (inscriptis)")
    # lxml refuses a text that declares its own encoding.
    plain = re.sub(r"^\s*<\?xml[^>]*\?>", "", html)
    return str(inscriptis.get_text(plain)).strip() if plain.strip() else ""
