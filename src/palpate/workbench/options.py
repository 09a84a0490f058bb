"""How the workbench is started: what it shows, where it listens, and under which names it may be asked for."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from palpate.errors import ConfigError

PORT = 8765
LOOPBACK = ("127.0.0.1", "localhost", "::1")
_EVERYWHERE = ("0.0.0.0", "::", "")
FOLDER = "palpate-workbench"


@dataclass(frozen=True)
class BenchOptions:
    """Everything that `palpate serve` was told; `check` refuses what is unsafe or contradicts itself."""

    runs: tuple[Path, ...]
    cohort: Path | None = None
    config: Path | None = None
    """The `audit.yaml` whose models answer and whose audits are run again; by default that beside the first run."""
    folder: Path | None = None
    """Where entries and the log are kept; by default beside the first run."""
    host: str = "127.0.0.1"
    port: int = PORT
    address: str | None = None
    """What people type, `https://bench.clinic.example`; for a host that is none of loopback."""
    certificate: Path | None = None
    key: Path | None = None
    behind_proxy: bool = False
    show_notes: bool = False
    texts: Path | None = None
    """The sentences of the pages in another language."""
    days: int = 14
    """How long the link of a person works."""

    def check(self) -> None:
        """Refuse to listen beyond this machine without TLS, or without knowing the name that people type."""
        if (self.certificate is None) != (self.key is None):
            raise ConfigError("--tls-cert and --tls-key go together")
        for name, file in (("--tls-cert", self.certificate), ("--tls-key", self.key)):
            if file is not None and not file.is_file():
                raise ConfigError(f"{name}: file not found", file=file)
        if self.address is not None:
            _check_address(self.address, needs_https=not self.is_loopback or self.behind_proxy)
        if self.behind_proxy and self.address is None:
            hint = "give --address https://NAME, what people type"
            raise ConfigError("--behind-proxy: the public address is not known", hint=hint)
        if self.is_loopback:
            return
        if not self.certificate and not self.behind_proxy:
            hint = "give --tls-cert FILE and --tls-key FILE, or --behind-proxy with --address https://NAME"
            raise ConfigError(f"--host {self.host}: ratings and notes would cross the network unencrypted", hint=hint)
        if self.host in _EVERYWHERE and self.address is None:
            hint = "give --address https://NAME:PORT, what people type"
            raise ConfigError(f"--host {self.host or '*'}: the name that people type is not known", hint=hint)

    def check_port(self) -> None:
        """Refuse a port on which another program listens, before links are printed."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind((self.host, self.port))
            except OSError as error:
                why = error.strerror or "it can't be used"
                raise ConfigError(
                    f"--port {self.port}: {why.lower()}", hint="choose another --port or --host"
                ) from None

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host in LOOPBACK:
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_https(self) -> bool:
        """Whether people's browsers speak TLS to it, or to the proxy before it."""
        return self.origin.startswith("https:")

    @property
    def origin(self) -> str:
        """The address for people, without a path."""
        if self.address is not None:
            return self.address.rstrip("/").lower()
        return f"{'https' if self.certificate else 'http'}://{_bracketed(self.host)}:{self.port}"

    @cached_property
    def origins(self) -> frozenset[str]:
        """All addresses under which a browser may have loaded a page of the workbench."""
        scheme = "https" if self.certificate else "http"
        here = {f"{scheme}://{_bracketed(name)}:{self.port}" for name in LOOPBACK} if self.is_loopback else set()
        known = {self.origin} if self.behind_proxy else {self.origin, *here}
        return frozenset(known | {_as_sent(origin) for origin in known})

    @cached_property
    def hosts(self) -> frozenset[str]:
        """The values of the header `Host` that are answered; any other name may be an attacker's (DNS rebinding)."""
        return frozenset(urlsplit(origin).netloc for origin in self.origins)

    @property
    def home(self) -> Path:
        """The folder of entries and log."""
        return self.folder or self.runs[0].absolute().parent / FOLDER


def _as_sent(origin: str) -> str:
    """As browsers write it: without the port that its scheme has by default."""
    return origin.removesuffix(":443" if origin.startswith("https:") else ":80")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _check_address(address: str, *, needs_https: bool) -> None:
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ConfigError(f"--address {address}: expected https://NAME or https://NAME:PORT")
    if needs_https and parts.scheme != "https":
        raise ConfigError(f"--address {address}: people beyond this machine need https")
