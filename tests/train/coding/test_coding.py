"""The coding models from cohort to answers: what they learn, point at, and survive."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from palpate.cases.cohort import Cohort
from palpate.cases.edits import Inputs
from palpate.errors import CohortError, ConfigError, MissingExtra
from palpate.models import ModelSpec, load_model
from palpate.models.adapters.palpate import read_manifest
from palpate.results import Asked
from palpate.testing import model_contract as contract
from palpate.train import train
from tests.e2e.command_line import CommandLine
from tests.train.coding.coding_cohort import TRIGGERS, charts, cohort, evidence_file, tiny
from tests.train.training import contents, predict, read_back

torch = pytest.importorskip("torch")
KINDS = ("caml", "effective-can")
EVIDENCE = ("none", "attention", "linear", "cnn")
BOTH = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    """One model of each kind and way to learn evidence, trained for a few epochs."""
    home = tmp_path_factory.mktemp("coding")
    file = evidence_file(home)
    out = {}
    for kind in KINDS:
        for evidence in EVIDENCE:
            given = {} if evidence == "none" else {"evidence_table": file}
            folder = home / kind / evidence
            n_epochs = 40 if evidence in ("linear", "cnn") else 6
            options = {"evidence": evidence, "max_tokens": 40, "epochs": n_epochs, "patience": 40}
            train(kind, cohort(), folder, tiny(kind, **options, **given))
            out[kind, evidence] = folder
    return out


ALL = pytest.mark.parametrize("which", [(kind, evidence) for kind in KINDS for evidence in EVIDENCE], ids="-".join)


@BOTH
def test_twenty_charts_can_be_learned_by_heart(kind: str, tmp_path: Path) -> None:
    table = charts(20)[0].with_columns(split=pl.lit("train"))
    again = table.with_columns(
        pl.format("again {}", "case_id").alias("case_id"),
        pl.format("again {}", "patient_id").alias("patient_id"),
        split=pl.lit("validation"),
    )
    data = Cohort.from_frame(pl.concat([table, again]), labels=list(TRIGGERS))
    train(kind, data, tmp_path / "m", tiny(kind, epochs=60, patience=60, min_patients=1))
    manifest = read_manifest(tmp_path / "m")
    assert manifest.card["fit"]["micro_f1"] == 1
    y, p = predict(tmp_path / "m", data, "validation")
    assert np.array_equal(p >= manifest.threshold, y == 1)


@pytest.mark.slow
def test_supervised_attention_and_tags_find_the_words_that_they_were_shown(models: dict[Any, Path]) -> None:
    """On test charts: the word with the highest score is evidence."""
    table, evidence = charts()
    ids, texts = table["case_id"].to_list(), table["text"].to_list()
    test = [row for row, split in enumerate(table["split"]) if split == "test"]
    gold = [(ids.index(c), list(TRIGGERS).index(code), i, j) for c, code, i, j in evidence.iter_rows()]
    gold = [each for each in gold if each[0] in test]
    asked = Asked(*(np.array(column) for column in zip(*[each[:2] for each in gold], strict=True)))
    hits = {}
    for which, folder in models.items():
        model = read_back(folder)
        found = model.explain(Inputs.from_texts(texts), asked, model.explains[0])
        right = 0
        for row, label, start, end in gold:
            own = np.flatnonzero((found.row == row) & (found.label == label))
            best = own[np.argmax(found.score[own])]
            right += bool(found.start[best] < end and found.end[best] > start)
        hits[which] = right / len(gold)
        losses = [epoch["evidence_loss"] for epoch in read_manifest(folder).card["fit"]["tried"]]
        assert losses[-1] < 0.5 * losses[0] or which[1] == "none"
    for kind in KINDS:
        assert min(hits[kind, "attention"], hits[kind, "cnn"]) > 0.9, hits


@ALL
def test_pieces_are_the_words_that_are_read(which: tuple[str, str], models: dict[Any, Path]) -> None:
    model = read_back(models[which])
    ways = ("attention", "integrated_gradients", "gradient_x_input", "deeplift", "attingrad")
    assert model.explains == (("tagging", *ways) if which[1] in ("linear", "cnn") else ways)
    texts = ["Größe: CHF, gout  gout.", "...", "home " * 45, "Pneumonia"]
    asked = Asked(np.array([2, 0, 0, 3, 1]), np.array([1, 3, 0, 2, 2]))
    for way in model.explains if which[1] == "none" else model.explains[:-4]:
        found = model.explain(Inputs.from_texts(texts), asked, way)
        words = [
            [texts[row][i:j] for i, j in zip(found.start[own], found.end[own], strict=True)]
            for row, label in zip(*asked, strict=True)
            for own in [(found.row == row) & (found.label == label)]
        ]
        assert words == [["home"] * 40, *[["Größe", "CHF", "gout", "gout"]] * 2, ["Pneumonia"], []]
        assert np.all(np.isfinite(found.score))
        if way == "attention":
            for row, label in list(zip(*asked, strict=True))[:-1]:
                assert found.score[(found.row == row) & (found.label == label)].sum() == pytest.approx(1, abs=1e-5)
        if way in ("attention", "tagging"):
            assert np.all((found.score >= 0) & (found.score <= 1))
    with pytest.raises(ValueError, match="unknown explanation method 'magic'"):
        model.explain(Inputs.from_texts(texts), asked, "magic")
    assert len(model.explain(Inputs.from_texts(texts), Asked(asked.row[:0], asked.label[:0]), "attention").row) == 0


@BOTH
def test_an_explanation_does_not_depend_on_what_else_is_asked(kind: str, models: dict[Any, Path]) -> None:
    model, texts = read_back(models[kind, "cnn"]), cohort().texts[:9]
    grid = np.indices((9, 4)).reshape(2, -1)
    whole = model.explain(Inputs.from_texts(texts), Asked(grid[0], grid[1]), "tagging")
    alone = model.explain(Inputs.from_texts(texts[4:5]), Asked(np.array([0]), np.array([2])), "tagging")
    own = (whole.row == 4) & (whole.label == 2)
    np.testing.assert_allclose(whole.score[own], alone.score, atol=1e-6)
    assert np.array_equal(whole.start[own], alone.start)


@BOTH
def test_integrated_gradients_sum_to_the_change_of_the_logit(kind: str, models: dict[Any, Path]) -> None:
    model, text = read_back(models[kind, "none"]), "home diabetes diet gout"
    found = model.explain(Inputs.from_texts([text]), Asked(np.array([0]), np.array([1])), "integrated_gradients")
    network, mask = model._network, torch.ones(1, 4, dtype=torch.bool)
    ids, label = torch.from_numpy(model._window.read([text])[0].ids[None]), torch.tensor([1])
    with torch.inference_mode():
        change = network.label_logits(ids, mask, label) - network.label_logits(torch.zeros_like(ids), mask, label)
    assert found.score.sum() == pytest.approx(float(change), abs=0.05 * abs(float(change)))


@ALL
def test_rows_are_independent_and_text_behind_the_window_is_not_read(
    which: tuple[str, str], models: dict[Any, Path]
) -> None:
    model = read_back(models[which])
    texts = [*cohort().texts[:5], "home " * 60 + "gout", "", "gout"]
    together = model.predict(Inputs.from_texts(texts))
    alone = np.concatenate([model.predict(Inputs.from_texts([text])) for text in texts])
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-6)
    assert model.window == "the first 40 words"
    end = int(model.visible_ends(texts)[5])
    assert end == 40 * 5
    changed = texts[5][:end] + "CHF gout " * 9
    np.testing.assert_allclose(model.predict(Inputs.from_texts([changed])), together[5:6], rtol=0, atol=1e-6)
    assert model.words()
    assert model.learned_words


CONTRACT = [
    contract.check_probabilities,
    contract.check_labels,
    contract.check_no_rows,
    contract.check_rows_are_independent,
    contract.check_edits_are_splices,
    contract.check_odd_texts,
    contract.check_visible_ends,
]


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
def test_they_keep_the_contract_of_models(check: Any, models: dict[Any, Path]) -> None:
    for which in (("caml", "none"), ("effective-can", "cnn")):
        check(read_back(models[which]))


def test_they_load_in_a_fresh_process_and_refuse_unknown_options(models: dict[Any, Path]) -> None:
    spec = ModelSpec("m", f"palpate:{models['effective-can', 'cnn']}")
    contract.check_unknown_option(spec)
    contract.check_fingerprint_is_stable(spec)
    contract.check_loads_in_a_fresh_process(spec, load_model(spec))


def test_without_weight_evidence_changes_nothing(tmp_path: Path) -> None:
    """λ1 = 0 gives the weights of a training without evidence, so the evidence loss is all the difference."""
    file, data = evidence_file(tmp_path / "e"), cohort()
    for name, more in (("none", {}), ("zero", {"evidence": "attention", "evidence_table": file, "lambda1": 0})):
        train("caml", data, tmp_path / name, tiny("caml", epochs=2, **more))
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("none", "zero")]
    assert weights[0] == weights[1]


def test_only_evidence_of_training_charts_is_used_and_the_card_says_how_much(tmp_path: Path) -> None:
    data, table = cohort(), charts()[1]
    training = data.cases.filter(pl.col("split") == "train")["case_id"]
    own = table.filter(pl.col("case_id").is_in(training.to_list()))
    table.write_parquet(tmp_path / "all.parquet")
    own.write_csv(tmp_path / "own.csv")
    for name in ("all.parquet", "own.csv"):
        options = tiny("caml", epochs=2, evidence="attention", evidence_table=tmp_path / name)
        train("caml", data, tmp_path / name.partition(".")[0], options)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("all", "own")]
    assert weights[0] == weights[1]
    fit = read_manifest(tmp_path / "all").card["fit"]
    assert (fit["evidence_rows"], fit["evidence_rows_used"]) == (table.height, own.height)
    assert fit["notes_with_evidence"] == own["case_id"].n_unique()


@BOTH
def test_labels_that_no_training_note_has(kind: str, tmp_path: Path) -> None:
    table = charts()[0].with_columns(rare=(pl.col("split") == "validation").cast(pl.Int64), all=pl.lit(1))
    data = Cohort.from_frame(table, labels=[*TRIGGERS, "rare", "all"])
    for weight in ("none", "balanced"):
        train(kind, data, tmp_path / weight, tiny(kind, epochs=2, class_weight=weight, n_replicates=20))
        p = predict(tmp_path / weight, data, "test")[1]
        assert np.all(np.isfinite(p))
        fit = read_manifest(tmp_path / weight).card["fit"]
        assert (fit["n_labels"], fit["n_labels_without_a_training_note"]) == (6, 1)
    nothing = table.with_columns(pl.lit(0).alias(code) for code in TRIGGERS)
    with pytest.raises(CohortError, match=r"4 labels .*only one class"):
        train(kind, Cohort.from_frame(nothing, labels=list(TRIGGERS)), tmp_path / "m", tiny(kind))


def test_thousands_of_codes(tmp_path: Path) -> None:
    """Most of them rare, some in no training chart."""
    table, rng = charts(40)[0], np.random.default_rng(0)
    y = {f"c{k}": (rng.random(40) < 0.02).astype(int) for k in range(2000)}
    data = Cohort.from_frame(table.hstack(pl.DataFrame(y)), labels=[*TRIGGERS, *y])
    train("effective-can", data, tmp_path / "m", tiny("effective-can", epochs=1))
    model = read_back(tmp_path / "m")
    assert model.predict(Inputs.from_texts(data.texts)).shape == (40, 2004)
    fit = read_manifest(tmp_path / "m").card["fit"]
    assert fit["n_labels_without_a_training_note"] > 100
    asked = Asked(np.zeros(2000, dtype=np.int64), np.arange(2000))
    found = model.explain(Inputs.from_texts(data.texts[:1]), asked, "attention")
    assert np.array_equal(np.unique(found.label), np.arange(2000))


def test_the_threshold_is_the_one_with_the_best_f1(tmp_path: Path) -> None:
    data = cohort()
    train("caml", data, tmp_path / "m", tiny("caml", epochs=3))
    manifest = read_manifest(tmp_path / "m")
    y, p = predict(tmp_path / "m", data, "validation")

    def f1(threshold: float) -> float:
        called = p >= threshold
        return float(2 * (called & (y == 1)).sum() / (called.sum() + y.sum()))

    assert manifest.threshold is not None
    assert f1(manifest.threshold) == pytest.approx(max(f1(t) for t in np.unique(p)))
    assert manifest.card["threshold"]["f1"] == pytest.approx(f1(manifest.threshold), abs=1e-6)
    assert manifest.card["fit"]["micro_f1"] == pytest.approx(f1(manifest.threshold), abs=1e-6), "the best epoch's"
    assert "the one with the highest micro-F1" in (tmp_path / "m" / "MODEL_CARD.md").read_text()


def test_patience_ends_a_training(tmp_path: Path) -> None:
    train("caml", cohort(), tmp_path / "m", tiny("caml", epochs=50, patience=2, learning_rate=1e-9))
    fit = read_manifest(tmp_path / "m").card["fit"]
    assert len(fit["tried"]) == fit["epochs"] + 2 < 50


def test_mixed_precision_is_close(tmp_path: Path) -> None:
    data = cohort()
    for precision in ("float32", "bfloat16"):
        train("effective-can", data, tmp_path / precision, tiny("effective-can", precision=precision, epochs=1))
    p = [predict(tmp_path / precision, data, "test")[1] for precision in ("float32", "bfloat16")]
    assert not np.array_equal(p[0], p[1])
    np.testing.assert_allclose(p[0], p[1], atol=0.1)


# --- what is refused ----------------------------------------------------------------------------------------------


def test_wrong_options_and_tables_are_one_sentence_and_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    palpate = CommandLine(capsys, monkeypatch)
    charts()[0].write_csv("charts.csv")
    Path("audit.yaml").write_text(
        f"cohort: {{file: charts.csv, labels: {list(TRIGGERS)}}}\n"
        "models: {m: predictions:none.csv}\naudits: {performance: {}}\n"
    )
    Path("bad.csv").write_text("case_id,label,start,end\nc0,486,0,9999\n")
    Path("words.csv").write_text("case_id,label,start,end\nc0,486,one,9\n")
    for settings, message in (
        (["evidence=magic"], "option 'evidence' of caml"),
        (["evidence=cnn"], "palpate: the options of caml: `evidence=cnn` needs `evidence_table`"),
        (["evidence_table=bad.csv"], "palpate: the options of caml: `evidence_table` is given, but `evidence` is none"),
        (["evidence=cnn", "evidence_table=none.csv"], "none.csv: evidence table not found"),
        (
            ["evidence=attention", "evidence_table=bad.csv"],
            "bad.csv, row 1, column 'end': the span goes from 0 to 9999",
        ),
        (["evidence=attention", "evidence_table=words.csv"], "words.csv, row 1, column 'start': the cell is 'one'"),
        (["min_patients=1000"], "lower `min_patients`"),
        (["channels=3"], "unknown option"),
    ):
        flags = [part for setting in settings for part in ("--set", setting)]
        ran = palpate("train", "caml", "--cohort", "audit.yaml", "--out", "m", *flags)
        assert ran.code == 2, ran.err
        assert message in " ".join(ran.err.split()), ran.err
        assert "Traceback" not in ran.err
    flags = [part for name, value in tiny("caml", epochs=1).items() for part in ("--set", f"{name}={value}")]
    ran = palpate("train", "caml", "--cohort", "audit.yaml", "--out", "ok", *flags)
    assert ran.code == 0, ran.err
    assert "palpate:ok" in ran.out


def test_a_training_that_diverges_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"diverged \(learning rate"):
        train("caml", cohort(), tmp_path / "m", tiny("caml", learning_rate=1e30))


def test_a_damaged_folder_is_refused(tmp_path: Path) -> None:
    train("caml", cohort(), tmp_path / "m", tiny("caml", epochs=1))
    home, whole = tmp_path / "m", contents(tmp_path / "m")
    first = read_back(home).fingerprint
    for name, damage, message in (
        ("network.json", None, r"network\.json: file not found"),
        ("network.json", b"{}", "not a description of a coding network"),
        ("vocabulary.json", None, r"vocabulary\.json: file not found"),
        ("vocabulary.json", b'{"words": ["a"], "max_tokens": 9}', "weights do not fit this network"),
        ("model.safetensors", None, "model file or folder not found"),
        ("model.safetensors", b"nothing", "weights do not fit this network"),
    ):
        (home / name).unlink() if damage is None else (home / name).write_bytes(damage)
        with pytest.raises(ConfigError, match=message):
            read_back(home)
        (home / name).write_bytes(whole[name])
    assert read_back(home).fingerprint == first


def test_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"palpate\[torch\]"):
        train("caml", cohort(), tmp_path / "m", {})


def test_options_need_no_torch() -> None:
    code = "import sys, palpate.train as t; t.options_of('effective-can'); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
