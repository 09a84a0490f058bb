"""Cards of runs with several cohorts: what was measured where, and which facts belong to an external validation."""

from __future__ import annotations

import io
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from palpate.commands.cards import read_model_card
from palpate.errors import InputError
from palpate.report.cards.entries import Item, Statement
from palpate.report.cards.formats import as_markdown
from palpate.report.cards.items import Card
from palpate.run.directory import RunDirectory

KINDS = "evaluation_kind: {home: internal, away: external}\n"


def audited(folder: Path, subgroups: dict[str, Any], *, models: tuple[str, ...] = ("m",)) -> Path:
    from palpate.commands.audit import audit

    rng = np.random.default_rng(1)
    died = rng.random(200) < 0.4
    cohorts = {}
    for name in ("home", "away"):
        cases = {"id": [f"{name}{k}" for k in range(200)], "died": died.astype(int), "sex": rng.choice(["f", "m"], 200)}
        pl.DataFrame(cases).write_csv(folder / f"{name}.csv")
        cohorts[name] = {"file": f"{name}.csv", "case": "id", "labels": ["died"], "attributes": ["sex"]}
    both = [f"{name}{k}" for name in cohorts for k in range(200)]
    scores = np.clip(0.3 + 0.2 * np.tile(died, 2) + rng.normal(0, 0.2, 400), 0, 1)
    pl.DataFrame({"id": both, "died": scores}).write_csv(folder / "scores.csv")
    audits = {"performance": {"n_replicates": 100}, "subgroups": {"n_replicates": 100, **subgroups}}
    config = {"cohorts": cohorts, "models": dict.fromkeys(models, "predictions:scores.csv"), "audits": audits}
    (folder / "audit.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    audit(folder / "audit.yaml", out=folder / "run")
    return folder / "run"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return audited(tmp_path_factory.mktemp("two"), {"by": ["sex"]})


def items(run: Path, facts: str, kind: str = "hti-1") -> dict[str, Item]:
    file = run.parent / "facts.yaml"
    file.write_text(facts)
    return {item.name: item for item in read_model_card(run, kind, facts=file).items}


def test_groups_are_of_the_first_cohort_unless_another_is_chosen(run: Path) -> None:
    found = items(run, KINDS)
    measured = [each.number for each in found["22"].statements if each.number]
    assert {each["group"] for each in measured} >= {"sex=f", "sex=m"}, "home is internal, and its groups were measured"
    assert [each.text for each in found["24"].statements] == [
        "Not measured: the audit `subgroups` is about home alone (its option `cohort`)."
    ]


def test_groups_of_all_cohorts_belong_to_none_of_them_alone(tmp_path: Path) -> None:
    found = items(audited(tmp_path, {"by": ["sex", "cohort"]}), KINDS)
    for name, where in (("22", "home"), ("24", "away")):
        assert found[name].text.startswith(f"Groups were measured in home and away together, not in {where} alone")


def test_a_card_says_in_which_cohort_an_answer_was_measured(run: Path) -> None:
    said = items(run, "version: 1\n", kind="chai")["KeyMetrics/FairnessEquity"].text
    assert "measured in cohort 'home' alone" in said


FACTS = "data_source: Two wards.\nevaluator: Us.\ncalculation: Nightly.\nrepresentativeness: Of training.\n"


@pytest.mark.parametrize("kind", ["internal", "local"])
def test_facts_of_another_evaluation_are_not_told_as_an_external_one(kind: str, run: Path) -> None:
    found = items(run, f"{FACTS}evaluation_kind: {kind}\n")
    for name in ("17", "18", "19", "20"):
        assert found[name].text.startswith("Not measured in this run: no cohort is external data.")
        assert [each.key for each in found[name].missing] == ["external_validation"]
    told = items(run, f"evaluation_kind: {kind}\nexternal_validation: By others in 2020.\n")
    assert told["18"].statements[1].text == "By others in 2020."
    assert not told["18"].missing


def test_what_nobody_has_called_external_is_not_told_as_such(run: Path) -> None:
    found = items(run, FACTS)
    for name in ("17", "18", "19", "20"):
        assert "nobody has said whether its cases are external data" in found[name].text
        assert "evaluation_kind" in [each.key for each in found[name].missing]
        assert "palpate" not in found[name].statements[0].text


def test_facts_of_an_external_validation(run: Path) -> None:
    found = items(run, FACTS + KINDS)
    assert [each.text for each in found["17"].statements][1:] == ["Two wards."]
    assert found["18"].text == "Us."
    assert "Of training." not in found["19"].text, "it is about the training data"
    assert found["20"].text.endswith("Nightly.")
    assert found["20"].text.startswith("Measured with palpate")


def test_the_hint_is_a_command_that_works(tmp_path: Path) -> None:
    run = audited(tmp_path, {"by": ["sex"]}, models=("vendor X", "vendor Y"))
    with pytest.raises(InputError, match="add --model 'vendor X'"):
        read_model_card(run, "chai")


@pytest.mark.parametrize("n_panels", [1, 2])
@pytest.mark.parametrize("label", ["short", "readmission within thirty days of discharge, planned ones left out, " * 4])
def test_captions_of_charts_stay_on_the_slide(label: str, n_panels: int, run: Path) -> None:
    """A narrow chart stands in the middle of its column, and its caption does not begin there with the whole width."""
    from palpate.report.committee import digest
    from palpate.report.committee.slides import as_pptx

    pptx = pytest.importorskip("pptx")
    made = digest(RunDirectory(run).read_manifest(), RunDirectory(run).read_results())
    forest = next(each for each in made.pictures if each.chart == "AUROC in each group")
    narrow = forest._replace(title=f"{forest.chart}: {label}", width=forest.height // 3)
    models = tuple(("#0055aa", f"model {k} of the department of intensive care") for k in range(6))
    pictures = (narrow._replace(legend=models),) * n_panels
    show = pptx.Presentation(io.BytesIO(as_pptx(made._replace(pictures=pictures))))
    for slide in show.slides:
        for shape in slide.shapes:
            assert shape.left + shape.width <= show.slide_width
            if shape.has_text_frame and shape.text_frame.text.startswith((label[:20], "■")):
                inches = shape.width / 914400
                sizes = [
                    each.font.size or shape.text_frame.paragraphs[0].font.size
                    for each in shape.text_frame.paragraphs[0].runs
                ]
                points = max(size.pt for size in sizes)
                n_lines = -(-len(shape.text_frame.text) // int(inches * 120 / points))
                assert n_lines * points * 1.3 / 72 <= shape.height / 914400 + 0.1


class Words(HTMLParser):
    """The text of list items and headings, as a browser shows it."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def shown(card: Card) -> Words:
    words = Words()
    words.feed(MarkdownIt("commonmark").enable("table").enable("strikethrough").render(as_markdown(card)))
    return words


WRITTEN = st.text(st.sampled_from("ab1 .-+*_#>~`[]()!|<&\\=:"), min_size=1, max_size=12).map(str.strip).filter(bool)


@given(WRITTEN)
@settings(max_examples=400, deadline=None)
def test_markdown_shows_what_was_written(text: str) -> None:
    item = Item("1", "What", "part", (Statement(text, "facts.yaml: x"),), ())
    words = shown(Card("hti-1", "m", {"title": text, "id": "i"}, (item,)))
    squeezed = " ".join(words.text.split())
    assert " ".join(text.split()) + " facts.yaml: x" in squeezed
    assert " ".join(text.split()) + ", run i" in squeezed
    assert set(words.tags) == {"h1", "h2", "h3", "p", "em", "ul", "li", "sub"}
    assert words.tags.count("li") == 1
