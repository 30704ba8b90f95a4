"""Errors and trimmed answers."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from calibrail.data.example import Example
from calibrail.formatting import Scale, listed
from calibrail.report import document as parts
from calibrail.report.document import Json, note
from calibrail.report.documents import guardrail
from calibrail.report.documents.calibrate_sections import is_clustered, review_reasons
from calibrail.report.documents.guardrail import all_items, chunk_place, evidence_block, objections
from calibrail.report.figures.scores import distributions_svg
from calibrail.report.messages import facts, remarks, say
from calibrail.report.text import excerpt, group_label, merged, parted, short

#: Chunks of a context that are shown.
_MOST_CHUNKS: Final = 3

#: The kinds of errors, and where the catalogue has the words for each.
_ERRORS: Final = {"misses": "missed", "alarms": "alarmed"}

_OUTCOMES: Final = {"pass": "passed", "flag": "flagged", "review": "sent to review"}


def error_examples(examples: Json, report: Json) -> parts.Section:
    """Return the worst errors of the test set, for the page.

    Parameters
    ----------
    examples : mapping
        Worst errors of ``page_examples``; nothing in its texts and its evidence is trusted.
    report : mapping
        Whose errors they are: of all answers, also of those that do not count in its measures.
    """
    scale, clustered = Scale.of(report["score"]), is_clustered(report)
    kinds = {**_ERRORS, "alarms": "withheld"} if report.get("three_way") else _ERRORS
    shows_texts = any(item["response"] for kind in kinds for item in examples[kind])
    return parts.section(
        "What it gets wrong",
        parts.Text(short(examples["note"], 400)),
        *(
            parts.section(
                heading,
                *_kind(examples[kind], (examples[f"n_{kind}"], clustered), (one, of), scale),
            )
            for kind, code in kinds.items()
            for (_, heading), (_, one), (_, of) in [facts(f"example.{code}")]
        ),
        note(say("example.label_may_be_wrong", shows_texts=shows_texts)),
        where="page",
    )


def _kind(
    examples: Sequence[Json], of: tuple[int, bool], titles: tuple[str, str], scale: Scale
) -> list[parts.Block]:
    """Return how many errors of one kind there are, and the worst of them."""
    if not examples:
        return [parts.Text(say("example.none"))]
    (title, which), (n, clustered), n_shown = titles, of, len(examples)
    told = say("example.errors", n=n, n_shown=n_shown, which=which, clustered=clustered)
    if not any(item["response"] or item["evidence"] or item["note"] for item in examples):
        # Data of scores alone: a card would hold nothing beside its name.
        names = listed([short(item["id"], 80) for item in examples])
        return [parts.Text(f"{told}: {names}.")]
    return [parts.Text(f"{told}."), *(_card(item, title, scale) for item in examples)]


def _card(item: Json, title: str, scale: Scale) -> parts.AnswerCard:
    """Return one wrongly decided answer."""
    answer, evidence = item["response"], item["evidence"]
    quotes = quote_of("Answer", answer, objections(evidence, len(answer)), 600, "answer")
    return _answer_card(item, title, list(_facts(item, scale)), quotes, evidence_block(evidence))


def _answer_card(
    item: Json,
    title: str,
    facts: Sequence[str],
    answer: Iterable[parts.QuotedText | parts.Struck],
    evidence: parts.EvidenceBlock | None,
    note: str = "",
) -> parts.AnswerCard:
    """Return an answer below its question, with the evidence and the chunks that it names."""
    contexts, chunks = item["contexts"], chunks_of(item["contexts"], item["evidence"])
    return parts.AnswerCard(
        title,
        name=short(item["id"], 80),
        facts=facts,
        quotes=[*quote_of("Question", item["question"], (), most=400), *answer],
        evidence=evidence,
        note=" ".join(filter(None, (note, short(item["note"], 400)))),
        folded_title=say("example.context", contexts=contexts, n_chunks=len(chunks)),
        folded=chunks,
    )


def explained(
    decision: Json,
    score: str,
    answer: Example | None = None,
    known: tuple[Any, Scale] | None = None,
    **bounds: int,
) -> parts.Document:
    """Return a decision; on the page with the answer, its sources, and a strip of scores.

    Parameters
    ----------
    decision, score
        As ``guardrail.document`` takes them.
    answer : Example, optional
        What was decided about; nothing in its texts is trusted.
    known : pair of ndarray of float64 and Scale, optional
        The scores that set the one threshold, each higher where it is more suspicious.
    **bounds
        ``most`` and ``characters`` of the evidence to keep, of ``guardrail.document``.
    """
    document = guardrail.document(decision, score, **bounds)
    if answer is None:
        return document
    evidence, text = decision["evidence"], answer.response
    quotes = [
        *quote_of("Question", answer.question, (), 2_000),
        *quote_of("Answer", text, objections(evidence, len(text)), 20_000, "answer"),
        *chunks_of(answer.contexts, evidence),
    ]
    blocks: list[parts.Block | None] = [parts.AnswerCard("The answer", "", (), quotes)]
    if known is not None and None not in (decision["score"], decision["threshold"]):
        scores, scale = known
        here, threshold = (scale.shown(decision[name]) for name in ("score", "threshold"))
        given = scale.shown(scores), np.empty(0), threshold, scale.column or "score", scale
        draw = partial(distributions_svg, *given, here=here)
        blocks.append(parts.Figure("strip", draw, say("guardrail.strip", n=len(scores))))
    footer = "The decision stands in its JSON, the scores of the strip in the guardrail's file."
    return replace(document, blocks=(*blocks, *document.blocks), footer=footer)


def _facts(item: Json, scale: Scale) -> Iterator[str]:
    yield _OUTCOMES[item["outcome"]]
    yield f"{short(scale.column or 'score', 60)} {scale.text(item['score'], 'undefined')}"
    yield from _threshold_and_group(item, scale)
    if item["p_value"] is not None:
        yield say("example.p_value", item)


def _threshold_and_group(item: Json, scale: Scale) -> Iterator[str]:
    if item["threshold"] is not None:
        yield f"threshold {scale.edge(item['threshold'])}"
    if item["group"] is not None:
        yield f"group {short(group_label(item['group']), 80)}"


def quote_of(
    about: str, text: str, places: Iterable[tuple[int, int]], most: int, style: str = ""
) -> Iterator[parts.QuotedText]:
    """Yield a quote of a text around its places; nothing where there is no text."""
    if text:
        segments, before, after = excerpt(text, places, most)
        whole = say("example.shortened", n=len(text)) if before or after else ""
        yield parts.QuotedText(about, segments, before, after, whole, style)


def chunks_of(contexts: Sequence[str], evidence: object) -> list[parts.QuotedText]:
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


#: The kinds of answers that are shown, in the order for one that is of several.
KINDS: Final = ("misses", "losses", "freed", "emptied", "reviewed")

#: By what became of a sentence, and whether it is unsupported: words, sign and style.
_JUDGED: Final[dict[tuple[str, bool], tuple[str, str, parts.Style]]] = {
    ("removed", True): ("removed, unsupported", "\N{CHECK MARK}", "good"),
    ("removed", False): ("removed, though supported", "\N{BALLOT X}", "bad"),
    ("with others", True): ("removed with others, unsupported", "\N{CHECK MARK}", "good"),
    ("with others", False): ("removed with others", "+", ""),
    ("left", True): ("left, though unsupported", "!", "bad"),
    ("left", False): ("left, supported", "", ""),
}

#: Characters of an answer that are shown.
_MOST: Final = 2400


def trimmed_examples(examples: Json, scale: Scale, *, clustered: bool = False) -> parts.Section:
    """Return some answers of the test set with what was removed struck out, for the page.

    Parameters
    ----------
    examples : mapping
        Trimmed answers of ``page_examples``; nothing in its texts and its evidence is trusted.
    scale : Scale
        How the scores are shown.
    clustered : bool
        Whether one answer of each group counts in the measures; here all are looked at.
    """
    any_text = any(item["response"] for kind in KINDS for item in examples[kind]["items"])
    return parts.section(
        "What it removes, judged right or wrong",
        parts.Text(short(examples["note"], 400)),
        parts.Text(say("example.not_counted") if clustered else ""),
        _legend(scale) if any_text else None,
        *(
            parts.section(heading, *_trimmed_kind(examples[kind], which, one, scale))
            for kind in KINDS
            for (_, heading), (_, one), (_, which) in [facts(f"example.{kind}")]
        ),
        note(say("example.mark_may_be_wrong")),
        where="page",
    )


def _legend(scale: Scale) -> parts.Struck:
    """Return what the ways of showing a sentence mean, each in its own."""
    stretches: list[parts.SentenceText] = []
    for name, text in facts("example.legend"):
        what, _, kind = name.partition(", ")
        verdict, sign, style = _JUDGED[what, kind == "unsupported"]
        sentence = parts.SentenceText([(text, False)], what != "left", verdict, sign, style)
        stretches += [sentence, parts.SentenceText([("\n", False)])]
    score = say("example.sentence_score", name=short(scale.column or "score", 60), scale=scale)
    last = parts.SentenceText([(say("example.marked"), True), (f"\n{score}", False)])
    return parts.Struck("How to read the answers", [*stretches, last], where="page")


def _trimmed_kind(examples: Json, which: str, called: str, scale: Scale) -> list[parts.Block]:
    """Return how many answers of one kind there are, and some of them."""
    items, n = examples["items"], examples["n"]
    if not n:
        return [parts.Text(say("example.none"))]
    told = parts.Text(say("example.trimmed", n=n, n_shown=len(items), which=which))
    return [told, *(_trimmed_card(item, called, scale) for item in items)]


def _trimmed_card(item: Json, called: str, scale: Scale) -> parts.AnswerCard:
    """Return one answer."""
    answer, text, quotes = item["response"], item["text"], list[parts.QuotedText | parts.Struck]()
    if answer:
        quotes.append(_struck(item, scale))
        if text and text != answer:
            # Another text is released in the answer's place.
            quotes += quote_of("Released in its place", text, (), most=_MOST, style="answer")
    block, sentence = evidence_block(item["evidence"], most=4), item["sentences"][item["place"]]
    if block is not None:
        # The evidence is about the one sentence that the answer is shown for.
        about = short(answer[sentence["start"] : sentence["end"]], 60)
        block = block._replace(heading=f'{block.heading}: "{about}"')
    facts = [*remarks("example.trimmed_facts", item), *_threshold_and_group(item, scale)]
    return _answer_card(item, called, facts, quotes, block, _withheld(item))


def _withheld(item: Json) -> str:
    """Say why nothing is released; empty where something is."""
    if item["outcome"] == "review":
        why = review_reasons().get(item["why"], short(item["why"], 200))
        return say("example.withheld_for_review", why=why)
    empty = all(sentence["removed"] for sentence in item["sentences"])
    return say("example.withheld_as_empty") if empty else ""


def _struck(item: Json, scale: Scale) -> parts.Struck:
    """Return an answer with its removed sentences, from shortly before the one it is shown for."""
    text, sentences = item["response"], item["sentences"]
    first, place = 0, item["place"] or 0
    if len(text) > _MOST:
        starts = [sentence["start"] for sentence in sentences[: place + 1]]
        first = next(i for i, start in enumerate(starts) if starts[-1] - start <= _MOST // 4)
    spans, stretches = merged(map(tuple, item["spans"] or ()), len(text)), []
    start = end = sentences[first]["start"] if first else 0
    for sentence in sentences[first:]:
        if end - start >= _MOST:
            break
        # Marks of white space between sentences would be slivers of colour.
        if gap := parted(text, end, min(sentence["start"], end + _MOST), ()):
            stretches.append(parts.SentenceText(gap))
        end = min(sentence["end"], sentence["start"] + _MOST)
        stretches.append(_stretch(sentence, parted(text, sentence["start"], end, spans), scale))
    else:
        if rest := parted(text, end, min(len(text), end + _MOST), ()):
            stretches.append(parts.SentenceText(rest))
        end = min(len(text), end + _MOST)
    whole = say("example.shortened", n=len(text)) if start > 0 or end < len(text) else ""
    about = "Answer, and what of it is removed"
    return parts.Struck(about, stretches, start > 0, end < len(text), whole)


def _stretch(sentence: Json, segments: list[tuple[str, bool]], scale: Scale) -> parts.SentenceText:
    what = "left"
    if sentence["removed"]:
        what = "with others" if sentence["with_others"] else "removed"
    verdict, sign, style = _JUDGED[what, sentence["label"] == 1]
    score = scale.text(sentence["score"], "undefined")
    return parts.SentenceText(segments, sentence["removed"], verdict, sign, style, score)
