"""What palpate is installed with: a software bill of materials (CycloneDX 1.5, JSON) and a list of licences."""

from __future__ import annotations

import json
import re
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

_UNKNOWN = "unknown"


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
    named = {each.metadata["Name"].lower(): each for each in distributions() if each.metadata["Name"]}
    return [named[name] for name in sorted(named)]


def sbom() -> dict[str, Any]:
    """The bill of materials; without times and random numbers, so that the same environment gives the same bytes."""
    parts = []
    for each in installed():
        name, version = each.metadata["Name"], each.version
        normal = re.sub(r"[-_.]+", "-", name).lower()
        parts.append(
            {
                "type": "library",
                "name": name,
                "version": version,
                "purl": f"pkg:pypi/{normal}@{version}",
                "bom-ref": f"{normal}@{version}",
                "licenses": [{"license": {"name": licence(each)}}],
            }
        )
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": parts}


def write_supply(folder: Path = Path("build")) -> dict[str, Any]:
    """Write both."""
    folder.mkdir(exist_ok=True)
    (folder / "sbom.json").write_text(json.dumps(sbom(), indent=1) + "\n", encoding="utf-8")
    lines = [f"{each.metadata['Name']} {each.version}: {licence(each)}" for each in installed()]
    (folder / "licences.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {"packages": len(lines), "without_licence": [line for line in lines if line.endswith(f": {_UNKNOWN}")]}
