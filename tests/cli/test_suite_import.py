"""What `palpate suite import` says about using the suite in an audit."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from palpate.cli import app

TEMPLATES = """capability,label,template
Negation,1,{drug} gave me a rash.
Negation,1,{drug} gave me an awful rash.
Negation,0,I have no rash from {drug}.
"""
BASE = """capability,label,template
Negation,1,{drug} gave me a rash.
Negation,0,I have no rash from {drug}.
"""


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    (tmp_path / "base.csv").write_text(BASE, encoding="utf-8")
    file = tmp_path / "mine.csv"
    file.write_text(TEMPLATES, encoding="utf-8")
    return file


def _said(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["suite", "import", *map(str, arguments), "--set", "drug=[aspirin, codeine]"])
    assert result.exit_code == 0, result.output
    return result.output


def test_a_base_file_is_kept_by_writing_the_templates(templates: Path) -> None:
    """An audit reads no base file, so that naming the first file would lose the grouping."""
    base = templates.with_name("base.csv")
    said = _said(templates, "--base", base)
    assert "3 rows are variations of 2 base templates" in said
    assert "To keep the base templates" in said
    assert "To use it in audit.yaml" not in said
    written = templates.with_name("grouped.csv")
    assert f"{{suite: {written}, slots: {{drug: [aspirin, codeine]}}}}" in _said(
        templates, "--base", base, "--out", written
    )
    assert "grouped by the column of base templates" in _said(written)


def test_the_slots_of_the_command_are_in_what_to_write(templates: Path) -> None:
    said = _said(templates)
    assert f"capabilities: {{suite: {templates}, slots: {{drug: [aspirin, codeine]}}}}" in said
