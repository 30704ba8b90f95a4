"""What does deciding sentence by sentence cost beyond the detector, and what has a reader seen?

RAGTruth's answers, cut into words as a model gives them. Of each answer the bare detector on its
sentences one by one, a stream, and `check` of the whole run in turns, so that all meet the same
machine; the overhead is what a stream takes beyond the detector, in processor seconds of this
process and by the clock, for each sentence. A detector with a model is timed twice: when it knows
the texts already, and when everything is forgotten before each of the three.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from results import write

from calibrail import Example, Guardrail, calibrate
from calibrail.data.sentences import sentence_examples

DEFAULT_DATA = Path(__file__).resolve().parent / ".." / ".." / "shared" / "data"
ROUNDS = 3
#: Answers that are timed in each turn.
ANSWERS = 100
#: Of these, those that are timed with nothing known.
UNKNOWN = 20
#: Words of the answers whose growth is looked at.
WORDS = (50, 500, 5_000)
SCORES = ("novelty", "numbers", "rouge_l", "rad")


def main() -> None:
    folder = Path(os.environ.get("CALIBRAIL_DATA", DEFAULT_DATA)) / "ragtruth"
    if not folder.is_dir():
        print(f"skipped: no RAGTruth at {folder}; set CALIBRAIL_DATA")
        return
    cost = [
        "## What it costs",
        "",
        "Milliseconds a sentence; answers of RAGTruth QA, cut into words. Each sentence of the "
        "detector, each word of a stream and each answer of `check` counts with the fastest of "
        f"{ROUNDS} turns, so that what others run on the machine hardly does. The goal is at most "
        "1 ms above the detector's own time, by either count. Texts: whether the model's vectors "
        "of them are known, or all is forgotten before each answer. Detector, stream: by the "
        "clock. Texts read: by the model for a sentence, for the detector and for the stream. "
        "Last: the clock's time of all streams against that of `check`.",
        "",
        "| detector | unit | texts | sentences | detector | stream | above it, processor "
        "| above it, clock | texts read | stream / check |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    grown = [
        "## Long answers",
        "",
        "Processor milliseconds a sentence of 15 words, detector included, in answers of so many "
        "words.",
        "",
        f"| detector | {' | '.join(f'{n:,}' for n in WORDS)} |",
        f"|---|{'---|' * len(WORDS)}",
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
            guardrail = run.freeze()
            for row in timed(guardrail, name, unit, answers(folder)):
                cost.append(row)
                print(row, flush=True)
            if unit == "sentence":
                grown.append(growth(guardrail, name))
                print(grown[-1], flush=True)
                seen.append(shown(name, run.report.to_dict()))
                print(seen[-1], flush=True)
    busy = f"Load of the machine meanwhile (five minutes): {os.getloadavg()[1]:.0f}."
    lines = [*cost, "", busy, "", *grown, "", *seen]
    write("streaming", "Answers that are stopped while they are written", lines)


def answers(folder: Path) -> list[Example]:
    from calibrail import read

    return [item for item in read(folder, labelled=False) if item.response.strip()][:ANSWERS]


def timed(guardrail: Guardrail, name: str, unit: str, given: Sequence[Example]) -> list[str]:
    """Return the rows of one guardrail: one, or with texts known and new to its model."""
    member: Any = getattr(guardrail.score, "member", guardrail.score)
    if (encoder := getattr(member, "encoder", None)) is None:
        return [timed_with(guardrail, given, f"| {name} | {unit} | - ", lambda: 0, lambda: None)]
    first = given[:UNKNOWN]
    label = f"| {name} | {unit} | {{}} ".format
    return [
        timed_with(guardrail, given, label("known"), lambda: encoder.n_embedded, lambda: None),
        timed_with(guardrail, first, label("new"), lambda: encoder.n_embedded, member.forget),
    ]


def timed_with(
    guardrail: Guardrail,
    given: Sequence[Example],
    label: str,
    texts_read: Callable[[], int],
    forget: Callable[[], None],
) -> str:
    """Return a row: each answer judged in turn by the detector, by a stream and by ``check``."""
    member: Any = getattr(guardrail.score, "member", guardrail.score)
    parts = [sentence_examples(item) for item in given]
    tokens = [re.findall(r"\s*\S+|\s+$", item.response) for item in given]
    n = sum(map(len, parts))

    def bare(row: int) -> Iterator[None]:
        for sentence in parts[row]:
            yield member.score([sentence])

    def stream(row: int) -> Iterator[None]:
        item = given[row]
        check = guardrail.stream_check(question=item.question, contexts=item.contexts)
        for word in tokens[row]:
            yield check.feed(word)
        yield check.close()

    def check(row: int) -> Iterator[None]:
        item = given[row]
        asked = {"question": item.question, "contexts": item.contexts}
        yield guardrail.check(**asked, response=item.response)

    def now() -> tuple[float, float, int]:
        return time.process_time(), time.perf_counter(), texts_read()

    work = (bare, stream, check)
    # By what judges and by answer: for each step the least processor time, time by the clock and
    # number of texts of all turns. What others run on the machine interrupts some turns, not all.
    least: dict[tuple[int, int], Any] = {}
    for turn in range(ROUNDS + 1):
        for at in product(range(len(work)), range(len(given))):
            forget()
            times = [now(), *(now() for _ in work[at[0]](at[1]))]
            taken = np.diff(np.array(times), axis=0)
            # The first turn makes known what is to be known.
            least[at] = taken if turn < 2 else np.minimum(least[at], taken)
    sums = [sum(least[place, row].sum(axis=0) for row in range(len(given))) for place in range(3)]
    by_sentence = np.array(sums) / n
    own, streamed, checked = 1000 * by_sentence[:, 1]
    above = 1000 * (by_sentence[1] - by_sentence[0])
    read = ", ".join(f"{value:.2f}" for value in by_sentence[:2, 2])
    return (
        f"{label}| {n} | {own:.3f} | {streamed:.3f} | {above[0]:.3f} | {above[1]:.3f} "
        f"| {read} | {streamed / checked:.2f} |"
    )


def growth(guardrail: Guardrail, name: str) -> str:
    """Return the row of one guardrail: what a sentence takes in answers of ever more words."""
    cells = []
    for n_words in WORDS:
        words = [f" word{row}." if row % 15 == 14 else f" Word{row}" for row in range(n_words)]
        taken = []
        for _ in range(ROUNDS):
            before = time.process_time()
            for _ in range(max(WORDS) // n_words):
                check = guardrail.stream_check(question="What?", contexts=["Some words."] * 3)
                for word in words:
                    check.feed(word)
                    check.release()
                check.close()
            taken.append(time.process_time() - before)
        cells.append(f"{1000 * min(taken) / (check.n_sentences * (max(WORDS) // n_words)):.3f}")
    return f"| {name} | {' | '.join(cells)} |"


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
