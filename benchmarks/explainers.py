"""What ways of explaining cost, as ratios to gradient times input; prints one table.

    python benchmarks/explainers.py [--texts 4]

An untrained BERT (6 layers of 384) and an untrained CAML of the paper's size explain a few notes for two labels each.
Bare gradients, one backward pass a text and label, are the unit; occlusion is counted word by word.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from hf_scoring import make_notes, write_checkpoint
from palpate.cases.edits import Edit, Inputs, splice
from palpate.models import ModelSpec, load_model
from palpate.models.adapters.palpate import save_network
from palpate.models.networks.coding.words import WordWindow, learn_words
from palpate.models.protocol import Model
from palpate.models.text.sampling import explain_by_sampling
from palpate.results import SAMPLED, Asked
from palpate.stats.evidence import tokenise
from palpate.train.coding.options import CamlOptions

BARE = "gradient_x_input"
AT_MOST = {"integrated_gradients": 100.0, "attingrad": 10.0}
"""Integrated gradients take 50 steps; AttInGrad one backward pass and one look at the attention."""


def occlude(model: Model, texts: list[str]) -> None:
    for text in texts:
        words = tokenise([text], largest_number=None)
        places = zip(words.begin.tolist(), words.end.tolist(), strict=True)
        model.predict(Inputs.from_texts([splice(text, [Edit(*place, " ")]) for place in places]))


def seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def costs(model: Model, texts: list[str]) -> dict[str, float]:
    n = len(model.labels)
    asked = Asked(np.repeat(np.arange(len(texts)), n), np.tile(np.arange(n), len(texts)))
    inputs = Inputs.from_texts(texts)
    model.explain(inputs, asked, BARE)  # what is loaded on first use does not count
    took = {way: seconds(lambda way=way: model.explain(inputs, asked, way)) for way in model.explains}  # type: ignore[misc]
    for way in SAMPLED:
        took[way] = seconds(lambda way=way: explain_by_sampling(model, inputs, asked, way))  # type: ignore[misc]
    took["occlusion"] = seconds(lambda: occlude(model, texts))
    return {way: spent / took[BARE] for way, spent in took.items()}


def write_caml(folder: Path, notes: list[str]) -> None:
    """An untrained network for two labels that reads 3,500 words."""
    from palpate.models.networks.coding.layers import CodingNetwork
    from palpate.models.networks.coding.model import write_coding

    words = learn_words(notes, np.arange(len(notes)), min_patients=1, max_words=None)
    window = WordWindow(words, 3500)
    network = CodingNetwork(CamlOptions().shape(len(notes)), window.n_ids, 2)
    save_network(folder, "coding", lambda home: write_coding(home, network, window), labels=["a", "b"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--texts", type=int, default=4)
    given = parser.parse_args()
    notes = make_notes(64, np.random.default_rng(0))
    texts = sorted(notes, key=len)[32 : 32 + given.texts]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "bert").mkdir()
        write_checkpoint(home / "bert", notes, hidden=384, layers=6)
        write_caml(home / "caml", notes)
        specs = {"hf: (BERT)": "hf:bert", "palpate: (CAML)": "palpate:caml"}
        found = {name: costs(load_model(ModelSpec(name, spec, folder=folder)), texts) for name, spec in specs.items()}
    n_words = sum(len(text.split()) for text in texts) / len(texts)
    print(f"cost of an explanation, gradient × input = 1 ({given.texts} texts of {n_words:.0f} words)")
    print(f"| way | {' | '.join(found)} |\n|---|{'---:|' * len(found)}")
    for way in dict.fromkeys(way for each in found.values() for way in each):
        print(f"| {way} | {' | '.join(f'{each[way]:.1f}' if way in each else '–' for each in found.values())} |")
    return int(any(each[way] > most for each in found.values() for way, most in AT_MOST.items()))


if __name__ == "__main__":
    sys.exit(main())
