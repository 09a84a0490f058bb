"""DenseNet-121 and ResNet-50 for images (MONAI's, without torchvision), and their weights from files.

Weights may be named as in MONAI or as in torchvision (which most published checkpoints follow), at the top level or
under `state_dict`, with or without the `module.` of data parallelism. All but the head must fit, name by name; a head
of another size is replaced by a new one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from palpate.errors import ConfigError
from palpate.models.networks.vision.images import ImageFormat, Pixels

NetworkName = Literal["densenet121", "resnet50"]
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_HEADS = {"densenet121": "class_layers.out", "resnet50": "fc"}
_WRAPPERS = ("state_dict", "model_state_dict", "model", "network", "weights")
_DENSE_LAYER = re.compile(r"(denselayer\d+)\.(norm|conv)\.?([12])\.")
_PREFIXES = ("module.", "model.", "network.", "backbone.")


class VisionShape(BaseModel):
    """Which network it is, and how it reads images: `network.json`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    network: NetworkName
    image_size: int = Field(ge=32)
    bits: int = Field(ge=8, le=16)
    mean: tuple[float, ...] = Field(min_length=1)
    std: tuple[float, ...] = Field(min_length=1)

    @property
    def format(self) -> ImageFormat:
        """How image files are read."""
        return ImageFormat(self.image_size, self.bits)


def make_network(shape: VisionShape, n_labels: int, *, seed: int) -> Any:
    """The network with initial weights, which depend on the seed; one output per label, before the sigmoid."""
    import torch
    from monai.networks.nets.densenet import DenseNet121
    from monai.networks.nets.resnet import resnet50

    n_channels = len(shape.mean)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if shape.network == "densenet121":
            return DenseNet121(spatial_dims=2, in_channels=n_channels, out_channels=n_labels)
        # As published and as in torchvision; MONAI's own defaults are for volumes.
        return resnet50(
            spatial_dims=2,
            n_input_channels=n_channels,
            num_classes=n_labels,
            conv1_t_stride=2,
            bias_downsample=False,
        )


def prepare(pixels: Pixels, shape: VisionShape, device: str = "cpu") -> Any:
    """Grey pixels from 0 to 255 as the network's input: [image, channel, row, column]."""
    import torch

    return normalise(torch.from_numpy(pixels).to(device).float()[:, None], shape)


def normalise(grey: Any, shape: VisionShape) -> Any:
    """Every channel is the same image, standardised with its own mean and deviation."""
    mean, std = (grey.new_tensor(values)[None, :, None, None] for values in (shape.mean, shape.std))
    return (grey / 255 - mean) / std


# --- weights ------------------------------------------------------------------------------------------------


def read_weights(file: Path) -> dict[str, Any]:
    """The tensors of a safetensors file or of a torch state dict; no pickled code is run."""
    if not file.is_file():
        hint = "nothing is downloaded: give a file on this machine"
        raise ConfigError("checkpoint file not found", file=file, hint=hint)
    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            return dict(load_file(file))
        import torch

        content = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # both libraries raise many types of errors
        raise ConfigError(
            "neither a safetensors file nor a torch state dict that can be loaded without running code",
            file=file,
            hint="save `model.state_dict()`, preferably as .safetensors",
        ) from error
    found = _tensors(content)
    if not found:
        raise ConfigError("the file contains no weights", file=file, hint="save `model.state_dict()`")
    return found


def _tensors(content: Any) -> dict[str, Any]:
    import torch

    if not isinstance(content, Mapping):
        return {}
    found = {str(name): value for name, value in content.items() if isinstance(value, torch.Tensor)}
    inner = next((content[name] for name in _WRAPPERS if isinstance(content.get(name), Mapping)), None)
    return _tensors(inner) if not found and inner is not None else found


def monai_name(name: str, network: NetworkName) -> str:
    """MONAI's name for a weight of torchvision's network; MONAI's own names stay."""
    while prefix := next((prefix for prefix in _PREFIXES if name.startswith(prefix)), None):
        name = name.removeprefix(prefix)
    if network == "densenet121":
        name = re.sub(r"^classifier(\.0)?\.", "class_layers.out.", name)
        return _DENSE_LAYER.sub(r"\1.layers.\2\3.", name)
    return re.sub(r"^fc\.0\.", "fc.", name)


def load_start(network: Any, shape: VisionShape, file: Path) -> bool:
    """Load the weights of a checkpoint into the network; returns whether the head was among them."""
    own = network.state_dict()
    given = {monai_name(name, shape.network): value for name, value in read_weights(file).items()}
    head = f"{_HEADS[shape.network]}."
    problem = _mismatch(
        {name: value for name, value in own.items() if not name.startswith(head)},
        {name: value for name, value in given.items() if not name.startswith(head)},
        shape.network,
    )
    if problem is not None:
        hint = "is it of another `network`, or for another number of channels (`mean` and `std`)?"
        raise ConfigError(problem, file=file, hint=hint)
    top = [name for name in own if name.startswith(head)]
    fits = all(name in given and given[name].shape == own[name].shape for name in top)
    network.load_state_dict({**own, **{name: given[name] for name in given if fits or name not in top}})
    return fits


def _mismatch(own: Mapping[str, Any], given: Mapping[str, Any], network: str) -> str | None:
    """What in a checkpoint does not fit, in words."""
    lacking = [name for name in own if name not in given and not _counter(name)]
    if lacking:
        return f"the checkpoint lacks {len(lacking)} of the {len(own)} weights of {network}, such as '{lacking[0]}'"
    strange = [name for name in given if name not in own]
    if strange:
        return f"the checkpoint has {len(strange)} weights that {network} has no place for, such as '{strange[0]}'"
    sizes = [name for name in own if name in given and given[name].shape != own[name].shape]
    if sizes:
        name = sizes[0]
        example = f"'{name}' is {_size(given[name])} where {network} has {_size(own[name])}"
        return f"{len(sizes)} weights of the checkpoint have another size: {example}"
    return None


def _counter(name: str) -> bool:
    """Batch norms count their batches; nothing depends on the count, and older files lack it."""
    return name.endswith("num_batches_tracked")


def _size(weight: Any) -> str:
    return " x ".join(str(n) for n in weight.shape) or "one number"
