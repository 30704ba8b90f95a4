"""How does the time of what reads a text grow with the text, at its worst?

One crafted answer must not hold up a guardrail. Patterns that make backtracking expressions slow
(runs of one character, of two, rows that are as long as a sentence may be) are tried on every
function that reads texts and on every score without a model, at 10^4 and 10^5 characters; the
slowest of each also at 10^6. Processor seconds of one call; the growth is the time at ten times
the length over the time, so that about 10 is linear. Goal: at most 20.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from results import write

from calibrail import Example
from calibrail.data.duplicates import normalise
from calibrail.models.llm.chat import ChatAnswer
from calibrail.scores import BASELINES, build, parse_spec
from calibrail.scores.judge import neutral, unused_suffix
from calibrail.scores.judge_replies import read_verdict
from calibrail.text.claims import abstains, claims, clauses
from calibrail.text.sentences import sentences
from calibrail.text.words import content_words, names, numbers, words

SIZES = (10_000, 100_000, 1_000_000)
#: Patterns of each reader that are also tried at the largest size.
SLOWEST = 2
#: Seconds below which a growth says more of the clock than of the text: they count as so many.
LEAST = 0.02

SINGLE = (
    " \n\t!\"'()*,-./:;<[_`|#~aA1\u00a0\u2019\u201c\u201d\u2022\u2026\u3002\uff0e\u300d\u3001"
    "\u4e00\u3042\u0301\u200d\u0e01\u2028\u0660\u2460"
)
PAIRS = (("\u3002", "\u300d"), ("<", " "), (" ", "\n"), ("1", ","), ("a", "'"), (".", " "))
PIECES = [
    "a\n",
    "- a\n",
    "- a:\n",
    "1. \n",
    "a. \n",
    ".a",
    "a. ",
    "A. ",
    "U.S. ",
    "Dr. ",
    "e.g. ",
    "etc. ",
    "abc.) ",
    "approx. A",
    "! ",
    "?! ",
    "... ",
    ". ",
    "1,",
    "1,234",
    "1.",
    "12 %",
    "1 million ",
    "(a",
    "a)",
    "(a) ",
    "(",
    "[1] ",
    "It rained. (Passage 1) ",
    "他。",
    "。」",
    "。」と",
    "。a",
    "á",
    "a'",
    "a\u2019s ",
    "a-",
    "<a",
    "< ",
    "<answer-1>",
    "the lake is deep, and the river is wide, and ",
    "sure, ",
    "based on the given ",
    "given ",
    "cannot ",
    "no passage ",
    "Marie ",
    "NASA ",
    "*a*",
    "**",
    "_a",
    "http://a.b/c?d=e&",
]
#: What fills sentences of just under a thousand characters, above which none is looked into.
ROWS = [
    "; ",
    "; a is ",
    ", and it is ",
    "though ",
    "hope this help ",
    "do not mention ",
    "there is no ",
    "if you have ",
    "passages do not ",
    "thank you for ",
    "cannot ",
    "(a; it is) ",
]
OPENERS = ("", "if ", "hope this ", "There is no ")
PIPES = ("| a ", "|a|\n", "| a | 1 | \u4e00 |\n")


def patterns() -> Iterator[tuple[str, Callable[[int], str]]]:
    for piece in (*SINGLE, *PIECES, *PIPES):
        yield repr(piece), lambda n, piece=piece: piece * (n // len(piece))
    for left, right in PAIRS:
        name = f"{left!r} and {right!r} in turn by halves"
        yield name, lambda n, a=left, b=right: a * (n // 2) + b * (n // 2) + "x"
    for opener in OPENERS:
        for piece in ROWS:
            row = opener + piece * ((980 - len(opener)) // len(piece)) + ";\n"
            yield f"rows of {opener + piece!r}", lambda n, row=row: row * max(1, n // len(row))


def readers() -> dict[str, Callable[[str], Any]]:
    by_text: dict[str, Callable[[str], Any]] = {
        function.__name__: function
        for function in (words, content_words, names, numbers, sentences, claims, abstains)
    }
    by_text["clauses"] = lambda text: list(clauses(text))
    by_text["sketches: normalise"] = normalise
    by_text["judge: neutral"] = neutral
    by_text["judge: unused_suffix"] = lambda text: unused_suffix([text])
    for head in ("Faithful. ", '{"verdict": '):
        by_text[f"judge: reply {head}"] = lambda text, head=head: read_verdict(
            ChatAnswer(head + text)
        )
    for name in (*BASELINES, "novel_stretch", "novel_run"):
        score = build(parse_spec(name))
        # The same text on both sides: what compares them has the most to do.
        by_text[f"score {name}"] = lambda text, score=score: score.score(
            [Example(question="Who?", contexts=(text,), response=text)]
        )
    return by_text


def seconds(function: Callable[[str], Any], text: str) -> float:
    started = time.process_time()
    function(text)
    return time.process_time() - started


def main() -> None:
    made = list(patterns())
    lines = [
        f"{len(made)} patterns. In each row the slowest pattern, and the largest growth of any.",
        "",
        "| reader | s at 10^5 | s at 10^6 | its pattern | growth to 10^5 | growth to 10^6 |",
        "|---|---|---|---|---|---|",
    ]
    for name, function in readers().items():
        function("Dr. Wu left. It rained, and he stayed.")
        small, middle = ([seconds(function, make(size)) for _, make in made] for size in SIZES[:2])
        slowest = sorted(range(len(made)), key=middle.__getitem__)[-SLOWEST:]
        large = {index: seconds(function, made[index][1](SIZES[2])) for index in slowest}
        worst = max(large, key=large.__getitem__)
        pattern = made[worst][0].replace("|", "\\|")
        lines.append(
            f"| {name} | {max(middle):.2f} | {large[worst]:.2f} | `{pattern}` "
            f"| {growth(small, middle)} "
            f"| {growth([middle[index] for index in large], list(large.values()))} |"
        )
        print(lines[-1], flush=True)
    write("text_growth", "How reading a text grows with the text", lines, ("nupunkt",))


def growth(before: list[float], after: list[float]) -> str:
    pairs = zip(before, after, strict=True)
    ratios = [late / max(early, LEAST) for early, late in pairs if late > LEAST]
    return f"{max(ratios):.0f}" if ratios else f"all under {LEAST} s"


if __name__ == "__main__":
    main()
