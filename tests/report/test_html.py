from __future__ import annotations

import inspect
import json
import re
from dataclasses import replace
from importlib.resources import files
from itertools import pairwise
from typing import Any

import pytest

from palpate.commands.demo import tell_xrays
from palpate.report.blocks import view_table
from palpate.report.html import render
from palpate.report.provenance import used_in
from palpate.results import (
    AuditResult,
    Axis,
    Chart,
    Column,
    Estimate,
    Examples,
    Finding,
    Table,
    estimates_frame,
)

from .reading import Reader
from .sample import Sample, two_models

ATTACK = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'"


def table(rows: int, **options: Any) -> Table:
    columns = (Column(name="Label"), Column(name="AUROC", kind="interval"), Column(name="n", kind="integer"))
    cells = tuple((f"label {i}", (0.7, 0.6, 0.8), i) for i in range(rows))
    return Table(**({"title": "T", "columns": columns, "rows": cells} | options))


def result(*blocks: Any, audit: str = "performance", rows: list[Estimate] | None = None, **options: Any) -> AuditResult:
    return AuditResult(audit, estimates_frame(rows or []), blocks, **options)


def auroc(model: str, value: float | None, **options: Any) -> Estimate:
    rest = {"label": "died", "group": "", "n": 100} | options
    ends = {} if value is None else {"low": value - 0.02, "high": value + 0.02, "level": 0.95}
    return Estimate("performance", model, "auroc", value=value, **(ends | rest))


# What it says


def test_first_screen_answers(readmission_html: str) -> None:
    text = Reader(readmission_html).text
    summary = text[: text.index("How good is it on held-out cases")]
    for part in (
        "30-day readmission from discharge notes",
        "bert-discharge and tfidf-xgb",
        "0.743 (0.723–0.763)",
        "bert-discharge is better than tfidf-xgb.",
        "−0.031 (−0.048 to −0.014)",
        "p <0.001",
        "8,000",
        "5,200",
        "6.0%",
        "Gate failed: 1 of 3 conditions not met",
        "Failed: no gender gap above 0.02",
        "Does it hang on a word that no clinician would use? Concern “homeless”",
        "Are its risks right? Concern tfidf-xgb overestimates",
    ):
        assert part in summary, part


def test_sections_in_order_and_linked(readmission_html: str) -> None:
    read = Reader(readmission_html)
    ids = [named.get("id", "") for tag, named in read.elements if tag == "section"]
    audits = [f"audit-{name}" for name in ("performance", "vocabulary", "characteristics", "capabilities")]
    assert ids == ["summary", *audits, "made", "glossary"]
    links = {named["href"][1:] for tag, named in read.elements if tag == "a"}
    every = {named["id"] for _, named in read.elements if "id" in named}
    assert links <= every
    assert set(ids) <= links


def test_macro_is_preferred_and_other_groups_are_left_out() -> None:
    rows = [auroc("m", 0.61, label="a"), auroc("m", 0.62, label="b"), auroc("m", 0.615, label="macro")]
    rows += [auroc("m", 0.99, label="macro", group="female")]
    text = Reader(render({"models": [{"name": "m"}]}, [result(rows=rows)], gate=None)).text
    assert "0.615 (0.595–0.635)" in text
    assert "0.990" not in text


def test_a_run_without_the_performance_audit_shows_the_auroc_that_another_measured() -> None:
    rows = [auroc("m", 0.615, label="macro", group="all"), auroc("m", 0.55, label="macro", group="matched")]
    rows += [auroc("m", -0.065, label="macro", group="matched", reference="all", significant=True)]
    text = Reader(render({"models": [{"name": "m"}]}, [result(audit="context", rows=rows)], gate=None)).text
    assert "0.615 (0.595–0.635)" in text
    assert "0.550" not in text


def test_each_cohort_has_its_row_and_checkpoints_are_one_model() -> None:
    models = [{"name": "m-1", "ensemble": "m"}, {"name": "m-2", "ensemble": "m"}, {"name": "x", "ensemble": None}]
    rows = [
        auroc(name, value, group=group, n=n)
        for group, n, less in (("home", 900, 0.0), ("away", 400, 0.05))
        for name, value in (("m-1", 0.81 - less), ("m-2", 0.83 - less), ("m", 0.82 - less), ("x", 0.7 - less))
    ]
    rows += [auroc("x", -0.12, reference="m", group="home", significant=True)]
    rows += [auroc("x", -0.11, reference="m", group="away", significant=True)]
    rows += [auroc("m", -0.05, reference="home", group="away", significant=True)]
    manifest = {"models": models, "cohorts": [{"name": "home"}, {"name": "away"}]}
    text = Reader(render(manifest, [result(rows=rows)], gate=None)).text
    summary = text[: text.index("What we found")]
    assert "Audited: m and x" in summary
    for part in ("m home, n = 900 0.820", "m away, n = 400 0.770", "x away, n = 400 0.650", "−0.120", "−0.110"):
        assert part in summary, part
    for part in ("m-1", "0.810", "home is better"):
        assert part not in summary, part


@pytest.mark.parametrize(
    ("significant", "value", "words"),
    [
        (True, 0.05, "a is better than b."),
        (True, -0.05, "b is better than a."),
        (False, 0.05, "a and b cannot be told apart."),
        (None, 0.05, "a and b were not tested."),
    ],
)
def test_differences_in_words(significant: bool | None, value: float, words: str) -> None:
    rows = [auroc("a", 0.8), auroc("b", 0.7), auroc("a", value, reference="b", significant=significant)]
    manifest = {"models": [{"name": "a"}, {"name": "b"}]}
    assert words in Reader(render(manifest, [result(rows=rows)], gate=None)).text


def test_undefined_auroc_shows_its_reason() -> None:
    rows = [auroc("a", None, reason="no case has the outcome")]
    text = Reader(render({"models": [{"name": "a"}]}, [result(rows=rows)], gate=None)).text
    assert "no case has the outcome" in text


def test_an_empty_manifest_and_no_results_are_a_page() -> None:
    read = Reader(render({}, [], gate=None))
    assert "This run has no AUROC over all labels" in read.text
    assert read.mismatched == []
    assert read.scripts == [], "without charts there is nothing to run"


def test_gate_passed_and_absent() -> None:
    passed = [{"condition": "AUROC at least 0.7", "passed": True, "detail": ""}]
    assert "Gate passed: all 1 conditions met" in Reader(render({}, [], gate=passed)).text
    assert "Gate" not in Reader(render({}, [], gate=None)).text


def test_what_the_model_never_saw(readmission_html: str) -> None:
    assert "bert-discharge never saw 31% of the edits." in Reader(readmission_html).text


def test_pairs_are_similar_never_equal() -> None:
    (matched,) = (term.meaning for term in used_in("matched") if term.name == "Matched")
    assert "similar pre-test probability" in matched
    assert not re.search(r"\b(same|equal|equally)\b", matched)
    assert "equally likely" not in inspect.getsource(tell_xrays)


def test_glossary_has_only_words_that_are_used() -> None:
    plain = Reader(render({}, [result(table(1, caption="The Brier score."))], gate=None)).text
    glossary = plain[plain.rindex("Glossary") :]
    assert "Brier score The mean squared distance" in glossary
    assert "Spearman" not in glossary


def test_reasons_become_footnotes_of_their_dashes() -> None:
    columns = (Column(name="Model"), Column(name="AUROC", kind="interval"), Column(name="Reason"))
    rows = (("a", (0.7, 0.6, 0.8), None), ("b", None, "one class"), ("c", None, "one class"))
    html = render({}, [result(Table(title="T", columns=columns, rows=rows))], gate=None)
    assert html.count('<sup class="mark" title="one class">1</sup>') == 2
    assert html.count("<li>one class</li>") == 1


def test_configuration_hides_secrets() -> None:
    config = {"models": {"m": {"url": "http://localhost", "headers": {"Authorization": "Bearer abc"}}}, "api_key": "k1"}
    html = render({"config": config}, [], gate=None)
    assert "Bearer abc" not in html
    assert "k1" not in Reader(html).text
    assert "http://localhost" in html


# Note text


def test_note_text_is_announced(readmission_html: str) -> None:
    read = Reader(readmission_html)
    assert "This report contains text from patients' notes." in read.text
    assert read.text.index("This report contains") < read.text.index("Summary Scorecard")
    assert "admitted with chest pain" in read.text


def test_note_text_is_withheld_unless_the_run_allows_it() -> None:
    examples = Examples(title="E", columns=("Text",), rows=(("Mr Smith has chest pain",),), has_note_text=True)
    html = render({"include_text": False}, [result(examples)], gate=None)
    assert "chest pain" not in html
    assert "include_text off" in html
    assert "contains text from patients" not in html


# Safety


def hostile() -> tuple[dict[str, Any], list[AuditResult], list[dict[str, Any]]]:
    sample = two_models(include_text=True)
    text = json.dumps(sample.manifest, ensure_ascii=False).replace("bert-discharge", json.dumps(ATTACK)[1:-1])
    manifest = json.loads(text) | {"title": ATTACK, "config": {ATTACK: ATTACK}, "packages": {ATTACK: ATTACK}}
    axes = {"x": Axis(field="x", title=ATTACK), "y": Axis(field="y", title=ATTACK)}
    row = {"x": 1, "y": ATTACK, "s": ATTACK, "low": 0, "high": 2, "reason": ATTACK, ATTACK: ATTACK}
    chart = Chart(
        title=ATTACK, caption=ATTACK, kind="forest", description=ATTACK, data=(row,), series="s", facet="s", **axes
    )
    rows = [auroc(ATTACK, 0.7, label=ATTACK), auroc(ATTACK, 0.1, label=ATTACK, reference=ATTACK, significant=True)]
    columns = (Column(name=ATTACK, hint=ATTACK), Column(name="Reason"))
    blocks = (
        chart,
        Table(title=ATTACK, columns=columns, rows=((ATTACK, ATTACK),)),
        Examples(title=ATTACK, columns=(ATTACK,), rows=((ATTACK,),)),
    )
    findings = (Finding(sentence=ATTACK),)
    one = result(*blocks, rows=rows, findings=findings, provenance={ATTACK: ATTACK})
    gate = [{"condition": ATTACK, "passed": False, "detail": ATTACK}]
    return manifest, [one, replace(one, audit="vocabulary")], gate


def test_everything_is_escaped() -> None:
    manifest, results, gate = hostile()
    read = Reader(render(manifest, results, gate=gate))
    assert read.mismatched == []
    assert read.counts["img"] == 0
    assert not [name for _, named in read.elements for name in named if name.startswith("on")]
    assert ATTACK.replace("  ", " ") in read.text
    for named, text in read.scripts:
        if named.get("type") == "application/json":
            json.loads(text)
    assert sum(not named for named, _ in read.scripts) == 2


def test_nothing_is_loaded_and_only_own_scripts_run(readmission_html: str) -> None:
    read = Reader(readmission_html)
    for _, named in read.elements:
        for name in ("src", "href", "xlink:href", "action", "data", "srcset"):
            assert not re.match(r"(https?:)?//", named.get(name, "")), named
    assert not re.search(r"@import|url\(\s*['\"]?(https?:)?//", readmission_html)
    policy = next(n["content"] for t, n in read.elements if n.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy
    assert "script-src 'sha256-" in policy
    assert "connect-src" not in policy, "nothing opens what default-src closes"


def test_same_input_same_bytes(readmission: Sample, readmission_html: str) -> None:
    assert render(readmission.manifest, readmission.results, gate=readmission.gate) == readmission_html


# Size


def test_long_tables_are_folded_and_cut() -> None:
    html = render({}, [result(table(5_012))], gate=None)
    text = Reader(html).text
    assert "Show the table (5,012 rows)" in text
    assert "Showing 200 of 5,012 rows; all are in results/performance.parquet." in text
    assert html.count("<tr>") < 220


def test_a_table_that_is_wider_than_the_page_is_set_in_parts_that_all_name_their_rows() -> None:
    names = ("Model", "Cohort", "Cases", *(f"Metric {k}" for k in range(12)))
    kinds = ("text", "text", "integer", *("interval",) * 12)
    columns = tuple(Column(name=name, kind=kind) for name, kind in zip(names, kinds, strict=True))  # type: ignore[arg-type]
    cells = ("logistic", "hospital a", 900, *((0.7, 0.65, 0.75),) * 12)
    view = view_table(Table(title="T", columns=columns, rows=(cells,) * 3))
    assert len(view.parts) == 2
    assert all(part[:2] == (0, 1) for part in view.parts)
    assert [k for part in view.parts for k in part[2:]] == list(range(2, 15))
    assert min(map(len, view.parts)) >= 7, "about equally wide"
    narrow = view_table(Table(title="T", columns=columns[:8], rows=(cells[:8],)))
    assert narrow.parts == (tuple(range(8)),)
    html = render({}, [result(Table(title="T", columns=columns, rows=(cells,) * 3))], gate=None)
    assert 'aria-label="T, part 2 of 2"' in html
    assert Reader(html).mismatched == []


@pytest.mark.slow
def test_a_huge_run_stays_below_five_megabytes() -> None:
    labels = [f"label {i} with quite a long name, as codes have" for i in range(5_000)]
    models = [f"model {k}" for k in range(3)]
    data = tuple(
        {"y": label, "m": model, "x": 0.5, "low": 0.4, "high": 0.6, "n": 10} for label in labels for model in models
    )
    axes = {"x": Axis(field="x", title="X"), "y": Axis(field="y", title="Y")}
    forest = Chart(title="F", kind="forest", description="D", data=data, series="m", **axes)
    points = tuple({"x": i % 997, "y": i % 1009, "text": f"case {i}"} for i in range(100_000))
    scatter = Chart(title="S", kind="scatter", description="D", data=points, **axes)
    tables = [table(5_000, title=f"Table {i}") for i in range(120)]
    wide = Table(title="W", columns=tuple(Column(name=n) for n in labels), rows=(tuple("x" * 5_000),) * 50)
    notes = Examples(title="E", columns=("Text",), rows=(("word " * 20_000,),) * 500)
    findings = tuple(Finding(sentence="sentence " * 100) for _ in range(5_000))
    results = [
        result(forest, scatter, wide, notes, *tables, audit=audit, findings=findings)
        for audit in ("performance", "vocabulary", "characteristics")
    ]
    manifest = {
        "include_text": True,
        "models": [{"name": name, "labels": labels} for name in models],
        "cohorts": [{"n": 10_000, "n_labels": 5_000, "labels": [{"name": n, "n_positive": 5} for n in labels]}],
        "config": {"labels": labels},
        "packages": {f"package{i}": "1.0" for i in range(5_000)},
    }
    html = render(manifest, results, gate=[{"condition": "c" * 9_000, "passed": False, "detail": ""}] * 1_000)
    assert len(html.encode()) <= 5_000_000
    text = Reader(html).text
    assert "left out so that this file stays below 5 MB" in text
    assert "and 4,994 rarer labels" in text


def test_room_that_other_audits_leave_is_used() -> None:
    """The first audit needs far more than its share; the others need next to nothing."""
    large = [table(500, title=f"Table {i}") for i in range(12)]
    small = [result(table(2), audit=audit) for audit in ("slices", "operating", "drift", "vocabulary", "context")]
    read = Reader(render({}, [result(*large, audit="subgroups"), *small]))
    assert "left out so that" not in read.text
    assert all(f"Table {i}" in read.text for i in range(12))


# Structure


@pytest.mark.parametrize("page", ["readmission_html", "radiographs_html"])
def test_structure(page: str, request: pytest.FixtureRequest) -> None:
    html: str = request.getfixturevalue(page)
    read = Reader(html)
    assert read.mismatched == []
    assert ("html", {"lang": "en"}) in read.elements
    counts = read.counts
    assert (counts["h1"], counts["main"], counts["nav"], counts["header"], counts["footer"]) == (1, 1, 1, 1, 1)
    levels = [int(tag[1]) for tag, _ in read.elements if re.fullmatch("h[1-6]", tag)]
    assert all(b - a <= 1 for a, b in pairwise(levels)), "no heading level is skipped"
    assert counts["table"] == counts["caption"]
    assert all("scope" in named for tag, named in read.elements if tag == "th")
    assert all(named.get("aria-label") for _, named in read.elements if named.get("role") in ("region", "img"))
    regions = [named for _, named in read.elements if named.get("role") == "region"]
    assert all(named.get("tabindex") == "0" for named in regions)
    ids = [named["id"] for _, named in read.elements if "id" in named]
    assert len(ids) == len(set(ids))
    assert counts["figure"] == counts["figcaption"] > 0
    assert "Show the numbers" in read.text


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_contrast_in_light_and_dark() -> None:
    css = files("palpate.report").joinpath("templates", "theme.css").read_text()
    light, dark = css.split("@media")
    themes = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part)) for part in (light, dark)]
    assert themes[0].keys() == themes[1].keys()
    for theme in themes:
        pairs = [(ink, back) for ink in ("ink", "muted", "accent") for back in ("page", "surface", "neutral-back")]
        pairs += [(tone, f"{tone}-back") for tone in ("warning", "good", "neutral", "bad")]
        pairs += [("ink", f"{tone}-back") for tone in ("warning", "good", "neutral")]
        pairs += [("bad", "surface"), ("good", "surface")]
        pairs += [(f"{scale}t{i}", f"{scale}{i}") for scale in "qd" for i in range(1, 8)]
        for ink, back in pairs:
            assert contrast(theme[ink], theme[back]) >= 4.5, (ink, back)
        for i in range(1, 11):
            assert contrast(theme[f"c{i}"], theme["surface"]) >= 3, f"c{i}"
