"""Client and AsyncClient: the sync and the async shell around one core."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

from calibrail.client._core import (
    Asking,
    Attempts,
    Call,
    Result,
    batch_call,
    check_call,
    guardrail_call,
    http,
    not_ready,
    ready_call,
    select_call,
)
from calibrail.client.streaming import Writing
from calibrail.errors import ServiceError
from calibrail.guardrail.decision import Decision
from calibrail.options.fields import Cell


class _Core:
    """What both clients share: where and how they ask, and what is said before a reply comes."""

    _kind: str

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
        self._http: Any = getattr(self._httpx, self._kind)(**self._asking.options())

    def stream_check(
        self,
        *,
        question: str = "",
        contexts: Sequence[str] | str = (),
        id: str = "",
        samples: Sequence[str] = (),
        columns: Mapping[str, float | str | None] | None = None,
    ) -> Writing:
        """Begin to decide about an answer that is still being written.

        Its `Writing.show`, or under asyncio its `Writing.ashow`, takes the tokens and yields what
        may be shown; it is asked once, without retries. ``timeout`` bounds the connection and the
        wait for the last events.
        """
        item: dict[str, object] = {"question": question, "contexts": contexts, "id": id}
        return Writing(self._asking, {**item, "samples": samples, "columns": columns})


class Client(_Core):
    """Asks a service of ``calibrail serve`` for decisions; may be used by several threads.

    A call returns decisions or raises: where the service refused, failed, could not be reached or
    said what makes no sense, there is a `ServiceError`, and the answer has not passed. Proxies that
    the environment names are not used: they would read the token and the texts.

    Parameters
    ----------
    url : str
        Address of the service, e.g. ``http://127.0.0.1:8000``.
    token : str, optional
        What the variable CALIBRAIL_TOKEN holds there.
    guardrail : str, optional
        Which guardrail decides, where the service has several.
    timeout : float
        Seconds that a call may take, all its attempts included; longer than the service's own
        deadline, so that what its failure policy decides is heard.
    retries : int
        Further attempts where the service could not be reached, or had no room (429, 502, 503,
        504). Each waits longer than the one before, and as long as the service asks for; none is
        begun that the timeout would cut off.

    Raises
    ------
    CalibrailError
        If httpx2 is not installed: ``pip install 'calibrail[client]'``.
    """

    _kind = "Client"

    def check(
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
        """Decide about one answer, as ``Guardrail.check`` does, which explains the arguments.

        Parameters
        ----------
        evidence : bool
            Whether the decision says what it rests on; the answer is then scored by itself.
        """
        item: dict[str, object] = {"response": response, "question": question, "id": id}
        item |= {"contexts": contexts, "samples": samples, "columns": columns}
        return self._ask(check_call(item, evidence))

    def check_batch(self, items: Sequence[object], *, evidence: bool = False) -> list[Decision]:
        """Decide about each of several answers, in their order.

        Parameters
        ----------
        items : sequence of dict or Example
            Each holds what `check` takes.
        evidence : bool
            As for `check`.
        """
        return self._ask(batch_call(items, evidence))

    def select(
        self,
        items: Sequence[object],
        *,
        fdr: float,
        method: str = "auto",
        confidence: float = 0.95,
    ) -> dict[str, Any]:
        """Release what can be released of a batch with the false discovery rate bounded.

        Returns
        -------
        dict
            What ``calibrail select --json`` prints, and ``items``: for each answer its ``id``,
            whether it is ``released``, ``score`` and ``p_value``.
        """
        return self._ask(select_call(items, fdr=fdr, method=method, confidence=confidence))

    def guardrail(self) -> dict[str, Any]:
        """Return what decides there: its certificate, digest, and state."""
        return self._ask(guardrail_call())

    def ready(self) -> bool:
        """Return whether the service decides now; asked once, without retries.

        Raises
        ------
        ServiceError
            If something else answers there.
        """
        try:
            return self._ask(ready_call())
        except ServiceError as error:
            return not_ready(error)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, call: Call[Result]) -> Result:
        attempts = Attempts(self._asking, call)
        while True:
            try:
                with self._http.stream(**attempts.request()) as response:
                    raw = b"".join(map(attempts.received, response.iter_bytes()))
                if attempts.answered(response, raw):
                    return call.result(raw)
            except self._httpx.HTTPError as error:
                attempts.failed(error)
            time.sleep(attempts.pause)


class AsyncClient(_Core):
    """Asks a service of ``calibrail serve`` for decisions, under asyncio.

    As `Client`, whose parameters it takes. A call that is cancelled ends at once; its answer has
    not passed.
    """

    _kind = "AsyncClient"

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
            return await self._ask(ready_call())
        except ServiceError as error:
            return not_ready(error)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _ask(self, call: Call[Result]) -> Result:
        attempts = Attempts(self._asking, call)
        while True:
            try:
                async with (
                    asyncio.timeout(attempts.left),
                    self._http.stream(**attempts.request()) as response,
                ):
                    raw = b"".join(
                        [attempts.received(part) async for part in response.aiter_bytes()]
                    )
                if attempts.answered(response, raw):
                    return call.result(raw)
            except TimeoutError as error:
                raise attempts.late() from error
            except self._httpx.HTTPError as error:
                attempts.failed(error)
            await asyncio.sleep(attempts.pause)
