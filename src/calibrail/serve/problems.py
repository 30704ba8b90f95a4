"""How is a request refused, so that a program and a person both know what to do?

Problem details (RFC 9457), with the place of each wrong field as a JSON pointer (RFC 6901).
"""

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from pydantic import ValidationError
from starlette.responses import Response

#: Environment variable of the token that requests must bring.
TOKEN_VARIABLE: Final = "CALIBRAIL_TOKEN"
MEDIA_TYPE: Final = "application/problem+json"
#: What comes before a problem's name, in its type.
KIND: Final = "urn:calibrail:problem:"

#: What each type of pydantic's complaints says here, where its own words do not help.
WORDS: Final[Mapping[str, str]] = {
    "missing": "is missing",
    "extra_forbidden": "is not a field of this request; take it out, or correct its name",
    "string_type": "must be a text",
    "string_unicode": "must be a text of whole characters; it holds half of a surrogate pair",
    "list_type": "must be a list",
    "bool_type": "must be true or false",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "float_type": "must be a number",
}


class Problem(Exception):  # noqa: N818 - the name of the standard
    """A refusal.

    Parameters
    ----------
    status : int
        Of HTTP.
    kind : str
        The problem's name, e.g. ``queue-full``.
    detail : str
        What was wrong with this request, and what to do.
    errors : sequence of (str, str)
        JSON pointer and complaint of each wrong field.
    retry_after : int or None
        Seconds after which the same request may be sent again.
    close : bool
        Whether the connection ends with the answer.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        errors: Sequence[tuple[str, str]] = (),
        retry_after: int | None = None,
        close: bool = False,
    ) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail = status, kind, detail
        self.errors, self.retry_after, self.close = errors, retry_after, close

    def to_dict(self) -> dict[str, Any]:
        """Return the problem as an object of RFC 9457."""
        content: dict[str, Any] = {
            "type": KIND + self.kind,
            "title": self.kind.replace("-", " "),
            "status": self.status,
            "detail": self.detail,
        }
        if self.errors:
            content["errors"] = [
                {"pointer": pointer, "detail": detail} for pointer, detail in self.errors
            ]
        return content

    def body(self) -> bytes:
        """Return the JSON of the problem; ASCII, so that no text of a request can break it."""
        return json.dumps(self.to_dict()).encode()

    def headers(self) -> dict[str, str]:
        """Return the headers beside the type and the length."""
        headers = {"Cache-Control": "no-store"}
        if self.retry_after is not None:
            headers["Retry-After"] = str(self.retry_after)
        if self.status == HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = "Bearer"
        if self.close:
            headers["Connection"] = "close"
        return headers

    def response(self) -> Response:
        """Return the answer that says it."""
        return Response(self.body(), self.status, self.headers(), MEDIA_TYPE)


def pointer(*path: str | int) -> str:
    """Return a JSON pointer.

    >>> pointer("columns", "a/b", 0)
    '/columns/a~1b/0'
    """
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


def misread(error: ValidationError, known: Sequence[str]) -> Problem:
    """Return the problem of a body that is not JSON, or not what the route takes.

    Parameters
    ----------
    error : ValidationError
        What pydantic says.
    known : sequence of str
        The fields that the route takes.
    """
    found = error.errors(include_url=False, include_context=False, include_input=False)
    if found[0]["type"] == "json_invalid":
        what = found[0]["msg"].removeprefix("Invalid JSON: ")
        return Problem(400, "not-json", f"the body is not JSON: {what}; send one JSON object")
    errors = []
    for item in found:
        complaint = WORDS.get(item["type"]) or item["msg"].removeprefix("Value error, ")
        errors.append((pointer(*item["loc"]), complaint))
    place, complaint = errors[0]
    detail = f"{place or 'the body'} {complaint}"
    if any(item["type"] in ("missing", "extra_forbidden") for item in found):
        detail += f"; the fields are {', '.join(known)}"
    return Problem(422, "invalid-request", detail, errors=errors)
