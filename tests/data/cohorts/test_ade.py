"""The cohort of adverse drug events from posts: layouts, copies, splits, and what is said of wrong files."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.data.cohorts import BuiltCohort, write_built_cohort
from palpate.data.cohorts.ade import AdeOptions, build_ade, mark_copies, text_key
from palpate.data.tables import TableSpec, read_cohort
from palpate.errors import CohortError
from palpate.synthetic.layouts.ade import write_posts


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8", newline="")
    return folder


def labels(built: BuiltCohort) -> dict[str, int]:
    """The label of each text."""
    y = built.cohort.y.toarray().ravel().tolist()
    return dict(zip(built.cohort.texts, y, strict=True))


def dropped(built: BuiltCohort) -> dict[str, int]:
    """How many each reason cost."""
    return {step.reason: step.n_dropped for step in built.flow if step.n_dropped}


POSTS = {
    "smm4h-2017/train.tsv": "11\t901\t1\tzoloft made me dizzy\n12\t901\t0\tzoloft is cheap\n",
    "smm4h-2021/train/tweets.tsv": '21\tlexapro, such a dry mouth\n22\ta quote " in a post\n',
    "smm4h-2021/train/class.tsv": "22\tNoADE\n21\tADE\n",
    "smm4h-2021/train/spans_norms.tsv": "21\tADE\t9\t25\tdry mouth\t1234\n",
    "NADE/negated.tsv": "21\tlexapro, no dry mouth at all\n",
    "kinds.tsv": "11\tade\n",
}


def test_three_sources_are_merged(tmp_path: Path) -> None:
    built = build_ade(write(tmp_path, POSTS))
    assert labels(built) == {
        "zoloft made me dizzy": 1,
        "zoloft is cheap": 0,
        "lexapro, such a dry mouth": 1,
        'a quote " in a post': 0,
        "lexapro, no dry mouth at all": 0,
    }
    cases = {row["case_id"]: row for row in built.cohort.cases.iter_rows(named=True)}
    assert {case: row["source"] for case, row in cases.items()} == {
        "21": "smm4h-2021",
        "22": "smm4h-2021",
        "11": "smm4h-2017",
        "12": "smm4h-2017",
        "21#2": "nade",
    }
    # Two posts of a user, and a post with its negated copy, are never on both sides of a split.
    assert cases["11"]["patient_id"] == cases["12"]["patient_id"] == "user 901"
    assert cases["21"]["patient_id"] == cases["21#2"]["patient_id"]
    told = "posts: smm4h-2021 2 (2 files), smm4h-2017 2 (1 files), nade 1 (1 files)"
    assert built.flow[0].name == f"{told}; not read: 1 files of unknown source"


def test_a_header_says_what_the_columns_are(tmp_path: Path) -> None:
    files = {
        "smm4h_2017.tsv": "\ufeffclass\ttweet_id\tnote\ttweet\r\nADE\t1\tx\tpills\tand tabs\r\n0\t2\tx\tnothing\r\n",
        "nade.tsv": "text\tlabel\nno pain on pills\t0\n",
    }
    built = build_ade(write(tmp_path, files))
    assert labels(built) == {"pills\tand tabs": 1, "nothing": 0, "no pain on pills": 0}


def test_unlabelled_and_lost_posts_are_counted(tmp_path: Path) -> None:
    files = POSTS | {
        "smm4h-2021/test/tweets.tsv": "31\tnobody labelled this\n",
        "smm4h-2017/test.tsv": "32\t902\t1\tNot Available\n33\t902\t0\t \n",
    }
    built = build_ade(write(tmp_path, files))
    assert dropped(built) == {
        "the text is empty or was not available": 2,
        "no file has a class for the post": 1,
    }
    assert len(built.cohort) == 5


COPIES = {
    "2017.tsv": "1\t901\t0\tSame  text @joe http://x.y/1\n2\t902\t1\tboth ways\n3\t903\t1\tclear\n4\t901\t0\tother\n",
    "2021/tweets.tsv": "1\tsame text @jim http://x.y/2\n5\tBoth ways\n6\tclear\n",
    "2021/class.tsv": "1\tNoADE\n5\tNoADE\n6\tADE\n",
}


def test_copies_are_kept_once_and_contradictions_left_out(tmp_path: Path) -> None:
    built = build_ade(write(tmp_path, COPIES))
    assert labels(built) == {"same text @jim http://x.y/2": 0, "clear": 1, "other": 0}
    assert [step.n_dropped for step in built.flow] == [0, 0, 0, 2, 2, 0, 0]
    users = dict(zip(built.cohort.texts, built.cohort.cases["patient_id"], strict=True))
    # The copy of 2021 stays, and takes its user from the one of 2017 that goes.
    assert users == {"same text @jim http://x.y/2": "user 901", "clear": "user 903", "other": "user 901"}


@pytest.mark.parametrize(("how", "kept"), [("positive", {"both ways": 1}), ("first", {"Both ways": 0})])
def test_contradictions_can_be_kept(tmp_path: Path, how: str, kept: dict[str, int]) -> None:
    built = build_ade(write(tmp_path, COPIES), options=AdeOptions.model_validate({"contradictions": how}))
    found = {text: label for text, label in labels(built).items() if text.lower() == "both ways"}
    assert found == kept


def test_exact_copies_differ_in_blanks_only(tmp_path: Path) -> None:
    built = build_ade(write(tmp_path, COPIES), options=AdeOptions(duplicates="exact"))
    assert len(built.cohort) == 6
    assert sum(text.lower().startswith("same") for text in built.cohort.texts) == 2


@given(st.lists(st.tuples(st.sampled_from("aAbB "), st.sampled_from([0, 1, None])), max_size=12))
def test_copies_as_by_hand(rows: list[tuple[str, int | None]]) -> None:
    frame = pl.DataFrame(
        {
            "source": ["nade"] * len(rows),
            "post": [str(at) for at in range(len(rows))],
            "user": [None] * len(rows),
            "label": [label for _, label in rows],
            "text": [None if text == " " else text for text, _ in rows],
        },
        schema={"source": pl.String, "post": pl.String, "user": pl.String, "label": pl.Int8, "text": pl.String},
    )
    seen: dict[str, set[int]] = defaultdict(set)
    for text, label in rows:
        if text != " " and label is not None:
            seen[text.lower()].add(label)
    expected, kept = [], set()
    for text, label in rows:
        if text == " ":
            expected.append("no text")
        elif label is None:
            expected.append("no class")
        elif len(seen[text.lower()]) > 1:
            expected.append("contradiction")
        else:
            expected.append("copy" if text.lower() in kept else None)
            kept.add(text.lower())
    assert mark_copies(frame, duplicates="loose", contradictions="drop")["dropped"].to_list() == expected


@given(st.text())
def test_a_key_does_not_change_when_taken_again(text: str) -> None:
    for loose in (True, False):
        key = text_key(text, loose=loose)
        assert text_key(f"  {key}\n", loose=loose) == key
    assert text_key(text, loose=False).split() == text.split()


def test_the_split_is_stratified_by_label(tmp_path: Path) -> None:
    rows = "".join(f"{k}\t{k}\t{int(k % 10 == 0)}\tpost number {k}\n" for k in range(1000))
    built = build_ade(write(tmp_path, {"2017.tsv": rows}), options=AdeOptions(seed=3))
    y = built.cohort.y.toarray().ravel()
    shares = Counter(zip(built.cohort.cases["split"], y.tolist(), strict=True))
    assert shares == {
        ("train", 0): 630,
        ("train", 1): 70,
        ("validation", 0): 90,
        ("validation", 1): 10,
        ("test", 0): 180,
        ("test", 1): 20,
    }


def test_the_synthetic_posts(tmp_path: Path) -> None:
    write_posts(tmp_path / "ade", n_posts=600, seed=1, site="a")
    built = build_ade(tmp_path / "ade")
    kinds = pl.read_csv(tmp_path / "ade" / "kinds.tsv", separator="\t", schema_overrides={"tweet_id": pl.String})
    kind = dict(kinds.iter_rows())
    y = built.cohort.y.toarray().ravel().tolist()
    assert [kind[case] == "ade" for case in built.cohort.cases["case_id"]] == [label == 1 for label in y]
    assert built.flow[0].n_cases == 600
    assert built.flow[0].n_cases - sum(dropped(built).values()) == len(built.cohort)


def test_the_file_gives_the_cohort_back(tmp_path: Path) -> None:
    built = build_ade(write(tmp_path / "in", POSTS), name="posts")
    write_built_cohort(built, tmp_path / "posts.parquet")
    read = read_cohort(TableSpec(file=tmp_path / "posts.parquet"), name="posts")
    assert read.fingerprint == built.cohort.fingerprint
    again = build_ade(tmp_path / "in", name="posts", options=AdeOptions(splits=tmp_path / "posts.parquet.splits.csv"))
    assert again.cohort.cases.equals(built.cohort.cases)


WRONG = {
    "a class that is none": (
        {"2017.tsv": "1\t9\t0\tfine\n2\t9\t3\tx\n"},
        "2017.tsv, row 2, column 'class': '3' is not a class",
    ),
    "two classes": (
        {"2021/tweets.tsv": "1\ta\n", "2021/class.tsv": "tweet_id\tlabel\n1\tADE\n1\tNoADE\n"},
        "class.tsv, row 3, column 'class': post 1 has two classes",
    ),
    "a broken row": ({"2017.tsv": "1\t9\t0\tfine\nand on\n"}, "2017.tsv, row 2: expected 4 columns but found 1"),
    "no text": (
        {"2017.tsv": "1\t9\t0\n"},
        "2017.tsv, row 1: the file has 3 columns, but smm4h-2017 without a header has",
    ),
    "no text under a header": (
        {"2017.tsv": "tweet_id\tuser_id\n1\t9\n"},
        "2017.tsv, row 1: no column holds the text",
    ),
    "a column twice": ({"2017.tsv": "id\ttext\ttweet\n1\ta\tb\n"}, "2017.tsv, row 1: two columns hold the text"),
    "an empty id": ({"nade.tsv": "1\tfine\n\tx\n"}, "nade.tsv, row 2, column 'tweet_id': the id is empty"),
    "an empty file": ({"2017.tsv": "\n"}, "2017.tsv: the file is empty"),
    "two marks": ({"nade_2021.tsv": "1\ta\n"}, "'nade_2021.tsv' has the marks of smm4h-2021 and nade"),
    "no known file": ({"posts.tsv": "1\ta\n"}, "no file that matches **/*.tsv belongs to a known source"),
    "nothing left": ({"2021/tweets.tsv": "1\ta\n"}, "no cases are left after the step 'with a class'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_files_are_named(case: str, tmp_path: Path) -> None:
    files, message = WRONG[case]
    with pytest.raises(CohortError, match=re.escape(message)):
        build_ade(write(tmp_path / "posts", files))


def test_bytes_that_are_no_text_and_a_missing_folder(tmp_path: Path) -> None:
    (tmp_path / "2017.tsv").write_bytes(b"1\t9\t0\tfine\n2\t9\t0\tcaf\xe9\n")
    with pytest.raises(CohortError, match=r"2017\.tsv, row 2: the file is not UTF-8 text"):
        build_ade(tmp_path)
    with pytest.raises(CohortError, match="folder not found"):
        build_ade(tmp_path / "elsewhere")
