"""What must hold of every fault: no pass, no number and no log line that nobody can account for."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from calibrail.guardrail import Decision, Guardrail
from tests.command_line import calibrail
from tests.serve.load import Exchange
from tests.serve.process import Answer, Service

#: Fields of a decision that only a computed score may fill.
NUMBERS = ("score", "p_value", "column_value")
#: Every status that a refusal may have.
REFUSALS = {400, 401, 404, 405, 408, 411, 413, 415, 421, 422, 429, 431, 500, 503}


def nothing_is_invented(
    exchanges: Sequence[Exchange],
    guardrail: Guardrail | Sequence[Guardrail],
    log: Path | None = None,
) -> tuple[int, int]:
    """Hold every answer against what the guardrail decides by itself, and against the log.

    - An answer with a decision is, byte for byte, that of ``Guardrail.check`` in this process, or a
      failure by policy: without a number, and no pass.
    - Any other answer is a problem that holds no decision.
    - Each decision given stands in the log, once and as given, but for the texts that a reason
      quotes; the log verifies, and holds no decision that nobody computed.

    Returns the numbers of decisions and of refusals.
    """
    guardrails = [guardrail] if isinstance(guardrail, Guardrail) else list(guardrail)
    given: dict[str, str] = {}
    n_refused = 0
    for exchange in exchanges:
        if exchange.answer is None:
            continue
        if exchange.answer.status != 200:
            is_refusal(exchange.answer)
            n_refused += 1
            continue
        line = exchange.answer.body.decode().removesuffix("\n")
        is_true(line, exchange.sent, guardrails)
        given[exchange.sent["id"]] = line
    if log is not None:
        lines = verified(log)
        sent = {exchange.sent["id"]: exchange.sent for exchange in exchanges}
        for identifier, line in given.items():
            assert len(lines[identifier]) == 1, (identifier, lines[identifier])
            decision = Decision.from_dict(json.loads(line)).without_texts().to_dict()
            logged = lines[identifier][0]
            assert {name: logged[name] for name in decision} == decision
        for identifier in sent.keys() & lines.keys():
            for logged in lines[identifier]:
                expected = [
                    guardrail.check(**sent[identifier]).without_texts().to_dict()
                    for guardrail in guardrails
                ]
                plain = {name: logged[name] for name in expected[0]}
                assert plain in expected or _failed(plain, guardrails), logged
    return len(given), n_refused


def is_true(line: str, body: dict[str, Any], guardrails: Sequence[Guardrail]) -> None:
    """A decision is the guardrail's own, or a failure by policy."""
    decision = json.loads(line)
    if not _failed(decision, guardrails):
        assert line in [guardrail.check(**body).line() for guardrail in guardrails]


def is_failure(answer: Answer, guardrail: Guardrail) -> None:
    """An answer was not judged: it follows the policy, says why and holds no number."""
    assert answer.status == 200, answer
    assert _failed(answer.json(), [guardrail]), answer


def is_refusal(answer: Answer) -> None:
    """A request was refused, with a problem that a program can read and that decides nothing."""
    assert answer.status in REFUSALS, answer
    assert answer.headers["content-type"] == "application/problem+json", answer
    problem = answer.json()
    assert problem["status"] == answer.status and problem["type"] and problem["detail"], problem
    assert not problem.keys() & {"outcome", "items", *NUMBERS}, problem
    assert "Traceback" not in answer.body.decode()


def verified(log: Path) -> dict[str, list[dict[str, Any]]]:
    """Verify the log folder, and return its lines by the id that they decide about."""
    done = calibrail("log", "verify", log)
    assert done.returncode == 0, done.stdout + done.stderr
    return lines_of(log)


def lines_of(log: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the whole lines of a log folder by the id that they decide about."""
    lines: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for path in sorted(log.glob("*.jsonl")):
        for raw in path.read_bytes().splitlines(keepends=True):
            if raw.endswith(b"\n"):
                line = json.loads(raw)
                lines[line.get("id", "")].append(line)
    return lines


def decides_as_ever(service: Service, guardrail: Guardrail, body: dict[str, Any]) -> None:
    """After all that, an ordinary request has an ordinary answer, and the service is well."""
    answer = service.check(body)
    assert answer.status == 200, answer
    assert answer.body.decode().removesuffix("\n") == guardrail.check(**body).line()
    assert service.ask("GET", "/readyz").status == service.ask("GET", "/healthz").status == 200
    assert "Traceback" not in service.stderr, service.stderr


def _failed(decision: dict[str, Any], guardrails: Sequence[Guardrail]) -> bool:
    policies = {guardrail.config.policy.failure for guardrail in guardrails}
    assert "pass" not in policies
    return (
        decision["outcome"] in policies
        and all(decision.get(name) is None for name in NUMBERS)
        and "policy: " in decision["reason"]
        and "undefined score" not in decision["reason"]
    )
