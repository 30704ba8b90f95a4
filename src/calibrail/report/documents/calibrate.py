"""What does `calibrail calibrate` say about a detector?"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from calibrail.phrases import percent
from calibrail.report import phrases
from calibrail.report.blocks import (
    Bullet,
    Cell,
    Column,
    Folded,
    Heading,
    Json,
    Section,
    Table,
    Text,
    Tile,
    listing,
    numbers,
)
from calibrail.report.document import Document
from calibrail.report.documents.calibrate_sections import of_report
from calibrail.report.documents.calibrate_thresholds import other_thresholds, the_threshold
from calibrail.report.documents.calibrate_words import VERDICTS, assumptions, next_step, title
from calibrail.report.documents.error_examples import error_examples
from calibrail.report.documents.measures import (
    details_table,
    flips,
    measures_table,
    without_threshold,
)
from calibrail.report.documents.measures import measures as measures_of

_Floats = NDArray[np.float64]


def document(
    report: Json,
    scores: tuple[_Floats, _Floats] | None = None,
    examples: Json | None = None,
) -> Document:
    """Return what a report says.

    Parameters
    ----------
    report : mapping
        ``Report.to_dict()``.
    scores : pair of ndarrays of float64, optional
        Test scores of the hallucinated and of the faithful answers, for the figures; NaN
        (undefined) ones are left out.
    examples : mapping, optional
        The worst errors of the test part, ``ErrorExamples.to_dict()``, for the page.
    """
    test, measures = report["test"], measures_of(report)
    return Document(
        "report for",
        subject=phrases.score_name(report),
        headline=report["verdict"].capitalize(),
        verdict=report["verdict"],
        summary=f"{VERDICTS[report['verdict']]} {report['reason']}",
        tiles=(
            Tile("Caught", *measures[0][1:4]),
            Tile("False alarms", *measures[1][1:4]),
            Tile("AUROC", phrases.estimate(test["auroc"]), phrases.bounds(test["auroc"])),
        ),
        blocks=(
            the_threshold(report, scores),
            other_thresholds(report, scores),
            Section(
                "On the test part",
                (
                    measures_table("On the test part", measures, report["confidence"]),
                    Folded("More measures", (details_table(report),)),
                    Text(flips(report["certificate"])),
                ),
            ),
            *of_report(report),
            _other_scores(report),
            None if examples is None else error_examples(examples),
            listing("What the promise rests on", assumptions(report), where="page"),
        ),
        warnings=[
            Bullet(item["message"], title(item["code"]).capitalize()) for item in report["warnings"]
        ],
        notes=report["notes"],
        next_step=next_step(report),
        reproduce=report["reproduce"],
        data=report["data"],
        footer="Every number on this page is in report.json; the texts of answers, where they are "
        "shown, stand on this page alone.",
    )


def _other_scores(report: Json) -> Section | None:
    """Compare with the other detectors and the baselines."""
    detectors, baselines = report["detectors"], report["baselines"]
    if not detectors and not baselines:
        return None
    target = percent(1 - report["alpha"])
    heading = f"At the same target ({target} caught), on the same examples"
    if report["risks"]:
        heading = f"Other scores at {target} caught, for comparison"
    this = {
        **{key: report["test"][key] for key in ("coverage", "fpr", "auroc")},
        "name": report["score"]["name"],
        "threshold": None if report["by_group"] else report["threshold"],
        "this": True,
    }
    rows: list[Sequence[Cell | str] | Heading] = [_row(item) for item in (this, *detectors)]
    if baselines:
        rows += [Heading("Baselines"), *(_row(item) for item in baselines)]
    tested = any(item.get("auroc_difference") for item in baselines)
    return Section(
        "Against other scores",
        (
            Text(
                f"Every row is calibrated to the same target, {target} caught, and tested on the "
                "same examples. A row is better when its AUROC is higher by a paired test and it "
                "raises fewer false alarms; a detector that does not beat the baselines has not "
                "been shown to detect anything.",
                where="page",
            ),
            Table(
                heading,
                (
                    Column("Score", most=26),
                    *numbers("Threshold", "Caught", "False alarms", "AUROC"),
                    Column("Compared", where="both" if tested else "page"),
                ),
                rows,
            ),
            without_threshold((*detectors, *baselines)),
        ),
    )


def _row(item: Json) -> Sequence[Cell | str]:
    return (
        Cell(str(item["name"]), style="strong" if item.get("this") else ""),
        phrases.threshold(item.get("threshold")),
        phrases.share_cell(item.get("coverage")),
        phrases.share_cell(item.get("fpr")),
        phrases.measure_cell(item.get("auroc")),
        _compared(item),
    )


def _compared(row: Json) -> str:
    """Say how a row of a table compares with the reported detector."""
    if row.get("this"):
        return "this one"
    if row.get("beats_detector"):
        return "better"
    if row.get("detector_beats"):
        return "worse"
    return "unclear" if row.get("auroc_difference") else ""
