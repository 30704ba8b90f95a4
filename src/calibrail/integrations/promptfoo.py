"""Promptfoo: an assertion in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from calibrail.integrations.gate import Gate, Guarding


def assertion(
    guardrail: Guarding, question: str = "question", contexts: str = "context"
) -> Callable[[str, Mapping[str, Any]], dict[str, Any]]:
    """Return what promptfoo calls as ``get_assert`` of a ``python`` assertion.

    The assertion passes where the guardrail says ``pass``. Its reason begins with the outcome, so
    that ``review`` and ``error`` stay apart from ``flag``; ``namedScores`` hold what is a number,
    and ``metadata`` the whole decision.

    Parameters
    ----------
    guardrail : Gate, Guardrail, Client or path
        What decides.
    question, contexts : str
        The test's variables that hold them; the chunks are a list of texts, or one text.
    """
    gate = Gate.of(guardrail)

    def get_assert(output: str, context: Mapping[str, Any]) -> dict[str, Any]:
        given = context.get("vars") or {}
        if contexts not in given:
            return _result(False, f"error: the test has no variable {contexts!r}", {}, {})
        decision = gate.check(
            question=str(given.get(question, "")), contexts=given[contexts], response=output
        )
        numbers = {"calibrail_score": decision.score, "calibrail_p_value": decision.p_value}
        return _result(
            decision.outcome == "pass",
            f"{decision.outcome}: {decision.reason}",
            {name: value for name, value in numbers.items() if value is not None},
            gate.details(decision),
        )

    return get_assert


def _result(
    passes: bool, reason: str, numbers: dict[str, float], details: dict[str, Any]
) -> dict[str, Any]:
    return {
        "pass": passes,
        "score": float(passes),
        "reason": reason,
        "namedScores": numbers,
        "metadata": {"calibrail": details},
    }
