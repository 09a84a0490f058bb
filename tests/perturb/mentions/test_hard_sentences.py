"""Hard sentences, written for palpate: `affirmed` is right on at least 95% of them.

`held_back.tsv` was written before the rules and read only when they were done (86 of 87 then; one rule was mended after
it); `hard_sentences.tsv` was written beside them, in batches; `last_check.tsv` after the last of them (58 of 60 then).
`second_reader.tsv` is by another author: four batches of 60, the first two written before seeing the rules; 56, 56, 56
and 58 were right when they were first tried. `third_reader.tsv` is by a
third author, in four batches, of which 50 of 56, 38 of 42, 24 of 30 and 38 of 40 were right when they were first tried
(sentences without the label were then replaced), each written after the causes of the one before were mended.
`fourth_reader.tsv` is by a fourth author, who knew the rules and wrote the first two of four batches against them: 45
of 60, 29 of 40 and (in the everyday words of notes) 37 of 40 and 39 of 40 were right when they were first tried.
`fifth_reader.tsv` is by a fifth author, who read the rules only after the first batch: 27 of 34 and, after mends, 24 of
32 were right when they were first tried. `sixth_reader.tsv` is by a sixth author, who wrote the first 60 before reading
the rules (55 right when first tried) and 40 in the words of notes after five mends (39 right). A new
sentence that fails belongs into the second file, with its rule.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import pytest

from palpate.perturb.mentions import find_mentions

HERE = Path(__file__).parent
FILES = (
    "hard_sentences.tsv",
    "held_back.tsv",
    "last_check.tsv",
    "second_reader.tsv",
    "third_reader.tsv",
    "fourth_reader.tsv",
    "fifth_reader.tsv",
    "sixth_reader.tsv",
)


def sentences(name: str) -> list[tuple[str, str, str, int]]:
    """Kind, label, text and whether the mention is affirmed."""
    with (HERE / name).open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    return [(kind, label, text.replace("\\n", "\n"), int(affirmed)) for kind, label, text, affirmed in rows]


def wrong(name: str, rule: str = "affirmed") -> list[tuple[str, str, str, int]]:
    return [
        row
        for row in sentences(name)
        if find_mentions([row[2]], [row[1]], rule=rule)[0, 0] != row[3]  # type: ignore[arg-type]
    ]


@pytest.mark.parametrize("name", FILES)
def test_at_least_95_of_100_hard_sentences_are_right(name: str) -> None:
    rows = sentences(name)
    assert len(rows) >= 60
    assert all(find_mentions([text], [label])[0, 0] == 1 for _, label, text, _ in rows)  # all mention the label
    found = wrong(name)
    assert 1 - len(found) / len(rows) >= 0.97, found
    assert len(wrong(name, "substring")) > 0.4 * len(rows)  # so that always "yes" would fail


@pytest.mark.parametrize("kind", ["planned", "taken back"])
def test_all_are_right_of_the_kinds_that_a_reviewer_broke(kind: str) -> None:
    assert len([row for row in sentences("hard_sentences.tsv") if row[0] == kind]) >= 7
    assert [row for row in wrong("hard_sentences.tsv") if row[0] == kind] == []


def test_no_kind_of_sentence_is_misread_as_a_whole() -> None:
    right: dict[str, list[bool]] = defaultdict(list)
    for name in FILES:
        failed = {(*row[2:], row[1]) for row in wrong(name)}
        for kind, label, text, affirmed in sentences(name):
            right[kind].append((text, affirmed, label) not in failed)
    assert {"family", "absent", "pseudo", "post", "hypothetical", "oneline"} <= set(right)
    assert [kind for kind, each in right.items() if sum(each) < 0.75 * len(each)] == []


@pytest.mark.parametrize(
    ("text", "affirmed"),
    [
        ("Her father was a smoker. He died of pneumonia.", 0),
        ("His wife called. He has pneumonia.", 1),
        ("Family history:\n\nPneumonia.\n\nPlan: none", 0),
        ("Family history:\nstroke.\n\nPneumonia was found on admission.", 1),
        ("His sister had asthma and his father had pneumonia.", 0),
        ("She is not having pain, just some pneumonia.", 1),
        ("He describes gout, pneumonia, high cholesterol, and back pain in his family.", 0),
        ("He has pneumonia and is anxious, there is no cancer in his family.", 1),
        ("He developed pneumonia after his visit, and gout runs in the family.", 1),
        ("Pneumonias, gout and stroke in the family.", 0),
    ],
)
def test_relatives_are_followed_over_sentences(text: str, affirmed: int) -> None:
    assert find_mentions([text], ["Pneumonia"], rule="affirmed")[0, 0] == affirmed
