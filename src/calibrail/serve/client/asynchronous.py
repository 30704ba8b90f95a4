"""How does a program ask a service without waiting for the answer?"""

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from calibrail.errors import ServiceError
from calibrail.guardrail.decision import Decision
from calibrail.serve.client.attempts import Asking, Attempts, http, not_ready
from calibrail.serve.client.calls import (
    Call,
    Result,
    batch_call,
    check_call,
    guardrail_call,
    ready_call,
    select_call,
)
from calibrail.serve.client.writing import Writing
from calibrail.settings.checks import Cell


class AsyncClient:
    """Asks a service of ``calibrail serve`` for decisions, under asyncio.

    As `Client`, whose parameters it takes. A call that is cancelled ends at once; its answer has
    not passed.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        guardrail: str | None = None,
        timeout: float = 40.0,
        retries: int = 3,
    ) -> None:
        self._asking = Asking(url, token, guardrail, timeout, retries)
        self._httpx = http()
        self._http = self._httpx.AsyncClient(**self._asking.options())

    async def check(
        self,
        *,
        response: str = "",
        question: str = "",
        contexts: Sequence[str] | str = (),
        id: str = "",
        samples: Sequence[str] = (),
        columns: Mapping[str, Cell] | None = None,
        evidence: bool = False,
    ) -> Decision:
        """As ``Client.check``."""
        item: dict[str, object] = {"response": response, "question": question, "id": id}
        item |= {"contexts": contexts, "samples": samples, "columns": columns}
        return await self._ask(check_call(item, evidence))

    async def check_batch(
        self, items: Sequence[object], *, evidence: bool = False
    ) -> list[Decision]:
        """As ``Client.check_batch``."""
        return await self._ask(batch_call(items, evidence))

    def stream_check(
        self,
        *,
        question: str = "",
        contexts: Sequence[str] | str = (),
        id: str = "",
        samples: Sequence[str] = (),
        columns: Mapping[str, float | str | None] | None = None,
    ) -> Writing:
        """As ``Client.stream_check``, for asynchronous iterators.

        Its `Writing.ashow` takes the tokens and yields what may be shown; it is asked once, without
        retries. ``timeout`` bounds the connection and the wait for the last events.
        """
        item: dict[str, object] = {"question": question, "contexts": contexts, "id": id}
        return Writing(self._asking, {**item, "samples": samples, "columns": columns})

    async def select(
        self,
        items: Sequence[object],
        *,
        fdr: float,
        method: str = "auto",
        confidence: float = 0.95,
    ) -> dict[str, Any]:
        """As ``Client.select``."""
        call = select_call(items, fdr=fdr, method=method, confidence=confidence)
        return await self._ask(call)

    async def guardrail(self) -> dict[str, Any]:
        """As ``Client.guardrail``."""
        return await self._ask(guardrail_call())

    async def ready(self) -> bool:
        """As ``Client.ready``."""
        try:
            return await self._ask(ready_call(), once=True)
        except ServiceError as error:
            if not_ready(error):
                return False
            raise

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _ask(self, call: Call[Result], *, once: bool = False) -> Result:
        attempts = Attempts(self._asking, f"{call.method} {call.path}", once=once)
        while True:
            try:
                async with (
                    asyncio.timeout(attempts.left),
                    self._http.stream(
                        call.method,
                        call.path,
                        content=call.body,
                        headers=call.headers,
                        extensions=attempts.extensions(),
                    ) as response,
                ):
                    raw = b"".join(
                        [attempts.received(part) async for part in response.aiter_bytes()]
                    )
            except TimeoutError as error:
                raise attempts.late() from error
            except self._httpx.HTTPError as error:
                pause = attempts.pause_after(error)
            else:
                if (wait := attempts.pause_or_none(response, raw)) is None:
                    return call.result(raw)
                pause = wait
            await asyncio.sleep(pause)
