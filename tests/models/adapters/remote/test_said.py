"""A server that repeats the note or the key in its error shows nothing of either."""

from __future__ import annotations

import base64
import html
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.models.adapters.remote.said import error_of, shown

NOTE = "Mr Günther Smith, MRN 48151623, has sepsis after cholecystectomy; lives at 12 Elm Street."
SECRETS = ("smith", "günther", "gunther", "48151623", "sepsis", "cholecyst", "elm")


@pytest.mark.parametrize(
    "echo",
    [
        NOTE,
        NOTE.upper(),
        NOTE[10:40],
        json.dumps(NOTE),
        json.dumps(json.dumps(NOTE)),
        quote(NOTE),
        quote_plus(NOTE),
        html.escape(NOTE),
        NOTE.replace(" ", "_"),
        NOTE.replace(" ", ""),
        NOTE.replace(" ", "\\n"),
        " ".join(reversed(NOTE.split())),
        base64.b64encode(NOTE.encode()).decode(),
        repr([NOTE]),
    ],
)
def test_no_echo_shows_the_note(echo: str) -> None:
    said = shown(f"Invalid request: the prompt {echo} is too long for this model", [NOTE]).casefold()
    assert not any(secret in said for secret in SECRETS)
    assert base64.b64encode(NOTE.encode()).decode()[:12].casefold() not in said


@given(st.text(alphabet=st.characters(codec="ascii"), min_size=1, max_size=80))
def test_no_word_of_any_note_is_shown_unless_servers_use_it(note: str) -> None:
    from palpate.models.adapters.remote.said import _OF_ERRORS

    said = shown(f"Error: {note}", [note])
    for word in note.casefold().split():
        bare = word.strip("".join(set(word) - set("abcdefghijklmnopqrstuvwxyz0123456789")))
        if len(bare) > 3 and bare.isalnum() and bare not in _OF_ERRORS:
            assert bare not in said.casefold().split()


def test_what_a_server_says_is_shown() -> None:
    message = (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    )
    assert shown(message, [NOTE]) == message
    assert shown("CUDA out of memory while loading llama-9", [NOTE]) == "CUDA out of memory while loading llama-9"
    assert shown("The model `gpt-x` does not exist", [NOTE]) == "The model `gpt-x` does not exist"
    assert shown("has 48151623 tokens, at most 4096", [NOTE]) == "has … tokens, at most 4096"


@pytest.mark.parametrize(
    ("note", "echo", "secrets"),
    [
        ("Blood culture positive.", "value must be positive, got: positive", ("positive",)),
        ("She denied it and refused; urine output failed.", "denied, refused, output failed", ("denied", "refused")),
        ("He is unable to work, free of pain.", "cannot parse: unable to work, free of", ("unable", "work", "free")),
        ("It is not used by the last of them.", "bad input it is not used by the last of", ("used by", "the last of")),
        ("x 101 7592 2023 102", "token ids [9041, 33, 871, 12, 6, 5531] are out of range", ("9041", "871", "5531")),
    ],
)
def test_words_that_servers_share_with_notes_are_hidden_too(note: str, echo: str, secrets: tuple[str, ...]) -> None:
    said = shown(f"This model does not support the request: {echo}", [note])
    assert not any(secret in said for secret in secrets), said


def test_a_clinical_word_is_shown_where_no_note_has_it() -> None:
    assert shown("max_tokens must be positive", ["fever"]) == "max_tokens must be positive"
    assert shown("Access denied", ["fever"]) == "Access denied"


def test_keys_are_hidden_whole_and_in_part() -> None:
    key = "Bearer sk-proj-AbCdEf123456"
    for echo in ("sk-proj-AbCdEf123456", "sk-****3456", "AbCdEf"):
        said = shown(f"Incorrect API key provided: {echo}. Check your account", ["note", key])
        assert "3456" not in said
        assert "AbC" not in said
        assert said.startswith("Incorrect API key provided")


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (b'{"error": {"message": "m", "code": "c"}}', ("c", "m")),
        (b'{"error": {"message": "m", "type": "t", "code": null}}', ("t", "m")),
        (b'{"error": "m"}', ("", "m")),
        (b'[{"error": {"message": "m", "code": 400}}]', ("", "m")),
        (b'{"detail": "m"}', ("", "m")),
        (b'{"object": "error", "message": "m", "type": "BadRequestError"}', ("BadRequestError", "m")),
        (b"<html>busy</html>", ("", "")),
        (b"busy", ("", "busy")),
        (b"", ("", "")),
        (b"null", ("", "")),
        (b"[]", ("", "")),
        (b"\xff\xfe", ("", "\ufffd\ufffd")),
    ],
)
def test_errors_as_servers_write_them(body: bytes, wanted: tuple[str, str]) -> None:
    assert error_of(body) == wanted
