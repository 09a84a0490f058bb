"""Gradients as attributions: the closed form of linear networks, completeness, and one token at a time by hand."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.cases.edits import Inputs
from palpate.errors import MissingExtra
from palpate.models import ModelSpec, load_model
from palpate.models.text.classifiers import OutputLabels
from palpate.models.text.gradients import (
    ATTINGRAD,
    ROLLOUT,
    WAYS,
    attributions_of,
    gradient_sizes,
    log_odds,
    token_scores,
)
from palpate.results import Asked, Attributions
from tests.models.tiny_checkpoints import checkpoint, note

torch = pytest.importorskip("torch")
pytest.importorskip("captum")
transformers = pytest.importorskip("transformers")

N_WORDS, N_LABELS, FILLER = 12, 3, 0
ROWS = [[3, 1, 4, 1], [5], [9, 2, 6, 5, 3, 5, 8], [9, 7], [9, 3, 2, 3]]
LABELS = [0, 2, 1, 1, 0]


class Line(torch.nn.Module):  # type: ignore[misc]
    """A bag of embeddings and a line."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(N_WORDS, 6)
        self.line = torch.nn.Linear(6, N_LABELS)

    def forward(self, tokens: Any, mask: Any, label: Any) -> Any:
        bag = (self.embedding(tokens) * mask[:, :, None]).sum(1)
        return self.line(bag)[torch.arange(len(label)), label]


class Curve(Line):
    """Words that act on their neighbours, and a total that saturates."""

    def forward(self, tokens: Any, mask: Any, label: Any) -> Any:
        words = self.embedding(tokens) * mask[:, :, None]
        before = torch.nn.functional.pad(words, (0, 0, 1, 0))[:, :-1]
        near = torch.tanh(words + 0.5 * before) * mask[:, :, None]
        return torch.tanh(self.line(near.sum(1)))[torch.arange(len(label)), label]


def line_scores(network: Line, baseline: int | None) -> list[np.ndarray]:
    """Each token alone: its embedding, less that of the baseline, times the label's weights."""
    words, weights = network.embedding.weight.detach().numpy(), network.line.weight.detach().numpy()
    start = np.zeros(words.shape[1]) if baseline is None else words[baseline]
    return [(words[row] - start) @ weights[label] for row, label in zip(ROWS, LABELS, strict=True)]


@pytest.mark.parametrize("way", WAYS)
def test_a_linear_network_has_a_closed_form(way: str) -> None:
    network = Line().eval()
    found = token_scores(network, network.embedding, ROWS, LABELS, way=way, filler=FILLER)
    wanted = line_scores(network, None if way == "gradient_x_input" else FILLER)
    for got, one in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, one, atol=1e-5)


def test_integrated_gradients_are_complete_where_gradients_are_not() -> None:
    network = Curve().eval()
    baseline = [[7] * len(row) for row in ROWS]
    answers = [answer(network, rows) for rows in (ROWS, baseline)]
    for way, complete in (("integrated_gradients", True), ("gradient_x_input", False)):
        found = token_scores(network, network.embedding, ROWS, LABELS, way=way, baseline=baseline, n_steps=200)
        sums = np.array([one.sum() for one in found])
        assert np.allclose(sums, answers[0] - answers[1], atol=1e-3) is complete


class Activated(Line):
    """A hidden layer whose activations are modules: for these DeepLift has rules, and is complete."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.relu, self.tanh = torch.nn.Linear(6, 6), torch.nn.ReLU(), torch.nn.Tanh()

    def forward(self, tokens: Any, mask: Any, label: Any) -> Any:
        words = self.relu(self.hidden(self.embedding(tokens))) * mask[:, :, None]
        return self.tanh(self.line(words.sum(1)))[torch.arange(len(label)), label]


@pytest.mark.parametrize("wrapped", [False, True])
def test_deeplift_is_complete_through_activations(wrapped: bool) -> None:
    network = Activated().eval()
    baseline = [[7] * len(row) for row in ROWS]
    forward = (lambda *given: network(*given)) if wrapped else network
    how = {"network": network} if wrapped else {}
    found = token_scores(forward, network.embedding, ROWS, LABELS, way="deeplift", baseline=baseline, **how)
    np.testing.assert_allclose(
        [one.sum() for one in found], answer(network, ROWS) - answer(network, baseline), atol=1e-5
    )


def test_gradient_sizes_are_lengths_of_gradient_times_embedding() -> None:
    network = Line().eval()
    found = gradient_sizes(network, network.embedding, ROWS, LABELS, filler=FILLER)
    words, weights = network.embedding.weight.detach().numpy(), network.line.weight.detach().numpy()
    for got, row, label in zip(found, ROWS, LABELS, strict=True):
        np.testing.assert_allclose(got, np.linalg.norm(words[row] * weights[label], axis=1), atol=1e-5)


def answer(network: Line, rows: list[list[int]]) -> np.ndarray:
    with torch.inference_mode():
        one = [
            network(torch.tensor([row]), torch.ones(1, len(row)), torch.tensor([label]))
            for row, label in zip(rows, LABELS, strict=True)
        ]
    return torch.cat(one).double().numpy()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("limits", [{"batch_tokens": 1}, {"batch_tokens": 9}, {"max_rows": 2}])
def test_batches_change_nothing(way: str, limits: dict[str, int]) -> None:
    network = Curve().eval()
    whole = token_scores(network, network.embedding, ROWS, LABELS, way=way)
    cut = token_scores(network, network.embedding, ROWS, LABELS, way=way, **limits)
    for one, other, row in zip(whole, cut, ROWS, strict=True):
        assert one.shape == (len(row),)
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_a_frozen_network_is_explained_and_stays_frozen() -> None:
    network = Curve().eval().requires_grad_(False)
    free = Curve().eval()
    for way in WAYS:
        with torch.no_grad():
            got = token_scores(network, network.embedding, ROWS, LABELS, way=way)
        wanted = token_scores(free, free.embedding, ROWS, LABELS, way=way)
        np.testing.assert_array_equal(np.concatenate(got), np.concatenate(wanted))
    assert not any(weight.requires_grad for weight in network.parameters())
    assert all(weight.grad is None for weight in free.parameters())


def test_nothing_asked_and_empty_rows() -> None:
    network = Line().eval()
    assert token_scores(network, network.embedding, [], [], way="gradient_x_input") == []
    found = token_scores(network, network.embedding, [[], [3]], [0, 0], way="integrated_gradients")
    assert [len(one) for one in found] == [0, 1]


def test_without_captum_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Line().eval()
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    with pytest.raises(MissingExtra, match=r"pip install 'palpate\[torch\]'"):
        token_scores(network, network.embedding, ROWS, LABELS, way="gradient_x_input")


def test_wrong_calls() -> None:
    network = Line().eval()
    with pytest.raises(ValueError, match="unknown gradient method 'attention'"):
        token_scores(network, network.embedding, ROWS, LABELS, way="attention")
    with pytest.raises(ValueError, match="the same length"):
        token_scores(network, network.embedding, ROWS, LABELS[:-1], way="gradient_x_input")


@pytest.mark.parametrize(("n_outputs", "activation"), [(1, "sigmoid"), (4, "sigmoid"), (2, "softmax"), (4, "softmax")])
def test_log_odds(n_outputs: int, activation: Any) -> None:
    logits = torch.randn(20, n_outputs, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    n_labels = 1 if n_outputs == 2 else n_outputs
    label = torch.arange(20) % n_labels
    p = logits.sigmoid() if activation == "sigmoid" else logits.softmax(1)[:, -n_labels:]
    own = p[torch.arange(20), label]
    torch.testing.assert_close(log_odds(logits, label, activation), torch.log(own / (1 - own)))


# --- pieces -----------------------------------------------------------------------------------------------------


def test_tokens_that_share_a_character_are_one_piece() -> None:
    asked = Asked(np.array([4, 1]), np.array([0, 2]))
    offsets = [[(0, 0), (0, 3), (4, 5), (4, 5), (5, 8)], [(2, 4), (3, 4), (4, 4)]]
    found = attributions_of(asked, offsets, [np.array([9.0, 1, 2, 3, 4]), np.array([1.0, 2, 3])])
    rows = [tuple(map(float, row)) for row in zip(*found, strict=True)]
    assert rows == [(4, 0, 0, 3, 1), (4, 0, 4, 5, 5), (4, 0, 5, 8, 4), (1, 2, 2, 4, 3)]
    assert len(attributions_of(Asked(np.zeros(0, np.int64), np.zeros(0, np.int64)), [], []).row) == 0


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=10))
def test_pieces_never_overlap_and_lose_nothing(steps: list[tuple[int, int]]) -> None:
    places, at = [], 0
    for gap, n in steps:
        # A byte-level token may begin inside the character that the one before ended with.
        start = max(at + gap - 1, places[-1][0] if places else 0)
        places.append((start, max(start + n, at) if n else start))
        at = max(at, places[-1][1])
    scores = np.arange(1.0, len(places) + 1)
    found = attributions_of(Asked(np.array([0]), np.array([0])), [places], [scores])
    assert np.all(found.start[1:] >= found.end[:-1])
    kept = [k for k, (start, end) in enumerate(places) if start < end]
    assert found.score.sum() == pytest.approx(scores[kept].sum())
    assert {c for s, e in zip(found.start, found.end, strict=True) for c in range(s, e)} == {
        c for start, end in places for c in range(start, end)
    }


# --- checkpoints ------------------------------------------------------------------------------------------------


def load(path: Path, **options: Any) -> Any:
    return load_model(ModelSpec("m", f"hf:{path}", options=options))


def explain(model: Any, texts: list[str], pairs: list[tuple[int, int]], way: str) -> Attributions:
    row, label = (np.array(column, dtype=np.int64) for column in zip(*pairs, strict=True))
    return model.explain(Inputs.from_texts(texts), Asked(row, label), way)


def one(found: Attributions, pair: tuple[int, int]) -> list[tuple[int, int, float]]:
    rows = zip(*found, strict=True)
    return [(int(s), int(e), float(x)) for r, label, s, e, x in rows if (int(r), int(label)) == pair]


def by_hand(path: Path, text: str, explained: Any) -> list[tuple[int, int, float]]:
    """Gradient times input of one text, through the library's own `inputs_embeds`."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    network = transformers.AutoModelForSequenceClassification.from_pretrained(path).eval()
    encoded = tokenizer(text, truncation=True, return_offsets_mapping=True, return_tensors="pt")
    words = network.get_input_embeddings()(encoded["input_ids"]).detach().requires_grad_(True)
    logits = network(inputs_embeds=words, attention_mask=encoded["attention_mask"]).logits[0]
    explained(logits).backward()
    scores = (words.grad[0] * words.detach()[0]).double().sum(1).numpy()
    special = tokenizer.get_special_tokens_mask(encoded["input_ids"][0].tolist(), already_has_special_tokens=True)
    places = encoded["offset_mapping"][0].tolist()
    return [(s, e, x) for (s, e), x, odd in zip(places, scores.tolist(), special, strict=True) if not odd]


TEXTS = ["Patient denies chest pain, fever.", "pain", "", note(np.random.default_rng(3), 60)]


@pytest.mark.parametrize("family", ["Bert", "DistilBert"])
def test_gradients_of_a_checkpoint_by_hand(tmp_path: Path, family: str) -> None:
    two = checkpoint(tmp_path / "two", family, names=["not returns", "returns"])
    many = checkpoint(tmp_path / "many", family, n_outputs=3, problem_type="multi_label_classification")
    cases = [(two, 0, lambda z: z[1] - z[0]), (many, 2, lambda z: z[2])]
    for path, label, explained in cases:
        model = load(path)
        assert model.explains == (*WAYS, ROLLOUT, ATTINGRAD)
        pairs = [(3, label), (0, label), (1, label), (2, label)]
        found = explain(model, TEXTS, pairs, "gradient_x_input")
        for row, text in enumerate(TEXTS):
            wanted = by_hand(path, text, explained)
            got = one(found, (row, label))
            assert [piece[:2] for piece in got] == [piece[:2] for piece in wanted]
            np.testing.assert_allclose([x for *_, x in got], [x for *_, x in wanted], atol=1e-5)
        assert len(one(found, (3, label))) == 30, "the window's, without [CLS] and [SEP]"


@pytest.mark.parametrize("family", ["Bert", "Roberta", "GPT2"])
def test_integrated_gradients_of_a_checkpoint_are_complete(tmp_path: Path, family: str) -> None:
    model = load(checkpoint(tmp_path, family, n_outputs=3, names=["a", "b", "c"]))
    texts = ["fever and chest pain", "patient was admitted with sepsis"]
    pairs = [(0, 1), (1, 0), (0, 2)]
    found = explain(model, texts, pairs, "integrated_gradients")
    changes = []
    for row, label in pairs:
        ids = model._windows.encode([texts[row]]).ids[0]
        ends = [logit_with_embeddings_of(model, ids, other, label) for other in (ids, model._without_text(len(ids)))]
        changes.append(ends[0] - ends[1])
        assert sum(x for *_, x in one(found, (row, label))) == pytest.approx(changes[-1], abs=1e-5)
    assert np.ptp(changes) > 0.05, "answers that hardly move show nothing"


def logit_with_embeddings_of(model: Any, ids: list[int], other: list[int], label: int) -> float:
    """The answer to some tokens if they had the embeddings of others; positions stay those of the tokens."""
    embedding = model._network.get_input_embeddings()
    taken = torch.nn.functional.embedding(torch.tensor([other]), embedding.weight)
    hook = embedding.register_forward_hook(lambda *_: taken)
    try:
        with torch.inference_mode():
            return float(model._logit(torch.tensor([ids]), torch.ones(1, len(ids)), torch.tensor([label])))
    finally:
        hook.remove()


def test_text_behind_the_window_is_in_no_piece(tmp_path: Path) -> None:
    model = load(checkpoint(tmp_path), max_tokens=6)
    text = "chest pain no fever cough history of diabetes"
    for way in WAYS:
        found = explain(model, [text], [(0, 0)], way)
        assert text[found.start[0] : found.end[-1]] == "chest pain no fever"
        assert len(found.row) == 4


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_sliding_windows(tmp_path: Path, pooling: str) -> None:
    path = checkpoint(tmp_path, n_outputs=2, problem_type="multi_label_classification")
    sliding = load(path, long="sliding", max_tokens=6, stride=2, pooling=pooling)
    short = load(path, max_tokens=6)
    words = ["chest", "pain", "no", "fever", "cough", "history", "of", "diabetes"]
    text = " ".join(words)
    starts = [text.index(word) for word in words]
    parts = [range(0, 4), range(2, 6), range(4, 8)]
    texts = [" ".join(words[k] for k in part) for part in parts]
    p = short.predict(Inputs.from_texts(texts))
    for label in (0, 1):
        got = one(explain(sliding, [text], [(0, label)], "gradient_x_input"), (0, label))
        scores: dict[int, list[float]] = {}
        for k, part in enumerate(parts):
            if pooling == "mean" or k == int(p[:, label].argmax()):
                alone = one(explain(short, [texts[k]], [(0, label)], "gradient_x_input"), (0, label))
                for word, (_, _, score) in zip(part, alone, strict=True):
                    scores.setdefault(word, []).append(score)
        assert [(s, e) for s, e, _ in got] == [(starts[k], starts[k] + len(words[k])) for k in sorted(scores)]
        np.testing.assert_allclose([x for *_, x in got], [np.mean(scores[k]) for k in sorted(scores)], atol=1e-6)


def test_bytes_of_one_character_are_one_piece(tmp_path: Path) -> None:
    model = load(checkpoint(tmp_path, "Roberta"))
    text = "pain 🙂🙂 naïve"
    found = explain(model, [text], [(0, 0)], "gradient_x_input")
    assert np.all(found.start[1:] >= found.end[:-1])
    covered = {c for s, e in zip(found.start, found.end, strict=True) for c in range(s, e)}
    assert {k for k, c in enumerate(text) if not c.isspace()} <= covered


def test_equal_texts_are_explained_once_and_alike(tmp_path: Path) -> None:
    model = load(checkpoint(tmp_path))
    seen: list[int] = []
    model._network.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    found = explain(model, ["fever", "pain", "fever"], [(2, 0), (0, 0), (1, 0), (0, 0)], "gradient_x_input")
    assert sum(seen) == 2
    assert found.row.tolist() == [2, 0, 1, 0]
    assert found.score[0] == found.score[1] == found.score[3]


def test_a_slow_tokenizer_explains_nothing(tmp_path: Path) -> None:
    model = load(checkpoint(tmp_path))

    class Slow:
        is_fast, pad_token_id = False, 0

    windows = replace(model._windows, tokenizer=Slow())
    parts, labels = (model._network, windows, model._passes, model._options), OutputLabels(model.labels)
    other = type(model)(*parts, activation="softmax", labels=labels, fingerprint="x")
    assert other.explains == ()


def test_rollout_is_the_product_of_the_layers_by_hand(tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "bert")
    model = load(path)
    text = "chest pain no fever"
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    network = transformers.AutoModelForSequenceClassification.from_pretrained(path, attn_implementation="eager").eval()
    encoded = tokenizer(text, return_tensors="pt")
    with torch.inference_mode():
        layers = network(**encoded, output_attentions=True).attentions
    n = encoded["input_ids"].shape[1]
    mixed = np.eye(n)
    for layer in layers:
        mixed = (layer[0].double().numpy().mean(0) / 2 + np.eye(n) / 2) @ mixed
    np.testing.assert_allclose(mixed.sum(1), 1, atol=1e-6)
    longer = text + " " + text
    for texts in ([text], [longer, text]):
        got = one(explain(model, texts, [(len(texts) - 1, 0)], ROLLOUT), (len(texts) - 1, 0))
        np.testing.assert_allclose([x for *_, x in got], mixed[0, 1:-1], atol=1e-6)
    before = model._network.config._attn_implementation
    sizes = one(explain(model, [text], [(0, 0)], ATTINGRAD), (0, 0))
    assert [x > 0 for *_, x in sizes] == [True] * 4
    assert model._network.config._attn_implementation == before, "predictions are computed as before"


def test_attingrad_is_attention_times_the_size_of_the_gradient(tmp_path: Path) -> None:
    """Of two words with equal gradients, the one that is attended to more; and each label has its own."""
    model = load(checkpoint(tmp_path / "many", n_outputs=3, problem_type="multi_label_classification"))
    text = "chest pain no fever"
    rolled = np.array([x for *_, x in one(explain(model, [text], [(0, 1)], ROLLOUT), (0, 1))])
    frame = model._windows.frame
    ids = model._windows.encode([text]).ids[0]
    sizes = gradient_sizes(model._logit, model._network.get_input_embeddings(), [ids], [1])[0]
    got = [x for *_, x in one(explain(model, [text], [(0, 1)], ATTINGRAD), (0, 1))]
    inside = slice(len(frame.before), len(ids) - len(frame.after))
    np.testing.assert_allclose(got, rolled * sizes[inside], rtol=1e-5)
