"""What should a reader of any report know about the data and the detectors behind it?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrail.workflow.scoring import Scored


def remarks(scored: Scored) -> tuple[str, ...]:
    """Return what a reader of any report on this data should know about it."""
    said = [lesson for score in scored.detectors for lesson in getattr(score, "lessons", ())]
    said.extend(_of_calls(item) for item in scored.data["calls"])
    if scored.data["n_unanswered"]:
        said.append(
            f"Answers on which the judge could not be asked: {scored.data['n_unanswered']}; they "
            "take no part. Run the same command again: only they are asked for. In production "
            "such answers follow the policy for undefined scores."
        )
    duplicates = scored.data["near_duplicates"]
    if duplicates is not None and duplicates["count"]:
        said.append(
            f"Examples with a near-duplicate on the other side of the split: {duplicates['count']} "
            f"({duplicates['exact']} identical). Results look too good; give alike answers "
            "one group, or remove them."
        )
    if scored.data["n_truncated"]:
        said.append(
            f"Texts longer than the encoder reads: {scored.data['n_truncated']}; their sentence "
            "vectors are of their beginning. Split long contexts into smaller chunks."
        )
    if scored.data["learnt_before"]:
        said.append(
            f"{', '.join(scored.data['learnt_before'])} had learnt before this run: make sure that "
            "no answer here was among what it learnt from."
        )
    if scored.data["n_cut"]:
        said.append(
            f"Answers (with a chunk each) too long for the model that judges them: "
            f"{scored.data['n_cut']} pairs were read without the answer's end, and what stands "
            "there was not judged. Use a score that goes sentence by sentence (sec, claims)."
        )
    if scored.data["n_quarantined"]:
        said.append(
            f"Rows that could not be used and take no part: {scored.data['n_quarantined']}; "
            "quarantine.jsonl names each with its reason."
        )
    return tuple(said)


def _of_calls(item: Mapping[str, Any]) -> str:
    """Return what a score asked of an endpoint, and what that costs."""
    judged = f"{item['n_judged']:,} of {item['n']:,} answers"
    parts = [f"{item['score']} asked a model behind an endpoint about {judged}"]
    if item["tokens_in"] is not None:
        parts.append(
            f"{item['tokens_in']:.0f} tokens in and {item['tokens_out']:.3g} out a judged answer"
        )
    if item["dollars_per_1000"] is not None:
        parts.append(f"${item['dollars_per_1000']:.3g} per 1,000 answers")
    return f"{'; '.join(parts)}."
