"""What does a watch say at this moment, as ``status.json`` holds it?"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from calibrail.guardrail.decision_log.cursor import Cursor, Tally
from calibrail.record import plain
from calibrail.settings.watch import WatchOptions

SCHEMA: Final = "calibrail.watch/1"


def status(
    guardrail: str,
    score: Mapping[str, Any],
    options: WatchOptions,
    log: Mapping[str, Any],
    traffic: Mapping[str, Any],
    timeline: Sequence[Mapping[str, Any]],
    promise: Mapping[str, Any],
    prevalence: Mapping[str, Any],
    labels: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return what ``status.json`` holds; nothing in it depends on when it was made.

    Parameters
    ----------
    guardrail : str
        Digest of the guardrail.
    score : mapping
        ``name`` and ``params`` of its detector: in which numbers a user knows its scores.
    options : WatchOptions
        How it is watched.
    log : mapping
        What `log_status` gives.
    traffic, timeline
        What `Monitor` gives.
    promise, prevalence : mapping
        What the labels, and the flags, say.
    labels : mapping or None
        What became of the answers that were drawn; None without labels.
    """
    return {
        "schema": SCHEMA,
        "guardrail": guardrail,
        "score": plain(score),
        "n": log["used"],
        "from": log["from"],
        "to": log["to"],
        "traffic": plain({**traffic, "alarms": _in_order(traffic["alarms"])}),
        "promise": plain(promise),
        "prevalence": plain(prevalence),
        "labels": plain(labels),
        "log": plain(log),
        "timeline": plain(timeline),
        "options": options.to_dict(),
    }


def _in_order(value: Any) -> Any:
    """Return a value whose keys stand in one order, whether it was just made or read again."""
    if isinstance(value, Mapping):
        return {name: _in_order(value[name]) for name in sorted(value)}
    return [_in_order(item) for item in value] if isinstance(value, list | tuple) else value


def log_status(tally: Tally, cursor: Cursor, first: str | None, last: str | None) -> dict[str, Any]:
    """Return what became of a log's lines; ``first`` and ``last`` are times of those used."""
    counted = tally.to_dict()
    return {
        "lines": tally.lines,
        "used": tally.used,
        "skipped": counted["skipped"],
        "missing": tally.missing,
        "found": counted["found"],
        "findings": counted["findings"],
        "other_guardrails": counted["others"],
        "whole": tally.whole,
        "chains": len(cursor.chains),
        "from": first,
        "to": last,
    }
