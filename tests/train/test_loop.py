"""The one training loop, with the smallest network there is: choosing, stopping, diverging, resuming."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palpate.errors import ConfigError
from palpate.models.networks import torch_threads
from palpate.train.options import TorchOptions

torch = pytest.importorskip("torch")

from palpate.train.loop import Training, shuffled_by_length  # noqa: E402  (needs torch)

N = 20


class Slope(Training):
    """Fits one weight to the slope of a line; `measures` replaces the validation, one number per epoch."""

    def __init__(self, home: Path, *, measures: Any = None, progress: Any = None, **given: Any) -> None:
        self._measures = list(measures) if measures is not None else None
        self.x = np.random.default_rng(0).normal(size=N).astype(np.float32)
        home.mkdir(exist_ok=True)
        rates, patience = given.pop("rates", (0.1,)), given.pop("patience", None)
        options = TorchOptions(device="cpu", **{"epochs": 3, "save_steps": 2, **given})
        network = torch.nn.Sequential(torch.nn.Linear(1, 1, bias=False), torch.nn.Dropout(0.5))
        torch.nn.init.constant_(network[0].weight, 0.0)
        super().__init__(
            network,
            options,
            n_examples=N,
            rates=rates,
            patience=patience,
            seed=5,
            home=home,
            progress=progress or (lambda _: None),
        )

    def new_optimizer(self) -> Any:
        return torch.optim.SGD(self.network.parameters(), lr=1.0)

    def batches(self) -> Any:
        return np.array_split(self.rng().permutation(N), 5)

    def row_facts(self) -> dict[str, Any]:
        return {"rate": self.learning_rate()}

    def _error(self, rows: Any) -> Any:
        x = torch.from_numpy(self.x[rows])[:, None]
        return ((self.network(x) - 2 * x) ** 2).mean()

    def losses(self, rows: Any) -> Any:
        return [self._error(rows)]

    def validate(self) -> float:
        if self._measures is not None:
            return float(self._measures[len(self.state.history)])
        with torch.inference_mode():
            return float(self._error(np.arange(N)))

    @property
    def weight(self) -> float:
        return float(self.network[0].weight.detach())


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """On a busy machine two threads of torch wait for each other most of the time."""
    with torch_threads(1):
        yield


def test_every_rate_starts_from_the_same_weights_and_random_numbers(tmp_path: Path) -> None:
    both = Slope(tmp_path / "both", rates=(0.1, 0.02)).run()
    alone = [Slope(tmp_path / str(rate), rates=(rate,)).run() for rate in (0.1, 0.02)]
    assert both.history == alone[0].history + alone[1].history
    assert both.best == min(both.history, key=lambda row: row["validation_loss"])


def test_the_weights_of_the_best_epoch_are_kept(tmp_path: Path) -> None:
    seen = []
    training = Slope(tmp_path / "m", measures=[3.0, 1.0, 1.0, 2.0], epochs=4)
    validate = training.validate

    def watch() -> float:
        seen.append(training.weight)
        return validate()

    training.validate = watch  # type: ignore[method-assign]
    outcome = training.run()
    assert outcome.best["epoch"] == 2, "of equal epochs the first"
    assert training.weight == seen[1] != seen[3]


def test_patience_ends_a_rate_and_the_next_one_has_its_own(tmp_path: Path) -> None:
    measures = [1.0, 2.0, 3.0, 9.0, 8.0, 7.0, 8.0, 9.0]
    outcome = Slope(tmp_path / "m", measures=measures, rates=(0.1, 0.05), patience=2, epochs=10).run()
    assert [(row["rate"], row["epoch"]) for row in outcome.history] == [
        *((0.1, epoch) for epoch in (1, 2, 3)),
        *((0.05, epoch) for epoch in (1, 2, 3, 4, 5)),
    ]


def test_a_score_is_the_better_the_higher_and_ends_the_training_where_it_is_perfect(tmp_path: Path) -> None:
    training = Slope(tmp_path / "m", measures=[0.5, 0.4, 1.0, 0.9], epochs=10)
    training.perfect, training.measure = 1.0, "f1"  # type: ignore[misc]
    outcome = training.run()
    assert (outcome.best["f1"], outcome.best["epoch"], len(outcome.history)) == (1.0, 3, 3)


@pytest.mark.parametrize("rates", [(1e30,), (1e30, 1e25)])
def test_a_training_that_only_diverges_is_refused(rates: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"diverged.*1e\+30.*choose a lower learning rate"):
        Slope(tmp_path / "m", rates=rates).run()


def test_a_step_that_does_not_fit_into_memory_says_what_to_do(tmp_path: Path) -> None:
    training = Slope(tmp_path / "m")

    def full(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    hook = training.network.register_forward_pre_hook(full)
    with pytest.raises(
        ConfigError,
        match=r"memory of cpu ran out in a step of 4 training examples; free.*new training.*a lower `batch_size`\.$",
    ):
        training.run()
    hook.remove()
    training.network.register_forward_pre_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        training.run()


def test_what_was_good_before_it_diverged_is_kept(tmp_path: Path) -> None:
    outcome = Slope(tmp_path / "m", measures=[2.0, float("nan"), 1.0], epochs=10).run()
    assert [row["validation_loss"] for row in outcome.history] == [2.0, None]
    assert outcome.best["epoch"] == 1
    later = Slope(tmp_path / "later", rates=(1e30, 0.1)).run()
    assert later.history[0] == {"epoch": 1, "rate": 1e30, "train_loss": None, "validation_loss": None}
    assert later.best["rate"] == 0.1


class Stop(Exception):
    pass


@given(moments=st.lists(st.integers(1, 25), min_size=1, max_size=4))
@settings(max_examples=15, deadline=None)
def test_however_often_it_is_stopped_it_ends_with_the_same_weights(
    moments: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Stopped after any step, between saves and between rates; dropout draws random numbers."""
    home = tmp_path_factory.mktemp("loop")
    whole = Slope(home / "whole", rates=(0.1, 0.02))
    rows = whole.run().history
    for moment in moments:
        left = [moment]

        def stop(_: Any, left: list[int] = left) -> None:
            left[0] -= 1
            if not left[0]:
                raise Stop

        try:
            Slope(home / "cut", rates=(0.1, 0.02), progress=stop).run()
        except Stop:
            continue
    end = Slope(home / "cut", rates=(0.1, 0.02))
    assert end.run().history == rows
    assert end.weight == whole.weight


def test_the_state_of_another_version_is_refused(tmp_path: Path) -> None:
    torch.save({"place": {}}, tmp_path / "state.pt")
    with pytest.raises(ConfigError, match="another version of palpate"):
        Slope(tmp_path).run()


def test_the_global_random_state_is_left_alone(tmp_path: Path) -> None:
    training = Slope(tmp_path / "m")
    before = torch.get_rng_state()
    training.run()
    assert torch.equal(torch.get_rng_state(), before)


@given(lengths=st.lists(st.integers(1, 9), max_size=200), size=st.integers(1, 7), seed=st.integers(0, 9))
def test_every_note_is_in_one_batch_with_notes_of_similar_length(lengths: list[int], size: int, seed: int) -> None:
    given = np.asarray(lengths, dtype=np.int64)
    batches = shuffled_by_length(given, size, np.random.default_rng(seed))
    assert sorted(np.concatenate([np.zeros(0, int), *batches]).tolist()) == list(range(len(lengths)))
    assert all(len(batch) <= size for batch in batches)
    if len(lengths) <= 32 * size and batches:
        ends = sorted((given[batch].min(), given[batch].max()) for batch in batches)
        assert all(a[1] <= b[1] and a[0] <= b[0] for a, b in pairwise(ends))
