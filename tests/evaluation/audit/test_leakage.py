"""Are copies and giveaways found, and counted once?"""

from __future__ import annotations

import numpy as np

from calibrail.data.duplicates import Sketcher
from calibrail.data.example import Example
from calibrail.evaluation.audit import copies, giveaway, repeated, shared
from calibrail.evaluation.audit_answers import AuditAnswers

RNG = np.random.default_rng(5)


def test_copies_are_found_across_labels_groups_and_splits() -> None:
    text = "The tower of {} is one hundred metres high and was built by monks long ago in spring"
    texts = [text.format(k) for k in ("Ard", "Ard", "Belm")] + ["Nothing of the kind at all"]
    sketcher = Sketcher()
    for item in texts:
        sketcher.add(Example(question="How high is it, then, and who built it?", response=item))
    sides = {"label": np.array([0, 1, 1, 0]), "group": np.array([1, 1, 2, 3])}
    by_side = {item.across: item for item in copies(sketcher.finish(), sides, list("abcd"))}
    assert by_side["label"].n == 3 and by_side["label"].exact == 2
    assert by_side["group"].n == 3 and by_side["group"].exact == 0
    assert ("a", "b") in by_side["label"].pairs


def test_shared_texts_and_ids() -> None:
    digests = np.array([1, 1, 2, 0, 2], np.uint64)
    texts = shared("answer", digests, np.array([0, 1, 1, 0, 1], np.int8))
    assert (texts.n_distinct, texts.n_repeated, texts.n_both, texts.n_answers_both) == (2, 2, 1, 2)
    assert shared("answer", np.zeros(3, np.uint64), np.zeros(3, np.int8)) is None
    assert repeated(["a", "a", "b", "", ""]) == 1


def test_a_group_that_gives_the_label_away() -> None:
    members = np.repeat(np.arange(100), 4)
    pure = np.repeat(RNG.integers(0, 2, 100), 4).astype(np.int8)
    assert giveaway("group", members, AuditAnswers(pure, members)).auroc.estimate == 1.0
    paired = np.tile([0, 1], 200).astype(np.int8)
    answers = AuditAnswers(paired, np.arange(400))
    pairs = giveaway("group", np.repeat(np.arange(200), 2), answers)
    assert (pairs.auroc.estimate, pairs.n_mixed, pairs.n_alike) == (0.0, 200, 0)
    alone = giveaway("group", np.full(400, -1), answers)
    assert alone.auroc.estimate is None and alone.n_values == 0
