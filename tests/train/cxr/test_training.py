"""Training on images: how they are augmented, when the learning rate falls, which weights are kept, what a stop costs.

The networks here are small, so that the loop is all there is to test; the real ones are in test_cxr.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palpate.errors import ConfigError
from palpate.train.cxr.images import augment, parts_of, shuffled_batches
from palpate.train.cxr.options import CxrTrainOptions

torch = pytest.importorskip("torch")
pytest.importorskip("monai")

N = 37


def small_network(*, norm: bool = False, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    layers = [torch.nn.AvgPool2d(8), torch.nn.Flatten(), torch.nn.Linear(16, 4)]
    layers += [torch.nn.BatchNorm1d(4)] if norm else []
    return torch.nn.Sequential(*layers, torch.nn.Tanh(), torch.nn.Linear(4, 2))


def examples(n: int = N, seed: int = 0) -> Any:
    from palpate.train.cxr.training import TrainingImages

    rng = np.random.default_rng(seed)
    y = (rng.random((n, 2)) < 0.5).astype(np.uint8)
    pixels = np.clip(rng.normal(90, 30, (n, 32, 32)) + 60 * y[:, :1, None], 0, 255).astype(np.uint8)
    return TrainingImages(pixels, y, np.ones((n, 2)))


def training(home: Path, network: Any = None, progress: Any = None, valid: Any = None, **options: Any) -> Any:
    from palpate.train.cxr.training import CxrTraining

    given: dict[str, Any] = {"mean": [0.5], "std": [0.25], "image_size": 32, "batch_size": 8, "learning_rate": 0.01}
    given["device"] = "cpu"
    own = CxrTrainOptions(**given | options)
    home.mkdir(exist_ok=True)
    return CxrTraining(
        network if network is not None else small_network(),
        examples(),
        valid if valid is not None else examples(20, seed=1),
        own,
        seed=3,
        home=home,
        progress=progress or (lambda _: None),
    )


# --- batches and variation ----------------------------------------------------------------------------------


@given(n=st.integers(2, 200), size=st.integers(2, 40), at_once=st.integers(2, 20), seed=st.integers(0, 5))
def test_every_picture_is_seen_once_and_never_alone(n: int, size: int, at_once: int, seed: int) -> None:
    batches = shuffled_batches(n, size, np.random.default_rng(seed))
    assert sorted(np.concatenate(batches).tolist()) == list(range(n))
    for batch in batches:
        assert 2 <= len(batch) <= size + 1
        parts = parts_of(batch, at_once)
        assert np.array_equal(np.concatenate(parts), batch)
        assert min(len(part) for part in parts) >= 2
        assert max(len(part) for part in parts) <= max(at_once, 3)


def grey(n: int = 4) -> Any:
    return torch.from_numpy(examples(n).pixels).float()[:, None]


def test_a_flip_mirrors_left_and_right() -> None:
    varied = augment(4, np.random.default_rng(0), flip=0.5, rotate=0)
    assert 0 < varied.flipped.sum() < 4
    out = varied.of(grey(), np.arange(4))
    for k, flipped in enumerate(varied.flipped):
        expected = grey()[k].flip(-1) if flipped else grey()[k]
        assert torch.equal(out[k], expected)


def test_a_quarter_turn_is_a_quarter_turn() -> None:
    varied = augment(4, np.random.default_rng(0), flip=0, rotate=0)._replace(degrees=np.full(4, 90, dtype=np.float32))
    out = varied.of(grey(), np.arange(4))
    turned = [torch.rot90(grey(), k, dims=(-2, -1)) for k in (1, 3)]
    assert min(float((out - each).abs().max()) for each in turned) < 0.01


def test_no_variation_changes_nothing() -> None:
    varied = augment(4, np.random.default_rng(0), flip=0, rotate=0)
    assert torch.equal(varied.of(grey(), np.arange(4)), grey())


def test_turns_stay_within_the_degrees_and_differ() -> None:
    degrees = augment(1000, np.random.default_rng(0), flip=0.5, rotate=15).degrees
    assert np.abs(degrees).max() <= 15
    assert degrees.std() == pytest.approx(15 / np.sqrt(3), rel=0.1)


def test_a_picture_is_varied_alike_in_whatever_batch() -> None:
    varied = augment(4, np.random.default_rng(0), flip=0.5, rotate=15)
    together = varied.of(grey(), np.arange(4))
    for k in range(4):
        assert torch.allclose(varied.of(grey()[[k]], np.array([k])), together[[k]], atol=1e-3)


# --- the loop -----------------------------------------------------------------------------------------------


def state(network: Any) -> list[Any]:
    return [value.clone() for value in network.state_dict().values()]


def test_parts_of_a_batch_add_up_to_the_batch(tmp_path: Path) -> None:
    """Without batch norms it does not matter in how many parts a step is done."""
    ends = []
    for at_once in (2, 5, 64):
        network = small_network()
        training(tmp_path / str(at_once), network, images_at_once=at_once, epochs=2).run()
        ends.append(state(network))
    for other in ends[1:]:
        assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(ends[0], other, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(ends[0], state(small_network()), strict=True))


def test_one_step_is_adams_on_the_mean_loss(tmp_path: Path) -> None:
    """Against the obvious: all pictures in one batch, plain torch."""
    from palpate.models.networks.vision.layers import prepare

    network, plain = small_network(), small_network()
    run = training(tmp_path, network, epochs=1, batch_size=64, flip=0, rotate=0)
    run.run()
    data, shape = examples(), CxrTrainOptions(mean=[0.5], std=[0.25], image_size=32).shape
    adam = torch.optim.Adam(plain.parameters(), lr=0.01)
    logits = plain(prepare(data.pixels, shape))
    torch.nn.functional.binary_cross_entropy_with_logits(logits, torch.from_numpy(data.y).float()).backward()
    adam.step()
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(state(network), state(plain), strict=True))


def test_the_rate_falls_and_the_training_ends_as_the_losses_say(tmp_path: Path) -> None:
    """Validation labels are the contrary of the training's, so the loss there soon rises for good."""
    contrary = examples(20, seed=1)
    contrary = contrary._replace(y=1 - contrary.y)
    rows = (
        training(tmp_path, valid=contrary, learning_rate=0.05, epochs=60, rate_patience=2, patience=5, rate_factor=0.5)
        .run()
        .history
    )
    losses = [row["validation_loss"] for row in rows]
    best = int(np.argmin(losses))
    assert len(rows) == best + 1 + 5 < 60
    rate, since = 0.05, 0
    for k, row in enumerate(rows):
        assert row["learning_rate"] == pytest.approx(rate), k
        since = 0 if losses[k] < min(losses[:k], default=np.inf) else since + 1
        if since and since % 2 == 0:
            rate *= 0.5
    assert rows[-1]["learning_rate"] < 0.05


def test_the_weights_of_the_best_epoch_stay(tmp_path: Path) -> None:
    contrary = examples(20, seed=1)
    contrary = contrary._replace(y=1 - contrary.y)
    run = training(tmp_path, valid=contrary, learning_rate=0.05, epochs=8)
    losses = [row["validation_loss"] for row in run.run().history]
    p = run.probabilities()
    own = -np.log(np.where(contrary.y == 1, p, 1 - p)).mean()
    assert own == pytest.approx(min(losses), abs=1e-6)
    assert min(losses) < losses[-1]


def test_a_loss_that_is_no_number_is_said(tmp_path: Path) -> None:
    network = small_network()
    network[2].weight.data.fill_(float("nan"))
    with pytest.raises(ConfigError, match=r"diverged \(learning rate 0.01\); choose a lower"):
        training(tmp_path, network).run()


class Stop(Exception):
    pass


@given(moments=st.lists(st.integers(1, 14), min_size=1, max_size=4))
@settings(max_examples=12, deadline=None)
def test_however_often_it_is_stopped_it_ends_with_the_same_weights(
    moments: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Stopped after any step, between saves, and gone on with from a new network, as a new process would."""
    home = tmp_path_factory.mktemp("loop")
    options = {"epochs": 3, "save_steps": 2, "rate_patience": 1}
    whole = small_network(norm=True)
    rows = training(home / "whole", whole, **options).run().history
    for moment in moments:
        seen = []

        def stop(step: Any, seen: list[Any] = seen, moment: int = moment) -> None:
            seen.append(step)
            if len(seen) == moment:
                raise Stop

        try:
            training(home / "cut", small_network(norm=True, seed=0), stop, **options).run()
        except Stop:
            continue
    end = small_network(norm=True, seed=0)
    assert training(home / "cut", end, **options).run().history == rows
    assert all(torch.equal(a, b) for a, b in zip(state(whole), state(end), strict=True))
