"""Decision logs of a service, with the times that a test wants."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

from calibrail import Example, Guardrail
from calibrail.guardrail.decision_log import DecisionLog, Entry
from tests.labelling.rows import traces

BEGIN = datetime(2026, 3, 2, 8, tzinfo=UTC)
_NOW = "calibrail.guardrail.decision_log.writer.now"


def stamp(moment: datetime) -> str:
    """Return a time as the log writes it."""
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def examples(n: int, first: int = 0) -> list[Example]:
    """Return n answers to log, from a number on."""
    rows: Iterable[dict[str, Any]] = traces(first + n)[first:]
    return [
        Example(
            row["question"],
            tuple(row["contexts"]),
            row["response"],
            id=row["id"],
            columns={"suspicion": row["suspicion"]},
        )
        for row in rows
    ]


def logged(
    folder: Path,
    guardrail: Guardrail,
    answers: Sequence[Example],
    *,
    begin: datetime = BEGIN,
    hours: float = 24.0,
    texts: bool = True,
) -> Path:
    """Log what a guardrail decides about answers, spread over some hours, as a process would."""
    decisions = guardrail.decide(list(answers))
    step = timedelta(hours=hours) / max(1, len(answers))
    begin_chain = DecisionLog._begin_chain

    def begin_named_chain(log: DecisionLog) -> None:
        # Which answers an audit draws follows from its seed and the chain's name, which is new in
        # each process: a bound that holds nine times in ten would fail in every tenth run.
        begin_chain(log)
        log.chain = f"{begin:%Y%m%dT%H%M%S}-1-{len(answers):08x}"

    with (
        mock.patch(_NOW, return_value=stamp(begin)),
        mock.patch.object(DecisionLog, "_begin_chain", begin_named_chain),
    ):
        log = DecisionLog(folder, texts=texts)
        for place, (answer, decision) in enumerate(zip(answers, decisions, strict=True)):
            with mock.patch(_NOW, return_value=stamp(begin + place * step)):
                entry = Entry.of(guardrail, answer, decision)
                log.write([entry])
        with mock.patch(_NOW, return_value=stamp(begin + timedelta(hours=hours))):
            log.close()
    return folder
