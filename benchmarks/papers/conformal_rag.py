"""What does Conformal-RAG (arXiv 2506.20978) keep of answers that rest on retrieved passages?

The part of ``conformal_factuality.py`` on that paper's files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from scored_claims import (
    NONE_WRONG,
    RIGHT,
    Answer,
    Floats,
    Rows,
    Scored,
    drawn,
    percent,
    read,
    scored,
    shown,
    threshold,
)

from calibrail import Promise
from calibrail.conformal import calibrate_groups

PLACE: Final = "conformal_rag/data/out/legacy_schema_results"
#: Of the paper's abstract: as many right claims more than conformal prediction without passages.
PUBLISHED_MORE: Final = 0.6
ALPHAS: Final = (0.05, 0.1, 0.2, 0.3)
SUFFIX: Final = "subclaims_with_scores"
#: Random scores, over which a row by lot is a mean.
DRAWS: Final = 20


class Arm(NamedTuple):
    """Answers to the questions of a set, and the score of their claims."""

    file: str
    score: str
    #: Files may answer all questions several times, one block after another.
    block: int = 0


DIRECT, SIMILARITY, LOT = "without passages, model's score", "similarity", "by lot"
ARMS: Final[Mapping[str, Mapping[str, Arm]]] = {
    "PopQA": {
        DIRECT: Arm("popqa_llm", "gpt"),
        "`rag` file, answers 1 to 505, model's score": Arm("popqa_rag_answer_llm_score", "gpt"),
        "`rag` file, answers 506 to 1010, model's score": Arm(
            "popqa_rag_answer_llm_score", "gpt", 1
        ),
        SIMILARITY: Arm("popqa", "similarity"),
        LOT: Arm("popqa", LOT),
    },
    "HotpotQA": {
        DIRECT: Arm("hotpotqa_llm", "gpt"),
        "`rag` file, model's score": Arm("hotpotqa_rag_llm_score", "gpt"),
        SIMILARITY: Arm("hotpotqa_similarity", "similarity"),
        LOT: Arm("hotpotqa_similarity", LOT),
    },
}
GROUPS: Final = ("healthsearch_qa", "kqa_golden", "kqa_silver_wogold", "live_qa", "medication_qa")


def measured(folder: Path, alpha: float) -> dict[str, Any]:
    """Return what the files show of all three sets."""
    return {"sets": {name: compared(folder, name) for name in ARMS}, **by_group(folder, alpha)}


def under(answers: Sequence[Answer], score: str) -> list[Scored]:
    """Return answers under one score; by lot, under ``DRAWS`` random ones."""
    if score != LOT:
        return [scored(answers, score)]
    rng = np.random.default_rng(0)
    return [
        scored([each._replace(scores={LOT: rng.random(len(each.wrong))}) for each in answers], LOT)
        for _ in range(DRAWS)
    ]


def kept(items: Sequence[Scored], rows: Rows) -> Floats:
    """Return how many right claims there are, then how many stay at each alpha, in drawn rows."""
    found = []
    for item in items:
        right = np.bincount(rows, minlength=len(item.worst))[item.row] * ~item.wrong
        levels = [threshold(item.worst[rows], alpha) for alpha in ALPHAS]
        found.append([right[item.values >= level].sum() for level in (-np.inf, *levels)])
    return np.mean(found, axis=0)


def removed(items: Sequence[Scored], alpha: float) -> float:
    """Return the mean share of claims removed."""
    return float(np.mean([item.removed(threshold(item.worst, alpha)) for item in items]))


def shares(found: Floats) -> Floats:
    """Return what stays at each alpha as shares of all right claims."""
    return found[1:] / found[0]


def more(found: Floats, direct: Floats) -> Floats:
    """Return how many times as many right claims stay at each alpha."""
    return found[1:] / np.maximum(direct[1:], 1)


def block_of(folder: Path, name: str, arm: Arm) -> dict[str, Answer]:
    """Return the answers of an arm by question; of a question asked twice, the last."""
    answers = read(folder / name / f"{arm.file}_{SUFFIX}.jsonl")
    times = max(1, round(len(answers) / len({answer.question for answer in answers})))
    size = len(answers) // times
    return {each.question: each for each in answers[arm.block * size : (arm.block + 1) * size]}


def compared(folder: Path, name: str) -> dict[str, Any]:
    """Return what stays of the answers of one set, by answers and score."""
    arms = {label: block_of(folder, name, arm) for label, arm in ARMS[name].items()}
    questions = sorted(set.intersection(*(set(answers) for answers in arms.values())))
    asked = {label: [each[question] for question in questions] for label, each in arms.items()}
    items = {label: under(asked[label], arm.score) for label, arm in ARMS[name].items()}
    n, direct, rows = len(questions), items[DIRECT], {}
    for label, each in items.items():
        item = each[0]
        texts = [answer.text for answer in asked[label]]
        rows[label] = {
            "claims": len(item.values),
            "right": float(1 - item.wrong.mean()),
            "all_right": float((item.worst == NONE_WRONG).mean()),
            "same": sum(a == b.text for a, b in zip(texts, asked[SIMILARITY], strict=True)),
            "kept": drawn(lambda lot, each=each: shares(kept(each, lot)), n),
            "more": drawn(lambda lot, each=each: more(kept(each, lot), kept(direct, lot)), n),
            "removed": [removed(each, a) for a in ALPHAS],
        }
    wrong = [label for label in labels(asked[DIRECT] + asked[SIMILARITY]) if label not in RIGHT]
    again = next(label for label in reversed(asked) if "`rag`" in label)
    return {
        "questions": n,
        "arms": rows,
        "irrelevant": wrong.count("I") / len(wrong),
        "twice": twice(asked[again], asked[SIMILARITY]),
    }


def labels(answers: Sequence[Answer]) -> list[str]:
    """Return the annotations of all claims."""
    return [label for answer in answers for label in answer.labels]


def twice(one: Sequence[Answer], other: Sequence[Answer]) -> list[int]:
    """Return claims that stand in both files, those that one calls wrong, and that both do."""
    first, second = (
        {
            (answer.question, claim): bool(wrong)
            for answer in answers
            for claim, wrong in zip(answer.claims, answer.wrong, strict=True)
        }
        for answers in (one, other)
    )
    both = [(first[key], second[key]) for key in first.keys() & second.keys()]
    return [len(both), sum(a or b for a, b in both), sum(a and b for a, b in both)]


def by_group(folder: Path, alpha: float) -> dict[str, Any]:
    """Return what one threshold for all and one for each set of questions do on MedLFQA."""
    paths = {name: folder / "Medlfqav2" / f"{name}_{SUFFIX}.jsonl" for name in GROUPS}
    there = {name: read(path) for name, path in paths.items() if path.exists()}
    answers = [answer for each in there.values() for answer in each]
    names = np.repeat(list(there), [len(each) for each in there.values()])
    item, promise = scored(answers, "similarity"), Promise(alpha=alpha)

    def measure(rows: Rows) -> Floats:
        made = calibrate_groups(-item.worst[rows], names[rows].tolist(), promise).groups
        shared = threshold(item.worst[rows], alpha)
        own = np.array([-made[name].threshold for name in names])
        values = np.array([item.worst < shared, item.removed(shared), item.removed(own)])[:, rows]
        return np.concatenate([values[:, names[rows] == name].mean(axis=1) for name in there])

    figures = iter(drawn(measure, len(answers)))
    asked = {" ".join(re.findall(r"\w+", answer.question.lower())) for answer in answers}
    return {
        "absent": [name for name in GROUPS if name not in there],
        "repeated": len(answers) - len(asked),
        "groups": {
            name: {
                "n": len(each),
                "with_wrong": sum(bool(answer.wrong.any()) for answer in each),
                "factual": next(figures),
                "removed": [next(figures), next(figures)],
            }
            for name, each in there.items()
        },
    }


def times(value: Sequence[float]) -> str:
    """Return a ratio with its interval."""
    return f"{value[0]:.1f} ({value[1]:.1f} to {value[2]:.1f})"


def page(content: Mapping[str, Any], alpha: float) -> list[str]:
    """Return its part of the page of results."""
    lines = [
        "## Conformal-RAG (arXiv 2506.20978)",
        "",
        "As far as the public files reach (`data/out/legacy_schema_results`). A model annotated "
        "them, not people: configured is gpt-4o-mini, with the right answer before it. An "
        "annotation other than S (or Y) is wrong: true but irrelevant claims, too. Thresholds and "
        "promise are those of the first paper, set and measured on all answers with a claim; 95 % "
        "intervals from drawing questions anew. *By lot*: random scores for the claims of the "
        f"similarity file, mean of {DRAWS}.",
        "",
        f"The abstract's claim, up to {percent(PUBLISHED_MORE)} more right claims kept than by "
        "conformal prediction without passages, is judged by the column *times as many*: the "
        "number of right claims that stay, divided by that of the first row. The paper's tables "
        "and figures were not compared. FActScore and MedLFQA have no file without passages.",
    ]
    for name, each in content["sets"].items():
        claims, either, both = each["twice"]
        lines += [
            "",
            f"### {name}, {each['questions']} questions",
            "",
            f"{percent(each['irrelevant'])} of the claims that count as wrong, without passages "
            f"and in the similarity file, are annotated as irrelevant. Of {claims} claims that the "
            "last `rag` answers and the similarity file make in the same words about the same "
            f"question, {either} were called wrong at least once, and {both} both times.",
            "",
            "| answers and score | claims | right | answers all right | answers as in the "
            "similarity file | "
            + " | ".join(f"right claims kept at {percent(1 - a)}" for a in ALPHAS)
            + f" | times as many at {percent(1 - ALPHAS[0])} | at {percent(1 - ALPHAS[1])} | "
            f"claims removed at {percent(1 - ALPHAS[1])} |",
            "|---" * 12 + "|",
        ]
        for label, row in each["arms"].items():
            cells = [label, str(row["claims"]), percent(row["right"]), percent(row["all_right"])]
            cells += [str(row["same"]), *map(shown, row["kept"]), *map(times, row["more"][:2])]
            lines.append(f"| {' | '.join([*cells, percent(row['removed'][1])])} |")
    absent = ", ".join(content["absent"])
    lines += [
        "",
        "Where all claims of more than 1 - alpha of the answers are right, nothing goes, whatever "
        "the score. The `rag` files hold other answers than the similarity files, as the columns "
        "show: all of HotpotQA's and the first half of PopQA's are as often right as those without "
        "passages. What *similarity* keeps beyond *by lot* is the work of the score.",
        "",
        "In the newest version of the repository's code, an answer's calibration score is kept "
        "under a name without that of the score: the first of several scores then calibrates all "
        "of them. In the version that brought the data these lines were commented out.",
        "",
        "### MedLFQA, by set of questions",
        "",
        f"Similarity in answers with passages, at {percent(1 - alpha)}: one threshold for all, and "
        "one for each set (`calibrate_groups`), of which the promise holds by set. "
        f"{content['repeated']} questions repeat another one but for capitals and punctuation"
        + (f"; not there: {absent}." if absent else "."),
        "",
        "| set | answers (with a wrong claim) | factual at the shared threshold | "
        "removed, shared | removed, its own |",
        "|---" * 5 + "|",
    ]
    for name, row in content["groups"].items():
        cells = [name, f"{row['n']} ({row['with_wrong']})", row["factual"], *row["removed"]]
        lines.append(f"| {' | '.join(c if isinstance(c, str) else shown(c) for c in cells)} |")
    return lines


if __name__ == "__main__":
    from conformal_factuality import main

    main()
