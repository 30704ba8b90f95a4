"""Answers that were never labelled, plain ones and hostile ones, and sessions on them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import calibrail
from calibrail.labelling.session import Session

EMOJI = "😀 first. Ships have used it since Roman times 👩‍👩‍👧‍👦 and before."

#: What markup, scripts, terminals and directions would act on.
HOSTILE: tuple[dict[str, Any], ...] = (
    {
        "id": '<img src=x onerror="alert(1)">\u202e',
        "question": "<script>alert(1)</script>\u202egnirts\u0000",
        "contexts": [
            "<iframe src='https://example.org/'></iframe><style>*{display:none}</style>",
            "zero\u200bwidth\ufeff \u0007 \u001b[31mred \u001b]0;title\u0007",
            "lone \ud83d and \ude00; &lt;b&gt; ]]> </script>",
            " ",
        ],
        "response": "<a href='javascript:alert(1)'>link</a> \ud800 \u0000\r\nline\u2028next 😀 end",
    },
    {
        "id": "markup",
        "question": "{{7*7}} [bold]x[/bold]",
        "contexts": [],
        "response": "${alert(1)}",
    },
    {
        "id": "A" * 5000,
        "question": "Q" * 20_000,
        "contexts": ["B" * 50_000],
        "response": "C" * 9_000,
    },
)


def plain(n: int, *, chunks: int = 3) -> list[dict[str, Any]]:
    """Return answers about as many rivers."""
    return [
        {
            "id": f"river-{i}",
            "question": f"How long is river number {i}?",
            "contexts": [
                f"River {i} is {100 + i} kilometres long. It is chunk {c}." for c in range(chunks)
            ],
            "response": f"River {i} is {100 + i} kilometres long. {EMOJI}",
        }
        for i in range(n)
    ]


def written(folder: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write answers into a file."""
    path = folder / "traces.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def session(folder: Path, rows: Sequence[dict[str, Any]], **options: Any) -> Session:
    """Begin to label."""
    return calibrail.label(written(folder, rows), folder / "labels", **options)


def labels(folder: Path) -> list[dict[str, Any]]:
    """Return what stands in the file of labels."""
    text = (folder / "labels" / "labels.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]
