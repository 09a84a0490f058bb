"""Another team's phrases for prior mentions: the folder of a published labeler as it is, tables and YAML."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from palpate.config import make_audit
from palpate.data.lexicons.phrases import read_phrases
from palpate.errors import PalpateError
from palpate.perturb.mentions import find_mentions, label_phrases

CHEXPERT = Path(__file__).parents[4] / "shared/data/chexpert_phrases"


def folder(at: Path) -> Path:
    (at / "mention").mkdir()
    (at / "unmention").mkdir()
    (at / "mention/pleural_effusion.txt").write_text("effusion\n\n_fluid_\neffusion\n", encoding="utf-8")
    (at / "unmention/pleural_effusion.txt").write_text("pericardial effusion", encoding="utf-8")
    return at


def table(at: Path) -> Path:
    rows = "label,phrase\nPleural Effusion,effusion\nPleural Effusion,_fluid_\nPleural Effusion,!pericardial effusion\n"
    (at / "phrases.csv").write_text(rows, encoding="utf-8")
    return at / "phrases.csv"


def yaml(at: Path) -> Path:
    text = 'Pleural Effusion: [effusion, _fluid_, "!pericardial effusion"]\n'
    (at / "phrases.yaml").write_text(text, encoding="utf-8")
    return at / "phrases.yaml"


@pytest.mark.parametrize("layout", [folder, table, yaml])
def test_every_layout_says_the_same(layout: object, tmp_path: Path) -> None:
    path = layout(tmp_path)  # type: ignore[operator]
    ((label, phrases),) = read_phrases(path).items()
    assert label.lower().replace("_", " ") == "pleural effusion"
    assert phrases == ("effusion", "_fluid_", "!pericardial effusion")
    audit = make_audit("context", {"phrases": path.name, "mentions": "affirmed"}, folder=path.parent)
    assert audit.phrases == {label: phrases}
    texts = [
        "A pericardial effusion.",
        "Pericardial effusion and an effusion on the left.",
        "Free fluid.",
        "The fluidity of speech.",
        "No effusion.",
        "Hydrothorax.",  # palpate's own phrase, which these replace
    ]
    for rule, expected in (("substring", [0, 1, 1, 0, 1, 0]), ("affirmed", [0, 1, 1, 0, 0, 0])):
        found = find_mentions(texts, ["Pleural Effusion"], rule=rule, phrases=audit.phrases)  # type: ignore[arg-type]
        assert found[:, 0].tolist() == expected


def test_the_published_folder_works_as_it_is() -> None:
    if not CHEXPERT.is_dir():
        pytest.skip("the published phrases are not on this machine")
    audit = make_audit("context", {"phrases": str(CHEXPERT)})
    assert len(audit.phrases) == 14
    n_lines = sum(len(file.read_text().split("\n")) for file in CHEXPERT.glob("*/*.txt"))
    assert 0.9 * n_lines < sum(map(len, audit.phrases.values())) <= n_lines
    labels = list(label_phrases())
    assert {label.lower().replace(" ", "_") for label in labels} < set(audit.phrases)  # all of ours have a file
    for rule in ("substring", "affirmed"):
        texts = ["Large effusion.", "Pericardial effusion.", "Effusion on the left, and a pericardial effusion."]
        found = find_mentions(texts, ["Pleural Effusion"], rule=rule, phrases=audit.phrases)
        assert found[:, 0].tolist() == [1, 0, 1]
    note = "The patient's central line was removed. No pneumothorax."
    ours = find_mentions([note], labels, rule="affirmed", phrases=audit.phrases)
    assert np.flatnonzero(ours[0] == 1).tolist() == [labels.index("Support Devices")]


@pytest.mark.parametrize(
    ("files", "name", "problem"),
    [
        ({}, "none.csv", "none.csv: the file or folder does not exist"),
        ({}, "nothing", "nothing: the file or folder does not exist"),
        ({"empty/readme.md": "x"}, "empty", "no phrases are listed"),
        ({"p/mention/edema.txt": "\n"}, "p", "edema.txt: the file has no phrases"),
        ({"p/mention/edema.txt": "edema\n--\n"}, "p", "edema.txt, row 2: the phrase has no letters or digits"),
        ({"p/mention/a.txt": "a", "p/unmention/b.txt": "b"}, "p", "b.txt: these are exceptions to no phrases"),
        ({"p.csv": "label,term\nEdema,edema\n"}, "p.csv", "p.csv, column 'phrase': column not found"),
        ({"p.csv": "label,phrase\nEdema,\n"}, "p.csv", "p.csv, row 1, column 'phrase': the cell has no letters"),
        ({"p.yaml": "Edema: 3\n"}, "p.yaml", "label 'Edema': not a list of phrases"),
        ({"p.yaml": 'Edema: ["!leg edema"]\n'}, "p.yaml", "label 'Edema' has exceptions and no phrases"),
    ],
)
def test_a_wrong_file_is_one_clear_sentence(files: dict[str, str], name: str, problem: str, tmp_path: Path) -> None:
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    with pytest.raises(PalpateError) as refused:
        make_audit("context", {"phrases": name}, folder=tmp_path)
    assert problem in str(refused.value)
    assert refused.value.exit_code == 2
