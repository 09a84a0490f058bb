"""Words for a slot from a masked model: against asking for one sentence at a time, on a tiny checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palpate.cli import app
from palpate.commands.suggestions import PER_SENTENCE, suggest_values, write_suggestions
from palpate.errors import ConfigError
from palpate.perturb.suites import Suite, read_suite_yaml
from palpate.perturb.suites.lexicons import slot_values
from tests.models.tiny_checkpoints import checkpoint
from tests.perturb.suites.small import HEAD, write

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from typer.testing import CliRunner  # noqa: E402

TEST = """
capabilities:
  - id: negation
    tests:
      - id: negated
        type: MFT
        templates:
          - {id: t1, label: no ADE, text: "I [took|tried] {drug} without {effect}."}
          - {id: t2, label: no ADE, text: "The patient has no {effect} and no fever."}
          - {id: t3, label: no ADE, text: "The patient denies pain."}
"""


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoint(tmp_path_factory.mktemp("bert"), task="MaskedLM", max_length=64)


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return read_suite_yaml(write(tmp_path, HEAD.replace("nausea", "fever") + TEST))


def test_words_are_those_that_the_model_proposes_for_each_sentence(suite: Suite, bert: Path) -> None:
    """The slow way: the text with the mask in it, one sentence after the other, through the library's own calls."""
    found = suggest_values(suite, "effect", bert, n=5, sentences=16)
    tokenizer = transformers.AutoTokenizer.from_pretrained(bert)
    network = transformers.AutoModelForMaskedLM.from_pretrained(bert).eval()
    words = {k: w for w, k in tokenizer.get_vocab().items() if w.isalpha() and w.isascii() and len(w) > 1}
    all_cases = [case for case in suite.cases(range(suite.size())) if any(s.slot == "effect" for s in case.slots)]
    assert len(all_cases) == 14  # fewer than asked for: each sentence is asked once
    counts: dict[str, int] = {}
    for case in all_cases:
        (filled,) = (s for s in case.slots if s.slot == "effect")
        text = case.text[: filled.start] + tokenizer.mask_token + case.text[filled.end :]
        ids = tokenizer(text, return_tensors="pt")
        at = int((ids["input_ids"][0] == tokenizer.mask_token_id).nonzero()[0])
        with torch.inference_mode():
            logits = network(**ids).logits[0, at].numpy()
        ranked = sorted(words, key=lambda k: -logits[k])
        proposed: list[str] = []
        for k in ranked:
            word = words[k].lower()
            if word not in ("fever", "headaches", *proposed):
                proposed.append(word)
        for word in proposed[:PER_SENTENCE]:
            counts[word] = counts.get(word, 0) + 1
    assert {each.word.lower(): round(14 * each.share) for each in found} == {
        each.word.lower(): counts[each.word.lower()] for each in found
    }
    assert min(round(14 * each.share) for each in found) >= sorted(counts.values(), reverse=True)[4]
    assert all(each.word in each.example for each in found)


def test_words_that_the_lexicon_has_are_not_proposed_and_the_file_fills_the_slot(
    suite: Suite, bert: Path, tmp_path: Path
) -> None:
    found = suggest_values(suite, "effect", bert, n=40, sentences=16)
    assert not {"fever", "headaches"} & {each.word.lower() for each in found}
    write_suggestions(found[:3], "effect", tmp_path / "words.txt")
    filled = suite.with_slots({"effect": slot_values(tmp_path / "words.txt")})
    assert filled.lexicons["effect"].values == tuple(each.word for each in found[:3])
    assert filled.sample(5, np.random.default_rng(0)).texts


def test_unknown_slots_and_slots_of_no_sentence_are_told(suite: Suite, bert: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no slot 'efect'; its slots are: drug, effect"):
        suggest_values(suite, "efect", bert)
    unused = read_suite_yaml(write(tmp_path, HEAD + "  dose: [twice]\n" + TEST))
    with pytest.raises(ConfigError, match="no sentence of suite 'small' has the slot 'dose'"):
        suggest_values(unused, "dose", bert)


def test_the_command_shows_and_writes_words(suite: Suite, bert: Path, tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    given = ["suite", "suggest", str(suite.file), "--slot", "effect", "--model", str(bert), "-n", "4"]
    ran = CliRunner().invoke(app, [*given, "--out", str(words)])
    assert ran.exit_code == 0, ran.output
    assert "of the sentences" in ran.output
    assert len(words.read_text(encoding="utf-8").splitlines()) == 5
    before = words.read_text(encoding="utf-8")
    ran = CliRunner().invoke(app, [*given, "--out", str(words), "--device", "CPU", "--dtype", "float32"])
    assert ran.exit_code == 0, ran.output
    assert words.read_text(encoding="utf-8") == before
    with pytest.raises(ConfigError, match="option 'device' of suite suggest: 'gpu' is not auto, cpu, cuda"):
        CliRunner().invoke(app, [*given, "--device", "gpu"], catch_exceptions=False)


def test_a_slot_of_a_table_needs_no_words_to_get_some(bert: Path, tmp_path: Path) -> None:
    """Who asks for words has none yet: `{where}` is no slot that palpate fills."""
    table, words = tmp_path / "theirs.csv", tmp_path / "words.txt"
    table.write_text("capability,label,template\nplace,1,The patient has pain in the {where}.\n", encoding="utf-8")
    given = ["suite", "suggest", str(table), "--slot", "where", "--model", str(bert), "-n", "4"]
    ran = CliRunner().invoke(app, [*given, "--out", str(words)])
    assert ran.exit_code == 0, ran.output
    assert "___" not in ran.output
    proposed = words.read_text(encoding="utf-8").splitlines()[1:]
    assert len(proposed) == 4
    with pytest.raises(ConfigError, match=r"unknown slot '\{where\}'"):
        CliRunner().invoke(
            app, ["suite", "suggest", str(table), "--slot", "wear", "--model", str(bert)], catch_exceptions=False
        )


def test_the_model_runs_in_16_bit(suite: Suite, bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from palpate.models import devices

    placed, place = [], devices.Device.place

    def noted(self: devices.Device, network: Any) -> Any:
        placed.append(str(self))
        return place(self, network)

    monkeypatch.setattr(devices.Device, "place", noted)
    options = devices.DeviceOptions(device="cpu", dtype="bfloat16")
    assert suggest_values(suite, "effect", bert, n=5, sentences=8, options=options)
    assert placed == ["cpu, bfloat16"]
