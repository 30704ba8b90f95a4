"""``calibrail export``: from a run to a frozen guardrail."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import calibrail
from calibrail.cli import options as opt
from calibrail.settings.checks import one_of

if TYPE_CHECKING:
    from calibrail.conformal.rule import Rule


@opt.takes_settings
def run(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a calibrate run.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Guardrail file to write.")
    ],
    *,
    on_failure: Annotated[
        str,
        typer.Option(
            metavar="error|flag|review", help="Outcome for an answer on which the detector fails."
        ),
    ] = "error",
    show: opt.ShowJson,
) -> None:
    """Freeze a run into one file that decides in production as it did when it was tested.

    The file holds the detector's spec and weights digest, the threshold, the calibration scores
    and the report's headline; no text. A run that was rejected can be exported too: the file
    says so.
    """
    guardrail = calibrail.Run.load(run_folder).freeze(
        on_failure=one_of(on_failure, ("error", "flag", "review"), "--on-failure")
    )
    guardrail.save(output)
    config = guardrail.config
    content = {
        "schema": "calibrail.export/1",
        "guardrail": str(output),
        "digest": config.digest,
    }
    thresholds, headline = _thresholds(guardrail.rule, config.promise.by), config.headline
    verdict = headline.verdict
    show.finish(
        [f"{output}: {config.score.name}, {thresholds}; {verdict} when calibrated"],
        content,
        "" if verdict == "certified" else f"this guardrail is not certified: {headline.reason}",
        next_step=f"calibrail check {output} TRACES -o decisions.jsonl",
    )


def _thresholds(rule: Rule, by: str | None) -> str:
    """Say in a few words how the guardrail decides."""
    threshold = rule.calibration.threshold if rule.chosen is None else rule.chosen
    stops = f"{threshold:.6g} or higher"
    if rule.groups is not None:
        stops = f"its own threshold in {len(rule.groups.groups)} groups of {by}, {stops} elsewhere"
    if rule.flag_above is None:
        return f"flags at {stops}"
    return f"reviews at {stops}, flags above {rule.flag_above:.6g}"
