"""Which trimmed answers do the tests of this room show?"""

from __future__ import annotations

from typing import Any

from reports import ATTACKS

from calibrail.text.sentences import answer_sentences

ANSWER = (
    "Three things help:\n1. Give them 14 hours of light. However, no more.\n2. Feed them fish oil. "
    "It was found in 1880."
)
#: By sentence of it: whether it is unsupported, and what became of it.
LABELS = (0, 0, 0, 1, 1)
FATES = ("left", "left", "removed", "removed", "left")


def trimmed(
    response: str = ANSWER,
    labels: tuple[int, ...] = LABELS,
    fates: tuple[str, ...] = FATES,
    **changes: Any,
) -> dict[str, Any]:
    """Return one answer as ``page_examples`` gives it."""
    sentences = [
        {
            "start": item.start,
            "end": item.end,
            "label": label,
            "score": 0.2 + 0.01 * place + 0.5 * (fate == "removed"),
            "removed": fate != "left",
            "with_others": fate == "with others",
        }
        for place, (item, label, fate) in enumerate(
            zip(answer_sentences(response), labels, fates, strict=True)
        )
    ]
    return {
        "id": "a-1",
        "outcome": "flag",
        "label": max(labels),
        "threshold": 0.43,
        "group": None,
        "question": "What helps?",
        "contexts": ["Light helps."],
        "response": response,
        "spans": [[s["start"], s["end"] - 1] for s in sentences if s["label"] == 1],
        "sentences": sentences,
        "place": fates.index("removed") if "removed" in fates else 0,
        "text": "Three things help:\n1. Give them 14 hours of light.\n2. It was found in 1880.",
        "why": "",
        "evidence": None,
        "note": "",
        **changes,
    }


def examples(note: str = "", **kinds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return answers as ``page_examples`` gives them."""
    names = ("misses", "losses", "freed", "emptied", "reviewed")
    items = {name: kinds.get(name, []) for name in names}
    return {**{name: {"n": len(some), "items": some} for name, some in items.items()}, "note": note}


def attacked() -> dict[str, Any]:
    """Return answers whose every text is an attack, and whose places lie anywhere."""
    made = []
    for attack in ATTACKS:
        item = trimmed(
            id=attack,
            group=attack,
            question=attack,
            contexts=[attack] * 5,
            text=attack[::-1],
            why=attack,
            note=attack,
            evidence={"kind": attack, "items": [{"text": attack, "quote": attack, "chunk": 0}]},
            outcome="review",
        )
        ends = sorted({0, len(attack) // 3, len(attack) // 2, len(attack)})
        sentences = [
            {**old, "start": start, "end": end}
            for old, start, end in zip(item["sentences"], ends[:-1], ends[1:], strict=False)
        ]
        spans = [[-5, 3], [len(attack) // 2, 10**9]]
        made.append({**item, "response": attack, "sentences": sentences, "spans": spans})
    return examples(
        ATTACKS[0], misses=made, losses=made[::-1], freed=made, emptied=made, reviewed=made
    )
