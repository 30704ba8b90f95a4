"""Model Context Protocol: a server whose tool checks an answer.

``python -m calibrail.integrations.mcp guardrail.json`` serves it on standard input and output.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from calibrail.errors import CalibrailError, InputError
from calibrail.integrations.gate import Gate, Guarding, needs

with needs("mcp"):
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp_types import ToolAnnotations
    from pydantic import BaseModel, Field


class ToolResult(BaseModel):
    """What the tool returns: the decision, and which guardrail made it."""

    id: str
    outcome: Literal["pass", "flag", "review", "error"] = Field(
        description="pass: the answer may be shown. flag: it does not seem to be supported by the "
        "contexts. review: a person must look at it. error: it could not be checked. Whatever is "
        "not pass must not be shown as it is."
    )
    score: float | None = Field(description="Higher = more likely hallucinated.")
    threshold: float | None = Field(description="An answer passes below it.")
    p_value: float | None = Field(
        description="Conformal p-value of the hypothesis that the answer is hallucinated."
    )
    reason: str
    guardrail: str | None = Field(description="The digest of the guardrail that decided.")
    column: str | None = Field(None, description="The column that the score is read from, if any.")
    column_value: float | None = None
    column_threshold: float | None = None
    text: str | None = Field(
        None,
        description="Of a guardrail that removes sentences, where that is asked for: what may be "
        "shown in the answer's place. Null where nothing may be.",
    )
    removed: list[dict[str, Any]] | None = Field(
        None, description="The sentences that it removes, by their places, with the reasons."
    )


def server(guardrail: Guarding) -> MCPServer[Any]:
    """Return a server whose tool ``check_answer`` says whether an answer may be shown.

    Parameters
    ----------
    guardrail : Gate, Guardrail, Client or path
        What decides; its failures are outcomes, and wrong arguments errors of the tool that name
        the argument.

    Raises
    ------
    GuardrailError
        The file is no guardrail that this machine can load.
    """
    gate = Gate.of(guardrail)
    local = gate.guardrail
    made = MCPServer(
        "calibrail",
        instructions="Before an answer is shown, check it with check_answer against the texts that "
        "it rests on, and show it only where the outcome is pass; where the outcome is flag and "
        "the verdict has a text, that text may be shown in its place.",
        log_level="WARNING",
    )
    hints = ToolAnnotations(
        title="Check an answer against its sources",
        read_only_hint=True,
        idempotent_hint=True,
        open_world_hint=local is None or bool(local.endpoints),
    )

    @made.tool(annotations=hints)
    async def check_answer(
        question: Annotated[str, Field(description="What was asked.")],
        contexts: Annotated[
            list[str], Field(description="The texts that the answer must rest on, as retrieved.")
        ],
        response: Annotated[str, Field(description="The answer, word for word.")],
        id: Annotated[str, Field(description="Comes back with the outcome.")] = "",
        columns: Annotated[
            dict[str, float | str | list[float | None] | None] | None,
            Field(description="Values of score or group columns, where the guardrail reads any."),
        ] = None,
    ) -> ToolResult:
        """Say whether an answer is supported by its sources, with a calibrated threshold."""
        given = columns or {}
        if missing := [name for name in (local.columns if local else ()) if name not in given]:
            raise ToolError(f"columns: this guardrail reads {', '.join(missing)}; give a value")
        try:
            decision = await gate.acheck(
                question=question, contexts=contexts, response=response, id=id, columns=columns
            )
        except InputError as error:
            raise ToolError(str(error)) from error
        return ToolResult(**gate.details(decision))

    return made


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve a guardrail as the command line says."""
    parser = argparse.ArgumentParser("python -m calibrail.integrations.mcp", description=__doc__)
    parser.add_argument(
        "guardrail",
        help="the guardrail's file, or the address of a service of `calibrail serve` (its token is "
        "read from CALIBRAIL_TOKEN)",
    )
    parser.add_argument("--log", metavar="FOLDER", help="keep every decision in this folder")
    parser.add_argument(
        "--trim",
        action="store_true",
        help="of a guardrail of sentences: give what is left of an answer without what it removes",
    )
    parser.add_argument("--transport", choices=("stdio", "streamable-http"), default="stdio")
    parser.add_argument("--host", default="127.0.0.1", help="of streamable-http")
    parser.add_argument("--port", type=int, default=8000, help="of streamable-http, at /mcp")
    options = parser.parse_args(arguments)
    try:
        made = server(Gate(_guardrail(options.guardrail), log=options.log, trim=options.trim))
    except CalibrailError as error:
        from calibrail.serialization import harmless

        sys.exit(harmless(f"error: {error}", line=True))
    if options.transport == "stdio":
        made.run()
    else:
        made.run("streamable-http", host=options.host, port=options.port)


def _guardrail(named: str) -> Any:
    if not named.startswith(("http://", "https://")):
        return named
    from calibrail.client import Client

    return Client(named, token=os.environ.get("CALIBRAIL_TOKEN"))


if __name__ == "__main__":
    main()
