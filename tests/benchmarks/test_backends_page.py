"""The table of the documentation is the one that was measured."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_shows_the_summary_as_it_was_measured() -> None:
    measured = (ROOT / "benchmarks" / "results" / "backends.md").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "backends.md").read_text(encoding="utf-8")
    summary = measured.split("## Summary\n\n")[1].split("\n\n")[0]
    assert len(summary.splitlines()) == 7
    # Measured when there was int8, which is gone. The page has the times, the first two columns.
    rows = [
        row.split(" | ")[:3] for row in summary.splitlines() if not row.startswith("| onnx int8 ")
    ]
    shown = [" | ".join(row) + " |" for row in rows if "---" not in row[0]]
    assert len(shown) == 5 and all(row.removeprefix("|  ") in page for row in shown)
