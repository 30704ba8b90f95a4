"""What does `calibrail calibrate --unit sentence` say about removing sentences by a score?"""

from collections.abc import Iterator
from functools import partial

from calibrail.phrases import count, percent
from calibrail.report import blocks as parts
from calibrail.report import phrases
from calibrail.report.blocks import Json
from calibrail.report.document import Document
from calibrail.report.documents import measures
from calibrail.report.documents.calibrate_sections import of_report
from calibrail.report.documents.calibrate_words import VERDICTS, how_sure
from calibrail.report.documents.scores_figure import BothScores, scores_figure
from calibrail.report.documents.trim_findings import (
    assumptions,
    in_short,
    needed_auroc,
    next_step,
    reviewed_for,
)
from calibrail.report.documents.trim_scores import against_marks, beside, other_thresholds
from calibrail.report.documents.trim_stream import stopped_streams
from calibrail.report.documents.trimmed_examples import trimmed_examples, trimmed_in_terminal
from calibrail.report.figures import distributions_svg
from calibrail.scale import Scale


def of_sentences(report: Json, scores: BothScores | None, examples: Json | None) -> Document:
    """Return what only a report about removing sentences says.

    Parameters
    ----------
    report : mapping
        ``Report.to_dict()``.
    scores : pair of ndarrays of float64, or None
        Test scores of unsupported and of supported sentences, as they are shown.
    examples : mapping or None
        Answers of the test part, ``TrimmedExamples.to_dict()``, for the page.
    """
    test, scale = report["test"], Scale.of(report["score"])
    lines, area = measures.rates(test, _asked(report)), test["auroc"]
    return Document(
        "report for",
        summary=in_short(test),
        lead=[parts.Bullet(f"{VERDICTS[report['verdict']]} {report['reason']}", "Why")],
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
