"""Who may ask this server, and what may a browser do with what it answers?

The server listens on this machine alone, yet other pages in the same browser, and other people who
are logged in here, reach the same port. So every request needs a secret that only the printed
address holds, and comes under a name of this machine, which a foreign name that points here
(DNS rebinding) does not have.
"""

import hashlib
import hmac
from typing import Final

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Of every answer. Nothing is stored, framed, or fetched from elsewhere, and no text becomes code.
HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

_NO_TOKEN: Final = (
    "This address needs the token that calibrail printed. Open the whole address again, from the "
    "terminal in which `calibrail label` runs."
)


class Access:
    """An ASGI application behind a token.

    The address that is printed ends in ``?token=``. Who opens it gets the page, and with it a
    cookie that opens the page's files again, and nothing else: cookies are seen by whatever
    listens on another port of this machine. Answers and labels take the token itself, as a
    ``Bearer`` that the page keeps for its tab.

    Parameters
    ----------
    app : ASGI application
        What answers.
    token : str
        The secret.
    port : int
        Where the server listens on 127.0.0.1.
    """

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app, self._token = app, token
        self._pass = hashlib.sha256(f"calibrail page {token}".encode()).hexdigest()
        self._cookie = f"calibrail-{port}"
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or say why not."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        opened = _same(self._asked_token(scope), self._token)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                if opened:
                    keep = f"{self._cookie}={self._pass}; Path=/; HttpOnly; SameSite=Strict"
                    headers.append("Set-Cookie", keep)
            await send(message)

        refusal = None if opened and scope["path"] == "/" else self._refusal(scope)
        if self._foreign(scope):
            refusal, opened = PlainTextResponse("This server has another name.", 421), False
        await (refusal or self._app)(scope, receive, guarded)

    def _foreign(self, scope: Scope) -> bool:
        """Return whether the request comes under a foreign name, or from a foreign page."""
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        return host not in self._hosts or origin not in (None, f"http://{host}")

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        headers = Headers(scope=scope)
        if scope["path"].startswith("/api/"):
            kind, _, given = headers.get("authorization", "").partition(" ")
            allowed = kind == "Bearer" and _same(given, self._token)
        else:
            pieces = (piece.strip() for piece in headers.get("cookie", "").split(";"))
            named = (piece.partition("=") for piece in pieces)
            allowed = any(
                name == self._cookie and _same(value, self._pass) for name, _, value in named
            )
        return None if allowed else PlainTextResponse(_NO_TOKEN, 403)

    def _asked_token(self, scope: Scope) -> str:
        return QueryParams(scope.get("query_string", b"")).get("token", "")


def _same(given: str, secret: str) -> bool:
    """Compare in a time that tells nothing of where they differ."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode())
