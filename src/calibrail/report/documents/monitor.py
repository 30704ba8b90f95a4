"""Document of `calibrail monitor`: the promise, the traffic, and what each alarm says."""

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from math import exp
from typing import Any, Final

from calibrail.formatting import Scale, count, floor_percent, listed, number, percent
from calibrail.options.fields import cli_or_python
from calibrail.report import document as parts
from calibrail.report import text as phrases
from calibrail.report.document import Bullet, Document, Json, Verdict
from calibrail.report.documents import guardrail as log_document
from calibrail.report.figures import sequential as figures
from calibrail.report.messages import facts, is_known, remarks, say, say_first, word
from calibrail.report.text import capital, excerpt, group_label, interval, plain, required, share

#: The two rates of a promise: what each is called, of which answers, and which end is asked.
RATES: Final = {
    "coverage": ("caught", "hallucinated", "at least"),
    "fpr": ("flagged", "faithful", "at most"),
}

#: What is wrong where a rate is beyond its limit.
WRONG: Final = {"coverage": "too little is caught", "fpr": "too many false alarms"}

#: Length below which an interval is shown to the minute.
_MINUTES_BELOW: Final = timedelta(days=3)
#: New languages, or groups, that a sentence names.
_MOST_NAMED: Final = 3
#: Times of a log are in UTC.
_ZONE: Final = " UTC"
#: Share of a batch above which a draw is no small part of what it is drawn from.
_LARGE_SHARE: Final = 0.5


def day(time: str | None) -> str:
    """Return the day of a time, as logs write it."""
    return "an unknown time" if time is None else time[:10]


def minute(time: str | None) -> str:
    """Return a time to the minute, in UTC."""
    return "" if time is None else f"{datetime.fromisoformat(time):%Y-%m-%d %H:%M}{_ZONE}"


def place(at: Json) -> str:
    """Return where a row stands: its time, or its number where no line has one."""
    return minute(at["time"]) or f"answer {at['row']:,}"


def since(alarm: Json) -> str:
    """Return since when traffic has differed, with the interval."""
    found = alarm["since"]
    if alarm.get("against") == "calibration" and not found["row"]:
        return say("monitor.the_start")
    ends = found["lower"], found["upper"]
    low, high, when = (place(at).removesuffix(_ZONE) for at in (*ends, found))
    if found["time"] is None:
        return f"{when} ({low.removeprefix('answer ')} to {high.removeprefix('answer ')})"
    if low[:10] == high[:10]:
        return f"{when} ({low[11:]} to {high[11:]}{_ZONE})"
    if all(at["time"] for at in ends):
        first, last = (datetime.fromisoformat(at["time"]) for at in ends)
        if last - first < _MINUTES_BELOW:
            return f"{when} ({low} to {high}{_ZONE})"
    return f"{when[:10]} ({low[:10]} to {high[:10]})"


def moved(alarm: Json, timeline: Sequence[Json] = (), scale: Scale | None = None) -> str:
    """Return what became of a feature, and by how much.

    Parameters
    ----------
    alarm : mapping
        As it stands in the file.
    timeline : sequence of mapping
        Periods, which name languages that the reference lacks.
    scale : Scale, optional
        In which numbers the user knows the score.
    """
    scale = scale or Scale()
    feature, before, after = alarm["feature"], alarm["before"], alarm["after"]
    named = word("monitor.features", feature)
    if "shares" in before:
        most, shares = _most_changed(before["shares"], after["shares"])
        known = is_known(f"monitor.language_{most}")
        named = say(f"monitor.language_{most}") if known else f"answers in {plain(most)}"
        old, new = map(percent, shares)
        if most == "other" and (came := _new_languages(alarm, timeline)):
            named += f" ({listed(came)})"
    elif "share" in before:
        known_shares = (part["share"] for part in (before, after))
        old, new = ("none" if share is None else percent(share) for share in known_shares)
    else:
        # Medians are those of bins, which end where the reference does.
        of_feature = scale if feature == "score" else Scale()
        old, new = (of_feature.text(part["mean"]) for part in (before, after))
        named = f"the mean {of_feature.column or word('monitor.values', feature, named)}"
        unit = word("monitor.units", feature, "")
        new = f"{new} {unit}".rstrip() + _beyond(alarm["histogram"], of_feature)
    return f"{named} went from {old} to {new}"


def _most_changed(before: Json, after: Json) -> tuple[str, tuple[float, float]]:
    """Return the name whose share changed most, with both; of two, the one that grew."""
    shares = {name: (before.get(name, 0.0), after.get(name, 0.0)) for name in {**before, **after}}
    changes = {name: (round(abs(new - old), 9), new > old) for name, (old, new) in shares.items()}
    most = max(shares, key=changes.__getitem__)
    return most, shares[most]


def _new_languages(alarm: Json, timeline: Sequence[Json]) -> list[str]:
    """Return the languages between the change and its alarm that the reference lacks."""
    if "rarer" in {**alarm["before"]["shares"], **alarm["after"]["shares"]}:
        return []  # Rarer ones of the reference are not known by name.
    known, counts = {*alarm["histogram"]["names"]}, Counter[str]()
    for period in timeline:
        if period["row"] <= alarm["row"] and period["row"] + period["n"] > alarm["since"]["row"]:
            counts.update(period["languages"])
    came = [name for name, _ in counts.most_common() if name not in known]
    more = ["others"] if len(came) > _MOST_NAMED else []
    return [*map(plain, came[:_MOST_NAMED]), *more]


def _beyond(histogram: Json, scale: Scale) -> str:
    """Say what share lies beyond the edge at which both distributions differ most."""
    edges, parts = histogram["edges"], (histogram["before"], histogram["after"])
    if not edges or not all(map(sum, parts)):
        return ""
    above = [[1.0 - sum(part[: at + 1]) / sum(part) for part in parts] for at in range(len(edges))]
    at = max(range(len(edges)), key=lambda place: abs(above[place][1] - above[place][0]))
    old, new = (percent(max(0.0, share)) for share in above[at])
    if old == new:  # What was always the same ends the one bin that lower values lie in, too.
        return ""
    return f" ({scale.suspicious} {scale.text(edges[at])}: from {old} to {new} of answers)"


def lead(status: Json) -> list[Bullet]:
    """Return the three answers that everybody looks for first."""
    promise, prevalence = _promise_status(status["promise"]), _prevalence(status["prevalence"])
    said = {"Promise": promise, "Traffic": _traffic(status), "Hallucinations": prevalence}
    return [Bullet(capital(text), title) for title, text in said.items()]


def _traffic(status: Json) -> str:
    traffic, reference = status["traffic"], status["traffic"]["reference"]
    compared = traffic.get("calibration")
    if traffic["alarms"]:
        latest = traffic["alarms"][-1]
        change = moved(latest, status["timeline"], Scale.of(status["score"]))
        about = {"against": latest.get("against"), "since": since(latest), "change": change}
        text = say("monitor.changed", {**traffic, **about})
        first = compared is not None and compared["alarm"]
        if first and (latest["against"] == "calibration" or not first["since"]["row"]):
            differs = word("monitor.features", compared["alarm"]["feature"])
            by_label = first["feature"] == "score" and not first["since"]["row"]
            also = latest["against"] == "stream"
            about = {"feature": differs, "also": also, "by_label": by_label}
            text += " " + say("monitor.differs", compared["promise"], about)
        return text
    seen = status["n"] - (0 if reference["given"] else reference["n"])
    cases = {"monitor.too_early": not reference["complete"], "monitor.no_change": True}
    return say_first(cases, status, reference, seen=seen, labelled=compared and compared["n"])


def _promise_status(promise: Json) -> str:
    decided, n, until = promise["decided"] or {}, promise["n_labels"], promise["until"]
    # Where each group has to be shown, those that are not are named.
    names = [item["group"] for item in promise["groups"] if item["state"] != "kept"]
    more = ["others"] if len(names) > _MOST_NAMED else []
    groups = [*map(group_label, names[:_MOST_NAMED]), *more]
    not_shown = say("monitor.groups_not_shown", groups=groups) if promise.get("each") else ""
    later, up_to = promise.get("n_later", 0), ""
    if until is not None and later > 0:
        # Labels reach up to then, where answers drawn later wait for theirs.
        up_to = say("monitor.up_to", day=day(until["time"]), n_later=later)
    return say_first(
        {
            "monitor.no_limits": not any(promise["limits"].values()),
            "monitor.broken": decided,
            "monitor.drawn_without_labels": not n and promise["n_drawn"],
            "monitor.no_labels": not n,
            "monitor.kept": promise["state"] == "kept",
            "monitor.undecided": True,
        },
        promise,
        decided,
        wrong=WRONG.get(decided.get("rate", "")),
        day=day(decided.get("time")),
        rates=rates(promise) if n else "",
        latest=_latest(promise) if decided else None,
        up_to=up_to,
        groups=f" {not_shown}" if names and not_shown else "",
    )


def rates(promise: Json) -> str:
    """Return both rates beside what was promised."""
    said = []
    for name, (verb, whom, end) in RATES.items():
        about = {"verb": verb, "whom": whom, "end": end, "limit": promise["limits"][name]}
        if promise[name]["estimate"] is not None:
            said.append(say("monitor.rate", about, value=promise[name]))
    return listed(said)


def _prevalence(prevalence: Json) -> str:
    if prevalence["lower"] is None or (prevalence["lower"] <= 0.0 and prevalence["upper"] >= 1.0):
        return say("monitor.unknown_prevalence")
    until = (prevalence["labels"] or {}).get("until")
    assumption = say(f"monitor.assumes_{prevalence['assumption']}")
    when = day(until["time"]) if until else ""
    return say("monitor.prevalence", prevalence=prevalence, day=when, assumption=assumption)


#: Findings that are shown in a terminal; the page shows all that the file names.
_MOST: Final = 3
#: Characters of a text that the page shows at most.
_LONGEST: Final = 400
#: Alarms that the page shows, and answers behind all of them.
_MOST_ALARMS: Final = 12

#: What the ways to tell how many answers are hallucinated are called.
_WAYS: Final = {"flags": "From flags alone", "labels": "From labels", "judge": "With a judge"}

#: What each state is called, its verdict and its colour.
_STATES: Final[Mapping[str, tuple[str, Verdict, parts.Style]]] = {
    "kept": ("Kept so far", "certified", "good"),
    "undecided": ("Undecided", "inconclusive", "warning"),
    "broken": ("Broken", "rejected", "bad"),
}


def log_section(found: Json) -> parts.Section:
    """Return what became of the log's lines."""
    rows = [
        ("Lines", f"{found['lines']:,} in {count(found['chains'], 'chain')}"),
        ("Used", f"{found['used']:,}"),
        *((capital(log_document.skipped(code)), f"{n:,}") for code, n in found["skipped"].items()),
        ("Missing", f"{found['missing']:,}" if found["missing"] else ""),
        *((f"Of {plain(key)[:19]}...", f"{n:,}") for key, n in found["other_guardrails"].items()),
        ("From", minute(found["from"])),
        ("Until", minute(found["to"])),
    ]
    sentences = [log_document.sentence(finding, of_watch=True) for finding in found["findings"]]
    return parts.section(
        "What was read",
        parts.Facts([row for row in rows if row[1]]),
        *_findings("Found in the log", sentences, sum(found["found"].values())),
    )


def _findings(title: str, sentences: Sequence[str], n: int) -> Iterator[parts.Bullets]:
    """Yield findings, of which there are ``n``, for the page and, the first few, for a terminal."""
    places: tuple[tuple[parts.Where, int | None], ...] = (("page", None), ("terminal", _MOST))
    for where, most in places if sentences else ():
        items = [Bullet(sentence) for sentence in sentences[:most]]
        more = [Bullet(f"and {n - len(items):,} more")] if n > len(items) else []
        yield parts.Bullets(title, [*items, *more], "warning", where)


def labels_section(status: Json) -> parts.Section | None:
    """Return what became of the answers that people were asked about."""
    found, promise = status["labels"], status["promise"]
    if not found:
        return None
    judge, refused, n_refused = found.get("judge"), [], 0
    if judge is not None:
        missing = judge["n_not_in_log"]
        elsewhere = [say("monitor.not_in_log", n=missing)] if missing else []
        refused = [*elsewhere, *map(plain, judge["problems"])]
        n_refused = judge["n_problems"] + len(elsewhere)
    problems = list(map(plain, found["problems"]))
    return parts.section(
        "Labels",
        parts.Facts(facts("monitor.label_facts", promise, judge=judge)),
        *_findings("Labels that do not count", problems, found["n_problems"]),
        *_findings("Labels of the judge that do not count", refused, n_refused),
    )


def unread(status: Json) -> list[str]:
    """Return why labels could not be read, people's or a judge's; what was read before counts."""
    found = status["labels"] or {}
    judge = found.get("judge") or {}
    return [plain(item["trouble"]) for item in (found, judge) if item.get("trouble")]


def prevalence_section(status: Json) -> parts.Section:
    """Return the share of hallucinated answers in each way that tells it, over time, too."""
    prevalence = status["prevalence"]
    title = "How many hallucinations are there?"
    rows, notes = list[parts.Row](), list[parts.Block]()
    for name, called in _WAYS.items():
        if way := prevalence.get(name):
            style: parts.Style = "strong" if name == prevalence["method"] else ""
            rows.append((parts.Cell(called, style=style), interval(way), _basis(way)))
            notes += [parts.Text(_message(f"note_{code}", code)) for code in way.get("notes", ())]
    if prevalence["periods"]:
        notes.append(_figure("prevalence", figures.prevalence_svg, status))
    return parts.tabled(title, ("How", "Share", "What it rests on"), rows, *notes)


def _figure(name: str, draw: Callable[..., str], status: Json) -> parts.Figure:
    """Return a figure of a watch, with its caption."""
    details = {"periods": status["prevalence"]["periods"], "alarms": status["traffic"]["alarms"]}
    return parts.Figure(name, partial(draw, status), say(f"monitor.{name}_figure", details))


def _basis(way: Json) -> str:
    """Say what a way rests on; why it tells nothing; and what a judge has saved."""
    if reason := way.get("reason"):
        return f"nothing follows: {_message(f'reason_{reason}', reason)}"
    assumption = say(f"monitor.assumes_{way['assumption']}")
    if "saved" not in way:
        return assumption
    cases = {
        "monitor.saved_unknown": way["saved"] is None,
        "monitor.saved": way["saved"],
        "monitor.saved_nothing": True,
    }
    return f"{assumption}; {say_first(cases, way)}"


def _message(code: str, otherwise: str) -> str:
    """Return the message of a code; what a later version wrote, as it is."""
    return say(f"monitor.{code}") if is_known(f"monitor.{code}") else plain(otherwise)


def traffic_section(status: Json) -> parts.Section:
    """Return whether traffic has changed: alarms, figures, and the answers behind them."""
    traffic, timeline, scale = status["traffic"], status["timeline"], Scale.of(status["score"])
    title, promise, table = "Changes of the traffic", "", None
    if alarms := _changes(traffic["alarms"]):
        heads = "Alarm", "What moved", "Since (95% interval)", ">E-value"
        rows = [
            (place(it), capital(moved(it, timeline, scale)), since(it), number(it["e_value"], 3))
            for it in alarms
        ]
        table = parts.table(title, heads, rows)
    most = max(1, _MOST_ALARMS // max(1, len(alarms)))
    latest = say("monitor.latest_alarms", traffic, most=_MOST_ALARMS)
    if traffic["watched"]:
        named = {
            key: [word("monitor.features", name) for name in traffic[key]]
            for key in ("watched", "unwatched")
        }
        about = {"arl": traffic["arl"], "compared": traffic.get("calibration")}
        promise = say("monitor.watched", named, about)
    return parts.section(
        "Has the traffic changed?",
        table,
        parts.note(latest) if traffic["n_alarms"] > _MOST_ALARMS else None,
        parts.note(promise),
        parts.folded(
            "Evidence, feature by feature",
            _figure("traffic", figures.traffic_svg, status),
            *_features(status),
        )
        if timeline
        else None,
        *(_answers(alarm, most) for alarm in reversed(alarms) if alarm["examples"]),
    )


def _features(status: Json) -> Iterator[parts.Figure]:
    """Yield each watched feature over time."""
    for feature in status["traffic"]["watched"] if len(status["timeline"]) > 1 else ():
        name = capital(word("monitor.features", feature))
        draw = partial(figures.feature_svg, status, feature, name)
        yield parts.Figure(f"feature-{feature}", draw, name, size="half")


def _answers(alarm: Json, most: int) -> parts.Folded:
    """Return the first answers behind an alarm, with their texts where the log has them."""
    blocks, rows = list[parts.Block](), list[parts.Row]()
    for item in alarm["examples"][:most]:
        name = phrases.short(item.get("id", f"number {item['row']:,}"), 80)
        line = f"line {item['seq']:,} of {plain(item['chain'])}" if "chain" in item else ""
        if not (text := item.get("text")):
            rows.append((name, line))
            continue
        chunks = enumerate(text["contexts"][:3], start=1)
        blocks.append(
            parts.AnswerCard(
                "Answer",
                name,
                [line],
                [*_quote("Question", text["question"]), *_quote("Answer", text["response"])],
                folded_title="Context",
                folded=[quote for n, chunk in chunks for quote in _quote(f"Chunk {n}", chunk)],
            )
        )
    if rows:
        table = parts.table("Answers behind the alarm", ("Answer", "In the log"), rows)
        blocks += [table, parts.note(say("monitor.texts_missing"))]
    n = len(alarm["examples"])
    behind = say("monitor.answers_behind", n=n, shown=min(n, most), place=place(alarm))
    return parts.folded(behind, *blocks)


def _quote(about: str, text: Any) -> Iterator[parts.QuotedText]:
    if text:
        segments, before, after = excerpt(text, (), _LONGEST)
        yield parts.QuotedText(about, segments, before, after)


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
    latest = {**status["traffic"], "alarms": status["traffic"]["alarms"][-_MOST_ALARMS:]}
    status = {**status, "traffic": latest}
    promise, traffic = status["promise"], status["traffic"]
    state, verdict, _ = _STATES[promise["state"]]
    if promise["state"] == "undecided" and not promise["n_labels"]:
        state = "Labels not read" if unread(status) else "No labels yet"
    commands = _commands(guardrail, logs, labels)
    return Document(
        "watch of",
        subject=phrases.last_part(plain(guardrail)),
        headline=say("monitor.headline", state=state, alarms=traffic["alarms"]),
        verdict=verdict,
        lead=lead(status),
        tiles=tuple(_tiles(status)),
        blocks=(
            parts.section("What happened when", *_timeline(status), where="page"),
            traffic_section(status),
            _promise(status),
            _groups(promise),
            prevalence_section(status),
            log_section(status["log"]),
            labels_section(status),
            parts.section("What to do", parts.Code(commands), where="page"),
        ),
        warnings=[Bullet(text) for text in _warnings(status)],
        next_step=_next_step(status),
        footer="Every number on this page is in status.json.",
    ).naming(GUARDRAIL=guardrail, LOG=list(logs), AUDIT=labels or "audit")


def _timeline(status: Json) -> Iterator[parts.Figure]:
    """Yield one figure of traffic and both rates, on which events bear their names."""
    alarms, promise = _changes(status["traffic"]["alarms"]), status["promise"]
    events = [(alarm, word("monitor.features", alarm["feature"]), False) for alarm in alarms]
    if (broken := promise["decided"]) is not None:
        later = [event for event in events if (event[0]["time"] or "") > (broken["time"] or "")]
        events.insert(len(events) - len(later), (broken, "promise broken", True))
    if len(status["timeline"]) > 1:
        draw = partial(figures.timeline_svg, status, events)
        about = {"windows": promise.get("windows", ()), "names": [name for _, name, _ in events]}
        yield parts.Figure("timeline", draw, say("monitor.timeline_figure", about))


def _changes(alarms: Sequence[Json]) -> list[Json]:
    """Return alarms, of two that different comparisons raised about one change the first."""
    changes: list[Json] = []
    for alarm in alarms:
        last = changes[-1] if changes else alarm
        again = alarm.get("against") != last.get("against") and alarm["feature"] == last["feature"]
        # The intervals of when they began meet.
        one, other = last["since"], alarm["since"]
        again = again and one["upper"]["row"] >= other["lower"]["row"]
        if not (again and other["upper"]["row"] >= one["lower"]["row"]):
            changes.append(alarm)
    return changes


def _tiles(status: Json) -> Iterator[parts.Tile]:
    promise, prevalence, span = status["promise"], status["prevalence"], ""
    # What broke is seen in the latest labels; all draws since the start are named beside them.
    latest = _latest(promise) if promise["decided"] else None
    for name, title, sign in (("coverage", "Caught", ">="), ("fpr", "False alarms", "<=")):
        value, asked = promise[name], required(sign, promise["limits"][name])
        seen = interval(value) if value["estimate"] is not None else ""
        if latest is not None:
            seen = f"{interval(latest[name])}; over all draws {share(value)}"
            title, value = f"{title}, lately", latest[name]
        # "Caught none" would say that all is missed where no label tells.
        shown = share(value) if value["estimate"] is not None else "unknown"
        yield parts.Tile(title, shown, seen, asked)
    low, known = prevalence["lower"], prevalence["estimate"] is not None
    bounded = low is not None and (low > 0.0 or prevalence["upper"] < 1.0)
    value = share(prevalence) if known else "unknown"
    yield parts.Tile("Hallucinated", value, interval(prevalence) if known or bounded else "")
    if status["from"]:
        span = " to ".join(dict.fromkeys(day(status[end]) for end in ("from", "to")))
    yield parts.Tile("Answers", f"{status['n']:,}", span)
    waiting = f"{promise['n_pending']:,} waiting" if promise["n_pending"] else ""
    yield parts.Tile("Labels", f"{promise['n_labels']:,}", waiting)


def _promise(status: Json) -> parts.Section:
    """Show both rates beside what was promised, and the evidence for the state."""
    promise = status["promise"]
    title, limits = "Is the promise kept?", promise["limits"]
    named = [(name, limit) for name, limit in limits.items() if limit is not None]
    promised = listed([say(f"monitor.promised_{name}", limit=limit) for name, limit in named])
    if not promised or not promise["n_labels"]:
        cases = {
            "monitor.nothing_promised": not promised,
            "monitor.promised_waiting": promise["n_pending"],
            "monitor.promised_unlabelled": True,
        }
        return parts.section(title, parts.Text(say_first(cases, promise, promised=promised)))
    rows: list[parts.Row] = []
    for name, called, sign in (("coverage", "Caught", ">="), ("fpr", "False alarms", "<=")):
        value, asked = promise[name], required(sign, limits[name])
        of = "" if value.get("n") is None else f"{value['n']:,} {RATES[name][1]}"
        rows.append((called, share(value), interval(value), asked, parts.Cell(of, style="muted")))
    if (latest := _latest(promise)) is not None:
        of_latest = parts.Cell(f"the latest {latest['n']:,}", style="muted")
        for name, called in (("coverage", "Caught, lately"), ("fpr", "False alarms, lately")):
            rows.append((called, share(latest[name]), interval(latest[name]), "", of_latest))
    rate = parts.TableColumn("Rate", brief="")
    heads = rate, ">Value", f"{_level(promise)} interval", "Promised", "Labels"
    evidence = (("rates", figures.rates_svg), ("wealth", figures.watch_wealth_svg))
    shown = [_figure(*item, status) for item in evidence if len(promise["course"]["draw"]) > 1]
    # Where most of a small log was drawn, intervals are only about right.
    drawn = promise.get("largest_share") or 0.0
    return parts.tabled(
        title,
        heads,
        rows,
        parts.Text(_evidence(promise)),
        parts.Text(say("monitor.drawn_share", drawn=drawn) if drawn > _LARGE_SHARE else ""),
        parts.note(say("monitor.intervals", promise)),
        parts.folded("Evidence over all draws", *shown) if shown else None,
    )


def _latest(promise: Json) -> Json | None:
    """Return the rates of the latest labels; None where there are no earlier ones."""
    latest: Json | None = (promise["lately"] or {}).get("latest")
    if latest is None or latest["n"] >= promise["n_labels"]:
        return None
    return None if None in (latest[name]["estimate"] for name in RATES) else latest


def _level(promise: Json) -> str:
    """Return with which confidence each interval holds: groups take a part of the error."""
    return floor_percent(promise["coverage"].get("confidence", 1.0 - promise["delta"]))


def _evidence(promise: Json) -> str:
    """Say with which evidence the state fell."""
    if (decided := promise["decided"]) is not None:
        again = decided["restart"]
        return say(
            "monitor.evidence_broken",
            decided,
            wrong=WRONG[decided["rate"]],
            won=exp(min(50.0, decided["log_wealth"])),
            goal=exp(decided["at"]),
            day=day(decided["time"]),
            restart_day=day(again["time"]) if again else "",
        )
    if promise["state"] == "kept":
        return say("monitor.evidence_kept", promise["since"], day=day(promise["since"]["time"]))
    return say("monitor.evidence_undecided")


def _groups(promise: Json) -> parts.Section | None:
    if not promise["groups"]:
        return None
    rows = list[parts.Row]()
    for group in promise["groups"]:
        state, _, tone = _STATES[group["state"]]
        name = parts.Cell(group_label(group["group"]), f"{_level(group)} intervals")
        cells = (parts.Cell(share(group[rate]), interval(group[rate])) for rate in RATES)
        rows.append((name, parts.Cell(state, style=tone), *cells, f"{group['n_labels']:,}"))
    heads = "Group", "State", ">Caught", ">False alarms", ">Labels"
    note = parts.note(say("monitor.group_intervals", promise))
    return parts.tabled("By group", heads, rows, note, two_lines=True)


def _warnings(status: Json) -> Iterator[str]:
    promise, flags = status["promise"], status["prevalence"]["flags"]
    if not status["log"]["whole"]:
        yield say("monitor.log_not_whole")
    decided, repeated = promise["decided"], promise.get("repeated", 0)
    for group in promise["groups"]:
        # The state of all answers names the first group that broke.
        at, name = group["decided"], group["group"]
        if at is not None and (decided is None or decided["group"] != name):
            wrong, when = WRONG[at["rate"]], day(at["time"])
            yield say("monitor.group_broken", group=name, wrong=wrong, day=when)
    # Answers that belong together make errors more frequent than stated.
    if promise["n_labels"] and (repeated or "clustered" in flags.get("notes", ())):
        yield say("monitor.shared_questions", repeated=repeated)
    # Whether the latest labels differ from the promise is a warning, and no verdict.
    lately = promise["lately"]
    if lately and lately["alarm"]:
        since = day(lately["since"]["time"])
        yield say("monitor.lately", promise, lately, day=since, wrong=WRONG[lately["rate"]])
    yield from unread(status)


def _next_step(status: Json) -> str:
    promise, traffic = status["promise"], status["traffic"]
    return say_first(
        {
            "monitor.make_anew": promise["state"] == "broken",
            "monitor.label_drawn": promise["n_pending"],
            "monitor.draw_fresh": traffic["alarm"],
            "monitor.draw_some": not promise["n_labels"],
        },
        promise,
        since=traffic["since"] and day(traffic["since"]),
    )


def _commands(guardrail: str, logs: Sequence[str], labels: str | None) -> str:
    """Return the commands of a watch, or its calls, in the order in which they are used."""
    audit, given = labels or "audit", {"guardrail": guardrail, "logs": list(logs)}
    file, folder = (shlex.quote(plain(item)) for item in (guardrail, audit))
    typed = {"file": file, "folder": folder, "log": shlex.join(map(plain, logs))}
    spelt = remarks(cli_or_python("monitor.commands", "monitor.calls"), given, typed, audit=audit)
    return "\n".join(spelt)
