"""How do answers read from which sentences were removed, each judged right or wrong?"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from calibrail.phrases import count
from calibrail.report.blocks import (
    Block,
    Card,
    Evidence,
    Json,
    Quote,
    Section,
    Stretch,
    Struck,
    Style,
    Text,
    note,
    section,
)
from calibrail.report.documents.error_examples import chunks_of, quote_of
from calibrail.report.documents.explain import evidence_block
from calibrail.report.documents.trim_findings import REVIEWS
from calibrail.report.phrases import group_label
from calibrail.report.sanitize import merged, parted, short
from calibrail.scale import Scale

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
        ``TrimmedExamples.to_dict()``; nothing in its texts and its evidence is trusted.
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
            section(title, *_kind(examples[kind], which, called, scale))
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
    stretches: list[Stretch] = []
    for (what, unsupported), text in _LEGEND.items():
        verdict, sign, style = _JUDGED[what, unsupported]
        removed = what != "left"
        stretches += [
            Stretch([(text, False)], removed, verdict, sign, style),
            Stretch([("\n", False)]),
        ]
    name = short(scale.column or "score", 60)
    score = f"Behind each sentence stands its {name}; it goes when that is {ends}."
    stretches += [Stretch([(_MARKED, True), (f"\n{score}", False)])]
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


def _kind(examples: Json, which: str, called: str, scale: Scale) -> list[Block]:
    """Return how many answers of one kind there are, and some of them."""
    items, n = examples["items"], examples["n"]
    if not n:
        return [Text("None in the test part.")]
    here = f"; here {'is' if len(items) == 1 else 'are'} {which}" if 0 < len(items) < n else ""
    told = Text(f"{count(n, 'answer')} of the test part{here}.")
    return [told, *(_card(item, called, scale) for item in items)]


def _card(item: Json, called: str, scale: Scale) -> Card:
    """Return one answer."""
    answer, evidence = item["response"], item["evidence"]
    contexts, chunks = item["contexts"], chunks_of(item["contexts"], evidence)
    some = f" ({len(chunks)} of {len(contexts)} chunks)" if len(contexts) > len(chunks) else ""
    quotes: list[Quote | Struck] = [*quote_of("Question", item["question"], (), most=400)]
    if answer:
        quotes += [_struck(item, scale, "Answer, and what of it is removed"), *_released(item)]
    return Card(
        called,
        name=short(item["id"], 80),
        facts=list(_facts(item, scale)),
        quotes=quotes,
        evidence=_evidence(item),
        note=" ".join(filter(None, (_withheld(item), short(item["note"], 400)))),
        folded_title=f"Context{some}",
        folded=chunks,
    )


def _evidence(item: Json) -> Evidence | None:
    """Return what the detector says about the one sentence that an answer is shown for."""
    block, sentence = evidence_block(item["evidence"], most=4), item["sentences"][item["place"]]
    if block is None:
        return None
    text = short(item["response"][sentence["start"] : sentence["end"]], 60)
    return replace(block, heading=f'{block.heading}: "{text}"')


def _facts(item: Json, scale: Scale) -> Iterator[str]:
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
        why = REVIEWS.get(item["why"], short(item["why"], 200))
        return f"Nothing is released: the answer goes to review{f', since {why}' if why else ''}."
    if all(sentence["removed"] for sentence in item["sentences"]):
        return "Nothing is released: every sentence was removed."
    return ""


def _released(item: Json) -> Iterator[Quote]:
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
            stretches.append(Stretch(gap))
        end = min(sentence["end"], sentence["start"] + most)
        stretches.append(_stretch(sentence, parted(text, sentence["start"], end, spans), scale))
    else:
        if rest := parted(text, end, min(len(text), end + most), ()):
            stretches.append(Stretch(rest))
        end = min(len(text), end + most)
    cut = start > 0 or end < len(text)
    whole = f"Shortened; {count(len(text), 'character')} in all." if cut else ""
    return Struck(about, stretches, start > 0, end < len(text), whole)


def _stretch(sentence: Json, segments: list[tuple[str, bool]], scale: Scale) -> Stretch:
    what = "left"
    if sentence["removed"]:
        what = "with others" if sentence["with_others"] else "removed"
    verdict, sign, style = _JUDGED[what, sentence["label"] == 1]
    score = scale.text(sentence["score"], "undefined")
    return Stretch(segments, sentence["removed"], verdict, sign, style, score)
