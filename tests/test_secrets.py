"""What is a secret: one rule for the manifest and the report."""

from __future__ import annotations

import pytest

from palpate.privacy import is_secret, without_query, without_secrets


@pytest.mark.parametrize("name", ["token", "hf_token", "apiKey", "api_key", "X-API-Key", "password", "headers",
                                  "client_secret", "Authorization", "credentials", "auth"])  # fmt: skip
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
