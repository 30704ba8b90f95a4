"""Write ``example:judge``: answers with a judge's score that looks better than it is.

The answers are those of ``example:facts``, one a question; the scores are drawn from a seeded
generator, in steps of 0.05 as language models give them. No model was asked. At 0.7, nine in ten
answers are judged rightly, since most are faithful, and 25 of 83 hallucinations pass.

    python examples/make_judge.py            # writes the file
    python examples/make_judge.py --check    # compares, exit code 1 if it differs
"""

from __future__ import annotations

import csv
import io
import random
import sys

try:
    from examples import make_facts
except ModuleNotFoundError:
    import make_facts  # type: ignore[no-redef]

TARGET = make_facts.TARGET.with_name("judge.csv")
SEED = 7
#: Share of the questions whose hallucinated answer is taken.
HALLUCINATED = 0.25
#: Share of these that the judge finds, and the mean and spread of scores: found, not found, none.
FOUND = 0.63
SCORES = {"found": (0.9, 0.08), "missed": (0.35, 0.18), "faithful": (0.12, 0.16)}


def drawn(rng: random.Random, kind: str) -> float:
    """Return a score in steps of 0.05."""
    return min(max(round(rng.gauss(*SCORES[kind]) * 20) / 20, 0.0), 1.0)


def make() -> str:
    """Return the content of the file."""
    rng, by_question = random.Random(SEED), dict[str, dict[int, dict[str, object]]]()
    for row in make_facts.make():
        by_question.setdefault(str(row["group"]), {})[int(str(row["label"]))] = row
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["question", "answer", "hallucination_score", "label"])
    for answers in by_question.values():
        label = int(rng.random() < HALLUCINATED)
        kind = ("found" if rng.random() < FOUND else "missed") if label else "faithful"
        row, score = answers[label], drawn(rng, kind)
        named = "hallucinated" if label else "faithful"
        writer.writerow([row["question"], row["response"], f"{score:g}", named])
    return out.getvalue()


def main() -> int:
    """Write the file, or compare it."""
    content = make()
    if "--check" in sys.argv[1:]:
        same = TARGET.is_file() and TARGET.read_text(encoding="utf-8") == content
        print(f"{TARGET.name} is {'up to date' if same else 'not what this generator writes'}")
        return 0 if same else 1
    TARGET.write_text(content, encoding="utf-8", newline="\n")
    print(f"wrote {content.count(chr(10)) - 1} rows, {len(content.encode()) / 1024:.0f} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
