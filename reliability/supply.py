"""What palpate is installed with: a bill of materials (CycloneDX 1.5), licences, known weaknesses, a lock with hashes.

The lock is what pip resolves for the development environment, on the platform that CI has. It names files by their
hashes and no registry, so that a registry can neither be missing nor give something else.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from palpate import __version__

_UNKNOWN = "unknown"
LOCK = Path(__file__).parent.parent / "requirements" / "dev.txt"
_HEAD = """\
# The development environment with hashes, for CPython {python} on {system}: `make check LOCKED=1` installs it.
# Made by `python -m reliability lock` (make it anew when pyproject.toml changes).
"""
_BUILD = ("hatchling", "editables")
"""What building palpate itself needs."""


def normal(name: str) -> str:
    """A package's name as registries write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def licence(found: Distribution) -> str:
    """The licence as a package declares it: an expression, a classifier, or the first words of a text."""
    about = found.metadata
    if "License-Expression" in about:
        return about["License-Expression"]
    named = [line.rpartition(" :: ")[2] for line in about.get_all("Classifier") or [] if line.startswith("License ::")]
    if named:
        return "; ".join(named)
    named = about.get_all("License") or [""]
    text = named[0].strip().splitlines()
    return text[0][:80] if text else _UNKNOWN


def installed() -> list[Distribution]:
    """The packages of this environment, by name."""
    named = {normal(each.metadata["Name"]): each for each in distributions() if each.metadata["Name"]}
    return [named[name] for name in sorted(named)]


def sbom() -> dict[str, Any]:
    """The bill of materials; without times and random numbers, so that the same environment gives the same bytes."""
    parts, needs = [], []
    known = {normal(each.metadata["Name"]): each for each in installed()}
    refs = {name: f"{name}@{each.version}" for name, each in known.items()}
    for name, each in known.items():
        if name != "palpate":
            kind = {"type": "library", "name": each.metadata["Name"], "version": each.version, "bom-ref": refs[name]}
            about = {"purl": f"pkg:pypi/{name}@{each.version}", "licenses": [{"license": {"name": licence(each)}}]}
            parts.append(kind | about)
        wanted = {normal(re.split(r"[ ;<>=!~\[(]", need, maxsplit=1)[0]) for need in each.requires or []}
        needs.append({"ref": refs[name], "dependsOn": sorted(refs[need] for need in wanted & known.keys() - {name})})
    whole = {"type": "application", "name": "palpate", "version": __version__}
    whole["bom-ref"] = refs.get("palpate", f"palpate@{__version__}")
    head = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": {"component": whole}}
    return {**head, "components": parts, "dependencies": needs}


def write_supply(folder: Path = Path("build")) -> dict[str, Any]:
    """Write the bill of materials and the licences."""
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "sbom.json").write_text(json.dumps(sbom(), indent=1) + "\n", encoding="utf-8")
    lines = [f"{each.metadata['Name']} {each.version}: {licence(each)}" for each in installed()]
    (folder / "licences.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {"packages": len(lines), "without_licence": [line for line in lines if line.endswith(f": {_UNKNOWN}")]}


# --- the lock -------------------------------------------------------------------------------------------------


def lock_text(report: dict[str, Any]) -> str:
    """A requirements file from pip's report of what it would install; palpate itself has no hash."""
    lines = []
    for each in report["install"]:
        hashes = each["download_info"].get("archive_info", {}).get("hashes", {})
        if "sha256" in hashes:
            about = each["metadata"]
            lines.append(f"{normal(about['name'])}=={about['version']} --hash=sha256:{hashes['sha256']}")
    about = report["environment"]
    system = f"{about['platform_system']} {about['platform_machine']}"
    return _HEAD.format(python=about["python_version"], system=system) + "\n".join(sorted(lines)) + "\n"


def write_lock(torch: str = "torch") -> dict[str, Any]:
    """Ask pip what it would install for development, at the versions that are installed here, and write it down."""
    with tempfile.TemporaryDirectory() as scratch:
        kept, report = Path(scratch) / "kept.txt", Path(scratch) / "report.json"
        here = [f"{normal(each.metadata['Name'])}=={each.version}" for each in installed()]
        kept.write_text("\n".join(line for line in here if not line.startswith("palpate==")), encoding="utf-8")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        command += ["--report", str(report), "--constraint", str(kept), torch, *_BUILD, ".[dev,docs]"]
        subprocess.run(command, check=True, cwd=LOCK.parent.parent)
        text = lock_text(json.loads(report.read_text(encoding="utf-8")))
    LOCK.parent.mkdir(exist_ok=True)
    LOCK.write_text(text, encoding="utf-8")
    return {"packages": text.count("--hash")}


# --- known weaknesses -----------------------------------------------------------------------------------------


def audited(told: dict[str, Any]) -> dict[str, Any]:
    """What pip-audit found, and whether it could look at all: a package that it did not find was not looked up."""
    parts = told.get("dependencies", [])
    known = [f"{part['name']} {part['version']}: {weak['id']}" for part in parts for weak in part.get("vulns", [])]
    skipped = [part["name"] for part in parts if "skip_reason" in part]
    reached = bool(parts) and len(skipped) < len(parts)
    said = "" if reached else "No database of weaknesses can be reached from here, so nothing was looked up."
    return {"looked_up": len(parts) - len(skipped), "skipped": len(skipped), "weaknesses": known, "said": said}


def look_up_weaknesses() -> dict[str, Any]:
    """Ask pip-audit about every line of the lock; where there is no network it says so, and that is no failure."""
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(LOCK), "--require-hashes", "--disable-pip"]
    command += ["--format", "json", "--progress-spinner", "off"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=600)
        told = json.loads(ran.stdout)
    except (ValueError, subprocess.TimeoutExpired):
        told = {}
    return audited(told)
