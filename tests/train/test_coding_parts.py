"""Words, networks, losses and evidence of the coding models, each against a slow obvious version."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from palpate.errors import CohortError, ConfigError
from palpate.models.networks.coding.shape import Shape
from palpate.models.networks.coding.words import UNKNOWN, WordWindow, learn_words, read_window
from palpate.train.cards import best_f1
from palpate.train.coding.evidence import find_evidence, read_table
from palpate.train.coding.options import CamlOptions, EffectiveCanOptions
from palpate.train.notes import Notes

torch = pytest.importorskip("torch")


# --- words --------------------------------------------------------------------------------------------------------


def test_words_are_folded_and_stand_where_the_text_has_them() -> None:
    text = "CHF (Type 2), 37.5 Größe STRASSE straße"
    window = WordWindow(("chf", "2", "type", "strasse"), 100)
    read = window.read([text])[0]
    pieces = [text[i:j] for i, j in zip(read.begin, read.end, strict=True)]
    assert pieces == ["CHF", "Type", "2", "5", "Größe", "STRASSE", "straße"]
    assert read.ids.tolist() == [2, 4, 3, UNKNOWN, UNKNOWN, 5, 5]


def test_a_text_without_words_is_one_unknown_word_that_stands_nowhere() -> None:
    read = WordWindow(("a",), 5).read(["", " ... 4711"])
    assert [one.ids.tolist() for one in read] == [[UNKNOWN], [UNKNOWN]]
    assert [len(one.begin) for one in read] == [0, 0]


@settings(max_examples=60, deadline=None)
@given(
    text=st.text(alphabet="ab Ié.\u0301ß7_\n", max_size=60),
    max_tokens=st.integers(1, 6),
    change=st.text(alphabet="ab .\u0301_9", max_size=8),
    cut=st.integers(0, 4),
)
def test_a_change_behind_the_visible_end_changes_nothing_that_is_read(
    text: str, max_tokens: int, change: str, cut: int
) -> None:
    window = WordWindow(("a", "b", "ab"), max_tokens)
    end = int(window.visible_ends([text])[0])
    if end > len(text):
        return
    changed = text[:end] + change + text[end + cut :]
    before, after = window.read([text, changed])
    for part in range(3):
        assert before[part].tolist() == after[part].tolist()


def test_the_visible_end_is_not_too_far() -> None:
    """One word more in the window makes the next word count."""
    window = WordWindow(("a", "b", "c"), 2)
    assert window.visible_ends(["a b c", "a b", "a"]).tolist() == [4, 4, 2]
    assert window.read(["a bc c"])[0].ids.tolist() != window.read(["a b c"])[0].ids.tolist()


def test_words_of_few_patients_are_not_learned() -> None:
    texts = ["Fever smith", "fever smith", "FEVER cough", "cough cough cough"]
    patients = np.array([1, 1, 2, 3])
    assert learn_words(texts, patients, min_patients=2, max_words=None) == ("cough", "fever")
    assert learn_words(texts, patients, min_patients=2, max_words=1) == ("cough",)
    assert "smith" in learn_words(texts, patients, min_patients=1, max_words=None)


def test_a_vocabulary_is_read_back(tmp_path: Path) -> None:
    window = WordWindow(("é", "a\u2028b"), 7)
    window.write(tmp_path)
    assert read_window(tmp_path) == window
    (tmp_path / "vocabulary.json").write_text("[]")
    with pytest.raises(ConfigError, match="no vocabulary of a coding model"):
        read_window(tmp_path)


# --- networks -----------------------------------------------------------------------------------------------------


def network(kind: str = "effective-can", evidence: str = "cnn", *, n_labels: int = 5, seed: int = 0) -> Any:
    from palpate.models.networks.coding.layers import CodingNetwork

    shape = Shape(
        architecture=kind,  # type: ignore[arg-type]
        evidence=evidence,  # type: ignore[arg-type]
        embedding=6,
        channels=(7,) if kind == "caml" else (7, 8),
        kernel=4,
        attention=9,
        reduction=2,
        dropout=0.3,
        tag_kernel=3,
    )
    torch.manual_seed(seed)
    return CodingNetwork(shape, 30, n_labels).eval()


def batch(lengths: list[int], *, longest: int | None = None, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    width = longest or max(lengths)
    ids = np.zeros((len(lengths), width), dtype=np.int64)
    for row, n in enumerate(lengths):
        ids[row, :n] = rng.integers(1, 30, n)
    mask = np.arange(width) < np.array(lengths)[:, None]
    return torch.from_numpy(ids), torch.from_numpy(mask)


BOTH = pytest.mark.parametrize("kind", ["caml", "effective-can"])


@BOTH
def test_attention_sums_to_1_over_words_and_is_0_elsewhere(kind: str) -> None:
    net, (ids, mask) = network(kind), batch([5, 1, 9])
    with torch.inference_mode():
        attention = torch.softmax(net.scores(net.read(ids, mask)), 2).double().numpy()
    there = mask.numpy()[:, None, :]
    np.testing.assert_allclose(np.where(there, attention, 0).sum(2), 1, atol=1e-6)
    assert np.all(np.where(there, 0, attention) == 0)


@BOTH
def test_an_answer_does_not_depend_on_how_its_batch_is_filled(kind: str) -> None:
    net, (ids, mask) = network(kind), batch([5, 1, 9], longest=30)
    with torch.inference_mode():
        together = net(ids, mask)
        alone = torch.cat([net(ids[k : k + 1, :n], mask[k : k + 1, :n]) for k, n in enumerate((5, 1, 9))])
    np.testing.assert_allclose(together.numpy(), alone.numpy(), atol=1e-6)
    with torch.inference_mode():
        encoded = net.read(ids, mask)
        pair, label = torch.tensor([0, 2, 2]), torch.tensor([4, 0, 3])
        tags = net.tags(encoded, torch.softmax(net.pair_scores(encoded, pair, label), 1), pair, label)
        one = net.read(ids[2:, :9], mask[2:, :9])
        zero = torch.zeros(2, dtype=torch.int64)
        own = net.tags(one, torch.softmax(net.pair_scores(one, zero, label[1:]), 1), zero, label[1:])
    np.testing.assert_allclose(tags[1:, :9].numpy(), own.numpy(), atol=1e-6)


def test_a_convolution_is_the_obvious_sum() -> None:
    from palpate.models.networks.coding.layers import Convolution

    torch.manual_seed(1)
    for kernel in (1, 3, 4, 9):
        layer, x = Convolution(3, 2, kernel), torch.randn(1, 5, 3)
        weight, bias = layer.kernel.weight.detach().numpy()[:, :, 0], layer.kernel.bias.detach().numpy()
        expected = np.zeros((5, 2))
        for n in range(5):
            for k in range(kernel):
                at = n + k - (kernel - 1) // 2
                if 0 <= at < 5:
                    expected[n] += weight[:, :, k] @ x[0, at].numpy()
        np.testing.assert_allclose(layer(x)[0].detach().numpy(), expected + bias, atol=1e-6)


def _relu(x: Any) -> Any:
    return np.maximum(x, 0)


def _affine(layer: Any, x: Any) -> Any:
    return x @ layer.weight.detach().double().numpy().T + layer.bias.detach().double().numpy()


def _normed(layer: Any, x: Any) -> Any:
    centred = x - x.mean(1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(1, keepdims=True) + layer.eps)
    return scaled * layer.weight.detach().numpy() + layer.bias.detach().numpy()


def _convolved(layer: Any, x: Any) -> Any:
    kernel = layer.kernel.weight.detach().double().numpy()[:, :, 0]
    out = np.zeros((len(x), kernel.shape[0]))
    for n in range(len(x)):
        for k in range(kernel.shape[2]):
            at = n + k - (kernel.shape[2] - 1) // 2
            if 0 <= at < len(x):
                out[n] += kernel[:, :, k] @ x[at]
    return out + layer.kernel.bias.detach().numpy()


def test_effective_can_is_the_obvious_computation() -> None:
    """Blocks, gates, summed projections, attention and tags, one text and one label at a time."""
    net, (ids, mask) = network("effective-can", "cnn"), batch([8])
    x = net.embedding.weight.detach().double().numpy()[ids[0].numpy()]
    keys = 0.0
    for block, projection in zip(net.blocks, net.projections, strict=True):
        inner = _relu(_normed(block.first_norm, _convolved(block.first, x)))
        inner = _normed(block.second_norm, _convolved(block.second, inner))
        gate = _affine(block.gate.excite, _relu(_affine(block.gate.squeeze, inner.mean(0))))
        inner = inner / (1 + np.exp(-gate))
        x = _relu(inner + _affine(block.shortcut, x))
        keys = keys + _affine(projection, x)
    keys = np.tanh(keys)
    queries, weights = net.queries.detach().double().numpy(), net.weights.detach().double().numpy()
    encoded = net.read(ids, mask)
    logits = net.logits(encoded, net.scores(encoded)).detach().numpy()
    for label in range(5):
        attention = np.exp(keys @ queries[label])
        attention = attention / attention.sum()
        bias = float(net.bias[label].detach())
        assert logits[0, label] == pytest.approx(weights[label] @ (attention @ keys) + bias, abs=1e-5)
        tagger, scaled = net.tagger, (attention / attention.max())[:, None]
        mixed = (
            _affine(tagger.of_word, x) + _affine(tagger.of_attention, scaled) + _affine(tagger.of_label, queries[label])
        )
        expected = _affine(tagger.out, _relu(_normed(tagger.norm, _convolved(tagger.convolution, mixed))))[:, 0]
        zero, own = torch.tensor([0]), torch.tensor([label])
        tags = net.tags(encoded, torch.softmax(net.pair_scores(encoded, zero, own), 1), zero, own)
        np.testing.assert_allclose(tags[0].detach().numpy(), expected, atol=1e-5)


def test_linear_tags_are_the_product_of_word_and_attention() -> None:
    net, (ids, mask) = network("caml", "linear"), batch([6])
    encoded = net.read(ids, mask)
    zero, own = torch.tensor([0]), torch.tensor([2])
    attention = torch.softmax(net.pair_scores(encoded, zero, own), 1)
    tags = net.tags(encoded, attention, zero, own).detach().numpy()[0]
    a = attention.detach().double().numpy()[0]
    words = _affine(net.tagger.of_word, encoded.last.detach().double().numpy()[0])[:, 0]
    np.testing.assert_allclose(tags, words * _affine(net.tagger.of_attention, (a / a.max())[:, None])[:, 0], atol=1e-6)


@BOTH
def test_one_label_alone_has_the_logit_that_it_has_among_all(kind: str) -> None:
    net, (ids, mask) = network(kind), batch([5, 3, 9])
    label = torch.tensor([4, 0, 2])
    with torch.inference_mode():
        expected = net(ids, mask)[torch.arange(3), label]
        np.testing.assert_allclose(net.label_logits(ids, mask, label).numpy(), expected.numpy(), atol=1e-6)


# --- losses -------------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_notes=st.integers(1, 3), n_pairs=st.integers(1, 4))
def test_losses_are_the_obvious_sums(seed: int, n_notes: int, n_pairs: int) -> None:
    from palpate.train.coding.losses import attention_loss, code_loss, tagging_loss

    rng = np.random.default_rng(seed)
    logits, weight = rng.normal(size=(n_notes, 4)), rng.uniform(0.5, 2, size=(n_notes, 4))
    y = rng.integers(0, 2, (n_notes, 4))
    total = 0.0
    for note in range(n_notes):
        for label in range(4):
            p = 1 / (1 + math.exp(-logits[note, label]))
            total -= weight[note, label] * math.log(p if y[note, label] else 1 - p)
    asked = [torch.from_numpy(np.asarray(part, dtype=np.float64)) for part in (logits, y, weight)]
    assert float(code_loss(*asked)) == pytest.approx(total / n_notes)

    lengths = rng.integers(1, 7, n_pairs)
    scores, marked = rng.normal(size=(n_pairs, 7)), np.zeros((n_pairs, 7))
    mask = np.arange(7) < lengths[:, None]
    divergence = tagged = 0.0
    for pair, n in enumerate(lengths):
        evidence = rng.choice(n, size=rng.integers(1, n + 1), replace=False)
        marked[pair, evidence] = 1
        attention = np.exp(scores[pair, :n]) / np.exp(scores[pair, :n]).sum()
        divergence += sum(math.log((1 / len(evidence)) / attention[word]) / len(evidence) for word in evidence)
        p = 1 / (1 + np.exp(-scores[pair, :n]))
        each = [-math.log(p[word] if word in evidence else 1 - p[word]) for word in range(n)]
        tagged += sum(each) / len(evidence)
    masked = torch.from_numpy(np.where(mask, scores, -np.inf)).requires_grad_()
    loss = attention_loss(masked, torch.from_numpy(marked), n_notes)
    assert float(loss.detach()) == pytest.approx(divergence / n_notes)
    loss.backward()
    assert bool(torch.isfinite(masked.grad).all())
    plain = torch.from_numpy(scores)
    found = tagging_loss(plain, torch.from_numpy(marked), torch.from_numpy(mask), n_notes)
    assert float(found) == pytest.approx(tagged / n_notes)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 6)), min_size=1, max_size=12))
def test_the_best_f1_is_the_best_of_all_thresholds(cells: list[tuple[int, int]]) -> None:
    y, p = np.array([[cell[0] for cell in cells]]), np.array([[cell[1] / 7 for cell in cells]])
    found = best_f1(y, p)
    scores = {t: f1_score(y[0], p[0] >= t, zero_division=0) for t in np.unique(p)}
    assert found.f1 == pytest.approx(max(scores.values()))
    assert found.threshold == max(t for t, f1 in scores.items() if f1 == pytest.approx(found.f1))


# --- evidence -----------------------------------------------------------------------------------------------------

TEXTS = ["Acute heart failure, gout", "No gout. Pneumonia!"]
NOTES = Notes(TEXTS, np.zeros((2, 2), dtype=np.uint8), np.arange(2), ["a", "b"])
LABELS = ("428.0", "274.9")


def find(rows: list[tuple[str, str, int, int]], *, max_tokens: int = 100) -> Any:
    table = pl.DataFrame(rows, schema=["case_id", "label", "start", "end"], orient="row")
    read = WordWindow((), max_tokens).read(TEXTS)
    return find_evidence(table, NOTES, LABELS, read, file=Path("evidence.csv"))


@settings(max_examples=80, deadline=None)
@given(start=st.integers(0, 24), length=st.integers(1, 25))
def test_evidence_is_the_words_that_a_span_touches(start: int, length: int) -> None:
    end = min(start + length, len(TEXTS[0]))
    read = WordWindow((), 100).read(TEXTS)[0]
    places = enumerate(zip(read.begin, read.end, strict=True))
    expected = [word for word, (i, j) in places if set(range(i, j)) & set(range(start, end))]
    if end <= start or not expected:
        return
    found = find([("a", "428.0", start, end)])
    assert [(one.label, one.words.tolist()) for one in found.notes[0]] == [(0, expected)]


def test_spans_of_one_label_are_joined_and_other_rows_counted() -> None:
    rows = [
        ("a", "428.0", 6, 19),
        ("a", "428.0", 0, 11),
        ("a", "274.9", 21, 25),
        ("b", "486", 9, 18),
        ("x", "274.9", 0, 4),
        ("b", "274.9", 7, 9),
    ]
    found = find(rows)
    assert [(one.label, one.words.tolist()) for one in found.notes[0]] == [(0, [0, 1, 2]), (1, [3])]
    assert found.notes[1] == []
    assert (found.n_rows, found.n_used, found.n_other_labels, found.n_unread) == (6, 3, 1, 1)
    short = find(rows, max_tokens=2)
    assert [(one.label, one.words.tolist()) for one in short.notes[0]] == [(0, [0, 1])]
    assert short.n_unread == 2


def test_evidence_that_fits_nothing_is_refused() -> None:
    with pytest.raises(CohortError, match=r"evidence.csv, row 2, column 'end': .* 25 characters.*cohort's text"):
        find([("a", "428.0", 6, 19), ("a", "428.0", 6, 26)])
    with pytest.raises(CohortError, match="no row is evidence for a label of a case of the split 'train'"):
        find([("x", "428.0", 6, 19), ("b", "486", 9, 18)])
    twice = NOTES._replace(case_ids=["a", "a"])
    table = pl.DataFrame({"case_id": ["a"], "label": ["428.0"], "start": [0], "end": [4]})
    with pytest.raises(CohortError, match="row 1, column 'case_id': two cohorts"):
        find_evidence(table, twice, LABELS, WordWindow((), 9).read(TEXTS), file=Path("e.csv"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("case_id,label,start\na,b,1\n", "column 'end': column not found"),
        ("case_id,label,start,end\na,b,1,x\n", "row 1, column 'end': the cell is 'x'"),
        ("case_id,label,start,end\na,b,1,2\na,b,-1,2\n", "row 2, column 'start': the cell is '-1'"),
        ("case_id,label,start,end\na,b,4,4\n", "row 1, column 'end': the cell is '4'.*behind the start"),
        ("case_id,label,start,end\n,b,4,5\n", "row 1, column 'case_id': the cell is empty"),
    ],
)
def test_a_table_that_is_wrong_is_refused(content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "evidence.csv"
    file.write_text(content)
    with pytest.raises(CohortError, match=message):
        read_table(file)


@pytest.mark.parametrize("name", ["seed[1].csv", "seed[1].parquet"])
def test_a_bracket_in_a_files_name_is_a_bracket(name: str, tmp_path: Path) -> None:
    table = pl.DataFrame({"case_id": ["a"], "label": ["428.0"], "start": [0], "end": [4]})
    (table.write_csv if name.endswith("csv") else table.write_parquet)(tmp_path / name)
    assert read_table(tmp_path / name).rows() == [("a", "428.0", 0, 4)]


def test_a_table_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CohortError, match="there is no such evidence table"):
        read_table(tmp_path / "none.csv")
    for name, message in (("e.txt", "can't be read from '.txt'"), ("e.parquet", "can't be read as .parquet")):
        (tmp_path / name).write_text("nothing")
        with pytest.raises(CohortError, match=message):
            read_table(tmp_path / name)


# --- options ------------------------------------------------------------------------------------------------------


def test_the_papers_values_are_the_defaults_but_for_lambda2() -> None:
    caml, can = CamlOptions(), EffectiveCanOptions()
    assert (caml.lambda1, caml.max_tokens) == (2.5, 3500)
    assert caml.lambda2 == 0.05, "the paper's 0.5 costs codes: docs/evidence.md"
    assert (caml.kernel, caml.filters, can.kernel) == (10, 50, 9)
    assert can.shape(50_000).channels == (100, 100, 150, 200)
    assert len(can.shape(2_000).channels) == 4
    assert (can.shape(9).tag_kernel, can.shape(9).tag_channels) == (9, 10)
