"""The ADE corpus v2 as a cohort: spans in the sentence, one case a sentence, abstracts in one split."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from palpate.data.cohorts.ade import AdeOptions, build_ade
from palpate.data.cohorts.ade_corpus import read_relations
from palpate.errors import CohortError

_CORPUS = Path(__file__).parents[4] / "shared" / "data" / "ade_corpus_v2"
SENTENCE = "Rash and again rash after rifampicin and rifampicin."
RELATIONS = f"""\
7|{SENTENCE}|rash|115|119|rifampicin|126|136
7|{SENTENCE}|rash|115|119|rifampicin|141|151
7|{SENTENCE}|Rash|100|104|rifampicin|126|136
8|Lithium tremor.|tremor|8|14|Lithium|0|7
"""
NEGATIVES = """\
7 NEG The patient was fine.
9 NEG The patient was fine.
9 NEG  A sentence of its own.
"""


def corpus(folder: Path, relations: str = RELATIONS, negatives: str = NEGATIVES) -> Path:
    (folder / "DRUG-AE.rel").write_text(relations, encoding="utf-8")
    (folder / "ADE-NEG.txt").write_text(negatives, encoding="utf-8")
    return folder


def test_one_case_a_sentence_with_its_spans(tmp_path: Path) -> None:
    built = build_ade(corpus(tmp_path))
    cases = built.cohort.cases
    assert cases["text"].to_list() == [
        SENTENCE,
        "Lithium tremor.",
        "The patient was fine.",
        " A sentence of its own.",
    ]
    assert built.cohort.y.toarray().ravel().tolist() == [1, 1, 0, 0]
    assert cases["case_id"].to_list() == ["7-1", "8-1", "7-2", "9-1"]
    assert cases["patient_id"].to_list() == ["7", "8", "7", "9"]
    assert cases["drug_spans"].to_list() == ["26-36 41-51", "0-7", None, None]
    assert cases["effect_spans"].to_list() == ["0-4 15-19", "8-14", None, None]
    for spans, words in (("drug_spans", {"rifampicin", "Lithium"}), ("effect_spans", {"rash", "Rash", "tremor"})):
        found = {
            text[int(begin) : int(end)]
            for text, places in zip(cases["text"], cases[spans], strict=True)
            for begin, end in re.findall(r"(\d+)-(\d+)", places or "")
        }
        assert found == words
    assert [step.n_dropped for step in built.flow] == [0, 0, 0, 0, 1, 0, 0]


def test_the_source_can_be_asked_for(tmp_path: Path) -> None:
    (tmp_path / "2017.tsv").write_text("1\t9\t0\tfine\n")
    with pytest.raises(CohortError, match=r"DRUG-AE\.rel not found in the folder"):
        build_ade(tmp_path, options=AdeOptions(source="ade-corpus"))
    corpus(tmp_path)
    assert len(build_ade(tmp_path).cohort) == 4
    assert build_ade(tmp_path, options=AdeOptions(source="smm4h")).cohort.texts == ["fine"]


@pytest.mark.parametrize(
    ("relations", "message"),
    [
        ("8|Lithium tremor.|tremor|8|14\n", "DRUG-AE.rel, row 1: expected 8 fields separated by '|' but found 5"),
        (
            f"{RELATIONS}\n8|Lithium tremor.|tremor|8|14|Lithium|3|10\n",
            "row 6: the sentence does not contain the drug and the effect",
        ),
        ("8|Lithium tremor.|tremor|8|14|Lithium|x|7\n", "row 1, column 'begin of drug': 'x' is not an offset"),
        ("PMC|Lithium tremor.|tremor|8|14|Lithium|0|7\n", "row 1, column 'pmid': 'PMC' is not a PubMed id"),
        ("8|Lithium tremor.||8|8|Lithium|0|7\n", "row 1: the sentence does not contain the drug and the effect"),
    ],
)
def test_wrong_relations_are_named(relations: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(CohortError, match=re.escape(message)):
        build_ade(corpus(tmp_path, relations=relations))


@pytest.mark.parametrize("line", ["7 POS Something.", "7 NEG ", "7"])
def test_wrong_negatives_are_named(line: str, tmp_path: Path) -> None:
    with pytest.raises(CohortError, match=r"ADE-NEG\.txt, row 2: the row does not have the form"):
        build_ade(corpus(tmp_path, negatives=f"7 NEG Fine.\n{line}\n"))


@pytest.mark.skipif(not _CORPUS.exists(), reason="../shared/data/ade_corpus_v2 is not here")
def test_the_real_corpus() -> None:
    relations = list(read_relations(_CORPUS / "DRUG-AE.rel"))
    assert len(relations) == 6821
    built = build_ade(_CORPUS)
    assert (len(built.cohort), int(built.cohort.y.sum()), built.cohort.n_patients) == (20_895, 4_271, 2_972)
    assert [step.n_dropped for step in built.flow] == [0, 0, 0, 0, 72, 0, 0]
    for split, share in (("train", 0.7), ("validation", 0.1), ("test", 0.2)):
        rows = built.cohort.rows(split=split)
        patients = built.cohort.cases[rows]["patient_id"].n_unique()
        assert abs(patients - share * 2_972) <= 1
        assert 0.18 < built.cohort.y_true(rows).mean() < 0.23
