"""Document of calibrate."""

from dataclasses import replace
from functools import partial

from calibrail.formatting import Scale, count, percent
from calibrail.report import document as parts
from calibrail.report import text
from calibrail.report.document import Document, Json
from calibrail.report.documents import measures, sentence_removal
from calibrail.report.documents.calibrate_messages import (
    assumptions,
    by_sentence,
    how_sure,
    next_step,
    verdict_summary,
)
from calibrail.report.documents.calibrate_sections import of_report
from calibrail.report.documents.examples import error_examples
from calibrail.report.documents.measures import BothScores, scores_figure
from calibrail.report.documents.sentence_removal import stopped_streams
from calibrail.report.figures.scores import CURVE_RANGE, curve_svg, operating_points
from calibrail.report.messages import title


def document(
    report: Json, scores: BothScores | None = None, examples: Json | None = None
) -> Document:
    """Return what a report says.

    Parameters
    ----------
    report : mapping
        ``Report.to_dict()``.
    scores : pair of ndarrays of float64, optional
        Test scores of the hallucinated and of the faithful answers, or of unsupported and of
        supported sentences, for the figures; NaN (undefined) ones are left out.
    examples : mapping, optional
        Answers of the test part, as ``pipelines.examples.page_examples`` gives them,
        for the page.
    """
    scale = Scale.of(report["score"])
    if scores is not None:
        scores = scale.shown(scores[0]), scale.shown(scores[1])
    of_unit = sentence_removal.of_sentences if by_sentence(report) else _of_answers
    return replace(
        of_unit(report, scores, examples),
        subject=text.score_name(report),
        headline=report["verdict"].capitalize(),
        verdict=report["verdict"],
        warnings=[
            parts.Bullet(item["message"], title(f"warning.{item['code']}").capitalize())
            for item in report["warnings"]
        ],
        notes=report["notes"],
        reproduce=report["reproduce"],
        data=report["data"],
        footer="Every number on this page is in report.json; the texts of answers, where they are "
        "shown, stand on this page alone.",
    )


def _of_answers(report: Json, scores: BothScores | None, examples: Json | None) -> Document:
    """Return what only a report about flagging answers says."""
    area, lines = report["test"]["auroc"], measures.of_test_part(report)
    return Document(
        "report for",
        summary=verdict_summary(report),
        tiles=(
            parts.Tile("Caught", *lines[0][1:4]),
            parts.Tile("False alarms", *lines[1][1:4]),
            parts.Tile("AUROC", text.estimate(area), text.bounds(area)),
        ),
        blocks=(
            _threshold(report, scores),
            _other_thresholds(report, scores),
            parts.section(
                "On the test part",
                measures.table("On the test part", lines, report["confidence"]),
                parts.folded("More measures", measures.details(report)),
                parts.Text(measures.flips(report["certificate"])),
            ),
            stopped_streams(report),
            *of_report(report),
            _other_scores(report),
            None if examples is None else error_examples(examples, Scale.of(report["score"])),
            parts.listing("What the promise rests on", assumptions(report), where="page"),
        ),
        next_step=next_step(report),
    )


def _threshold(report: Json, scores: BothScores | None) -> parts.Section:
    """Say which answers are flagged, beside the scores of both classes."""
    figure = scores_figure(
        report,
        scores,
        caption="Test scores of the two classes.{dashed}",
        dashed=" Answers at or {side} of the dashed line are flagged.",
    )
    return parts.section("The threshold", parts.Text(_threshold_sentence(report)), figure)


def _threshold_sentence(report: Json) -> str:
    """Say which answers are flagged, what that promises and where the threshold comes from."""
    scale, limit = Scale.of(report["score"]), report["threshold"]
    name = scale.named(text.score_name(report))
    flag = f"Flag an answer when its {name} is {scale.reaching} {scale.text(limit)}."
    if risks := report["risks"]:
        valid, tried = risks["n_valid"], f"{len(risks['candidates']):,} candidates"
        others = "the only valid one" if valid == 1 else f"like all {valid:,} valid ones"
        return (
            f"{flag} With {percent(risks['confidence'])} confidence this threshold, {others} of "
            f"{tried}, keeps every risk that was asked for."
        )
    target, n = percent(1.0 - report["alpha"]), report["n_calibration"]
    how = how_sure(report, "in this very threshold")
    if report["by_group"] and "by" in report["by_group"]:
        return (
            f"Every answer has a threshold on the {name} that follows from its groups of "
            f"{text.plain(report['by_group']['column'])}; in each group with enough examples at "
            f"least {target} of hallucinations are caught {how}. The table of groups shows them."
        )
    if report["by_group"]:
        return (
            f"Groups of {text.plain(report['by_group']['column'])} with enough examples have a "
            f"threshold of their own on the {name}, which catches at least {target} of their "
            f"hallucinations {how}. The table of groups shows them."
        )
    if report["flag_all"] or limit is None:
        return (
            f"Flag every answer. {count(n, 'hallucinated calibration example').capitalize()} are "
            f"too few for a threshold that catches {target} of hallucinations."
        )
    promise = f"This catches at least {target} of hallucinations {how}"
    if report["guarantee"] == "paper":
        less = "it catches slightly less on average (guarantee: paper)"
        promise = f"This is the paper's rule for {target}; {less}"
    if report["three_way"]:
        return (
            f"An answer passes when its {name} is {scale.harmless} {scale.text(limit)}; the others "
            f"are flagged or reviewed. {promise}."
        )
    if report["clustering"]:
        return f"{flag} {promise}, for an answer from a new group."
    return (
        f"{flag} {promise}. The threshold is number {report['rank']:,} from {scale.harmless} of "
        f"{count(n, 'hallucinated calibration score')}."
    )


def _other_thresholds(report: Json, scores: BothScores | None) -> parts.Section | None:
    """Show what every other threshold would catch and cost."""
    curve, test, max_fpr = report["curve"], report["test"], report["max_fpr"]
    points = operating_points(report)
    scale = Scale.of(report["score"])
    known = None not in (test["fpr"]["estimate"], test["coverage"]["estimate"])
    if scores is None or points is None or not known:
        return None
    highest: dict[int, int] = {}
    for place, caught in enumerate(curve["coverage"]["estimate"]):
        # The highest threshold of each step of five percentage points.
        highest[int(20 * caught)] = place

    def cell(name: str, place: int) -> parts.Cell:
        ends = ("estimate", "lower", "upper")
        return text.share_cell({end: curve[name][end][place] for end in ends})

    steps = [
        (scale.text(curve["thresholds"][place]), cell("coverage", place), cell("fpr", place))
        for step, place in sorted(highest.items(), reverse=True)
        if step >= 8
    ]
    choices = "Thresholds to choose from"
    shared = " Here one threshold serves all groups." if report["by_group"] else ""
    limit = "" if max_fpr is None else " Dashed: the accepted limit of false alarms."
    return parts.section(
        "Other thresholds",
        parts.Text(
            "Every threshold trades caught hallucinations against false alarms. The band holds "
            f"at all thresholds at once with {percent(curve['confidence'])} confidence, so you "
            f"may look first and choose a threshold afterwards: its bounds stand.{shared}"
        ),
        parts.Slider(
            points,
            label="Try another threshold",
            back="Back" if points["in_use"] is None else "Back to the threshold in use",
            caveat="A threshold chosen by looking is not certified: the verdict above is not "
            "about it, and only the simultaneous band (the smaller numbers) holds for it. "
            "Calibrate again for what it catches (--alpha), or test it on fresh labels, before "
            "you rely on it.",
        ),
        parts.Figure(
            "curve",
            partial(curve_svg, curve, test, max_fpr),
            f"Caught against false alarms at every threshold, with its simultaneous band.{limit}",
            limits=CURVE_RANGE,
        ),
        parts.folded(
            choices,
            parts.Table(choices, parts.numbers("Threshold", "Caught", "False alarms"), steps),
        ),
        where="page",
    )


def _other_scores(report: Json) -> parts.Section | None:
    """Compare with the other detectors and the baselines."""
    detectors, baselines = report["detectors"], report["baselines"]
    if not detectors and not baselines:
        return None
    this = {
        **{key: report["test"][key] for key in ("coverage", "fpr", "auroc")},
        "name": report["score"].get("key") or report["score"]["name"],
        "score": report["score"],
        "threshold": None if report["by_group"] else report["threshold"],
    }

    def row(item: Json) -> parts.Row:
        return (
            parts.Cell(str(item["name"]), style="strong" if item is this else ""),
            Scale.of(item.get("score")).text(item.get("threshold")),
            text.share_cell(item.get("coverage")),
            text.share_cell(item.get("fpr")),
            text.measure_cell(item.get("auroc")),
            "this one" if item is this else _compared(item),
        )

    target = percent(1 - report["alpha"])
    heading = f"At the same target ({target} caught), on the same examples"
    if report["risks"]:
        heading = f"Other scores at {target} caught, for comparison"
    tested = any(item.get("auroc_difference") for item in baselines)
    heads = parts.numbers("Threshold", "Caught", "False alarms", "AUROC")
    compared = parts.TableColumn("Compared", where="both" if tested else "page")
    columns = (parts.TableColumn("Score", most=26), *heads, compared)
    return parts.section(
        "Against other scores",
        parts.Text(
            f"Every row is calibrated to the same target, {target} caught, and tested on the "
            "same examples. A row is better when its AUROC is higher by a paired test and it "
            "raises fewer false alarms; a detector that does not beat the baselines has not "
            "been shown to detect anything.",
            where="page",
        ),
        parts.Table(heading, columns, measures.with_baselines(row, (this, *detectors), baselines)),
        measures.without_threshold((*detectors, *baselines)),
    )


def _compared(row: Json) -> str:
    """Say how a row of a table compares with the reported detector."""
    if row.get("beats_detector"):
        return "better"
    if row.get("detector_beats"):
        return "worse"
    return "unclear" if row.get("auroc_difference") else ""
