"""How does what a detector says about the parts of an answer read, whatever its texts hold?"""

import math
from collections.abc import Iterator, Mapping
from typing import Final

from calibrail.phrases import number
from calibrail.report.blocks import Evidence, EvidenceItem, Json, Style
from calibrail.report.sanitize import short

#: Characters of a piece of evidence, and pieces, that a page shows beside an answer.
PIECE: Final = 240
MOST_ITEMS: Final = 12

_HEADINGS: Final = {
    "sentences": "Sentences of the answer",
    "claims": "Claims of the answer",
    "samples": "Sentences of the answer, against the other answers",
    "sources": "Sources",
    "stretch": "The heaviest stretch",
    "words": "Not found in question or context",
    "scores": "Scores that it combines",
    "angles": "Angles, in radians",
    "judge": "What the judge replied",
}
#: Numbers of an item, in the order in which they are shown.
_MEASURES: Final = (
    "support",
    "contradiction",
    "contradicted_by",
    "factuality",
    "relevance",
    "weight",
    "rank",
    "probability",
    "to_question",
    "to_context",
)
#: What is not an objection to a piece of the answer.
_FINE: Final = ("supported", "faithful")
_DEEPEST: Final = 3


def evidence_block(
    evidence: Json, *, most: int = MOST_ITEMS, piece: int = PIECE, depth: int = 0
) -> Evidence | None:
    """Return evidence as a heading with items, nested where scores are combined.

    Parameters
    ----------
    evidence : mapping
        ``Decision.evidence``; nothing in it is trusted.
    most, piece : int
        Items, and characters of a text, to keep.
    depth : int
        Levels above this one.
    """
    listed = items(evidence)
    if not listed:
        return None
    kind = str(evidence.get("kind", "evidence"))
    return Evidence(
        short(_HEADINGS.get(kind, kind), 60),
        [_item(item, most, piece, depth) for item in listed[:most]],
        more=max(0, len(listed) - most),
    )


def _item(item: Json, most: int, piece: int, depth: int) -> EvidenceItem:
    def text(key: str, characters: int = piece) -> str:
        value = item.get(key)
        return short(value, characters) if isinstance(value, str) else ""

    measures = [
        f"{name.replace('_', ' ')} {number(amount)}"
        for name in _MEASURES
        if (amount := finite(item.get(name))) is not None
    ]
    verdict, nested, value = text("verdict", 30), item.get("evidence"), ""
    if combined := "score" in item:
        known = finite(item.get("value"))
        reason = short(item.get("reason", ""))
        value = f"undefined: {reason}" if known is None else number(known)
    return EvidenceItem(
        verdict=verdict,
        style=_style(verdict),
        name=short(item["score"], 60) if combined else "",
        value=value,
        texts=[said for said in (text("text"), text("reply")) if said],
        remark="" if combined else text("reason"),
        measures=", ".join(measures),
        quote=text("quote"),
        place=_source(item),
        nested=evidence_block(nested, most=most, piece=piece, depth=depth + 1)
        if isinstance(nested, Mapping) and depth < _DEEPEST
        else None,
    )


def _style(verdict: str) -> Style:
    if verdict in _FINE:
        return "good"
    return "warning" if verdict == "unsupported" else "bad"


def _source(item: Json) -> str:
    """Return where a quote stands in the context."""
    chunk, start, end = (place(item.get(key)) for key in ("chunk", "chunk_start", "chunk_end"))
    if chunk is None:
        return ""
    known = start is not None and end is not None
    return f"chunk {chunk + 1}" + (f", characters {start} to {end}" if known else "")


def items(evidence: Json) -> list[Json]:
    """Return the items of evidence that are well formed."""
    listed = evidence.get("items")
    if not isinstance(listed, list | tuple):
        return []
    return [item for item in listed if isinstance(item, Mapping)]


def all_items(evidence: Json, depth: int = 0) -> Iterator[Json]:
    """Yield the items of evidence, nested ones after the item that holds them."""
    for item in items(evidence):
        yield item
        nested = item.get("evidence")
        if isinstance(nested, Mapping) and depth < _DEEPEST:
            yield from all_items(nested, depth + 1)


def objections(evidence: Json, length: int) -> Iterator[tuple[int, int]]:
    """Yield the places of an answer of ``length`` characters that the evidence objects to."""
    weakest: tuple[float, tuple[int, int]] | None = None
    for item in all_items(evidence):
        start, end = place(item.get("start")), place(item.get("end"))
        if start is None or end is None or not start < end <= length:
            continue
        verdict, support = item.get("verdict"), finite(item.get("support"))
        against = finite(item.get("contradiction"))
        if isinstance(verdict, str):
            if verdict not in _FINE:
                yield start, end
        elif against is not None:
            if against >= 0.5:
                yield start, end
        elif support is None:
            yield start, end
        elif weakest is None or support < weakest[0]:
            weakest = support, (start, end)
    if weakest is not None:
        yield weakest[1]


def finite(value: object) -> float | None:
    """Return a number that can be shown, or None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e300 else math.inf


def place(value: object) -> int | None:
    """Return a position in a text, or None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return None
    return value
