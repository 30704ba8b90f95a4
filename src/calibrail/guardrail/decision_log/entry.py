"""What does the log take of one decision?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from calibrail.errors import InputError
from calibrail.guardrail.decision import Decision
from calibrail.guardrail.decision_log.lines import CLOSED, OPENED
from calibrail.text.language import language_of

if TYPE_CHECKING:
    from calibrail.data.example import Example
    from calibrail.guardrail.runtime import Guardrail


@dataclass(frozen=True, slots=True)
class Entry:
    """One decision, as the log takes it.

    Parameters
    ----------
    decision : Decision
        What was decided.
    guardrail : str
        The digest of the guardrail that decided.
    name : str
        Under which name the service has it.
    kind : str
        What was asked: ``check``, or e.g. ``select``. ``opened`` and ``closed`` are the log's own.
    released : bool, optional
        For a selection: whether the answer was released.
    question, response : str
        The texts. Their lengths and language are written; they themselves only where the log keeps
        texts.
    contexts : sequence of str
        Likewise; their number is written.
    group : str, optional
        The answer's group, where the guardrail has thresholds by group; empty for one that the
        guardrail does not know.

    Raises
    ------
    InputError
        If the kind is one of the log's own, or a text is none.
    """

    decision: Decision
    guardrail: str
    name: str = ""
    kind: str = "check"
    released: bool | None = None
    question: str = ""
    contexts: Sequence[str] = ()
    response: str = ""
    group: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind in ("", OPENED, CLOSED):
            raise InputError(
                f"kind must say what was asked, and not be {OPENED!r} or {CLOSED!r}, which are the "
                f"log's own lines; got {self.kind!r:.80}"
            )
        for name in ("question", "response"):
            if not isinstance(text := getattr(self, name), str):
                raise InputError(f"{name} must be a text; got {text!r:.80}")
        if isinstance(self.contexts, str) or not isinstance(self.contexts, Sequence):
            raise InputError(f"contexts must be a list of texts; got {self.contexts!r:.80}")

    @classmethod
    def of(
        cls,
        guardrail: Guardrail,
        example: Example,
        decision: Decision,
        *,
        name: str = "",
        kind: str = "check",
        released: bool | None = None,
    ) -> Self:
        """Return the entry of what a guardrail decided about an answer."""
        grouped = guardrail.rule.groups
        # A name that the guardrail does not know came with the request, and may be any text.
        group = None if grouped is None else grouped.known(guardrail.group_of(example))
        return cls(
            decision,
            guardrail.config.digest,
            name,
            kind,
            released,
            example.question,
            example.contexts,
            example.response,
            group,
        )

    def traffic(self) -> dict[str, Any]:
        """Return what is logged of the texts themselves: lengths in characters, and a language.

        All is None where no text came with the decision, as for a score in a column.
        """
        if not (self.question or self.contexts or self.response):
            return {"question": None, "response": None, "chunks": None, "language": None}
        return {
            "question": len(self.question),
            "response": len(self.response),
            "chunks": len(self.contexts),
            "language": language_of(self.response, self.question),
        }
