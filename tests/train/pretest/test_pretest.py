"""`palpate train pretest` from a cohort to a cohort: planted words, no leakage, resuming, wrong input."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import roc_auc_score

from palpate.cases.cohort import Cohort
from palpate.data.tables import TableSpec, read_cohort, read_pretest_card
from palpate.errors import CohortError, ConfigError, MissingExtra
from palpate.stats import auroc
from palpate.train.options import TrainStep
from palpate.train.pretest import TrainedPretest, train_pretest
from palpate.train.pretest.options import JOB
from tests.e2e.command_line import CommandLine
from tests.train.pretest.pretest_cohort import cohort, discriminants, frame

QUICK: dict[str, Any] = {
    "families": ["bow"],
    "classifiers": ["LinearSVC"],
    "n_replicates": 20,
    "threads": 1,
    "max_df": 1.0,
}


def run(folder: Path, made: Cohort | None = None, **options: Any) -> TrainedPretest:
    return train_pretest(cohort() if made is None else made, folder, {**QUICK, **options})


def column(made: TrainedPretest, label: str = "ill") -> Any:
    return made.cohort.cases[f"pretest_{label}"].to_numpy()


def test_planted_words(tmp_path: Path) -> None:
    made = run(tmp_path / "out", labels="ill,ill", n_replicates=100)
    (entry,) = made.card["labels"]
    assert {word for word, _ in entry["words"][:3]} == {"fever", "chills", "stable"}
    assert {word: weight > 0 for word, weight in entry["words"][:3]} == {"fever": True, "chills": True, "stable": False}
    table = made.table[0]
    assert table["on"] == "other"
    assert table["classifier"] == "LinearSVC"
    other = (made.cohort.cases["split"] == "test").to_numpy()
    y = made.cohort.y_true(np.arange(len(made.cohort)))[:, 0]
    assert table["auroc"] == pytest.approx(auroc(y[other], column(made)[other]), abs=1e-6)
    assert table["auroc"] > 0.75
    assert table["brier_skill_score"] > 0.1
    inside = entry["performance"]["out_of_fold"]
    assert inside["n"] == (~other).sum()
    assert inside["auroc"] == pytest.approx(auroc(y[~other], column(made)[~other]), abs=1e-6)
    low, high = inside["auroc_interval"]
    assert low < inside["auroc"] < high
    assert entry["chosen"]["calibration"] == "platt"
    assert len(entry["chosen"]["fold_auroc"]) == 5


def test_the_file_is_a_cohort(tmp_path: Path) -> None:
    made = run(tmp_path / "out", cohort(labels=("ill", "never")))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["cohort.parquet", "pretest.json"]
    again = read_cohort(TableSpec(file=made.file), name="home")
    assert again.labels == ("ill", "never")
    assert again.attributes == ("age", "gender", "pretest_ill", "pretest_never", JOB)
    assert again.cases.equals(made.cohort.cases.select(again.cases.columns))
    assert (again.y != made.cohort.y).nnz == 0
    card = json.loads((tmp_path / "out" / "pretest.json").read_text())
    assert card == made.card
    assert "named1x" not in json.dumps(card)  # a name that one patient's notes have
    assert again.cases["pretest_ill"].null_count() == 0
    assert again.cases["pretest_never"].null_count() == len(again)
    assert card["labels"][1]["chosen"] is None
    assert card["labels"][1]["reason"] == "only one class among the cases to learn from, for 5 folds"
    assert made.table[1] == {"label": "never", "reason": card["labels"][1]["reason"]}


def test_cohort_and_card_name_their_training(tmp_path: Path) -> None:
    """Some rows of the file still tell whose they are, and another training of the same cases is another one."""
    one = run(tmp_path / "a")
    two = run(tmp_path / "b", one.cohort, seed=1)
    for made in (one, two):
        (model,) = read_pretest_card(made.folder / "pretest.json").values()
        assert made.cohort.cases[::7][JOB].unique().to_list() == [model["job"]]
    assert one.card["job"] != two.card["job"]
    assert two.cohort.attributes == one.cohort.attributes
    bare = run(tmp_path / "c", one.cohort, families=["tables"], classifiers=["LogisticRegression"])
    assert bare.card["columns"] == ["age", "gender"]


def test_a_number_that_is_undefined_has_its_reason(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of the cases that are only scored are well: there is a model, and no AUROC."""
    table = frame().with_columns(ill=pl.when(pl.col("split") == "test").then(0).otherwise("ill"))
    table.drop("old", "never").rename({"ill": "label:ill"}).write_parquet(tmp_path / "notes.parquet")
    sets = [
        f"--set={name}={value}" for name, value in (QUICK | {"families": "bow", "classifiers": "LinearSVC"}).items()
    ]
    ran = CommandLine(capsys, monkeypatch)(
        "train", "pretest", "--cohort", tmp_path / "notes.parquet", "--out", tmp_path / "out", *sets
    )
    assert ran.code == 0, ran.err
    (line,) = (line for line in ran.out.splitlines() if line.startswith("ill "))
    assert "LinearSVC" in line
    assert line.rstrip().endswith("only one class among the 72 cases measured")
    assert ran.out.splitlines()[0].split()[3:7] == ["AUROC", "ACE", "Brier", "Brier"]


def test_labels_of_the_test_split_change_nothing(tmp_path: Path) -> None:
    table = frame()
    other = table.with_columns(ill=pl.when(pl.col("split") == "test").then(1 - pl.col("ill")).otherwise("ill"))
    one = run(tmp_path / "a", cohort(table=table))
    two = run(tmp_path / "b", cohort(table=other))
    assert np.array_equal(column(one), column(two))
    assert one.card["labels"][0]["chosen"] == two.card["labels"][0]["chosen"]


def test_own_label_is_not_in_the_probability(tmp_path: Path) -> None:
    """A word that only one class has in training, by a patient's own words, would give each case its own label away."""
    rng = np.random.default_rng(3)
    n = 300
    table = pl.DataFrame(
        {
            "patient_id": [f"p{k // 3}" for k in range(n)],
            "split": ["train"] * n,
            # Words of a patient's own: a model that scores its own training cases would know them by heart.
            "prior": [f"own{k // 3} mark{k // 3} pain" for k in range(n)],
            "ill": np.repeat(rng.random(n // 3) < 0.4, 3).astype(int),
        }
    )
    made = Cohort.from_frame(table, labels=["ill"])
    got = run(tmp_path / "out", made, min_df=1, min_patients=1)
    y = made.y_true(np.arange(n))[:, 0]
    assert abs(auroc(y, column(got)) - 0.5) < 0.12
    assert got.card["labels"][0]["performance"]["other"]["reason"] == "no cases"
    assert got.table[0]["on"] == "out_of_fold"


def test_threads_do_not_matter(tmp_path: Path) -> None:
    options = {
        "families": ["bow", "xgboost", "tables"],
        "classifiers": ["Perceptron", "DecisionTreeClassifier", "LogisticRegression", "XGBClassifier"],
        "draws": 2,
        "search_rows": 100,
    }
    one = run(tmp_path / "a", cohort(160), **options)
    two = run(tmp_path / "b", cohort(160), **{**options, "threads": 3})
    assert one.file.read_bytes() == two.file.read_bytes()
    assert one.card == two.card
    assert set(one.card["families"]) == {"bow", "xgboost", "tables"}
    assert one.card["columns"] == ["age", "gender"]
    found = {(row["family"], row["classifier"]) for row in one.card["labels"][0]["search"]["classifiers"]}
    assert len(found) == 2 + 1 + 2


def test_tables_where_there_are_no_notes(tmp_path: Path) -> None:
    bare = cohort(table=frame().drop("prior"), labels=("old",))
    made = train_pretest(bare, tmp_path / "out", {"classifiers": "LogisticRegression", "n_replicates": 0, "threads": 1})
    assert list(made.card["families"]) == ["tables"]
    assert made.table[0]["auroc"] > 0.8
    assert made.card["labels"][0]["words"][0][0] == "age"
    both = cohort(labels=("old",))
    chosen = run(tmp_path / "both", both, families=["bow", "tables"], classifiers=["LinearSVC", "LogisticRegression"])
    assert chosen.table[0]["features"] == "attributes"  # age tells more than words


def test_cases_without_notes_and_without_splits(tmp_path: Path) -> None:
    table = (
        frame()
        .drop("split")
        .with_columns(prior=pl.when(pl.col("case_id").is_in(["c0", "c5"])).then(None).otherwise("prior"))
    )
    made = run(tmp_path / "out", cohort(table=table))
    assert made.card["n_without_notes"] == 2
    assert made.card["n_only_scored"] == 0
    empty = made.cohort.cases.filter(pl.col("pretest_ill").is_null())["case_id"].to_list()
    assert empty == ["c0", "c5"]


@pytest.mark.parametrize(
    ("n_columns", "shrinkage", "chosen"),
    [
        # Fitted to four folds in the search, and not to three in the calibration: the next best is taken.
        (210, (None, "auto"), "auto"),
        (400, (None,), None),
    ],
)
def test_models_that_can_t_be_fitted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    n_columns: int,
    shrinkage: tuple[str | None, ...],
    chosen: str | None,
) -> None:
    task, candidates = discriminants(n_columns)
    own = [setup for setup in candidates if dict(setup.settings)["solver"] == "eigen"]
    own = [setup for setup in own if dict(setup.settings)["shrinkage"] in shrinkage]
    names = [f"x{k}" for k in range(n_columns)]
    table = pl.DataFrame(task.features["enc"].x, schema=names).with_columns(
        pl.Series("ill", task.y), pl.Series("patient_id", np.arange(300) // 3).cast(pl.String)
    )
    made = Cohort.from_frame(table, labels=["ill"], attributes=names)
    tables = [setup._replace(family="tables", features="attributes") for setup in own]
    monkeypatch.setattr("palpate.train.pretest.setups", lambda *_: tables)
    got = run(tmp_path / "out", made, families=["tables"], classifiers=None, columns=names, search="full")
    (entry,) = got.card["labels"]
    if chosen is None:
        assert entry["chosen"] is None
        assert entry["reason"] == "no model could be fitted to the cases to learn from"
        assert got.cohort.cases["pretest_ill"].null_count() == 300
    else:
        assert entry["chosen"]["settings"] == {"solver": "eigen", "shrinkage": chosen}
        assert got.cohort.cases["pretest_ill"].null_count() == 0


def test_few_values_are_said(tmp_path: Path) -> None:
    made = run(tmp_path / "out", classifiers="DecisionTreeClassifier", max_words=1)
    (remark,) = made.card["labels"][0]["remarks"]
    assert "few distinct values" in remark


def test_embeddings(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from tests.models.tiny_checkpoints import checkpoint

    encoder = checkpoint(tmp_path / "tiny", "Bert", max_length=16)
    options = {"families": None, "encoders": encoder, "classifiers": ["LinearDiscriminantAnalysis"]}
    made = train_pretest(cohort(120), tmp_path / "out", {**QUICK, **options, "families": "embeddings"})
    assert made.card["families"] == {"embeddings": ["tiny"]}
    assert made.table[0]["features"] == "tiny"
    assert made.card["labels"][0]["words"] == []
    assert made.cohort.cases["pretest_ill"].null_count() == 0


def test_an_encoder_whose_memory_runs_out_is_halved_and_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    import palpate.train.pretest.encoder as encoders
    from tests.models.tiny_checkpoints import checkpoint

    real = encoders.load_encoder

    def load(*given: Any) -> Any:
        found = real(*given)

        def full(_: Any, args: Any, kwargs: Any) -> None:
            if kwargs["input_ids"].numel() > 64:
                raise torch.OutOfMemoryError("CUDA out of memory.")

        found.network.register_forward_pre_hook(full, with_kwargs=True)
        return found

    monkeypatch.setattr(encoders, "load_encoder", load)
    encoder, told = checkpoint(tmp_path / "tiny", "Bert", max_length=16), list[Any]()
    options = {"encoders": encoder, "classifiers": ["LinearDiscriminantAnalysis"], "families": "embeddings"}
    train_pretest(cohort(120), tmp_path / "out", {**QUICK, **options}, progress=told.append)
    (notice,) = [step.stage for step in told if step.notice]
    assert notice.startswith("tiny: the memory of cpu ran out")


class Stopped(Exception):
    """Somebody pulled the plug."""


def test_resume(tmp_path: Path) -> None:
    two = cohort(labels=("ill", "old"))
    whole = run(tmp_path / "whole", two)

    def pull(step: TrainStep) -> None:
        if step.stage.startswith("'old'"):
            raise Stopped

    with pytest.raises(Stopped):
        train_pretest(two, tmp_path / "cut", QUICK, progress=pull)
    assert not (tmp_path / "cut" / "cohort.parquet").exists()
    with pytest.raises(ConfigError, match="the folder is not empty"):
        train_pretest(two, tmp_path / "cut", QUICK)
    with pytest.raises(ConfigError, match="different options or a different cohort"):
        train_pretest(two, tmp_path / "cut", {**QUICK, "seed": 1}, resume=True)
    stages: list[str] = []
    again = train_pretest(
        two, tmp_path / "cut", {**QUICK, "threads": 2}, resume=True, progress=lambda step: stages.append(step.stage)
    )
    assert not [stage for stage in stages if stage.startswith("'ill'")]
    assert again.file.read_bytes() == whole.file.read_bytes()
    assert again.card == whole.card
    with pytest.raises(ConfigError, match="this folder has no training to resume"):
        train_pretest(two, tmp_path / "cut", QUICK, resume=True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"labels": "sick"}, "the cohort has no label 'sick'; it has: ill"),
        ({"classifiers": "SVM"}, "the families bow have no classifier 'SVM'"),
        ({"families": "embeddings"}, "embeddings need an encoder"),
        ({"families": "embeddings", "encoders": "nowhere"}, "checkpoint folder not found"),
        ({"families": "embeddings", "encoders": "a/bert,b/bert"}, "two encoders have the same folder name"),
        ({"folds": 2}, "option 'folds' of pretest"),
        ({"trees": 2}, "unknown option"),
        ({"min_df": 5000}, "no word of the earlier notes is left"),
        ({"families": "tables", "columns": "weight"}, "attribute not found"),
    ],
)
def test_wrong_options(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises((ConfigError, CohortError)) as error:
        run(tmp_path / "out", **options)
    assert said in str(error.value)


def test_what_can_t_be_done_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder was taken by the training that failed: the next try was sent to another one."""
    with pytest.raises(CohortError, match="no word of the earlier notes is left"):
        run(tmp_path / "out", min_df=5000)
    assert run(tmp_path / "out").file.is_file()
    with pytest.raises(ConfigError, match="have no classifier 'SVM'"):
        run(tmp_path / "other", classifiers="SVM")
    assert not (tmp_path / "other").exists()
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(MissingExtra, match="pre-test models with XGBoost"):
        run(tmp_path / "other", families=["bow", "xgboost"], classifiers=None)
    assert not (tmp_path / "other").exists()


def test_wrong_cohorts(tmp_path: Path) -> None:
    with pytest.raises(CohortError, match="column 'prior': the cohort has no earlier notes"):
        run(tmp_path / "a", cohort(table=frame().drop("prior")))
    with pytest.raises(CohortError, match="there is no case to learn from"):
        run(tmp_path / "b", cohort(table=frame().with_columns(split=pl.lit("test"))))
    with pytest.raises(CohortError, match=r"there must be cases of the split train or validation\.$"):
        run(
            tmp_path / "t",
            cohort(table=frame().with_columns(split=pl.lit("test"))),
            families="tables",
            classifiers=None,
        )
    nothing = Cohort.from_frame(frame().select("case_id", "ill"), labels=["ill"])
    with pytest.raises(CohortError, match=r"no attributes to learn from; .* earlier notes as `prior`"):
        run(tmp_path / "n", nothing, families=None, classifiers=None)
    few = cohort(table=frame().with_columns(ill=(pl.int_range(pl.len()) < 6).cast(pl.Int64)))
    reason = run(tmp_path / "c", few).card["labels"][0]["reason"]
    assert reason == "only 3 patients with one of the classes among the cases to learn from, for 5 folds"


def test_a_sample_drawn_by_outcome_learns_the_populations_probabilities(tmp_path: Path) -> None:
    """All with the outcome and one in five of the others: with weights, probabilities are those of everybody."""
    population = frame(4000, seed=3)
    drawn = pl.Series(np.random.default_rng(4).random(4000) < 0.2)
    kept = population.filter((pl.col("old") == 1) | drawn)
    weight = pl.when(pl.col("old") == 1).then(1.0).otherwise(5.0)
    options = {"families": ["tables"], "classifiers": ["LogisticRegression"], "columns": ["age", "gender"]}
    share = population["old"].mean()
    found = {}
    for name, table in {"weighed": kept.with_columns(sampling_weight=weight), "plain": kept}.items():
        made = run(tmp_path / name, cohort(labels=("old",), table=table), **options)
        p = column(made, "old")
        w = made.cohort.weights if name == "weighed" else kept.select(weight).to_series().to_numpy()
        found[name] = float(np.average(p, weights=w))
        assert made.card["weighed"] == (name == "weighed")
        entry = made.card["labels"][0]["performance"]["other"]
        other = (made.cohort.cases["split"] == "test").to_numpy()
        y = made.cohort.y_true(np.arange(len(made.cohort)))[:, 0]
        own = w[other] if name == "weighed" else None
        assert entry["auroc"] == pytest.approx(roc_auc_score(y[other], p[other], sample_weight=own), abs=1e-6)
    assert found["weighed"] == pytest.approx(share, abs=0.02)
    assert found["plain"] > share + 0.1
    again = read_cohort(TableSpec(file=tmp_path / "weighed" / "cohort.parquet"), name="home")
    assert again.weights is not None, "the audit weighs the same cases"


def test_cases_of_weight_0_teach_nothing(tmp_path: Path) -> None:
    table = frame(400).with_columns(sampling_weight=pl.when(pl.int_range(pl.len()) % 4 == 0).then(0.0).otherwise(1.0))
    made = run(tmp_path / "some", cohort(table=table))
    inside = int(((table["split"] != "test") & (table["sampling_weight"] > 0)).sum())
    assert made.card["n_learned_from"] == inside
    assert np.isfinite(column(made)).all(), "they have a probability all the same"
