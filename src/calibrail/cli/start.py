"""Commands to begin with: doctor, score, test, calibrate, compare, plan."""

import shlex
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import calibrail
from calibrail.cli import parameters as opt
from calibrail.cli.output import (
    DONE,
    FAILURE,
    INCONCLUSIVE,
    OF_VERDICT,
    Showing,
    counting,
    file_to_write,
    say,
    spent,
    unusable,
)
from calibrail.errors import InputError, file_errors
from calibrail.options import Beyond, Costs, ReadOptions
from calibrail.options.fields import one_of, setting
from calibrail.options.guarantee import OF_ONE_DETECTOR
from calibrail.serialization import plain


@dataclass(frozen=True, eq=False)
class ReportOptions(Showing, Beyond):
    """What is shown, and what of it beyond the labelled data."""


@dataclass(frozen=True, eq=False)
class CalibrateOptions(ReportOptions, Costs):
    """The same, and a threshold that is tested, or costs by which it is picked."""

    panel: ClassVar = "Promise"

    threshold: float | None = setting(default=None)


@dataclass(frozen=True, eq=False)
class CompareOptions(Showing, opt.NewGuardrail):
    """What is shown of a comparison, and what of it is frozen."""

    panel: ClassVar = "Output"

    export: Path | None = setting(default=None, metavar="FILE", writes="guardrail")
    best: bool = setting(default=False)
    reference: str | None = setting(default=None, metavar="NAME")
    margin: float | None = setting(default=None)


@dataclass(frozen=True, eq=False)
class Goals(Costs):
    """The threshold that is tested, what is asked of it, and what its errors cost."""

    threshold: float | None = setting(default=None, main=True)
    min_caught: float | None = setting(default=None, main=True)
    max_false_alarms: float | None = setting(default=None, main=True)


def test_command(
    data: opt.Data,
    goals: Goals,
    detectors: Annotated[opt.DetectorsAlone, opt.Pick(only=("score", "score_column", "higher"))],
    output: Annotated[Path | None, opt.to_folder("RUN")] = None,
    *,
    promise: Annotated[opt.Promise, opt.Pick(only=("undefined",))],
    requirement: Annotated[
        opt.Requirement, opt.Pick(only=("confidence", "assume_independent", "n_looks"))
    ],
    reading: opt.Reading,
    work: opt.Work,
    show: Annotated[ReportOptions, opt.Pick(without=("target",))],
) -> None:
    """Test a threshold you already use: what it catches and flags.

    All labelled answers test it, so it must have been fixed before anyone looked at them. The
    column of scores and what a higher value means are found where names are clear. With
    --min-caught and --max-false-alarms it must meet both: exit code 0 certified, 3 rejected, 4
    inconclusive. With -o RUN it writes what calibrate writes, and `calibrail export RUN` freezes a
    guardrail with this very threshold.
    """
    if len(named := [*detectors.score, *detectors.score_column]) > 1:
        raise InputError(f"test takes one score; got {len(named)}")
    reading = replace(reading, quarantine=None if output is None else output / "quarantine.jsonl")
    with counting("scoring", work) as context:
        if show.dry_run:
            show.planned(*_tested(data, goals, detectors, reading), reading=reading)
        result = calibrail.test(
            data,
            *detectors.score,
            **asdict(goals),
            confidence=requirement.confidence,
            undefined=promise.undefined,
            assume_independent=requirement.assume_independent,
            n_looks=requirement.n_looks,
            score_column=next(iter(detectors.score_column), None),
            higher=detectors.higher,
            reading=reading,
            context=replace(context, text=not show.no_text),
            looks=None if output is None else output / "looks.json",
        )
        if output is not None:
            result.save(output, text=not show.no_text)
    n = result.data["n_quarantined"]
    unused = say("fixed_threshold.overlooked", n=n, path=shlex.quote(str(data))) if n else ""
    show.finish(
        "calibrate",
        result.report.to_dict(),
        *(spent(result.table) if detectors.score else ()),
        unused if output is None else unusable(n, reading.quarantine),
        f"wrote {output}/report.html, report.json, calibration.json" if output is not None else "",
        say("command.look_not_kept") if output is None and goals.min_caught is not None else "",
        code=DONE if goals.min_caught is None else OF_VERDICT[result.verdict],
        names={"DATA": data} | ({} if output is None else {"RUN": output}),
    )


def _tested(
    data: Any, goals: Goals, detectors: opt.DetectorArguments, reading: ReadOptions
) -> tuple[Any, Any]:
    """Return what test would read, and its detector."""
    from calibrail.pipelines.fixed_threshold import found_column

    if detectors.score:
        return data, detectors.score
    column = next(iter(detectors.score_column), None)
    return found_column(data, goals.threshold, reading, column, detectors.higher)


def calibrate_command(
    data: opt.Data,
    output: opt.RunFolder,
    detectors: opt.DetectorArguments,
    promise: opt.Promise,
    requirement: opt.Requirement,
    reading: opt.Reading,
    splitting: opt.Splitting,
    work: opt.Work,
    show: Annotated[CalibrateOptions, opt.Pick(without=("page",))],
) -> None:
    """Find the threshold that catches 1 - alpha of hallucinations.

    Half of the data (by group, seeded) sets the threshold, the other half tests it; with
    --guarantee pac all of it does, and the rank proves what is caught. Writes scores.parquet,
    report.json, report.html, figures and calibration.json into RUN; report.html alone shows texts,
    of the worst errors. With --unit sentence, sentences are removed from their answers, and
    sentences.parquet has a row for each. Exit code 0, or 3 where it is rejected; 4 if inconclusive
    where a verdict was asked (--max-false-alarms, --min-kept or --risk).
    """
    # Of a threshold it is the column that there is, as test finds it.
    own = data if show.threshold is None or show.dry_run else None
    scores = detectors.scores(own, reading, unit=promise.unit) or None
    reading = replace(reading, quarantine=output / "quarantine.jsonl")
    with counting("scoring", work) as context:
        if show.dry_run:
            show.planned(data, scores, reading=reading, splitting=splitting, unit=promise.unit)
        result = calibrail.calibrate(
            data,
            scores,
            promise,
            requirement,
            target=show.target,
            reading=reading,
            splitting=splitting,
            baselines=detectors.baselines,
            context=replace(context, text=not show.no_text),
            looks=output / "looks.json",
            threshold=show.threshold,
            costs=show.costs(),
        )
        result.save(output, text=not show.no_text)
    # Without a limit only a promise that the test refutes has a verdict.
    judged = requirement.asks or result.verdict == "rejected"
    tables = "scores.parquet" + ", sentences.parquet" * (promise.unit == "sentence")
    # A terminal shows two answers and what was removed of them; what is kept in a file, none.
    examples = result.examples if promise.unit == "sentence" and sys.stdout.isatty() else None
    show.finish(
        "calibrate",
        result.report.to_dict(),
        *spent(result.table),
        f"wrote {output}/report.html, report.json, calibration.json, {tables}, figures",
        unusable(result.data["n_quarantined"], reading.quarantine),
        code=OF_VERDICT[result.verdict] if judged else DONE,
        names={"RUN": output},
        examples=None if examples is None else plain(examples),
    )


def compare_command(
    data: opt.Data,
    output: opt.RunFolder,
    detectors: opt.DetectorArguments,
    promise: opt.ThresholdPromise,
    requirement: Annotated[opt.Requirement, opt.Pick(without=OF_ONE_DETECTOR)],
    reading: opt.Reading,
    splitting: opt.Splitting,
    work: opt.Work,
    show: Annotated[CompareOptions, opt.Pick(without=("page",))],
) -> None:
    """Set the false alarms of several detectors side by side.

    Baselines (answer length, new words, ...) stand beside them: a detector that does not beat them
    has not been shown to detect anything. A winner is named only where the data separates it from
    all others, and has its verdict from the half of the test set that did not choose it. With
    --export it is frozen with that verdict. With --reference and --margin it says of every other
    detector whether it raises at most so many more false alarms at the same share caught. Writes
    compare.json, report.html, figures/, scores.parquet, cost.json and chosen.json into RUN. Exit
    code 0; with --export 4 where nothing was frozen, for want of a winner.
    """
    if show.export is None and (show.best or show.sign is not None):
        raise InputError("--best and --sign are for the guardrail to freeze; add --export FILE")
    file_to_write(show.export)
    show.read_key()
    scores = detectors.scores(data, reading, several=True, unit=promise.unit)
    reading = replace(reading, quarantine=output / "quarantine.jsonl")
    with counting("scoring", work) as context:
        if show.dry_run:
            show.planned(data, scores, reading=reading, splitting=splitting, unit=promise.unit)
        result = calibrail.compare(
            data,
            scores,
            promise,
            requirement,
            reading=reading,
            splitting=splitting,
            baselines=detectors.baselines,
            reference=show.reference,
            margin=show.margin,
            context=context,
            looks=output / "looks.json",
        )
        result.save(output)
        content, notes, code = result.to_dict(), list[str](), DONE
        if show.export is not None:
            from calibrail.cli.ship import freeze_into

            try:
                chosen = result.chosen(best=show.best)
            except InputError as error:
                notes, code = [f"nothing was frozen: {error}"], INCONCLUSIVE
            else:
                line, content["export"], notes = freeze_into(show.export, chosen, show)
                notes.insert(0, line)
    show.finish(
        "compare",
        content,
        *spent(result.scored.table),
        f"wrote {output}/compare.json, report.html, figures, scores.parquet, cost.json",
        unusable(result.data["n_quarantined"], reading.quarantine),
        *notes,
        code=code,
        names={"RUN": output},
    )


def doctor_command(
    data: opt.Data, reading: Annotated[opt.Reading, opt.Pick(without=("strict",))], show: opt.Show
) -> None:
    """Look at a file before anything is computed from it.

    Loads no model, and writes nothing but a page where one is asked for.
    """
    diagnosis = calibrail.diagnose(data, reading).to_dict()
    show.finish("doctor", diagnosis, code=DONE if diagnosis["usable"] else FAILURE)


def score_command(
    data: opt.Data,
    output: Annotated[Path, opt.to_file("scores")],
    detectors: Annotated[opt.DetectorArguments, opt.Pick(only=("score",))],
    promise: Annotated[opt.Promise, opt.Pick(only=("unit",))],
    reading: opt.Reading,
    work: opt.Work,
    show: Annotated[Showing, opt.Pick(without=("verbose",))],
) -> None:
    """Score every answer, one column per detector.

    Higher always means more likely hallucinated; a column of the data in which higher means
    faithful is negated, and stands as it was in NAME__column. Where a score is undefined the cell
    is empty and the column NAME__reason says why, as it is for a row that cannot be used. Rows
    stand in the order of the data, with their numbers there. With --unit sentence there is a row a
    sentence: its answer's id, its number, and where it starts and ends.
    """
    from calibrail.data.sources import spoken
    from calibrail.pipelines import scoring
    from calibrail.scores.registry import DEFAULT_SCORE
    from calibrail.scores.table import score_file

    scores = detectors.scores() or [DEFAULT_SCORE]
    reading = replace(reading, quarantine=output.parent / "quarantine.jsonl")
    with counting("scoring", work) as context:
        if show.dry_run:
            show.planned(data, scores, reading=reading, labelled=False, unit=promise.unit)
        with score_file(output) as file:
            by_sentence = promise.unit == "sentence"
            score = scoring.score_sentences_by_parts if by_sentence else scoring.score_by_parts
            made, read = score(data, scores, file.add, reading=reading, progress=context.progress)
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
    unused = unusable(read.n_quarantined, reading.quarantine)
    show.finish("score", content, *spent(made, made.columns), f"wrote {output}", unused)


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """Which labelled answers there may be, and how sure a certificate should come out."""

    panel: ClassVar = "Labels"

    base_rate: float | None = setting(default=None)
    calibration_share: float | None = setting(default=None)
    n: tuple[int, ...] = setting(default=(), metavar="N")
    power: float = setting(default=0.8)
    sequential: bool = setting(default=False)
    budget: int | None = setting(default=None, metavar="N")


@dataclass(frozen=True, slots=True, eq=False)
class Assumed:
    """What is assumed of the detector, or of its threshold."""

    panel: ClassVar = "Assumption"

    auroc: float | None = setting(default=None)
    coverage: float | None = setting(default=None)
    fpr: float | None = setting(default=None)


def plan_command(
    promise: Annotated[opt.Promise, opt.Pick(only=("alpha", "guarantee", "delta"))],
    requirement: Annotated[opt.Requirement, opt.Pick(without=("risks", "min_kept", "n_looks"))],
    labels: Labels,
    assumed: Assumed,
    *,
    figure: Annotated[Path | None, opt.Word("FILE", ("--figure",), file_to_write)] = None,
    show: opt.Show,
) -> None:
    """Say how many labels a promise needs.

    With --alpha alone, the fewest answers that a threshold can come from. With --max-false-alarms,
    --base-rate and either --auroc or --coverage and --fpr, the probability of each verdict by the
    number of labelled answers, and the number for a probability of 80% (--power). With
    --sequential too, how many labels a verdict takes that is looked for after every one of them.
    """
    from calibrail.atomic_files import write_atomically
    from calibrail.conformal.power import Assumption, plan
    from calibrail.conformal.sequential.forecast import plan_sequential
    from calibrail.report.figures.sequential import FIGURE_FORMATS, draw_plan

    format = "" if figure is None else figure.suffix.lower().removeprefix(".")
    if figure is not None and format not in FIGURE_FORMATS:
        raise InputError(f"--figure must end in .{', .'.join(FIGURE_FORMATS)}; got {str(figure)!r}")
    if promise.guarantee is not None:
        one_of(promise.guarantee, ("marginal", "pac", "anytime"), "--guarantee")
    if labels.budget is not None and not labels.sequential:
        raise InputError("--budget says where simulated labelling ends; give --sequential too")
    if labels.sequential:
        gaps = {
            "--base-rate (share of hallucinated answers)": labels.base_rate,
            "--max-false-alarms (share of faithful answers flagged)": requirement.max_fpr,
            "--coverage (share that the threshold truly catches)": assumed.coverage,
            "--fpr (share of faithful answers that it truly flags)": assumed.fpr,
        }
        if missing := [name for name, value in gaps.items() if value is None]:
            raise InputError(f"--sequential needs {'; '.join(missing)}")
    assumption = Assumption(assumed.coverage, assumed.fpr, assumed.auroc)
    result = plan(
        promise,
        requirement,
        assumption,
        base_rate=labels.base_rate,
        calibration_share=labels.calibration_share,
        power=labels.power,
        n=labels.n or None,
    ).to_dict()
    if labels.sequential:
        assert labels.base_rate is not None  # refused above
        required = replace(requirement, min_coverage=requirement.coverage(promise))
        result["sequential"] = plan_sequential(
            required, assumption, labels.base_rate, power=labels.power, budget=labels.budget
        ).to_dict()
    drawn = ""
    if figure is not None:
        content = draw_plan(result, format)
        with file_errors(f"--figure {figure} cannot be written"):
            write_atomically(figure, content)
        drawn = f"the curves are drawn in {figure}"
    show.finish("plan", result, drawn)
