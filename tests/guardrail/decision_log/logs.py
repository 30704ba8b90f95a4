"""Logs to test with: made, read and damaged in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from calibrail.guardrail import Decision
from calibrail.guardrail.decision_log import Entry

DIGEST = "sha256:" + "a" * 64


def decision(id: str = "a", **fields: Any) -> Decision:
    given = {"outcome": "pass", "score": 0.1, "threshold": 0.5, "p_value": 0.9, "reason": "low"}
    return Decision(id=id, **{**given, **fields})


def entry(id: str = "a", **fields: Any) -> Entry:
    return Entry(decision(id), DIGEST, "faq", **fields)


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"))


def lines(folder: Path) -> list[dict[str, Any]]:
    """Return every line of a folder, the files by their names."""
    return [
        json.loads(line)
        for path in files(folder)
        for line in path.read_text(encoding="utf-8").split("\n")[:-1]
    ]


def decided(folder: Path) -> list[str]:
    """Return the ids of all decisions in a log."""
    return [line["id"] for line in lines(folder) if line.get("kind") not in ("opened", "closed")]
