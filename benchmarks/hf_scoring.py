"""How much of the time of scoring with a transformer is not the transformer.

Three ways to score the same notes with the same network, on one machine, taking turns:

    bare      forward passes only: tokenised beforehand, all notes sorted by length, batches by token budget
    palpate   `load_model` and `predict`, in calls of `rows_per_call` texts sorted by characters, tokenising included
    arrival   batches of 32 in the order of arrival, padded to the longest, tokenised beforehand

Claims: palpate takes at most 1.03 times as long as bare, at least 1.4 times less than arrival, and gives the same
numbers as bare to 1e-5. Exit code 1 if not.

Time is processor time of all threads, and torch has one: other work on the machine then counts little. But the same
forward pass takes 10% longer now and then, which hides 3%. So palpate's own time is compared with that of the forward
passes within it, times how many more tokens (padding included) they read than the bare ones. The plain ratio of the two
is printed beside it. Both claims are on the median over rounds.

    python benchmarks/hf_scoring.py [--notes 128] [--rounds 5] [--hidden 384] [--layers 6] [--threads 1]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.cases.edits import Inputs
from palpate.models import ModelSpec, load_model

Floats = NDArray[np.float64]
BUDGET = 4096
FIXED_ROWS = 32
MOST_SLOWER, LEAST_FASTER, MOST_DIFFERENT = 1.03, 1.4, 1e-5


def make_notes(n: int, rng: np.random.Generator) -> list[str]:
    """Notes of made-up words with the spread of a hospital's: many short ones, and some beyond the window."""
    letters = np.array(list("aaeeiioubcdfghklmnprstvy"))
    words = ["".join(rng.choice(letters, size=size)) for size in rng.integers(2, 10, size=3000)]
    frequency = 1 / np.arange(1, len(words) + 1)
    n_words = np.clip(rng.lognormal(np.log(150), 0.8, size=n), 25, 900).astype(int)
    return [" ".join(rng.choice(words, size=size, p=frequency / frequency.sum())) for size in n_words]


def write_checkpoint(folder: Path, notes: list[str], *, hidden: int, layers: int) -> None:
    """A BERT with random weights and a WordPiece vocabulary learned from the notes."""
    import torch
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    words = BertWordPieceTokenizer()
    words.train_from_iterator(notes, vocab_size=6000, show_progress=False)
    words.save(str(folder / "trained.json"))
    tokenizer = BertTokenizerFast(tokenizer_file=str(folder / "trained.json"), model_max_length=512)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        intermediate_size=4 * hidden,
        initializer_range=0.05,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


class Bare:
    """The network on its own, fed with batches that are ready."""

    def __init__(self, folder: Path, notes: list[str]) -> None:
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        self.network = AutoModelForSequenceClassification.from_pretrained(folder).float().eval()
        tokenizer = AutoTokenizer.from_pretrained(folder)
        self.ids: list[list[int]] = tokenizer(notes, truncation=True, max_length=512)["input_ids"]
        self.lengths = np.array([len(row) for row in self.ids])

    def batches_by_length(self) -> list[tuple[NDArray[np.int64], Any]]:
        order = np.argsort(-self.lengths, kind="stable")
        batches, first = [], 0
        while first < len(order):
            n_rows = max(BUDGET // int(self.lengths[order[first]]), 1)
            batches.append(self._batch(order[first : first + n_rows]))
            first += n_rows
        return batches

    def batches_by_arrival(self) -> list[tuple[NDArray[np.int64], Any]]:
        order = np.arange(len(self.ids))
        return [self._batch(order[first : first + FIXED_ROWS]) for first in range(0, len(order), FIXED_ROWS)]

    def _batch(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], Any]:
        import torch

        longest = int(self.lengths[rows].max())
        ids = torch.zeros((len(rows), longest), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for i, row in enumerate(rows):
            ids[i, : self.lengths[row]] = torch.tensor(self.ids[row])
            mask[i, : self.lengths[row]] = 1
        return rows, {"input_ids": ids, "attention_mask": mask}

    def score(self, batches: list[tuple[NDArray[np.int64], Any]]) -> Floats:
        import torch

        p = np.empty(len(self.ids))
        with torch.inference_mode():
            for rows, tensors in batches:
                p[rows] = self.network(**tensors).logits.softmax(-1)[:, 1].numpy()
        return p


def score_with_palpate(model: Any, notes: list[str]) -> Floats:
    """As the runner does it: sorted by characters, `rows_per_call` texts at a time."""
    order = np.argsort([len(text) for text in notes], kind="stable")
    p = np.empty(len(notes))
    for first in range(0, len(order), model.rows_per_call):
        rows = order[first : first + model.rows_per_call]
        p[rows] = model.predict(Inputs.from_texts([notes[row] for row in rows]))[:, 0]
    return p


class Passes:
    """Processor time and tokens of the forward passes of every network of a class."""

    def __init__(self, network: Any) -> None:
        self.seconds, self.tokens = 0.0, 0
        forward = network.forward

        def timed(*given: Any, **tensors: Any) -> Any:
            started = time.process_time()
            found = forward(*given, **tensors)
            self.seconds += time.process_time() - started
            self.tokens += tensors["input_ids"].numel()
            return found

        network.forward = timed

    def taken(self) -> tuple[float, int]:
        """Since it was last asked."""
        found = self.seconds, self.tokens
        self.seconds, self.tokens = 0.0, 0
        return found


class Turn(NamedTuple):
    """What one way took in one round."""

    seconds: float
    in_passes: float
    tokens: int


def take_turns(
    ways: dict[str, Callable[[], Floats]], rounds: int, passes: Passes
) -> tuple[dict[str, list[Turn]], dict[str, Floats]]:
    """What each way took in each round, and its last answer; the order changes from round to round."""
    turns: dict[str, list[Turn]] = {name: [] for name in ways}
    answers = {name: way() for name, way in ways.items()}
    passes.taken()
    names = list(ways)
    for n in range(rounds):
        for name in names[n % len(names) :] + names[: n % len(names)]:
            started = time.process_time()
            answers[name] = ways[name]()
            turns[name].append(Turn(time.process_time() - started, *passes.taken()))
    return turns, answers


def report(turns: dict[str, list[Turn]], answers: dict[str, Floats], n_tokens: int) -> bool:
    """Print the ratios; are the claims kept?"""
    seconds = {name: np.array([turn.seconds for turn in each]) for name, each in turns.items()}
    for name, times in seconds.items():
        rounds = ", ".join(f"{t:.2f}" for t in times)
        print(f"{name:8} {np.median(times):7.2f} s  {n_tokens / np.median(times):7.0f} tokens/s   rounds {rounds}")
    padded = turns["palpate"][0].tokens / turns["bare"][0].tokens
    slower = float(np.median([turn.seconds / turn.in_passes for turn in turns["palpate"]])) * padded
    faster = float(np.median(seconds["arrival"] / seconds["palpate"]))
    difference = float(np.abs(answers["palpate"] - answers["bare"]).max())
    print(f"palpate / its forward passes {slower / padded:.3f}, {padded:.3f} times the tokens of the bare ones")
    print(f"total by total     {np.median(seconds['palpate'] / seconds['bare']):.3f}")
    print(f"palpate / bare     {slower:.3f}  (at most {MOST_SLOWER})")
    print(f"arrival / palpate  {faster:.2f}  (at least {LEAST_FASTER})")
    print(f"largest difference {difference:.1e}  (at most {MOST_DIFFERENT:.0e}; spread {np.ptp(answers['bare']):.2f})")
    return slower <= MOST_SLOWER and faster >= LEAST_FASTER and difference <= MOST_DIFFERENT


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    for name, default in (("notes", 128), ("rounds", 5), ("hidden", 384), ("layers", 6), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    notes = make_notes(asked.notes, np.random.default_rng(0))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_checkpoint(folder, notes, hidden=asked.hidden, layers=asked.layers)
        model = load_model(
            ModelSpec("bert", f"hf:{folder}", options={"batch_tokens": BUDGET, "threads": asked.threads})
        )
        bare = Bare(folder, notes)
        by_length, by_arrival = bare.batches_by_length(), bare.batches_by_arrival()
        low, middle, high = np.percentile(bare.lengths, [5, 50, 95])
        print(f"{len(notes)} notes, {bare.lengths.sum()} tokens; 5%, 50%, 95%: {low:.0f}, {middle:.0f}, {high:.0f}")
        ways = {
            "bare": lambda: bare.score(by_length),
            "palpate": lambda: score_with_palpate(model, notes),
            "arrival": lambda: bare.score(by_arrival),
        }
        turns, answers = take_turns(ways, asked.rounds, Passes(type(bare.network)))
    return 0 if report(turns, answers, int(bare.lengths.sum())) else 1


if __name__ == "__main__":
    sys.exit(main())
