"""The lock, the bill of materials, licences and known weaknesses."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from reliability.supply import LOCK, audited, lock_text, normal, sbom, write_supply

packaging = pytest.importorskip("packaging.requirements")
ROOT = Path(__file__).parent.parent.parent


def locked() -> dict[str, str]:
    lines = [line for line in LOCK.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==\S+ --hash=sha256:[0-9a-f]{64}", line) for line in lines)
    return dict(line.split(" ")[0].split("==") for line in lines)


def test_the_lock_has_what_development_needs() -> None:
    versions = locked()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    for line in [*project["dependencies"], *(each for part in extras.values() for each in part), "hatchling"]:
        need = packaging.Requirement(line)
        if normal(need.name) != "palpate" and (need.marker is None or need.marker.evaluate({"extra": ""})):
            assert need.specifier.contains(versions[normal(need.name)], prereleases=True), line


def test_the_lock_names_no_registry() -> None:
    assert not re.search(r"://|index|trusted", LOCK.read_text(encoding="utf-8"))


def test_a_lock_is_made_from_what_pip_reports() -> None:
    package = {"metadata": {"name": "A.b_C", "version": "1.0"}}
    hashed = {"url": "https://x/a.whl", "archive_info": {"hashes": {"sha256": "0" * 64}}}
    own = {"metadata": {"name": "palpate", "version": "1"}, "download_info": {"url": "file:///x", "dir_info": {}}}
    about = {"python_version": "3.11", "platform_system": "Linux", "platform_machine": "x86_64"}
    text = lock_text({"install": [package | {"download_info": hashed}, own], "environment": about})
    assert text.splitlines()[2:] == [f"a-b-c==1.0 --hash=sha256:{'0' * 64}"]


def test_the_bill_of_materials_is_cyclonedx() -> None:
    validation = pytest.importorskip("cyclonedx.validation.json")
    schema = pytest.importorskip("cyclonedx.schema")
    made = sbom()
    assert validation.JsonStrictValidator(schema.SchemaVersion.V1_5).validate_str(json.dumps(made)) is None
    names = {part["name"].lower() for part in made["components"]}
    assert {"numpy", "polars"} <= names
    assert "palpate" not in names
    refs = {part["bom-ref"] for part in made["components"]} | {made["metadata"]["component"]["bom-ref"]}
    assert {need for each in made["dependencies"] for need in (each["ref"], *each["dependsOn"])} <= refs
    assert made == sbom()


def test_licences_are_listed(tmp_path: Path) -> None:
    found = write_supply(tmp_path)
    lines = (tmp_path / "licences.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) == found["packages"]
    assert any(line.lower().startswith("numpy ") and "BSD" in line for line in lines)


def test_a_package_that_was_not_found_was_not_looked_up() -> None:
    """pip-audit says "no known vulnerabilities found" where a registry has no advisories."""
    skipped = {"dependencies": [{"name": "jinja2", "skip_reason": "Dependency not found"}]}
    assert audited(skipped)["said"].startswith("No database of weaknesses can be reached")
    assert audited({})["said"]
    weak = {"name": "jinja2", "version": "3.1.2", "vulns": [{"id": "GHSA-1"}]}
    found = audited({"dependencies": [weak, {"name": "b", "version": "1", "vulns": []}]})
    assert (found["said"], found["weaknesses"], found["looked_up"]) == ("", ["jinja2 3.1.2: GHSA-1"], 2)
