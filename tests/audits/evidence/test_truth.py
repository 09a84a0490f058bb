"""Known truth: the synthetic hospital's own evidence, and a linear torch network whose evidence has a closed form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from palpate.audits.evidence.asking import occlusion_attributions
from palpate.cases.edits import Inputs
from palpate.commands.build import make_hospital
from palpate.data.cohorts.mdace import MdaceOptions, build_mdace
from palpate.models import Model, Probabilities
from palpate.results import Asked, Attributions
from palpate.stats.evidence import tokenise
from palpate.testing import KeywordModel
from tests.audits.evidence.evidence_charts import CODES, Watched, audit, charts, notes_table, quick, row, table, value


def test_on_the_hospital_the_oracle_is_exactly_1_and_random_evidence_is_at_chance(tmp_path: Path) -> None:
    make_hospital(tmp_path / "hospital", n_patients=120, seed=2, site="a", images=False)
    built = build_mdace(tmp_path / "hospital", options=MdaceOptions(notes="all"))
    cohort, gold = built.cohort, built.tables["evidence"]
    rng = np.random.default_rng(4)
    text_of = dict(zip(cohort.cases["case_id"], cohort.texts, strict=True))
    guessed = []
    for case, label in gold.select("case_id", "label").iter_rows():
        words = tokenise([text_of[case]])
        k = int(rng.integers(words.begin.size))
        guessed.append((case, label, int(words.begin[k]), int(words.end[k])))
    schema = {name: gold.schema[name] for name in ("case_id", "label", "start", "end")}
    blind = {name: KeywordModel({}, bias=0.01 * k, labels=cohort.labels) for k, name in enumerate(("oracle", "random"))}
    evidence = quick(
        gold,
        notes=notes_table(built.tables["notes"]),
        predicted={"oracle": table(gold), "random": table(pl.DataFrame(guessed, schema=schema, orient="row"))},
        faithfulness=False,
    )
    result = audit(evidence, cohort, tmp_path / "audit", **blind)
    scores = result.estimates.filter(
        pl.col("model") == "oracle",
        pl.col("group") != "random evidence",
        pl.col("reference").is_null(),
        pl.col("metric").str.contains("_(?:precision|recall|f1)(?:_by_code)?$"),
        ~pl.col("metric").str.starts_with("chance"),
    )
    assert {"all", "length=1 word", "category=Discharge summary"} <= set(scores["group"])
    assert set(scores["value"].drop_nulls()) == {1.0}
    found = row(result, "token_f1", model="random")
    chance = value(result, "chance_token_f1", model="random")
    assert found["low"] <= chance <= found["high"]
    drawn = row(result, "token_f1", model="random", group="random evidence")
    assert drawn["low"] <= chance <= drawn["high"] < 0.05
    assert not row(result, "token_f1", model="random", reference="random evidence")["significant"]


class LinearTorch(Model):
    """sigmoid(bias + the sum of a vector for each word times a vector for each label), in torch."""

    explains = ("gradient_x_input", "integrated_gradients")

    def __init__(self) -> None:
        import torch

        self.labels, self.fingerprint = CODES, "linear-torch"
        self._words: dict[str, int] = {}
        torch.manual_seed(5)
        self._embedding = torch.nn.Embedding(200, 4, padding_idx=0).double()
        self._line = torch.nn.Linear(4, len(CODES)).double()

    def weight(self, word: str, label: int) -> float:
        """What a word adds to the logit of a label."""
        vector = self._embedding.weight[self._words[word.lower()]]
        return float((vector @ self._line.weight[label]).detach())

    def predict(self, inputs: Inputs) -> Probabilities:
        import torch

        with torch.inference_mode():
            rows = [self._line(self._embedding(torch.tensor([*ids, 0])).sum(0)) for ids, _ in self._read(inputs.texts)]
        return np.asarray(torch.sigmoid(torch.stack(rows)).numpy())

    def explain(self, inputs: Inputs, asked: Asked, way: str) -> Attributions:
        import torch

        from palpate.models.text.gradients import attributions_of, token_scores

        def logit(tokens: Any, mask: Any, label: Any) -> Any:
            bag = (self._embedding(tokens) * mask[:, :, None]).sum(1)
            return self._line(bag)[torch.arange(len(label)), label]

        read = self._read(inputs.texts)
        ids = [read[r][0] for r in asked.row.tolist()]
        scores = token_scores(logit, self._embedding, ids, asked.label, way=way, n_steps=8)
        return attributions_of(asked, [read[r][1] for r in asked.row.tolist()], scores)

    def _read(self, texts: Any) -> list[tuple[list[int], list[tuple[int, int]]]]:
        read = []
        for text in texts:
            words = tokenise([text])
            places = list(zip(words.begin.tolist(), words.end.tolist(), strict=True))
            ids = [self._words.setdefault(text[i:j].lower(), len(self._words) + 1) for i, j in places]
            read.append((ids, places))
        return read


@pytest.mark.parametrize("way", ["gradient_x_input", "integrated_gradients", "occlusion"])
def test_gradients_and_occlusion_are_the_closed_form_of_a_linear_torch_model(tmp_path: Path, way: str) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("captum")
    cohort, gold = charts(16, n_words=12)
    model = LinearTorch()
    evidence = Watched(gold=table(gold), faithfulness=False, explain=way, segments=64)
    audit(evidence, cohort, tmp_path, toy=model)
    ((plan, predictions),) = Watched.seen
    answers = predictions["toy"]
    if way == "occlusion":
        found = occlusion_attributions(plan.memory, "toy", answers, evidence._asking)
    else:
        assert answers.attributions is not None
        found = answers.attributions
    place = {int(r): k for k, r in enumerate(plan.memory.charts.rows.tolist())}
    assert len(found.row) > 20
    for r, label, start, end, score in zip(*(part.tolist() for part in found), strict=True):
        weight = model.weight(cohort.texts[r][start:end], label)
        p = answers.p[place[r], label]
        without = 1 / (1 + np.exp(weight - np.log(p / (1 - p))))
        assert score == pytest.approx(p - without if way == "occlusion" else weight, abs=1e-7)
