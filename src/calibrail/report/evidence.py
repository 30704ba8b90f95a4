"""How does one decision read, with what it rests on?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from calibrail.evaluation.stats.phrases import number
from calibrail.report import blocks

_Dict = Mapping[str, Any]
_COLOURS: Final = {
    "pass": "bold green",
    "flag": "bold red",
    "review": "bold yellow",
    "error": "bold red",
    "supported": "green",
    "faithful": "green",
    "hallucination": "red",
    "contradicted": "red",
    "unsupported": "yellow",
}
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


def print_explanation(decision: _Dict, score: str, console: Console) -> None:
    """Print a decision: outcome, reason, p-value in words, and the evidence item by item.

    Parameters
    ----------
    decision : mapping
        ``Decision.to_dict(evidence=True)``.
    score : str
        Name of the detector.
    console : rich.console.Console
        Where to print.
    """
    outcome = decision["outcome"]
    console.print(Text.assemble((outcome.upper(), _COLOURS[outcome]), f"  {score}"))
    reason = decision["reason"]
    blocks.paragraph(console, f"{reason[:1].upper()}{reason[1:]}.")
    if decision["p_value"] is not None:
        share = 100.0 * decision["p_value"]
        blocks.paragraph(
            console,
            f"About {share:.3g} in 100 hallucinated answers look as harmless as this one, or more "
            f"so (p-value {number(decision['p_value'])}).",
        )
    evidence = decision["evidence"]
    if not evidence:
        blocks.paragraph(console, "The detector says nothing about parts of the answer.")
        return
    _evidence(evidence, console, indent=0)


def _evidence(evidence: _Dict, console: Console, indent: int) -> None:
    heading = _HEADINGS.get(evidence["kind"], str(evidence["kind"]))
    _print(console, Text(heading, "bold"), indent)
    if not evidence["items"]:
        _print(console, Text("none"), indent + 2)
    for item in evidence["items"]:
        _item(item, console, indent + 2)
    if indent == 0:
        console.print()


def _item(item: _Dict, console: Console, indent: int) -> None:
    parts: list[tuple[str, str]] = []
    if (verdict := item.get("verdict")) is not None:
        parts.append((verdict, _COLOURS.get(verdict, "")))
    if "score" in item:
        parts.append((item["score"], "bold"))
        value = item["value"]
        parts.append((f"undefined: {item['reason']}" if value is None else number(value), ""))
    for name in ("text", "reply"):
        if name in item:
            parts.append((_shown(item[name]), ""))
    if "reason" in item and "score" not in item:
        parts.append((item["reason"], ""))
    if measures := _numbers(item):
        parts.append((f"({measures})" if parts else measures, ""))
    line = Text()
    for position, (text, style) in enumerate(parts):
        line.append("  " if position else "")
        line.append(text, style)
    _print(console, line, indent)
    if "quote" in item:
        where = (
            f"chunk {item['chunk'] + 1}, characters {item['chunk_start']} to {item['chunk_end']}"
        )
        _print(console, Text(f"{where}: {_shown(item['quote'])}", "dim"), indent + 4)
    if "evidence" in item:
        _evidence(item["evidence"], console, indent + 4)


def _print(console: Console, line: Text, indent: int) -> None:
    margin = (0, 0, 0, min(indent, console.width // 2))
    console.print(Padding(line, margin, expand=False))


#: Numbers of an item, in the order in which they are shown.
_MEASURES: Final = (
    "support", "contradiction", "contradicted_by", "factuality", "relevance", "weight", "rank",
    "probability",
    "to_question", "to_context",
)  # fmt: skip


def _numbers(item: _Dict) -> str:
    known = [(name, item[name]) for name in _MEASURES if item.get(name) is not None]
    return ", ".join(f"{name.replace('_', ' ')} {number(value)}" for name, value in known)


def _shown(text: str) -> str:
    """Return a text on one line, in quotes; characters that steer a terminal are left out."""
    plain = "".join(letter if letter.isprintable() else " " for letter in " ".join(text.split()))
    return f'"{plain}"'
