"""``calibrail score``: only the numbers, as a Parquet table."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from calibrail.cli import options as opt
from calibrail.cli.output import Showing, spent, unusable
from calibrail.cli.progress import counting

#: What the option means where nothing is promised.
_UNIT = "What a row is: an answer, or one of its sentences, scored from what stands up to its end."


@opt.takes_settings
def run(
    data: opt.Data,
    output: Annotated[
        Path,
        opt.to_file("Parquet file to write."),
    ],
    detectors: Annotated[opt.Detectors, opt.Pick(only=("score",))],
    promise: Annotated[opt.Promise, opt.Pick(only=("unit",), help={"unit": _UNIT})],
    reading: opt.Reading,
    work: opt.Work,
    show: Showing,
) -> None:
    """Score every answer and write one column per detector; labels are not needed.

    Higher always means more likely hallucinated; a column of the data in which higher means
    faithful is negated, and stands as it was in NAME__column. Where a score is undefined the cell
    is empty and the column NAME__reason says why. With --unit sentence there is a row a sentence:
    its answer's id, its number, and where it starts and ends.
    """
    from calibrail.data.sources import spoken
    from calibrail.scores.table_file import score_file
    from calibrail.workflow.scoring import score_by_parts
    from calibrail.workflow.sentence_scores import columns_of_places, score_sentences_by_parts

    scores, quarantine = detectors.scores(), output.parent / "quarantine.jsonl"
    reading = replace(reading, quarantine=quarantine)
    with counting("scoring", work) as context:
        if show.dry_run:
            show.planned(data, scores, reading=reading, labelled=False, unit=promise.unit)
        with score_file(output) as file:
            by_sentence = promise.unit == "sentence"
            by_parts = score_sentences_by_parts if by_sentence else score_by_parts
            made, read = by_parts(
                data, scores, file.add, reading=reading, progress=context.progress
            )
            # Where there is no row, the columns are known all the same.
            file.add(made, columns_of_places([]) if by_sentence else None)
    content = {
        "schema": "calibrail.score/1",
        "source": spoken(data),
        **({} if promise.unit == "answer" else {"unit": promise.unit}),
        "examples": file.n,
        "quarantined": read.n_quarantined,
        "part": read.part(),
        "undefined": {key: file.undefined.get(key, 0) for key in made.columns},
        "costs": [cost.to_dict() for cost in made.costs],
    }
    n_unusable = unusable(read.n_quarantined, quarantine)
    notes = spent(made, made.columns), f"wrote {output}", n_unusable
    show.finish("score", content, *notes)
