"""Charts as columns: what one side lacks is missed or false, and the oracle scores exactly 1."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from palpate.data import mdace
from palpate.data.mdace import Annotation, Chart, Note
from palpate.data.mdace_columns import align
from palpate.data.mdace_notes import with_notes
from palpate.errors import CohortError
from palpate.stats.spans import count_matches, span_scores, strata_by_chart, strata_by_note, tokenise
from palpate.synthetic.hospital import write_hospital

TEXT = "Chest pain and fever."


def mark(begin: int, end: int, code: str = "R07.9") -> Annotation:
    return Annotation(begin, end, code, "ICD-10-CM")


def chart(hadm: int, note: int, *spans: Annotation, text: str | None = TEXT, setting: str | None = "Profee") -> Chart:
    return Chart(hadm, (Note(note, "ECG ", spans, text=text),), setting=setting, file=Path(f"{hadm}.json"))


def totals(gold: list[Chart], predicted: list[Chart]) -> list[int]:
    columns = align(gold, predicted)
    counts = count_matches(
        tokenise(columns.texts), columns.gold, columns.predicted, chart=columns.chart, n_codes=len(columns.codes)
    )
    return list(counts.totals()[0, 0])


def test_columns() -> None:
    columns = align([chart(2, 8, mark(0, 10)), chart(1, 9, mark(15, 20, "R50.9"))], [chart(2, 8, mark(0, 5))])
    assert columns[:8] == (
        (1, 2),
        ("complete", "complete"),
        (9, 8),
        (0, 1),
        ("ECG", "ECG"),
        (TEXT, TEXT),
        ("R07.9", "R50.9"),
        ("ICD-10-CM", "ICD-10-CM"),
    )
    assert [c.tolist() for c in columns.gold] == [[1, 0], [0, 15], [10, 20], [0, 1]]
    assert [c.tolist() for c in columns.predicted] == [[1], [0], [5], [0]]


def test_what_one_side_lacks() -> None:
    assert totals([chart(1, 9, mark(0, 10))], []) == [0, 0, 2]
    assert totals([], [chart(1, 9, mark(0, 10))]) == [0, 2, 0]
    # A code without gold, a note without gold, a chart without gold.
    assert totals([chart(1, 9, mark(0, 5))], [chart(1, 9, mark(0, 5), mark(0, 5, "I10"))]) == [1, 1, 0]
    assert totals([chart(1, 9, mark(0, 5))], [chart(1, 8, mark(0, 5))]) == [0, 1, 1]
    assert totals([chart(1, 9, mark(0, 5))], [chart(2, 8, mark(0, 5))]) == [0, 1, 1]


def test_predictions_need_no_text_of_gold_notes() -> None:
    assert totals([chart(1, 9, mark(0, 5))], [chart(1, 9, mark(0, 5), text=None)]) == [1, 0, 0]


def test_bad_predictions() -> None:
    gold = [chart(1, 9, mark(0, 5))]
    with pytest.raises(CohortError, match=r"1\.json: note 9, annotation 1: the span goes from 0 to 99, but the note"):
        align(gold, [chart(1, 9, mark(0, 99), text=None)])
    with pytest.raises(CohortError, match=r"1\.json: note 8 has no text"):
        align(gold, [chart(1, 8, mark(0, 5), text=None)])
    assert align(gold, [chart(1, 8, mark(0, 5), text=None)], texts={8: TEXT}).note_id == (8, 9)
    with pytest.raises(CohortError, match=r"2\.json: note 9 is also in another admission"):
        align(gold, [chart(2, 9, mark(0, 5))])
    with pytest.raises(CohortError, match="admission 1 is in two predicted charts"):
        align(gold, [gold[0], gold[0]])


def test_oracle_and_random_evidence_on_the_synthetic_hospital(tmp_path: Path) -> None:
    write_hospital(tmp_path, n_patients=120, seed=5, images=False)
    charts = with_notes(mdace.read(tmp_path / "mdace", setting="Inpatient", system="ICD-10"), tmp_path / "mimic-iii")
    bare = [replace(c, notes=tuple(replace(n, text=None) for n in c.notes)) for c in charts]
    columns = align(charts, bare)
    words = tokenise(columns.texts)
    strata = [
        *strata_by_note(columns.category, columns.gold, columns.predicted),
        *strata_by_chart(columns.completeness, columns.chart, columns.gold, columns.predicted),
    ]
    n_codes = len(columns.codes)
    counts = count_matches(words, columns.gold, columns.predicted, chart=columns.chart, n_codes=n_codes, strata=strata)
    assert {"all", "Discharge summary", "Physician", "sufficient"} <= set(counts.strata)
    assert np.all(span_scores(counts, n_replicates=20).values == 1.0)
    # As many words as the gold has, anywhere: the share of words that are evidence for the code is what chance finds.
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, words.begin.size, columns.gold.code.size)
    chance = columns.gold._replace(note=words.note[drawn], begin=words.begin[drawn], end=words.end[drawn])
    by_chance = count_matches(words, columns.gold, chance, chart=columns.chart, n_codes=n_codes)
    assert span_scores(by_chance, n_replicates=0).point[0, 0, 0, 2] < 0.02
