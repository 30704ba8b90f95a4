"""Sentences of a watch."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from math import inf
from typing import Final

from calibrail.formatting import count, listed, percent
from calibrail.report.document import Bullet, Json
from calibrail.report.text import capital, group_label, interval, plain
from calibrail.scores.base import Scale

#: What is watched, by its name in the file.
FEATURES: Final[Mapping[str, str]] = {
    "score": "scores",
    "undefined": "answers without a score",
    "question_length": "length of questions",
    "response_length": "length of answers",
    "chunks": "number of chunks",
    "language": "languages",
}

#: What the numbers of a feature are.
UNITS: Final[Mapping[str, str]] = {
    "question_length": " characters",
    "response_length": " characters",
    "chunks": " chunks",
}

#: What one value of a feature is called.
MEANS: Final[Mapping[str, str]] = {
    "score": "score",
    "question_length": "length of questions",
    "response_length": "length of answers",
}

#: Why a way to tell how many there are tells nothing.
REASONS: Final[Mapping[str, str]] = {
    "not_told_apart": "as far as is known, as many are flagged where nothing is hallucinated",
    "contradiction": "no mix of both classes gives what is seen: scores within them have changed",
    "nothing_drawn": "no answer that was drawn for people is labelled yet",
    "draws_not_judged": "the judge must label every drawn answer, also those that the lot passed "
    "over (all of the log is best)",
    "nothing_logged": "no answer was logged",
}

#: What else is to be known of an interval.
NOTES: Final[Mapping[str, str]] = {
    "clustered": "The held-out answers that coverage and FPR were frozen from came in groups. What "
    "flags alone say takes each of them as independent, and so is too narrow.",
    "bounds_as_frozen": "The intervals of coverage or FPR are taken as they were frozen, with the "
    "confidence that they had then: no counts stand in the guardrail from which exact ones follow.",
}

#: Languages that are counted together.
NEW: Final[Mapping[str, str]] = {
    "other": "answers in languages that the first quarter of the reference lacks",
    "rarer": "answers in the reference's rarer languages",
}

#: The two rates of a promise: what each is called, of which answers, and which end is asked.
RATES: Final = {
    "coverage": ("caught", "hallucinated", "at least"),
    "fpr": ("flagged", "faithful", "at most"),
}

#: What is wrong where a rate is beyond its limit.
WRONG: Final = {"coverage": "too little is caught", "fpr": "too many false alarms"}

#: Beside what each way to tell prevalence rests on.
ASSUMPTIONS: Final[Mapping[str, str]] = {
    "within_class_scores": "holds while the scores of hallucinated answers, and those of faithful "
    "ones, are spread as they were on the held-out answers: only their mix may have changed",
    "audited": "holds whatever has changed, since people labelled answers drawn by lot",
    "judge": "holds while the judge errs among all flagged, and among all passed answers as often "
    "as among those that people labelled, too",
}


#: Days below which an interval is shown to the minute.
_HOURS_BELOW: Final = 3.0
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
    low, high, when = (
        place(at).removesuffix(_ZONE) for at in (found["lower"], found["upper"], found)
    )
    if found["time"] is None:
        return f"{when} ({low.removeprefix('answer ')} to {high.removeprefix('answer ')})"
    if low[:10] != high[:10]:
        length = 10 if _days_between(found["lower"], found["upper"]) >= _HOURS_BELOW else None
        zone = _ZONE if length is None else ""
        return f"{when[:length]} ({low[:length]} to {high[:length]}{zone})"
    return f"{when} ({low[11:]} to {high[11:]}{_ZONE})"


def _days_between(begin: Json, end: Json) -> float:
    """Return how many days lie between two places; infinitely many where a time is unknown."""
    if begin["time"] is None or end["time"] is None:
        return inf
    first, last = (datetime.fromisoformat(at["time"]) for at in (begin, end))
    return (last - first) / timedelta(days=1)


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
    named = FEATURES.get(feature, plain(feature))
    if "shares" in before:
        most, shares = _most_changed(before["shares"], after["shares"])
        named, (old, new) = NEW.get(most, f"answers in {plain(most)}"), map(percent, shares)
        if most == "other" and (came := _new_languages(alarm, timeline)):
            named += f" ({listed(came)})"
    elif "share" in before:
        old, new = (_known(part["share"], percent) for part in (before, after))
    else:
        # Medians are those of bins, which end where the reference does.
        of_feature = scale if feature == "score" else Scale()
        old, new = (_known(part["mean"], of_feature.text) for part in (before, after))
        named = f"the mean {of_feature.column or MEANS.get(feature, named)}"
        new += UNITS.get(feature, "") + _beyond(alarm["histogram"], of_feature)
    return f"{named} went from {old} to {new}"


def _known(value: float | None, said: Callable[[float], str]) -> str:
    return "none" if value is None else said(value)


def _most_changed(before: Json, after: Json) -> tuple[str, tuple[float, float]]:
    """Return the name whose share changed most, with both; of two, the one that grew."""
    shares = {name: (before.get(name, 0.0), after.get(name, 0.0)) for name in {**before, **after}}

    def change(name: str) -> tuple[float, bool]:
        old, new = shares[name]
        return round(abs(new - old), 9), new > old

    most = max(shares, key=change)
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


def scale_of(status: Json) -> Scale:
    """Return in which numbers the user knows the scores of the guardrail."""
    return Scale.of(status["score"])


def lead(status: Json) -> list[Bullet]:
    """Return the three answers that everybody looks for first."""
    return [
        Bullet(capital(_traffic(status)), "Traffic"),
        Bullet(capital(_promise(status["promise"])), "Promise"),
        Bullet(capital(_prevalence(status["prevalence"])), "Hallucinations"),
    ]


def _traffic(status: Json) -> str:
    traffic, timeline, n = status["traffic"], status["timeline"], status["n"]
    reference = traffic["reference"]
    if traffic["alarms"]:
        latest = traffic["alarms"][-1]
        change = moved(latest, timeline, scale_of(status))
        more = traffic["n_alarms"]
        others = f" It is the last of {more:,} changes." if more > 1 else ""
        return (
            f"changed since {since(latest)}: {change}.{others} That answers differ does not say "
            "that the promise is broken; and while nothing changes, false alarms are "
            f"{traffic['arl']:,} answers or more apart on average."
        )
    if not reference["complete"]:
        return (
            f"too early to tell: later answers are compared with the first {reference['size']:,}, "
            f"of which {reference['n']:,} are here."
        )
    seen = n if reference["given"] else n - reference["n"]
    whom = "those of the reference" if reference["given"] else f"the first {reference['n']:,}"
    return (
        f"no change seen in {count(seen, 'answer')}, compared with {whom}. What is small or began "
        "just now may not be seen yet."
    )


def _promise(promise: Json) -> str:
    if not any(promise["limits"].values()):
        return "nothing is watched: the guardrail promises neither rate; name a limit (--max-fpr)."
    decided = promise["decided"]
    if decided is not None:
        group = "" if decided["group"] is None else f" of the group {group_label(decided['group'])}"
        said = f": {rates(promise)}" if promise["n_labels"] else ""
        drawn = f"shown by answers up to {day(decided['time'])}"
        return f"broken ({WRONG[decided['rate']]}{group}), {drawn}{said}."
    if promise["n_drawn"] and not promise["n_labels"]:
        drawn = count(promise["n_drawn"], "answer drawn has", "answers drawn have")
        return f"unknown: {drawn} no label yet, and only labels tell whether it is kept."
    if not promise["n_labels"]:
        return "unknown: no answer has been labelled yet, and only labels tell whether it is kept."
    if promise["state"] == "kept":
        return f"kept so far{_up_to(promise)}: {rates(promise)}."
    groups = _of_groups(promise)
    return f"undecided, for which there are too few labels{groups}: {rates(promise)}."


def _of_groups(promise: Json) -> str:
    """Name the groups that are not shown, where each has to be."""
    names = [item["group"] for item in promise["groups"] if item["state"] != "kept"]
    if not names or not promise.get("each"):
        return ""
    more = ["others"] if len(names) > _MOST_NAMED else []
    told = listed([*map(group_label, names[:_MOST_NAMED]), *more])
    return f" (it is to be kept for each group, which is not shown for {told})"


def _up_to(promise: Json) -> str:
    """Say up to when labels reach where answers drawn later wait for theirs."""
    until = promise["until"]
    newer = promise.get("n_later", 0)
    if until is None or newer <= 0:
        return ""
    wait = count(newer, "later drawn answer is", "later drawn answers are")
    late = f"{wait} not counted yet: too many wait for a label"
    return f", by labels of answers up to {day(until['time'])} ({late})"


def fallen_groups(promise: Json) -> Iterator[str]:
    """Name the groups that are broken where the state of all answers does not."""
    decided = promise["decided"]
    for group in promise["groups"]:
        if group["decided"] is not None and (decided is None or decided["group"] != group["group"]):
            at = group["decided"]
            yield (
                f"of the group {group_label(group['group'])} the promise is broken "
                f"({WRONG[at['rate']]}), shown by answers up to {day(at['time'])}"
            )


def alike(promise: Json, clustered: bool) -> Iterator[str]:
    """Say that answers which belong together make errors more frequent than stated."""
    repeated = promise.get("repeated", 0)
    if promise["n_labels"] and (clustered or repeated):
        seen = f" ({count(repeated, 'draw repeats', 'draws repeat')} one)" if repeated else ""
        yield (
            "where drawn answers share a question, the promise is said to be kept or broken only "
            "where all draws show it and, by themselves, the first of each question too"
            f"{seen}; where questions are not in the log, or alike in other ways, either is said "
            "falsely more often than stated"
        )


def rates(promise: Json) -> str:
    """Return both rates beside what was promised."""
    parts = []
    for name, (verb, whom, end) in RATES.items():
        value, limit = promise[name], promise["limits"][name]
        if value["estimate"] is None:
            continue
        asked = "" if limit is None else f"; promised: {end} {percent(limit)}"
        parts.append(
            f"{percent(value['estimate'])} of {whom} answers were {verb} ({interval(value)}{asked})"
        )
    return listed(parts)


def _prevalence(prevalence: Json) -> str:
    if prevalence["lower"] is None or (prevalence["lower"] <= 0.0 and prevalence["upper"] >= 1.0):
        return "how many there are cannot be told without labels here."
    until = (prevalence["labels"] or {}).get("until")
    reach = f" of answers up to {day(until['time'])}" if until else ""
    how = {
        "flags": "from flags alone",
        "labels": f"from labels{reach}",
        "judge": "with the judge's labels",
    }
    assumption = ASSUMPTIONS[prevalence["assumption"]]
    return (
        f"{interval(prevalence)} of answers are hallucinated, {how[prevalence['method']]}; this "
        f"{assumption}."
    )


def drawn_share(promise: Json) -> str:
    """Say what is only about right where most of a small log was drawn."""
    drawn = promise.get("largest_share")
    if drawn is None or drawn <= _LARGE_SHARE:
        return ""
    return (
        f"Of one batch {percent(drawn)} of the logged answers were drawn. What is stated here is "
        "exact where few of many are; where most of a small log are drawn and its answers repeat, "
        "it holds about, not exactly."
    )
