"""What a run needs to know about a Ray cluster, and whether notes may be sent there; without Ray itself.

Notes are patients: a cluster with a node that is not this machine is refused unless `allow_remote: true`, by the rule
that holds for the address of a model.
"""

from __future__ import annotations

import io
import os
import socket
import tarfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from palpate.errors import ConfigError
from palpate.files import at_home
from palpate.models import ModelSpec
from palpate.models.adapters.remote import is_loopback

HERE = "local"
"""Ray starts on this machine, for this run."""
RUNNING = "auto"
"""The cluster that this machine belongs to."""
MOST_WORKERS = 10_000
"""Processes, or processors of one of them, that a run may ask for."""
_SECONDS_TO_CONNECT = 10.0


class RayOptions(BaseModel):
    """The section `ray:` of `audit.yaml`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    address: str | None = None
    """`local` (started for the run), `auto` (the cluster that this machine belongs to) or `host:port`; default: what
    RAY_ADDRESS says, else `local`."""
    allow_remote: bool = False
    """Whether notes may be sent to nodes other than this machine."""
    concurrency: Annotated[tuple[int, int], Field(min_length=2, max_length=2)] | None = None
    """The fewest and the most workers, where the cluster grows by itself; default: `workers`."""
    num_cpus: float = Field(default=1, gt=0, le=MOST_WORKERS)
    """Processors that each worker reserves."""
    num_gpus: float = Field(default=0, ge=0, le=MOST_WORKERS)
    """GPUs that each worker reserves; 0.5: two workers share one."""
    ship: bool = False
    """Send the model's files to the nodes; default: they see them under the same path (shared storage)."""

    @model_validator(mode="after")
    def _ordered(self) -> RayOptions:
        if self.concurrency is not None and not 1 <= self.concurrency[0] <= self.concurrency[1] <= MOST_WORKERS:
            raise ValueError("`concurrency` is the fewest and the most workers, such as [2, 16]")
        return self

    @property
    def target(self) -> str:
        """Where the cluster is, with RAY_ADDRESS, which Ray takes for `auto` too, and the default."""
        named = os.environ.get("RAY_ADDRESS") if self.address in (None, RUNNING) else None
        return named or self.address or HERE


def check_target(options: RayOptions) -> None:
    """Refuse an address that can't be one, or that is not this machine although notes may not leave it."""
    target = options.target
    if target in (HERE, RUNNING):
        return
    if "://" in target:
        hint = "start palpate on a node of the cluster (`ray job submit`), with `auto`, or give HOST:PORT"
        raise ConfigError(f"'{target}' can't be used: Ray Data does not run through a Ray client", hint=hint)
    host, colon, port = target.rpartition(":")
    if not colon or not host or not port.isdigit():
        raise ConfigError(f"'{target}' is not the address of a Ray cluster", hint="give HOST:PORT, auto or local")
    check_nodes([host.strip("[]")], options)


def check_nodes(hosts: Iterable[str], options: RayOptions) -> None:
    """Refuse nodes that are not this machine, unless notes may be sent to them."""
    if options.allow_remote:
        return
    other = next((host for host in hosts if not is_this_machine(host)), None)
    if other is not None:
        raise ConfigError(
            f"{other} is not this machine, and notes would be sent there by Ray",
            hint="`ray: {allow_remote: true}` permits it",
        )


def is_this_machine(host: str) -> bool:
    """Whether a name or an address is one of this machine: a socket can be bound to it."""
    if is_loopback(host):
        return True
    try:
        addresses = {(family, place[0]) for family, _, _, _, place in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    for family, address in addresses:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind((address, 0))
            except OSError:
                return False
    return bool(addresses)


def check_answers(target: str) -> None:
    """Refuse an address where nothing answers, at once: Ray itself would try for minutes."""
    host, _, port = target.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS_TO_CONNECT).close()
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise ConfigError(
            f"no Ray cluster answers at {target} ({why})", hint="is `ray start --head` running?"
        ) from None


class ShippedFiles:
    """The files of a model, for nodes that do not have them."""

    def __init__(self, spec: ModelSpec) -> None:
        scheme, _, target = spec.source.partition(":")
        path = _files_of(scheme, target, Path(spec.folder))
        self.content: bytes | None = None
        self.spec = spec
        if path is None:
            return
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(path, arcname=path.name)
        self.content = packed.getvalue()
        self.spec = spec if scheme == "python" else replace(spec, source=f"{scheme}:{path.name}")


def unpacked(spec: ModelSpec, content: bytes, folder: Path) -> ModelSpec:
    """The spec of a model whose files are written to `folder`."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        if hasattr(tarfile, "data_filter"):  # since Python 3.11.4
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(folder)
    return replace(spec, folder=str(folder))


def _files_of(scheme: str, target: str, folder: Path) -> Path | None:
    """A model's file or folder; None where it has none."""
    if scheme == "python":
        module = folder / Path(*target.partition(":")[0].split("."))
        candidates = [folder / module.relative_to(folder).parts[0], module.with_suffix(".py")]
    else:
        candidates = [folder / at_home(target)]
    return next((path.resolve() for path in candidates if path.exists()), None)
