"""Document of calibrate."""

from collections.abc import Iterator
from dataclasses import replace

from calibrail.formatting import Scale, floor_percent
from calibrail.report import document as parts
from calibrail.report import text
from calibrail.report.document import Document, Json
from calibrail.report.documents import calibrate_sections as messages
from calibrail.report.documents import measures, next_steps, sentence_removal
from calibrail.report.documents.examples import error_examples
from calibrail.report.documents.fixed_threshold import of_fixed
from calibrail.report.documents.measures import BothScores, scores_figure
from calibrail.report.figures.scores import operating_points
from calibrail.report.messages import say, say_first


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
        Answers of the test set, as ``pipelines.examples.page_examples`` gives them,
        for the page.
    """
    scale = Scale.of(report["score"])
    if scores is not None:
        scores = scale.shown(scores[0]), scale.shown(scores[1])
    of_unit = sentence_removal.of_sentences if text.by_sentence(report) else _of_answers
    shown = (of_fixed if report["guarantee"] == "fixed" else of_unit)(report, scores, examples)
    return replace(
        shown,
        subject=text.score_name(report),
        headline=shown.headline or messages.verdict_headline(report),
        verdict="" if shown.headline else text.tone(report),
        warnings=[
            parts.Bullet(item["message"], messages.warning_title(item["code"], report).capitalize())
            for item in report["warnings"]
        ],
        # What was looked at without a question stays as short as its answer, but on the page.
        notes=[] if report["guarantee"] == "fixed" and shown.headline else report["notes"],
        reproduce=report["reproduce"],
        data=report["data"],
        footer=say("calibrate.footer"),
    )


def _of_answers(report: Json, scores: BothScores | None, examples: Json | None) -> Document:
    """Return what only a report about flagging answers says."""
    on = "On all answers" if text.is_proven(report["test"]["coverage"]) else "On the test set"
    rule, summary = _threshold_sentence(report, details=False), messages.verdict_summary(report)
    if found := messages.is_unasked(report):
        # What was found stands in place of a verdict; nothing but the promise aims at a share.
        rule, summary = "", f"{rule} {summary}"
        report = {**report, "min_coverage": report["requirement"].get("min_coverage")}
    return Document(
        "report for",
        rule=rule,
        summary=summary,
        lead=measures.in_short(report["test"], report),
        tiles=(
            *measures.tiles(measures.of_verdict(report["test"], report)),
            measures.auroc_tile(report["test"]["auroc"]),
        ),
        blocks=(
            measures.target_section(report, *_other_thresholds(report, scores)),
            _threshold(report, scores, "page" if found else "both"),
            parts.section(
                on,
                *measures.decided(on, measures.of_test_part(report), report["confidence"]),
                parts.Text(measures.counted(report)),
                parts.Text(measures.flips(report["certificate"])),
            ),
            sentence_removal.stopped_streams(report),
            *messages.of_report(report),
            _other_scores(report),
            None if examples is None else error_examples(examples, report),
            messages.rests_on(report),
            messages.possible_section(messages.possible(report), report),
        ),
        next_step=next_steps.next_step(report),
    )


def _threshold(report: Json, scores: BothScores | None, where: parts.Where) -> parts.Section:
    """Say which answers are flagged, beside the scores of both classes."""
    tests = "Scores" if text.is_proven(report["test"]["coverage"]) else "Test scores"
    caption = f"{tests} of the two classes.{{dashed}}"
    acted = ("not passed" if report["three_way"] else "flagged", "answers")
    figure = scores_figure(report, scores, caption=caption, acted=acted)
    rule = _threshold_sentence(report)
    return parts.section("The threshold", parts.Text(rule, where=where), figure)


def _threshold_sentence(report: Json, *, details: bool = True) -> str:
    """Say which answers are flagged, what that promises and, in ``details``, its rank."""
    scale, by_group = Scale.of(report["score"]), report["by_group"]
    about = {
        "scale": scale,
        "name": scale.named(text.score_name(report)),
        "target": floor_percent(1.0 - report["alpha"]),
        "how": messages.how_sure(report),
        "unit": measures.unit_words(report),
        "details": details,
    }
    about["flag"] = say("calibrate.flagged", report, about)
    about["promise"] = say("calibrate.promised", report, about)
    cases = {
        "calibrate.by_risks": report["risks"],
        "calibrate.by_overlapping_groups": by_group and "by" in by_group,
        "calibrate.by_groups": by_group,
        "calibrate.by_nothing": report["flag_all"] or report["threshold"] is None,
        "calibrate.by_review": report["three_way"],
        "calibrate.by_rank": True,
    }
    return say_first(cases, report, about)


def _other_thresholds(report: Json, scores: BothScores | None) -> Iterator[parts.Block]:
    """Yield what shows what every other threshold would catch and cost."""
    curve, test, points = report["curve"], report["test"], operating_points(report)
    scale = Scale.of(report["score"])
    if scores is None or points is None or test["fpr"]["estimate"] is None:
        return
    highest: dict[int, int] = {}
    for place, caught in enumerate(curve["coverage"]["estimate"]):
        # The highest threshold of each step of five percentage points.
        highest[int(20 * caught)] = place

    def cell(name: str, place: int) -> parts.Cell:
        ends = ("estimate", "lower", "upper")
        return text.share_cell({end: curve[name][end][place] for end in ends})

    steps = [
        (messages.to_try(scale, curve, place), cell("coverage", place), cell("fpr", place))
        for step, place in sorted(highest.items(), reverse=True)
        if step >= 8
    ]
    choices = "Thresholds to choose from"
    about = {**report, "unit": (unit := measures.unit_words(report))}
    names = [unit["caught"], unit["alarms"]]
    heads = (f">{head}" for head in ("Threshold", *map(text.capital, names)))
    yield parts.Slider(
        {**points, "act": "do not pass" if report["three_way"] else "are flagged", "names": names},
        label="Try another threshold",
        back="Back" if points["in_use"] is None else "Back to the threshold in use",
        caveat=say("calibrate.slider", report),
        jumps=[(say(f"calibrate.jump_{name}", about), at) for name, at in points["jumps"].items()],
    )
    yield parts.folded(choices, parts.table(choices, heads, steps))


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
            Scale.of(item.get("score")).cell(item.get("threshold")),
            text.share_cell(item.get("coverage")),
            text.share_cell(item.get("fpr")),
            text.measure_cell(item.get("auroc")),
            "your detector" if item is this else _compared(item),
        )

    tested = any(item.get("auroc_difference") for item in baselines)
    score = parts.TableColumn("Score", most=26)
    compared = parts.TableColumn("Compared", where="both" if tested else "page")
    heads = score, ">Threshold", ">Caught", ">False alarms", ">AUROC", compared
    title, own = say("calibrate.compared", report), [row(item) for item in (this, *detectors)]
    rows = measures.with_baselines(row, (this, *detectors), baselines)
    return parts.section(
        "Against other scores",
        parts.Text(say("calibrate.other_scores", report), where="page"),
        parts.table(title, heads, rows, where="verbose"),
        parts.table(title, heads, own, where="brief") if detectors else None,
        measures.baselines_in_brief(baselines, _compared),
        measures.without_threshold((*detectors, *baselines)),
    )


def _compared(row: Json) -> str:
    """Say how a row of a table compares with the reported detector."""
    said = {"beats_detector": "better", "detector_beats": "worse", "auroc_difference": "unclear"}
    return next((said[test] for test in said if row.get(test)), "")
