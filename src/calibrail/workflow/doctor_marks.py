"""What does a file support, sentence by sentence?"""

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from calibrail.data.columns import Needs
from calibrail.data.copies import united
from calibrail.data.mark_look import MarkLook, SentenceColumn
from calibrail.data.mark_profile import MarkSurvey
from calibrail.data.profile import median_and_p95
from calibrail.data.reader import read, read_needed
from calibrail.data.reading import Reading
from calibrail.data.sentence_columns import SentenceColumns, cells_of_sentences
from calibrail.data.sources import Source
from calibrail.data.splits import group_numbers, split
from calibrail.data.support import Support
from calibrail.settings import ReadOptions
from calibrail.workflow.doctor_measures import area_of, supports_at, tells_label


def look_at_marks(
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
    keep = (*further_columns(looked), *cells_of_sentences(looked.head, marked.sentences))
    needs = Needs(
        tuple(dict.fromkeys(keep)), require, allow_none=True, by_sentence=True, any_length=True
    )
    opened = read_needed(source, how, needs)
    survey = MarkSurvey(opened, how.span_share, keep)
    supports: tuple[Support, ...] = ()
    if len(survey.labels):
        copied = np.array([copies.get(digest, -1) for digest in survey.digests.tolist()], np.int64)
        groups = united(group_numbers(survey.groups, len(survey.groups)), copied)
        supports = supports_at(
            survey.labels, split(survey.labels, groups, ids=survey.digests), groups
        )
    median, p95 = median_and_p95(survey.sentences)
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
        wide=survey.wide.finish(),
        numbered=numbered,
    )


def further_columns(opened: Reading) -> tuple[str, ...]:
    """Return the columns that are no field, no label and no mark."""
    columns = opened.columns
    used = {columns.by_field[field] for field in columns.present}
    used |= {*columns.label_columns, *columns.marked.names}
    return tuple(name for name in opened.fields if name not in used)


def _sentence_columns(
    seen: SentenceColumns, numbering: Collection[str]
) -> tuple[SentenceColumn, ...]:
    """Return the columns that hold numbers for sentences, with their AUROC by sentence."""
    columns = []
    for name, (values, labels) in seen.values().items():
        if name in numbering:
            continue
        area, missing = area_of(values, labels), int(np.isnan(values).sum())
        tells = tells_label(area, len(labels))
        aside = seen.set_aside[name]
        columns.append(SentenceColumn(name, len(values) - missing, missing, aside, area, tells))
    return tuple(columns)
