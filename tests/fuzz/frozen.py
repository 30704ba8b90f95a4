"""Which run and guardrail do damaged files meet?"""

from __future__ import annotations

from pathlib import Path

from calibrail import calibrate
from tests.fuzz.seeds import sources


def frozen(folder: Path) -> tuple[Path, Path]:
    """Return the folder of a small run and the file of its guardrail, made once a folder."""
    run, guardrail = folder / "frozen-run", folder / "frozen.json"
    if not guardrail.exists():
        source = folder / "frozen.jsonl"
        source.write_bytes(sources()["jsonl"]["rows.jsonl"])
        result = calibrate(source, "novelty", alpha=0.3, max_fpr=0.9)
        result.save(run)
        result.freeze().save(guardrail)
    return run, guardrail
