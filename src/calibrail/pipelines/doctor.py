"""Diagnose()."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from math import sqrt
from typing import Any, Final, Unpack, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from calibrail.data import duplicates, profile
from calibrail.data import suggested_options as hints
from calibrail.data.columns import Needs
from calibrail.data.example import TEXT_FIELDS, Example
from calibrail.data.labels import PLAIN, holds_others, is_of_people, label_key, map_to_fill
from calibrail.data.reading import Reading, read, read_needed
from calibrail.data.sentences import SentenceColumns, cells_of_sentences
from calibrail.data.sources import Source, names_of, reusable
from calibrail.data.spans import MarkLook, SentenceColumn, Support
from calibrail.data.splits import CALIBRATION, group_numbers, groups_to_add, merge_groups, split
from calibrail.data.suggested_options import Suggestion, direction_of, suggest, words_of
from calibrail.data.values import nested_names, value_at
from calibrail.evaluation.stats.auroc import auroc, ranked
from calibrail.evaluation.stats.intervals import Measure
from calibrail.evaluation.stats.tests import OVERLAPS, look_inverted
from calibrail.options import Promise, ReadOptions, Requirement, fields, keywords
from calibrail.options.data import ReadKeywords
from calibrail.options.guarantee import Guarantee, Unit
from calibrail.pipelines.fixed_threshold import choose_score, held_in
from calibrail.pipelines.loading import watched
from calibrail.report.messages import say
from calibrail.scores.registry import build, parse_specs

#: Guarantees that are looked up, each at every one of these tolerated miss rates.
ALPHAS: Final = (0.01, 0.05, 0.1, 0.2)
GUARANTEES: Final[tuple[Guarantee, ...]] = ("marginal", "pac")


def _supports_at(
    labels: NDArray[np.int8],
    codes: NDArray[np.int8],
    groups: NDArray[np.int64],
    unit: Unit = "answer",
) -> tuple[Support, ...]:
    """Return the guarantees for which a split leaves enough hallucinated answers.

    Of answers that share a group one counts, as for a threshold. A promise that proves itself needs
    no split; it is counted as for a verdict, with the confidence that one has where none is named.
    """
    from calibrail.conformal import minimum_n

    delta = Promise().settled(Requirement(max_false_alarms=1.0)).delta
    every, half = (
        len(np.unique(groups[part & (labels == 1)])) for part in (codes >= 0, codes == CALIBRATION)
    )
    return tuple(
        Support(alpha, guarantee, needed, n, n >= needed, groups_to_add(every, needed, shares))
        for guarantee in GUARANTEES
        for n, shares in (
            (every, (0.0, 1.0, 0.0))
            if Promise(guarantee=guarantee, unit=unit).proves_itself
            else (half, (0.0, 0.5, 0.5)),
        )
        for alpha in ALPHAS
        for needed in (minimum_n(alpha, guarantee, delta),)
    )


def _tells_label(area: float | None, n_labelled: int) -> bool:
    """Say whether a column separates the classes as well as only one made from the labels does."""
    return area in (0.0, 1.0) and n_labelled >= profile.ENOUGH


def _area_of(values: NDArray[np.float64], labels: NDArray[np.int8]) -> float | None:
    """Return the AUROC of the examples that have a value and a label; None without both classes."""
    there = ~np.isnan(values)
    return auroc(values[there & (labels == 1)], values[there & (labels == 0)]).estimate


def _look_at_marks(
    source: Source, how: ReadOptions, require: tuple[str, ...], copies: Mapping[int, int]
) -> MarkLook | None:
    """Return what is marked in the answers; None where there is no column of marks.

    Parameters
    ----------
    source, how
        What is read.
    require : tuple of str
        The text fields that every row needs.
    copies : mapping of int to int
        The group of copies of each answer that has some, by its digest.
    """
    how = replace(how, quarantine=None, strict=False)
    looked = read(source, how, require=(), labelled=False, allow_none=True, by_sentence=True)
    marked, present = looked.columns.marked, looked.columns.present
    if not {"spans", "sentences", "answer_id"} & present:
        return None
    kind = "rows" if marked.answer_id else "sentences" if marked.sentences else "spans"
    keep = (*_further_columns(looked), *cells_of_sentences(looked.head, marked.sentences))
    keep = tuple(dict.fromkeys(keep))
    needs = Needs(keep, require, allow_none=True, by_sentence=True, any_length=True, distinct=True)
    opened = read_needed(source, how, needs)
    survey = profile.MarkSurvey(opened, how.span_share, keep)
    supports: tuple[Support, ...] = ()
    if len(survey.labels):
        copied = np.array([copies.get(digest, -1) for digest in survey.digests.tolist()], np.int64)
        groups = merge_groups(group_numbers(survey.groups, len(survey.groups)), copied)
        supports = _supports_at(
            survey.labels, split(survey.labels, groups, ids=survey.digests), groups, "sentence"
        )
    median, p95 = profile.median_and_p95(survey.sentences)
    numbered = survey.numbers.finish() if kind == "rows" else ()
    return MarkLook(
        kind=kind,
        n=len(survey.labels),
        hallucinated=int(survey.labels.sum()),
        sentences=int(survey.sentences.sum()),
        unsupported=int(survey.unsupported.sum()),
        median_sentences=median,
        p95_sentences=p95,
        marked_chars=survey.marked,
        outside_chars=survey.outside,
        span_share=how.span_share,
        set_aside=tuple((*what, count) for what, count in opened.reasons.most_common()),
        supports=supports,
        columns=_sentence_columns(survey.columns, {item.name for item in numbered}),
        numbered=numbered,
    )


def _further_columns(opened: Reading) -> tuple[str, ...]:
    """Return the columns that are no field, no label and no mark."""
    columns = opened.columns
    used = {columns.by_field[field] for field in columns.present}
    used |= {*columns.label_columns, *columns.marked.names}
    inside = dict.fromkeys(name for row in opened.head for name in nested_names(row))
    within = (
        name
        for name in inside
        if name not in opened.fields
        and hints.is_apart(name, used)
        and held_in(opened.head, name)[0] == {"number"}
    )
    # The number of a row is no score.
    named = (name for name in opened.fields if name not in used and words_of(name)[-1:] != ["id"])
    return (*named, *within)


def _sentence_columns(
    seen: SentenceColumns, numbering: Collection[str]
) -> tuple[SentenceColumn, ...]:
    """Return the columns that hold numbers for sentences, with their AUROC by sentence."""
    columns = []
    for name, (values, labels) in seen.values().items():
        if name not in numbering:
            area, missing = _area_of(values, labels), int(np.isnan(values).sum())
            counts = len(values) - missing, missing, seen.set_aside[name]
            tells = _tells_label(area, len(labels))
            columns.append(SentenceColumn(name, *counts, area, tells, direction_of(name)))
    return tuple(columns)


# Answers of each class that are looked at to see whether labels are inverted.
_LOOKED_AT: Final = 500

# What can be computed from texts without a choice to make.
_SCORES: Final = "rouge_l,novelty,novel_count,sgi,rad,tfg,numbers,entities,length"


@keywords.options_from_keywords(reading=ReadOptions, override=True)
def diagnose(
    source: Source, reading: ReadOptions | None = None, **named: Unpack[ReadKeywords]
) -> profile.Diagnosis:
    """Read a whole source and describe it.

    A row needs a response where the source has responses, and a label where it has a label
    column; whatever else is missing is counted, since some scores do without.

    Parameters
    ----------
    source, reading, format, preset, mapping, ...
        As in `read`: how to read it, as an object or field by field.

    Returns
    -------
    Diagnosis
        Also where no row is usable: then its counts say why.

    Raises
    ------
    DataError
        No such file, its format cannot be guessed, or a named column is not there.
    """
    how, source = fields.optional(reading, ReadOptions, "reading"), reusable(source)
    first = read(source, how, require=(), labelled=False, allow_none=True)
    present, marks = first.columns.present, first.columns.marks
    keep = _further_columns(first)
    require = ("response",) if "response" in present else ()
    has_labels = "label" in present or (marks is not None and marks.gives_labels)
    needs = Needs(keep, require, has_labels, allow_none=True, distinct=True)
    opened = read_needed(source, how, needs)
    first_answers: dict[int | None, list[Example]] = {0: [], 1: [], None: []}
    # What is kept is no rival of the label.
    alone = replace(needs, keep=())
    rivals = read_needed(source, replace(how, quarantine=None), alone).columns.rivals
    disputed = set[str]()
    kinds = {name: np.zeros((2, 2), np.int64) for name in keep if hints.names_kinds(name)}

    def watch(example: Example) -> None:
        for name, counts in kinds.items() if example.label is not None else ():
            value = str(example.columns.get(name) or "").strip().casefold()
            counts[example.label, int(value not in _NO_KIND)] += 1
        for rival in rivals:
            name = rival.reader.column
            beside = value_at(example.columns, name)
            if example.label is not None and rival.contradicts(example.label, beside):
                disputed.add(name)
        answers = first_answers[example.label]
        if len(answers) < _LOOKED_AT and example.contexts and example.response:
            answers.append(example)

    survey = profile.Survey(watched(opened, watch), keep)
    labelled = bool((survey.labels >= 0).any())
    layout = hints.looks(first.head)
    # Scores beside labels are enough; texts are looked for where there is neither.
    scored = labelled and bool(survey.columns) and "response" not in present
    how_labels = opened.columns.labels.described()
    unclear = holds_others(how_labels, opened.n_examples + opened.n_filtered)
    exported = opened.export is not None
    known, advice = _as_published(opened), Suggestion({})
    if not scored:
        advice = suggest(first.head, layout, first.columns, labelled, exported=exported)
    disputed |= {rival.reader.column for rival in rivals if rival.is_mirror}
    if disputed:
        chosen = ",".join(opened.columns.label_columns)
        about = " and ".join((chosen, *sorted(disputed)))
        chosen = next(filter(is_of_people, disputed), chosen)
        advice = Suggestion({**advice.options, "label_column": chosen}, "rivals", about)
    elif known is not None:
        advice = known
    elif unclear and (classes := map_to_fill(how_labels)) is not None:
        spelt = ",".join(f"{value}={name}" for value, name in classes.items())
        inferred = hints.inferred_classes(list(classes))
        of_one = "classes" if "?" in spelt else "known"
        reason = of_one if inferred is None else "inference"
        advice = Suggestion({**advice.options, "label_map": inferred or spelt}, reason)
    elif labelled and not advice.options:
        advice = _other_direction(opened, kinds)
    areas, choice = _inverted(first_answers) or {}, choose_score(opened)
    judge = choice.names[0] if len(choice.names) == 1 and choice.verdict else ""
    speaks = judge not in survey.columns and (hints.speaks_of_score(judge) or direction_of(judge))
    repeated, contradictory = profile.repeats(survey)
    response_chars = survey.chars[:, TEXT_FIELDS.index("response")]
    copies = duplicates.find_copies(survey.sketches)
    cross_split, supports = _at_the_default_split(survey, copies)
    # The group of copies of each answer that has some, by what tells answers apart.
    rows = np.flatnonzero(copies >= 0)
    copied = dict(zip(survey.digests[rows].tolist(), copies[rows].tolist(), strict=True))
    facts = profile.Diagnosis(
        source=opened.source,
        format=opened.format,
        sha256=opened.digest(),
        fields=opened.fields,
        columns={field: opened.columns.by_field[field] for field in sorted(present)},
        rows=opened.n_rows,
        usable=opened.n_examples,
        quarantined=opened.n_quarantined,
        filtered=opened.n_filtered,
        reasons=tuple((*kind, count) for kind, count in opened.reasons.most_common()),
        n_faithful=int(np.count_nonzero(survey.labels == 0)),
        n_hallucinated=int(np.count_nonzero(survey.labels == 1)),
        n_unlabelled=int(np.count_nonzero(survey.labels < 0)),
        groups=profile.group_sizes(survey),
        lengths=profile.text_lengths(survey),
        repeated=repeated,
        contradictory=contradictory,
        copies=duplicates.counted_copies(copies),
        cross_split=cross_split,
        length_auroc=_area_of(np.where(response_chars, response_chars, np.nan), survey.labels),
        supports=supports,
        scores=_score_support(survey),
        numeric_columns=_numeric_columns(survey),
        because=advice.reason,
        about=advice.about,
        answers=advice.answers,
        unread=() if exported else hints.unread_texts(layout, first.columns),
        artefacts=profile.artefacts(survey, copies, _area_against_chance),
        empty_columns=survey.empty_columns,
        inputs=names_of(source),
        reading=opened.how(),
        layout=layout,
        suggested=_with_suggested(how, advice.options),
        verdict={"name": judge, "higher": choice.higher} if speaks else None,
        inverted={name: float(area.estimate or 0) for name, area in areas.items()} or None,
        context_is_answer=profile.by_class(survey.copies, survey.labels),
        context_holds_answer=profile.by_class(survey.quotes, survey.labels),
        warnings=(),
        marks=_look_at_marks(source, how, require, copied),
    )
    spell = partial(fields.spell_option, ReadOptions)
    parameters = {"spell": spell, "either": fields.cli_or_python, "facts": facts}
    parameters["turned"] = fields.spell_words(ReadOptions, facts.reading["turned"])
    warnings = (
        profile.DataFinding(code, say(f"data_findings.{code}", parameters, more))
        for code, more in profile.findings(facts)
    )
    return replace(facts, warnings=tuple(warnings))


def _names_errors_of_faithful(kinds: Mapping[str, NDArray[np.int64]]) -> str:
    """Return a column that tells what is wrong with answers that are read as faithful, if any.

    Parameters
    ----------
    kinds : mapping of str to ndarray of int64, shape (2, 2)
        By label, how many answers a column names no error of, and how many it does.
    """
    for name, counts in kinds.items():
        totals = counts.sum(axis=1)
        if totals.min() >= _FEW and np.subtract(*(counts[:, 1] / totals)) > 0.5:
            return name
    return ""


#: Answers of either label from which on it is no accident where errors are named; and no error.
_FEW: Final = 5
_NO_KIND: Final = frozenset(
    ("", "[]", "{}", "none", '["none"]', "no error", "n/a", "na", "-", "null")
)


def _as_published(opened: Reading) -> Suggestion | None:
    """Return what reads a public data set, by its columns, whose labels are numbers or flags."""
    labels, known = opened.columns.labels, hints.known_as(opened.fields)
    if known is None or labels.is_explicit:
        return None
    described = labels.described()
    others = (described["others"] or {"values": ()})["values"]
    values = {label_key(item["value"]) for item in (*described["values"], *others)}
    reason = known.get("reason", "public")
    if not values <= set(known["values"].split()) or (reason == "inferred" and values <= PLAIN):
        return None
    return Suggestion(known["options"], reason, known["name"])


def _other_direction(opened: Reading, kinds: Mapping[str, NDArray[np.int64]]) -> Suggestion:
    """Return what turns labels of 0 and 1, where other columns say that they mean the opposite."""
    labels = opened.columns.labels
    read = {item["value"].lower() for item in labels.described()["values"]}
    column = _names_errors_of_faithful(kinds)
    if labels.is_explicit or labels.named is not None or not read <= PLAIN or not column:
        return Suggestion({})
    flag, value = labels.turned()
    return Suggestion({flag.strip("-").replace("-", "_"): value}, "kinds", column)


def _area_against_chance(
    values: NDArray[np.float64],
    labels: NDArray[np.int8],
    groups: NDArray[np.int64],
    confidence: float,
) -> tuple[float, float, float]:
    """Return an AUROC with an interval that is as wide as chance alone would make it, or wider."""
    area = ranked(values, labels)
    assert area is not None  # for the type checker: both classes are there
    m, n = (float(np.count_nonzero(labels == label)) for label in (0, 1))
    ties = np.unique(values, return_counts=True)[1].astype(np.float64)
    tied = float((ties**3 - ties).sum()) / ((m + n) * (m + n - 1.0))
    variance = max(area.variance(groups)[0], (m + n + 1.0 - tied) / (12.0 * m * n))
    half = float(-ndtri((1.0 - confidence) / 2.0)) * sqrt(variance)
    return area.value, max(0.0, area.value - half), min(1.0, area.value + half)


def _inverted(first: Mapping[int | None, list[Example]]) -> dict[str, Measure] | None:
    """Return the AUROCs that say that labels are inverted, if they do.

    They tell how much the first answers of each class share with their contexts.
    """
    faithful, hallucinated = first[0], first[1]
    if not (faithful and hallucinated):
        return None
    labels = np.repeat(np.array([0, 1], np.int8), [len(faithful), len(hallucinated)])
    scores = {
        score.name: np.asarray(score.score(faithful + hallucinated).values, dtype=np.float64)
        for score in map(build, parse_specs(",".join(OVERLAPS)))
    }
    return look_inverted(scores, labels)


def _with_suggested(how: ReadOptions, suggested: Mapping[str, str]) -> tuple[str, ...]:
    """Return the options given and suggested, as words of a command line."""
    if not suggested:
        return ()
    words = list(fields.flags(replace(how, strict=False, **cast(Any, dict.fromkeys(suggested)))))
    for name, value in suggested.items():
        given = fields.worded(how, name, (name == "mapping" and how.mapping) or None)[1:]
        words += fields.worded(how, name, [*given, value])
    return tuple(words)


def _at_the_default_split(
    survey: profile.Survey, copies: NDArray[np.int64]
) -> tuple[duplicates.CrossSplitDuplicates | None, tuple[Support, ...]]:
    """Return near-duplicates across the default split, and the guarantees that it allows."""
    labelled = np.flatnonzero(survey.labels >= 0)
    if not labelled.size:
        return None, ()
    named = [survey.groups[i] for i in labelled.tolist()]
    groups = merge_groups(group_numbers(named, len(named)), copies[labelled])
    labels = survey.labels[labelled]
    codes = split(labels, groups, ids=survey.digests[labelled])
    supports = _supports_at(labels, codes, groups)
    if not survey.sketches.exact.any() or len(labelled) < len(survey.labels):
        return None, supports
    ids = survey.ids
    return duplicates.cross_split_duplicates(survey.sketches, codes, groups, ids=ids), supports


def _score_support(survey: profile.Survey) -> tuple[profile.ScoreSupport, ...]:
    there = survey.chars > 0
    supports = []
    for score in map(build, parse_specs(_SCORES)):
        has_all = there[:, [TEXT_FIELDS.index(field) for field in score.requires]].all(axis=1)
        supports.append(profile.ScoreSupport(score.name, tuple(score.requires), int(has_all.sum())))
    return tuple(supports)


def _numeric_columns(survey: profile.Survey) -> tuple[profile.NumericColumn, ...]:
    """Return the columns that hold numbers, with their AUROC against the label."""
    columns = []
    for name, values in survey.columns.items():
        known = values[~np.isnan(values)]
        counts = len(known), len(values) - len(known), len(np.unique(known))
        area = _area_of(values, survey.labels)
        tells = _tells_label(area, int(np.count_nonzero(survey.labels >= 0)))
        apart = hints.stand_in(values)
        columns.append(profile.NumericColumn(name, *counts, area, tells, direction_of(name), apart))
    return tuple(columns)
