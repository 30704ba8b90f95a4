"""How does one decision read, with what it rests on?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from calibrail.evaluation.wording import number
from calibrail.report import blocks

_Dict = Mapping[str, Any]
_COLOURS: Final = {
    "pass": "bold green",
    "flag": "bold red",
    "review": "bold yellow",
    "error": "bold red",
    "supported": "green",
    "contradicted": "red",
    "unsupported": "yellow",
}
_HEADINGS: Final = {
    "sentences": "Sentences of the answer",
    "claims": "Claims of the answer",
    "samples": "Sentences of the answer, against the other answers",
    "sources": "Sources",
    "words": "Not found in question or context",
    "scores": "Scores that it combines",
    "angles": "Angles, in radians",
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
    margin = " " * indent
    console.print(Text(f"{margin}{_HEADINGS.get(evidence['kind'], evidence['kind'])}", "bold"))
    if not evidence["items"]:
        console.print(Text(f"{margin}  none"))
    for item in evidence["items"]:
        _item(item, console, indent + 2)
    if indent == 0:
        console.print()


def _item(item: _Dict, console: Console, indent: int) -> None:
    line = Text(" " * indent)
    verdict = item.get("verdict")
    if verdict is not None:
        line.append(f"{verdict}  ", _COLOURS.get(verdict, ""))
    if "score" in item:
        line.append(f"{item['score']}  ", "bold")
        value = item["value"]
        line.append("undefined: " + item["reason"] if value is None else number(value))
    line.append(_numbers(item))
    if "text" in item:
        line.append(f"  {_shown(item['text'])}" if len(line) > indent else _shown(item["text"]))
    console.print(line)
    if "quote" in item:
        where = f"chunk {item['chunk'] + 1}, characters {item['chunk_start']}-{item['chunk_end']}"
        console.print(Text(f"{' ' * (indent + 2)}{where}: {_shown(item['quote'])}", "dim"))
    if "evidence" in item:
        _evidence(item["evidence"], console, indent + 2)


#: Numbers of an item, in the order in which they are shown.
_MEASURES: Final = (
    "support", "contradiction", "contradicted_by", "factuality", "relevance", "weight", "rank",
    "to_question", "to_context",
)  # fmt: skip


def _numbers(item: _Dict) -> str:
    known = [(name, item[name]) for name in _MEASURES if item.get(name) is not None]
    return ", ".join(f"{name.replace('_', ' ')} {number(value)}" for name, value in known)


def _shown(text: str) -> str:
    """Return a text on one line, in quotes; characters that steer a terminal are left out."""
    plain = "".join(letter if letter.isprintable() else " " for letter in " ".join(text.split()))
    return f'"{plain}"'
