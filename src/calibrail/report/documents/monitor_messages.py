"""The three answers of a monitor, and what they rest on."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from calibrail.formatting import Scale, listed, percent
from calibrail.report.document import Bullet, Json
from calibrail.report.messages import is_known, say, say_first, word
from calibrail.report.text import capital, group_label, plain

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


def scale_of(status: Json) -> Scale:
    """Return in which numbers the user knows the scores of the guardrail."""
    return Scale.of(status["score"])


def lead(status: Json) -> list[Bullet]:
    """Return the three answers that everybody looks for first."""
    texts = (_traffic(status), _promise(status["promise"]), _prevalence(status["prevalence"]))
    titles = ("Traffic", "Promise", "Hallucinations")
    return [Bullet(capital(text), title) for text, title in zip(texts, titles, strict=True)]


def _traffic(status: Json) -> str:
    traffic, reference = status["traffic"], status["traffic"]["reference"]
    if traffic["alarms"]:
        latest = traffic["alarms"][-1]
        change = moved(latest, status["timeline"], scale_of(status))
        return say("monitor.changed", traffic, since=since(latest), change=change)
    seen = status["n"] - (0 if reference["given"] else reference["n"])
    cases = {"monitor.too_early": not reference["complete"], "monitor.no_change": True}
    return say_first(cases, reference, seen=seen)


def _promise(promise: Json) -> str:
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
        up_to=up_to,
        groups=f" {not_shown}" if names and not_shown else "",
    )


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
