"""Document of monitor: log, labels, prevalence, traffic and promise."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import exp
from typing import Any, Final

from calibrail.formatting import count, listed, number, percent
from calibrail.report import document as parts
from calibrail.report.document import Bullet, Document, Json, Verdict
from calibrail.report.documents import guardrail as log_document
from calibrail.report.documents import monitor_messages as words
from calibrail.report.figures import sequential as figures
from calibrail.report.messages import is_known, say
from calibrail.report.text import capital, excerpt, group_label, interval, plain, share, short

#: What is found of a log beside what ``calibrail log verify`` finds, by its code.
FINDINGS: Final[Mapping[str, str]] = {
    "cut": "is shorter than it was when it was read: {read:,} bytes were read of it",
    "late": "came later than files of its chain that follow it, and is not read",
    "no_chain": "is no chain of a log: nothing tells whether lines were changed or stand twice",
    "clock_back": "its clock went back by {seconds:,} s",
    "time": "has a time that is none: {time}",
    "future": "was written in the future: {time}",
    "malformed": "is no decision: a field is missing, or is none",
    "threshold": "names no guardrail, and the one given does not have its threshold, {threshold}",
    "outcome": "says {outcome} of the score {score}, and the guardrail says {rule}",
}

#: Findings that are shown in a terminal; the page shows all that the file names.
_MOST: Final = 3


def log_section(found: Json) -> parts.Section:
    """Return what became of the log's lines."""
    facts = [
        ("Lines", f"{found['lines']:,} in {count(found['chains'], 'chain')}"),
        ("Used", f"{found['used']:,}"),
        *((capital(log_document.skipped(code)), f"{n:,}") for code, n in found["skipped"].items()),
        *([("Missing", f"{found['missing']:,}")] if found["missing"] else []),
        *(
            (f"Of {plain(digest)[:19]}...", f"{n:,}")
            for digest, n in found["other_guardrails"].items()
        ),
        *([("From", words.minute(found["from"]))] if found["from"] else []),
        *([("Until", words.minute(found["to"]))] if found["to"] else []),
    ]
    sentences = [Bullet(sentence(finding)) for finding in found["findings"]]
    title, n = "Found in the log", sum(found["found"].values())
    return parts.section(
        "What was read",
        parts.Facts(facts),
        _findings(title, sentences, n, "page"),
        _findings(title, sentences[:_MOST], n, "terminal"),
    )


def _findings(
    title: str, sentences: list[Bullet], n: int, where: parts.Where
) -> parts.Bullets | None:
    if not sentences:
        return None
    more = [Bullet(f"and {n - len(sentences):,} more")] if n > len(sentences) else []
    return parts.Bullets(title, [*sentences, *more], "warning", where)


def sentence(finding: Json) -> str:
    """Return one finding in words: its place, and what it is."""
    code, values = finding["code"], finding["values"]
    if code not in FINDINGS:
        return log_document.sentence(finding)
    known = {
        name: number(value) if isinstance(value, float) else plain(value)
        for name, value in values.items()
    }
    known |= {name: values[name] for name in ("read", "seconds") if name in values}
    said = FINDINGS[code].format(**known)
    line = "" if finding["line"] is None else f"line {finding['line']:,}"
    place = ", ".join(filter(None, (plain(finding["file"]), line)))
    return f"{place}: {said}" if place else capital(said)


def labels_section(status: Json) -> parts.Section | None:
    """Return what became of the answers that people were asked about."""
    found, promise = status["labels"], status["promise"]
    if not found:
        return None
    facts = [
        ("Drawn", f"{promise['n_drawn']:,}"),
        ("Labelled", f"{promise['n_labels']:,}"),
        ("Waiting for a label", f"{promise['n_pending']:,}"),
        ("Labelled unsure", f"{promise['n_unsure']:,}"),
        ("Disagreements open", _open(promise["n_disagreements"])),
    ]
    judge = found.get("judge")
    if judge is not None:
        facts.append(("Labels of the judge", f"{judge['n_labels']:,}"))
    title = "Labels that do not count"
    problems = [Bullet(plain(item)) for item in found["problems"]]
    refused, n_refused = _refused(judge)
    by_judge = "Labels of the judge that do not count"
    return parts.section(
        "Labels",
        parts.Facts(facts),
        _findings(title, problems, found["n_problems"], "page"),
        _findings(title, problems[:_MOST], found["n_problems"], "terminal"),
        _findings(by_judge, refused, n_refused, "page"),
        _findings(by_judge, refused[:_MOST], n_refused, "terminal"),
    )


def _open(n: int) -> str:
    return f"{n:,}" if not n else f"{n:,}; `calibrail label --settle` asks a further person"


def unread(status: Json) -> list[str]:
    """Return why labels could not be read, people's or a judge's; what was read before counts."""
    found = status["labels"] or {}
    judge = found.get("judge") or {}
    return [plain(item["trouble"]) for item in (found, judge) if item.get("trouble")]


def _refused(judge: Json | None) -> tuple[list[Bullet], int]:
    """Return which labels of a judge do not count, in words, and how many such sentences."""
    if judge is None:
        return [], 0
    elsewhere, n = [], judge["n_problems"]
    if missing := judge["n_not_in_log"]:
        name = "names" if missing == 1 else "name"
        elsewhere = [Bullet(f"{count(missing, 'label')} {name} no answer of this log")]
    return [*elsewhere, *(Bullet(plain(item)) for item in judge["problems"])], n + len(elsewhere)


#: The ways to tell it.
_NAMES: Final[Mapping[str, str]] = {
    "flags": "From flags alone",
    "labels": "From labels",
    "judge": "With a judge",
}

_RESTS_ON: Final = {"flags": "within_class_scores", "labels": "audited", "judge": "judge"}


def prevalence_section(status: Json) -> parts.Section:
    """Return the share of hallucinated answers in each way that tells it, over time, too."""
    prevalence = status["prevalence"]
    title = "How many hallucinations are there?"
    rows = [
        (
            parts.Cell(_NAMES[name], style="strong" if name == prevalence["method"] else ""),
            interval(prevalence[name]),
            _basis(prevalence[name], _RESTS_ON[name]),
        )
        for name in _NAMES
        if prevalence.get(name)
    ]
    return parts.section(
        title,
        parts.Table(title, (*parts.texts("How"), *parts.texts("Share", "What it rests on")), rows),
        *(parts.Text(text) for text in _notes(prevalence)),
        parts.Figure(
            "prevalence",
            partial(figures.prevalence_svg, status),
            "Bounds of the share of hallucinated answers in each period.",
        )
        if prevalence["periods"]
        else None,
    )


def _basis(way: Json, code: str) -> str:
    """Say what a way rests on; why it tells nothing; and what a judge has saved."""
    if reason := way.get("reason"):
        return f"nothing follows: {_message(f'reason_{reason}', reason)}"
    assumption = say(f"monitor.assumes_{code}")
    if "saved" not in way:
        return assumption
    saved = way["saved"]
    spared = (
        "how many labels it saves cannot be told"
        if saved is None
        else f"people alone would have to label {saved:,} more answers for an interval as narrow"
        if saved
        else "it saves no label: people's alone give an interval as narrow"
    )
    return f"{assumption}; {spared}"


def _message(code: str, otherwise: str) -> str:
    """Return the message of a code; what a later version wrote, as it is."""
    return say(f"monitor.{code}") if is_known(f"monitor.{code}") else plain(otherwise)


def _notes(prevalence: Json) -> Iterator[str]:
    """Yield what else is to be known of a way's interval."""
    for name in _NAMES:
        for code in (prevalence.get(name) or {}).get("notes", ()):
            yield _message(f"note_{code}", code)


#: Characters of a text that the page shows at most.
_WATCH_TRAFFIC_MOST: Final = 400


def traffic_section(status: Json) -> parts.Section:
    """Return whether traffic has changed: alarms, figures, and the answers behind them."""
    traffic = status["traffic"]
    title = "Has the traffic changed?"
    return parts.section(
        title,
        _alarms(status),
        parts.note(_traffic_promise(traffic)),
        _traffic_evidence(status),
        *_features(status),
        *_answers(traffic["alarms"]),
    )


def _alarms(status: Json) -> parts.Table | None:
    alarms, timeline = status["traffic"]["alarms"], status["timeline"]
    title = "Changes of the traffic"
    columns = (
        *parts.texts("Alarm", "What moved", "Since (95% interval)"),
        parts.TableColumn("E-value", "right"),
    )
    rows = [
        (
            words.place(alarm),
            capital(words.moved(alarm, timeline, words.scale_of(status))),
            words.since(alarm),
            number(alarm["e_value"], 3),
        )
        for alarm in alarms
    ]
    return parts.Table(title, columns, rows) if alarms else None


def _traffic_promise(traffic: Json) -> str:
    if not traffic["watched"]:
        return ""
    watched = listed([words.FEATURES.get(name, plain(name)) for name in traffic["watched"]])
    text = (
        f"Watched: {watched}. While nothing changes and answers come independently, the first "
        f"false alarm takes {traffic['arl']:,} answers or more on average, however often one "
        "looks. After an alarm the answers that follow are the new reference. An interval of "
        '"since" is to the length of the blocks in which older answers are counted.'
    )
    if traffic["unwatched"]:
        missing = listed([words.FEATURES.get(name, plain(name)) for name in traffic["unwatched"]])
        text += f" Not in the log, and so not watched: {missing}."
    return text


def _traffic_evidence(status: Json) -> parts.Figure | None:
    if not status["timeline"]:
        return None
    return parts.Figure(
        "traffic",
        partial(figures.traffic_svg, status),
        "Evidence that any of the features has changed (logarithmic). Dashed: what raises an "
        "alarm, after which it begins anew.",
    )


def _features(status: Json) -> Iterator[parts.Figure]:
    """Yield each watched feature over time."""
    if len(status["timeline"]) < 2:
        return
    for feature in status["traffic"]["watched"]:
        name = capital(words.FEATURES.get(feature, plain(feature)))
        draw = partial(figures.feature_svg, status, feature, name)
        yield parts.Figure(f"feature-{feature}", draw, name, size="half")


def _answers(alarms: Sequence[Json]) -> Iterator[parts.Folded]:
    """Yield the answers behind each alarm, the latest first."""
    for alarm in reversed(alarms):
        examples = alarm["examples"]
        if examples:
            title = (
                f"{capital(count(len(examples), 'answer'))} behind the alarm of "
                f"{words.place(alarm)}"
            )
            yield parts.folded(title, *_shown(examples))


def _shown(examples: Sequence[Json]) -> Iterator[parts.Block]:
    with_text = [item for item in examples if item.get("text")]
    without = [item for item in examples if not item.get("text")]
    for item in with_text:
        text = item["text"]
        yield parts.AnswerCard(
            "Answer",
            short(item.get("id", f"number {item['row']:,}"), 80),
            [_line(item)],
            [*_quote("Question", text["question"]), *_quote("Answer", text["response"])],
            folded_title="Context",
            folded=[
                quote
                for number_, chunk in enumerate(text["contexts"][:3], start=1)
                for quote in _quote(f"Chunk {number_}", chunk)
            ],
        )
    if without:
        columns = parts.texts("Answer", "In the log")
        rows = [
            (short(item.get("id", f"number {item['row']:,}"), 80), _line(item)) for item in without
        ]
        yield parts.Table("Answers behind the alarm", columns, rows)
        yield parts.note("The log holds no text of these; look them up by their ids.")


def _line(item: Json) -> str:
    return "" if "chain" not in item else f"line {item['seq']:,} of {plain(item['chain'])}"


def _quote(about: str, text: Any) -> Iterator[parts.QuotedText]:
    if text:
        segments, before, after = excerpt(text, (), _WATCH_TRAFFIC_MOST)
        yield parts.QuotedText(about, segments, before, after)


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
        state = "Labels not read" if unread(status) else "No labels yet"
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
            traffic_section(status),
            _promise(status),
            _groups(promise),
            prevalence_section(status),
            log_section(status["log"]),
            labels_section(status),
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
                parts.TableColumn("Rate", brief=""),
                parts.TableColumn("Value", "right"),
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
            partial(figures.watch_wealth_svg, status),
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
    yield from filter(None, [_lately(promise["lately"]), *unread(status)])


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
