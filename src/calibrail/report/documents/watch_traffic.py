"""What does a watch say about the traffic: what changed, since when, and which answers show it?"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from calibrail.phrases import count, listed, number
from calibrail.report import blocks as parts
from calibrail.report import watch_figures as figures
from calibrail.report.blocks import Json
from calibrail.report.documents import watch_words as words
from calibrail.report.phrases import capital, plain
from calibrail.report.sanitize import excerpt, short

#: Characters of a text that the page shows at most.
_MOST: Final = 400


def section(status: Json) -> parts.Section:
    """Return whether traffic has changed: alarms, figures, and the answers behind them."""
    traffic = status["traffic"]
    title = "Has the traffic changed?"
    return parts.section(
        title,
        _alarms(status),
        parts.note(_promised(traffic)),
        _evidence(status),
        *_features(status),
        *_answers(traffic["alarms"]),
    )


def _alarms(status: Json) -> parts.Table | None:
    alarms, timeline = status["traffic"]["alarms"], status["timeline"]
    title = "Changes of the traffic"
    columns = (
        *parts.texts("Alarm", "What moved", "Since (95% interval)"),
        parts.Column("E-value", "right"),
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


def _promised(traffic: Json) -> str:
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


def _evidence(status: Json) -> parts.Figure | None:
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
        yield parts.Card(
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


def _quote(about: str, text: Any) -> Iterator[parts.Quote]:
    if text:
        segments, before, after = excerpt(text, (), _MOST)
        yield parts.Quote(about, segments, before, after)
