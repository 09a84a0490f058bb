"""HTTP/1.1 over connections that stay open: a request, an answer, and nothing else.

A general client spends milliseconds of the processor on each request (a pool that is searched, hooks, redirects,
cookies), which is more than a fast endpoint leaves: 64 requests at a time of 50 ms each are one every 0.8 ms.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import Mapping
from typing import NamedTuple

import httpx

_LONGEST_HEAD = 1 << 16
_PORTS = {"http": 80, "https": 443}


class ProtocolError(OSError):
    """What came is not an HTTP answer, or not all of it."""


class ClosedWhileFree(OSError):
    """The server closed a connection that was used before, and no byte of an answer came; another may be opened."""


class TooLarge(Exception):
    """The answer is larger than it may be."""


class HttpAnswer(NamedTuple):
    """An answer with the names of its headers in lower case."""

    code: int
    headers: dict[str, str]
    body: bytes


class _Connection(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def close(self) -> None:
        self.writer.close()


class Connections:
    """Connections to one address; those that are free are used again."""

    def __init__(self, url: httpx.URL, headers: Mapping[str, str], tls: ssl.SSLContext | None, *, largest: int) -> None:
        self._url, self._tls, self._largest = url, tls, largest
        self._free: list[_Connection] = []
        lines = {"Host": url.netloc.decode("ascii"), **headers}
        self._head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())

    async def request(self, method: str, body: bytes | None) -> HttpAnswer:
        """One exchange, sent once: the server may have taken and charged what it did not answer."""
        found = self._take()
        connection = await self._open() if found is None else found
        try:
            answer, open_still = await self._exchange(connection, method, body)
        except ClosedWhileFree as closed:
            connection.close()
            if found is not None or closed.__cause__ is None:
                raise
            raise closed.__cause__ from None
        except BaseException:
            connection.close()
            raise
        if open_still:
            self._free.append(connection)
        else:
            connection.close()
        return answer

    def _take(self) -> _Connection | None:
        """A free connection that the server has not closed."""
        while self._free:
            connection = self._free.pop()
            if not (connection.reader.at_eof() or connection.writer.is_closing()):
                return connection
            connection.close()
        return None

    def close(self) -> None:
        """Close what is free."""
        while self._free:
            self._free.pop().writer.transport.abort()

    async def _open(self) -> _Connection:
        port = self._url.port or _PORTS[self._url.scheme]
        name = self._url.host if self._tls is not None else None
        return _Connection(
            *await asyncio.open_connection(
                self._url.host, port, ssl=self._tls, server_hostname=name, limit=_LONGEST_HEAD
            )
        )

    async def _exchange(self, connection: _Connection, method: str, body: bytes | None) -> tuple[HttpAnswer, bool]:
        target = self._url.raw_path.decode("ascii")
        length = "" if body is None else f"Content-Length: {len(body)}\r\n"
        head = f"{method} {target} HTTP/1.1\r\n{self._head}{length}\r\n".encode("ascii")
        try:
            connection.writer.write(head + (body or b""))
            await connection.writer.drain()
            version, code, headers = await _read_head(connection.reader)
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            if getattr(error, "partial", b""):
                raise
            raise ClosedWhileFree from error
        while code < 200:  # the server only says that it goes on
            version, code, headers = await _read_head(connection.reader)
        content, ended = await self._read_body(connection.reader, code, headers)
        word = headers.get("connection", "").lower()
        stays = "keep-alive" in word if version == "HTTP/1.0" else "close" not in word
        return HttpAnswer(code, headers, _decoded(content, headers, self._largest)), stays and ended

    async def _read_body(self, reader: asyncio.StreamReader, code: int, headers: dict[str, str]) -> tuple[bytes, bool]:
        """The body, and whether its end was told, so that another answer can follow."""
        if code in (204, 304):
            return b"", True
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return await self._read_chunks(reader), True
        length = headers.get("content-length")
        if length is not None:
            n = _whole(length, 10)
            if n > self._largest:
                raise TooLarge
            return await reader.readexactly(n), True
        parts, total = [], 0
        while part := await reader.read(1 << 16):
            parts.append(part)
            total += len(part)
            if total > self._largest:
                raise TooLarge
        return b"".join(parts), False

    async def _read_chunks(self, reader: asyncio.StreamReader) -> bytes:
        body = bytearray()
        while size := _whole((await _line(reader)).partition(";")[0], 16):
            if len(body) + size > self._largest:
                raise TooLarge
            body += await reader.readexactly(size)
            await _line(reader)
        while await _line(reader):  # further headers
            pass
        return bytes(body)


async def _read_head(reader: asyncio.StreamReader) -> tuple[str, int, dict[str, str]]:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.LimitOverrunError:
        raise ProtocolError("the headers have no end") from None
    first, *lines = head[:-4].split("\r\n")
    version, _, rest = first.partition(" ")
    if not version.startswith("HTTP/1.") or not rest[:3].isdecimal():
        raise ProtocolError("this is not HTTP")
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return version, int(rest[:3]), headers


async def _line(reader: asyncio.StreamReader) -> str:
    try:
        return (await reader.readuntil(b"\r\n"))[:-2].decode("latin-1")
    except asyncio.LimitOverrunError:
        raise ProtocolError("a line has no end") from None


def _whole(text: str, base: int) -> int:
    try:
        n = int(text.strip(), base)
    except ValueError:
        n = -1
    if n < 0:
        raise ProtocolError("a length is not a number")
    return n


def _decoded(body: bytes, headers: Mapping[str, str], largest: int) -> bytes:
    """The body of a server that compresses although it was not asked to; a few of its bytes may become gigabytes."""
    if headers.get("content-encoding", "").lower() not in ("gzip", "x-gzip", "deflate"):
        return body
    try:
        unpacking = zlib.decompressobj(zlib.MAX_WBITS | 32)
        content = unpacking.decompress(body, largest + 1)
    except zlib.error:
        content = None
    if content is None or (len(content) <= largest and not unpacking.eof):
        raise ProtocolError("the answer cannot be decompressed")
    if len(content) > largest:
        raise TooLarge
    return content
