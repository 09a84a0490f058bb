"""Every registered model adapter keeps the contract of `palpate.models`."""

from __future__ import annotations

import pickle
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palpate import registry
from palpate.cases.edits import Inputs
from palpate.models import Model, ModelSpec, load_model
from palpate.run.execute import Execution
from palpate.run.execute.calls import Calls
from palpate.testing import model_contract as contract
from tests.contracts import changed_weights, plain_models, torch_and_remote_models

MODULES: tuple[Any, ...] = (plain_models, torch_and_remote_models)
FACTORIES: dict[str, Callable[[Path], ModelSpec]] = {}
CHANGES: dict[str, Callable[[Path], Any]] = {}
for module in MODULES:
    FACTORIES |= module.FACTORIES
    CHANGES |= getattr(module, "CHANGES", {})
TORCH = [
    *("hf bert", "palpate caml"),
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("hf roberta sliding", "hf chunked", "palpate effective-can", "palpate plm-icd")
    ),
]
SLOW = ("hf chunked", "palpate plm-icd")


def is_remote(spec: ModelSpec) -> bool:
    return spec.source.startswith(("http:", "https:"))


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in FACTORIES]
)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def spec(name: str, tmp_path_factory: pytest.TempPathFactory) -> ModelSpec:
    return FACTORIES[name](tmp_path_factory.mktemp(name))


@pytest.fixture(scope="module")
def model(spec: ModelSpec) -> Iterator[Model]:
    loaded = load_model(spec)
    yield loaded
    loaded.close()


@pytest.mark.parametrize("check", contract.MODEL_CHECKS, ids=lambda check: check.__name__)
def test_model(check: Callable[[Model], None], model: Model) -> None:
    check(model)


def test_fingerprint_is_stable(spec: ModelSpec) -> None:
    contract.check_fingerprint_is_stable(spec)


def test_fingerprint_changes_with_the_option_of_that_name(spec: ModelSpec) -> None:
    other = replace(spec, options={**spec.options, "fingerprint": "a second version"})
    assert changed_weights.fingerprint(other) != changed_weights.fingerprint(spec)


def test_fingerprint_and_answers_change_with_the_file(name: str, tmp_path: Path) -> None:
    spec = FACTORIES[name](tmp_path)
    if is_remote(spec):
        pytest.skip("an endpoint has no file that palpate can see")
    before = load_model(spec)
    p_before = before.predict(Inputs.from_texts(contract.TEXTS))
    before.close()
    if name in CHANGES:
        CHANGES[name](tmp_path)
    else:
        assert changed_weights.change_weights(tmp_path), "CHANGES must say how to change this model"
    after = load_model(spec)
    p_after = after.predict(Inputs.from_texts(contract.TEXTS))
    after.close()
    assert before.fingerprint != after.fingerprint
    assert not np.array_equal(p_before, p_after)


def test_a_copy_in_another_folder_is_the_same_model(spec: ModelSpec, tmp_path: Path) -> None:
    if is_remote(spec):
        pytest.skip("an endpoint has no file that palpate can see")
    shutil.copytree(spec.folder, tmp_path / "copy")
    assert changed_weights.fingerprint(replace(spec, folder=str(tmp_path / "copy"))) == changed_weights.fingerprint(
        spec
    )


def test_unknown_option_is_named(spec: ModelSpec) -> None:
    contract.check_unknown_option(spec)


def test_missing_file_is_named(spec: ModelSpec) -> None:
    if is_remote(spec) or spec.source.startswith("python:"):
        pytest.skip("the target of this scheme is no file")
    contract.check_missing_file(spec)


def test_spec_can_be_sent_to_a_worker(spec: ModelSpec) -> None:
    assert pickle.loads(pickle.dumps(spec)) == spec


@pytest.mark.slow
def test_loads_in_a_fresh_process(spec: ModelSpec, model: Model) -> None:
    contract.check_loads_in_a_fresh_process(spec, model)


@pytest.mark.parametrize(
    "options",
    [
        *({"device": "cpu"}, {"device": "auto"}, {"dtype": "bfloat16"}),
        pytest.param({"dtype": "float16"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", TORCH)
def test_devices_and_precisions(name: str, options: dict[str, str], tmp_path: Path) -> None:
    given = FACTORIES[name](tmp_path)
    spec = replace(given, options={**given.options, **options})
    plain, model = load_model(given), load_model(spec)
    contract.check_model_contract(model)
    contract.check_fingerprint_is_stable(spec)
    inputs = Inputs.from_texts(contract.TEXTS)
    lowered = "dtype" in options
    assert (model.fingerprint != plain.fingerprint) is lowered
    assert model.rounding == {"bfloat16": 0.03, "float16": 0.004}.get(options.get("dtype", ""), 1e-6)
    p, p_plain = model.predict(inputs), plain.predict(inputs)
    np.testing.assert_allclose(p, p_plain, rtol=0, atol=model.rounding)
    assert np.array_equal(p, p_plain) is not lowered, "16 bit is another computation"


EXECUTIONS = pytest.mark.parametrize(
    "execution",
    [
        pytest.param(Execution("local", 2), marks=pytest.mark.slow, id="workers"),
        pytest.param(Execution("ray", 1), marks=pytest.mark.cluster, id="ray"),
    ],
)
EXECUTED = (
    *("sklearn-words", "palpate-sklearn", "palpate-tfidf-xgboost", "python", "predictions"),
    *("hf bert", "hf chunked", "palpate caml", "palpate plm-icd", "onnx strings", "http", "http chat"),
)
"""One of each adapter and kind of model."""


def check_executor(spec: ModelSpec, execution: Execution) -> None:
    """Elsewhere the same as here: to the last digit, or to the rounding of a network with other threads."""
    model = load_model(spec)
    calls = Calls(Inputs.from_texts(asked := contract.asked_texts()[:8]), [np.arange(3), np.arange(3, len(asked))])
    try:
        found = sorted(execution.ask(spec, model, calls), key=lambda result: result.number)
    finally:
        if "ray" in sys.modules:
            sys.modules["ray"].shutdown()
    here = list(Execution().ask(spec, model, calls))
    model.close()
    assert len(found) == len(here) == 2
    for one, other in zip(found, here, strict=True):
        atol = model.rounding if spec.source.startswith("hf:") or spec.name == "coding" else 0.0
        np.testing.assert_allclose(one.p, other.p, rtol=0, atol=atol)


@EXECUTIONS
@pytest.mark.parametrize("name", EXECUTED)
def test_executors_give_what_is_given_here(name: str, execution: Execution, tmp_path: Path) -> None:
    check_executor(FACTORIES[name](tmp_path), execution)


@EXECUTIONS
@pytest.mark.parametrize("name", ["hf bert", "palpate caml"])
def test_executors_load_devices_and_precisions(name: str, execution: Execution, tmp_path: Path) -> None:
    check_executor(replace(FACTORIES[name](tmp_path), options={"device": "cpu", "dtype": "bfloat16"}), execution)


def test_every_scheme_is_executed_elsewhere(tmp_path_factory: pytest.TempPathFactory) -> None:
    schemes = {FACTORIES[n](tmp_path_factory.mktemp(n)).source.partition(":")[0] for n in EXECUTED}
    assert schemes >= set(registry.names("models")) - {"https"}


def test_every_scheme_is_under_contract(tmp_path_factory: pytest.TempPathFactory) -> None:
    schemes = {factory(tmp_path_factory.mktemp(n)).source.partition(":")[0] for n, factory in FACTORIES.items()}
    assert schemes >= set(registry.names("models")) - {"https"}
