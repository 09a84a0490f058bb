"""The losses of the coding models, against slow, obvious versions; and the papers' values."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palpate.train.coding.options import CamlOptions, EffectiveCanOptions

torch = pytest.importorskip("torch")


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_notes=st.integers(1, 3), n_pairs=st.integers(1, 4))
def test_losses_are_the_obvious_means(seed: int, n_notes: int, n_pairs: int) -> None:
    from palpate.train.coding.training import attention_loss, code_loss, tagging_loss

    rng = np.random.default_rng(seed)
    logits, weight = rng.normal(size=(n_notes, 4)), rng.uniform(0.5, 2, size=(n_notes, 4))
    y = rng.integers(0, 2, (n_notes, 4))
    asked = [torch.from_numpy(np.asarray(part, dtype=np.float64)) for part in (logits, y, weight)]
    for focus in (0.0, 2.0):
        total = 0.0
        for note in range(n_notes):
            for label in range(4):
                p = 1 / (1 + math.exp(-logits[note, label]))
                right = p if y[note, label] else 1 - p
                total -= weight[note, label] * (1 - right) ** focus * math.log(right)
        assert float(code_loss(*asked, focus=focus)) == pytest.approx(total / (n_notes * 4), abs=1e-9)

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
        tagged += sum(-math.log(p[word] if word in evidence else 1 - p[word]) for word in range(n))
    masked = torch.from_numpy(np.where(mask, scores, -np.inf)).requires_grad_()
    there = torch.from_numpy(mask)
    loss = attention_loss(masked, torch.from_numpy(marked), there)
    assert float(loss.detach()) == pytest.approx(divergence / lengths.sum(), abs=1e-9)
    loss.backward()
    assert bool(torch.isfinite(masked.grad).all())
    found = tagging_loss(torch.from_numpy(scores), torch.from_numpy(marked), there)
    assert float(found) == pytest.approx(tagged / lengths.sum(), abs=1e-9)


def test_losses_are_those_of_torch_by_default() -> None:
    """What a reader of the paper gets who writes its equations in torch and changes no reduction."""
    from palpate.train.coding.training import attention_loss, code_loss, tagging_loss

    torch.manual_seed(0)
    logits, y, scores = torch.randn(3, 5), torch.randint(0, 2, (3, 5)).float(), torch.randn(4, 9)
    marked = torch.zeros(4, 9)
    marked[:, 2:5] = 1
    everywhere = torch.ones(4, 9, dtype=torch.bool)
    assert torch.allclose(code_loss(logits, y, torch.ones(3, 5)), torch.nn.BCEWithLogitsLoss()(logits, y))
    assert torch.allclose(tagging_loss(scores, marked, everywhere), torch.nn.BCEWithLogitsLoss()(scores, marked))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch would rather have batchmean
        expected = torch.nn.KLDivLoss()(torch.log_softmax(scores, 1), marked / 3)
    assert torch.allclose(attention_loss(scores, marked, everywhere), expected)
    nothing = tagging_loss(torch.zeros(4, 9), marked, everywhere)
    assert float(nothing) == pytest.approx(math.log(2)), "not larger for longer notes"


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_labels=st.integers(9, 12), ties=st.booleans())
def test_precision_at_8(seed: int, n_labels: int, ties: bool) -> None:
    from palpate.train.coding.training import precision_at

    rng = np.random.default_rng(seed)
    y, p = rng.integers(0, 2, (4, n_labels)).astype(np.uint8), rng.random((4, n_labels))
    p = p.round(1) if ties else p
    right = 0
    for note in range(4):
        order = sorted(range(n_labels), key=lambda label: (-p[note, label], label))
        right += sum(int(y[note, label]) for label in order[:8])
    assert precision_at(8, y, p) == pytest.approx(right / 32)


def test_the_papers_values_are_the_defaults() -> None:
    caml, can = CamlOptions(), EffectiveCanOptions()
    assert (can.lambda1, can.lambda2, can.max_tokens) == (2.5, 0.5, 3500)
    assert (caml.kernel, caml.filters, caml.embedding, caml.learning_rate) == (10, 50, 100, 1e-4)
    assert (caml.stop_on, caml.patience, caml.batch_size) == ("precision_at_8", 10, 16)
    assert (caml.measure(8), caml.measure(9)) == ("micro_f1", "precision_at_8")
    assert can.kernel == 9
    assert can.shape(50_000).channels == (100, 100, 150, 200)
    assert len(can.shape(2_000).channels) == 4
    assert (can.shape(9).tag_kernel, can.shape(9).tag_channels) == (9, 10)
    with pytest.raises(ValueError, match="`gamma` is given"):
        EffectiveCanOptions(gamma=1)


def test_effective_can_has_the_papers_size() -> None:
    """About 17 million weights with the 8,922 codes of MIMIC-III and the vocabulary of the public preprocessing."""
    from palpate.models.networks.coding.layers import CodingNetwork

    with torch.device("meta"):
        network = CodingNetwork(EffectiveCanOptions().shape(47_719), 51_919, 8_922)
    assert sum(weight.numel() for weight in network.parameters()) == pytest.approx(17e6, rel=0.04)
