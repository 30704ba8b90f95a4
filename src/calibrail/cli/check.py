"""``calibrail check``: decisions of a frozen guardrail about a file of answers."""

import shlex
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from calibrail.cli import options as opt
from calibrail.cli.output import DONE, FAILURE, Showing, note
from calibrail.cli.progress import counting


@opt.takes_settings
def run(
    guardrail: opt.Guardrail,
    traces: Annotated[
        list[str], typer.Argument(metavar="TRACES...", help="Answers to decide about.")
    ],
    output: Annotated[
        Path,
        opt.to_file("JSON lines to write; - for stdout."),
    ],
    reading: opt.ReadingUnlabelled,
    work: opt.Work,
    trust: opt.Trust,
    show: Showing,
    evidence: Annotated[
        bool,
        typer.Option(
            "--evidence", help="Write what each decision rests on: sentences, chunks, spans."
        ),
    ] = False,
) -> None:
    """Decide about every answer of a file: pass, flag, review or error, with score and p-value.

    A guardrail of sentences writes what may be shown, too: the text without what it removes.

    Streams: memory does not grow with the file. Labels are not needed and not read. A row that
    cannot be read gets the outcome error, and stands in quarantine.jsonl beside the decisions.
    """
    from calibrail.data.reading import Reading
    from calibrail.data.sources import spoken
    from calibrail.models.remote import RemoteModel
    from calibrail.phrases import count
    from calibrail.workflow.check import check_source
    from calibrail.workflow.inherited import taking_up

    to_stdout = str(output) == "-"
    folder = Path() if to_stdout else output.parent
    loaded = trust.load(guardrail)
    for model in getattr(loaded.score, "models", ()):
        if isinstance(model, RemoteModel):
            note(f"this guardrail sends the answers to {model.endpoint}")
    reading, taken_up = taking_up(reading, loaded, traces, labelled=False)
    if taken_up:
        note(
            f"read with {shlex.join(taken_up)}, as the calibration data was; options given here win"
        )
    reading = replace(reading, quarantine=folder / "quarantine.jsonl")
    with counting("checking", work) as context:
        if show.dry_run:
            show.planned(traces, loaded.score, reading=reading, labelled=False, unit=loaded.unit)
        read: list[Reading] = []
        results = check_source(
            loaded,
            traces,
            None if to_stdout else output,
            reading=reading,
            evidence=evidence,
            progress=context.progress,
            opened=read.append,
        )
    total, errors = results.total(), results["error"]
    outcomes = Counter(results)
    trimmed = {name: outcomes.pop(name, 0) for name in ("trimmed", "emptied")}
    if flagged := sum(trimmed.values()):
        outcomes["flag"] += flagged
    show.finish(
        "check",
        {
            "schema": "calibrail.check/1",
            "source": spoken(traces),
            "checked": total,
            "outcomes": dict(sorted(outcomes.items())),
            **({"trimmed": trimmed} if loaded.unit == "sentence" else {}),
            "left_out": dict(read[0].filtered),
            "part": read[0].part(),
        },
        "" if to_stdout else f"wrote {output}",
        f"not judged: {count(errors, 'answer')}; the reason stands in each line" if errors else "",
        code=FAILURE if total and errors == total else DONE,
        names={"GUARDRAIL": guardrail, "DATA": traces, "DECISIONS": output},
        silent=to_stdout,
    )
