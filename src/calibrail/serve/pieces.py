"""Which pieces of an answer does a body hold that comes line by line?"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Final

from calibrail.serve.metrics import TIMEOUT
from calibrail.serve.problems import WORDS, Problem

_WHAT: Final = (
    "the first line is a JSON object that says what was asked, each further one a JSON text, the "
    "next piece of the answer"
)


class Pieces:
    """The lines of a body.

    Parameters
    ----------
    body : async iterator of bytes
        The body, cut anywhere.
    pause : float
        Seconds that it may stand still.
    given_up : Event
        Set when nothing more is waited for.
    """

    def __init__(self, body: AsyncIterator[bytes], pause: float, given_up: asyncio.Event) -> None:
        self._body, self._pause, self._given_up = body, pause, given_up
        self._rest, self._n = b"", 0

    async def first(self) -> bytes:
        """Return the first line.

        Raises
        ------
        Problem
            If there is none, or it does not come in time.
        """
        try:
            line = await self._line()
        except TimeoutError as error:
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
        TimeoutError
            If none comes in time.
        """
        half = ""
        while line := await self._line():
            text = half + self._text(line)
            half = text[-1] if text and "\ud800" <= text[-1] <= "\udbff" else ""
            text = text[: len(text) - len(half)]
            if text and not text.isascii():
                text = self._whole(text)
            if text:
                yield text
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
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeError:
            raise self._wrong(WORDS["string_unicode"]) from None

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

    async def _more(self) -> bytes | None:
        coming = asyncio.ensure_future(anext(self._body, None))
        stopped = asyncio.ensure_future(self._given_up.wait())
        try:
            done, _ = await asyncio.wait(
                {coming, stopped}, timeout=self._pause, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            stopped.cancel()
            if not coming.done():
                coming.cancel()
        if coming in done:
            return coming.result()
        if done:
            raise TimeoutError(f"the answer had not ended when the service was stopped {TIMEOUT}")
        raise TimeoutError(f"no piece of the answer within {self._pause:g} s {TIMEOUT}")
