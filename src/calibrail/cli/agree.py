"""``calibrail agree``: how good is it, when most labels come from a judge and few from people?"""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

import calibrail
from calibrail.cli import options as opt
from calibrail.cli.output import unusable
from calibrail.cli.progress import counting
from calibrail.settings import ScoreThreshold
from calibrail.settings.option import setting


@dataclass(frozen=True, slots=True)
class LabelColumns:
    """Where the labels of people and of the judge stand."""

    human: str = setting(
        "Column of human labels: 1 = hallucinated, 0 = faithful, or blank.", metavar="COL"
    )
    judge: str = setting(
        "Column of the judge's labels: 1 = hallucinated, 0 = faithful.", metavar="COL"
    )


@opt.takes_settings
def run(
    data: opt.Data,
    labels: LabelColumns,
    requirement: Annotated[
        opt.Requirement,
        opt.Pick(only=("confidence",), help={"confidence": "Level of every interval."}),
    ],
    reading: Annotated[opt.Reading, opt.Pick(without=("label_column",))],
    scores: ScoreThreshold | None,
    trust: opt.Trust,
    *,
    guardrail: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What flags: a file that `calibrail export` wrote."),
    ] = None,
    show: opt.Show,
) -> None:
    """Compare a judge's labels with people's, and correct the rates that they give.

    Prevalence, and with --guardrail or --score-column the coverage and the share of false alarms,
    four ways side by side: by the judge alone, by people alone, and corrected in two ways.
    """
    quarantine = Path("quarantine.jsonl")
    with counting("comparing") as context:
        result = calibrail.agree(
            data,
            **asdict(labels),
            guardrail=trust.load_named(guardrail),
            scores=scores,
            confidence=requirement.confidence,
            reading=replace(reading, quarantine=quarantine),
            context=context,
        )
    show.finish(
        "agree",
        result.to_dict(),
        unusable(result.n_quarantined, quarantine),
        names={"GUARDRAIL": guardrail, "DATA": data},
    )
