"""Checkpoints that cut notes into chunks by themselves, against a direct computation from their weights."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from palpate.cases.edits import Inputs
from palpate.errors import ConfigError
from palpate.models import ModelSpec, load_here, load_model
from palpate.results import Asked
from palpate.testing import model_contract as contract
from tests.models.chunked_checkpoints import chunked_checkpoint, direct
from tests.models.tiny_checkpoints import checkpoint, note

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

TAKES = pytest.mark.parametrize("takes", ["chunks", "filled", "rows"])
LENGTHS = (2, 300, 0, 9, 60, 61, 62, 150, 1)


@pytest.fixture(scope="module")
def notes() -> list[str]:
    rng = np.random.default_rng(3)
    return [*(note(rng, n) for n in LENGTHS), "🙂 naïve", " \n "]


def load(path: Path, **options: Any) -> Any:
    return load_model(ModelSpec("m", f"hf:{path}", options={"trust": True, "threads": 1, **options}))


@TAKES
def test_a_note_is_read_whole_and_predicted_as_if_it_were_alone(tmp_path: Path, takes: str, notes: list[str]) -> None:
    path = chunked_checkpoint(tmp_path, takes=takes)
    model = load(path, chunk=16)
    wanted = [expit(direct(path, text, extra_chunk=takes == "rows")[0]) for text in notes]
    np.testing.assert_allclose(model.predict(Inputs.from_texts(notes)), wanted, atol=1e-6)
    assert model.window is None
    assert model.visible_ends(notes).tolist() == [len(text) + 1 for text in notes]


@TAKES
def test_explains_by_its_own_attention_token_by_token(tmp_path: Path, takes: str, notes: list[str]) -> None:
    path = chunked_checkpoint(tmp_path, takes=takes)
    model = load(path, chunk=16)
    assert model.explains[0] == "attention"
    rows = np.repeat(np.arange(len(notes)), 3)
    found = model.explain(Inputs.from_texts(notes), Asked(rows, np.tile([0, 1, 2], len(notes))), "attention")
    for row, text in enumerate(notes):
        _, attention, offsets = direct(path, text, extra_chunk=takes == "rows")
        np.testing.assert_allclose(attention.sum(1), 1)
        for label in range(3):
            mine = (found.row == row) & (found.label == label)
            wanted: dict[int, float] = {}
            for (start, end), weight in zip(offsets, attention[label], strict=False):
                if end > start:  # the tokens of an emoji share its place
                    wanted[start] = wanted.get(start, 0.0) + weight
            assert found.start[mine].tolist() == list(wanted)
            np.testing.assert_allclose(found.score[mine], list(wanted.values()), atol=1e-6)
            special = sum(w for (a, b), w in zip(offsets, attention[label], strict=False) if a == b)
            padding = attention[label][len(offsets) :].sum()
            assert found.score[mine].sum() == pytest.approx(1 - special - padding, abs=1e-6)


@TAKES
def test_gradients_are_followed_across_chunks(tmp_path: Path, takes: str, notes: list[str]) -> None:
    """Integrated gradients sum to the difference of two logits, and a token's gradient is the one torch gives."""
    path = chunked_checkpoint(tmp_path, takes=takes)
    model = load(path, chunk=16, steps=200)
    text = notes[4]
    for way in ("integrated_gradients", "gradient_x_input", "deeplift", "attingrad"):
        assert way in model.explains
    asked = Asked(np.array([0]), np.array([1]))
    ids = model._windows.encode([text]).ids[0]
    empty = model._without_text(len(ids))
    whole, without = (direct_logit(model, tokens, 1) for tokens in (ids, empty))
    scores = model._scores([ids], [1], "integrated_gradients")[0]
    assert scores.sum() == pytest.approx(whole - without, abs=0.02 * max(1, abs(whole - without)))
    np.testing.assert_allclose(model._scores([ids], [1], "gradient_x_input")[0], by_hand(model, ids, 1), atol=1e-5)
    found = model.explain(Inputs.from_texts([text]), asked, "gradient_x_input")
    assert found.start[0] == 0
    assert found.end[-1] == len(text.rstrip())


def direct_logit(model: Any, ids: list[int], label: int) -> float:
    with torch.inference_mode():
        output = model._network(**model._passes.tensors([ids]))
    return float(output.logits[0, label])


def by_hand(model: Any, ids: list[int], label: int) -> Any:
    """Gradient times embedding, at the output of the word embedding."""
    kept = []
    embedding = model._network.get_input_embeddings()

    def keep(_: Any, __: Any, out: Any) -> None:
        out.retain_grad()
        kept.append(out)

    hook = embedding.register_forward_hook(keep)
    embedding.weight.requires_grad_(True)
    model._network(**model._passes.tensors([ids])).logits[0, label].backward()
    hook.remove()
    scores = (kept[0] * kept[0].grad).sum(-1).reshape(-1)
    return scores[: len(ids)].detach().double().numpy()


def test_max_tokens_beyond_the_positions_is_what_it_reads(tmp_path: Path, notes: list[str]) -> None:
    path = chunked_checkpoint(tmp_path)
    model = load(path, chunk=16, max_tokens=100)
    assert model.window == "the first 100 tokens"
    ends = model.visible_ends(notes)
    cut = [text[: end - 1] for text, end in zip(notes, ends, strict=True)]
    np.testing.assert_array_equal(model.predict(Inputs.from_texts(cut)), model.predict(Inputs.from_texts(notes)))
    assert ends[1] < len(notes[1])
    assert ends[4] > 0
    contract.check_visible_ends(model)


@pytest.mark.parametrize(
    ("said", "window"),
    [
        ({"chunk_size": 16}, None),
        ({"chunk_size": 16, "max_seq_length": 96}, "the first 96 tokens"),
        ({"chunk_size": 16, "num_chunks": 5}, "the first 80 tokens"),
        ({"chunk_size": 16, "max_seq_length": 4}, None),
    ],
)
def test_what_the_configuration_says_needs_no_option(tmp_path: Path, said: dict[str, Any], window: str | None) -> None:
    assert load(chunked_checkpoint(tmp_path, **said)).window == window


def test_code_that_takes_more_tokens_than_it_has_positions_is_found_out(tmp_path: Path, notes: list[str]) -> None:
    path = chunked_checkpoint(tmp_path, takes="rows")
    model = load(path)
    assert model.window is None
    np.testing.assert_array_equal(
        model.predict(Inputs.from_texts(notes)), load(path, chunk=16).predict(Inputs.from_texts(notes))
    )
    assert load(path, long="truncate").window == "the first 32 tokens"


def test_the_beginning_only_where_code_reads_no_more(tmp_path: Path) -> None:
    path = chunked_checkpoint(tmp_path, takes="first chunk")
    assert load(path).window == "the first 32 tokens"
    with pytest.raises(ConfigError, match="end of a note of 64 tokens does not change the answer"):
        load(path, chunk=16, max_tokens=64)


def test_what_a_plain_checkpoint_cannot_do(tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "plain")
    with pytest.raises(ConfigError, match=r"32 positions.*`long: sliding`.*`long: chunked`"):
        load(path, max_tokens=100)
    with pytest.raises(ConfigError, match="fails on a note of 100 tokens"):
        load(path, max_tokens=100, chunk=16)
    with pytest.raises(ConfigError, match="chunk is 64, but the encoder has 32 positions"):
        load(path, chunk=64)
    with pytest.raises(ConfigError, match="`chunk` is given, but `long` is sliding"):
        load(path, chunk=16, long="sliding")
    with pytest.raises(ConfigError, match=r"say how long its chunks are: `chunk: 128`"):
        load(chunked_checkpoint(tmp_path / "own"))


def test_code_runs_only_if_trusted_and_is_named(tmp_path: Path) -> None:
    path = chunked_checkpoint(tmp_path / "m")
    code = (path / "modeling_coder.py").read_text()
    (path / "modeling_coder.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n{code}")
    with pytest.raises(ConfigError, match=r"code of its own: modeling_coder.py \(for PlmIcdForCoding\).*`trust`"):
        load(path, trust=False)
    assert not (tmp_path / "ran").exists()
    load(path, chunk=16)
    assert (tmp_path / "ran").exists()
    content = json.loads((path / "config.json").read_text())
    content["auto_map"] = {"AutoModel": "someone/plm-icd--modeling_coder.PlmIcdForCoding"}
    (path / "config.json").write_text(json.dumps(content))
    with pytest.raises(ConfigError, match="its code is not here but in someone/plm-icd"):
        load(path)


@pytest.mark.parametrize(("answers", "ways"), [("tuple", True), ("logits", False)])
def test_answers_of_other_shapes(tmp_path: Path, answers: str, ways: bool, notes: list[str]) -> None:
    path = chunked_checkpoint(tmp_path, answers=answers, auto="AutoModel")
    model = load(path, chunk=16)
    wanted = [expit(direct(path, text)[0]) for text in notes]
    np.testing.assert_allclose(model.predict(Inputs.from_texts(notes)), wanted, atol=1e-6)
    assert ("attention" in model.explains) == ways
    assert "integrated_gradients" in model.explains


def test_code_that_cannot_tell_its_attention_is_not_asked_again(tmp_path: Path) -> None:
    path = chunked_checkpoint(tmp_path, answers="logits")
    code = (path / "modeling_coder.py").read_text()
    refuses = "output_attentions=False):\n        if output_attentions:\n            raise ValueError('not here')"
    (path / "modeling_coder.py").write_text(code.replace("token_type_ids=None):", f"token_type_ids=None, {refuses}"))
    model = load(path, chunk=16)
    assert model.explains == ("integrated_gradients", "gradient_x_input", "deeplift")


def test_labels_or_classes(tmp_path: Path) -> None:
    """Without problem_type, outputs that attend by themselves are labels; so are those of a multi-label class."""
    nothing: dict[str, Any] = {"problem_type": None}
    attends = load(chunked_checkpoint(tmp_path / "a", **nothing), chunk=16)
    named = load(chunked_checkpoint(tmp_path / "b", answers="logits", name="CoderMultiLabel", **nothing), chunk=16)
    other = chunked_checkpoint(tmp_path / "c", answers="logits", **nothing)
    some = Inputs.from_texts(["chest pain", "fever"])
    np.testing.assert_array_equal(attends.predict(some), named.predict(some))
    assert load(other, chunk=16).predict(some).sum(1) == pytest.approx(1)
    given = load(other, chunk=16, problem_type="multi_label_classification")
    np.testing.assert_array_equal(given.predict(some), named.predict(some))


def test_the_wrapper_on_the_page_gives_the_same_numbers(
    tmp_path: Path, notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The class in docs/models.md, around the same checkpoint."""
    page = (Path(__file__).parents[3] / "docs" / "models.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(import torch\n[^`]*class Coder:[^`]*)```", page)
    path = chunked_checkpoint(tmp_path / "plm-icd")
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    exec(compile(code, "coder.py", "exec"), scope)
    coder, model = scope["Coder"](chunk=16), load(path, chunk=16)
    assert tuple(coder.labels) == model.labels
    np.testing.assert_allclose(coder.predict(notes), model.predict(Inputs.from_texts(notes)), atol=1e-6)
    asked = Asked(np.arange(len(notes)), np.full(len(notes), 2))
    found = model.explain(Inputs.from_texts(notes), asked, "attention")
    for row, pieces in enumerate(coder.explain(notes, model.labels[2])):
        mine = found.row == row
        if notes[row].isascii():  # the tokens of an emoji are one piece in `hf:`
            assert [piece[0] for piece in pieces] == found.start[mine].tolist()
            np.testing.assert_allclose([piece[2] for piece in pieces], found.score[mine], atol=1e-6)
        assert sum(piece[2] for piece in pieces) == pytest.approx(found.score[mine].sum(), abs=1e-6)
    (tmp_path / "coder.py").write_text(code, encoding="utf-8")
    named = load_here(ModelSpec("own", "python:coder:Coder", str(tmp_path), {"arguments": {"chunk": 16}}))
    assert (named.labels, named.explains, named.window) == (model.labels, ("attention",), None)
    np.testing.assert_array_equal(named.predict(Inputs.from_texts(notes)), coder.predict(notes))
    own = named.explain(Inputs.from_texts(notes), asked, "attention")
    plain = np.isin(found.row, [row for row, text in enumerate(notes) if text.isascii()])
    np.testing.assert_array_equal(own.start[np.isin(own.row, found.row[plain])], found.start[plain])
    np.testing.assert_allclose(own.score[np.isin(own.row, found.row[plain])], found.score[plain], atol=1e-6)


def authors_checkpoint(folder: Path, mode: str, family: str = "Roberta", *, chunk: int = 16) -> tuple[Path, Any]:
    """A folder as PLM-ICD's own training script leaves it, and logits by its published formula, one note at a time."""
    from torch import nn

    checkpoint(folder, family, n_outputs=4, task="MaskedLM")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    config = transformers.AutoConfig.from_pretrained(folder, num_labels=4)
    encoder = getattr(transformers, f"{family}Model").from_pretrained(folder, add_pooling_layer=False).eval()
    torch.manual_seed(1)
    linear = {"first": nn.Linear(16, 16, bias=False), "second": nn.Linear(16, 4, bias=False), "third": nn.Linear(16, 4)}
    weights = {f"{family.lower()}.{key}": value for key, value in encoder.state_dict().items()}
    for name, layer in linear.items():
        nn.init.normal_(layer.weight, std=0.7)
        weights |= {f"{name}_linear.{key}": value for key, value in layer.state_dict().items()}
    config.model_mode, config.architectures = mode, [f"{family}ForMultilabelClassification"]
    config.save_pretrained(folder)
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")

    def logits(text: str) -> Any:
        ids = tokenizer(text)["input_ids"]
        more = -len(ids) % chunk
        rows = torch.tensor(ids + [tokenizer.pad_token_id] * more).reshape(-1, chunk)
        mask = torch.tensor([1] * len(ids) + [0] * more).reshape(-1, chunk)
        with torch.inference_mode():
            hidden = encoder(rows, attention_mask=mask)[0]
            groups = [hidden.reshape(1, -1, 16)] if mode == "laat" else [part[None] for part in hidden]
            found = []
            for states in groups:
                attention = linear["second"](torch.tanh(linear["first"](states))).softmax(1).transpose(1, 2)
                found.append((linear["third"].weight * (attention @ states)).sum(2) + linear["third"].bias)
            return torch.cat(found).max(0).values.double().numpy()

    return folder, logits


@pytest.mark.parametrize(("mode", "family"), [("laat", "Roberta"), ("laat-split", "Bert")])
def test_the_authors_own_checkpoints_need_no_code(tmp_path: Path, mode: str, family: str, notes: list[str]) -> None:
    path, logits = authors_checkpoint(tmp_path, mode, family)
    model = load(path, chunk=16, labels=["a", "b", "c", "d"])
    np.testing.assert_allclose(
        model.predict(Inputs.from_texts(notes)), [expit(logits(text)) for text in notes], atol=1e-6
    )
    assert model.explains[0] == "attention"
    found = model.explain(Inputs.from_texts(notes), Asked(np.array([1]), np.array([3])), "attention")
    assert 0.5 < found.score.sum() <= 1
    with pytest.raises(ConfigError, match=r"pickle.*`trust`"):
        load(path, trust=False, chunk=16)
    content = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(content | {"model_mode": "cls-sum"}))
    with pytest.raises(ConfigError, match="model_mode is cls-sum"):
        load(path, chunk=16)


def test_the_contract_of_every_model(tmp_path: Path) -> None:
    contract.check_model_contract(load(chunked_checkpoint(tmp_path), chunk=16, max_tokens=64))
