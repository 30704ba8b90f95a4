"""The three answers of a monitor, and what they rest on."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from math import inf
from typing import Final

from calibrail.formatting import Scale, listed, percent
from calibrail.report.document import Bullet, Json
from calibrail.report.messages import is_known, say
from calibrail.report.text import capital, group_label, plain

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

#: The two rates of a promise: what each is called, of which answers, and which end is asked.
RATES: Final = {
    "coverage": ("caught", "hallucinated", "at least"),
    "fpr": ("flagged", "faithful", "at most"),
}

#: What is wrong where a rate is beyond its limit.
WRONG: Final = {"coverage": "too little is caught", "fpr": "too many false alarms"}

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
        known = is_known(f"monitor.language_{most}")
        named = say(f"monitor.language_{most}") if known else f"answers in {plain(most)}"
        old, new = map(percent, shares)
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
        return say("monitor.changed", traffic, since=since(latest), change=change)
    if not reference["complete"]:
        return say("monitor.too_early", reference)
    seen = n if reference["given"] else n - reference["n"]
    return say("monitor.no_change", reference, seen=seen)


def _promise(promise: Json) -> str:
    if not any(promise["limits"].values()):
        return say("monitor.no_limits")
    decided, seen = promise["decided"], rates(promise) if promise["n_labels"] else ""
    if decided is not None:
        wrong = WRONG[decided["rate"]]
        return say("monitor.broken", decided, wrong=wrong, day=day(decided["time"]), rates=seen)
    if not promise["n_labels"]:
        return say(
            "monitor.drawn_without_labels" if promise["n_drawn"] else "monitor.no_labels", promise
        )
    if promise["state"] == "kept":
        return say("monitor.kept", up_to=_up_to(promise), rates=seen)
    return say("monitor.undecided", groups=_of_groups(promise), rates=seen)


def _of_groups(promise: Json) -> str:
    """Name the groups that are not shown, where each has to be."""
    names = [item["group"] for item in promise["groups"] if item["state"] != "kept"]
    if not names or not promise.get("each"):
        return ""
    more = ["others"] if len(names) > _MOST_NAMED else []
    groups = [*map(group_label, names[:_MOST_NAMED]), *more]
    return f" {say('monitor.groups_not_shown', groups=groups)}"


def _up_to(promise: Json) -> str:
    """Say up to when labels reach where answers drawn later wait for theirs."""
    until, later = promise["until"], promise.get("n_later", 0)
    if until is None or later <= 0:
        return ""
    return say("monitor.up_to", day=day(until["time"]), n_later=later)


def fallen_groups(promise: Json) -> Iterator[str]:
    """Name the groups that are broken where the state of all answers does not."""
    decided = promise["decided"]
    for group in promise["groups"]:
        at, name = group["decided"], group["group"]
        if at is not None and (decided is None or decided["group"] != name):
            wrong, when = WRONG[at["rate"]], day(at["time"])
            yield say("monitor.group_broken", group=name, wrong=wrong, day=when)


def alike(promise: Json, clustered: bool) -> Iterator[str]:
    """Say that answers which belong together make errors more frequent than stated."""
    repeated = promise.get("repeated", 0)
    if promise["n_labels"] and (clustered or repeated):
        yield say("monitor.shared_questions", repeated=repeated)


def rates(promise: Json) -> str:
    """Return both rates beside what was promised."""
    return listed(
        [
            say(
                "monitor.rate",
                verb=verb,
                whom=whom,
                end=end,
                value=promise[name],
                limit=promise["limits"][name],
            )
            for name, (verb, whom, end) in RATES.items()
            if promise[name]["estimate"] is not None
        ]
    )


def _prevalence(prevalence: Json) -> str:
    if prevalence["lower"] is None or (prevalence["lower"] <= 0.0 and prevalence["upper"] >= 1.0):
        return say("monitor.unknown_prevalence")
    until = (prevalence["labels"] or {}).get("until")
    assumption = say(f"monitor.assumes_{prevalence['assumption']}")
    when = day(until["time"]) if until else ""
    return say("monitor.prevalence", prevalence=prevalence, day=when, assumption=assumption)


def drawn_share(promise: Json) -> str:
    """Say what is only about right where most of a small log was drawn."""
    drawn = promise.get("largest_share")
    if drawn is None or drawn <= _LARGE_SHARE:
        return ""
    return say("monitor.drawn_share", drawn=drawn)
