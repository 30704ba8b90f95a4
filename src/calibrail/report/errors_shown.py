"""How do a detector's errors read on a page, whatever their texts hold?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from calibrail.evaluation.stats.phrases import count, number
from calibrail.report.evidence import _HEADINGS, _MEASURES
from calibrail.report.untrusted import excerpt, short

_Dict = Mapping[str, Any]

#: Characters of an answer, a question, a chunk and a piece of evidence that are shown.
ANSWER: Final = 600
QUESTION: Final = 400
CHUNK: Final = 400
PIECE: Final = 240

#: Chunks, and pieces of evidence, that are shown.
MOST_CHUNKS: Final = 3
MOST_ITEMS: Final = 12

#: What is not an objection to a piece of the answer.
_FINE: Final = ("supported", "faithful")
_DEEPEST: Final = 3


def error_view(item: _Dict) -> dict[str, Any]:
    """Return one wrongly decided answer as the page shows it.

    Parameters
    ----------
    item : mapping
        ``ShownExample.to_dict()``; nothing in its texts and its evidence is trusted.

    Returns
    -------
    dict
        Clean strings, and texts as marked segments with what was left out of them.
    """
    evidence = item["evidence"] if isinstance(item["evidence"], Mapping) else {}
    places = list(_places(evidence, len(item["response"])))
    p_value = item["p_value"]
    return {
        "id": short(item["id"], 80),
        "outcome": item["outcome"],
        "score": "undefined" if item["score"] is None else number(item["score"]),
        "threshold": None if item["threshold"] is None else number(item["threshold"]),
        "p_value": None if p_value is None else number(p_value),
        "in_hundred": None if p_value is None else f"{100.0 * p_value:.3g}",
        "group": None if item["group"] is None else short(item["group"], 80),
        "question": _text(item["question"], [], QUESTION),
        "answer": _text(item["response"], places, ANSWER),
        "chunks": _chunks(item["contexts"], evidence),
        "n_chunks": len(item["contexts"]),
        "evidence": _evidence(evidence),
        "note": short(item["note"], 400),
    }


def _text(text: str, places: list[tuple[int, int]], most: int) -> dict[str, Any] | None:
    if not text:
        return None
    segments, before, after = excerpt(text, places, most)
    return {
        "segments": segments,
        "before": before,
        "after": after,
        "whole": count(len(text), "character") if before or after else "",
    }


def _chunks(contexts: list[str], evidence: _Dict) -> list[dict[str, Any]]:
    """Return the chunks that the evidence names, or else the first, each around its quotes."""
    quoted: dict[int, list[tuple[int, int]]] = {}
    for item in _all_items(evidence):
        chunk, start, end = (_place(item.get(key)) for key in ("chunk", "chunk_start", "chunk_end"))
        if chunk is not None and start is not None and end is not None and chunk < len(contexts):
            quoted.setdefault(chunk, []).append((start, end))
    named = sorted(quoted)[:MOST_CHUNKS] or range(len(contexts))[:MOST_CHUNKS]
    shown = []
    for chunk in named:
        view = _text(contexts[chunk], quoted.get(chunk, []), CHUNK)
        if view is not None:
            shown.append({"number": chunk + 1, **view})
    return shown


def _places(evidence: _Dict, length: int) -> Iterator[tuple[int, int]]:
    """Yield the places of the answer that the evidence objects to."""
    weakest: tuple[float, tuple[int, int]] | None = None
    for item in _all_items(evidence):
        start, end = _place(item.get("start")), _place(item.get("end"))
        if start is None or end is None or not start < end <= length:
            continue
        verdict, support = item.get("verdict"), _number(item.get("support"))
        against = _number(item.get("contradiction"))
        if isinstance(verdict, str):
            if verdict not in _FINE:
                yield start, end
        elif against is not None:
            if against >= 0.5:
                yield start, end
        elif support is not None:
            if weakest is None or support < weakest[0]:
                weakest = support, (start, end)
        else:
            yield start, end
    if weakest is not None:
        yield weakest[1]


def _evidence(evidence: _Dict, depth: int = 0) -> dict[str, Any] | None:
    """Return what the detector says as a heading with lines, nested where scores are combined."""
    items = _items(evidence)
    if not items:
        return None
    kind = str(evidence.get("kind", "evidence"))
    return {
        "heading": short(_HEADINGS.get(kind, kind), 60),
        "lines": [_line(item, depth) for item in items[:MOST_ITEMS]],
        "more": max(0, len(items) - MOST_ITEMS),
    }


def _line(item: _Dict, depth: int) -> dict[str, Any]:
    measures = [
        f"{name.replace('_', ' ')} {number(value)}"
        for name in _MEASURES
        if (value := _number(item.get(name))) is not None
    ]
    said = [
        short(item[name], PIECE) for name in ("text", "reply") if isinstance(item.get(name), str)
    ]
    name, told = "", ""
    if "score" in item:
        name, known = short(item["score"], 60), _number(item.get("value"))
        told = f"undefined: {short(item.get('reason', ''))}" if known is None else number(known)
    elif isinstance(item.get("reason"), str):
        said.append(short(item["reason"], PIECE))
    where = _place(item.get("chunk"))
    nested = item.get("evidence")
    return {
        "verdict": short(item["verdict"], 30) if isinstance(item.get("verdict"), str) else "",
        "fine": item.get("verdict") in _FINE,
        "name": name,
        "value": told,
        "said": said,
        "measures": ", ".join(measures),
        "quote": short(item["quote"], PIECE) if isinstance(item.get("quote"), str) else "",
        "where": "" if where is None else f"chunk {where + 1}",
        "nested": (
            _evidence(nested, depth + 1)
            if isinstance(nested, Mapping) and depth < _DEEPEST
            else None
        ),
    }


def _items(evidence: _Dict) -> list[_Dict]:
    items = evidence.get("items")
    if not isinstance(items, list | tuple):
        return []
    return [item for item in items if isinstance(item, Mapping)]


def _all_items(evidence: _Dict, depth: int = 0) -> Iterator[_Dict]:
    for item in _items(evidence):
        yield item
        nested = item.get("evidence")
        if isinstance(nested, Mapping) and depth < _DEEPEST:
            yield from _all_items(nested, depth + 1)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e300 else math.inf


def _place(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return None
    return value
