"""``calibrail score``: only the numbers, as a Parquet table."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from calibrail.cli import options as opt
from calibrail.cli.output import Showing, spent, unusable
from calibrail.cli.progress import counting


@opt.takes_settings
def run(
    data: opt.Data,
    output: Annotated[
        Path,
        opt.to_file("Parquet file to write."),
    ],
    detectors: Annotated[opt.Detectors, opt.Pick(only=("score",))],
    reading: opt.Reading,
    work: opt.Work,
    show: Showing,
) -> None:
    """Score every answer and write one column per detector; labels are not needed.

    Higher always means more likely hallucinated; a column of the data in which higher means
    faithful is negated, and stands as it was in NAME__column. Where a score is undefined the cell
    is empty and the column NAME__reason says why.
    """
    from calibrail.data.sources import spoken
    from calibrail.scores.table_file import score_file
    from calibrail.workflow.scoring import score_by_parts

    scores, quarantine = detectors.scores(), output.parent / "quarantine.jsonl"
    reading = replace(reading, quarantine=quarantine)
    with counting("scoring", work) as context:
        if show.dry_run:
            show.planned(data, scores, reading=reading, labelled=False)
        with score_file(output) as file:
            made, read = score_by_parts(
                data, scores, file.add, reading=reading, progress=context.progress
            )
            # Where there is no row, the columns are known all the same.
            file.add(made)
    content = {
        "schema": "calibrail.score/1",
        "source": spoken(data),
        "examples": file.n,
        "quarantined": read.n_quarantined,
        "part": read.part(),
        "undefined": {key: file.undefined.get(key, 0) for key in made.columns},
        "costs": [cost.to_dict() for cost in made.costs],
    }
    n_unusable = unusable(read.n_quarantined, quarantine)
    notes = spent(made, made.columns), f"wrote {output}", n_unusable
    show.finish("score", content, *notes)
