"""Document parts about removed sentences."""

from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np

from calibrail.formatting import Scale, count, percent
from calibrail.report import document as parts
from calibrail.report import text
from calibrail.report import text as phrases
from calibrail.report.document import Document, Json, Section, Text, section
from calibrail.report.documents import measures
from calibrail.report.documents.calibrate_messages import (
    assumptions,
    by_sentence,
    how_sure,
    needed_auroc,
    next_step,
    removal_summary,
    reviewed_for,
    verdict_summary,
)
from calibrail.report.documents.calibrate_sections import of_report
from calibrail.report.documents.examples import trimmed_examples, trimmed_in_terminal
from calibrail.report.documents.measures import BothScores, scores_figure
from calibrail.report.figures.scores import distributions_svg, freed_and_kept_svg
from calibrail.report.text import bounds, estimate, plain

#: What needs no threshold, in words.
_SIMPLEST: Final = {
    "nothing": "remove nothing",
    "everything": "remove everything",
    "least_overlapping": "remove the least overlapping sentence",
}

#: Thresholds in the folded table at most.
_MOST_STEPS: Final = 20


def other_thresholds(report: Json) -> parts.Section | None:
    """Show what other thresholds would free and keep, and what withholding whole answers does."""
    sentences, test, scale = report["sentences"], report["test"], Scale.of(report["score"])
    curve, whole = sentences["curve"], sentences["flagged_whole"]
    if curve is None or None in (test["freed"]["estimate"], test["kept_supported"]["estimate"]):
        return None
    rows = (*sentences["detectors"], *sentences["baselines"])
    named = [row for row in rows if row["threshold"] is not None and _measured(row)]
    figure = parts.Figure(
        "freed-and-kept",
        partial(
            freed_and_kept_svg,
            sentences,
            test,
            (report["min_coverage"], report["requirement"].get("min_kept")),
            named,
        ),
        "Above and to the right is better. Dashed: what was asked.",
    )
    n = len(curve["thresholds"])
    chosen = sorted({round(place) for place in np.linspace(0, n - 1, min(n, _MOST_STEPS))})
    steps = [
        (
            scale.text(curve["thresholds"][place]),
            percent(curve["freed"][place]),
            percent(curve["kept"][place]),
        )
        for place in chosen
    ]
    choices = "Thresholds to choose from"
    return parts.section(
        "Other thresholds",
        parts.Text(
            "To withhold whole answers in place of sentences, at the same threshold, keeps "
            f"{text.share(whole['kept_supported'])} of supported sentences; removing sentences "
            f"keeps {text.share(test['kept_supported'])}. Another threshold frees more answers "
            "and keeps less of them, or the reverse. These are plain estimates on the test part: a "
            "threshold chosen by them needs a calibration of its own (--alpha)."
        ),
        figure,
        parts.folded(
            choices,
            parts.Table(choices, parts.numbers("Threshold", "Freed", "Supported kept"), steps),
        ),
        where="page",
    )


def _measured(row: Json) -> bool:
    """Return whether a score frees and keeps anything that is known."""
    return bool(row.get("freed")) and None not in (
        row["freed"]["estimate"],
        row["kept_supported"]["estimate"],
    )


def beside(report: Json) -> parts.Section:
    """Compare with the other scores, and with what needs none."""
    sentences = report["sentences"]
    areas = {row["name"]: row for row in (*report["detectors"], *report["baselines"])}
    test = report["test"]
    this = {
        "name": report["score"].get("key") or report["score"]["name"],
        "threshold": None if report["by_group"] else report["threshold"],
        **{key: test[key] for key in ("freed", "kept_supported", "emptied")},
    }
    areas[this["name"]] = {"auroc": test["auroc"], "score": report["score"]}
    scored = [row for row in sentences["baselines"] if row["name"] not in _SIMPLEST]
    simple = [row for row in sentences["baselines"] if row["name"] in _SIMPLEST]

    def row(item: Json) -> parts.Row:
        known = areas.get(item["name"], {})
        limit = Scale.of(known.get("score")).text(item["threshold"], "")
        return (
            parts.Cell(
                _SIMPLEST.get(item["name"], str(item["name"])),
                style="strong" if item is this else "",
            ),
            limit,
            *(
                text.share_cell(item[key]) if item.get(key) else ""
                for key in ("freed", "kept_supported", "emptied")
            ),
            text.measure_cell(known["auroc"]) if known else parts.Cell(""),
            "this one" if item is this else _compared(item),
        )

    target = percent(1.0 - report["alpha"])
    heading = f"At the same target ({target} freed), on the same answers"
    whole = {**sentences["flagged_whole"], "name": "withhold answers whole", "threshold": None}
    heads = parts.numbers("Threshold", "Freed", "Supported kept", "Emptied", "AUROC")
    compared = parts.TableColumn("Compared", where="page")
    table = parts.Table(
        heading,
        (parts.TableColumn("Score", most=24), *heads, compared),
        [
            *measures.with_baselines(row, (this, *sentences["detectors"]), scored),
            parts.Heading("For comparison"),
            *map(row, (*simple, {**whole, "emptied": None})),
        ],
    )
    return parts.section(
        "Against other scores",
        parts.Text(
            f"Every score is calibrated to the same target, {target} of answers freed, and tested "
            "on the same answers. One is better when it keeps more of what is supported, answer by "
            "answer. Removing everything frees every answer, too, and a score that keeps little "
            "more than that adds little.",
            where="page",
        ),
        table,
        parts.Bullets(
            "Without a threshold",
            [
                f"{item['name']}: {item['reason']}"
                for item in (*sentences["detectors"], *scored)
                if item.get("reason")
            ],
        ),
    )


def _compared(row: Json) -> str:
    """Say whether another score keeps more, as the paired interval shows."""
    gap = row.get("kept_beyond_detector")
    if not gap or gap["estimate"] is None:
        return ""
    if gap["lower"] > 0.0:
        return "keeps more"
    return "keeps less" if gap["upper"] < 0.0 else "unclear"


def against_marks(spans: Json | None, confidence: float) -> parts.Section | None:
    """Show how well the removed text covers what people marked, by characters."""
    if spans is None:
        return None
    name = "Against the marks, by characters"
    lines = [
        (f"{called}", text.estimate(value), text.bounds(value), "", about)
        for called, about, value in (
            ("Precision", "of the characters removed, those marked", spans["precision"]),
            ("Recall", "of the characters marked, those removed", spans["recall"]),
            ("F1", "harmonic mean of both", spans["f1"]),
        )
    ]
    return parts.section(
        name,
        parts.Text(
            "Whole sentences are removed, and marks are often shorter: precision stays low even "
            "where each sentence is rightly removed. Intervals come from resampling answers.",
            where="page",
        ),
        measures.table(name, lines, confidence),
    )


_STOPPED: Final = {
    "before": "Stopped before the first unsupported sentence",
    "at": "Stopped right at it",
    "after": "Stopped after it: something unsupported was shown",
    "never": "Never stopped",
}


_WHY: Final = {
    True: "A stream may stop at the first sentence that reaches the threshold, in place of "
    "removing sentences at the end. It stops the very answers that lose a sentence, since no score "
    "depends on what follows; what was written before the stop has been read.",
    False: "A stream stops at the first sentence that reaches the threshold, and so the very "
    "answers that are not passed, since no score depends on what follows; what was written before "
    "the stop has been read. Which sentences are unsupported is as the data marks it, and has no "
    "part in the threshold or in the verdict.",
}


def stopped_streams(report: Json) -> Section | None:
    """Show where answers are stopped under the same threshold, and what was shown by then.

    Parameters
    ----------
    report : mapping
        ``Report.to_dict()``; its ``sentences`` are None, or lack the measures, where nobody marked
        what is unsupported.
    """
    sentences, title = report.get("sentences") or {}, "While the answer is being written"
    if why := sentences.get("reason"):
        return section(title, Text(f"Not measured: {why}."), where="page")
    if (stream := sentences.get("stream")) is None:
        return None
    lines = [
        measures.share_line(name, stream["stopped"][key], about=" hallucinated")
        for key, name in _STOPPED.items()
    ]
    lines += [
        measures.share_line("Faithful answers stopped", stream["cut"], about=" faithful"),
        _mean("Sentences from the first unsupported one to the stop", stream["delay"]),
        _mean("Unsupported words shown, per hallucinated answer", stream["words_shown"]),
        _mean("Unsupported words written, per hallucinated answer", stream["words"]),
    ]
    return section(
        title,
        Text(_WHY[by_sentence(report)]),
        measures.table(title, lines, report["confidence"]),
        Text(_left_out(sentences)),
        where="page",
    )


def _left_out(sentences: Json) -> str:
    """Say how many test answers are not measured here, though the verdict counts them."""
    if not (n := sentences.get("n_left_out", 0)):
        return ""
    answers = count(n, "test answer is", "test answers are")
    return (
        f"{answers} left out of this table alone: nobody marked what is unsupported, or the marks "
        "contradict the label."
    )


def _mean(name: str, value: Json) -> measures.Line:
    if value["estimate"] is None:
        return name, "none", "", "", plain(value["reason"])
    return name, estimate(value, 2), bounds(value, 2), "", "mean"


def of_sentences(report: Json, scores: BothScores | None, examples: Json | None) -> Document:
    """Return what only a report about removing sentences says.

    Parameters
    ----------
    report : mapping
        ``Report.to_dict()``.
    scores : pair of ndarrays of float64, or None
        Test scores of unsupported and of supported sentences, as they are shown.
    examples : mapping or None
        Answers of the test part, of ``page_examples``, for the page.
    """
    test, scale = report["test"], Scale.of(report["score"])
    lines, area = measures.rates(test, _asked(report)), test["auroc"]
    return Document(
        "report for",
        summary=removal_summary(test),
        lead=[parts.Bullet(verdict_summary(report), "Why")],
        tiles=(
            parts.Tile("Freed", *lines[0][1:4]),
            parts.Tile("Supported kept", *lines[1][1:4]),
            parts.Tile(
                "Emptied", phrases.share(test["emptied"]), phrases.interval(test["emptied"])
            ),
            parts.Tile("AUROC by sentence", phrases.estimate(area), phrases.bounds(area)),
        ),
        blocks=(
            _threshold(report, scores),
            parts.section(
                "On the test part",
                measures.table("On the test part", [*lines, *_more(report)], report["confidence"]),
                parts.Text(_pooled(report["sentences"])),
                parts.Text(reviewed_for(report["sentences"]["reviewed_for"])),
                parts.Text(needed_auroc(report)),
            ),
            other_thresholds(report),
            beside(report),
            against_marks(report["sentences"].get("spans"), report["confidence"]),
            stopped_streams(report),
            *of_report(report),
            None if examples is None else trimmed_in_terminal(examples, scale),
            None
            if examples is None
            else trimmed_examples(examples, scale, clustered=_one_of_each_group(report)),
            parts.listing("What the promise rests on", assumptions(report), where="page"),
        ),
        next_step=next_step(report),
    )


def _asked(report: Json) -> Json:
    return {**report, "min_kept": report["requirement"].get("min_kept")}


def _more(report: Json) -> Iterator[measures.Line]:
    """Yield what else becomes of answers, and how well the score ranks sentences."""
    test = report["test"]
    yield from measures.left_whole(test)
    area = test["auroc"]
    if area["estimate"] is None:
        yield "AUROC by sentence", "none", "", "", phrases.plain(area["reason"])
    else:
        ranks = "unsupported above supported sentences; 0.5 = guessing"
        yield "AUROC by sentence", phrases.estimate(area), phrases.bounds(area), "", ranks
    if band := test["coverage_band"]:
        place = "inside" if band["inside"] else "outside"
        span = f"{band['lowest']:,} to {band['highest']:,}"
        yield "Freed, expected range", span, "", "", f"of {band['n']:,}; observed lies {place}"


def _pooled(sentences: Json) -> str:
    """Say what becomes of sentences, whatever answers they stand in."""
    removed = sentences["removed"]
    unsupported, supported = (
        f"{item['count']:,} of {count(item['n'], f'{name} sentence')}"
        for name, item in removed.items()
    )
    text = (
        f"Sentence by sentence, of {count(sentences['n_answers'], 'answer')}: {unsupported} and "
        f"{supported} are not shown."
    )
    if also := sentences["also_removed"]:
        text += (
            f" {count(also, 'of them goes', 'of them go')} with others, as an introduction goes "
            "with all that it introduces."
        )
    return f"{text} Sentences of one answer are alike, so the intervals count answers."


def _threshold(report: Json, scores: BothScores | None) -> parts.Section:
    """Say which sentences are removed, beside the scores of both kinds."""
    figure = scores_figure(
        report,
        scores,
        caption="Scores of the test part's sentences.{dashed} Each is scored from what stands "
        "before it alone.",
        dashed=" Sentences at or {side} of the dashed line are removed.",
        draw=partial(
            distributions_svg,
            names=("unsupported", "supported"),
            acted="removed",
            unit="sentences",
        ),
    )
    return parts.section("The threshold", parts.Text(_threshold_sentence(report)), figure)


def _threshold_sentence(report: Json) -> str:
    """Say which sentences are removed, what that promises and where the threshold comes from."""
    scale, limit = Scale.of(report["score"]), report["threshold"]
    name = scale.named(phrases.score_name(report))
    target, n = percent(1.0 - report["alpha"]), report["n_calibration"]
    how = how_sure(report, "for this very threshold")
    promise = f"loses every unsupported sentence with a probability of at least {target}, {how}"
    if report["by_group"] and "by" in report["by_group"]:
        return (
            f"Every answer has a threshold on the {name} that follows from its groups of "
            f"{phrases.plain(report['by_group']['column'])}; a hallucinated answer of a group with "
            f"enough examples {promise}. The table of groups shows them."
        )
    if report["by_group"]:
        return (
            f"Groups of {phrases.plain(report['by_group']['column'])} with enough answers have a "
            f"threshold of their own on the {name}, at which a hallucinated answer of theirs "
            f"{promise}. The table of groups shows them."
        )
    if report["flag_all"] or limit is None:
        answers = count(n, "hallucinated calibration answer").capitalize()
        return (
            f"Remove every sentence. {answers} are too few for a threshold that frees {target} of "
            "them of all that is unsupported."
        )
    text = (
        f"Remove a sentence when its {name} is {scale.reaching} {scale.text(limit)}. A "
        f"hallucinated answer then {promise}"
    )
    if report["clustering"]:
        return f"{text}, for an answer from a new group."
    return (
        f"{text}. Each of {count(n, 'hallucinated calibration answer')} gives one value, that of "
        f"its most harmless unsupported sentence; the threshold is number {report['rank']:,} of "
        f"them from {scale.harmless}."
    )


def _one_of_each_group(report: Json) -> bool:
    return any(item["code"] == "clustered" for item in report["warnings"])
