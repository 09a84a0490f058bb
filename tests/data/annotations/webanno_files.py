"""WebAnno projects, written as INCEpTION exports them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

LAYER = "webanno.custom.Code"
Mark = tuple[str, str]
"""Words of the text, and their code."""


def tsv(text: str, marks: Sequence[Mark], *, layer: str = LAYER, feature: str = "code") -> str:
    """A document of one sentence; each mark is on the first place of its words."""
    places = []
    for number, (words, code) in enumerate(marks, start=1):
        at = text.index(words)
        places.append((at, at + len(words), code, number))
    rows = [f"#FORMAT=WebAnno TSV 3.3\n#T_SP={layer}|{feature}\n\n", f"#Text={text}"]
    for k, token in enumerate(re.finditer(r"\w+|[^\w\s]", text), start=1):
        here = [f"{code}[{n}]" for b, e, code, n in places if b < token.end() and token.start() < e]
        rows.append(f"1-{k}\t{token.start()}-{token.end()}\t{token.group()}\t{'|'.join(here) or '_'}\t")
    return "\n".join(rows) + "\n"


def write_project(
    folder: Path,
    documents: Mapping[str, tuple[str, Mapping[str, Sequence[Mark]]]],
    *,
    curated: Mapping[str, Sequence[Mark]] | None = None,
    layer: str = LAYER,
    feature: str = "code",
) -> Path:
    """Texts with the marks of each annotator, and the curated ones if there are any."""
    for name, (text, by_annotator) in documents.items():
        for who, marks in by_annotator.items():
            place = folder / "annotation" / name
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{who}.tsv").write_text(tsv(text, marks, layer=layer, feature=feature), encoding="utf-8")
        if curated is not None:
            place = folder / "curation" / name
            place.mkdir(parents=True, exist_ok=True)
            (place / "CURATION_USER.tsv").write_text(tsv(text, curated.get(name, ())), encoding="utf-8")
    return folder
