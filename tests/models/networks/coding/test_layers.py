"""The coding networks, each against a slow, obvious version."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from palpate.models.networks.coding import CodingShape

torch = pytest.importorskip("torch")


def network(
    kind: str = "effective-can", evidence: str = "cnn", *, layers: str = "joined", n_labels: int = 5, seed: int = 0
) -> Any:
    from palpate.models.networks.coding.layers import CodingNetwork

    shape = CodingShape(
        architecture=kind,  # type: ignore[arg-type]
        evidence=evidence,  # type: ignore[arg-type]
        embedding=6,
        channels=(7,) if kind == "caml" else (7, 8),
        kernel=4,
        attention=9,
        layers=layers,  # type: ignore[arg-type]
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


@pytest.mark.parametrize("layers", ["joined", "summed"])
def test_effective_can_is_the_obvious_computation(layers: str) -> None:
    """Blocks, gates, projections, attention and tags, one text and one label at a time."""
    net, (ids, mask) = network("effective-can", "cnn", layers=layers).double(), batch([8])
    x = net.embedding.weight.detach().numpy()[ids[0].numpy()]
    outputs = []
    for block, projection in zip(net.blocks, net.projections, strict=True):
        inner = _relu(_normed(block.first_norm, _convolved(block.first, x)))
        inner = _normed(block.second_norm, _convolved(block.second, inner))
        gate = _affine(block.gate.excite, _relu(_affine(block.gate.squeeze, inner.mean(0))))
        inner = inner / (1 + np.exp(-gate))
        x = _relu(inner + _affine(block.shortcut, x))
        outputs.append(_affine(projection, x))
    keys = np.tanh(np.concatenate(outputs, axis=1) if layers == "joined" else sum(outputs))
    queries, weights = net.queries.detach().double().numpy(), net.weights.detach().double().numpy()
    encoded = net.read(ids, mask)
    logits = net.logits(encoded, net.scores(encoded)).detach().numpy()
    for label in range(5):
        attention = np.exp(keys @ queries[label])
        attention = attention / attention.sum()
        bias = float(net.bias[label].detach())
        assert logits[0, label] == pytest.approx(weights[label] @ (attention @ keys) + bias, abs=1e-9)
        tagger, scaled = net.tagger, (attention / attention.max())[:, None]
        mixed = (
            _affine(tagger.of_word, x) + _affine(tagger.of_attention, scaled) + _affine(tagger.of_label, queries[label])
        )
        expected = _affine(tagger.out, _relu(_normed(tagger.norm, _convolved(tagger.convolution, mixed))))[:, 0]
        zero, own = torch.tensor([0]), torch.tensor([label])
        tags = net.tags(encoded, torch.softmax(net.pair_scores(encoded, zero, own), 1), zero, own)
        np.testing.assert_allclose(tags[0].detach().numpy(), expected, atol=1e-9)


def test_caml_is_the_obvious_computation() -> None:
    net, (ids, mask) = network("caml", "none").double(), batch([8])
    keys = np.tanh(_convolved(net.convolution, net.embedding.weight.detach().numpy()[ids[0].numpy()]))
    logits = net(ids, mask).detach().numpy()[0]
    for label in range(5):
        attention = np.exp(keys @ net.queries[label].detach().numpy())
        gathered = (attention / attention.sum()) @ keys
        expected = gathered @ net.weights[label].detach().numpy() + float(net.bias[label].detach())
        assert logits[label] == pytest.approx(expected, abs=1e-9)


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
