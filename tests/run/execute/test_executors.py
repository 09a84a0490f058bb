"""The contract of executors: the same answers, whatever runs the model and whatever dies on the way."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from palpate.cases.edits import Inputs
from palpate.errors import ConfigError, ModelDied
from palpate.models import ModelSpec, load_here
from palpate.models.protocol import Model
from palpate.results import Asked
from palpate.run.execute import Execution
from palpate.run.execute.calls import CallResult, Calls, write_shards
from palpate.run.execute.cluster import RayOptions, ShippedFiles, check_answers, check_nodes, check_target, unpacked
from palpate.run.execute.ray import _check_room as check_room
from palpate.run.execute.ray import _start as start_ray

FOLDER = Path(__file__).parent
SPEC = ModelSpec("m", "python:mortal_model:scores", str(FOLDER), {"labels": ["ill"]})
CLUSTER = pytest.param(Execution("ray", 1), marks=pytest.mark.cluster, id="ray")
WORKERS = pytest.param(Execution("local", 2), id="workers")
EXECUTORS = [pytest.param(Execution(), id="here"), WORKERS, CLUSTER]
MORTAL = [WORKERS, CLUSTER]
SLOW = [pytest.param(Execution("local", 2), marks=pytest.mark.slow, id="workers"), CLUSTER]


@pytest.fixture(scope="module", autouse=True)
def _no_ray_is_left() -> Iterator[None]:
    yield
    if "ray" in sys.modules:
        sys.modules["ray"].shutdown()


@pytest.fixture
def model() -> Model:
    return load_here(SPEC)


@pytest.fixture
def mortal(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the model's workers look; one and the same, as a Ray worker keeps its environment."""
    folder = tmp_path_factory.getbasetemp() / "mortal"
    folder.mkdir(exist_ok=True)
    monkeypatch.setenv("PALPATE_MORTAL", str(folder))
    return folder


def texts_in_calls(n: int = 40, size: int = 7) -> Calls:
    inputs = Inputs.from_texts([f"note {k} \ud800 é" if k % 5 else "" for k in range(n)])
    order = np.random.default_rng(0).permutation(n)
    return Calls(inputs, [order[begin : begin + size] for begin in range(0, n, size)])


def by_number(results: Iterator[CallResult]) -> list[CallResult]:
    return sorted(results, key=lambda result: result.number)


@pytest.mark.parametrize("execution", EXECUTORS)
def test_every_call_is_answered_once_and_alike(execution: Execution, model: Model, mortal: Path) -> None:
    calls = texts_in_calls()
    found = by_number(execution.ask(SPEC, model, calls))
    assert [result.number for result in found] == list(range(len(calls)))
    for result, call in zip(found, calls, strict=True):
        assert np.array_equal(result.p, model.predict(call.inputs))


@pytest.mark.parametrize("execution", SLOW)
def test_explanations_are_alike(execution: Execution, model: Model, mortal: Path) -> None:
    inputs = Inputs.from_texts([f"fever {k} and cough" for k in range(6)])
    asked = [Asked(np.arange(3), np.zeros(3, np.int64)) for _ in range(2)]
    calls = Calls(inputs, [np.arange(3), np.arange(3, 6)], asked, "lime")
    found = by_number(execution.ask(SPEC, model, calls))
    here = by_number(Execution().ask(SPEC, model, calls))
    for one, other in zip(found, here, strict=True):
        assert one.found is not None
        assert other.found is not None
        assert len(one.found.row) > 0
        assert all(np.array_equal(a, b) for a, b in zip(one.found, other.found, strict=True))


@pytest.mark.parametrize("execution", MORTAL)
def test_workers_that_die_are_replaced(execution: Execution, model: Model, mortal: Path) -> None:
    (mortal / "dies-0").touch()
    calls = texts_in_calls()
    found = by_number(execution.ask(SPEC, model, calls))
    assert not list(mortal.iterdir())
    assert [result.number for result in found] == list(range(len(calls)))
    assert all(np.array_equal(a.p, model.predict(b.inputs)) for a, b in zip(found, calls, strict=True))


@pytest.mark.parametrize("execution", SLOW)
def test_a_model_that_no_worker_survives_ends_in_one_sentence(
    execution: Execution, model: Model, mortal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palpate.run.execute.local.MOST_DEATHS", 2)
    for k in range(50):
        (mortal / f"dies-{k}").touch()
    with pytest.raises(ModelDied, match=r"model 'm': its worker (process )?died \d times"):
        list(execution.ask(SPEC, model, texts_in_calls(4, 4)))
    for file in mortal.iterdir():
        file.unlink()


def test_a_plan_in_shards_has_no_text(tmp_path: Path) -> None:
    calls = Calls(Inputs.from_texts(["scrofula in secret"] * 600), [np.array([k]) for k in range(600)])
    shards = write_shards(calls, tmp_path)
    assert [n for _, n in shards] == [256, 256, 88]
    assert not any(b"scrofula" in path.read_bytes() for path, _ in shards)


@pytest.mark.parametrize("address", ["10.1.2.3:6379", "ray-head.hospital.example:6379"])
def test_notes_do_not_leave_this_machine_without_consent(address: str) -> None:
    with pytest.raises(ConfigError, match=r"is not this machine, and notes would be sent there by Ray"):
        check_target(RayOptions(address=address))
    check_target(RayOptions(address=address, allow_remote=True))


def test_the_address_of_the_environment_needs_the_same_consent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.1.2.3:6379")
    for address in (None, "auto"):
        with pytest.raises(ConfigError, match=r"10.1.2.3 is not this machine"):
            check_target(RayOptions(address=address))
    check_target(RayOptions(address="local"))


def test_a_cluster_with_another_node_needs_consent_too() -> None:
    check_nodes(["127.0.0.1", "localhost"], RayOptions(address="auto"))
    with pytest.raises(ConfigError, match=r"10.9.9.9 is not this machine"):
        check_nodes(["127.0.0.1", "10.9.9.9"], RayOptions(address="auto"))


@pytest.mark.parametrize("address", ["ray://127.0.0.1:10001", "somewhere", "127.0.0.1:", ":6379", "host:port"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match=r"can't be used|is not the address"):
        check_target(RayOptions(address=address, allow_remote=True))


def test_where_nothing_answers_one_sentence_says_so() -> None:
    with pytest.raises(ConfigError, match=r"no Ray cluster answers at 127.0.0.1:9 \(Connection refused\)"):
        check_answers("127.0.0.1:9")


def test_a_shipped_model_is_the_same_model(model: Model, tmp_path: Path) -> None:
    shipped = ShippedFiles(SPEC)
    assert shipped.content is not None
    there = load_here(unpacked(shipped.spec, shipped.content, tmp_path))
    texts = Inputs.from_texts([f"note {k}" for k in range(9)])
    assert np.array_equal(there.predict(texts), model.predict(texts))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mortal_model.py"]


class BusyRay:
    """Ray on a machine that is too busy for its first starts, and has no GPU."""

    def __init__(self, late: int) -> None:
        self.late, self.starts, self.ends = late, list[dict[str, object]](), 0

    def init(self, **given: object) -> None:
        self.starts.append(given)
        if len(self.starts) <= self.late:
            raise Exception("The current node timed out during startup. This could ...")

    def shutdown(self) -> None:
        self.ends += 1


def test_ray_is_started_again_where_it_was_late() -> None:
    ray = BusyRay(late=2)
    start_ray(ray, RayOptions(address="local", num_gpus=2), 2)
    assert (len(ray.starts), ray.ends) == (3, 2)
    assert "num_gpus" not in ray.starts[0], "Ray counts the GPUs itself"
    ray = BusyRay(late=1)
    with pytest.raises(ConfigError, match="timed out"):
        start_ray(ray, RayOptions(address="auto"), 1)
    assert len(ray.starts) == 1


def test_more_gpus_than_there_are_is_one_sentence() -> None:
    two = {"CPU": 4.0, "GPU": 2.0}
    check_room(two, RayOptions(num_gpus=0.5), 4)
    for has, options, n, said in [
        (two, RayOptions(num_gpus=1), 3, "3 workers with 1 GPU each need 3, and the Ray cluster has 2"),
        ({"CPU": 4.0}, RayOptions(address="local", num_gpus=1), 1, "1 GPU each need 1, and the Ray cluster has 0"),
        ({"CPU": 4.0}, RayOptions(address="local", num_gpus=1, concurrency=(1, 4)), 1, "has 0"),
    ]:
        with pytest.raises(ConfigError, match=said):
            check_room(has, options, n)
    check_room({}, RayOptions(address="auto", num_gpus=1, concurrency=(1, 4)), 1)  # it may grow


def test_a_ray_that_does_not_start_is_one_sentence() -> None:
    class Slow:
        """Ray on a machine that is too busy for it."""

        @staticmethod
        def shutdown() -> None:
            pass

        @staticmethod
        def init(**_: object) -> None:
            raise Exception("The current node timed out during startup.\nThis could happen because ...")

    with pytest.raises(ConfigError, match=r"can't start Ray on this machine \(The current node timed out .*\)"):
        start_ray(Slow, RayOptions(address="local"), 1)
    with pytest.raises(ConfigError, match=r"can't connect to the Ray cluster 'auto' \(The current node timed out"):
        start_ray(Slow, RayOptions(address="auto"), 1)
