"""Devices and precisions: chosen in one place, refused before loading, the same numbers whatever the batches.

There is no GPU here. What a GPU would get is recorded by devices that only pretend to be one; `meta` shows that every
tensor a network needs goes through the device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import palpate
from palpate.cases.edits import Inputs
from palpate.errors import ConfigError, ModelError
from palpate.models import ModelSpec, load_model
from palpate.models.devices import Device, DeviceOptions, budget_of, check_device, device_named, lower, weight_bytes
from palpate.results import Asked
from tests.contracts.torch_and_remote_models import coding
from tests.models.tiny_checkpoints import checkpoint, note

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoint(tmp_path_factory.mktemp("bert"), names=["not returns", "returns"])


@pytest.fixture(scope="module")
def notes() -> list[str]:
    rng = np.random.default_rng(5)
    return [note(rng, n) for n in (3, 25, 9, 1, 60, 14, 2, 31)]


def load(path: Path, **options: Any) -> Any:
    return load_model(ModelSpec("m", f"hf:{path}", options=options))


# --- choosing -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["gpu", "cuda:x", "cuda1", "tpu", "", "cpu:0", "CUDA:-1"])
def test_unknown_device_is_refused_with_what_there_is(bert: Path, wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"option 'device' .* is not auto, cpu, cuda.* this machine has cpu"):
        load(bert, device=wrong)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
@pytest.mark.parametrize("wanted", ["cuda", "cuda:1", " CUDA "])
def test_a_gpu_that_is_not_there_is_refused_with_the_reason(bert: Path, wanted: str) -> None:
    with pytest.raises(ConfigError, match=r"not on this machine: .*; there is cpu; `auto`") as refused:
        load(bert, device=wanted)
    assert refused.value.exit_code == 2


def test_the_gpu_is_asked_for_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [device_named(name) for name in ("auto", "cuda", "cuda:1", "cpu")] == ["cuda:0", "cuda:0", "cuda:1", "cpu"]
    with pytest.raises(
        ConfigError, match=r"'cuda:2' .* finds 2 CUDA GPU\(s\), counted from 0; there is cuda:0, cuda:1 and"
    ):
        device_named("cuda:2")


def test_cpu_needs_no_torch_to_be_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    check_device(DeviceOptions(device="cpu"))
    with pytest.raises(Exception, match=r"palpate\[torch\]"):
        check_device(DeviceOptions(device="cuda"))


# --- precision ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_sixteen_bit_is_autocast_in_half_the_memory(bert: Path, notes: list[str], dtype: Any) -> None:
    model, full = load(bert, dtype=dtype), load(bert)
    got = model.predict(Inputs.from_texts(notes))
    full._passes.device = Device("cpu", dtype)  # the same passes over weights in single precision
    np.testing.assert_array_equal(got, full.predict(Inputs.from_texts(notes)))
    assert model.runs_on == f"cpu, {dtype}"
    single = load(bert)
    assert single.runs_on == "cpu, float32"
    assert 0 < np.abs(got - single.predict(Inputs.from_texts(notes))).max() < model.rounding
    assert model.fingerprint != single.fingerprint
    layers = [m for m in model._network.modules() if isinstance(m, torch.nn.Linear)]
    assert {str(m.weight.dtype) for m in layers} == {f"torch.{dtype}"}
    assert model._network.get_input_embeddings().weight.dtype == torch.float32


def test_a_shared_weight_stays_in_single_precision() -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.out, self.inner = torch.nn.Embedding(7, 4), torch.nn.Linear(4, 7), torch.nn.Linear(4, 4)
            self.out.weight = self.words.weight

    network = Tied()
    lower(network, torch.bfloat16)
    assert network.out.weight is network.words.weight
    assert (network.out.weight.dtype, network.inner.weight.dtype) == (torch.float32, torch.bfloat16)
    assert weight_bytes(network) == 4 * 28 + 2 * (7 + 16 + 4)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_explanations_in_sixteen_bit_are_close(bert: Path, notes: list[str], dtype: str) -> None:
    asked = Asked(np.arange(3), np.zeros(3, dtype=np.int64))
    for way in ("integrated_gradients", "attention_rollout"):
        a, b = (load(bert, dtype=d, steps=8).explain(Inputs.from_texts(notes), asked, way) for d in ("float32", dtype))
        np.testing.assert_array_equal(a.start, b.start)
        assert np.abs(a.score - b.score).max() < 0.1 * np.abs(a.score).max()


def test_deeplift_in_float16_divides_without_overflow(tmp_path: Path, notes: list[str]) -> None:
    spec, inputs = coding(tmp_path, "effective-can", "cnn"), Inputs.from_texts(notes[:3])
    asked = Asked(np.arange(3), np.zeros(3, dtype=np.int64))
    a, b = (
        load_model(replace(spec, options={"dtype": dtype})).explain(inputs, asked, "deeplift").score
        for dtype in ("float32", "float16")
    )
    assert np.abs(a - b).max() < 0.1 * np.abs(a).max()


# --- passes ---------------------------------------------------------------------------------------------------


def failing(network: Any, most: int, error: Callable[[], Exception]) -> list[int]:
    """Let passes of more than `most` tokens fail as they do where memory runs out; returns the sizes of all passes."""
    sizes: list[int] = []

    def hook(_: Any, args: Any, kwargs: Any) -> None:
        ids = kwargs["input_ids"] if "input_ids" in kwargs else args[0]
        sizes.append(ids.numel())
        if ids.numel() > most:
            raise error()

    network.register_forward_pre_hook(hook, with_kwargs=True)
    return sizes


ERRORS = [
    lambda: torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    lambda: RuntimeError("MPS backend out of memory (MPS allocated: 17 GB)"),
    lambda: RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory"),
]


@pytest.mark.parametrize("error", ERRORS)
def test_batches_are_halved_where_memory_runs_out(bert: Path, notes: list[str], error: Callable[[], Exception]) -> None:
    model = load(bert)
    whole = model.predict(Inputs.from_texts(notes))
    sizes = failing(model._network, 70, error)
    np.testing.assert_allclose(model.predict(Inputs.from_texts(notes)), whole, atol=1e-6)
    failed = [size for size in sizes if size > 70]
    assert 1 <= len(failed) <= 2, "halved, not searched"
    sizes.clear()
    model.predict(Inputs.from_texts(notes))
    assert max(sizes) <= 70, "what did not fit is not tried again"
    (said,) = model.notices
    assert "memory of cpu ran out" in said


def test_a_single_text_that_does_not_fit_is_an_error(bert: Path, notes: list[str]) -> None:
    model = load(bert)
    failing(model._network, 4, ERRORS[0])
    with pytest.raises(ModelError, match="too small for a single input of 32 tokens; lower `max_tokens`"):
        model.predict(Inputs.from_texts(notes))


def test_other_errors_are_not_taken_for_lack_of_memory(bert: Path, notes: list[str]) -> None:
    model = load(bert)
    sizes = failing(model._network, 0, lambda: RuntimeError("index out of range in self"))
    with pytest.raises(RuntimeError, match="index"):
        model.predict(Inputs.from_texts(notes))
    assert len(sizes) == 1


def test_explanations_are_halved_too(bert: Path, notes: list[str]) -> None:
    inputs, asked = Inputs.from_texts(notes), Asked(np.arange(8), np.zeros(8, dtype=np.int64))
    for way in ("integrated_gradients", "attention_rollout"):
        model = load(bert, steps=8)
        whole = model.explain(inputs, asked, way)
        failing(model._network, 70, ERRORS[0])
        np.testing.assert_allclose(model.explain(inputs, asked, way).score, whole.score, atol=1e-5)


def test_a_coding_network_is_halved_too(tmp_path: Path, notes: list[str]) -> None:
    model: Any = load_model(coding(tmp_path, "caml"))
    whole = model.predict(Inputs.from_texts(notes))
    failing(model._network, 40, ERRORS[0])
    np.testing.assert_allclose(model.predict(Inputs.from_texts(notes)), whole, atol=1e-6)
    assert len(model.notices) == 1


def test_the_notice_reaches_the_run(bert: Path, tmp_path: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(bert)
    network = transformers.AutoModelForSequenceClassification.from_pretrained(bert)
    failing(network, 64, ERRORS[0])
    table = {"text": [f"patient number {k} with fever and chest pain" for k in range(40)], "returns": [0, 1] * 20}
    made = palpate.audit(
        pl.DataFrame(table),
        text="text",
        labels=["returns"],
        models={"bert": (network, tokenizer)},
        audits=["performance"],
        out=tmp_path / "run",
    )
    manifest = (tmp_path / "run" / "manifest.json").read_text()
    assert manifest.count("memory of cpu ran out") == 1
    assert made is not None


def test_budget_follows_memory() -> None:
    assert budget_of(None, 10**6, usual=4096) == 4096
    assert budget_of(0, 10**6, usual=4096) == 4096
    assert budget_of(10**12, 10**5, usual=4096) == 65_536
    assert budget_of(10_000 * 10**5, 10**5, usual=4096) == 8192


# --- what a GPU would get -------------------------------------------------------------------------------------


class Pretended:
    """A tensor that notes how it is moved."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def pin_memory(self) -> Pretended:
        self.calls.append("pinned")
        return self

    def to(self, name: str, **how: Any) -> Pretended:
        self.calls.append((name, how))
        return self


def test_transfers_are_pinned_for_cuda_only() -> None:
    for name, expected in (
        ("cuda:1", ["pinned", ("cuda:1", {"non_blocking": True})]),
        ("mps", [("mps", {})]),
        ("cpu", [("cpu", {})]),
    ):
        tensor = Pretended()
        Device(name).move(tensor)
        assert tensor.calls == expected


def test_outputs_are_fetched_behind_the_next_pass() -> None:
    order: list[str] = []

    class Out:
        def __init__(self, name: str) -> None:
            self.name = name

    class Slow(Device):
        def array(self, tensor: Any) -> Any:
            order.append(f"fetch {tensor.name}")
            return np.zeros(1)

    def forward(rows: Any) -> Out:
        order.append(f"run {rows[0]}")
        return Out(str(rows[0]))

    list(Slow().passes(np.array([3, 2, 1]), forward, budget=1))
    assert order == ["run 0", "run 1", "fetch 0", "run 2", "fetch 1", "fetch 2"]


class OnMeta(Device):
    """Every tensor on `meta`, where an operation with one on the CPU fails; outputs become zeros."""

    def __init__(self) -> None:
        super().__init__("meta")

    def array(self, tensor: Any) -> Any:
        assert tensor.device.type == "meta"
        return np.zeros(tensor.shape, dtype=np.float32)


def test_every_tensor_of_a_coding_network_goes_through_the_device(tmp_path: Path, notes: list[str]) -> None:
    model: Any = load_model(coding(tmp_path, "effective-can", "cnn"))
    model._network.to("meta")
    with pytest.raises((RuntimeError, NotImplementedError)):
        model.predict(Inputs.from_texts(notes))
    model._device = OnMeta()
    assert model.predict(Inputs.from_texts(notes)).shape == (len(notes), 2)
    asked = Asked(np.arange(2), np.zeros(2, dtype=np.int64))
    for way in model.explains:
        assert len(model.explain(Inputs.from_texts(notes), asked, way).row)


def test_every_tensor_of_a_transformer_goes_through_the_device(bert: Path, notes: list[str]) -> None:
    model = load(bert)
    model._passes.device = OnMeta()

    def forward(**tensors: Any) -> Any:
        """In place of the network, which looks into the numbers of its mask."""
        assert {str(tensor.device) for tensor in tensors.values()} == {"meta"}
        return {"logits": torch.zeros(len(tensors["input_ids"]), 2, device="meta")}

    model._forward = forward
    np.testing.assert_array_equal(model.predict(Inputs.from_texts(notes)), 0.5)
