"""What is said before an endpoint is asked about the probe answers?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrail.cli.output import note

if TYPE_CHECKING:
    from calibrail.scores.base import Score


def announce(score: Score) -> None:
    """Say how many calls the probes take, and what they cost, before the first one is sent."""
    from calibrail.guardrail.probes import asked_anew, probe_examples
    from calibrail.workflow.dry_run import plan_calls

    with asked_anew():
        for planned in plan_calls(probe_examples(score), [score], labelled=False):
            note(f"asking about the probe answers: {planned.sentence()}")
