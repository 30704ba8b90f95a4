"""Document parts about removed sentences."""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np

from calibrail.formatting import Scale, count, floor_percent, percent
from calibrail.report import document as parts
from calibrail.report import text as phrases
from calibrail.report.document import Document, Json, Section, Text, section
from calibrail.report.documents import calibrate_sections as messages
from calibrail.report.documents import measures, next_steps
from calibrail.report.documents.examples import trimmed_examples
from calibrail.report.documents.measures import BothScores, scores_figure
from calibrail.report.figures.scores import freed_and_kept_svg
from calibrail.report.messages import facts, say, say_first

#: Thresholds in the folded table at most.
_MOST_STEPS: Final = 20


def other_thresholds(report: Json) -> Section | None:
    """Show what other thresholds would free and keep, and what withholding whole answers does."""
    sentences, test, scale = report["sentences"], report["test"], Scale.of(report["score"])
    curve, kept = sentences["curve"], test["kept_supported"]
    if curve is None or None in (test["freed"]["estimate"], kept["estimate"]):
        return None
    named = [
        row
        for row in (*sentences["detectors"], *sentences["baselines"])
        if row["threshold"] is not None and row.get("freed")
        if None not in (row["freed"]["estimate"], row["kept_supported"]["estimate"])
    ]
    asked = report["min_coverage"], report["requirement"].get("min_kept")
    draw = partial(freed_and_kept_svg, sentences, test, asked, named)
    caption = "Above and to the right is better. Dashed: required."
    n, columns = len(curve["thresholds"]), [curve[key] for key in ("thresholds", "freed", "kept")]
    steps = [
        (scale.edge(threshold), percent(freed), percent(kept))
        for place in sorted({round(at) for at in np.linspace(0, n - 1, min(n, _MOST_STEPS))})
        for threshold, freed, kept in [[column[place] for column in columns]]
    ]
    title, heads = "Thresholds to choose from", (">Threshold", ">Fully cleaned", ">Supported kept")
    whole = sentences["flagged_whole"]["kept_supported"]
    return section(
        "Other thresholds",
        Text(say("removal.other_thresholds", whole=whole, kept=kept)),
        parts.Figure("freed-and-kept", draw, caption),
        parts.folded(title, parts.table(title, heads, steps)),
        where="page",
    )


def beside(report: Json) -> Section:
    """Compare with the other scores, and with what needs none."""
    sentences, test, score = report["sentences"], report["test"], report["score"]
    this: dict[str, Any] = {
        "name": score.get("key") or score["name"],
        "threshold": None if report["by_group"] else report["threshold"],
        **{key: test[key] for key in ("freed", "kept_supported", "emptied")},
    }
    areas = {row["name"]: row for row in (*report["detectors"], *report["baselines"])}
    areas[this["name"]] = {"auroc": test["auroc"], "score": score}
    simplest = dict(facts("removal.simplest"))
    scored = [row for row in sentences["baselines"] if row["name"] not in simplest]
    simple = [row for row in sentences["baselines"] if row["name"] in simplest]
    whole = {"name": "withhold answers whole", "threshold": None, "emptied": None}

    def row(item: Json) -> parts.Row:
        known, own = areas.get(item["name"], {}), item is this
        called = simplest.get(item["name"], str(item["name"]))
        return (
            parts.Cell(called, style="strong" if own else ""),
            Scale.of(known.get("score")).cell(item["threshold"], ""),
            *(
                phrases.share_cell(item[key]) if item.get(key) else ""
                for key in ("freed", "kept_supported", "emptied")
            ),
            phrases.measure_cell(known["auroc"]) if known else parts.Cell(""),
            "your detector" if own else _compared(item),
        )

    target = floor_percent(1.0 - report["alpha"])
    title = f"At the same target ({target} fully cleaned), on the same answers"
    rows = [
        *measures.with_baselines(row, (this, *sentences["detectors"]), scored),
        parts.Heading("For comparison"),
        *map(row, (*simple, {**sentences["flagged_whole"], **whole})),
    ]
    columns = (
        parts.TableColumn("Score", most=24),
        *(">Threshold", ">Cleaned", ">Supported kept", ">Nothing left", ">AUROC"),
        parts.TableColumn("Compared", where="page"),
    )
    return section(
        "Against other scores",
        Text(say("removal.beside", target=target), where="page"),
        parts.table(title, columns, rows),
        measures.without_threshold((*sentences["detectors"], *scored)),
    )


def _compared(row: Json) -> str:
    """Say whether another score keeps more, as the paired interval shows."""
    gap = row.get("kept_beyond_detector")
    if not gap or gap["estimate"] is None:
        return ""
    if gap["lower"] > 0.0:
        return "keeps more"
    return "keeps less" if gap["upper"] < 0.0 else "unclear"


def against_marks(spans: Json | None, confidence: float) -> Section | None:
    """Show how well the removed text covers what people marked, by characters."""
    if spans is None:
        return None
    name = "Against the marks, by characters"
    lines = [
        (key.capitalize(), phrases.estimate(spans[key]), phrases.bounds(spans[key]), "", about)
        for key, about in facts("removal.marks")
    ]
    text = Text(say("removal.against_marks"), where="page")
    return section(name, text, measures.table(name, lines, confidence))


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
        for key, name in facts("removal.stopped")
    ]
    lines.append(measures.share_line("Faithful answers stopped", stream["cut"], about=" faithful"))
    for key, name in facts("removal.means"):
        value = stream[key]
        known = value["estimate"] is not None
        measured = (phrases.estimate(value, 2), phrases.bounds(value, 2)) if known else ("none", "")
        lines.append((name, *measured, "", "mean" if known else phrases.plain(value["reason"])))
    left_out = say("removal.left_out", sentences) if sentences.get("n_left_out", 0) else ""
    cases = {"removal.stop_sentences": phrases.by_sentence(report), "removal.stop_answers": True}
    return section(
        title,
        Text(say_first(cases)),
        measures.table(title, lines, report["confidence"]),
        Text(left_out),
        where="page",
    )


def of_sentences(report: Json, scores: BothScores | None, examples: Json | None) -> Document:
    """Return what only a report about removing sentences says.

    Parameters
    ----------
    report : mapping
        ``Report.to_dict()``.
    scores : pair of ndarrays of float64, or None
        Test scores of unsupported and of supported sentences, as they are shown.
    examples : mapping or None
        Answers of the test set, of ``page_examples``, for the page.
    """
    test, scale, sentences = report["test"], Scale.of(report["score"]), report["sentences"]
    lines = measures.rates(test, {**report, "min_kept": report["requirement"].get("min_kept")})
    shares = [
        f"{item['count']:,} of {count(item['n'], f'{name} sentence')}"
        for name, item in sentences["removed"].items()
    ]
    area = measures.auroc_tile(test["auroc"], "AUROC by sentence")
    told = examples and trimmed_examples(examples, scale, clustered=messages.is_clustered(report))
    return Document(
        "report for",
        rule=_threshold_sentence(report),
        summary=messages.removal_summary(test),
        lead=[parts.Bullet(messages.verdict_summary(report), "Why")],
        tiles=(*measures.tiles((*lines[:2], lines[-1])), area),
        blocks=(
            _threshold(report, scores),
            section(
                "On the test set",
                *measures.decided("On the test set", [*lines, *_more(test)], report["confidence"]),
                Text(say("removal.pooled", sentences, shares=shares)),
                Text(messages.reviewed_for(sentences["reviewed_for"])),
                Text(messages.needed_auroc(report)),
            ),
            other_thresholds(report),
            beside(report),
            against_marks(sentences.get("spans"), report["confidence"]),
            stopped_streams(report),
            *messages.of_report(report),
            told or None,
            messages.rests_on(report),
        ),
        next_step=next_steps.next_step(report),
    )


def _more(test: Json) -> Iterator[measures.Line]:
    """Yield what else becomes of answers, and how well the score ranks sentences."""
    yield from measures.left_whole(test)
    ranks = "unsupported above supported sentences; 0.5 = guessing"
    yield measures.measure_line("AUROC by sentence", test["auroc"], ranks)
    if band := test["coverage_band"]:
        place = "inside" if band["inside"] else "outside"
        span = f"{band['lowest']:,} to {band['highest']:,}"
        yield "Cleaned, expected range", span, "", "", f"of {band['n']:,}; observed lies {place}"


def _threshold_sentence(report: Json) -> str:
    """Say which sentences are removed, and what that promises."""
    scale, by_group = Scale.of(report["score"]), report["by_group"]
    target = floor_percent(1.0 - report["alpha"])
    return say_first(
        {
            "removal.threshold_by_columns": by_group and "by" in by_group,
            "removal.threshold_by_group": by_group,
            "removal.no_threshold": report["flag_all"] or report["threshold"] is None,
            "removal.threshold": True,
        },
        report,
        scale=scale,
        name=scale.named(phrases.score_name(report)),
        target=target,
        promise=say("removal.promise", target=target, how=messages.how_sure(report)),
    )


def _threshold(report: Json, scores: BothScores | None) -> Section:
    """Say which sentences are removed, beside the scores of both kinds."""
    figure = scores_figure(
        report,
        scores,
        caption=say("removal.scores_figure", dashed="{dashed}"),
        names=("unsupported", "supported"),
        acted=("removed", "sentences"),
    )
    return section("The threshold", Text(_threshold_sentence(report)), figure)
