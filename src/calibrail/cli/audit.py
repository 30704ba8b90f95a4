"""``calibrail audit``: what does a detector's result rest on, and where does it fail?"""

from dataclasses import dataclass, replace
from typing import Annotated

import calibrail
from calibrail.cli import options as opt
from calibrail.cli.output import Showing, spent, unusable
from calibrail.cli.progress import counting
from calibrail.settings.option import setting
from calibrail.workflow.forecast import TEXTS_KEPT


@dataclass(frozen=True, slots=True)
class Looks(Showing):
    """What an audit looks at beside the detectors, and how it is shown."""

    by: tuple[str, ...] = setting(
        "Column of groups: each is a stratum. Repeatable.", (), metavar="COL"
    )
    geometry: bool = setting("Embed the texts for angles; no model is downloaded.", True)


@opt.takes_settings
def run(
    data: opt.Data,
    output: opt.RunFolder,
    detectors: opt.DetectorsAlone,
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
    work: opt.Work,
    looks: Annotated[Looks, opt.Pick(without=("dry_run", "page"))],
) -> None:
    """Look into detectors: what explains their result, where do they fail, do they agree?

    Says how much of the AUROC is explained by length, new words and the like, how the detectors do
    in strata, whether they agree and are reliable, and whether copies or groups give labels away.
    Writes audit.json, report.html, scores.parquet and figures into RUN.
    """
    quarantine = output / "quarantine.jsonl"
    with counting("scoring", work, kept=TEXTS_KEPT) as context:
        result = calibrail.audit(
            data,
            detectors.scores(),
            by=looks.by,
            reading=replace(reading, quarantine=quarantine),
            splitting=splitting,
            undefined=promise.undefined,
            geometry=looks.geometry,
            confidence=requirement.confidence,
            context=context,
        )
        result.save(output)
    content = result.to_dict()
    looks.finish(
        "audit",
        content,
        spent(result.table, {item["name"] for item in content["detectors"]}),
        f"wrote {output}/report.html, audit.json, scores.parquet, figures/",
        unusable(content["data"]["n_quarantined"], quarantine),
    )
