"""What does deciding sentence by sentence cost beyond the detector, and what has a reader seen?

RAGTruth's answers, cut into words as a model gives them. Streams, `check` of the whole answers and
the bare detector on the same sentences run in turns, so that all meet the same machine; the
overhead is what a stream takes beyond the detector, in processor seconds of this process and by the
clock, for each sentence.
"""

from __future__ import annotations

import os
import re
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from results import write

from calibrail import Example, Guardrail, calibrate
from calibrail.data.by_sentence import sentence_examples

DEFAULT_DATA = Path(__file__).resolve().parent / ".." / ".." / "shared" / "data"
ROUNDS = 5
#: Answers that are timed in each turn.
ANSWERS = 100
SCORES = ("novelty", "numbers", "rouge_l", "rad")


def main() -> None:
    folder = Path(os.environ.get("CALIBRAIL_DATA", DEFAULT_DATA)) / "ragtruth"
    if not folder.is_dir():
        print(f"skipped: no RAGTruth at {folder}; set CALIBRAIL_DATA")
        return
    cost = [
        "## What it costs",
        "",
        f"Milliseconds a sentence, medians of {ROUNDS} turns; answers of RAGTruth QA, cut into "
        "words. The goal is at most 1 ms above the detector's own time, by either count. The last "
        "column is the clock's time of all streams against that of `check` on the same answers.",
        "",
        "| detector | unit | sentences | detector | stream | above it, processor | above it, clock "
        "| stream / check |",
        "|---|---|---|---|---|---|---|---|",
    ]
    seen = [
        "## What has been seen at the stop",
        "",
        "Test part, one answer of each source, at alpha 0.2; intervals at 95 %. A word is "
        "hallucinated where its sentence is.",
        "",
        "| detector | threshold | stopped before / at / after the first unsupported one, never "
        "| faithful answers cut | sentences of delay | hallucinated words seen, of | share seen |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in SCORES:
        for score, unit in ((name, "sentence"), (f"worst_sentence:detector={name}", "answer")):
            run = calibrate(folder, score, alpha=0.2, unit=unit)
            cost.append(timed(run.freeze(), name, unit, answers(folder)))
            print(cost[-1], flush=True)
            if unit == "sentence":
                seen.append(shown(name, run.report.to_dict()))
                print(seen[-1], flush=True)
    write("streaming", "Answers that are stopped while they are written", [*cost, "", *seen])


def answers(folder: Path) -> list[Example]:
    from calibrail import read

    return [item for item in read(folder, labelled=False) if item.response.strip()][:ANSWERS]


def timed(guardrail: Guardrail, name: str, unit: str, given: Sequence[Example]) -> str:
    """Return the row of one guardrail."""
    member: Any = getattr(guardrail.score, "member", guardrail.score)
    parts = [sentence_examples(item) for item in given]
    tokens = [re.findall(r"\s*\S+|\s+$", item.response) for item in given]
    n = sum(map(len, parts))

    def bare() -> None:
        for sentences in parts:
            for sentence in sentences:
                member.score([sentence])

    def stream() -> None:
        for item, words in zip(given, tokens, strict=True):
            check = guardrail.stream_check(question=item.question, contexts=item.contexts)
            for word in words:
                check.feed(word)
            check.close()

    def check() -> None:
        for item in given:
            guardrail.check(question=item.question, contexts=item.contexts, response=item.response)

    # What is remembered of texts is there for all of them.
    check()
    turns: dict[str, list[tuple[float, float]]] = {"bare": [], "stream": [], "check": []}
    for _ in range(ROUNDS):
        for key, work in (("bare", bare), ("stream", stream), ("check", check)):
            turns[key].append(taken(work))
    both = zip(turns["bare"], turns["stream"], turns["check"], strict=True)
    above = [(one[0] - none[0], one[1] - none[1], one[1] / whole[1]) for none, one, whole in both]
    processor, clock, ratio = (statistics.median(column) for column in zip(*above, strict=True))
    own = statistics.median(clock for _, clock in turns["bare"])
    streamed = statistics.median(clock for _, clock in turns["stream"])
    return (
        f"| {name} | {unit} | {n} | {1000 * own / n:.3f} | {1000 * streamed / n:.3f} "
        f"| {1000 * processor / n:.3f} | {1000 * clock / n:.3f} | {ratio:.2f} |"
    )


def taken(work: Callable[[], None]) -> tuple[float, float]:
    """Return processor seconds and seconds by the clock."""
    processor, clock = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - processor, time.perf_counter() - clock


def shown(name: str, report: dict[str, Any]) -> str:
    """Return the row of one report."""
    stream = report["sentences"]["stream"]

    def share(item: dict[str, Any]) -> str:
        return f"{item['estimate']:.0%} ({item['lower']:.0%}-{item['upper']:.0%})"

    def mean(item: dict[str, Any]) -> str:
        if item["estimate"] is None:
            return "-"
        return f"{item['estimate']:.1f} ({item['lower']:.1f}-{item['upper']:.1f})"

    stopped = ", ".join(
        share(stream["stopped"][when]) for when in ("before", "at", "after", "never")
    )
    threshold = "all" if report["threshold"] is None else f"{report['threshold']:.3f}"
    return (
        f"| {name} | {threshold} | {stopped} | {share(stream['cut'])} | {mean(stream['delay'])} "
        f"| {mean(stream['words_shown'])}, {mean(stream['words'])} "
        f"| {share(stream['share_shown'])} |"
    )


if __name__ == "__main__":
    main()
