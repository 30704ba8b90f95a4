"""What does a watch say about a guardrail: traffic, promise, prevalence, and what to do now?"""

import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from math import exp
from typing import Final

from calibrail.phrases import count, listed, number, percent
from calibrail.report import blocks as parts
from calibrail.report import watch_figures as figures
from calibrail.report.blocks import Bullet, Json
from calibrail.report.document import Document, Verdict
from calibrail.report.documents import watch_log, watch_prevalence, watch_traffic
from calibrail.report.documents import watch_words as words
from calibrail.report.phrases import group_label, interval, plain, share

#: What each state is called, and how it is coloured.
_STATES: Final[dict[str, tuple[str, Verdict]]] = {
    "kept": ("Kept so far", "certified"),
    "undecided": ("Undecided", "inconclusive"),
    "broken": ("Broken", "rejected"),
}

_TONES: Final[dict[Verdict, parts.Style]] = {
    "certified": "good",
    "rejected": "bad",
    "inconclusive": "warning",
}


def document(
    status: Json,
    *,
    guardrail: str = "guardrail.json",
    logs: Sequence[str] = ("LOG",),
    labels: str | None = None,
) -> Document:
    """Return what a watch has found so far.

    Parameters
    ----------
    status : mapping
        A watch's ``status.json``.
    guardrail, labels : str
        The guardrail's file, and the folder of labels where there is one, for the commands.
    logs : sequence of str
        What was read.
    """
    promise, traffic = status["promise"], status["traffic"]
    state, verdict = _STATES[promise["state"]]
    if promise["state"] == "undecided" and not promise["n_labels"]:
        state = "Labels not read" if watch_log.unread(status) else "No labels yet"
    changed = ", traffic has changed" if traffic["alarm"] else ""
    return Document(
        "watch of",
        subject=plain(guardrail),
        headline=f"{state}{changed}",
        verdict=verdict,
        lead=words.lead(status),
        tiles=_tiles(status),
        blocks=(
            _flags(status),
            watch_traffic.section(status),
            _promise(status),
            _groups(promise),
            watch_prevalence.section(status),
            watch_log.log(status["log"]),
            watch_log.labels(status),
            _commands(status, guardrail, logs, labels),
        ),
        warnings=[Bullet(text) for text in _warnings(status)],
        next_step=_next_step(status),
        footer="Every number on this page is in status.json.",
    ).naming(GUARDRAIL=guardrail, LOG=list(logs), AUDIT=labels or "audit")


def _tiles(status: Json) -> tuple[parts.Tile, ...]:
    promise, prevalence = status["promise"], status["prevalence"]
    limits = promise["limits"]
    tiles = []
    for name, title, sign in (("coverage", "Caught", ">="), ("fpr", "False alarms", "<=")):
        value, limit = promise[name], limits[name]
        asked = "" if limit is None else f"{sign} {percent(limit)}"
        seen = interval(value) if value["estimate"] is not None else ""
        tiles.append(parts.Tile(title, share(value), seen, asked))
    known = prevalence["estimate"] is not None or _is_bounded(prevalence)
    tiles.append(
        parts.Tile(
            "Hallucinated",
            share(prevalence) if prevalence["estimate"] is not None else "unknown",
            interval(prevalence) if known else "",
        )
    )
    tiles.append(parts.Tile("Answers", f"{status['n']:,}", _span(status)))
    waiting = promise["n_pending"]
    tiles.append(
        parts.Tile("Labels", f"{promise['n_labels']:,}", f"{waiting:,} waiting" if waiting else "")
    )
    return tuple(tiles)


def _span(status: Json) -> str:
    if not status["from"]:
        return ""
    begin, end = words.day(status["from"]), words.day(status["to"])
    return begin if begin == end else f"{begin} to {end}"


def _is_bounded(value: Json) -> bool:
    return value["lower"] is not None and (value["lower"] > 0.0 or value["upper"] < 1.0)


def _flags(status: Json) -> parts.Section | None:
    if not status["timeline"]:
        return None
    band = ", with its interval" if status["prevalence"]["periods"] else ""
    marks = (
        " Upright lines: alarms that traffic has changed, each with the time within which the "
        "change lies."
        if status["traffic"]["alarms"]
        else ""
    )
    return parts.section(
        "What was flagged",
        parts.Figure(
            "flags",
            partial(figures.flags_svg, status),
            f"Share of flagged answers in each period{band}.{marks}",
        ),
        where="page",
    )


def _promise(status: Json) -> parts.Section:
    promise = status["promise"]
    title = "Is the promise kept?"
    if not _promised(promise):
        return parts.section(title, parts.Text("Nothing is promised: name a limit (--max-fpr)."))
    if not promise["n_labels"]:
        waiting = promise["n_pending"]
        text = (
            f"{count(waiting, 'answer')} drawn, and none labelled yet: what was promised "
            f"({_promised(promise)}) is neither shown nor refuted."
            if waiting
            else f"What was promised: {_promised(promise)}. Without labels nothing tells whether "
            "it is still kept; a few answers a day, drawn by lot and labelled, do."
        )
        return parts.section(title, parts.Text(text))
    return parts.section(
        title,
        parts.Table(
            title,
            (
                parts.Column("Rate", brief=""),
                parts.Column("Value", "right"),
                *parts.texts(f"{_level(promise)} interval", "Promised", "Labels"),
            ),
            list(_rates(promise)),
        ),
        parts.Text(_evidence(promise)),
        parts.Text(words.drawn_share(promise)),
        parts.note(
            "The intervals are confidence sequences: that of coverage, and by itself that of the "
            "false alarms, holds at all times together, however often one looks. A kept promise is "
            f"ever called broken with a probability of at most {percent(promise['delta'])}. A "
            "drawn answer without a final label counts, for each "
            "bet, as whatever speaks against that bet most, until its label is there."
        ),
        parts.Figure(
            "rates",
            partial(figures.rates_svg, status),
            "Estimates and confidence sequences over time. Dashed: what was promised.",
        )
        if _has_course(promise)
        else None,
        parts.Figure(
            "wealth",
            partial(figures.wealth_svg, status),
            "What the bets that the promise is broken have won, from 1 (logarithmic). Dashed: what "
            "shows it.",
        )
        if _has_course(promise)
        else None,
    )


def _level(promise: Json) -> str:
    """Return with which confidence each interval holds: groups take a part of the error."""
    return percent(promise["coverage"].get("confidence", 1.0 - promise["delta"]))


def _has_course(promise: Json) -> bool:
    return len(promise["course"]["draw"]) > 1


def _promised(promise: Json) -> str:
    says = {
        "coverage": "at least {} of hallucinated answers are caught",
        "fpr": "at most {} of faithful ones are flagged",
    }
    limits = promise["limits"]
    return listed([says[name].format(percent(x)) for name, x in limits.items() if x is not None])


def _rates(promise: Json) -> Iterator[parts.Row]:
    signs = {"coverage": ("Caught", ">="), "fpr": ("False alarms (FPR)", "<=")}
    for name, (title, sign) in signs.items():
        value, limit = promise[name], promise["limits"][name]
        asked = "no limit" if limit is None else f"{sign} {percent(limit)}"
        n = value.get("n")
        of = "" if n is None else f"{n:,} {words.RATES[name][1]}"
        yield title, share(value), interval(value), asked, parts.Cell(of, style="muted")


def _evidence(promise: Json) -> str:
    """Say with which evidence the state fell."""
    decided = promise["decided"]
    if decided is not None:
        won, goal = exp(min(50.0, decided["log_wealth"])), exp(decided["at"])
        begun, again = "the first draw", decided["restart"]
        if again:
            begun = f"draw {again['draw']:,} ({words.day(again['time'])})"
        text = (
            f"Broken: all bets together on that {words.WRONG[decided['rate']]} are worth "
            f"{number(won, 3)} times their stake with draw {decided['draw']:,} "
            f"(answers up to {words.day(decided['time'])}), most of it from the one "
            f"begun at {begun}; "
            f"{number(goal, 3)} shows it. This state stays, whatever labels come later."
        )
        if not decided["shown"]:
            text += " The labels as they are now do not show it any more: they were changed since."
        return text
    if promise["state"] == "kept":
        since = promise["since"]
        return (
            f"Kept so far: shown at every draw since number {since['draw']:,} "
            f"(answers up to {words.day(since['time'])}), for the mean rates over all "
            "answers drawn up to then."
        )
    return "Undecided: the labels so far show neither that it is kept nor that it is broken."


def _lately(lately: Json | None) -> str:
    """Say whether the latest labels differ from the promise; a warning, and no verdict."""
    if not lately or not lately["alarm"]:
        return ""
    return (
        f"Lately: since about {words.day(lately['since']['time'])} labels speak against the "
        f"promise ({words.WRONG[lately['rate']]}). Such a warning comes by chance once in "
        f"{lately['arl']:,} labels or more, on average, and is no verdict."
    )


def _groups(promise: Json) -> parts.Section | None:
    if not promise["groups"]:
        return None
    title = "By group"
    rows = []
    for group in promise["groups"]:
        state, verdict = _STATES[group["state"]]
        rows.append(
            (
                parts.Cell(group_label(group["group"]), f"{_level(group)} intervals"),
                parts.Cell(state, style=_TONES[verdict]),
                parts.Cell(share(group["coverage"]), interval(group["coverage"])),
                parts.Cell(share(group["fpr"]), interval(group["fpr"])),
                f"{group['n_labels']:,}",
            )
        )
    return parts.section(
        title,
        parts.Table(
            title,
            (*parts.texts("Group", "State"), *parts.numbers("Caught", "False alarms", "Labels")),
            rows,
            two_lines=True,
        ),
        parts.note(
            "Intervals and states are corrected for the number of groups: together with that of "
            "all answers, the intervals of a rate err with a probability of at most "
            f"{percent(promise['delta'])}."
        ),
    )


def _warnings(status: Json) -> Iterator[str]:
    if not status["log"]["whole"]:
        yield (
            "the log is not as it was written: what was found, and what did not count, stands "
            "below; calibrail log verify names every line"
        )
    promise, flags = status["promise"], status["prevalence"]["flags"]
    yield from words.fallen_groups(promise)
    yield from words.alike(promise, "clustered" in flags.get("notes", ()))
    yield from filter(None, [_lately(promise["lately"]), *watch_log.unread(status)])


def _next_step(status: Json) -> str:
    promise, traffic = status["promise"], status["traffic"]
    if promise["state"] == "broken":
        since = ""
        if traffic["since"]:
            since = (
                f" (--since {words.day(traffic['since'])} takes only answers after the change of "
                "traffic; a time that labels suggest would void what is promised)"
            )
        return (
            f"Make a new guardrail from the labels{since}; nothing is swapped by itself: calibrail "
            "recalibrate GUARDRAIL LOG --labels AUDIT -o new.json"
        )
    if promise["n_pending"]:
        waiting = count(promise["n_pending"], "drawn answer waits", "drawn answers wait")
        return f"{waiting} for a label: calibrail label -o AUDIT"
    if not promise["n_labels"] or traffic["alarm"]:
        why = (
            "Traffic has changed: let people label fresh answers"
            if traffic["alarm"]
            else "Let people label a few answers a day"
        )
        return f"{why}: calibrail audit-sample GUARDRAIL LOG -o AUDIT --per-day 20"
    return ""


def _commands(
    status: Json, guardrail: str, logs: Sequence[str], labels: str | None
) -> parts.Section:
    """Return the commands of a watch, in the order in which they are used."""
    file, log = shlex.quote(plain(guardrail)), " ".join(shlex.quote(plain(item)) for item in logs)
    audit = shlex.quote(plain(labels or "audit"))
    lines = (
        f"calibrail audit-sample {file} {log} -o {audit} --per-day 20   # draw answers",
        f"calibrail label -o {audit}   # people label them",
        f"calibrail monitor {file} {log} --labels {audit} -o WATCH   # and look again",
        f"calibrail recalibrate {file} {log} --labels {audit} -o new.json   # a new guardrail",
    )
    return parts.section("What to do", parts.Code("\n".join(lines), where="page"), where="page")
