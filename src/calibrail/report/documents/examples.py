"""Errors and trimmed answers."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from calibrail.formatting import Scale, count, listed, number
from calibrail.report.document import (
    AnswerCard,
    Block,
    EvidenceBlock,
    Json,
    QuotedText,
    Section,
    SentenceText,
    Struck,
    Style,
    Text,
    note,
    section,
)
from calibrail.report.documents.calibrate_messages import review_reasons
from calibrail.report.documents.guardrail import all_items, chunk_place, evidence_block, objections
from calibrail.report.text import excerpt, group_label, merged, parted, short

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
        Worst errors of ``page_examples``; nothing in its texts and its evidence is trusted.
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


def _card(item: Json, title: str, scale: Scale) -> AnswerCard:
    """Return one wrongly decided answer."""
    evidence, answer, contexts = item["evidence"], item["response"], item["contexts"]
    chunks = chunks_of(contexts, evidence)
    some = f" ({len(chunks)} of {len(contexts)} chunks)" if len(contexts) > len(chunks) else ""
    return AnswerCard(
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
) -> Iterator[QuotedText]:
    """Yield a quote of a text around its places; nothing where there is no text."""
    if text:
        segments, before, after = excerpt(text, places, most)
        shortened = f"Shortened; {count(len(text), 'character')} in all."
        yield QuotedText(
            about, segments, before, after, shortened if before or after else "", style
        )


def chunks_of(contexts: Sequence[str], evidence: object) -> list[QuotedText]:
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


#: By kind of answer: what its section is called, what one of them is, and which are shown.
_KINDS: Final = {
    "misses": ("Unsupported sentences that stayed", "Miss", "the most harmless to the detector"),
    "losses": ("Supported sentences that were removed", "Loss", "the most suspicious to it"),
    "freed": ("Freed of all that was unsupported", "Freed", "those of which most is left"),
    "emptied": ("Answers of which nothing is left", "Emptied", "those that lost the most"),
    "reviewed": ("Answers that go to review", "Review", "the first ones"),
}

#: By what became of a sentence, and whether it is unsupported: words, sign and style.
_JUDGED: Final[dict[tuple[str, bool], tuple[str, str, Style]]] = {
    ("removed", True): ("removed, unsupported", "\N{CHECK MARK}", "good"),
    ("removed", False): ("removed, though supported", "\N{BALLOT X}", "bad"),
    ("with others", True): ("removed with others, unsupported", "\N{CHECK MARK}", "good"),
    ("with others", False): ("removed with others", "+", ""),
    ("left", True): ("left, though unsupported", "!", "bad"),
    ("left", False): ("left, supported", "", ""),
}

#: What each way of showing a sentence means, shown in that way.
_LEGEND: Final = {
    ("removed", True): "Unsupported, and removed.",
    ("removed", False): "Supported, and removed all the same: the price.",
    ("left", True): "Unsupported, and left: a miss.",
    ("with others", False): "Removed with others: it introduced them, and nothing of them is left.",
}
_MARKED: Final = "Highlighted: what people marked as unsupported."

_NOT_COUNTED: Final = (
    "Answers that do not count above, since another one of their group does, are looked at here, "
    "too."
)

#: Characters of an answer that are shown.
_MOST: Final = 2400


def trimmed_examples(examples: Json, scale: Scale, *, clustered: bool = False) -> Section:
    """Return some answers of the test part with what was removed struck out, for the page.

    Parameters
    ----------
    examples : mapping
        Trimmed answers of ``page_examples``; nothing in its texts and its evidence is trusted.
    scale : Scale
        How the scores are shown.
    clustered : bool
        Whether one answer of each group counts in the measures; here all are looked at.
    """
    any_text = any(item["response"] for kind in _KINDS for item in examples[kind]["items"])
    return section(
        "What it removes, judged right or wrong",
        Text(short(examples["note"], 400)),
        Text(_NOT_COUNTED if clustered else ""),
        _legend(scale) if any_text else None,
        *(
            section(title, *_trimmed_kind(examples[kind], which, called, scale))
            for kind, (title, called, which) in _KINDS.items()
        ),
        note(
            "A mark may be wrong or missing, too: a sentence that the detector and you judge alike "
            "is worth a second look at its marks."
        ),
        where="page",
    )


def _legend(scale: Scale) -> Struck:
    """Return what the ways of showing a sentence mean, each in its own."""
    ends = f"{scale.reaching} the threshold"
    stretches: list[SentenceText] = []
    for (what, unsupported), text in _LEGEND.items():
        verdict, sign, style = _JUDGED[what, unsupported]
        removed = what != "left"
        stretches += [
            SentenceText([(text, False)], removed, verdict, sign, style),
            SentenceText([("\n", False)]),
        ]
    name = short(scale.column or "score", 60)
    score = f"Behind each sentence stands its {name}; it goes when that is {ends}."
    stretches += [SentenceText([(_MARKED, True), (f"\n{score}", False)])]
    return Struck("How to read the answers", stretches, where="page")


def trimmed_in_terminal(examples: Json, scale: Scale) -> Section | None:
    """Return the worst loss and the worst miss, sentence by sentence, for a terminal."""
    blocks: list[Block] = []
    for kind, about in (
        ("losses", "A supported sentence that was removed"),
        ("misses", "An unsupported sentence that stayed"),
    ):
        for item in examples[kind]["items"][:1]:
            if item["response"]:
                blocks.append(_struck(item, scale, f"{about} ({short(item['id'], 60)})", most=900))
    if not blocks:
        return None
    return section("What it removes", *blocks, where="terminal")


def _trimmed_kind(examples: Json, which: str, called: str, scale: Scale) -> list[Block]:
    """Return how many answers of one kind there are, and some of them."""
    items, n = examples["items"], examples["n"]
    if not n:
        return [Text("None in the test part.")]
    here = f"; here {'is' if len(items) == 1 else 'are'} {which}" if 0 < len(items) < n else ""
    told = Text(f"{count(n, 'answer')} of the test part{here}.")
    return [told, *(_trimmed_card(item, called, scale) for item in items)]


def _trimmed_card(item: Json, called: str, scale: Scale) -> AnswerCard:
    """Return one answer."""
    answer, evidence = item["response"], item["evidence"]
    contexts, chunks = item["contexts"], chunks_of(item["contexts"], evidence)
    some = f" ({len(chunks)} of {len(contexts)} chunks)" if len(contexts) > len(chunks) else ""
    quotes: list[QuotedText | Struck] = [*quote_of("Question", item["question"], (), most=400)]
    if answer:
        quotes += [_struck(item, scale, "Answer, and what of it is removed"), *_released(item)]
    return AnswerCard(
        called,
        name=short(item["id"], 80),
        facts=list(_trimmed_facts(item, scale)),
        quotes=quotes,
        evidence=_evidence(item),
        note=" ".join(filter(None, (_withheld(item), short(item["note"], 400)))),
        folded_title=f"Context{some}",
        folded=chunks,
    )


def _evidence(item: Json) -> EvidenceBlock | None:
    """Return what the detector says about the one sentence that an answer is shown for."""
    block, sentence = evidence_block(item["evidence"], most=4), item["sentences"][item["place"]]
    if block is None:
        return None
    text = short(item["response"][sentence["start"] : sentence["end"]], 60)
    return replace(block, heading=f'{block.heading}: "{text}"')


def _trimmed_facts(item: Json, scale: Scale) -> Iterator[str]:
    sentences = item["sentences"]
    yield "hallucinated answer" if item["label"] == 1 else "faithful answer"
    removed = [sentence for sentence in sentences if sentence["removed"]]
    yield f"{len(removed):,} of {count(len(sentences), 'sentence')} removed"
    if lost := sum(sentence["label"] == 0 for sentence in removed):
        yield f"{lost:,} of them supported"
    if left := sum(s["label"] == 1 and not s["removed"] for s in sentences):
        yield f"{left:,} unsupported left"
    if item["threshold"] is not None:
        yield f"threshold {scale.text(item['threshold'])}"
    if item["group"] is not None:
        yield f"group {short(group_label(item['group']), 80)}"


def _withheld(item: Json) -> str:
    """Say why nothing is released; empty where something is."""
    if item["outcome"] == "review":
        why = review_reasons().get(item["why"], short(item["why"], 200))
        return f"Nothing is released: the answer goes to review{f', since {why}' if why else ''}."
    if all(sentence["removed"] for sentence in item["sentences"]):
        return "Nothing is released: every sentence was removed."
    return ""


def _released(item: Json) -> Iterator[QuotedText]:
    """Yield what is released in the answer's place, where that is another text."""
    if item["text"] and item["text"] != item["response"]:
        yield from quote_of("Released in its place", item["text"], (), most=_MOST, style="answer")


def _struck(item: Json, scale: Scale, about: str, most: int = _MOST) -> Struck:
    """Return an answer with its removed sentences, from shortly before the one it is shown for."""
    text, sentences = item["response"], item["sentences"]
    first, place = 0, item["place"] or 0
    if len(text) > most:
        starts = [sentence["start"] for sentence in sentences[: place + 1]]
        first = next(i for i, start in enumerate(starts) if starts[-1] - start <= most // 4)
    spans, stretches = merged(map(tuple, item["spans"] or ()), len(text)), []
    start = end = sentences[first]["start"] if first else 0
    for sentence in sentences[first:]:
        if end - start >= most:
            break
        # Marks of white space between sentences would be slivers of colour.
        if gap := parted(text, end, min(sentence["start"], end + most), ()):
            stretches.append(SentenceText(gap))
        end = min(sentence["end"], sentence["start"] + most)
        stretches.append(_stretch(sentence, parted(text, sentence["start"], end, spans), scale))
    else:
        if rest := parted(text, end, min(len(text), end + most), ()):
            stretches.append(SentenceText(rest))
        end = min(len(text), end + most)
    cut = start > 0 or end < len(text)
    whole = f"Shortened; {count(len(text), 'character')} in all." if cut else ""
    return Struck(about, stretches, start > 0, end < len(text), whole)


def _stretch(sentence: Json, segments: list[tuple[str, bool]], scale: Scale) -> SentenceText:
    what = "left"
    if sentence["removed"]:
        what = "with others" if sentence["with_others"] else "removed"
    verdict, sign, style = _JUDGED[what, sentence["label"] == 1]
    score = scale.text(sentence["score"], "undefined")
    return SentenceText(segments, sentence["removed"], verdict, sign, style, score)
