"""Cards: every number is a row of the results, what nobody wrote says who must, and the files are what they claim."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from palpate.commands.cards import read_model_card, write_digest, write_facts, write_model_card
from palpate.errors import ConfigError, InputError
from palpate.report.cards.audited import Run
from palpate.report.cards.entries import Item, Statement, Unwritten
from palpate.report.cards.facts import known_facts, read_facts
from palpate.report.cards.formats import as_chai, as_markdown
from palpate.report.cards.items import Card
from palpate.report.cards.measured import about_model, measure
from palpate.results import AuditResult, estimates_frame
from palpate.run.directory import RunDirectory
from tests.data.published import SHARED
from tests.e2e.command_line import CommandLine

CARDS = SHARED / "cards"
needs_cards = pytest.mark.skipif(not CARDS.is_dir(), reason="the cards' published lists are not beside the project")
AUDITS = {
    "data": {},
    "performance": {"n_replicates": 100},
    "subgroups": {"by": ["gender"], "n_replicates": 100},
    "operating": {"n_replicates": 100},
}


def audited(folder: Path, audits: dict[str, Any], *, models: int = 2) -> Path:
    rng = np.random.default_rng(0)
    n = 300
    y = rng.random(n) < 0.3
    columns = {
        "id": np.arange(n),
        "died": y.astype(int),
        "gender": rng.choice(["f", "m"], n),
        "split": ["train", "test"] * (n // 2),
    }
    pl.DataFrame(columns).write_csv(folder / "cases.csv")
    for k in range(models):
        scores = np.clip(0.3 + 0.2 * y + rng.normal(0, 0.15 + 0.1 * k, n), 0, 1)
        pl.DataFrame({"id": np.arange(n), "died": scores}).write_csv(folder / f"m{k}.csv")
    config = {
        "title": "Deaths <after> stays",
        "cohort": {"file": "cases.csv", "case": "id", "labels": ["died"], "split": "split", "attributes": ["gender"]},
        "models": {f"m{k}": f"predictions:m{k}.csv" for k in range(models)},
        "audits": audits,
    }
    (folder / "audit.yaml").write_text(yaml.safe_dump(config))
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from palpate.commands.audit import audit

    folder = audited(tmp_path_factory.mktemp("job"), AUDITS)
    audit(folder / "audit.yaml", out=folder / "run")
    return folder / "run"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one model with `performance` alone."""
    from palpate.commands.audit import audit

    folder = audited(tmp_path_factory.mktemp("job"), {"performance": {"n_replicates": 100}}, models=1)
    audit(folder / "audit.yaml", out=folder / "run")
    return folder / "run"


@pytest.mark.parametrize("kind", ["chai", "tripod-ai", "hti-1"])
def test_every_number_is_a_row_of_the_results(run: Path, kind: str, tmp_path: Path) -> None:
    facts = tmp_path / "facts.yaml"
    facts.write_text("evaluation_kind: {cases: external}\n")
    card = read_model_card(run, kind, model="m1", facts=facts)
    numbers = [each for item in card.items for each in item.statements if each.number]
    assert len(numbers) > 10
    for statement in numbers:
        assert statement.number is not None
        file, _, where = statement.source.partition(": ")
        wanted = dict(part.split("=", 1) for part in re.split(r", (?=\w+=)", where))
        rows = pl.read_parquet(run / file).filter(
            pl.col("reference").is_null(), *(pl.col(name) == value for name, value in wanted.items())
        )
        assert rows.height == 1, statement.source
        assert rows["model"][0] == "m1"
        assert rows.row(0, named=True)["value"] == statement.number["value"]
        if statement.number["value"] is not None:
            assert f"{statement.number['value']:.3f}".lstrip("-") in statement.text.replace("\N{MINUS SIGN}", "")


def test_nothing_is_made_up(run: Path) -> None:
    """Without facts, each item is measured, or says who must write it; a fact is quoted and cited."""
    for kind in ("chai", "tripod-ai", "hti-1"):
        for item in read_model_card(run, kind, model="m0").items:
            assert item.statements or item.missing, item.name
            assert all(
                each.source.startswith(("results/", "manifest.json", "scorecard.json")) for each in item.statements
            )
            assert all(each.who in each.sentence and each.key in known_facts() for each in item.missing)


def test_facts_are_quoted_and_cited(run: Path, tmp_path: Path) -> None:
    facts = tmp_path / "facts.yaml"
    facts.write_text(
        "intended_use: |\n  To find <deaths> & more\nkeywords: [death, ward]\nevaluation_kind: local\nversion: 1.10\n"
    )
    items = {item.name: item for item in read_model_card(run, "hti-1", model="m0", facts=facts).items}
    assert items["5"].statements == (Statement("To find <deaths> & more", "facts.yaml: intended_use"),)
    assert any("AUROC" in each.text for each in items["27"].statements)
    assert items["21"].statements[0].text == "Not measured in this run: no cohort is internal data."
    assert read_facts(facts)["version"] == "1.10", "as it is written"
    chai = as_chai(read_model_card(run, "chai", model="m0", facts=facts))
    assert chai.count("<Keyword>") == 2
    assert "To find &lt;deaths&gt; &amp; more" in chai


@pytest.mark.parametrize(
    ("written", "parts", "text"),
    [
        ('["heart failure, acute", ward]', ["heart failure, acute", "ward"], "heart failure, acute; ward"),
        ('["heart failure, acute"]', ["heart failure, acute"], "heart failure, acute"),
        ("death,  ward,", ["death", "ward"], "death, ward"),
        ("[death, 30-day]", ["death", "30-day"], "death, 30-day"),
    ],
)
def test_keywords_with_commas(written: str, parts: list[str], text: str, bare: Path, tmp_path: Path) -> None:
    (tmp_path / "facts.yaml").write_text(f"keywords: {written}\nehr: {written}\n")
    card = read_model_card(bare, "chai", facts=tmp_path / "facts.yaml")
    for name in ("Keyword", "EHR"):
        assert re.findall(f"<{name}>(.*)</{name}>", as_chai(card)) == parts
    keywords = next(item for item in card.items if item.name.endswith("Keyword"))
    assert keywords.text == text


def test_facts_of_several_lines_stay_lines(run: Path, tmp_path: Path) -> None:
    facts = tmp_path / "facts.yaml"
    facts.write_text("intended_use: |\n  To call patients:\n  - by nurses\n  - within *a* week\n\n  Not at night.\n")
    page = as_markdown(read_model_card(run, "markdown", model="m0", facts=facts))
    wanted = [
        *("- To call patients:  ", "  - by nurses  ", "  - within \\*a\\* week", "", "  Not at night.", ""),
        "  <sub>facts.yaml: intended_use</sub>",
    ]
    assert "\n".join(wanted) in page
    assert "To call patients:\n- by nurses" in as_chai(read_model_card(run, "chai", model="m0", facts=facts))


def test_what_people_wrote_is_in_the_element_alone(run: Path, tmp_path: Path) -> None:
    """A system that reads the card finds a name in ModelName, and its source beside it."""
    facts = tmp_path / "facts--1-.yaml"
    facts.write_text("model_name: Watch\nkeywords: [death, ward]\nknown_risks: Few\n")
    chai = as_chai(read_model_card(run, "chai", model="m0", facts=facts))
    assert "<!-- ModelName is from facts- -1-.yaml: model_name -->\n    <ModelName>Watch</ModelName>" in chai
    assert "<!-- Keyword is from facts- -1-.yaml: keywords -->\n      <Keyword>death</Keyword>" in chai
    risks = chai.partition("<KnownRisksAndLimitations>")[2].partition("</")[0]
    assert risks.startswith("Few\n")
    assert "Sources: facts--1-.yaml: known_risks; results/" in risks


def test_numbers_of_groups_are_in_one_item_and_questions_in_words(run: Path) -> None:
    items = {item.name: item for item in read_model_card(run, "tripod-ai", model="m0").items}
    with_groups = [name for name, item in items.items() if any("gender=f" in each.source for each in item.statements)]
    assert with_groups == ["23a"]
    assert "Groups by gender were compared" in items["14"].text
    assert "Groups by gender were compared" in items["12d"].text
    assert "differences between centres were not examined" in items["12d"].text
    assert items["23a"].statements[0].text.startswith("Does it separate patients better than chance?")
    assert "95% intervals" in items["12e"].text
    assert "subgroups." not in items["26"].text


def test_which_data_they_are_only_people_know(run: Path) -> None:
    items = {item.name: item for item in read_model_card(run, "hti-1", model="m0").items}
    assert "nobody has said whether its cases are" in items["21"].text
    assert [each.key for each in items["21"].missing] == ["evaluation_kind"]
    assert not any(each.number for each in items["21"].statements)


def test_the_threshold_of_decisions_is_told(run: Path) -> None:
    texts = [each.text for item in read_model_card(run, "chai", model="m0").items for each in item.statements]
    assert any(text.startswith("Decisions at a threshold of 0.") for text in texts)
    assert any(text.startswith("Decisions in groups: threshold that ") for text in texts)


def test_rows_of_another_model_are_not_quoted(run: Path) -> None:
    items = {item.name: item for item in read_model_card(run, "hti-1", model="m1").items}
    said = [each for each in items["14"].statements if each.source.startswith("results/data.parquet")]
    assert [each.text for each in said if "of gender between the training split and the audited cases" in each.text]
    assert len({each.text for each in said}) == len(said)
    assert all("model=m1" in each.source for each in said)


def test_kinds_are_of_cohorts_that_exist(run: Path, tmp_path: Path) -> None:
    facts = tmp_path / "facts.yaml"
    facts.write_text("evaluation_kind: {elsewhere: external}\n")
    with pytest.raises(ConfigError, match="'elsewhere', which is no cohort of the run"):
        read_model_card(run, "hti-1", model="m0", facts=facts)


def test_groups_of_several_cohorts_belong_to_no_single_kind() -> None:
    subgroups = AuditResult("subgroups", estimates=estimates_frame([]))
    cohorts = [{"name": name, "n": 10, "n_patients": 9, "n_labels": 0, "labels": []} for name in ("home", "away")]
    manifest = {"cohorts": cohorts, "audits": {"subgroups": {"cohort": None}}}
    found = measure(Run(manifest, [subgroups], "m"), {"evaluation_kind": {"home": "internal", "away": "external"}})
    assert "measured in home and away together, not in away alone" in found["fairness_external"][0].text
    half = measure(Run(manifest, [subgroups], "m"), {"evaluation_kind": {"home": "internal"}})
    assert "unless away is: nobody has said" in half["validity_external"][0].text


def test_a_run_without_subgroups_says_so(bare: Path) -> None:
    card = read_model_card(bare, "chai")
    items = {item.name: item for item in card.items}
    assert "no audit `subgroups`" in items["KeyMetrics/FairnessEquity"].text
    assert "no audit `subgroups`" in as_chai(card)
    assert "Not measured" in items["KeyMetrics/SafetyReliability"].text


def test_another_models_findings_are_left_out(run: Path) -> None:
    text = as_markdown(read_model_card(run, "markdown", model="m0"))
    assert re.search(r"\bm1 (separates|has a|loses)", text) is None


@pytest.mark.parametrize(
    ("sentence", "about"),
    [
        ("The risks of v1.2 are off by more than 0.05.", {"v1.2"}),
        ("v1.1 has a lower AUROC than v1.", {"v1.1"}),
        ("The thresholds of v1.1 and v1 were chosen on the audited cases.", {"v1.1", "v1"}),
        ("our model is worse for some patients.", {"our model"}),
        ("The table holds no training case.", {"v1", "v1.1", "v1.2", "our model"}),
    ],
)
def test_whom_a_sentence_is_about(sentence: str, about: set[str]) -> None:
    names = ["v1", "v1.1", "v1.2", "our model"]
    manifest = {"models": [{"name": name} for name in names]}
    assert {name for name in names if about_model(sentence, Run(manifest, [], name))} == about


@needs_cards
@pytest.mark.parametrize("facts", [None, "all"])
def test_the_chai_card_is_valid(run: Path, bare: Path, tmp_path: Path, facts: str | None) -> None:
    xmlschema = pytest.importorskip("xmlschema")
    schema = xmlschema.XMLSchema(str(CARDS / "chai_model_card_v0.2.xsd"), allow="all", defuse="never")
    file = None
    if facts:
        file = tmp_path / "facts.yaml"
        file.write_text("".join(f'{key}: "a \\a <text> & more"\n' for key in known_facts() if key != "evaluation_kind"))
    for folder, model in ((run, "m0"), (bare, None)):
        written = write_model_card(folder, "chai", tmp_path / f"{folder.parent.name}.xml", model=model, facts=file)
        schema.validate(str(written.file))


@given(st.text(st.characters(codec="utf-8"), min_size=1))
@settings(max_examples=50)
def test_any_text_makes_xml_that_can_be_read(text: str) -> None:
    from xml.etree import ElementTree

    items = (Item("BasicInfo/ModelName", "", "", (Statement(text, "facts.yaml: model_name"),), ()),)
    card = Card("chai", "m", {"cohorts": []}, items)
    assert ElementTree.fromstring(as_chai(card)).tag.endswith("AppliedModelCard")


@needs_cards
@pytest.mark.parametrize(
    ("kind", "file"), [("hti-1", "hti1_predictive_source_attributes.csv"), ("tripod-ai", "tripod_ai_items.csv")]
)
def test_the_lists_have_every_published_item(bare: Path, kind: str, file: str) -> None:
    with (CARDS / file).open(encoding="utf-8") as rows:
        published = [row[0] for row in csv.reader(rows)][1:]
    assert [item.name for item in read_model_card(bare, kind).items] == published


def test_word_and_json_hold_the_same_items(run: Path, tmp_path: Path) -> None:
    docx = pytest.importorskip("docx")
    card = read_model_card(run, "tripod-ai", model="m0")
    write_model_card(run, "tripod-ai", tmp_path / "t.docx", model="m0")
    document = docx.Document(io.BytesIO((tmp_path / "t.docx").read_bytes()))
    cells = [row.cells[1].text for table in document.tables for row in table.rows[1:]]
    assert len(cells) == len(card.items)
    for cell, item in zip(cells, card.items, strict=True):
        expected = [f"{each.text}  [{each.source}]" for each in item.statements]
        assert cell.split("\n") == [*expected, *(each.sentence for each in item.missing)]
    for table in document.tables:
        item, text = (column.width for column in table.columns)
        assert (text > 2 * item, table.rows[0].cells[0].width) == (True, item)
    write_model_card(run, "tripod-ai", tmp_path / "t.json", model="m0")
    assert len(json.loads((tmp_path / "t.json").read_text())["items"]) == len(card.items)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("intended_used: x\n", "line 1: unknown key `intended_used` in the facts file; did you mean `intended_use`"),
        ("version: 1\nevaluation_kind: elsewhere\n", "line 2: evaluation_kind is 'elsewhere'; choose one of internal"),
        ("evaluation_kind: {home: far}\n", "line 1: evaluation_kind is 'far'"),
        ("version: {a: 1}\n", "line 1: the fact `version` must be a list"),
        ("", "the file is empty"),
    ],
)
def test_mistakes_in_a_facts_file(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "facts.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(message)):
        read_facts(file)


def test_what_is_wrong_with_the_call(run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the run has 2 models, and a card is about one; add --model m0"):
        read_model_card(run, "chai")
    with pytest.raises(InputError, match="the run has no model 'm9'"):
        read_model_card(run, "chai", model="m9")
    with pytest.raises(ConfigError, match=r"a hti-1 card is not written as '\.xml'; end it in"):
        write_model_card(run, "hti-1", tmp_path / "a.xml", model="m0")
    with pytest.raises(InputError, match="holds no run"):
        read_model_card(tmp_path, "chai")


def test_an_empty_facts_file_is_written_and_changes_nothing(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "facts.yaml"
    write_facts(file)
    assert read_facts(file) == {}
    assert as_markdown(read_model_card(run, "markdown", model="m0", facts=file)) == as_markdown(
        read_model_card(run, "markdown", model="m0")
    )
    with pytest.raises(InputError, match="exists already"):
        write_facts(file)


def test_from_the_command_line(run: Path, tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    palpate = CommandLine(capsys, monkeypatch)
    ran = palpate("card", run, "--format", "hti-1", "--model", "m0", "--out", tmp_path / "a.json")
    assert (ran.code, "31 source attributes" in ran.out) == (0, True)
    assert palpate("card", run, "--format", "chai").code == 2


def test_two_pages_and_slides_for_a_committee(
    run: Path, bare: Path, tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    pytest.importorskip("reportlab")
    pptx = pytest.importorskip("pptx")
    palpate = CommandLine(capsys, monkeypatch)
    for folder in (run, bare):
        assert palpate("export", "pdf", folder, "--out", tmp_path / "a.pdf").code == 0
        content = (tmp_path / "a.pdf").read_bytes()
        assert content.startswith(b"%PDF")
        assert re.search(rb"/Count 2\b", content), "two pages"
        write_digest(folder, tmp_path / "b.pdf")
        assert (tmp_path / "b.pdf").read_bytes() == content, "the same run gives the same bytes"
        assert palpate("export", "pptx", folder, "--out", tmp_path / "a.pptx").code == 0
    write_digest(run, tmp_path / "a.pptx")
    slides = list(pptx.Presentation(str(tmp_path / "a.pptx")).slides)
    titles = [slide.shapes.title.text for slide in slides]
    assert (titles[0], titles[1]) == ("Deaths <after> stays", "Who was audited (Table 1)")
    assert any(shape.has_table for shape in slides[0].shapes), "the first slide is the answer"
    assert {"AUROC in each group", "Smooth calibration curve", "Limits"} <= set(titles)
    text = " ".join(
        cell.text for slide in slides for shape in slide.shapes if shape.has_table for cell in shape.table.iter_cells()
    )
    card = json.loads((run / "scorecard.json").read_text())
    assert all(row["asks"] in text for row in card)
    with pytest.raises(ConfigError, match="a digest is a"):
        write_digest(run, tmp_path / "a.doc")


def test_a_digest_without_subgroups_says_so(bare: Path) -> None:
    from palpate.report.committee import digest

    directory = RunDirectory(bare)
    made = digest(directory.read_manifest(), directory.read_results())
    assert any("no audit `subgroups`" in limit for limit in made.limits)


def test_every_panel_of_a_chart_is_drawn() -> None:
    """Five labels are five panels of calibration: all are on slides and on the page."""
    from palpate.report.committee import digest, panels_of
    from palpate.report.committee.pdf import as_pdf
    from palpate.report.committee.slides import as_pptx
    from palpate.results import Axis, Chart

    pptx = pytest.importorskip("pptx")
    pytest.importorskip("reportlab")
    names = [f"label {k}" for k in range(5)]
    title = "Smooth calibration curve"
    points = tuple(
        {"x": x, "y": x * (k + 1) / 5, "model": "m", "panel": name} for k, name in enumerate(names) for x in (0.0, 1.0)
    )
    axes = {"x": Axis(field="x", title="risk"), "y": Axis(field="y", title="observed")}
    about = {"title": title, "caption": "", "description": "Risks.", "series": "model", "facet": "panel"}
    chart = Chart(kind="line", data=points, **axes, **about)  # type: ignore[arg-type]
    made = digest({}, [AuditResult(audit="performance", estimates=estimates_frame([]), blocks=(chart,))])
    assert [each.title for each in made.pictures] == [f"{title}: {name}" for name in names]
    slides = [s for s in pptx.Presentation(io.BytesIO(as_pptx(made))).slides if title in s.shapes.title.text]
    assert [s.shapes.title.text for s in slides] == [title, *[f"{title} (continued)"] * 2]
    assert [sum(shape.shape_type == 13 for shape in slide.shapes) for slide in slides] == [2, 2, 1]
    assert [shape.text_frame.text for shape in slides[1].shapes if shape.has_text_frame][1] == "label 2"
    assert [(chart, len(own), left) for chart, own, left in panels_of(made.pictures, 4)] == [(title, 4, 1)]
    page = as_pdf(made)
    assert re.search(rb"/Count 2\b", page)
    assert page.count(b"/Subtype /Image") - page.count(b"/SMask") == 5


def test_a_forest_of_many_groups_is_drawn_by_attribute() -> None:
    from palpate.report.committee import digest
    from palpate.report.committee.panels import _parts
    from palpate.report.committee.pdf import as_pdf
    from palpate.report.committee.slides import as_pptx
    from palpate.results import Axis, Chart

    pptx = pytest.importorskip("pptx")
    pytest.importorskip("reportlab")
    names = [f"age={k}" for k in range(9)] + ["gender=F", "gender=M"]
    rows = tuple({"group": name, "value": 0.6, "low": 0.5, "high": 0.7 + k / 50} for k, name in enumerate(names))
    title = "AUROC in each group"
    axes = {"x": Axis(field="value", title="AUROC"), "y": Axis(field="group", title="Group")}
    chart = Chart(kind="forest", title=title, caption="", description="AUROC.", data=rows, **axes)
    made = digest({}, [AuditResult(audit="subgroups", estimates=estimates_frame([]), blocks=(chart,))])
    assert [each.title for each in made.pictures] == [f"{title}: age", f"{title}: gender"]
    assert made.pictures[0].height > made.pictures[1].height
    slides = [s for s in pptx.Presentation(io.BytesIO(as_pptx(made))).slides if title in s.shapes.title.text]
    assert [sum(shape.shape_type == 13 for shape in slide.shapes) for slide in slides] == [2]
    facets = ("stroke", "sepsis")
    many = tuple({**row, "model": f"m{k}", "label": label} for label in facets for row in rows[2:] for k in range(4))
    wide = chart.model_copy(update={"data": many, "series": "model", "facet": "label", "reference": 0.3})
    drawn = digest({}, [AuditResult(audit="subgroups", estimates=estimates_frame([]), blocks=(wide,))]).pictures
    parts = ("age, 1 of 2", "age, 2 of 2", "gender")
    assert [each.title for each in drawn] == [f"{title}: {label}, {part}" for label in facets for part in parts]
    assert max(each.height / each.width for each in drawn) < 1.5, "its letters can be read"
    assert {part.chart.x.low for part in _parts(wide)} == {0.3}, "the reference line is on the axis"
    page = as_pdf(digest({}, [AuditResult(audit="subgroups", estimates=estimates_frame([]), blocks=(wide,))]))
    assert re.search(rb"/Count 2\b", page)
    few = chart.model_copy(update={"data": rows[-4:]})
    short = digest({}, [AuditResult(audit="subgroups", estimates=estimates_frame([]), blocks=(few,))])
    assert [each.title for each in short.pictures] == [title]


def laid_out(slides: Any, room: tuple[int, int]) -> None:
    """Nothing is beyond a slide or on its title, and no letters are too small to be read."""
    for slide in slides:
        title, others = slide.shapes.title, [each for each in slide.shapes if each is not slide.shapes.title]
        for shape in slide.shapes:
            assert 0 <= shape.left < shape.left + shape.width <= room[0]
            assert 0 <= shape.top < shape.top + shape.height <= room[1]
        frames = [each.text_frame for each in slide.shapes if each.has_text_frame]
        for shape in others:
            assert shape._element is title._element or shape.top >= title.top + title.height
            frames += [cell.text_frame for cell in shape.table.iter_cells()] if shape.has_table else []
        runs = [run for frame in frames for paragraph in frame.paragraphs for run in paragraph.runs]
        sizes = [paragraph.font.size for frame in frames for paragraph in frame.paragraphs if paragraph.text]
        sizes = [size for size in [*sizes, *(run.font.size for run in runs)] if size is not None]
        assert sizes
        assert min(size.pt for size in sizes) >= 10


def test_slides_fit_however_much_there_is_to_tell(run: Path) -> None:
    from palpate.report.committee import Grid, digest
    from palpate.report.committee.slides import as_pptx

    pptx = pytest.importorskip("pptx")
    directory = RunDirectory(run)
    made = digest(directory.read_manifest(), directory.read_results())
    assert made.scorecard is not None
    many = made.scorecard._replace(questions=made.scorecard.questions * 6, choice="A choice. " * 25)
    grid = Grid("Who", ("Characteristic", "Value", "test"), (("readmitted_within_thirty_days" * 4, "x", "1"),) * 32, 7)
    for one in (made, made._replace(scorecard=many, table_one=grid, title="Long " * 60), made._replace(scorecard=None)):
        show = pptx.Presentation(io.BytesIO(as_pptx(one)))
        laid_out(show.slides, (show.slide_width, show.slide_height))
        texts = [
            cell.text for s in show.slides for each in s.shapes if each.has_table for cell in each.table.iter_cells()
        ]
        asked = [each.asks for each in one.scorecard.questions] if one.scorecard else []
        assert [text for text in texts if text in asked] == asked, "no question is lost between slides"
        boxes = " ".join(each.text_frame.text for s in show.slides for each in s.shapes if each.has_text_frame)
        assert ("7 more rows are in the report." in boxes) == (one.table_one is grid)
        assert ("No audit of this run answers" in boxes) == (one.scorecard is None)


def test_names_with_signs_of_markup_are_drawn() -> None:
    from palpate.report.committee import digest
    from palpate.report.committee.pdf import as_pdf
    from palpate.results import Axis, Chart

    pytest.importorskip("reportlab")
    rows = tuple({"x": x, "y": x, "model": name} for name in ("a <b", "R&D </font>") for x in (0.0, 1.0))
    axes = {"x": Axis(field="x", title="risk"), "y": Axis(field="y", title="observed")}
    about = {"title": "Smooth calibration curve", "caption": "", "description": "Risks.", "series": "model"}
    chart = Chart(kind="line", data=rows, **axes, **about)  # type: ignore[arg-type]
    made = digest({}, [AuditResult(audit="performance", estimates=estimates_frame([]), blocks=(chart,))])
    assert as_pdf(made).startswith(b"%PDF")


def test_a_page_has_as_many_panels_as_can_be_read() -> None:
    from palpate.report.committee.panels import Picture
    from palpate.report.committee.pdf import _fitting, _height, _on_pages

    def panel(chart: str, height: int) -> Picture:
        return Picture(chart, b"", 100, height, (), "", chart)

    tall, flat = panel("tall", 120), panel("flat", 50)
    charts = [("tall", [tall] * 3, 1), ("flat", [flat] * 3, 0)]
    room = _height(tall) + 0.1
    assert 2 * _height(flat) < room < 3 * _height(flat)
    assert _fitting(charts, (-1.0, room)) == [("tall", [tall], 3), ("flat", [flat] * 2, 1)]
    first = _fitting(charts[::-1], (_height(flat) + 0.1, room))
    assert first == [("flat", [flat] * 2, 1), ("tall", [tall] * 2, 2)], "the first page has room for two flat ones"
    assert _fitting(charts, (0.0, 99.0)) == charts
    assert [len(own) for _, own, _ in _fitting(charts, (0.0, 0.0))] == [1, 1], "every chart is there"
    assert _on_pages([flat, flat, flat, tall], 2.2 * _height(flat)) == ([flat] * 3, [tall])
    assert _on_pages([tall, flat], 2 * _height(flat)) == ([], [tall, flat])


def test_the_worst_panels_come_first_and_groups_without_a_number_are_not_drawn() -> None:
    from palpate.report.committee import digest
    from palpate.results import Axis, Chart
    from palpate.results.verdicts import Answer

    axes = {"x": Axis(field="value", title="AUROC"), "y": Axis(field="group", title="Group")}
    groups = [f"age={k}" for k in range(9)] + ["sex=F", "sex=M"]
    rows = tuple(
        {"group": group, "value": 0.6, "low": 0.5, "high": 0.9 - (group == "sex=F") * 0.2, "label": label}
        for label in ("stroke", "sepsis", "falls")
        for group in groups
    )
    empty = ({"group": "age=9", "value": None, "low": None, "high": None, "label": "stroke"},)
    about = {"title": "AUROC in each group", "caption": "", "description": "AUROC.", "facet": "label"}
    forest = Chart(kind="forest", data=rows + empty, **axes, **about)  # type: ignore[arg-type]
    points = tuple({"x": x, "y": x, "panel": f"{k} · c"} for k in ("stroke", "sepsis", "falls") for x in (0.0, 1.0))
    axes = {"x": Axis(field="x", title="risk"), "y": Axis(field="y", title="observed")}
    told = {"title": "Smooth calibration curve", "caption": "", "description": "Risks.", "facet": "panel"}
    curve = Chart(kind="line", data=points, **axes, **told)  # type: ignore[arg-type]

    def answer(verdict: str, label: str) -> Answer:
        return Answer(question="q", asks="?", model="m", verdict=verdict, metric="x", label=label)  # type: ignore[arg-type]

    def drawn(audit: str, chart: Chart, *answers: Answer) -> list[str]:
        result = AuditResult(audit=audit, estimates=estimates_frame([]), blocks=(chart,), answers=answers)
        return [each.title.partition(": ")[2] for each in digest({}, [result]).pictures]

    named = (answer("unsettled", "stroke"), answer("concern", "against b for 'falls'"))
    assert drawn("performance", curve, *named) == ["falls · c", "stroke · c", "sepsis · c"]
    said = drawn("subgroups", forest, answer("concern", "age=3, 'falls'"), answer("caution", "sex=M, 'sepsis'"))
    assert said == ["falls, age", "falls, sex", "sepsis, sex", "sepsis, age", "stroke, sex", "stroke, age"]
    result = AuditResult(audit="subgroups", estimates=estimates_frame([]), blocks=(forest,))
    tall = {each.title.partition(": ")[2]: each.height for each in digest({}, [result]).pictures}
    assert tall["stroke, age"] == tall["falls, age"], "age=9 has no number"


def test_all_limits_are_on_slides_and_the_first_ones_on_the_page() -> None:
    from palpate.report.committee import digest
    from palpate.report.committee.pdf import _shown
    from palpate.report.committee.slides import as_pptx

    pptx = pytest.importorskip("pptx")
    limits = tuple(f"Limit {k}: {'nobody knows this of the hospital ' * (k % 7)}" for k in range(40))
    made = digest({}, [])._replace(limits=limits)
    show = pptx.Presentation(io.BytesIO(as_pptx(made)))
    slides = [slide for slide in show.slides if slide.shapes.title.text.startswith("Limits")]
    assert len(slides) > 1
    laid_out(slides, (show.slide_width, show.slide_height))
    boxes = [shape for slide in slides for shape in slide.shapes if shape != slide.shapes.title]
    told = [paragraph.text for box in boxes if box.has_text_frame for paragraph in box.text_frame.paragraphs]
    assert [line.removeprefix("• ") for line in told if line.startswith("• ")] == list(limits)
    for box in boxes:  # 0.12 inches a letter of 16 points is more than any font takes on average
        lines = sum(-(-len(paragraph.text) * 0.12 // 12.1) for paragraph in box.text_frame.paragraphs)
        assert lines * 16 * 1.2 / 72 <= 5.6
    assert _shown(limits)[-1] == "32 more limits are in the report and the slides."
    assert _shown(limits[:9])[-1] == "1 more limit is in the report and the slides."
    assert _shown(limits[:8]) == list(limits[:8])


def _item(name: str, *texts: str, open_keys: int = 0) -> Item:
    missing = tuple(Unwritten(f"k{k}", "the developer", "what") for k in range(open_keys))
    return Item(name, "", "", tuple(Statement(text, "results") for text in texts), missing)


def test_how_full_a_card_is_reads_as_one_would_say_it() -> None:
    def said(kind: str, *items: Item) -> str:
        return Card(kind, "m", {}, items).summary

    full, part, empty = _item("1a", "AUROC 0.8"), _item("1b", "AUROC 0.8", open_keys=2), _item("2", open_keys=1)
    silent = _item("3", "Not measured: this run has no audit.")
    assert said("chai", full, full) == "All of its 2 fields are complete."
    assert said("hti-1", full, part, part, empty) == (
        "Of its 4 source attributes, 1 is complete, 2 are filled in part and 1 is still to be written."
    )
    assert said("tripod-ai", full, part, empty, silent) == (
        "Of its 4 entries (3 items), 1 is complete, 1 is filled in part, 1 is still to be written "
        "and 1 was not measured in this run."
    )
    assert said("markdown", empty, empty) == "None of its 2 fields is complete: 2 are still to be written."
    assert said("markdown", part) == "Its only field is not complete: 1 is filled in part."


@pytest.mark.parametrize(("kind", "n", "what"), [("chai", 41, "fields"), ("hti-1", 31, "source attributes")])
def test_the_command_says_how_full_the_card_is(
    kind: str, n: int, what: str, bare: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    card = read_model_card(bare, kind)
    full = [item for item in card.items if not item.missing]
    silent = [item for item in full if all(each.text.startswith("Not measured") for each in item.statements)]
    empty = [item for item in card.items if item.missing and not item.statements]
    told = CommandLine(capsys, monkeypatch)("card", bare, "--format", kind, "--out", bare / "card.json").out
    assert f" its {n} {what}" in told
    for count in (len(full) - len(silent), len(empty), len(silent)):
        assert not count or f" {count} " in told
    assert "--write-facts" in told


def test_names_of_models_are_broken_where_a_reader_would() -> None:
    from palpate.report.committee.pdf import broken

    assert broken("bert-large-discharge-summaries", 20, len) == "bert-large-\ndischarge-summaries"
    assert broken("logistic regression", 12, len) == "logistic\nregression"
    assert broken("vendor", 3, len) == "vendor"
    assert broken("short-name", 20, len) == "short-name"
    assert broken("a_b/c.d v2", 4, len) == "a_b/\nc.d\nv2"


def test_a_sign_stays_with_its_word(run: Path) -> None:
    from palpate.report.committee import MARKS, digest, meanings_of

    directory = RunDirectory(run)
    view = digest(directory.read_manifest(), directory.read_results()).scorecard
    assert view is not None
    told = meanings_of(view)
    assert all(f"{MARKS[name]}\N{NO-BREAK SPACE}{word}" in told for name, word, _ in view.legend)
