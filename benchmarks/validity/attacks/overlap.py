"""Attacks on the promise to groups that overlap, and by groups that are spelt in several ways."""

import json
from pathlib import Path

import numpy as np

import calibrail
from calibrail.conformal import OverlappingCalibration, Promise
from calibrail.conformal.group_thresholds import joined

from .attack import Attack

ALPHA = 0.1
#: Share and mean score of the hallucinated answers of each model and topic. The small model writes
#: much on rare topics, which have too few answers for a threshold, and there it looks faithful.
CELLS = {
    ("large", "law"): (0.50, 0.0),
    ("large", "news"): (0.30, 0.5),
    ("small", "law"): (0.12, -1.0),
    ("small", "art"): (0.04, -3.0),
    ("small", "sport"): (0.04, -3.0),
}


def miss_an_answer(rng: np.random.Generator, folder: Path) -> bool | None:
    """Miss a new hallucinated answer of the small model, on whatever topic."""
    cells, shares = list(CELLS), [share for share, _ in CELLS.values()]
    draws = rng.choice(len(cells), size=300, p=shares)
    lines = []
    for number, cell in enumerate(draws.tolist()):
        bad = number % 2
        score = float(rng.normal(CELLS[cells[cell]][1] if bad else -5.0))
        model, topic = cells[cell]
        texts = {"id": f"a{number}", "question": f"q{number}", "response": f"r{number}"}
        lines.append(
            json.dumps({**texts, "model": model, "topic": topic, "s": score, "label": bad})
        )
    path = folder / "labelled.jsonl"
    path.write_text("\n".join(lines))
    run = calibrail.calibrate(
        path,
        "column:column=s,higher=hallucinated",
        Promise(ALPHA, by=("model", "topic")),
        splitting=calibrail.SplitOptions(seed=int(rng.integers(1 << 30))),
    )
    grouped = run.rule.groups
    assert isinstance(grouped, OverlappingCalibration)
    if not grouped.has_promise(0, "small"):
        return None
    small = [cell for cell in cells if cell[0] == "small"]
    part = np.array([CELLS[cell][0] for cell in small])
    cell = small[rng.choice(len(small), p=part / part.sum())]
    return not grouped.flags([rng.normal(CELLS[cell][1])], [joined(cell)])[0]


#: How often each question's hallucinated answers are caught, all or none, and what is required.
CAUGHT, REQUIRED = 0.78, 0.8


def spell_groups_apart(rng: np.random.Generator, folder: Path) -> bool:
    """Certify a threshold that catches too few of 60 questions, each of whose answers names it."""
    lines = ["id,group,label,s"]
    for question in range(60):
        for label, share in ((1, CAUGHT), (0, 0.1)):
            score = 0.5 + (0.5 if rng.random() < share else -0.5) * rng.random(6)
            names = [*"Qq", "Q ", "Q  ", "q\u00a0", "Q\u200b"]
            lines += [
                f"r{question}-{label}-{at},{name}{question},{label},{value:.9f}"
                for at, (name, value) in enumerate(zip(names, score.tolist(), strict=True))
            ]
    path = folder / "labelled.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    run = calibrail.test(
        path,
        "column:column=s,higher=hallucinated",
        threshold=0.5,
        min_caught=REQUIRED,
        max_false_alarms=0.6,
    )
    return run.verdict == "certified"


ATTACKS = [
    Attack(
        "overlapping groups: an answer beside a rare value",
        f"300 answers, 8 % by the small model on rare topics, alpha {ALPHA:g}",
        ALPHA,
        (17, 39),
        miss_an_answer,
    ),
    Attack(
        "test: a question spelt in six ways",
        "60 questions, whose hallucinated answers are all caught (78 %) or none, 80 % required",
        0.05,
        (12, 100),
        spell_groups_apart,
        200,
    ),
]
