"""How do a detector's errors read on a page, whatever their texts hold?"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from calibrail.phrases import count, number
from calibrail.report.blocks import Block, Card, Json, Quote, Section, Text
from calibrail.report.documents import evidence as parts
from calibrail.report.sanitize import excerpt, short

#: Characters of an answer, a question and a chunk that are shown; and chunks.
ANSWER: Final = 600
QUESTION: Final = 400
CHUNK: Final = 400
MOST_CHUNKS: Final = 3

_OUTCOMES: Final = {"pass": "passed", "flag": "flagged", "review": "sent to review"}


def error_examples(examples: Json) -> Section:
    """Return the worst errors of the test part, for the page.

    Parameters
    ----------
    examples : mapping
        ``ErrorExamples.to_dict()``; nothing in its texts and its evidence is trusted.
    """
    return Section(
        "What it gets wrong",
        (
            Text(short(examples["note"], 400)),
            Section(
                "Misses: hallucinated answers that passed",
                _kind(examples["misses"], examples["n_misses"], "Miss", "lowest"),
            ),
            Section(
                "False alarms: faithful answers that did not pass",
                _kind(examples["alarms"], examples["n_alarms"], "False alarm", "highest"),
            ),
            Text(
                "A label may be wrong, too: an answer that the detector and you judge alike is "
                "worth a second look at its label. Marked is what the detector objects to.",
                "muted",
            ),
        ),
        where="page",
    )


def _kind(examples: Sequence[Json], n: int, title: str, which: str) -> list[Block | None]:
    """Return how many errors of one kind there are, and the worst of them."""
    if not examples:
        return [Text("None in the test part.")]
    here = f"; here are the {len(examples)} with the {which} scores" if n > len(examples) else ""
    return [Text(f"{n:,} in the test part{here}."), *(_card(item, title) for item in examples)]


def _card(item: Json, title: str) -> Card:
    """Return one wrongly decided answer."""
    evidence = item["evidence"] if isinstance(item["evidence"], Mapping) else {}
    answer, contexts = item["response"], item["contexts"]
    quotes = (
        _quote("Question", item["question"], (), QUESTION),
        _quote("Answer", answer, parts.objections(evidence, len(answer)), ANSWER, style="answer"),
    )
    chunks = _chunks(contexts, evidence)
    some = f" ({len(chunks)} of {len(contexts)} chunks)" if len(contexts) > len(chunks) else ""
    return Card(
        title,
        name=short(item["id"], 80),
        facts=_facts(item),
        quotes=[quote for quote in quotes if quote is not None],
        evidence=parts.evidence_block(evidence),
        note=short(item["note"], 400),
        folded_title=f"Context{some}",
        folded=chunks,
    )


def _facts(item: Json) -> list[str]:
    facts = [
        _OUTCOMES[item["outcome"]],
        f"score {'undefined' if item['score'] is None else number(item['score'])}",
    ]
    if item["threshold"] is not None:
        facts.append(f"threshold {number(item['threshold'])}")
    if item["group"] is not None:
        facts.append(f"group {short(item['group'], 80)}")
    if (p_value := item["p_value"]) is not None:
        facts.append(
            f"p-value {number(p_value)}: about {100.0 * p_value:.3g} in 100 hallucinated answers "
            "look as harmless"
        )
    return facts


def _quote(
    about: str, text: str, places: Iterable[tuple[int, int]], most: int, style: str = ""
) -> Quote | None:
    if not text:
        return None
    segments, before, after = excerpt(text, places, most)
    shortened = f"Shortened; {count(len(text), 'character')} in all."
    return Quote(about, segments, before, after, shortened if before or after else "", style)


def _chunks(contexts: Sequence[str], evidence: Json) -> list[Quote]:
    """Return the chunks that the evidence names, or else the first, each around its quotes."""
    quoted: dict[int, list[tuple[int, int]]] = {}
    for item in parts.all_items(evidence):
        keys = ("chunk", "chunk_start", "chunk_end")
        chunk, start, end = (parts.place(item.get(key)) for key in keys)
        if chunk is not None and start is not None and end is not None and chunk < len(contexts):
            quoted.setdefault(chunk, []).append((start, end))
    named = sorted(quoted)[:MOST_CHUNKS] or range(len(contexts))[:MOST_CHUNKS]
    chunks = [
        _quote(f"Chunk {chunk + 1}", contexts[chunk], quoted.get(chunk, []), CHUNK)
        for chunk in named
    ]
    return [chunk for chunk in chunks if chunk is not None]
