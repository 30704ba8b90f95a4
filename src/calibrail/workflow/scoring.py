"""How do labelled answers become a table of scores with a split?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from calibrail.data.duplicates import cross_split_duplicates
from calibrail.data.example import TEXT_FIELDS, Example
from calibrail.data.reading import Reading, read
from calibrail.data.sketches import Sketcher
from calibrail.data.splits import FIT, split, split_from_column
from calibrail.engine.local import score_examples
from calibrail.errors import DataError, InputError
from calibrail.scores.base import Demanding, Fittable, Score
from calibrail.scores.learned import learns
from calibrail.scores.registry import BASELINES, build, parse_specs
from calibrail.scores.table import ScoreTable

#: Share of the data that a score learns from, where nothing else is said.
FIT_SHARE: Final = 0.3

#: Called with the number of examples scored so far.
Progress = Callable[[int], None]

#: A file, a folder, ``example:NAME``, or examples that are already in memory.
Source = str | Path | Iterable[Example]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read a file; every field has the meaning it has in ``calibrail.read``."""

    format: str | None = None
    preset: str | None = None
    mapping: Mapping[str, str] | None = None
    label_column: str | None = None
    group_column: str | None = None
    id_column: str | None = None
    strict: bool = False
    quarantine: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SplitOptions:
    """How to split: seeded shares, or the user's own column.

    Without a share to fit, none is kept, or ``FIT_SHARE`` where a score learns; without one to
    calibrate, it is half of the rest.
    """

    seed: int = 0
    calibration_share: float | None = None
    fit_share: float | None = None
    column: str | None = None

    def shares(self, learning: bool) -> tuple[float, float]:
        """Return the shares that calibrate and that fit."""
        fit = self.fit_share
        if fit is None:
            fit = FIT_SHARE if learning and self.column is None else 0.0
        share = self.calibration_share
        return ((1.0 - fit) / 2.0 if share is None else share), fit


@dataclass(frozen=True, slots=True)
class Scored:
    """A table of scores, where its rows belong, and what is known of its origin.

    Attributes
    ----------
    table : ScoreTable
        One row per example, one column per score.
    codes : ndarray of int8, shape (n,)
        FIT, CALIBRATION or TEST.
    detectors : tuple of Score
        What was asked for, in order.
    baselines : tuple of str
        Which baselines the data has the texts for.
    data : mapping
        Source, digests and counts, JSON-able: the report's ``data``.
    """

    table: ScoreTable
    codes: NDArray[np.int8]
    detectors: tuple[Score, ...]
    baselines: tuple[str, ...]
    data: Mapping[str, Any]


def resolve_scores(scores: str | Score | Sequence[str | Score]) -> tuple[Score, ...]:
    """Turn names, specs such as ``"rad:weighting=question"`` or objects into scores."""
    items: list[str | Score]
    items = [scores] if isinstance(scores, str | Score) else list(scores)
    built: list[Score] = []
    for item in items:
        if isinstance(item, str):
            built.extend(build(spec) for spec in parse_specs(item))
        else:
            built.append(item)
    return tuple(built)


def open_source(
    source: Source,
    reading: ReadOptions,
    *,
    require: Sequence[str],
    keep: Sequence[str] = (),
    labelled: bool = True,
    allow_none: bool = False,
) -> tuple[Iterator[Example], Reading | None]:
    """Open examples for one streaming pass; the reading is None for examples in memory."""
    if not isinstance(source, str | Path):
        return iter(source), None
    opened = read(
        source,
        format=reading.format,
        preset=reading.preset,
        mapping=reading.mapping,
        label_column=reading.label_column,
        group_column=reading.group_column,
        id_column=reading.id_column,
        keep=tuple(keep),
        # Answers without samples are read, and the score that wants them is undefined there.
        require=tuple(name for name in require if name in TEXT_FIELDS),
        strict=reading.strict,
        quarantine=reading.quarantine,
        labelled=labelled,
        options=reading.options,
        allow_none=allow_none,
    )
    return (example for example in opened), opened


def score_source(
    source: Source,
    scores: str | Score | Sequence[str | Score],
    *,
    reading: ReadOptions | None = None,
    splitting: SplitOptions | None = None,
    with_baselines: bool = True,
    labelled: bool = True,
    keep: Sequence[str] = (),
    progress: Progress | None = None,
) -> Scored:
    """Read, score and split in one streaming pass; no text is kept.

    The values of the columns named in ``keep`` stand in the table's ``kept``.

    Raises
    ------
    DataError
        If no row is usable or a split is impossible.
    """
    reading = reading or ReadOptions()
    splitting = splitting or SplitOptions()
    detectors = resolve_scores(scores)
    require = tuple(dict.fromkeys(name for score in detectors for name in score.requires))
    asked = (*keep, *((splitting.column,) if splitting.column is not None else ()))
    columns = tuple(dict.fromkeys(asked))
    needed = tuple(dict.fromkeys((*columns_of(detectors), *columns)))
    learning = any(map(learns, detectors))
    objects = [scores] if not isinstance(scores, Sequence) else scores
    learnt = [
        score.name
        for score in objects
        if isinstance(score, Fittable) and isinstance(score, Score) and score.fitted
    ]
    if learning:
        # Once to see who belongs to the fit split, once to learn, and then as always.
        if not isinstance(source, str | Path):
            source = list(source)
        detectors = _fitted(detectors, source, reading, splitting, require, needed)
    examples, opened = open_source(source, reading, require=require, keep=needed, labelled=labelled)
    first = next(examples, None)
    if first is None:
        raise DataError("there is no example to score; the source is empty")
    baselines: tuple[Score, ...] = ()
    if with_baselines and first.response:
        named = {score.name for score in detectors}
        baselines = tuple(build(spec) for spec in parse_specs(",".join(BASELINES)))
        baselines = tuple(score for score in baselines if score.name not in named)
    # Scores without texts have nothing that could be alike.
    sketcher = Sketcher() if first.question or first.response else None
    n_read = 0

    def watched() -> Iterator[Example]:
        nonlocal n_read
        for example in chain((first,), examples):
            if sketcher is not None:
                sketcher.add(example)
            n_read += 1
            yield example

    table = score_examples(watched(), (*detectors, *baselines), keep=columns, progress=progress)
    groups = group_codes(table)
    codes = _codes(table, splitting, learning)
    calibration_share, fit_share = splitting.shares(learning)
    duplicates = (
        None if sketcher is None else cross_split_duplicates(sketcher.finish(), codes, groups)
    )
    data: dict[str, Any] = {
        "source": str(source) if isinstance(source, str | Path) else "examples in memory",
        "format": opened.format if opened is not None else "examples",
        "sha256": opened.digest() if opened is not None else None,
        "n_examples": n_read,
        "n_quarantined": opened.n_quarantined if opened is not None else 0,
        "split": {
            "column": splitting.column,
            "seed": None if splitting.column is not None else splitting.seed,
            "calibration_share": calibration_share,
            "fit_share": fit_share,
        },
        "near_duplicates": None if duplicates is None else duplicates.to_dict(table.ids),
        "n_truncated": table.n_truncated,
        "n_cut": table.n_cut,
        "learnt_before": learnt,
    }
    return Scored(table, codes, detectors, tuple(score.name for score in baselines), data)


def columns_of(scores: Iterable[Score]) -> tuple[str, ...]:
    """Return the columns of the data that scores read."""
    return tuple(dict.fromkeys(name for score in scores for name in getattr(score, "columns", ())))


def _codes(table: ScoreTable, splitting: SplitOptions, learning: bool) -> NDArray[np.int8]:
    """Return where each row belongs."""
    if splitting.column is not None:
        return split_from_column(
            table.kept[splitting.column], table.groups.to_pylist(), column=splitting.column
        )
    calibration_share, fit_share = splitting.shares(learning)
    return split(
        table.labels,
        group_codes(table),
        seed=splitting.seed,
        calibration_share=calibration_share,
        fit_share=fit_share,
    )


def _fitted(
    detectors: Sequence[Score],
    source: Source,
    reading: ReadOptions,
    splitting: SplitOptions,
    require: Sequence[str],
    keep: Sequence[str],
) -> tuple[Score, ...]:
    """Return the scores with those that learn fitted to the fit split."""
    # What is unusable is set aside when the scores are computed.
    quiet = replace(reading, quarantine=None)
    examples, _ = open_source(source, quiet, require=require, keep=keep)
    codes = _codes(score_examples(examples, (), keep=keep), splitting, learning=True)
    if not (codes == FIT).any():
        names = ", ".join(score.name for score in detectors if learns(score))
        remedy = (
            "give it a share with --fit-share 0.3"
            if splitting.column is None
            else f"mark its rows as fit in the column {splitting.column!r}"
        )
        raise InputError(
            f"{names} learns from examples of its own, and none are set aside; {remedy}"
        )
    examples, _ = open_source(source, quiet, require=require, keep=keep)
    chosen = [example for example, code in zip(examples, codes, strict=True) if code == FIT]
    fitted = []
    for score in detectors:
        if learns(score):
            for model in score.models if isinstance(score, Demanding) else ():
                # In whichever order scores learn, the same examples give the same state.
                model.forget()
            fitted.append(cast(Fittable, score).fit(chosen))
        else:
            fitted.append(score)
    return tuple(fitted)


def group_codes(table: ScoreTable) -> NDArray[np.int64]:
    """Return one integer per group; an example without a group is a group of its own."""
    encoded = table.groups.dictionary_encode()
    indices = encoded.indices
    # Read from the buffers: Arrow's own conversion imports pandas where it is installed.
    stored = np.frombuffer(indices.buffers()[1], dtype=indices.type.to_pandas_dtype())
    codes = stored[indices.offset : indices.offset + len(indices)].astype(np.int64)
    if indices.null_count:
        bits = np.frombuffer(indices.buffers()[0], dtype=np.uint8)
        valid = np.unpackbits(bits, bitorder="little")[indices.offset :][: len(indices)]
        codes[valid == 0] = len(encoded.dictionary) + np.arange(indices.null_count)
    return codes


def remarks(scored: Scored) -> tuple[str, ...]:
    """Return what a reader of any report on this data should know about it."""
    said = [lesson for score in scored.detectors for lesson in getattr(score, "lessons", ())]
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


def score_only(
    source: Source,
    scores: str | Score | Sequence[str | Score],
    *,
    reading: ReadOptions | None = None,
    progress: Progress | None = None,
) -> tuple[ScoreTable, int]:
    """Score every example, labelled or not; return the table and the number of unusable rows."""
    detectors = resolve_scores(scores)
    if names := ", ".join(score.name for score in detectors if learns(score)):
        raise InputError(
            f"{names} learns from labelled examples before it can score; use calibrate or compare, "
            "or score with the guardrail that came of it"
        )
    require = tuple(dict.fromkeys(name for score in detectors for name in score.requires))
    examples, opened = open_source(
        source,
        reading or ReadOptions(),
        require=require,
        keep=columns_of(detectors),
        labelled=False,
    )
    table = score_examples(examples, detectors, progress=progress)
    return table, opened.n_quarantined if opened is not None else 0
