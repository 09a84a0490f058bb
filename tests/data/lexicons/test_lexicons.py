"""Lists of words, clinicians' ratings and replacements, from files as people save them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from palpate.data.lexicons import (
    SheetTerms,
    read_ratings,
    read_replacements,
    read_terms,
    read_words,
    write_rating_sheet,
)
from palpate.errors import InputError
from palpate.perturb.words import RatingScale
from palpate.synthetic.truth import RATERS, expected_ratings, write_ratings


def written(tmp_path: Path, text: str | bytes, name: str = "words.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("words.csv", "word\nfever\nheart  failure\n"),
        ("words.csv", "id,Word \n1,fever\n2, heart failure\n"),
        ("words.csv", "\ufeffword\r\nfever\r\nheart failure\r\n"),
        ("words.csv", "fever\nheart failure\n"),
        ("words.tsv", "word\tnote\nfever\tx\nheart failure\ty\n"),
        ("words.txt", "fever\n\nheart failure"),
        ("words.txt", "\ufeffWords\r\nfever\r\nheart failure\r\n"),
        ("words.jsonl", '{"word": "fever"}\n{"word": "heart failure"}\n'),
    ],
)
def test_lists_of_words(tmp_path: Path, name: str, text: str) -> None:
    assert read_words(written(tmp_path, text, name)) == ("fever", "heart failure")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("w.csv", "a,b\n1,2\n", r"w\.csv, column 'word': column not found"),
        ("w.csv", "word,n\nfever,1\nFEVER,2\n", r"row 2, column 'word': the word 'FEVER' is also in row 1"),
        ("w.csv", "word,n\nfever,1\n ,2\n", r"row 2, column 'word': the cell is empty"),
        ("w.csv", "word,n\n++,1\n", r"row 1, column 'word': '\+\+' has no letter"),
        ("w.csv", "word\n", r"the file has no words"),
        ("w.csv", "", r"the file is empty; write one word"),
        ("w.txt", "fever\n\nfever\n", r"row 3, column 'word': the word 'fever' is also in row 1"),
        ("w.txt", b"f\xe9ver\n", r"the bytes are not UTF-8"),
        ("w.csv", b"word\nf\xe9ver\n", r"row 1, column 'word': the bytes are not UTF-8"),
        ("w.ods", "x", r"this type of file can't be read"),
    ],
)
def test_wrong_lists(tmp_path: Path, name: str, text: str | bytes, message: str) -> None:
    path = written(tmp_path, text, name)
    with pytest.raises(InputError, match=message):
        read_words(path)


def test_absent_files_are_told(tmp_path: Path) -> None:
    for name in ("absent.csv", "absent.txt"):
        with pytest.raises(InputError, match=r"absent.*check the path"):
            read_words(tmp_path / name)


def test_ratings_with_missing_scores(tmp_path: Path) -> None:
    path = written(tmp_path, "Word,Dr A, Dr B\nfever,5,\nheart failure, 3.5 ,1\n")
    ratings = read_ratings(path)
    assert ratings.words == ("fever", "heart failure")
    assert ratings.raters == ("Dr A", "Dr B")
    np.testing.assert_array_equal(ratings.scores, [[5, np.nan], [3.5, 1]])


@pytest.mark.parametrize("stated", ["0-10", "0 to 10", " 0 – 10 ", "0..10", "0,0 to 10.0"])
def test_a_sheet_states_its_scale(tmp_path: Path, stated: str) -> None:
    path = written(tmp_path, f'word,a,Scale,instruction\nfever,0,,\npain,10,"{stated}",Rate it.\n')
    ratings = read_ratings(path)
    assert (ratings.scores.tolist(), ratings.raters, ratings.scale) == ([[0], [10]], ("a",), (0, 10))
    assert read_terms(path) == (RatingScale(0, 10), "Rate it.")
    assert read_words(path) == ("fever", "pain")


def test_without_a_stated_scale_it_is_1_to_5(tmp_path: Path) -> None:
    path = written(tmp_path, "word,a,scale\nfever,5,\npain,1,\n")
    assert read_ratings(path).scale == (1, 5)
    assert read_terms(path) == (None, None)
    assert read_terms(written(tmp_path, "fever\n", "w.txt")) == (None, None)


def test_a_written_sheet_states_its_scale_and_instruction(tmp_path: Path) -> None:
    terms = SheetTerms(RatingScale(1, 7), "=Rate, please")
    write_rating_sheet(tmp_path / "s.csv", ["b", "a"], ["x"], scores=np.array([[7.0], [2.0]]), terms=terms)
    assert read_terms(tmp_path / "s.csv") == terms
    assert read_ratings(tmp_path / "s.csv").scores.tolist() == [[7], [2]]
    for name in ("scale", "instruction", "word"):
        with pytest.raises(InputError, match="a name of their own"):
            write_rating_sheet(tmp_path / "t.csv", ["a"], [name])


def test_sheets_with_semicolons_and_decimal_commas(tmp_path: Path) -> None:
    assert read_words(written(tmp_path, "n;word\n1;fever\n2;heart failure\n", "w.csv")) == ("fever", "heart failure")
    rated = read_ratings(written(tmp_path, "word;a;b\nfever;3,5;4\npain;;2,25\n", "r.csv"))
    np.testing.assert_array_equal(rated.scores, [[3.5, 4], [np.nan, 2.25]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("word,a\nfever,5\npain,6\n", r"row 2, column 'a': the cell is '6', not from 1 to 5"),
        ("word,a\nfever,0.5\n", r"row 1, column 'a': the cell is '0\.5', not from 1 to 5"),
        ("word,a\nfever,high\n", r"row 1, column 'a': the cell is 'high', not a number"),
        ("word,a\nfever,nan\n", r"row 1, column 'a': the cell is 'nan', not a number"),
        ('word,a\nfever,"5,5"\n', r"row 1, column 'a': the cell is '5,5', not from 1 to 5"),
        ("word,a,b\nfever,1,\npain,2,\n", r"column 'b': this rater gave no score"),
        ("word,a\nfever,1\nFever,2\n", r"row 2, column 'word': the word 'Fever' is also in row 1"),
        ("word\nfever\n", r"the sheet has no raters"),
        ("term,a\nfever,1\n", r"column 'word': column not found.*'term'"),
        ("word,a,a\nfever,1,2\n", r"column 'a': the header has this column twice"),
        ("word,a\n", r"the file has no words"),
        ("word,a,scale\nfever,5,many\n", r"column 'scale': the cell is 'many', not a scale; write the lowest"),
        ("word,a,scale\nfever,5,5-1\n", r"column 'scale': the cell is '5-1', not a scale"),
        ("word,a,scale\nfever,5,1-5\npain,5,1-7\n", r"column 'scale': the column says '1-5' and '1-7'"),
        ("word,a,scale\nfever,8,1 to 7\n", r"row 1, column 'a': the cell is '8', not from 1 to 7"),
        ("word,scale\nfever,1-5\n", r"the sheet has no raters"),
    ],
)
def test_wrong_ratings_name_file_row_and_column(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text, "clinicians.csv")
    with pytest.raises(InputError, match=rf"clinicians\.csv.*{message}"):
        read_ratings(path)


def test_the_synthetic_hospital_s_clinicians(tmp_path: Path) -> None:
    path = tmp_path / "clinician_ratings.csv"
    write_ratings(path, seed=1, site="a")
    ratings = read_ratings(path)
    assert ratings.raters == RATERS
    assert sorted(ratings.words) == sorted(expected_ratings())
    assert not np.isnan(ratings.scores).any()
    mean = [expected_ratings()[word] for word in ratings.words]
    assert np.corrcoef(ratings.scores.mean(axis=1), mean)[0, 1] > 0.8


def test_replacements(tmp_path: Path) -> None:
    path = written(tmp_path, "word,replacement\nSmoker,non-smoker\nfever, cough  \nsmoker,drinker\nfever,cough\n")
    assert read_replacements(path) == {"smoker": ("non-smoker", "drinker"), "fever": ("cough",)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("word,replacement\nfever,Fever\n", r"row 1, column 'replacement': the replacement is the word itself"),
        ("word,replacement\nfever,\n", r"row 1, column 'replacement': the cell is empty"),
        ("word,new\nfever,x\n", r"column 'replacement': column not found"),
    ],
)
def test_wrong_replacements(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_replacements(written(tmp_path, text))


@pytest.mark.parametrize("name", ["sheet.csv", "sheet.tsv"])
def test_the_sheet_comes_back_filled_in(tmp_path: Path, name: str) -> None:
    path = tmp_path / "new" / name
    write_rating_sheet(path, ["naïve", "heart  failure", 'a "b", c'], ["Dr A", "Dr B"])
    mark = "," if name.endswith("csv") else "\t"
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    assert lines[:3] == [f"word{mark}Dr A{mark}Dr B", f"naïve{mark}{mark}", f"heart failure{mark}{mark}"]
    with pytest.raises(InputError, match="this rater gave no score"):
        read_ratings(path)
    filled = [lines[0], *(f"{line.removesuffix(2 * mark)}{mark}{k}{mark}5" for k, line in enumerate(lines[1:], 1))]
    path.write_text("\n".join(filled), encoding="utf-8-sig")
    ratings = read_ratings(path)
    assert ratings.words == ("naïve", "heart failure", 'a "b", c')
    assert ratings.scores.tolist() == [[1, 5], [2, 5], [3, 5]]


def test_a_sheet_is_never_written_over_scores(tmp_path: Path) -> None:
    path = written(tmp_path, "word,a\nfever,5\n")
    with pytest.raises(InputError, match="already exists"):
        write_rating_sheet(path, ["fever"], ["a"])
    write_rating_sheet(path, ["fever"], ["a"], overwrite=True)
    assert path.read_text(encoding="utf-8-sig") == "word,a\nfever,\n"


@pytest.mark.parametrize("raters", [[], ["a", "a"], ["word"], [" "]])
def test_raters_need_names(tmp_path: Path, raters: list[str]) -> None:
    with pytest.raises(InputError, match="each rater needs a name of their own"):
        write_rating_sheet(tmp_path / "sheet.csv", ["fever"], raters)
