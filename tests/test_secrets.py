"""What is a secret: one rule for the manifest and the report."""

from __future__ import annotations

import time

import pytest

from palpate.errors import ConfigError, without_logins
from palpate.privacy import is_secret, without_query, without_secrets


@pytest.mark.parametrize("name", ["token", "hf_token", "apiKey", "api_key", "X-API-Key", "password", "headers",
                                  "client_secret", "Authorization", "credentials", "auth",
                                  "db_pwd", "connection_string", "dsn", "session_cookie"])  # fmt: skip
def test_secrets(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name", ["", "token_pattern", "max_tokens", "tokenizer", "key", "keywords", "keep_case", "secretary"]
)
def test_not_secrets(name: str) -> None:
    assert not is_secret(name)


def test_secrets_are_hidden_wherever_they_are() -> None:
    config = {
        "models": {"a": {"source": "https://me:pass@host/predict?key=1", "headers": {"X": "y"}, "tokens": [1, 2]}},
        "audits": {"mine": {"tokens": 3, "api_keys": ["a", "b"], "token": None}},
    }
    shown = without_secrets(config)
    assert shown["models"]["a"] == {
        "source": "https://…@host/predict?…",
        "headers": {"X": "(hidden)"},
        "tokens": [1, 2],
    }
    assert shown["audits"]["mine"] == {"tokens": 3, "api_keys": "(hidden)", "token": None}
    assert without_query("hf:models/a?b") == "hf:models/a?b"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:p@ss@host/predict?key=1&b=2", "https://…@host/predict?…"),
        ("HTTPS://SECRET@host/x", "HTTPS://…@host/x"),
        ("postgresql://me:SECRET@db:5432/x", "postgresql://…@db:5432/x"),
        ("postgresql://me@db/x", "postgresql://me@db/x"),
        ("redis+tls://:SECRET@db/0", "redis+tls://…@db/0"),
        ("https:/u:SECRET@h/x.csv", "https:/…@h/x.csv"),
        ("host=db user=me password='my SECRET' port=1", "host=db user=me password=… port=1"),
        ("Server=db;Uid=me;Pwd=SECRET;", "Server=db;Uid=me;Pwd=…;"),
        ("AccountName=a;AccountKey=SECRET==;X=1", "AccountName=a;AccountKey=…;X=1"),
        ("https://h/p?a=1;key=SECRET", "https://h/p?…"),
        ("http://h/p?name='x'&sig=SECRET", "http://h/p?…"),
        ('host=db password="my SECRET" port=1', "host=db password=… port=1"),
        ("Driver=x;PWD={a;SECRET};X=1", "Driver=x;PWD=…;X=1"),
        ("Driver=x;PWD={a}};SECRET};X=1", "Driver=x;PWD=…;X=1"),
        ("postgresql://user@host:port/database", "postgresql://user@host:port/database"),
        ("mail me@host: a/b?c", "mail me@host: a/b?c"),
        ("did you mean `http://h/x`?", "did you mean `http://h/x`?"),
    ],
)
def test_addresses_and_connection_strings_keep_their_secret(text: str, shown: str) -> None:
    assert without_logins(text) == shown
    assert without_secrets({"arguments": {"db": text}}) == {"arguments": {"db": shown}}
    assert "SECRET" not in str(ConfigError(f"'{text}' is wrong", hint=f"use {text}"))


def test_of_a_source_that_is_an_address_everything_behind_the_question_mark_is_hidden() -> None:
    assert without_query("https://h/p?a=1 ' SECRET") == "https://h/p?…"
    assert without_query("https://me:it's SECRET@h/p") == "https://…@h/p"
    assert without_query("http:/p") == "http:/p"


@pytest.mark.parametrize(
    "part", ["a.", "http:", "http:/", "a:/:", ":", "'", "a'", "password=", "password={", "password='\"", "token ", "?"]
)
def test_a_long_text_is_read_once(part: str) -> None:
    """Patterns that began again at each word took 40 seconds and more."""
    began = time.process_time()
    without_logins("a:/" + part * (40_000 // len(part)))
    assert time.process_time() - began < 5
