"""Many connections at a time to a service, each of which notes what it sent and what came back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.serve.process import Answer, request_bytes


@dataclass(frozen=True)
class Exchange:
    """One request with its answer; None where the connection ended before a whole one came."""

    sent: dict[str, Any]
    answer: Answer | None


class Load:
    """Requests on kept-alive connections until they are used up, or the service is gone.

    Parameters
    ----------
    port : int
        Of the service on 127.0.0.1.
    bodies : iterator of dict
        What is sent; a connection takes the next one when it has its answer.
    connections : int
        How many are open at a time.
    """

    def __init__(self, port: int, bodies: Iterator[dict[str, Any]], connections: int) -> None:
        self._port, self._bodies, self._connections = port, bodies, connections
        self.exchanges: list[Exchange] = []
        self.refused = 0

    def run(self, meanwhile: Callable[[Load], None] | None = None) -> list[Exchange]:
        """Send all; ``meanwhile`` runs beside it in a thread, and may wait for ``exchanges``."""
        asyncio.run(self._run(meanwhile))
        return self.exchanges

    async def _run(self, meanwhile: Callable[[Load], None] | None) -> None:
        async with asyncio.TaskGroup() as group:
            if meanwhile is not None:
                group.create_task(asyncio.to_thread(meanwhile, self))
            for _ in range(self._connections):
                group.create_task(self._connection())

    async def _connection(self) -> None:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            self.refused += 1
            return
        try:
            for body in self._bodies:
                answer = await _exchange(reader, writer, body)
                self.exchanges.append(Exchange(body, answer))
                if answer is None or answer.headers.get("connection") == "close":
                    return
        finally:
            # At once: the loop may end before a connection does that waits.
            writer.transport.abort()
            await asyncio.sleep(0)


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: dict[str, Any]
) -> Answer | None:
    try:
        writer.write(request_bytes(json.dumps(body).encode()))
        await writer.drain()
        return await read_answer(reader)
    except (OSError, asyncio.IncompleteReadError):
        return None


async def read_answer(reader: asyncio.StreamReader) -> Answer:
    """Read one answer whole."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
    parts = (line.partition(":") for line in lines)
    headers = {name.lower(): value.strip() for name, _, value in parts}
    body = await reader.readexactly(int(headers["content-length"]))
    return Answer(int(first.split()[1]), headers, body)


def flood(port: int, bodies: Sequence[dict[str, Any]], connections: int) -> list[Exchange]:
    """Send these, and return every exchange."""
    return Load(port, iter(bodies), connections).run()
