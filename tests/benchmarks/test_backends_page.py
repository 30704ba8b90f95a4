"""The table of the documentation is the one that was measured."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_shows_the_summary_as_it_was_measured() -> None:
    measured = (ROOT / "benchmarks" / "results" / "backends.md").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "backends.md").read_text(encoding="utf-8")
    summary = measured.split("## Summary\n\n")[1].split("\n\n")[0]
    assert len(summary.splitlines()) == 7
    # Measured when there was int8, which is gone: all other rows stand on the page as they are.
    shown = [row for row in summary.splitlines() if not row.startswith("| onnx int8 ")]
    assert len(shown) == 6 and "\n".join(shown) in page
