"""What doctor warns about."""

import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from calibrail.data.example import FAITHFUL
from calibrail.data.profile import DataFinding, Diagnosis
from calibrail.data.reading import holds_others, what_is_held
from calibrail.formatting import count as said
from calibrail.options import ReadOptions
from calibrail.options.fields import cli_or_python, spell_option

# An AUROC as far from one half as this is no accident with a hundred examples of each class
# (its standard error is then about 0.04).
_SEPARATES: Final = 0.1

# Answers that are their own context happen; where so many are, the column is a wrong one.
_MANY_COPIES: Final = 0.2
_FEW: Final = 10

# A sentence or two are touched in any set of marks (FaithBench: 1 of 891).
_FEW_WIDE: Final = 3
_MANY_WIDE: Final = 0.05

# Among fewer examples a separation without a mistake may be luck.
ENOUGH: Final = 40


#: A column of scores as a detector, in Python.
SCORE_COLUMN: Final = "score='column:column=NAME,higher=hallucinated'"


def findings(facts: Diagnosis) -> Diagnosis:
    """Return the diagnosis with its warnings, the gravest first."""
    content = (_classes, _texts) if facts.usable else ()
    parts = (_usability, _labels, *content, _copies, _columns, _marks)
    return replace(facts, warnings=tuple(finding for part in parts for finding in part(facts)))


def _usability(facts: Diagnosis) -> Iterator[DataFinding]:
    if not facts.rows:
        yield DataFinding("empty", "the file holds no row")
    elif not facts.usable:
        yield DataFinding("nothing_usable", f"none of {said(facts.rows, 'row')} can be used")
    if facts.quarantined:
        field, reason, count = facts.reasons[0]
        yield DataFinding(
            "quarantined",
            f"{said(facts.quarantined, 'answer')} cannot be used; the most frequent reason is "
            f"{field}: {reason} ({count})",
        )


def _labels(facts: Diagnosis) -> Iterator[DataFinding]:
    if facts.inverted is not None:
        areas = ", ".join(f"{name} {area:.3f}" for name, area in facts.inverted.items())
        turned = shlex.join(facts.reading["turned"])
        remedy = f"{turned} reads them the other way round" if turned else "turn them around"
        yield DataFinding(
            "labels_look_inverted",
            f"the labels look inverted: answers read as faithful share less with their contexts "
            f"than those read as hallucinated (AUROC {areas}, each below 0.5 with 99.9% "
            f"confidence). Nothing was turned around. Where they are inverted, {remedy}; they may "
            "be right where hallucinated answers copy and faithful ones paraphrase",
        )
    labels = facts.reading["labels"]
    n_read = facts.usable + facts.filtered
    if labels and holds_others(labels, n_read):
        yield DataFinding("labels_unclear", what_is_held(labels, n_read))
    if labels and labels["by_name"]:
        ones = [item["value"] for item in labels["values"] if item["class"] == FAITHFUL]
        otherwise = spell_option(ReadOptions, "positive", "VALUE")
        yield DataFinding(
            "label_by_name",
            f"column {labels['column']!r} is named after faithfulness, so {ones[0] if ones else 1} "
            f"in it is read as faithful; {otherwise} says otherwise",
        )
    if labels and labels["several"]:
        several = labels["several"]
        yield DataFinding(
            "annotators_divided",
            f"the annotators of {said(several['n'], 'row')} disagree on {several['n_divided']}; "
            f"{spell_option(ReadOptions, 'annotators', several['annotators'])} decides",
        )


def _classes(facts: Diagnosis) -> Iterator[DataFinding]:
    labelled = facts.n_faithful + facts.n_hallucinated
    if not labelled:
        yield DataFinding(
            "unlabelled",
            "no example has a label: the file can be checked with a guardrail, not used to "
            "calibrate; a label column under another name is given with "
            f"{spell_option(ReadOptions, 'label_column')}",
        )
        return
    for count, name in ((facts.n_faithful, "faithful"), (facts.n_hallucinated, "hallucinated")):
        if not count:
            yield DataFinding("one_class", f"no example is {name}: both classes are needed")
    marginal = [s for s in facts.supports if s.guarantee == "marginal"]
    short = [s for s in marginal if not s.possible]
    if facts.n_hallucinated and len(short) > 1:
        best = min((s.alpha for s in marginal if s.possible), default=None)
        reach = "no listed alpha is possible" if best is None else f"alpha {best:g} is the smallest"
        noun: tuple[str, ...] = ("hallucinated example",)
        if facts.groups.largest > 1:
            noun = ("group with a hallucinated example", "groups with a hallucinated example")
        needed = ", ".join(f"{s.needed} for alpha {s.alpha:g}" for s in short)
        yield DataFinding(
            "too_few",
            f"half of the file leaves {said(short[0].available, *noun)} for calibration; {reach} "
            f"(needed: {needed})",
        )
    if facts.groups.largest > max(1, labelled // 10):
        yield DataFinding(
            "large_group",
            f"one group holds {facts.groups.largest} of {facts.usable} examples: a group is never "
            "split, so the halves may be uneven",
        )


def _texts(facts: Diagnosis) -> Iterator[DataFinding]:
    if not any(length.n for length in facts.lengths):
        yield DataFinding(
            "no_texts",
            "no question, context or response was found: only scores in a column can be used "
            f"({cli_or_python('--score-column', SCORE_COLUMN)}); text columns under other names "
            f"are given "
            f"with {spell_option(ReadOptions, 'mapping')}",
        )
        return
    for length in facts.lengths:
        if length.empty:
            yield DataFinding(
                f"empty_{length.field}",
                f"without a {length.field}: {length.empty} of {said(facts.usable, 'example')}; "
                "scores that read it cannot be computed on them",
            )
    value = facts.length_auroc
    if value is not None and abs(value - 0.5) >= _SEPARATES:
        direction = "longer" if value > 0.5 else "shorter"
        yield DataFinding(
            "length_separates",
            f"the response's length alone separates the classes: AUROC {value:.3f} "
            f"(hallucinated answers are {direction}); a detector must beat "
            f"{max(value, 1 - value):.3f} to have shown anything",
        )


def _contexts() -> str:
    return spell_option(ReadOptions, "mapping", {"contexts": "COLUMN"})


def _copies(facts: Diagnosis) -> Iterator[DataFinding]:
    n = {"faithful": facts.n_faithful, "hallucinated": facts.n_hallucinated}
    copied, quoted = sum(facts.context_is_answer.values()), facts.context_holds_answer
    if copied >= _MANY_COPIES * max(1, facts.usable) and copied:
        yield DataFinding(
            "context_is_answer",
            f"{copied} of {facts.usable} answers are their own context, word for word: whatever "
            "compares an answer with its contexts then finds every answer supported. Was the wrong "
            f"column taken as contexts ({_contexts()})?",
        )
    elif n["hallucinated"] >= _FEW and quoted["hallucinated"] >= 0.9 * n["hallucinated"]:
        yield DataFinding(
            "context_holds_answer",
            f"{quoted['hallucinated']} of {n['hallucinated']} hallucinated answers stand word for "
            "word in their own contexts, which then support what people called hallucinated. Are "
            f"the contexts the text that was judged ({_contexts()})?",
        )
    if facts.contradictory:
        yield DataFinding(
            "contradictory_labels",
            f"{said(facts.contradictory, 'text occurs', 'texts occur')} with both labels: "
            "at least one label of each is wrong, or depends on something that the texts do not "
            "show",
        )
    if facts.repeated:
        yield DataFinding(
            "repeated", f"texts of an earlier example, again: {said(facts.repeated, 'example')}"
        )
    if facts.copies["n"]:
        yield DataFinding(
            "copies",
            f"{facts.copies['n']} examples are copies, the same or nearly the same texts, in "
            f"{said(facts.copies['n_groups'], 'group')}: copies of an answer stay on one "
            "side of a split, and one of each class counts",
        )
    twins = facts.cross_split
    if twins is not None and twins.count:
        yield DataFinding(
            "cross_split_duplicates",
            f"{said(twins.count, 'example has', 'examples have')} a near-duplicate on the "
            "other side of the default split (estimated Jaccard similarity >= "
            f"{twins.threshold:g}; {twins.exact} identical): give "
            "them a common group",
        )


def _columns(facts: Diagnosis) -> Iterator[DataFinding]:
    for column in facts.numeric_columns:
        if column.tells_label:
            yield DataFinding(
                "column_tells_label",
                f"column {column.name!r} separates the classes without a mistake: it was probably "
                "made from the label, and is no detector's score",
            )
    if facts.empty_columns:
        names = ", ".join(map(repr, facts.empty_columns[:10]))
        noun, verb = ("column", "holds") if len(facts.empty_columns) == 1 else ("columns", "hold")
        yield DataFinding("empty_columns", f"{noun} {names} {verb} no value in any usable row")


def _marks(facts: Diagnosis) -> Iterator[DataFinding]:
    marks = facts.marks
    if marks is None:
        return
    # Where sentences say what an answer is, what is wrong with them was said of the answers.
    n = sum(count for _, _, count in marks.set_aside)
    if n and marks.set_aside != facts.reasons:
        field, reason, count = marks.set_aside[0]
        yield DataFinding(
            "marks_unclear",
            f"{said(n, 'answer')} cannot be used sentence by sentence; the most frequent reason is "
            f"{field}: {reason} ({count})",
        )
    if marks.outside_chars:
        yield DataFinding(
            "marked_outside",
            f"{marks.outside_chars:,} of {said(marks.marked_chars, 'marked character')} are in no "
            "sentence (in list marks, or words without a letter): no threshold can remove them",
        )
    for numbered in marks.numbered:
        wrong = (
            (numbered.unsorted, "with rows in another order (sort the file by it)"),
            (numbered.gaps, "without one of the numbers (add the rows that are missing)"),
            (numbered.twice, "with a number twice (remove the copies)"),
        )
        if which := [f"{n:,} {what}" for n, what in wrong if n]:
            yield DataFinding(
                "sentences_out_of_order",
                f"column {numbered.name!r} numbers the sentences of an answer, and an answer is "
                f"read as its rows in the order of the file: of {said(numbered.n, 'answer')} there "
                f"are {', '.join(which)}",
            )
    for column in marks.columns:
        if column.set_aside:
            yield DataFinding(
                "column_lengths",
                f"{said(column.set_aside, 'answer')} of {marks.n:,} cannot be used with column "
                f"{column.name!r}: it lists more or fewer numbers than the answer has sentences. "
                "Where another program parted the sentences, list their texts, too "
                f"({spell_option(ReadOptions, 'mapping', {'sentences': 'COLUMN'})})",
            )
    wide = marks.wide
    if wide is not None and wide.n >= max(_FEW_WIDE, _MANY_WIDE * wide.of):
        verb = "is" if wide.n == 1 else "are"
        also = f", and {wide.others:,} more of which as little is marked" if wide.others else ""
        yield DataFinding(
            "marks_too_wide",
            f"{wide.n:,} of {said(wide.of, 'unsupported sentence')} {verb} touched by no more than "
            f"{wide.letters} letters of a mark that lies in a neighbour: marks are a little too "
            f"wide, and make neighbours unsupported. "
            f"{spell_option(ReadOptions, 'span_share', wide.share)} takes {wide.taken_back:,} of "
            f"them "
            f"as supported{also}",
        )
