"""What looks at whole answers says so, where sentences are removed from them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import calibrail
from calibrail.conformal import plan
from calibrail.errors import InputError
from calibrail.options import Promise, Requirement
from tests.command_line import calibrail as command
from tests.pipelines.test_calibrate_sentences import rows

SENTENCES = Promise(alpha=0.2, unit="sentence")
KEPT = Requirement(min_kept=0.5)


def calls(folder: Path) -> dict[str, Callable[..., Any]]:
    """Return every function that takes a promise of its own and knows no sentences."""
    return {
        "compare": lambda *given: calibrail.compare("example:facts", "novelty", *given),
        "shift": lambda promise, requirement=None: calibrail.shift(
            "example:facts", "novelty", by="group", promise=promise, requirement=requirement
        ),
        "label": lambda promise, requirement=None: calibrail.label(
            folder, "example:facts", requirement, promise=promise
        ),
        "plan": plan,
    }


@pytest.mark.parametrize("name", ["compare", "shift", "label", "plan"])
def test_a_promise_about_sentences_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{name} looks at whole answers.*unit='sentence'"):
        calls(tmp_path / "L")[name](SENTENCES)
    with pytest.raises(InputError, match="min_kept is about the sentences"):
        calls(tmp_path / "L")[name](Promise(alpha=0.2), KEPT)


@pytest.mark.parametrize("name", ["select", "agree"])
def test_a_guardrail_of_sentences_is_refused(name: str) -> None:
    run = calibrail.calibrate(rows(120), "novel_count", SENTENCES, baselines=False)
    calling: dict[str, Callable[..., Any]] = {
        "select": lambda guardrail: calibrail.select(guardrail, rows(10), fdr=0.2),
        "agree": lambda guardrail: calibrail.agree(
            rows(10), label_column="label", judge_column="other", guardrail=guardrail
        ),
    }
    with pytest.raises(InputError, match=f"{name}.*removes sentences"):
        calling[name](run.freeze())


@pytest.mark.parametrize("name", ["compare", "shift", "plan", "label", "audit"])
def test_no_such_command_offers_it(name: str) -> None:
    done = command(name, "--help-all")
    assert done.returncode == 0
    assert "--min-kept" not in done.stdout and "--unit" not in done.stdout
