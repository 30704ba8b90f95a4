"""Model Context Protocol: a server whose tool checks an answer.

``python -m calibrail.integrations.mcp guardrail.json`` serves it on standard input and output.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from calibrail.errors import CalibrailError, InputError, tables_beside
from calibrail.integrations.gate import Gate, Guarding, needs

with needs("mcp"):
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp_types import ToolAnnotations
    from pydantic import BaseModel, Field


#: What ``mcp.toml`` says of the server, its tool and its options, by name.
_TEXTS: Final = {k: " ".join(it.split()) for k, it in tables_beside(__file__, "mcp.toml").items()}


class ToolResult(BaseModel):
    """What the tool returns: the decision, and which guardrail made it."""

    id: str
    outcome: Literal["pass", "flag", "review", "error"] = Field(description=_TEXTS["outcome"])
    score: float | None = Field(description=_TEXTS["score"])
    threshold: float | None = Field(description=_TEXTS["threshold"])
    p_value: float | None = Field(description=_TEXTS["p_value"])
    reason: str
    guardrail: str | None = Field(description=_TEXTS["guardrail"])
    column: str | None = Field(None, description=_TEXTS["column"])
    column_value: float | None = None
    column_threshold: float | None = None
    text: str | None = Field(None, description=_TEXTS["text"])
    removed: list[dict[str, Any]] | None = Field(None, description=_TEXTS["removed"])


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
    made = MCPServer("calibrail", instructions=_TEXTS["instructions"], log_level="WARNING")
    hints = ToolAnnotations(
        title="Check an answer against its sources",
        read_only_hint=True,
        idempotent_hint=True,
        open_world_hint=local is None or bool(local.endpoints),
    )

    @made.tool(annotations=hints)
    async def check_answer(
        question: Annotated[str, Field(description=_TEXTS["question"])],
        contexts: Annotated[list[str], Field(description=_TEXTS["contexts"])],
        response: Annotated[str, Field(description=_TEXTS["response"])],
        id: Annotated[str, Field(description=_TEXTS["id"])] = "",
        columns: Annotated[
            dict[str, float | str | list[float | None] | None] | None,
            Field(description=_TEXTS["columns"]),
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
    parser.add_argument("guardrail", help=_TEXTS["file"])
    parser.add_argument("--log", metavar="FOLDER", help=_TEXTS["log"])
    parser.add_argument("--trim", action="store_true", help=_TEXTS["trim"])
    parser.add_argument("--transport", choices=("stdio", "streamable-http"), default="stdio")
    parser.add_argument("--host", default="127.0.0.1", help=_TEXTS["host"])
    parser.add_argument("--port", type=int, default=8000, help=_TEXTS["port"])
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
