"""Small answers with marked sentences and a score for each, made up on the spot."""

from __future__ import annotations

from typing import Any

import numpy as np


def marked_rows(n: int = 160, seed: int = 0, apart: float = 1.5) -> list[dict[str, Any]]:
    """Return n answers of 2 to 5 sentences, half of them with unsupported ones.

    ``spans`` marks those, and the column ``scores`` holds a JSON list of one score a sentence,
    higher by ``apart`` for an unsupported one.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for index in range(n):
        m = int(rng.integers(2, 6))
        wrong = set(rng.choice(m, size=int(rng.integers(1, m)), replace=False).tolist())
        wrong = wrong if index % 2 else set()
        facts = [f"Peak {index}-{j} is {100 + 7 * j} metres high." for j in range(m)]
        said = [
            fact.replace("metres", "feet") if j in wrong else fact for j, fact in enumerate(facts)
        ]
        starts = np.cumsum([0, *(len(text) + 1 for text in said)])
        scores = rng.normal(size=m) + apart * np.array([j in wrong for j in range(m)])
        rows.append(
            {
                "id": f"a{index}",
                "question": f"How high are the peaks of range {index}?",
                "contexts": [" ".join(facts)],
                "response": " ".join(said),
                "label": int(bool(wrong)),
                "spans": [[int(starts[j]), int(starts[j]) + len(said[j])] for j in sorted(wrong)],
                "scores": [round(float(score), 4) for score in scores],
            }
        )
    return rows
