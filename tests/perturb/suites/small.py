"""Small suites for tests, written to a folder."""

from __future__ import annotations

import textwrap
from pathlib import Path

HEAD = """
suite: small
labels: {positive: ADE, negative: no ADE}
lexicons:
  drug: [Zoloft, Prozac, aspirin]
  effect: [nausea, headaches]
"""

ONE_TEST = """
capabilities:
  - id: negation
    tests:
      - id: negated
        type: MFT
        templates:
          - {id: t1, label: no ADE, text: "I [took|tried] {drug} without {effect}."}
"""


def write(folder: Path, text: str, name: str = "small.yaml") -> Path:
    file = folder / name
    file.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
    return file
