"""Where torch networks compute and in which precision: chosen, moved to and brought back from in this one place.

    device   auto (a GPU if there is one), cpu, cuda, cuda:1, mps
    dtype    float32; bfloat16 or float16: the weights of matrix products and convolutions are held in 16 bit, and
             passes run under torch's autocast, which keeps norms, embeddings and sums in single precision. That gives
             the very numbers of autocast over single-precision weights, in half the memory.

Passes are batches of rows within a token budget. Where memory runs out, the budget is halved and the batch is tried
again; the model says so once (`Model.notices`). On a CUDA device inputs go through pinned memory without waiting, and
an output is fetched while the next batch is computed. Single precision is single precision: TF32 is turned off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, ConfigDict

from palpate.errors import ConfigError, ModelError

Dtype = Literal["float32", "bfloat16", "float16"]
Ints = NDArray[np.int64]

ROUNDING: dict[str, float] = {"float32": 1e-6, "bfloat16": 0.03, "float16": 0.004}
"""How far a probability may move with the shape of its batch, which decides in which order sums are rounded."""
_NAME = re.compile(r"auto|cpu|mps|cuda(:\d+)?")
_FULL = re.compile(r"out of memory|can't allocate memory|not enough memory", re.IGNORECASE)
_CGROUP = Path("/sys/fs/cgroup")
_SHARE = 0.8
"""Of a GPU's memory, what weights and batches together may take."""


def _spelled(name: str) -> str:
    word = name.strip().lower()
    if _NAME.fullmatch(word):
        return word
    try:
        here = f"; this machine has {_listed(devices_here())}"
    except ImportError:
        here = ""
    raise ValueError(f"'{name}' is not auto, cpu, cuda, cuda:1 (the second GPU) or mps{here}")


DeviceName = Annotated[str, AfterValidator(_spelled)]


class DeviceOptions(BaseModel):
    """The options of everything that runs a torch network."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    device: DeviceName = "auto"
    """Where to compute: auto (a GPU if there is one), cpu, cuda, cuda:1 or mps."""
    dtype: Dtype = "float32"
    """16 bit takes half the memory and is faster where the hardware has it; it moves probabilities by about 0.01."""


class Device:
    """A device and a precision, and how many tokens a pass on it may have."""

    def __init__(self, name: str = "cpu", dtype: Dtype = "float32") -> None:
        self.name, self.dtype = name, dtype
        self._most: int | None = None
        self.notices: tuple[str, ...] = ()

    @classmethod
    def of(cls, network: Any) -> Device:
        """Where a network is already, in the precision that it has."""
        first = next((weight for weight in network.parameters() if weight.is_floating_point()), None)
        if first is None:
            return cls()
        name = str(first.dtype).removeprefix("torch.")
        return cls(str(first.device), name if name in ROUNDING else "float32")  # type: ignore[arg-type]

    @property
    def kind(self) -> str:
        """`cpu`, `cuda` or `mps`."""
        return self.name.partition(":")[0]

    @property
    def rounding(self) -> float:
        """How far a probability may move with what else is in its batch."""
        return ROUNDING[self.dtype]

    def __str__(self) -> str:
        return f"{self.name}, {self.dtype}"

    # --- networks and tensors -------------------------------------------------------------------------------

    def place(self, network: Any) -> Any:
        """The network on the device, in its precision, ready to predict."""
        import torch

        if self.kind == "cuda":  # torch's own default for convolutions is a precision of 10 bit
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        network.float() if self.dtype == "float32" else lower(network, getattr(torch, self.dtype))
        return network.to(self.name).eval()

    def tensor(self, array: NDArray[Any]) -> Any:
        """An array on the device."""
        import torch

        return self.move(torch.from_numpy(array))

    def move(self, tensor: Any) -> Any:
        """A tensor of this machine's memory on the device."""
        if self.kind == "cuda":
            return tensor.pin_memory().to(self.name, non_blocking=True)
        return tensor.to(self.name)

    def array(self, tensor: Any) -> NDArray[Any]:
        """A tensor as an array here; numbers come in single precision."""
        kept = tensor.detach()
        kept = kept.float() if kept.is_floating_point() and kept.element_size() < 4 else kept
        return np.asarray(kept.cpu().numpy())

    def autocast(self) -> AbstractContextManager[Any]:
        """Around the passes of a network that was placed here."""
        import torch

        if self.dtype == "float32":
            return nullcontext()
        context: AbstractContextManager[Any] = torch.autocast(self.kind, dtype=getattr(torch, self.dtype))
        return context

    def autocast_of_quotients(self) -> AbstractContextManager[Any]:
        """Within these passes, around those that divide small differences (DeepLIFT), which overflow in float16."""
        import torch

        if self.dtype != "float16":
            return nullcontext()
        context: AbstractContextManager[Any] = torch.autocast(self.kind, dtype=torch.bfloat16)
        return context

    # --- passes ---------------------------------------------------------------------------------------------

    def within(self, budget: int) -> int:
        """A token budget, or what is known to fit into memory."""
        return budget if self._most is None else min(budget, self._most)

    def passes(
        self,
        lengths: Ints,
        forward: Callable[[Ints], Any],
        *,
        budget: int,
        max_rows: int | None = None,
        equal: bool = False,
    ) -> Iterator[tuple[Ints, NDArray[Any]]]:
        """Batches of rows of similar (or `equal`) length, longest first, and what `forward` gave for each.

        A row longer than the budget is a batch of its own. The same lengths give the same batches while memory lasts.
        """
        waiting: tuple[Ints, Any] | None = None
        for rows, out in self._launched(lengths, forward, budget, max_rows, equal):
            if waiting is not None:
                yield waiting[0], self.array(waiting[1])
            waiting = rows, out
        if waiting is not None:
            yield waiting[0], self.array(waiting[1])

    def _launched(
        self, lengths: Ints, forward: Callable[[Ints], Any], budget: int, max_rows: int | None, equal: bool
    ) -> Iterator[tuple[Ints, Any]]:
        order = np.argsort(-lengths, kind="stable")
        first = 0
        while first < len(order):
            longest = max(int(lengths[order[first]]), 1)
            rows = order[first : first + min(max(self.within(budget) // longest, 1), max_rows or len(order))]
            rows = rows[lengths[rows] == lengths[rows[0]]] if equal else rows
            out = self._try(forward, rows, longest)
            if out is not None:
                first += len(rows)
                yield rows, out

    def _try(self, forward: Callable[[Ints], Any], rows: Ints, longest: int) -> Any:
        """The output of a pass; None: memory ran out, and the next one may be half as large."""
        try:
            with self.autocast():
                return forward(rows)
        except RuntimeError as error:  # torch.OutOfMemoryError is one; the other devices raise plain ones
            if not is_out_of_memory(error):
                raise
            if len(rows) == 1:
                raise ModelError(
                    f"the memory of {self.name} is too small for a single input of {longest:,} tokens",
                    model=self.name,
                    hint="lower `max_tokens`, set `dtype` to bfloat16, or `device` to cpu",
                ) from error
        self._most = max(len(rows) * longest // 2, 1)
        self.notices = (
            f"the memory of {self.name} ran out, so its batches were halved until they fitted; smaller ones in "
            "its options avoid the failed attempts",
        )
        self._empty()
        return None

    def _empty(self) -> None:
        import torch

        if self.kind != "cpu":
            getattr(torch, self.kind).empty_cache()

    # --- memory ---------------------------------------------------------------------------------------------

    def room(self, network: Any) -> int | None:
        """Bytes of a GPU beside the weights; None: the memory is the machine's own, and batches need not fill it."""
        import torch

        if self.kind != "cuda":
            return None
        total = int(torch.cuda.get_device_properties(self.name).total_memory)
        return max(int(_SHARE * total) - weight_bytes(network), 0)

    def free(self) -> int | None:
        """Bytes that nothing uses now; None: not known."""
        import torch

        if self.kind == "cuda":
            return int(torch.cuda.mem_get_info(self.name)[0])
        return free_memory()


def free_memory() -> int | None:
    """What this machine, or the container that this process runs in, could still give; None: not known."""
    known = []
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                known.append(int(line.split()[1]) * 1024)
    except OSError:
        return None
    with suppress(OSError, ValueError):
        limit, used = (int((_CGROUP / name).read_text(encoding="ascii")) for name in ("memory.max", "memory.current"))
        known.append(limit - used)
    return min(known, default=None)


def budget_of(room: int | None, bytes_per_token: int, *, usual: int, most: int = 65_536) -> int:
    """Tokens in a pass: the usual number, or what fits into memory, as a power of two between that and `most`.

    >>> budget_of(None, 80_000, usual=4096)
    4096
    >>> budget_of(16 * 10**9, 80_000, usual=4096)
    65536
    >>> budget_of(10**9, 80_000, usual=4096)
    8192
    """
    if room is None:
        return usual
    return max(min(1 << max(room // max(bytes_per_token, 1), 1).bit_length() - 1, most), usual)


def lower(network: Any, dtype: Any) -> None:
    """Hold the weights of matrix products and convolutions in 16 bit, and all others in single precision.

    A weight that another layer shares, such as an embedding that is also the output layer, stays in single precision.
    """
    own, shared = set[int](), set[int]()
    for module in network.modules():
        (own if _multiplies(module) else shared).update(id(weight) for weight in module.parameters(recurse=False))
    for weight in network.parameters():
        weight.data = weight.data.to(dtype) if id(weight) in own - shared else weight.data.float()
    for buffer in network.buffers():
        if buffer.is_floating_point():
            buffer.data = buffer.data.float()


def _multiplies(module: Any) -> bool:
    from torch import nn

    layers = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
    # `Conv1D` is how the GPT-2 family of transformers calls a linear layer.
    return isinstance(module, layers) or type(module).__name__ == "Conv1D"


def weight_bytes(network: Any) -> int:
    """What a network's weights take, wherever they are."""
    return sum(int(each.numel()) * int(each.element_size()) for each in (*network.parameters(), *network.buffers()))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a pass failed because memory ran out."""
    import torch

    return isinstance(error, torch.OutOfMemoryError) or _FULL.search(str(error)) is not None


def compiled(network: Any, *, wanted: bool) -> Any:
    """The network compiled for its device, for batches of any shape."""
    import torch

    return torch.compile(network, dynamic=True) if wanted else network


# --- choosing -----------------------------------------------------------------------------------------------


def devices_here() -> list[str]:
    """The devices that torch can use on this machine, the best one first."""
    import torch

    found = [f"cuda:{k}" for k in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    return [*found, *(["mps"] if torch.backends.mps.is_available() else []), "cpu"]


def device_named(wanted: str) -> str:
    """The name of a device that exists here; an error says what there is."""
    here = devices_here()
    if wanted == "auto":
        return here[0]
    name = "cuda:0" if wanted == "cuda" else wanted
    if name in here:
        return name
    raise ConfigError(
        f"device '{wanted}' is not on this machine: {_reason(wanted, here)}",
        hint=f"there is {_listed(here)}; `auto` takes the best of them",
    )


def choose(options: DeviceOptions) -> Device:
    """The device that the options ask for."""
    return Device(device_named(options.device), options.dtype)


def changed_by(options: DeviceOptions) -> dict[str, str]:
    """What of the options changes predictions, for fingerprints: 16 bit does, the device does not beyond rounding."""
    return {} if options.dtype == "float32" else {"dtype": options.dtype}


def check_device(options: DeviceOptions) -> None:
    """Refuse a device that is not here before anything is loaded; `auto` and `cpu` always are."""
    if options.device not in ("auto", "cpu"):
        from palpate.models.networks import require_torch

        require_torch(f"`device: {options.device}`")
        device_named(options.device)


def _reason(wanted: str, here: Sequence[str]) -> str:
    import torch

    if wanted == "mps":
        return "torch finds no Apple GPU"
    if any(name.startswith("cuda") for name in here):
        return f"torch finds {sum(name.startswith('cuda') for name in here)} CUDA GPU(s), counted from 0"
    built = torch.version.cuda or getattr(torch.version, "hip", None)
    return "torch finds no CUDA GPU" if built else "the installed torch is a build without CUDA"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
