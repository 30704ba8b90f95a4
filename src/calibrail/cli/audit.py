"""``calibrail audit``: what does a detector's result rest on, and where does it fail?"""

from dataclasses import dataclass, replace
from typing import Annotated

import typer

from calibrail.cli import options as opt
from calibrail.settings.option import setting


@dataclass(frozen=True, slots=True)
class Looks:
    """What an audit looks at beside the detectors, and how it is shown."""

    by: tuple[str, ...] = setting(
        "Column of groups: each is a stratum. Repeatable.", (), metavar="COL"
    )
    geometry: bool = setting("Embed the texts for angles; no model is downloaded.", True)
    json: bool = setting("Print the machine-readable result on standard output.", False)


@opt.takes_settings
def run(
    data: opt.Data,
    output: opt.RunFolder,
    detectors: opt.Detectors,
    promise: Annotated[opt.Promise, opt.Pick(only=("undefined",))],
    requirement: Annotated[
        opt.Requirement,
        opt.Pick(only=("confidence",), help={"confidence": "Level of every interval and test."}),
    ],
    reading: opt.Reading,
    splitting: Annotated[
        opt.Splitting,
        opt.Pick(without=("calibration_share",), help={"seed": "Seed of folds and split."}),
    ],
    calls: opt.Calls,
    looks: Looks,
) -> None:
    """Look into detectors: what explains their result, where do they fail, do they agree?

    Says how much of the AUROC is explained by length, new words and the like, how the detectors do
    in strata, whether they agree and are reliable, and whether copies or groups give labels away.
    Writes audit.json, report.html, scores.parquet and figures into RUN.
    """
    from calibrail.cli.exits import DONE
    from calibrail.cli.output import (
        command_line,
        note,
        note_costs,
        note_quarantined,
        print_result,
    )
    from calibrail.cli.progress import counting
    from calibrail.report.documents.audit import document
    from calibrail.workflow.audit import audit
    from calibrail.workflow.context import Context

    quarantine = output / "quarantine.jsonl"
    with counting("scoring", calls) as progress:
        result = audit(
            data,
            detectors.scores(),
            by=looks.by,
            reading=replace(reading, quarantine=quarantine),
            splitting=splitting,
            undefined=promise.undefined,
            geometry=looks.geometry,
            confidence=requirement.confidence,
            context=Context(command_line(), progress),
        )
        result.save(output)
    content = result.to_dict()
    print_result(content, document, looks.json)
    named = {item["name"] for item in content["detectors"]}
    note_costs(cost for cost in result.table.costs if cost.score in named)
    note(f"wrote {output}/report.html, audit.json, scores.parquet, figures/")
    note_quarantined(content["data"]["n_quarantined"], quarantine)
    raise typer.Exit(DONE)
