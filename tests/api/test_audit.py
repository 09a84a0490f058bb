"""`palpate.audit` on frames and models in memory gives what the command line gives on files."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import skops.io
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import palpate
from palpate.errors import InputError, PalpateError
from tests.api.notes import fitted, notes_table

pd = pytest.importorskip("pandas")
COLUMNS: dict[str, Any] = {
    "labels": ["readmitted"],
    "text": "note",
    "patient": "subject_id",
    "split": "split",
    "attributes": ["sex", "age"],
}
FEW: dict[str, Any] = {"audits": {"performance": {"n_replicates": 200}}, "progress": False}


def as_pandas(table: pl.DataFrame) -> Any:
    return pd.DataFrame({name: table[name].to_list() for name in table.columns})


def shouting(texts: list[str]) -> list[float]:
    """A model of nobody's."""
    return [0.9 if "sepsis" in text else 0.1 for text in texts]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_the_block_of_the_readme(library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = notes_table()
    pipeline = fitted(table)
    skops.io.dump(pipeline, tmp_path / "model.skops")
    frame = as_pandas(table) if library == "pandas" else table
    result = palpate.audit(
        frame,
        **COLUMNS,
        models={"lr": pipeline, "file": "sklearn:model.skops", "vendor": frame["score"], "mine": shouting},
        audits=[palpate.Performance(n_replicates=200), "subgroups", palpate.Vocabulary(words=("sepsis",))],
        progress=False,
    )
    test = table.filter(pl.col("split") == "test")
    values = {
        row["model"]: row["value"] for row in result["performance"].estimates(metric="auroc", reference=None).to_dict()
    }
    y = test["readmitted"].to_numpy()
    assert values["lr"] == pytest.approx(roc_auc_score(y, pipeline.predict_proba(test["note"].to_list())[:, 1]))
    assert values["vendor"] == pytest.approx(roc_auc_score(y, test["score"].to_numpy()))
    assert values["mine"] == pytest.approx(roc_auc_score(y, shouting(test["note"].to_list())))
    assert values["file"] == values["lr"]
    assert list(result) == ["data", "performance", "subgroups", "vocabulary"]
    assert "vendor" not in result["vocabulary"].to_polars()["model"].to_list()
    assert any("vendor is nothing but scores" in fact for fact in result.manifest["facts"])
    assert result.gate("performance.auroc >= 0.5")
    assert not result.gate("performance.auroc >= 0.999")
    assert result.report("copy.html").read_text().startswith("<!doctype html")
    for shown in (result, result["performance"], result.scorecard, result.chart("calibration"), result.estimates()):
        html = shown._repr_html_()
        assert "<script" not in html
        assert "<style" not in html
        assert html.count("<") > 5
        assert repr(shown)


def test_the_same_numbers_as_the_command_line(tmp_path: Path) -> None:
    table = notes_table()
    table.write_parquet(tmp_path / "cohort.parquet")
    pipeline = fitted(table)
    skops.io.dump(pipeline, tmp_path / "model.skops")
    (tmp_path / "audit.yaml").write_text(
        "cohort: {file: cohort.parquet, labels: [readmitted], text: note, patient: subject_id, split: split, "
        "attributes: [sex, age]}\nmodels: {lr: 'sklearn:model.skops'}\n"
        "audits: {performance: {n_replicates: 200}, vocabulary: {words: [sepsis, walking], n_replicates: 200}}\n"
    )
    by_file = palpate.audit(tmp_path / "audit.yaml", progress=False)
    audits = {"performance": {"n_replicates": 200}, "vocabulary": {"words": ["sepsis", "walking"], "n_replicates": 200}}
    in_memory = palpate.audit(
        {"cohort": table}, **COLUMNS, models={"lr": pipeline}, audits=audits, progress=False, out=tmp_path / "own"
    )
    for name in ("performance", "vocabulary"):
        assert by_file[name].to_polars().equals(in_memory[name].to_polars())
    assert (tmp_path / "own" / "manifest.json").is_file()
    again = palpate.read_run(tmp_path / "own")
    assert again["performance"].to_polars().equals(in_memory["performance"].to_polars())
    changes = palpate.compare(by_file, tmp_path / "own").to_polars()
    assert changes["change"].drop_nulls().abs().max() == 0


def test_a_pandas_index_is_kept_as_case_ids_and_orders_scores() -> None:
    table = notes_table(120)
    frame = as_pandas(table).set_index(pd.Index([f"stay-{k}" for k in range(120)]))
    shuffled = frame["score"].sample(frac=1, random_state=1)
    result = palpate.audit(frame, labels="readmitted", models={"a": frame["score"], "b": shuffled}, **FEW)
    rows = result.estimates(metric="auroc", reference=None).to_polars()
    assert rows["value"].n_unique() == 1
    ids = pl.read_parquet(result.directory.path / "variants" / "performance.parquet")["case_id"]
    assert set(ids) == set(frame.index)


def test_a_model_of_columns_gets_the_users_frame(tmp_path: Path) -> None:
    table = notes_table()
    frame = as_pandas(table)
    train = frame[frame["split"] == "train"]
    forest = RandomForestClassifier(20, random_state=0).fit(train[["age", "score"]], train["readmitted"])
    asked: list[Any] = []

    def by_age(rows: Any) -> Any:
        asked.append(rows)
        return rows["age"] / 100

    models = {"forest": forest, "age": palpate.InMemory(by_age, columns=["age"])}
    result = palpate.audit(frame, **COLUMNS, models=models, **FEW)
    test = frame[frame["split"] == "test"]
    expected = roc_auc_score(test["readmitted"], forest.predict_proba(test[["age", "score"]])[:, 1])
    found = result.estimates(metric="auroc", model="forest", reference=None).to_polars()["value"][0]
    assert found == pytest.approx(expected)
    assert all(isinstance(rows, pd.DataFrame) and list(rows.columns) == ["age"] for rows in asked)


def test_a_model_of_columns_and_notes_reads_altered_notes() -> None:
    table = notes_table()

    def both(rows: pl.DataFrame) -> Any:
        return rows["note"].str.contains("sepsis").to_numpy() * 0.6 + rows["age"].to_numpy() / 400

    result = palpate.audit(
        table,
        **COLUMNS,
        models={"both": palpate.InMemory(both, columns=["note", "age"])},
        audits={"vocabulary": {"words": ["sepsis"], "n_replicates": 200}},
        progress=False,
    )
    found = result.estimates(audit="vocabulary").to_polars()
    assert found["value"].drop_nulls().abs().max() > 0.2


def test_seeds_are_one_model() -> None:
    table = notes_table()
    result = palpate.audit(table, labels="readmitted", models={"net": ["score", table["score"] ** 2]}, **FEW)
    assert result.models == ("net",)


def test_functions_are_scored_again_by_another_run_unless_they_have_a_version() -> None:
    table, calls = notes_table(), []

    def count(texts: list[str]) -> list[float]:
        calls.extend(texts)
        return shouting(texts)

    for model, times in ((count, 2), (palpate.InMemory(count, fingerprint="1"), 1)):
        calls.clear()
        for _ in range(2):
            palpate.audit(table, **COLUMNS, models={"mine": model}, **FEW)
        n = table.filter(pl.col("split") != "train")["note"].n_unique()
        assert len(calls) == times * n


def test_resume_finishes_what_was_interrupted(tmp_path: Path) -> None:
    table, calls = notes_table(), []

    def tired(texts: list[str]) -> list[float]:
        calls.append(len(texts))
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)  # as Ctrl-C does
        return shouting(texts)

    given: dict[str, Any] = {"models": {"mine": palpate.InMemory(tired, batch_size=16)}, "out": tmp_path / "run"}
    with pytest.raises(KeyboardInterrupt):
        palpate.audit(table, **COLUMNS, **given, **FEW)
    result = palpate.audit(table, **COLUMNS, **given, resume=True, **FEW)
    whole = palpate.audit(table, **COLUMNS, models={"mine": shouting}, **FEW)
    assert result["performance"].to_polars().equals(whole["performance"].to_polars())


def test_a_run_that_fails_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(PalpateError):
        palpate.audit(notes_table(), **COLUMNS, models={"m": lambda texts: 1 / 0}, **FEW)
    assert not list(tmp_path.glob("palpate-*"))


def test_tables_of_the_report_are_frames() -> None:
    result = palpate.audit(notes_table(), **COLUMNS, models={"m": "score"}, **FEW)
    table = result["performance"].tables["Discrimination and calibration"]
    row = table.to_pandas().iloc[0]
    assert row["AUROC low"] < row["AUROC"] < row["AUROC high"]
    assert "<td" in table._repr_html_()


def test_a_temporary_run_goes_with_the_result() -> None:
    result = palpate.audit(notes_table(), labels="readmitted", models={"v": "score"}, **FEW)
    folder = result.directory.path
    assert folder.is_dir()
    del result
    assert not folder.exists()


def values(result: palpate.Result) -> dict[str, float]:
    rows = result.estimates(metric="auroc", reference=None).to_dict()
    return {row["model"]: row["value"] for row in rows}


class Keyed:
    """A callable object: what it does is in its state."""

    def __init__(self, word: str) -> None:
        self.word = word

    def __call__(self, texts: list[str]) -> list[float]:
        return [0.9 if self.word in text else 0.1 for text in texts]


def test_functions_that_look_alike_are_not_taken_for_each_other() -> None:
    def closed(high: float, low: float) -> Any:
        return lambda texts: [high if "sepsis" in text else low for text in texts]

    models = {
        "a": lambda texts: [0.9 if "sepsis" in text else 0.2 for text in texts],
        "b": lambda texts: [0.1 if "sepsis" in text else 0.7 for text in texts],
        "c": closed(0.9, 0.2),
        "d": closed(0.1, 0.7),
        "e": Keyed("sepsis"),
        "f": Keyed("afebrile"),
    }
    table = notes_table()
    together = values(palpate.audit(table, **COLUMNS, models=models, **FEW))
    alone = {
        name: values(palpate.audit(table, **COLUMNS, models={name: each}, **FEW))[name] for name, each in models.items()
    }
    assert together == alone
    assert together["b"] == pytest.approx(1 - together["a"])


def test_other_values_and_other_options_are_scored_again() -> None:
    frame = as_pandas(notes_table())
    model = LogisticRegression().fit(frame[["score"]], frame["readmitted"])
    turned = frame.assign(score=1 - frame["score"])
    found = [values(palpate.audit(each, **COLUMNS, models={"m": model}, **FEW))["m"] for each in (frame, turned)]
    assert found[1] == pytest.approx(1 - found[0])
    other = palpate.InMemory(model, positive=0)
    assert values(palpate.audit(frame, **COLUMNS, models={"m": other}, **FEW))["m"] == pytest.approx(1 - found[0])


def test_labels_in_words_and_tables_in_files(tmp_path: Path) -> None:
    table = notes_table()
    words = table.with_columns(pl.col("readmitted").replace_strict({0: "no", 1: "yes"}))
    expected = values(palpate.audit(table, **COLUMNS, models={"m": "score"}, **FEW))["m"]
    given: dict[str, Any] = {**COLUMNS, "positive": "yes", **FEW}
    assert values(palpate.audit(words, **given, models={"m": "score"}))["m"] == expected
    (tmp_path / "notes.csv").write_bytes(words.write_csv(separator=";").replace("ward", "wärd").encode("latin-1"))
    by_file = palpate.audit(tmp_path / "notes.csv", **given, models={"m": "score"}, encoding="latin-1")
    assert values(by_file)["m"] == pytest.approx(expected)


def test_several_cohorts_with_scores_by_name() -> None:
    tables = {"home": notes_table(200, 1), "away": notes_table(160, 2)}
    scores = {name: table["score"] for name, table in tables.items()}
    result = palpate.audit(tables, **COLUMNS, models={"column": "score", "series": scores}, **FEW)
    rows = result.estimates(metric="auroc", reference=None).to_polars()
    assert rows.height == 4
    assert rows["value"].n_unique() == 2


def test_an_audit_of_one_of_several_cohorts_says_so() -> None:
    tables = {"home": notes_table(200, 1), "away": notes_table(160, 2)}
    audits = {"performance": {"n_replicates": 100}, "subgroups": {"n_replicates": 100}}
    result = palpate.audit(tables, **COLUMNS, models={"m": "score"}, audits=audits, progress=False)
    said = "This audit is about home alone, not about away (its option `cohort`)."
    assert said in [finding.sentence for finding in result["subgroups"].findings]
    assert said not in [finding.sentence for finding in result["performance"].findings]


def test_scores_of_the_audited_cases_are_enough() -> None:
    frame = as_pandas(notes_table())
    tested = frame.loc[frame["split"] != "train", "score"]
    assert values(palpate.audit(frame, **COLUMNS, models={"m": tested}, **FEW))["m"] > 0.5


def test_a_function_that_fails_does_not_quote_a_note() -> None:
    with pytest.raises(PalpateError) as error:
        palpate.audit(notes_table(), **COLUMNS, models={"m": lambda texts: float(texts[0])}, **FEW)
    assert "Patient" not in str(error.value)
    assert "palpate.InMemory(function, columns" in str(error.value)


def test_a_configuration_says_all_itself(tmp_path: Path) -> None:
    for given in (
        {"gate": "no concern"},
        {"seed": 9},
        {"labels": ["x"]},
        {"models": {"m": "score"}},
        {"models": notes_table()},
    ):
        with pytest.raises(PalpateError, match="which says it itself"):
            palpate.audit(tmp_path / "audit.yaml", **given, progress=False)  # type: ignore[arg-type]


def test_margins_reach_audits_that_are_objects() -> None:
    result = palpate.audit(
        notes_table(), **COLUMNS, models={"m": "score"}, audits=[palpate.Performance(n_replicates=200)],
        margins={"calibration": 0.2}, progress=False,
    )  # fmt: skip
    assert {row["margin"] for row in result.scorecard.to_dict() if row["question"] == "calibration"} == {0.2}


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no model": ({"models": None}, "there is no model"),
    "column": ({"models": {"v": "scor"}}, "neither a column of the table nor a source"),
    "label": ({"labels": ["readmited"]}, "column not found"),
    "no label": ({"labels": None}, "no label is named"),
    "length": ({"models": {"v": [0.1, 0.2]}}, "2 scores for 240 cases"),
    "not a probability": ({"models": {"v": "age"}}, "which is no probability"),
    "missing score": ({"models": {"v": [float("nan")] * 240}}, "have no score"),
    "class": ({"models": {"v": RandomForestClassifier}}, "is a class, not an object"),
    "unfitted": ({"models": {"v": RandomForestClassifier()}}, "model 'v'"),
    "array": ({"models": {"v": RandomForestClassifier(2).fit([[0.0], [1.0]], [0, 1])}}, "have no names"),
    "missing column": ({"models": {"v": palpate.InMemory(len, columns=["bmi"])}}, "reads column 'bmi'"),
    "audit": ({"audits": ["performence"]}, "performance"),
    "gate": ({"gate": "performance.aurok > 0.5"}, "auroc"),
    "stay": ({"stay": "subject_id"}, "with `time=`"),
    "only scores": ({"audits": {"vocabulary": {"words": ["sepsis"]}}}, "nothing but scores"),
    "margin": ({"margins": {"aurok": 0.1}}, "did you mean `auroc`"),
    "class of audit": ({"audits": [palpate.Performance]}, "give a name, or an object"),
    "mistyped label of scores": ({"models": {"v": {"readmited": [0.5] * 240}}}, "no scores for label 'readmitted'"),
    "reading a frame": ({"encoding": "latin-1"}, "is about files"),
    "object": ({"models": {"v": object()}}, "is no model and no scores"),
    "short answer": ({"models": {"v": lambda texts: [0.5]}}, "shape"),
    "raises": ({"models": {"v": lambda texts: 1 / 0}}, "ZeroDivisionError"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_is_one_sentence(name: str) -> None:
    wrong, said = WRONG[name]
    given = {**COLUMNS, "models": {"v": "score"}, **FEW, **wrong}
    with pytest.raises(PalpateError, match=said) as error:
        palpate.audit(notes_table(), **given)
    assert "\n" not in str(error.value)


def test_what_is_not_a_table_is_refused() -> None:
    with pytest.raises(PalpateError, match="a table cannot be made from a ndarray"):
        palpate.audit(np.zeros((3, 3)), labels="a", models={"v": [1, 2, 3]}, progress=False)


def test_hints_are_written_as_arguments() -> None:
    frame = pl.DataFrame({"outcome": ["Good", "Poor"] * 20, "risk": [0.2, 0.8] * 20})
    with pytest.raises(InputError, match=r'`positive="Good"` or `positive="Poor"`'):
        palpate.audit(frame, labels="outcome", models={"m": "risk"}, progress=False)
    coded = frame.with_columns(outcome=pl.col("outcome").replace_strict({"Good": 1, "Poor": 2}))
    with pytest.raises(InputError, match=r"`positive=2`"):
        palpate.audit(coded, labels="outcome", models={"m": "risk"}, progress=False)
