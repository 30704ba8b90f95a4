"""Do conformal factuality and Conformal-RAG keep what they promise, and what do they remove?

Mohri and Hashimoto (arXiv 2402.10978) remove the claims of an answer below a threshold; Feng et al.
(arXiv 2506.20978; ``conformal_rag.py``) do so in answers that rest on retrieved passages. Both
published claims, scores and annotations; the thresholds here are calibrail's. Clone both
repositories into the data folder, as ``conformal_factuality`` and ``conformal_rag``. Writes
results/papers_conformal_factuality.md and .json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import conformal_rag
import numpy as np
from scipy.stats import beta
from scored_claims import (
    DELTA,
    NONE_WRONG,
    SPLITS,
    left_out,
    mean,
    percent,
    read,
    scored,
    shown,
    threshold,
)
from sources import parse

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from results import FOLDER, write

from calibrail.conformal.threshold import minimum_n, rank

ALPHA: Final = 0.1
SCORES: Final[Mapping[str, str]] = {
    "frequency+gpt": "frequency and model's score",
    "gpt": "model's score",
    "baseline": "place in the answer",
    "random": "random",
    "optimal": "annotation itself",
}
#: Published thresholds of the first score: alpha, and what the file of it says.
PUBLISHED: Final[Mapping[str, tuple[float, float]]] = {
    "MATH": (0.15, -1.999206799236141),
    "factscore": (0.15, 4.8998812119930735),
    "nq": (0.1, 3.999139923235701),
}
SETS: Final[Mapping[str, tuple[str, bool]]] = {
    "MATH": ("MATH", False),
    "MATH, blanks stripped": ("MATH", True),
    "FActScore": ("factscore", False),
    "Natural Questions": ("nq", False),
}
#: Of the paper's figures, among others.
ALPHAS: Final = (0.05, 0.1, 0.15, 0.2)


def main(arguments: Sequence[str] | None = None) -> None:
    question = "Do conformal factuality and Conformal-RAG keep what they promise?"
    setup = parse("conformal_factuality", question, arguments)
    claims, rag = (setup.file(name) for name in ("conformal_factuality/out", conformal_rag.PLACE))
    if isinstance(claims, str) or isinstance(rag, str):
        sys.exit(f"nothing was made: {claims if isinstance(claims, str) else rag}")
    content = {
        "schema": "calibrail.papers-conformal-factuality/1",
        "alpha": ALPHA,
        "claims": {
            name: measured(claims, file, strip=strip) for name, (file, strip) in SETS.items()
        },
        "rag": conformal_rag.measured(rag, claims, ALPHA),
    }
    text = json.dumps(content, indent=1)
    (FOLDER / "papers_conformal_factuality.json").write_text(text + "\n", encoding="utf-8")
    title = "Conformal factuality and Conformal-RAG"
    write("papers_conformal_factuality", title, page(content), script=setup.command)


def measured(folder: Path, name: str, *, strip: bool) -> dict[str, Any]:
    """Return what thresholds do on one set of the first paper."""
    answers = read(folder / f"{name}_subclaims_with_scores.jsonl", strip=strip)
    factual, removed = {}, {}
    for score in SCORES:
        item = scored(answers, score)
        each = {alpha: left_out(item.worst, alpha) for alpha in ALPHAS}
        factual[score] = [float((item.worst < each[alpha]).mean()) for alpha in ALPHAS]
        removed[score] = mean(item.removed(each[ALPHA]))
    item, n = scored(answers, next(iter(SCORES))), len(answers)
    rng, halves = np.random.default_rng(0), []
    for _ in range(SPLITS):
        half, other = np.split(rng.permutation(n), [n // 2])
        halves.append(float((item.worst[other] < threshold(item.worst[half], ALPHA)).mean()))
    wrong = item.worst > NONE_WRONG
    ways = [left_out(item.worst, ALPHA), left_out(item.worst, ALPHA, wrong)]
    alpha, published = PUBLISHED[name]
    k = rank(n, ALPHA)
    kinds = ("marginal", "pac")
    return {
        "n": n,
        "claims": len(item.values),
        "with_wrong": int(wrong.sum()),
        "published": [alpha, published, threshold(item.worst, alpha)],
        "factual": factual,
        "removed": removed,
        "halves": [float(np.mean(halves)), float(np.mean(np.array(halves) < 1 - ALPHA))],
        "below": float(beta.cdf(1 - ALPHA, n + 1 - k, k)),
        "at_all": [mean(item.removed(threshold(item.worst, ALPHA, kind)))[0] for kind in kinds],
        "cleaned": [float((item.worst < each)[wrong].mean()) for each in ways],
        "trimmed": [mean(item.removed(each)) for each in ways],
        "emptied": [float((item.removed(each) == 1).mean()) for each in ways],
        "labels": [minimum_n(ALPHA), int(np.ceil(minimum_n(ALPHA) * n / wrong.sum()))],
    }


def page(content: Mapping[str, Any]) -> list[str]:
    """Return the page of results."""
    sets: Mapping[str, Mapping[str, Any]] = content["claims"]
    plain, stripped = sets["MATH"], sets["MATH, blanks stripped"]
    first, loo = next(iter(SCORES)), "; ".join(percent(each) for each in plain["factual"]["gpt"])
    lines = [
        "## Conformal factuality (arXiv 2402.10978)",
        "",
        "Data: the sub-claims, scores and people's annotations of the repository's `out` folder. A "
        "claim annotated Y or S is right. The calibration score of an answer is the highest score "
        "of a wrong claim; claims at or above the threshold stay. Here the threshold is that of "
        f"`calibrate_threshold` on the negated scores; {NONE_WRONG:.0f} where no claim is wrong.",
        "",
        "| set | answers (with a wrong claim) | claims | alpha | published threshold | measured |",
        "|---" * 6 + "|",
    ]
    for name, item in sets.items():
        alpha, theirs, ours = item["published"]
        cells = [name, f"{item['n']} ({item['with_wrong']})", item["claims"], alpha, theirs, ours]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += [
        "",
        "One annotation of MATH is a Y followed by blanks, which the published code counts as "
        f"wrong. Read as Y, {percent(1 - ALPHA)} costs {percent(stripped['removed'][first][0])} of "
        f"the claims instead of {percent(plain['removed'][first][0])}, and the threshold is "
        "another one.",
        "",
        f"### What each score removes at {percent(1 - ALPHA)}",
        "",
        "Each answer at the threshold that all others set: the mean share of claims removed, with "
        "1.96 standard errors over answers, as in the paper.",
        "",
        f"| set | {' | '.join(SCORES.values())} |",
        "|---" * (len(SCORES) + 1) + "|",
        *(
            f"| {name} | {' | '.join(shown(item['removed'][score]) for score in SCORES)} |"
            for name, item in sets.items()
        ),
        "",
        "### What tests the promise, and what does not",
        "",
        f"The fraction of factual outputs, the paper's x axis, is {loo} at alpha "
        f"{', '.join(map(str, ALPHAS))}: for every set and every score, the random one included. "
        "With one answer left out and no ties it is k of n whatever the data, so that it cannot "
        "fail, and tests nothing.",
        "",
        "What can fail is a threshold on answers that it did not see. The promise is kept on "
        f"average over calibrations: over {SPLITS} halves by lot the mean is at or above it, and "
        f"the other half often below. With {plain['n']} answers the share that a threshold keeps "
        f"factual has a beta distribution, whatever the score: it is below {percent(1 - ALPHA)} "
        f"with probability {percent(plain['below'])}. `pac` at delta {DELTA} keeps it for all but "
        f"{percent(DELTA)} of calibrations, and removes more.",
        "",
        "| set | factual, mean of other halves | other halves below | removed, `marginal` | "
        "removed, `pac` |",
        "|---" * 5 + "|",
        *(
            f"| {name} | {' | '.join(map(percent, [*item['halves'], *item['at_all']]))} |"
            for name, item in sets.items()
        ),
        "",
        "### All answers, or those with a wrong claim",
        "",
        "The paper promises that of all answers, those without a wrong claim included, "
        f"{percent(1 - ALPHA)} are shown without one; `--unit sentence` promises it of the answers "
        "that hold one. On the same answers, each at the threshold that the others set; in the "
        "second case the other answers with a wrong claim, where what is cleared is k of n again. "
        "An answer of which nothing is left counts as factual. Labels: the fewest answers that "
        "give a threshold, at this share of answers with a wrong claim.",
        "",
        "| set | promise over | answers with a wrong claim that lose all of them | removed | "
        "answers emptied | labels |",
        "|---" * 6 + "|",
    ]
    for name, item in sets.items():
        for i, over in enumerate(("all answers", "answers with a wrong claim")):
            cells = [name, over, percent(item["cleaned"][i]), shown(item["trimmed"][i])]
            cells += [percent(item["emptied"][i]), str(item["labels"][i])]
            lines.append(f"| {' | '.join(cells)} |")
    return [*lines, "", *conformal_rag.page(content["rag"], ALPHA)]


if __name__ == "__main__":
    main()
