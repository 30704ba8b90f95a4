"""Haystack: a component that routes replies by their decisions."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Sequence
from os import PathLike, fspath
from typing import Any, Final, TypeAlias, cast

from calibrail.errors import error_text
from calibrail.guardrail.decision import Decision
from calibrail.integrations.gate import Gate, Guarding, needs

with needs("haystack"):
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.core.errors import SerializationError
    from haystack.dataclasses import ChatMessage


#: Replies of a generator: texts, or messages of a chat.
Replies: TypeAlias = list[str] | list[ChatMessage]

_META: Final = "calibrail"
#: What comes out, by name.
_OUTPUTS: Final[dict[str, Any]] = {
    **dict.fromkeys(("replies", "withheld", "refusals", "calls"), Replies),
    "decisions": list[dict[str, Any]],
}

#: Whoever comes first reads a file. Of the module: copies of a pipeline copy its components.
_ONCE: Final = threading.Lock()


@component
class GuardrailRouter:
    """A component that sends replies on where the outcome is ``pass``, and all others elsewhere.

    Parameters
    ----------
    guardrail : Gate, Guardrail, Client or path
        What decides. A pipeline that is written to YAML needs the path, which is what is written;
        a file is read when the pipeline warms up, or with the first reply.
    """

    def __init__(self, guardrail: Guarding) -> None:
        self._path = fspath(guardrail) if isinstance(guardrail, str | PathLike) else None
        self._gate = None if self._path is not None else Gate.of(guardrail)

    def warm_up(self) -> None:
        """Read the guardrail's file, once."""
        self._ready()

    async def warm_up_async(self) -> None:
        """Read it while the event loop goes on."""
        await asyncio.to_thread(self._ready)

    def to_dict(self) -> dict[str, Any]:
        """Return the component as a pipeline's YAML holds it.

        Raises
        ------
        SerializationError
            The component was made of something in memory.
        """
        if self._path is None:
            raise SerializationError(error_text("guardrail_in_memory"))
        return dict(default_to_dict(self, guardrail=self._path))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> GuardrailRouter:
        """Return the component that a pipeline's YAML holds."""
        return cast(GuardrailRouter, default_from_dict(cls, data))

    @component.output_types(**_OUTPUTS)
    def run(self, query: str, documents: list[Document], replies: Replies) -> dict[str, Any]:
        """Decide about each reply to a query.

        Parameters
        ----------
        query : str
            The question.
        documents : list of Document
            The sources; those without a text are left out.
        replies : list of str or of ChatMessage
            A message that calls a tool is no reply, whatever it says beside.

        Returns
        -------
        dict
            ``replies`` that may be released; ``withheld``, all others, and ``refusals``, what is
            shown instead of each; ``calls``, messages that call tools, of which nobody has decided;
            ``decisions``, one for each other reply, in their order. Messages hold the decision
            about them in ``meta["calibrail"]``, too.

        Raises
        ------
        InputError
            A reply is neither a text nor a message.
        """
        gate = self._ready()
        every = [_asked(query, documents, reply) for reply in replies]
        return _routed(gate, replies, [gate.check(**it) if it else None for it in every])

    @component.output_types(**_OUTPUTS)
    async def run_async(
        self, query: str, documents: list[Document], replies: Replies
    ) -> dict[str, Any]:
        """Decide as `run` does, while the event loop goes on."""
        gate = await asyncio.to_thread(self._ready)
        every = [_asked(query, documents, reply) for reply in replies]
        return _routed(gate, replies, [await gate.acheck(**it) if it else None for it in every])

    def _ready(self) -> Gate:
        with _ONCE:
            if self._gate is None:
                assert self._path is not None
                self._gate = Gate(self._path)
        return self._gate


def _asked(
    query: str, documents: list[Document], reply: str | ChatMessage
) -> dict[str, Any] | None:
    """Return what a gate checks, or None for what is no reply."""
    text: Any = reply
    if isinstance(reply, ChatMessage):
        if reply.tool_calls:
            return None
        text = "\n".join(reply.texts)
        if reply.images or reply.files:
            text = ValueError("a part of the answer is no text: an image or a file")
    contexts = [item.content for item in documents if item.content is not None]
    return {"question": query, "contexts": contexts, "response": text}


def _routed(gate: Gate, replies: Replies, decisions: Sequence[Decision | None]) -> dict[str, Any]:
    routes: dict[str, Any] = {name: [] for name in _OUTPUTS}
    for reply, decision in zip(replies, decisions, strict=True):
        if decision is None:
            routes["calls"].append(reply)
            continue
        details = gate.details(decision)
        routes["decisions"].append(details)
        noted, instead = _noted(reply, gate.shown(decision, ""), details)
        if gate.releases(decision):
            routes["replies"].append(instead if decision.flagged else noted)
        else:
            routes["withheld"].append(noted)
            routes["refusals"].append(instead)
    return routes


def _noted(reply: str | ChatMessage, instead: str, details: dict[str, Any]) -> tuple[Any, Any]:
    """Return a reply and what is shown instead, with the decision where they can carry it."""
    if isinstance(reply, str):
        return reply, instead
    meta = {_META: details}
    noted = copy.deepcopy(reply)
    noted.meta.update(meta)
    return noted, ChatMessage.from_assistant(instead, meta=meta)
