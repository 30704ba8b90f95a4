"""Which pieces of an answer does a body hold that comes line by line?"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Final

from calibrail.guardrail.cause import TIMEOUT
from calibrail.guardrail.decision import Unfinished
from calibrail.serve.problems import WORDS, Problem
from calibrail.text.surrogates import joined

_WHAT: Final = (
    "the first line is a JSON object that says what was asked, each further one a JSON text, the "
    "next piece of the answer"
)
#: How many pauses of the longest kind an answer may wait for its pieces in all.
_PAUSES: Final = 20


class Pieces:
    """The lines of a body.

    Parameters
    ----------
    body : async iterator of bytes
        The body, cut anywhere.
    pause : float
        Seconds until the first line, and then until the next piece that holds something; twenty
        times as many are waited in all.
    given_up : Event
        Set when nothing more is waited for.
    """

    def __init__(self, body: AsyncIterator[bytes], pause: float, given_up: asyncio.Event) -> None:
        self._body, self._pause, self._given_up = body, pause, given_up
        self._rest, self._n = b"", 0
        self._now = asyncio.get_running_loop().time
        self._left = _PAUSES * pause
        self._restart()

    async def first(self) -> bytes:
        """Return the first line.

        Raises
        ------
        Problem
            If there is none, or it does not come in time.
        """
        try:
            line = await self._line()
        except Unfinished as error:
            raise Problem(408, "too-slow", str(error), close=True) from None
        if not line:
            raise Problem(400, "not-json", f"the body holds no line: {_WHAT}")
        return line

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield the pieces of the answer.

        Half of a surrogate pair waits for its other half: programs that count in UTF-16 cut there.

        Raises
        ------
        Problem
            If a line is no text.
        Unfinished
            If none comes in time.
        """
        half = ""
        self._restart()
        while line := await self._line():
            text, half = joined(half + self._text(line))
            if text:
                yield self._whole(text)
                self._restart()
        if half:
            raise self._wrong(WORDS["string_unicode"])

    def _text(self, line: bytes) -> str:
        try:
            text = json.loads(line)
        except (ValueError, RecursionError):
            text = None
        if not isinstance(text, str):
            raise self._wrong(f"is no JSON text; {_WHAT}")
        return text

    def _whole(self, text: str) -> str:
        try:
            text.encode()
        except UnicodeError:
            raise self._wrong(WORDS["string_unicode"]) from None
        return text

    def _wrong(self, complaint: str) -> Problem:
        return Problem(422, "invalid-request", f"line {self._n} {complaint}")

    async def _line(self) -> bytes:
        """Return the next line that holds something; nothing at the end."""
        parts = [self._rest]
        while True:
            line, end, rest = parts[-1].partition(b"\n")
            if end:
                parts[-1], self._rest = line, rest
                self._n += 1
                if whole := b"".join(parts).strip():
                    return whole
                parts = [self._rest]
                continue
            if (more := await self._more()) is None:
                self._rest = b""
                self._n += 1
                return b"".join(parts).strip()
            parts.append(more)

    def _restart(self) -> None:
        self._end = self._now() + self._pause

    async def _more(self) -> bytes | None:
        began = self._now()
        seconds = min(self._end - began, self._left)
        coming = asyncio.ensure_future(anext(self._body, None))
        stopped = asyncio.ensure_future(self._given_up.wait())
        try:
            done, _ = await asyncio.wait(
                {coming, stopped},
                timeout=seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            self._left -= self._now() - began
            stopped.cancel()
            if not coming.done():
                coming.cancel()
        if coming in done:
            return coming.result()
        if done:
            raise Unfinished(f"the service was stopped before {TIMEOUT}")
        if self._left <= 0:
            raise Unfinished(f"its pieces took {_PAUSES * self._pause:g} s to come {TIMEOUT}")
        raise Unfinished(f"no piece of the answer within {self._pause:g} s {TIMEOUT}")
