"""The capabilities audit as a whole: thresholds, baselines, options, seeds, values of slots, report."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from pydantic import TypeAdapter

from palpate import Cohort, RunDirectory
from palpate.audits.capabilities import Capabilities
from palpate.audits.capabilities.plan import examine_cases
from palpate.cases.edits import Inputs
from palpate.errors import CohortError, ConfigError
from palpate.models import ModelSpec
from palpate.perturb.suites import load_suite
from palpate.report.html import render
from palpate.results import Chart, Examples
from palpate.run.execute.cache import ScoreCache
from palpate.run.runner import Job, ModelEntry, run
from palpate.testing import KeywordModel
from tests.audits.capabilities.capability_runs import (
    MIRRORED,
    PAIRS,
    RNG,
    NegationRule,
    ask,
    audit,
    cohort_of,
    quick,
    rows,
    sigmoid,
    tweets,
    values,
    warnings,
)
from tests.perturb.suites.small import write


def test_the_threshold_is_found_as_in_the_performance_audit() -> None:
    capabilities = Capabilities(n_replicates=100, capabilities=("beneficial_effect",))
    model = KeywordModel({"nausea": 1.0}, labels=("ADE",))
    by_recall = audit(capabilities, tweets(), toy=model)
    assert by_recall.provenance["threshold"] == {"toy": "reaches 70% recall on the validation split"}
    model.threshold = 0.9
    stored = audit(capabilities, tweets(), toy=model)
    assert stored.provenance["threshold"] == {"toy": "stored with the model"}
    assert set(values(stored, "recall").values()) == {0.0, 1.0}


def test_a_baseline_that_can_not_be_computed_is_null_with_its_reason() -> None:
    model = KeywordModel({"nausea": 1.0}, labels=("ADE",))
    only_negative = cohort_of(["Fine.", "Well."] * 10, [0] * 20)
    result = audit(quick(capabilities=("negation",)), only_negative, toy=model)
    row = rows(result, "recall").filter(pl.col("group") == "held-out: ADE")
    assert row["value"].to_list() == [None]
    assert row["reason"].to_list() == ["no positive case in split 'test'"]
    gap = rows(result, "pass_rate", reference="held-out: ADE")
    assert (gap["value"][0], gap["reason"][0]) == (None, "no positive case in split 'test'")
    assert values(result, "pass_rate")["negation/negation: ADE"] is not None
    assert values(result, "recall")["held-out: no ADE"] == 0.0
    assert "no positive case" in warnings(result)


def test_without_labels_there_is_no_baseline_and_a_threshold_must_be_given() -> None:
    frame = pl.DataFrame({"case_id": ["1", "2"], "text": ["One.", "Two."]})
    cohort = Cohort.from_frame(frame, labels=[])
    model = KeywordModel({"not": -1.0}, bias=0.5, labels=("ADE",))
    given = audit(quick(capabilities=("negation",)), cohort, toy=model)
    assert all(value is not None for value in values(given, "pass_rate").values())
    assert rows(given, "recall")["reason"].to_list() == ["the cohort has no label 'ADE'"] * 2
    unknown = audit(Capabilities(n_replicates=100, capabilities=("negation",)), cohort, toy=model)
    assert set(values(unknown, "pass_rate").values()) == {None}
    assert "no threshold" in rows(unknown, "pass_rate")["reason"][0]
    assert "toy has no threshold" in warnings(unknown)
    one_label = Capabilities(
        n_replicates=100, capabilities=("positive_sentiment",), sizes={"drug": 1, "mild_effect": 1}
    )
    assert "toy has no threshold" in warnings(audit(one_label, cohort, toy=model))
    assert not [block for block in unknown.blocks if isinstance(block, Examples)]
    # Nor a histogram: a model that decides nothing would seem to fail every template.
    assert not [block for block in unknown.blocks if isinstance(block, Chart) and block.kind == "histogram"]


def test_a_capability_alone_has_the_same_sentences_and_numbers() -> None:
    model = KeywordModel({"not": -2.0, "without": -1.0}, bias=1.0, labels=("ADE",))
    alone = values(audit(quick(capabilities=("negation",)), tweets(), toy=model), "pass_rate")
    whole = values(audit(quick(), tweets(), toy=model), "pass_rate")
    assert len(alone) == 2
    assert {group: whole[group] for group in alone} == alone


def test_further_capabilities_are_reported_apart() -> None:
    model = KeywordModel({"not": -2.0}, bias=0.2, labels=("ADE",))
    result = audit(
        quick(further=True, sizes={"drug": 2, "effect": 2, "mild_effect": 2, "time": 2}), tweets(), toy=model
    )
    main = [block for block in result.blocks if not block.title.startswith("Further capabilities")]
    apart = [block for block in result.blocks if block.title.startswith("Further capabilities")]
    assert result.blocks.index(apart[0]) > result.blocks.index(main[-1])
    said = json.dumps([block.model_dump(mode="json") for block in main])
    assert "Questions" not in said
    assert "Questions" in json.dumps([block.model_dump(mode="json") for block in apart])
    assert {"social_media_noise/noise_invariance: ADE", "contrast/contrast_up"} <= set(values(result, "pass_rate"))


def test_slots_sizes_tags_and_samples_change_what_is_asked(tmp_path: Path) -> None:
    plan = quick(capabilities=("negation",), slots={"drug": ("Zoloft", "Aspirin")}, sizes={"effect": 3})
    planned = plan.plan(tweets(), RNG(0))
    assert planned.memory.examined.n_cases == 15 * 2 * 3
    assert planned.memory.examined.slots["drug"].values == ("Zoloft", "Aspirin")
    sampled = quick(n=500).plan(tweets(), RNG(0)).memory.examined
    assert sampled.n_cases == 500
    assert np.ptp(np.bincount(sampled.template)) <= 1
    assert len(sampled.templates) == 99
    tagged = MIRRORED.replace("{id: b3,", "{id: b3, tags: [odd],").replace("{id: a3,", "{id: a3, tags: [odd],")
    suite = write(tmp_path, tagged)
    assert len(quick(suite=suite, without_tags=("odd",)).plan(tweets(), RNG(0)).memory.examined.templates) == 4


def test_the_notes_suite_wants_to_know_what_the_model_looks_for() -> None:
    cohort = cohort_of(["Pneumonia."] * 20 + ["Well."] * 20, [1] * 20 + [0] * 20, label="pneumonia")
    with pytest.raises(ConfigError, match="needs a choice for slot 'finding'"):
        quick(suite="notes").plan(cohort, RNG(0))
    model = KeywordModel({"pneumonia": 3.0, "no": -3.0, "denies": -3.0}, bias=-1.5, labels=("pneumonia",))
    result = audit(quick(suite="notes", slots={"finding": ("pneumonia",)}), cohort, toy=model)
    examined = quick(suite="notes", slots={"finding": "pneumonia"}).plan(cohort, RNG(0)).memory.examined
    assert {labelled.test.type for labelled in examined.tests} == {"MFT", "INV", "DIR"}
    found = rows(result, "pass_rate")
    alone = found.filter(pl.col("reason") == "no interval: fewer than 2 templates")
    assert alone.height > 0
    assert alone["low"].null_count() == alone.height
    assert alone["value"].null_count() == 0
    assert rows(result, "capability_pass_rate")["low"].null_count() == 0


def test_templates_from_csv_and_cases_from_jsonl(tmp_path: Path) -> None:
    table = tmp_path / "other.csv"
    table.write_text(
        "capability,label,template\n"
        "negation,no ADE,I took {drug} without {thing}.\n"
        "negation,ADE,{drug} gave me {thing}.\n"
    )
    model = KeywordModel({"without": -5.0}, bias=1.0, labels=("ADE",))
    slots = {"drug": ("Zoloft", "Prozac"), "thing": ("nausea",)}
    result = audit(quick(suite=table, slots=slots, positive="ADE"), tweets(), toy=model)
    assert values(result, "pass_rate") == {"negation/negation: no ADE": 1.0, "negation/negation: ADE": 1.0}
    lines = tmp_path / "cases.jsonl"
    lines.write_text('{"text": "No nausea.", "label": 0}\n{"text": "Nausea.", "label": 1}\n')
    result = audit(quick(suite=lines), tweets(), toy=model)
    assert sorted(values(result, "pass_rate").values()) == [0.0, 1.0]


def test_wrong_options_are_refused_before_any_work() -> None:
    cohort = tweets()
    with pytest.raises(ConfigError, match="no label 'AED'"):
        quick(label="AED").plan(cohort, RNG(0))
    with pytest.raises(ConfigError, match="unknown cohort 'x'"):
        quick(cohort="x").plan(cohort, RNG(0))
    with pytest.raises(ConfigError, match="no capability 'order'"):
        quick(capabilities=("order",)).plan(cohort, RNG(0))
    with pytest.raises(ConfigError, match="no slot 'dose'"):
        quick(slots={"dose": ("1",)}).plan(cohort, RNG(0))
    with pytest.raises(ConfigError, match="unknown suite"):
        quick(suite="missing.yaml").plan(cohort, RNG(0))
    two = Cohort.from_frame(cohort.cases.with_columns(a=pl.lit(1), b=pl.lit(0)).drop("cohort"), labels=["a", "b"])
    with pytest.raises(ConfigError, match="2 labels"):
        quick().plan(two, RNG(0))
    assert quick(label="b", capabilities=("negation",)).plan(two, RNG(0)).labels == ("b",)
    untrained = cohort_of(["One."], [1])
    with pytest.raises(CohortError, match="validation split"):
        quick(threshold="recall").plan(untrained, RNG(0))


def test_the_spec_is_plain_and_is_read_from_yaml_values() -> None:
    given = {
        "suite": "notes",
        "slots": {"finding": ["pneumonia", {"value": "hip fracture", "article": "a"}], "relative": "mother"},
        "sizes": {"years": 2},
        "capabilities": ["history"],
        "without_tags": ["acute"],
    }
    made = TypeAdapter(Capabilities).validate_python(given)
    spec = json.loads(json.dumps(asdict(made)))
    assert TypeAdapter(Capabilities).validate_python(spec) == made
    assert made.plan(cohort_of(["One."], [1]), RNG(0)).memory.examined.slots["finding"].values == (
        "pneumonia",
        "hip fracture",
    )


def test_the_fingerprint_knows_the_suites_content(tmp_path: Path) -> None:
    def print_of(text: str) -> str:
        suite = write(tmp_path, text)
        return quick(suite=suite).plan(tweets(), RNG(0)).memory.examined.fingerprint

    first = print_of(MIRRORED)
    assert print_of(MIRRORED) == first
    changed = (
        ("took {drug} before", "took {drug}, before"),
        ("nausea", "vertigo"),
        ("{id: b3, label: no ADE", "{id: b3, label: ADE"),
    )
    assert len({first, *(print_of(MIRRORED.replace(*change)) for change in changed)}) == 4


def test_the_same_seed_gives_the_same_estimates() -> None:
    model = KeywordModel({"not": -2.0, "zoloft": 1.0}, bias=0.3, labels=("ADE",))
    one, other = (audit(quick(capabilities=("negation",)), tweets(), toy=model) for _ in range(2))
    assert one.estimates.equals(other.estimates)
    assert one.blocks == other.blocks


def test_models_are_compared_on_the_same_templates() -> None:
    always = KeywordModel({}, bias=1.0, labels=("ADE",))
    result = audit(quick(), tweets(), always=always, negates=NegationRule())
    levels = {name: values(result, "pass_rate", model=name) for name in ("always", "negates")}
    for group, gap in values(result, "pass_rate", reference="always", model="negates").items():
        assert gap == pytest.approx(levels["negates"][group] - levels["always"][group])
    found = rows(result, "pass_rate", reference="always").filter(pl.col("group") == "negation/negation: no ADE")
    assert found["significant"].to_list() == [True]
    assert found["low"][0] > 0
    few = rows(result, "pass_rate", reference="always").filter(pl.col("group") == "negation/negation: ADE")
    assert (few["value"][0], few["significant"][0], few["low"][0] < -0.2) == (0.0, False, True)
    assert "Negation: negates passes more sentences than always, by" in "\n".join(
        finding.sentence for finding in result.findings
    )


def test_seeds_are_reported_as_their_mean_and_spread() -> None:
    capabilities = quick(capabilities=("negation",))
    plan = capabilities.plan(tweets(), RNG(0))
    models = {
        "m-1": KeywordModel({"not": -4.0}, bias=1.0, labels=("ADE",)),
        "m-2": KeywordModel({"without": -4.0}, bias=1.0, labels=("ADE",)),
        "other": KeywordModel({}, bias=1.0, labels=("ADE",)),
    }
    answers = ask(plan, models, **{"m-1": "m", "m-2": "m"})
    result = capabilities.analyse(plan, answers, RNG(1))
    single = [values(result, "pass_rate", model=name) for name in ("m-1", "m-2")]
    mean = values(result, "pass_rate", model="m")
    for group, value in mean.items():
        assert value == pytest.approx((single[0][group] + single[1][group]) / 2)
    sd = values(result, "pass_rate_sd", model="m")
    group = "negation/negation: no ADE"
    assert sd[group] == pytest.approx(np.std([each[group] for each in single], ddof=1))
    assert set(rows(result, "pass_rate", reference="other")["model"].to_list()) == {"m"}


def test_seeds_that_move_apart_have_moved(tmp_path: Path) -> None:
    """One goes up and the other down: their mean prediction stays, and each of them has moved."""
    capabilities = quick(suite=write(tmp_path, PAIRS))
    plan = capabilities.plan(tweets(), RNG(0))
    weights = {"m-1": 1.0, "m-2": -1.0}
    models = {name: KeywordModel({"urgent": w, "please": w}, labels=("ADE",)) for name, w in weights.items()}
    result = capabilities.analyse(plan, ask(plan, models, **dict.fromkeys(weights, "m")), RNG(1))
    group = "shorthand/polite: ill"
    for name in ("m-1", "m-2", "m"):
        assert values(result, "movement", model=name)[group] == pytest.approx(sigmoid(1.0) - 0.5)


def test_a_drugs_name_that_matters_is_found_with_its_frequency() -> None:
    # Prozac pulls towards ADE; in these notes it is named twice, once in small letters.
    texts = ["Prozac helps.", "my prozac!", "Zoloft.", "nothing", *["x"] * 36]
    cohort = cohort_of(texts, [0, 1] * 20, ["train"] * 4 + ["test"] * 36)
    slots = {"drug": ("Prozac", "Zoloft", "aspirin")}
    model = KeywordModel({"prozac": 2.0}, bias=-1.0, labels=("ADE",))
    capabilities = quick(slots=slots, n_replicates=1000)
    plan = capabilities.plan(cohort, RNG(0))
    use = plan.memory.examined.slots["drug"]
    assert (use.mentions.tolist(), use.exact.tolist()) == ([2, 1, 0], [1, 1, 0])
    result = capabilities.analyse(plan, ask(plan, {"toy": model}), RNG(1))
    rates = values(result, "value_pass_rate")
    assert rates["temporal_order: ADE | drug: Prozac"] == 1.0
    assert rates["temporal_order: ADE | drug: Zoloft"] == 0.0
    assert rates["temporal_order: no ADE | drug: Prozac"] == 0.0
    spread = rows(result, "value_spread")
    drug = spread.filter(pl.col("group") == "temporal_order: ADE | drug")
    assert (drug["value"][0], drug["significant"][0]) == (1.0, True)
    effect = spread.filter(pl.col("group") == "temporal_order: ADE | effect")
    assert (effect["value"][0], effect["p_value"][0]) == (0.0, 1.0)
    told = warnings(result)
    assert "What fills the slot 'drug' matters to toy" in told
    assert "'Prozac' (2 mentions in the training notes)" in told


def test_the_examples_fail_and_are_not_notes() -> None:
    model = KeywordModel({"not": -2.0}, bias=0.5, labels=("ADE",))
    capabilities = quick(examples=3)
    plan = capabilities.plan(tweets(), RNG(0))
    result = capabilities.analyse(plan, ask(plan, {"toy": model}), RNG(1))
    (block,) = (block for block in result.blocks if isinstance(block, Examples))
    assert not block.has_note_text
    counted: dict[tuple[str, str], int] = {}
    for _, test, sentence, expected, _ in block.rows:
        assert sentence in plan.variants.made
        decided = "ADE" if model.predict(Inputs.from_texts([sentence]))[0, 0] >= 0.5 else "no ADE"
        assert decided != expected
        counted[test, expected] = counted.get((test, expected), 0) + 1
    assert max(counted.values()) <= 3


def test_every_block_and_finding_through_the_runner_and_the_report(tmp_path: Path) -> None:
    cohort = tweets()
    models = {
        "negates": KeywordModel({"without": -4.0, "not": -4.0, "no": -4.0}, bias=1.0, labels=("ADE",)),
        "always": KeywordModel({}, bias=1.0, labels=("ADE",)),
    }
    entries = [ModelEntry(name, [ModelSpec(name, "")], loaded=[model]) for name, model in models.items()]
    some = ("negation", "hedging", "contrast")
    job = Job(cohort, entries, {"capabilities": quick(capabilities=some, sizes={"effect": 2}, n_replicates=100)})
    cache, out = ScoreCache(tmp_path / "scores.sqlite"), RunDirectory(tmp_path / "run")
    (result,) = run(job, out, cache)
    cache.close()
    titles = [block.title for block in result.blocks]
    for title in (
        "Sentences against held-out cases",
        "Every test and label",
        "Capabilities",
        "Model against model",
        "By drug",
        "By template: negates",
        "By template: always",
        "Sentences that fail",
        "Further capabilities: pairs of sentences",
        "Further capabilities: every pair test",
    ):
        assert title in titles
    for block in result.blocks:
        if block.type == "chart" and block.kind == "histogram" and not block.title.startswith("Further"):
            assert sum(row["count"] for row in block.data) == 15
        if block.type == "table":
            assert all(len(row) == len(block.columns) for row in block.rows)
    html = render(out.read_manifest(), out.read_results())
    assert "Sentences that fail" in html
    # No note of a patient is in the results.
    assert not any(text in html for text in cohort.texts)


def test_a_probability_at_the_threshold_is_a_yes() -> None:
    result = audit(quick(capabilities=("negation",)), tweets(), even=KeywordModel({}, labels=("ADE",)))
    assert values(result, "pass_rate") == {"negation/negation: no ADE": 0.0, "negation/negation: ADE": 1.0}
    assert values(result, "recall") == {"held-out: ADE": 1.0, "held-out: no ADE": 0.0}


def test_an_empty_split_leaves_no_baseline() -> None:
    cohort = cohort_of(["Nausea.", "Fine."] * 3, [1, 0] * 3, ["train"] * 6)
    result = audit(quick(capabilities=("negation",)), cohort, toy=KeywordModel({}, labels=("ADE",)))
    assert rows(result, "recall")["value"].to_list() == [None, None]
    assert rows(result, "pass_rate")["value"].null_count() == 0


def test_few_held_out_patients_widen_differences_and_one_leaves_no_interval() -> None:
    toy = KeywordModel({"not": -2.0}, bias=1.0, labels=("ADE",))
    widths = []
    for n_patients in (1, 5, 50):
        cohort = cohort_of(["Nausea.", "Fine."] * n_patients, [1, 0] * n_patients)
        gap = rows(audit(quick(capabilities=("negation",)), cohort, toy=toy), "pass_rate", reference="held-out: no ADE")
        assert gap["value"].null_count() == 0
        if n_patients == 1:
            why = "no interval: fewer than 2 patients"
            assert (gap["p_value"][0], gap["reason"][0], gap["low"][0]) == (None, why, None)
        else:
            widths.append(gap["high"][0] - gap["low"][0])
            assert gap["significant"][0] == (gap["low"][0] > 0 or gap["high"][0] < 0)
    assert widths[0] > widths[1] > 0.2


def test_values_too_few_or_too_many_are_not_broken_down() -> None:
    one = audit(
        quick(capabilities=("negation",), slots={"drug": "Zoloft"}), tweets(), toy=KeywordModel({}, labels=("ADE",))
    )
    assert not [group for group in values(one, "value_spread") if "drug" in group]
    assert [group for group in values(one, "value_spread") if "effect" in group]


def test_every_value_of_a_slot_has_its_training_frequency() -> None:
    audited = quick(capabilities=["negation"], slots={"drug": ("Zoloft", "Prozac"), "effect": ("nausea", "hives")})
    result = audit(audited, tweets(), toy=KeywordModel({"nausea": 6.0}, bias=-3.0, labels=("ADE",)))
    found = rows(result, "value_training_mentions")
    n = dict(zip(found["group"], found["value"], strict=True))
    assert set(found["n"]) == {30}
    assert (n["drug: Zoloft"], n["drug: Prozac"], n["effect: hives"]) == (30, 0, 0)
    assert 10 < n["effect: nausea"] < 20
    table = next(block for block in result.blocks if "matter?" in block.title)
    columns = [column.name for column in table.columns]
    row = next(row for row in table.rows if row[columns.index("Slot")] == "drug")
    for end in ("Worst", "Best"):
        value = row[columns.index(end)]
        assert row[columns.index(f"{end}, training mentions")] == (30 if value.startswith("Zoloft") else 0)


def test_names_of_tests_for_readers_begin_with_a_capital() -> None:
    suite = load_suite("notes").with_slots({"finding": ["pneumonia"]})
    cases = suite.default_cases(RNG(0))
    examined = examine_cases(suite, cases, first_row=0, training=None, capabilities=())
    assert [test.title for test in examined.tests if not test.title[0].isupper()] == []
