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
    SPLITS,
    Answer,
    Figure,
    Floats,
    Rows,
    Scored,
    drawn,
    left_out,
    mean,
    percent,
    read,
    scored,
    shown,
    threshold,
)

from calibrail import Promise
from calibrail.conformal import calibrate_groups

PLACE: Final = "conformal_rag/data/out"
SCHEMA: Final = "legacy_schema_results"
#: Of the paper's abstract: as many right claims more than conformal prediction without passages.
PUBLISHED_MORE: Final = 0.6
#: Of its section 4.1: what is removed of FActScore at 85 %, with passages and without; the
#: threshold at 75 % of a question of MedLFQA, and the scores of two claims of its answer.
PUBLISHED_REMOVED: Final = (0.15, 0.089, 0.868)
PUBLISHED_THRESHOLD: Final = (0.25, 0.257)
PUBLISHED_SCORES: Final = (0.231, 0.472)
EXAMPLE: Final = ("medication_qa", "how soon can tylenol be taken after a cocktail?")
ALPHAS: Final = (0.05, 0.1, 0.2, 0.3)
#: Of the paper's figures 2 and 3, among others.
TARGETS: Final = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
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


def measured(folder: Path, claims: Path, alpha: float) -> dict[str, Any]:
    """Return what the files show of all four sets; ``claims`` holds those of the first paper."""
    legacy = folder / SCHEMA
    with_passages = read(folder / "FactScore" / "factscore_annotations.jsonl")
    facts = {
        SIMILARITY: scored(with_passages, "similarity"),
        DIRECT: scored(read(claims / f"factscore_{SUFFIX}.jsonl"), "gpt"),
    }
    medical = by_name(legacy)
    return {
        "stated": stated(with_passages, facts, medical),
        "sets": {name: compared(legacy, name) for name in ARMS},
        "figures": figures(legacy, facts, medical),
        **by_group(medical, alpha),
    }


def stated(
    answers: Sequence[Answer], facts: Mapping[str, Scored], medical: Mapping[str, list[Answer]]
) -> dict[str, Any]:
    """Return what the paper's text states, measured on the files that are there."""

    def taken(item: Scored) -> Figure:
        return mean(item.removed(left_out(item.worst, PUBLISHED_REMOVED[0])))

    ours, (group, question) = facts[SIMILARITY], EXAMPLE
    fewer = [scored([*answers[:i], *answers[i + 1 :]], SIMILARITY) for i in range(len(answers))]
    without_one = [taken(item)[0] for item in fewer]
    examples = [answer for answer in medical[group] if answer.question == question]
    return {
        "n": len(ours.worst),
        "with_wrong": int((ours.worst > NONE_WRONG).sum()),
        "removed": [taken(ours), taken(facts[DIRECT])],
        "without_one": [min(without_one), max(without_one)],
        "threshold": threshold(scored(medical[group], SIMILARITY).worst, PUBLISHED_THRESHOLD[0]),
        "example": [round(float(x), 3) for each in examples for x in each.scores[SIMILARITY]],
    }


def figures(
    legacy: Path, facts: Mapping[str, Scored], medical: Mapping[str, list[Answer]]
) -> dict[str, list[list[Figure]]]:
    """Return what figures 2 and 3 show: what goes and what is factual, by the groups of a set."""
    found = {f"FActScore, {label}": [item] for label, item in facts.items()}
    for name, arms in ARMS.items():
        for label in (SIMILARITY, DIRECT):
            answers = [*block_of(legacy, name, arms[label]).values()]
            found[f"{name}, {label}"] = [scored(answers, arms[label].score)]
    every = [answer for each in medical.values() for answer in each]
    found[f"MedLFQA, {SIMILARITY}"] = [scored(every, SIMILARITY)]
    for label in (SIMILARITY, DIRECT):
        parts = [item for name in ARMS for item in found[f"{name}, {label}"]]
        found[f"PopQA and HotpotQA, a threshold each, {label}"] = parts
    groups = [scored(each, SIMILARITY) for each in medical.values()]
    found[f"MedLFQA, a threshold each, {SIMILARITY}"] = groups
    return {name: halved(groups) for name, groups in found.items()}


def halved(groups: Sequence[Scored]) -> list[list[Figure]]:
    """Return what is removed, and what is factual, of all groups and of each, by target.

    Half of a group sets its threshold, the other half is measured; the mean of ``SPLITS`` halves.
    """
    rng = np.random.default_rng(0)
    sizes = [len(item.worst) - len(item.worst) // 2 for item in groups]
    sums = np.zeros((2, len(groups), len(TARGETS)))
    for _ in range(SPLITS):
        for g, item in enumerate(groups):
            half, other = np.split(rng.permutation(len(item.worst)), [len(item.worst) // 2])
            for i, alpha in enumerate(TARGETS):
                level = threshold(item.worst[half], alpha)
                factual = item.worst < max(level, NONE_WRONG + 1)
                sums[:, g, i] += item.removed(level)[other].mean(), factual[other].mean()
    found = np.round(sums / SPLITS, 6)
    whole = np.round(np.average(found, axis=1, weights=sizes), 6)
    return [[whole[k].tolist(), *found[k].tolist()] for k in (0, 1)]


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


def by_name(legacy: Path) -> dict[str, list[Answer]]:
    """Return the answers of those sets of questions of MedLFQA that are there."""
    paths = {name: legacy / "Medlfqav2" / f"{name}_{SUFFIX}.jsonl" for name in GROUPS}
    return {name: read(path) for name, path in paths.items() if path.exists()}


def by_group(there: Mapping[str, list[Answer]], alpha: float) -> dict[str, Any]:
    """Return what one threshold for all and one for each set of questions do on MedLFQA."""
    answers = [answer for each in there.values() for answer in each]
    names = np.repeat(list(there), [len(each) for each in there.values()])
    item, promise = scored(answers, "similarity"), Promise(alpha=alpha)

    def measure(rows: Rows) -> Floats:
        made = calibrate_groups(-item.worst[rows], names[rows].tolist(), promise).groups
        shared = threshold(item.worst[rows], alpha)
        own = np.array([-made[name].threshold for name in names])
        values = np.array([item.worst < shared, item.removed(shared), item.removed(own)])[:, rows]
        return np.concatenate([values[:, names[rows] == name].mean(axis=1) for name in there])

    ends = iter(drawn(measure, len(answers)))
    asked = {" ".join(re.findall(r"\w+", answer.question.lower())) for answer in answers}
    return {
        "absent": [name for name in GROUPS if name not in there],
        "repeated": len(answers) - len(asked),
        "groups": {
            name: {
                "n": len(each),
                "with_wrong": sum(bool(answer.wrong.any()) for answer in each),
                "factual": next(ends),
                "removed": [next(ends), next(ends)],
            }
            for name, each in there.items()
        },
    }


def times(value: Sequence[float]) -> str:
    """Return a ratio with its interval."""
    return f"{value[0]:.1f} ({value[1]:.1f} to {value[2]:.1f})"


def stated_lines(content: Mapping[str, Any]) -> list[str]:
    """Return the part of the page on what the paper's text states."""
    found = content["stated"]
    alpha, with_passages, without = PUBLISHED_REMOVED
    at, level = PUBLISHED_THRESHOLD
    ours, direct = found["removed"]
    least, most = found["without_one"]
    place = TARGETS.index(alpha)
    halves = [content["figures"][f"FActScore, {arm}"][0][0][place] for arm in (SIMILARITY, DIRECT)]
    rows = [
        (f"FActScore, claims removed at {percent(1 - alpha)}", with_passages, ours),
        ("the same without passages", without, direct),
    ]
    return [
        "",
        "### What the text states",
        "",
        "Each answer at the threshold that all others set, with 1.96 standard errors over answers, "
        "as in the first paper.",
        "",
        "| figure | published | measured |",
        "|---" * 3 + "|",
        *(
            f"| {name} | {theirs:.1%} | {value[0]:.1%} ({value[1]:.1%} to {value[2]:.1%}) |"
            for name, theirs, value in rows
        ),
        f"| MedLFQA, {EXAMPLE[0]}, threshold at {percent(1 - at)} | {level} | "
        f"{found['threshold']:.3f} |",
        f"| scores of two claims of its example | {', '.join(map(str, PUBLISHED_SCORES))} | "
        "not there |",
        "",
        f"FActScore's first figure stands on the {found['with_wrong']} of {found['n']} answers "
        f"that hold a wrong claim: with one answer less it lies between {least:.1%} and {most:.1%}."
        " Its second is of answers that are not public; measured are the first paper's answers "
        "about the same people, by the model's score. By halves, as in the code of the second "
        f"paper, the two are {percent(halves[0])} and {percent(halves[1])}. The file answers "
        "the example's question in other claims, with the scores "
        f"{', '.join(f'{score:.3f}' for score in found['example'])}.",
    ]


def figure_lines(content: Mapping[str, Any]) -> list[str]:
    """Return the part of the page on figures 2 and 3."""
    shown_sets: Mapping[str, list[list[Figure]]] = content["figures"]
    head = " | ".join(percent(1 - alpha) for alpha in TARGETS)
    pairs = [
        (each[0][0], shown_sets[name.replace(SIMILARITY, DIRECT)][0][0])
        for name, each in shown_sets.items()
        if name.endswith(SIMILARITY) and name.replace(SIMILARITY, DIRECT) in shown_sets
    ]
    fewer = sum(a <= b for ours, direct in pairs for a, b in zip(ours, direct, strict=True))
    medical = shown_sets[f"MedLFQA, a threshold each, {SIMILARITY}"]
    names = list(content["groups"])
    return [
        "",
        "### Figures 2 and 3",
        "",
        "They are pictures, and no file holds their numbers: here is what the public files give, "
        "by the protocol of the code, where half of the answers set the threshold and the other "
        f"half is measured, the mean of {SPLITS} halves by lot. Claims removed / answers factual, "
        "at the target; an answer of which nothing is left is factual.",
        "",
        f"| answers and score | {head} |",
        "|---" * (len(TARGETS) + 1) + "|",
        *(
            f"| {name} | "
            + " | ".join(f"{percent(a)} / {percent(b)}" for a, b in zip(*whole, strict=True))
            + " |"
            for name, each in shown_sets.items()
            for whole in [(each[0][0], each[1][0])]
        ),
        "",
        f"With passages fewer claims go at {fewer} of {len(TARGETS) * len(pairs)} targets of the "
        "pairs, as the paper says. That answers are factual at the target or above is k of n again "
        "and tests nothing: it stays above only where nothing goes any more. By set of questions "
        "of MedLFQA, with a threshold each, factual:",
        "",
        f"| set | {head} |",
        "|---" * (len(TARGETS) + 1) + "|",
        *(
            f"| {name} | {' | '.join(map(percent, row))} |"
            for name, row in zip(names, medical[1][1:], strict=True)
        ),
    ]


def page(content: Mapping[str, Any], alpha: float) -> list[str]:
    """Return its part of the page of results."""
    lines = [
        "## Conformal-RAG (arXiv 2506.20978)",
        "",
        f"As far as the public files reach (`data/out/{SCHEMA}`, and `data/out/FactScore` for "
        "FActScore). A model annotated "
        "them, not people: configured is gpt-4o-mini, with the right answer before it. An "
        "annotation other than S (or Y) is wrong: true but irrelevant claims, too. Thresholds and "
        "promise are those of the first paper, set and measured on all answers with a claim; 95 % "
        "intervals from drawing questions anew. *By lot*: random scores for the claims of the "
        f"similarity file, mean of {DRAWS}.",
        "",
        f"The abstract's claim, up to {percent(PUBLISHED_MORE)} more right claims kept than by "
        "conformal prediction without passages, is judged by the column *times as many*: the "
        "number of right claims that stay, divided by that of the first row. The paper has no "
        "table; what its text states and its figures show stands below. FActScore and MedLFQA have "
        "no file without passages.",
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
        *stated_lines(content),
        *figure_lines(content),
        "",
        "### MedLFQA, by set of questions",
        "",
        f"Similarity in answers with passages, at {percent(1 - alpha)}: one threshold for all, and "
        "one for each set (`calibrate_groups`), of which the promise holds by set. "
        f"{content['repeated']} questions repeat another one but for capitals and punctuation"
        + (f"; not there: {', '.join(absent)}." if (absent := content["absent"]) else "."),
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
