"""What precision, recall and F1 does ``fused`` reach on RAGTruth QA, and what do others report?

Ten folds by source. On nine, the threshold with the highest F1 is chosen among the values that
``fused`` gives their answers when fitted on four fifths of their sources at a time; then ``fused``
is fitted on all nine and flags the tenth. No answer had a part in the score or the threshold that
judges it. Part of ``benchmarks/leaderboard_page.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from detectors import FOLDS, Cache, Floats, folds_by_source, in_folds, prepared
from numpy.typing import NDArray

from calibrail.data import Example
from calibrail.data.splits import group_numbers

REPEATS, INNER, RESAMPLES = 5, 5, 2000
#: Scores that do not learn, whose threshold alone is chosen on the other folds.
PLAIN: Final = ("novel_run", "novel_count")

#: RAGTruth QA in the literature, response level, in percent as printed: method, precision, recall,
#: F1, where, whether trained on RAGTruth's training answers.
PUBLISHED: Final = (
    ("Prompt, gpt-3.5-turbo", 18.8, 84.4, 30.8, "ragtruth", "no"),
    ("Prompt, gpt-4-turbo", 33.2, 90.6, 45.6, "ragtruth", "no"),
    ("SelfCheckGPT, gpt-3.5-turbo", 35.0, 58.0, 43.7, "ragtruth", "no"),
    ("LMvLM, gpt-4-turbo", 18.7, 76.9, 30.1, "ragtruth", "no"),
    ("Llama-2-13B, fine-tuned", 61.6, 76.3, 68.2, "ragtruth", "yes"),
    ("ChainPoll, gpt-3.5-turbo", 33.5, 51.3, 40.5, "luna", "no"),
    ("RAGAS Faithfulness", 31.2, 41.9, 35.7, "luna", "no"),
    ("TruLens Groundedness", 22.8, 92.5, 36.6, "luna", "no"),
    ("Luna", 37.8, 80.0, 51.3, "luna", "not known"),
    ("RAG-HAT", 76.5, 73.1, 74.8, "raghat", "yes"),
    ("lettucedetect-base-v1", 60.64, 71.25, 65.52, "lettucedetect", "yes"),
    ("lettucedetect-large-v1", 65.93, 75.0, 70.18, "lettucedetect", "yes"),
    ("Granite 3.2 8B, hallucination LoRA", 67.6, 77.4, 72.2, "granite", "not stated"),
)
_REPRINTED: Final = "as reprinted in arXiv 2502.17125, Table 2"
SOURCES: Final = {
    "ragtruth": "Niu et al., ACL 2024, arXiv 2401.00396, Table 5",
    "luna": f"Belyi et al., COLING 2025 Industry, arXiv 2406.00975, {_REPRINTED}",
    "raghat": f"Song et al., EMNLP 2024 Industry, {_REPRINTED}",
    "lettucedetect": "Kovács and Recski, arXiv 2502.17125, Table 2",
    "granite": "Granite RAG intrinsics, arXiv 2504.11704, Table 8",
}
#: RAGTruth's test answers on the task, and the hallucinated ones among them.
TEST_ANSWERS, TEST_HALLUCINATED = 900, 160


def figures(examples: Sequence[Example], known: Cache) -> dict[str, Any]:
    """Return precision, recall and F1 out of fold, beside what the literature reports."""
    labels = np.array([example.label == 1 for example in examples])
    groups = group_numbers([example.group for example in examples], len(examples))
    flagged = {"fused": [nested(examples, known, labels, seed) for seed in range(REPEATS)]}
    for name in PLAIN:
        values = np.array([known[name][0][example.id] for example in examples])
        flagged[name] = [
            chosen_elsewhere(values, labels, folds_by_source(examples, seed))
            for seed in range(REPEATS)
        ]
    flagged["flag everything"] = [np.ones(len(labels), bool)]
    return {
        "rule": "threshold of the highest F1 on out-of-fold values of the other nine folds",
        "folds": FOLDS,
        "repeats": REPEATS,
        "n": len(labels),
        "n_hallucinated": int(labels.sum()),
        "n_sources": int(groups.max()) + 1,
        "out_of_fold": {name: measured(runs, labels, groups) for name, runs in flagged.items()},
        "published": [
            {
                "method": method,
                "precision": precision,
                "recall": recall,
                "f1": f1,
                "source": SOURCES[source],
                "trained_on_ragtruth": trained,
            }
            for method, precision, recall, f1, source, trained in PUBLISHED
        ],
        "published_n": TEST_ANSWERS,
        "published_n_hallucinated": TEST_HALLUCINATED,
        "published_flag_everything_f1": 2 * TEST_HALLUCINATED / (TEST_ANSWERS + TEST_HALLUCINATED),
    }


def nested(
    examples: Sequence[Example], known: Cache, labels: NDArray[np.bool_], seed: int
) -> NDArray[np.bool_]:
    """Return which answers ``fused`` flags, score and threshold from other sources."""
    score = prepared("fused", known)
    fold = folds_by_source(examples, seed)
    flagged = np.zeros(len(examples), bool)
    for number in range(FOLDS):
        rest, own = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        others = [examples[i] for i in rest]
        threshold = highest_f1(in_folds(score, others, seed, INNER), labels[rest])
        values = score.fit(others).score([examples[i] for i in own]).values
        flagged[own] = filled(values) >= threshold
    return flagged


def chosen_elsewhere(
    values: Floats, labels: NDArray[np.bool_], fold: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which answers are flagged at thresholds of the other folds."""
    flagged = np.zeros(len(values), bool)
    for number in range(FOLDS):
        own = fold == number
        flagged[own] = filled(values[own]) >= highest_f1(values[~own], labels[~own])
    return flagged


def highest_f1(values: Floats, labels: NDArray[np.bool_]) -> float:
    """Return the threshold of the highest F1; of several the highest."""
    thresholds = np.unique(filled(values))[::-1]
    flagged = filled(values)[None, :] >= thresholds[:, None]
    caught = (flagged & labels).sum(axis=1)
    return float(thresholds[np.argmax(2.0 * caught / (flagged.sum(axis=1) + labels.sum()))])


def filled(values: Floats) -> Floats:
    """Return values with what is undefined flagged, as a guardrail does."""
    return np.where(np.isnan(values), np.inf, values)


def measured(
    runs: Sequence[NDArray[np.bool_]], labels: NDArray[np.bool_], groups: NDArray[np.int64]
) -> dict[str, Any]:
    """Return means over repeats, with 95 % intervals from drawing sources anew."""
    counts = np.array(
        [
            [
                np.bincount(groups, flagged & labels),
                np.bincount(groups, flagged),
                np.bincount(groups, labels),
            ]
            for flagged in runs
        ]
    )
    rng = np.random.default_rng(0)
    n = counts.shape[2]
    drawn = rng.multinomial(n, np.full(n, 1.0 / n), RESAMPLES)
    ends = np.percentile(rates(counts @ drawn.T).mean(axis=0), [2.5, 97.5], axis=1)
    means = rates(counts.sum(axis=2)[:, :, None]).mean(axis=0)[:, 0]
    return {
        name: {"estimate": float(means[i]), "lower": float(ends[0, i]), "upper": float(ends[1, i])}
        for i, name in enumerate(("precision", "recall", "f1"))
    }


def rates(counts: NDArray[np.floating[Any]]) -> Floats:
    """Return precision, recall and F1, shape (runs, 3, draws)."""
    caught, flagged, there = counts[:, 0], counts[:, 1], counts[:, 2]
    values = (caught / np.maximum(flagged, 1), caught / np.maximum(there, 1))
    return np.stack([*values, 2.0 * caught / np.maximum(flagged + there, 1)], axis=1)
