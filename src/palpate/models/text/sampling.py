"""LIME and KernelSHAP for any model that reads text, through Captum: random words are taken out, many times.

lime         a sparse linear model of the log-odds, in standard deviations, on which words stay; copies closer to the
             text weigh more (Ribeiro et al., 2016)
kernel_shap  the linear model whose weights estimate Shapley values: what a word adds, averaged over all sets of the
             other words (Lundberg and Lee, 2017)

A text of n words costs 2n + 100 copies, whatever the number of labels: all labels of a text are explained from the same
copies. The copies are the same in every run.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palpate.cases.edits import Edit, Inputs, splice
from palpate.errors import MissingExtra
from palpate.models.protocol import Model
from palpate.models.text.gradients import attributions_of
from palpate.results import SAMPLED, Asked, Attributions, no_attributions
from palpate.stats.evidence import tokenise

_BASE, _PER_WORD = 100, 2
_AT_ONCE = 64
_NEAREST_0 = 1e-7
Floats = NDArray[np.float64]


def explain_by_sampling(model: Model, inputs: Inputs, asked: Asked, way: str) -> Attributions:
    """A score for each word that the model reads, for each asked pair of a text and a label."""
    if way not in SAMPLED:
        raise ValueError(f"unknown explanation method {way!r}; the methods are {' and '.join(SAMPLED)}")
    if not len(asked.row):
        return no_attributions()
    order = np.argsort(asked.row, kind="stable")
    rows = np.unique(asked.row)
    texts = [inputs.texts[row] for row in rows.tolist()]
    seen = model.visible_ends(texts)
    offsets, scores = [], []
    for row, text, end in zip(rows.tolist(), texts, seen.tolist(), strict=True):
        copies = MaskedCopies(model, text, end)
        for label in asked.label[order[asked.row[order] == row]].tolist():
            offsets.append(copies.places or [(0, 0)])
            scores.append(copies.scores(label, way))
    sorted_asked = Asked(asked.row[order], asked.label[order])
    return attributions_of(sorted_asked, offsets, scores)


class MaskedCopies:
    """Copies of one text without some of its words; each is scored once, for all labels."""

    def __init__(self, model: Model, text: str, end: int) -> None:
        found = tokenise([text], largest_number=None)
        self.places = [(i, j) for i, j in zip(found.begin.tolist(), found.end.tolist(), strict=True) if i < end]
        self._model, self._text = model, text
        self._known: dict[bytes, Floats] = {}

    def scores(self, label: int, way: str) -> Floats:
        """A score for each word, for one label."""
        import torch

        try:
            from captum.attr import KernelShap, Lime
        except ImportError:
            raise MissingExtra("torch", needed_for=f"explaining a model by {way} (captum)") from None
        n = len(self.places)
        if n == 0:
            return np.zeros(1)
        if n == 1:  # nothing to sample
            both = self._log_odds(np.array([[True], [False]]), label)
            return both[:1] - both[1:]
        explainer = Lime if way == "lime" else KernelShap

        def attributed(scale: float) -> Floats:
            method = explainer(lambda kept: torch.from_numpy(self._answers(kept, label) / scale))
            torch.manual_seed(n)
            n_samples = _BASE + _PER_WORD * n
            found = method.attribute(
                torch.ones(1, n), baselines=0.0, n_samples=n_samples, perturbations_per_eval=_AT_ONCE
            )
            return np.asarray(found[0].double().numpy() * scale)

        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = attributed(1.0)
            if way != "lime":
                return found
            # The penalty that makes it sparse has a fixed size. The copies are known now, so a second fit is cheap.
            scale = self._spread(label)
            return attributed(scale) if scale > _NEAREST_0 else np.zeros(n)

    def _spread(self, label: int) -> float:
        """The standard deviation of the log-odds over all copies."""
        p = np.stack(list(self._known.values()))[:, label]
        return float(np.std(np.log(p) - np.log1p(-p)))

    def _answers(self, kept: Any, label: int) -> Floats:
        return self._log_odds(kept.numpy() > 0.5, label)

    def _log_odds(self, kept: NDArray[np.bool_], label: int) -> Floats:
        new = {mask.tobytes(): mask for mask in kept if mask.tobytes() not in self._known}
        if new:
            p = self._model.predict(Inputs.from_texts([self._without(mask) for mask in new.values()]))
            self._known.update(zip(new, np.clip(p, _NEAREST_0, 1 - _NEAREST_0), strict=True))
        p = np.stack([self._known[mask.tobytes()] for mask in kept])[:, label]
        return np.asarray(np.log(p) - np.log1p(-p))

    def _without(self, kept: NDArray[np.bool_]) -> str:
        gone = [Edit(*place, " ") for place, stays in zip(self.places, kept.tolist(), strict=True) if not stays]
        return splice(self._text, gone)
