"""How do a detector's errors read on a page, whatever their texts hold?"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from calibrail.phrases import count, listed, number
from calibrail.report.blocks import Block, Card, Json, Quote, Section, Text, note, section
from calibrail.report.documents.explain import all_items, chunk_place, evidence_block, objections
from calibrail.report.phrases import group_label
from calibrail.report.sanitize import excerpt, short
from calibrail.scale import Scale

#: Chunks of a context that are shown.
_MOST_CHUNKS: Final = 3

#: By kind of error: its name, and which ones are shown where not all are.
_TITLES: Final = {
    "misses": ("Miss", "most harmless to the detector"),
    "alarms": ("False alarm", "most suspicious to it"),
}

_OUTCOMES: Final = {"pass": "passed", "flag": "flagged", "review": "sent to review"}


def error_examples(examples: Json, scale: Scale) -> Section:
    """Return the worst errors of the test part, for the page.

    Parameters
    ----------
    examples : mapping
        ``ErrorExamples.to_dict()``; nothing in its texts and its evidence is trusted.
    scale : Scale
        How the scores are shown.
    """
    misses, alarms = (
        _kind(examples[kind], examples[f"n_{kind}"], _TITLES[kind], scale) for kind in _TITLES
    )
    return section(
        "What it gets wrong",
        Text(short(examples["note"], 400)),
        section("Misses: hallucinated answers that passed", *misses),
        section("False alarms: faithful answers that did not pass", *alarms),
        note(
            "A label may be wrong, too: an answer that the detector and you judge alike is worth a "
            "second look at its label. Marked is what the detector objects to."
        ),
        where="page",
    )


def _kind(examples: Sequence[Json], n: int, titles: tuple[str, str], scale: Scale) -> list[Block]:
    """Return how many errors of one kind there are, and the worst of them."""
    if not examples:
        return [Text("None in the test part.")]
    title, which = titles
    few = "is the one that looks" if len(examples) == 1 else f"are the {len(examples)} that look"
    here = f"; here {few} {which}" if n > len(examples) else ""
    told = f"{n:,} in the test part{here}"
    if not any(item["response"] or item["evidence"] or item["note"] for item in examples):
        # Data of scores alone: a card would hold nothing beside its name.
        names = listed([short(item["id"], 80) for item in examples])
        return [Text(f"{told}: {names}.")]
    cards = (_card(item, title, scale) for item in examples)
    return [Text(f"{told}."), *cards]


def _card(item: Json, title: str, scale: Scale) -> Card:
    """Return one wrongly decided answer."""
    evidence, answer, contexts = item["evidence"], item["response"], item["contexts"]
    chunks = chunks_of(contexts, evidence)
    some = f" ({len(chunks)} of {len(contexts)} chunks)" if len(contexts) > len(chunks) else ""
    return Card(
        title,
        name=short(item["id"], 80),
        facts=list(_facts(item, scale)),
        quotes=[
            *quote_of("Question", item["question"], (), most=400),
            *quote_of("Answer", answer, objections(evidence, len(answer)), 600, "answer"),
        ],
        evidence=evidence_block(evidence),
        note=short(item["note"], 400),
        folded_title=f"Context{some}",
        folded=chunks,
    )


def _facts(item: Json, scale: Scale) -> Iterator[str]:
    yield _OUTCOMES[item["outcome"]]
    yield f"{short(scale.column or 'score', 60)} {scale.text(item['score'], 'undefined')}"
    if item["threshold"] is not None:
        yield f"threshold {scale.text(item['threshold'])}"
    if item["group"] is not None:
        yield f"group {short(group_label(item['group']), 80)}"
    if (p_value := item["p_value"]) is not None:
        rare = f"about {100.0 * p_value:.3g} in 100 hallucinated answers look as harmless"
        yield f"p-value {number(p_value)}: {rare}"


def quote_of(
    about: str, text: str, places: Iterable[tuple[int, int]], most: int, style: str = ""
) -> Iterator[Quote]:
    """Yield a quote of a text around its places; nothing where there is no text."""
    if text:
        segments, before, after = excerpt(text, places, most)
        shortened = f"Shortened; {count(len(text), 'character')} in all."
        yield Quote(about, segments, before, after, shortened if before or after else "", style)


def chunks_of(contexts: Sequence[str], evidence: object) -> list[Quote]:
    """Return the chunks that the evidence names, or else the first, each around its quotes."""
    quoted: dict[int, list[tuple[int, int]]] = {}
    for chunk, start, end in map(chunk_place, all_items(evidence)):
        if chunk is not None and start is not None and end is not None and chunk < len(contexts):
            quoted.setdefault(chunk, []).append((start, end))
    return [
        quote
        for chunk in sorted(quoted)[:_MOST_CHUNKS] or range(len(contexts))[:_MOST_CHUNKS]
        for quote in quote_of(f"Chunk {chunk + 1}", contexts[chunk], quoted.get(chunk, ()), 400)
    ]
