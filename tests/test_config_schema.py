"""The JSON schema of audit.yaml is current, and what the how-to pages show is valid by it.

After a change of an option, write it anew and read the difference:

    PALPATE_UPDATE_SCHEMA=1 pytest tests/test_config_schema.py && git diff src/palpate/config/audit.schema.json
"""

from __future__ import annotations

import json
import os
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml

from palpate.config.schema import config_schema, schema_text
from tests.test_docs import BLOCK, DOCS

FILE = Path(str(resources.files("palpate.config") / "audit.schema.json"))
PAGES = [*sorted(DOCS.glob("*.md")), DOCS.parent / "README.md"]


def examples() -> list[Any]:
    found = []
    for page in PAGES:
        for k, match in enumerate(BLOCK.finditer(page.read_text(encoding="utf-8"))):
            if match["kind"] == "yaml":
                content = yaml.safe_load(match["body"])
                if isinstance(content, dict) and set(content) & {"cohort", "cohorts", "models", "audits"}:
                    found.append(pytest.param(content, id=f"{page.stem}-{k}"))
    return found


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return config_schema(plug_ins=False)


def test_the_schema_is_current(schema: dict[str, Any]) -> None:
    text = schema_text(schema)
    assert json.loads(text) == schema
    if os.environ.get("PALPATE_UPDATE_SCHEMA"):
        FILE.write_text(text, encoding="utf-8")
    assert FILE.read_text(encoding="utf-8") == text, "run PALPATE_UPDATE_SCHEMA=1 pytest tests/test_config_schema.py"


def test_the_schema_is_one(schema: dict[str, Any]) -> None:
    import jsonschema  # takes seconds

    jsonschema.Draft202012Validator.check_schema(schema)


def test_every_option_says_what_it_is(schema: dict[str, Any]) -> None:
    audits = schema["properties"]["audits"]["properties"]
    silent = [
        f"{name}.{option}"
        for name, audit in audits.items()
        for option, written in audit["anyOf"][0]["properties"].items()
        if not written.get("description")
    ]
    assert silent == []
    assert [name for name, part in schema["properties"].items() if not part.get("description")] == []
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(audits) == set(project["entry-points"]["palpate.audits"])


def test_options_of_every_adapter_are_there(schema: dict[str, Any]) -> None:
    known = schema["properties"]["models"]["additionalProperties"]["anyOf"][2]["properties"]
    of_chat = {"api", "prompt", "system", "parser", "choices", "samples", "refusal", "max_cost", "max_requests"}
    assert of_chat | {"retries", "concurrency", "ca", "chunk", "providers", "arguments"} <= set(known)
    assert [name for name in of_chat if not known[name].get("description")] == []
    assert {part["const"] for part in known["api"]["anyOf"]} == {"probabilities", "chat"}


@pytest.mark.parametrize("content", examples())
def test_the_pages_show_what_is_valid(content: dict[str, Any], schema: dict[str, Any]) -> None:
    import jsonschema  # takes seconds

    whole = {"models": {"m": "hf:m"}, "audits": {"performance": None}, **content}
    if "cohort" not in whole and "cohorts" not in whole:
        whole["cohort"] = "notes.csv"
    jsonschema.validate(whole, schema, cls=jsonschema.Draft202012Validator)


@pytest.mark.parametrize(
    "change",
    [
        {"audits": {"performence": {}}},
        {"audits": {"performance": {"n_bin": 3}}},
        {"audits": {"performance": {"level": 3}}},
        {"cohort": {"file": "a.csv", "txt": "note"}},
        {"cohort": {"text": "note"}},
        {"cohorts": {"a": "a.csv"}},
        {"models": {}},
        {"models": {"m": {"call_timeout": 3}}},
        {"sed": 3},
        {"seed": -1},
        {"executor": "slurm"},
        {"models": {"m": {"source": "http://127.0.0.1/v1", "api": "talk"}}},
        {"models": {"m": {"source": "http://127.0.0.1/v1", "api": "chat", "samples": 0}}},
    ],
)
def test_mistakes_are_found(change: dict[str, Any], schema: dict[str, Any]) -> None:
    import jsonschema  # takes seconds

    right = {"cohort": "a.csv", "models": {"m": "hf:m"}, "audits": {"performance": {}, "python:mine:Typos": {"n": 3}}}
    jsonschema.validate(right, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**right, **change}, schema)
