"""Selection of a batch with its false discovery rate bounded."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from calibrail import conformal
from calibrail.atomic_files import write_atomically
from calibrail.conformal import p_values
from calibrail.conformal.sequential.audited_calibration import AuditedCalibration
from calibrail.conformal.threshold import add_tolerance
from calibrail.data.duplicates import CopyFinder, CopyGroups
from calibrail.data.example import Example
from calibrail.data.outputs import Output, refuse_foreign, refuse_read
from calibrail.data.reading import Reading
from calibrail.data.sources import Source, spoken
from calibrail.data.values import same_group
from calibrail.errors import DataError, InputError, file_errors
from calibrail.formatting import Scale, Shown
from calibrail.guardrail.decision import Decision
from calibrail.guardrail.runtime import Guardrail, require_answers
from calibrail.options import ReadOptions, Release, SelectionMethod
from calibrail.options.data import judge_of
from calibrail.options.fields import path as as_path
from calibrail.pipelines import calibration_overlap, check, loading
from calibrail.report.messages import say
from calibrail.serialization import plain

#: Cut-offs of the p-value that a table for people shows.
CUTOFFS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
METHODS: Final[tuple[SelectionMethod, ...]] = get_args(SelectionMethod)

#: Why a method promises nothing here.
Obstacle = Literal["grouped_batch", "grouped_labels", "unknown_mix"]


@dataclass(frozen=True, slots=True, repr=False)
class BatchSelection(Shown):
    """What of a batch is released, with the bound for every other choice.

    Attributes
    ----------
    selection : Selection
        Released answers and p-values, in the order of ``ids``.
    bounds : Discoveries
        For every cut-off at once: the most hallucinated answers among the released.
    method : {"bh", "storey", "both-classes"}
        How the batch's share of hallucinated answers entered.
    others : mapping of str to Selection or str
        What each of the other methods would have released, or a code of why it promises nothing.
    ids : tuple of str
        Ids of the answers.
    scores : ndarray of float64, shape (m,)
        Scores, NaN where undefined.
    n_calibration : int
        Hallucinated calibration examples behind the p-values, one a group where groups count once.
    n_labelled : int
        Labelled answers of both classes behind the guardrail.
    n_grouped : int
        Answers that share a group with another of the batch.
    n_undefined, n_errors : int
        Answers without a score, and answers or rows that could not be judged: never released.
    n_seen_before : int
        Calibration examples found in the batch and left out.
    n_copies : int
        Answers that may be copies of an earlier one: these are released together, or not at all.
    source : str
        What the batch is called.
    part : mapping or None
        Which part of the source was read; None where none was left out.
    places : tuple of mapping
        ``row``, and ``file`` where there are several, of each answer of data with rows.
    seen : mapping of int to Decision
        Calibration examples, by their places among all lines.
    files : tuple of Path
        What was read.
    detector_chosen : bool
        Whether the calibration answers chose the detector among others, too: the p-values are
        those of one that was named beforehand.
    labelled_by : str or None
        The judge that labelled the calibration answers; None where people did.
    """

    shown_as = "select"

    selection: conformal.Selection
    bounds: conformal.Discoveries
    method: SelectionMethod
    others: Mapping[SelectionMethod, conformal.Selection | Obstacle]
    ids: tuple[str, ...]
    scores: NDArray[np.float64]
    n_calibration: int
    n_labelled: int
    n_grouped: int
    n_undefined: int
    n_errors: int
    n_seen_before: int
    source: str
    part: Mapping[str, Any] | None = None
    scale: Scale = field(default_factory=Scale)
    places: tuple[Mapping[str, Any], ...] = ()
    seen: Mapping[int, Decision] = field(default_factory=dict)
    n_copies: int = 0
    files: tuple[Path, ...] = ()
    detector_chosen: bool = False
    labelled_by: str | None = None

    def at(self, cutoff: float) -> tuple[int, int]:
        """Return answers with a score and a p-value up to a cut-off; the most hallucinated ones."""
        released = np.count_nonzero((self.selection.p_values <= cutoff) & ~np.isnan(self.scores))
        return int(released), min(int(released), self.bounds.at(cutoff)[1])

    def table(self) -> list[dict[str, Any]]:
        """Return a few cut-offs and the selection's own: released, most hallucinated among them."""
        chosen = self.selection.cutoff if self.selection.n_released else None
        rows = []
        for cutoff in sorted({*CUTOFFS, *(() if chosen is None else (chosen,))}):
            released, most = self.at(cutoff)
            share = most / released if released else None
            row = {"cutoff": cutoff, "released": released, "most_hallucinated": most}
            rows.append({**row, "share": share, "chosen": cutoff == chosen})
        return rows

    def methods(self) -> list[dict[str, Any]]:
        """Return what each method releases and the share of hallucinated it reckons with."""
        names, rows = ("share", "cutoff", "released", "most_hallucinated", "obstacle"), []
        for method in METHODS:
            found = self.selection if method == self.method else self.others[method]
            told: tuple[Any, ...] = (None, None, None, None, found)
            if isinstance(found, conformal.Selection):
                most = self.at(found.cutoff)[1] if found.n_released else 0
                told = found.share, found.cutoff, found.n_released, most, None
            row = dict(zip(names, told, strict=True))
            rows.append({"method": method, "chosen": method == self.method, **row})
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return what ``calibrail select --json`` prints: counts and bounds, no answers."""
        counts = ("n_calibration", "n_labelled", "n_grouped", "n_undefined", "n_errors")
        more = ("n_seen_before", "n_copies", "detector_chosen", "labelled_by")
        found = self.selection
        return {
            "schema": "calibrail.selection/1",
            "source": self.source,
            "part": self.part,
            "n": len(self.ids),
            "n_released": found.n_released,
            "fdr": found.fdr,
            "method": self.method,
            "share": found.share,
            "cutoff": found.cutoff,
            **{name: getattr(self, name) for name in (*counts, *more)},
            "confidence": self.bounds.confidence,
            "most_hallucinated_in_batch": self.bounds.most_hallucinated,
            "n_calibration_for_one": conformal.minimum_n_for_selection(
                found.fdr, (len(self.ids) - self.n_copies) or 1, found.share
            ),
            "table": self.table(),
            "methods": self.methods(),
        }

    def items(self) -> list[dict[str, Any]]:
        """Return id, released, score and p_value of each answer, and where it stands.

        Calibration examples, which count nowhere else, are ``seen_before`` and not released.
        """
        names: tuple[str, ...] = ("id", "released", "score", "p_value")
        p_values = np.where(np.isnan(self.scores), np.nan, self.selection.p_values)
        columns = plain([self.ids, self.selection.released, self.scores, p_values])
        about: dict[str, Any] = {}
        if self.scale.column is not None:
            names = (*names, "column", "column_value")
            columns += [[self.scale.column] * len(self.ids), plain(self.scale.shown(self.scores))]
            about = {"column": self.scale.column, "column_value": None}
        cells = zip(*columns, self.places, strict=True)
        rows = [dict(zip(names, row, strict=True)) | dict(place) for *row, place in cells]
        for at, item in sorted(self.seen.items()):
            nothing = {"released": False, "score": None, "p_value": None, "seen_before": True}
            rows.insert(at, {"id": item.id, **nothing, **about, **item.place})
        return rows

    def lines(self) -> str:
        """Return one JSON object a line, as ``items`` has them."""
        return "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in self.items())

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write ``lines`` to a file, whole or not at all; ``force`` replaces whatever is there."""
        output = Output("", as_path(path, "path"), kind="selection")
        refuse_read([output], self.files)
        refuse_foreign([output], force=force)
        with file_errors(f"cannot write {path}", "; name another place"):
            write_atomically(output.path, self.lines().encode("utf-8", "surrogatepass"))


def select(
    guardrail: Guardrail | str | PathLike[str],
    source: Source,
    *,
    fdr: float,
    method: Literal["auto", SelectionMethod] = "auto",
    confidence: float = 0.95,
    reading: ReadOptions | None = None,
    progress: loading.Progress | None = None,
) -> BatchSelection:
    """Release what can be released of a batch of answers with the false discovery rate bounded.

    Where the batch's hallucinated answers come from the source of the calibration ones, their
    expected share among the released is at most ``fdr`` (`Release` says what a method assumes
    besides); by the method ``bh``, at most ``fdr`` times their share in the batch. For independent
    answers the number of hallucinated ones below every cut-off of the p-value is bounded at once,
    with ``confidence``. Nothing is drawn by chance. What may be copies of one answer counts once
    in the expected share, and is released together or not at all; in the bounds each of them
    counts.

    Parameters
    ----------
    guardrail : Guardrail
        Its detector and calibration scores give the p-values; its threshold plays no part. Where it
        counts groups once, one calibration answer of each group does.
    source : path, str or iterable of Example
        The batch, not the answers that the guardrail was calibrated on. Labels are not read.
    fdr, method, confidence
        As for `Release`.

    Raises
    ------
    DataError
        If there is no answer.
    InputError
        If the method promises nothing for this guardrail and batch, or the guardrail has thresholds
        by group: its p-values then do not come from one set of exchangeable scores. Also where it
        counts groups once and the batch holds several answers of one.
    """
    guardrail = Guardrail.coerce(guardrail)
    release = Release(fdr, method, confidence)
    batch, read = NewAnswers(guardrail), list[Reading]()

    def decisions() -> Iterator[Decision]:
        decided = check.decide_source(
            guardrail, source, reading=reading, wanted=batch.admits, opened=read.append
        )
        for done, decision in enumerate(decided, start=1):
            yield decision
            if progress is not None:
                progress(done)

    result = select_decided(batch, decisions(), release, spoken(source))
    if not result.ids:
        raise DataError(say("refused.nothing_to_select", n_seen_before=batch.n_seen_before))
    return replace(result, part=read[0].part(), files=read[0].files)


class NewAnswers:
    """Which answers of a batch did not set the guardrail's threshold, and how they are grouped.

    Parameters
    ----------
    guardrail : Guardrail
        What decides about them.

    Raises
    ------
    InputError
        If the guardrail has thresholds by group.
    """

    def __init__(self, guardrail: Guardrail) -> None:
        require_answers(guardrail.config, "select")
        if guardrail.rule.groups is not None:
            raise InputError(say("refused.select_one_threshold"))
        self.guardrail = guardrail
        self._fresh, self._groups = calibration_overlap.Fresh(guardrail), Counter[str]()
        self._known_by = calibration_overlap.KnownBy()
        self._finder = CopyFinder(loading.source_columns([guardrail.score]))

    def admits(self, examples: Sequence[Example]) -> list[bool]:
        """Return of some answers which of them may be released at all, and count these."""
        admitted = self._fresh.admits(examples)
        for example in compress(examples, admitted):
            self._known_by.add(example)
            self._finder.add(example)
            if example.group is not None:
                self._groups[same_group(example.group)] += 1
        return admitted

    def copies(self) -> CopyGroups:
        """Return which of those that were admitted may be copies; no other can be admitted then."""
        return self._finder.finish(self._known_by.digests, self._known_by.spelt)

    @property
    def n_seen_before(self) -> int:
        """Calibration examples so far."""
        return self._fresh.n_seen_before

    @property
    def n_grouped(self) -> int:
        """Answers so far that share a group with another."""
        return sum(size for size in self._groups.values() if size > 1)


def select_decided(
    batch: NewAnswers, decisions: Iterable[Decision], release: Release, source: str
) -> BatchSelection:
    """Return what is released of answers that were decided about.

    Parameters
    ----------
    batch : NewAnswers
        Has admitted the answers once ``decisions`` are all taken.
    decisions : iterable of Decision
        About each of them; those that were seen before may stand among them.
    release : Release
        What is promised of those that are released.
    source : str
        What the batch is called.

    Raises
    ------
    InputError
        As for ``select``.
    """
    guardrail, calibration = batch.guardrail, batch.guardrail.rule.calibration
    decided = list(decisions)
    seen = {at: item for at, item in enumerate(decided) if item.cause.code == "seen_before"}
    decided = [item for at, item in enumerate(decided) if at not in seen]
    rows = [(item.id, item.p_value, item.score, item.outcome, item.place) for item in decided]
    ids, *numbers, outcomes, places = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    # What is undefined is NaN.
    p, scores = np.array(numbers, dtype=np.float64)
    n, n_grouped = calibration.n, batch.n_grouped
    if isinstance(calibration, AuditedCalibration):
        raise InputError(say("refused.weighed_p_values"))
    if isinstance(calibration, conformal.ClusteredCalibration):
        n = calibration.n_clusters
        if n_grouped:
            raise InputError(say("refused.select_grouped", n_grouped=n_grouped, n=len(ids)))
        # An undefined calibration score is above every other: it releases nothing.
        drawn, defined = calibration.one_per_cluster(), ~np.isnan(scores)
        ordered = np.sort(np.where(np.isnan(drawn), np.inf, drawn))
        p = np.full(len(scores), np.nan)
        p[defined] = p_values(ordered, add_tolerance(scores[defined], guardrail.score.tolerance))
    grouped, data = n_grouped > 0, guardrail.config.data
    # A row that cannot be used was never admitted.
    admitted = np.array([item.cause.row is None for item in decided], np.bool_)
    copies = batch.copies()
    member, p = _shared(p, admitted, copies.together)
    every, p = p, p[np.unique(member, return_index=True)[1]]
    shares: dict[SelectionMethod, float | Obstacle] = {"bh": 1.0}
    shares["storey"] = "grouped_batch" if grouped else conformal.storey_share(p, n)
    if isinstance(calibration, conformal.ClusteredCalibration):
        shares["both-classes"] = "grouped_labels"
    elif data.n_hallucinated is None:
        shares["both-classes"] = "unknown_mix"
    else:
        shares["both-classes"] = conformal.labelled_share(data.n_hallucinated, data.n_examples)
    bounds = _discoveries(p, np.bincount(member), n, release.confidence)
    if copies.n_near:
        # Near copies may be answers of their own, too: the higher bound holds for either.
        single, _ = _shared(every, admitted, copies.same)
        each = every[np.unique(single, return_index=True)[1]]
        other = _discoveries(each, np.bincount(single), n, release.confidence)
        total = max(bounds.most_hallucinated, other.most_hallucinated)
        bounds = _bounded(bounds, bounds.released, np.maximum(bounds.most, other.most), total)

    def of_rows(share: float) -> conformal.Selection:
        """Return a selection of answers as one of the rows that each of them has."""
        chosen, defined = conformal.conformal_selection(p, release.fdr, share), ~np.isnan(every)
        shared = np.where(defined, chosen.p_values[member], 1.0)
        return replace(chosen, released=chosen.released[member] & defined, p_values=shared)

    found: dict[SelectionMethod, conformal.Selection | Obstacle] = {
        name: share if isinstance(share, str) else of_rows(share) for name, share in shares.items()
    }
    automatic: SelectionMethod = "bh" if grouped else "storey"
    chosen = automatic if release.method == "auto" else release.method
    selection = found.pop(chosen)
    if not isinstance(selection, conformal.Selection):
        raise InputError(say(f"refused.{selection}"))
    failed = np.array(outcomes) == "error"
    return BatchSelection(
        selection=selection,
        bounds=bounds,
        method=chosen,
        others=found,
        ids=ids,
        scores=scores,
        n_calibration=n,
        n_labelled=guardrail.config.data.n_examples,
        n_grouped=n_grouped,
        n_undefined=int((np.isnan(scores) & ~failed).sum()),
        n_errors=int(failed.sum()),
        n_seen_before=batch.n_seen_before,
        source=source,
        scale=guardrail.scale,
        places=places,
        seen=seen,
        n_copies=len(ids) - len(p),
        detector_chosen=guardrail.config.detector_chosen,
        labelled_by=judge_of(data.reading),
    )


def _shared(
    p_values: NDArray[np.float64], admitted: NDArray[np.bool_], copies: NDArray[np.int64]
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return which answer each row is one of, and of copies the highest p-value for all of them."""
    groups = np.full(len(p_values), -1, np.int64)
    groups[admitted] = copies
    alone = groups.max(initial=-1) + 1 + np.arange(len(groups))
    member = np.unique(np.where(groups >= 0, groups, alone), return_inverse=True)[1]
    highest = np.full(member.max(initial=-1) + 1, np.nan)
    np.fmax.at(highest, member, p_values)
    return member, np.where(np.isnan(p_values), np.nan, highest[member])


def _discoveries(
    p_values: NDArray[np.float64], sizes: NDArray[np.intp], n: int, confidence: float
) -> conformal.Discoveries:
    """Return bounds of answers as bounds of their rows: the most rows that so many can have."""
    bounds = conformal.discoveries(p_values, n, confidence)
    if len(sizes) == sizes.sum():
        return bounds
    p_values = np.where(np.isnan(p_values), 1.0, p_values)
    rows = []
    for cutoff, of in zip(bounds.cutoffs.tolist(), bounds.most.tolist(), strict=True):
        largest = np.sort(sizes[p_values <= cutoff])[::-1]
        rows.append((int(largest.sum()), int(largest[:of].sum())))
    released, most = np.array(rows, np.int64).reshape(-1, 2).T
    total = int(np.sort(sizes)[::-1][: bounds.most_hallucinated].sum())
    return _bounded(bounds, released, most, total)


def _bounded(
    bounds: conformal.Discoveries, released: NDArray[np.int64], most: NDArray[np.int64], total: int
) -> conformal.Discoveries:
    """Return bounds with other counts."""
    return replace(
        bounds, released=released, most=most, proportion=most / released, most_hallucinated=total
    )
