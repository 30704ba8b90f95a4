"""Recalibrate."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from calibrail.formatting import Scale, count, percent
from calibrail.report import document as parts
from calibrail.report.document import Bullet, Document, Json
from calibrail.report.documents.guardrail import skipped
from calibrail.report.text import count_of, interval, plain, share, share_cell

_DIRECTION: Final = {
    "more": "The new threshold flags everything that the old one flags, and more",
    "fewer": "The new threshold flags less than the old one, and nothing else",
    "same": "Both thresholds decide alike about every audited answer",
}


def document(content: Json) -> Document:
    """Return the verdict, both thresholds on the same answers, what rests on what, the next step.

    Parameters
    ----------
    content : mapping
        What ``calibrail recalibrate --json`` prints.
    """
    scale, verdict, labels = Scale.of(content["score"]), content["verdict"], content["labels"]
    sides = content["comparison"]
    fpr_limit = "" if content["max_fpr"] is None else f"<= {percent(content['max_fpr'])}"
    return Document(
        "recalibration of",
        subject=scale.column or str(content["score"]["name"]),
        headline=verdict.capitalize(),
        verdict=verdict,
        summary=reason(content),
        tiles=tuple(
            parts.Tile(name, share(sides["new"][rate]), interval(sides["new"][rate]), limit)
            for name, rate, limit in (
                ("Caught", "coverage", f">= {percent(content['min_coverage'])}"),
                ("False alarms (FPR)", "fpr", fpr_limit),
            )
        ),
        blocks=(
            parts.Text(_threshold(content, scale)),
            _same_answers(content, scale),
            _changed(content, scale),
            _log(content["log"]) if content["log"] else None,
            parts.section("What it rests on", parts.Facts(list(_facts(content)))),
            parts.Bullets("What is assumed", list(_assumed(content))),
        ),
        warnings=[Bullet(text) for text in _warnings(content, labels)],
        next_step=_next_step(content),
        footer="Every number on this page is in what --json prints.",
    )


def reason(content: Json) -> str:
    """Return why the verdict is what it is, in a sentence or two."""
    sure, caught = percent(content["confidence"]), percent(content["min_coverage"])
    promised = percent(1.0 - content["promise"]["alpha"])
    limit, fpr = content["max_fpr"], content["fpr"]
    seen = f"{count_of(fpr)} faithful audited answers would be flagged"
    match content["reason"]:
        case "fpr_shown":
            return (
                f"With {sure} confidence the new threshold catches at least {promised} of "
                f"hallucinations and flags at most {percent(limit)} of faithful answers ({seen}). "
                "This holds however often a new threshold is made."
            )
        case "fpr_refuted":
            return (
                f"The new threshold flags more than {percent(limit)} of faithful answers: {seen}. "
                f"No higher one is shown to catch {promised} of hallucinations."
            )
        case "coverage_not_promised":
            return (
                f"The new threshold is made to catch at least {promised} of hallucinations, and "
                f"{caught} are required: calibrate with a smaller alpha."
            )
        case "no_limit":
            return (
                f"The new threshold catches at least {promised} of hallucinations with "
                f"{percent(1.0 - content['promise']['delta'])} confidence. No limit on false "
                f"alarms was set; {seen}."
            )
    more = ""
    if content["needed"]:
        more = f" At this rate about {count(content['needed'], 'more faithful answer')} settle it."
    return (
        f"The new threshold catches at least {promised} of hallucinations with "
        f"{percent(1.0 - content['promise']['delta'])} confidence; that it flags at most "
        f"{percent(limit)} of faithful answers is neither shown nor refuted: {seen}.{more}"
    )


def _threshold(content: Json, scale: Scale) -> str:
    promise, old = content["promise"], content["threshold"]["old"]
    return (
        f"New threshold: flag at {scale.text(content['threshold']['new'])} or "
        f"{'lower' if scale.negated else 'higher'}; so far at {scale.text(old)}. With "
        f"{percent(1.0 - promise['delta'])} confidence neither this threshold nor any other that "
        f"is made so, at any time, misses more than {percent(promise['alpha'])} of hallucinations "
        "(guarantee: anytime)."
    )


def _same_answers(content: Json, scale: Scale) -> parts.Section:
    """Show both thresholds on the audited answers."""
    sides = content["comparison"]
    rows: list[parts.Row] = [
        (
            name,
            scale.text(content["threshold"][key]),
            *(
                cell
                for rate in ("coverage", "fpr")
                for cell in (share_cell(sides[key][rate]), count_of(sides[key][rate]))
            ),
        )
        for name, key in (("so far", "old"), ("new", "new"))
    ]
    level = percent(content["level"])
    heads = ("Threshold", "Caught", "of hallucinated", "False alarms", "of faithful")
    title = "On the same audited answers"
    return parts.section(
        title,
        parts.Table(title, (parts.TableColumn("Guardrail"), *parts.numbers(*heads)), rows),
        parts.Text(
            f"Intervals of {level} hold at all times for one threshold each. Of the new one, what "
            "is caught was seen on the answers that set it, and is the better for it: what is "
            "promised is above."
        ),
    )


def _changed(content: Json, scale: Scale) -> parts.Section:
    """Show which answers the new threshold decides otherwise about."""
    sides, direction = content["comparison"], content["comparison"]["new_flags"]
    said = f"{_DIRECTION[direction]}."
    table = None
    if direction != "same":
        changed = sides["changed"]
        said = (
            f"{_DIRECTION[direction]}: {_part(changed['coverage'])} hallucinated and "
            f"{_part(changed['fpr'])} faithful audited answers."
        )
        rows: list[parts.Row] = [
            (plain(item["id"]), name, scale.text(item["score"]), _outcome(item["flagged"]))
            for name in ("hallucinated", "faithful")
            for item in sides["answers"][name]
        ]
        columns = (*parts.texts("Answer", "Label"), *parts.numbers("Score"), *parts.texts("Now"))
        table = parts.Table("Answers that change", columns, rows)
    return parts.section(
        "What changes",
        parts.Text(said),
        None if table is None else parts.folded("Answers that change", table),
    )


def _part(changed: Json) -> str:
    return f"{count_of(changed)} ({interval(changed)})"


def _outcome(flagged: bool) -> str:
    return "flagged" if flagged else "passes"


def _log(log: Json) -> parts.Section:
    """Show how much of the log either threshold flags."""
    before, after = log["old"] / log["n"], log["new"] / log["n"]
    return parts.section(
        "On everything that was logged",
        parts.Text(
            f"Of {count(log['n'], 'decision')} in the log {percent(before)} were not passed "
            f"({log['old']:,}); with the new threshold {percent(after)} would not be "
            f"({log['new']:,})."
        ),
    )


def _facts(content: Json) -> Iterator[tuple[str, str]]:
    labels = content["labels"]
    drawn = "drawn uniformly" if labels["design"] == "uniform" else "drawn by a guess (active)"
    yield "Audited answers", f"{labels['n_drawn']:,}, {drawn}{_when(labels)}"
    yield (
        "Labelled",
        f"{labels['n_hallucinated']:,} hallucinated, {labels['n_faithful']:,} faithful",
    )
    if labels["n_waiting"] or labels["n_unsure"]:
        yield (
            "Without a label",
            f"{labels['n_waiting']:,} waiting ({labels['n_disagreements']:,} disputed), "
            f"{labels['n_unsure']:,} unsure; {content['n_open_missed']:,} of them lie below the "
            "new threshold and count as missed",
        )
    yield "Promise so far", _promise(content["before"])
    yield "Promise now", _promise(content["promise"])


def _promise(promise: Json) -> str:
    delta = "" if promise["guarantee"] in ("marginal", "paper") else f", delta {promise['delta']:g}"
    return f"alpha {promise['alpha']:g}, {promise['guarantee']}{delta}"


def _when(labels: Json) -> str:
    if labels["from"] is None:
        return ""
    first, last = (f"{datetime.fromtimestamp(labels[end], UTC):%Y-%m-%d}" for end in ("from", "to"))
    return f", logged from {first} to {last}" if first != last else f", logged on {first}"


def _assumed(content: Json) -> Iterator[Bullet]:
    labels = content["labels"]
    yield Bullet(
        "Answers to come are like those audited. Where the traffic has changed meanwhile, they "
        "are like those since then: --since takes these alone."
    )
    yield Bullet(
        "Every logged answer counts once. Each call of audit-sample draws its answers from what "
        "was new then, so that quiet days weigh as much as busy ones."
    )
    if labels["since"]:
        yield Bullet(
            f"That {plain(labels['since'])} is the time to begin was not told from these labels. "
            "What the traffic alone shows, as `calibrail monitor` does, may tell it; a time chosen "
            "by a look at labels voids what is promised."
        )
    if content["before"]["clustered"]:
        yield Bullet(
            "The promise so far counted each group of answers once; the new one counts logged "
            "answers, as if they were independent."
        )


def _warnings(content: Json, labels: Json) -> Iterator[str]:
    if content["threshold"]["old"] == content["threshold"]["new"]:
        yield "The new threshold is the old one: only what is known of it has changed."
    if labels["n_earlier"]:
        n = count(labels["n_earlier"], "audited answer")
        yield f"{n} logged before {plain(labels['since'])}, or at no known time, took no part."
    for problem in labels["problems"]:
        yield plain(problem)
    for reason, n in (content["log"] or {"skipped": {}})["skipped"].items():
        if reason != "no_decision":
            yield f"{count(n, 'line')} of the log took no part: {skipped(reason)}."


def _next_step(content: Json) -> str:
    if content["verdict"] == "rejected":
        return (
            "Accept more misses or false alarms, or calibrate another detector; nothing was "
            "replaced."
        )
    if content["verdict"] != "certified":
        return (
            "Nothing was replaced, and no rate of false alarms is certified (--max-fpr asks for "
            "it): label more answers, and look again, before a service reads NEW."
        )
    return (
        "Nothing was replaced: look at NEW, and put it where the service reads it. Its audit "
        "begins anew: calibrail audit-sample NEW LOG -o ANOTHER --per-day 20"
    )
