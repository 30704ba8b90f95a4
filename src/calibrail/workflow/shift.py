"""What happens to a threshold when answers come from elsewhere, or later?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.engine.local import score_examples
from calibrail.errors import DataError, InputError, TooFewExamplesError
from calibrail.evaluation.shift.labelled import Side, drift, judge_drift, sentence
from calibrail.evaluation.stats.phrases import count, percent
from calibrail.guardrail.frozen import write_atomically
from calibrail.scores.base import Pinning, Score
from calibrail.scores.learned import learns
from calibrail.scores.registry import BASELINES, build, parse_specs
from calibrail.scores.table import ScoreTable
from calibrail.settings import Guarantee, ReadOptions, Undefined
from calibrail.workflow.context import Progress
from calibrail.workflow.run import describe
from calibrail.workflow.run_folder import cost_dict, write_json
from calibrail.workflow.scoring import columns_of, resolve_scores
from calibrail.workflow.sources import Source, open_source
from calibrail.workflow.versions import installed_versions

SCHEMA: Final = "calibrail.shift/1"

#: Groups tested at most; a column with more holds no groups.
MOST_GROUPS: Final = 50


@dataclass(frozen=True, slots=True)
class ShiftRun:
    """What ``calibrail shift`` writes.

    Attributes
    ----------
    content : mapping
        Score, promise and one entry a test under ``tests``, JSON-able.
    tables : tuple of ScoreTable
        The scores behind it.
    """

    content: Mapping[str, Any]
    tables: tuple[ScoreTable, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``shift.json``."""
        return dict(self.content)

    def save(self, folder: str | Path) -> Path:
        """Write ``shift.json``, ``report.html``, ``cost.json`` and ``figures/``."""
        from calibrail.report.shift_page import render_shift_html, shift_figure

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "shift.json", self.content)
        write_json(folder / "cost.json", cost_dict(self.tables[0]))
        write_atomically(folder / "report.html", render_shift_html(self.content).encode("utf-8"))
        (folder / "figures").mkdir(exist_ok=True)
        figure = shift_figure(self.content, standalone=True)
        write_atomically(folder / "figures" / "shift.svg", figure.encode("utf-8"))
        return folder


def shift(
    source: Source,
    score: str | Score,
    *,
    test: Source | None = None,
    by: str | None = None,
    calibrate_on: Sequence[str] = (),
    time: str | None = None,
    periods: int = 4,
    alpha: float = 0.05,
    guarantee: Guarantee = "marginal",
    delta: float = 0.1,
    confidence: float = 0.95,
    undefined: Undefined = "flag",
    reading: ReadOptions | None = None,
    test_reading: ReadOptions | None = None,
    command: str | None = None,
    progress: Progress | None = None,
) -> ShiftRun:
    """Calibrate on some answers, test on others: the drift audit.

    Exactly one of ``test``, ``by`` and ``time`` says what the others are.

    Parameters
    ----------
    source : path, str or iterable of Example
        Labelled answers.
    score : str or Score
        One detector that does not learn.
    test : path, str or iterable of Example, optional
        Other labelled answers: the threshold comes from all of ``source``.
    by : str, optional
        Column of groups (a model, a domain). Each group is tested with a threshold from all the
        others, or from the groups in ``calibrate_on``.
    calibrate_on : sequence of str
        Values of ``by`` that set the threshold.
    time : str, optional
        Column of times: ISO dates or numbers. The earlier half sets the threshold, the rest is
        tested in ``periods`` parts.
    periods : int
        Parts of the later half, 1 or more.
    alpha, guarantee, delta, confidence, undefined
        As in ``calibrate``.
    reading, test_reading : optional
        How to read ``source`` and ``test``; ``test`` is read like ``source`` when left out.
    command : str, optional
        The command that a reader would run to get this again.
    progress : callable, optional
        Called with the number of examples scored so far.

    Raises
    ------
    InputError
        If not exactly one way of splitting is named, or the score learns.
    DataError
        If a side holds no usable answers, a time cannot be read, or there are too many groups.
    TooFewExamplesError
        If no threshold short of flagging everything keeps the promise on any side.
    """
    if sum(way is not None for way in (test, by, time)) != 1:
        raise InputError("name one of test (another file), by (a column of groups) and time")
    if calibrate_on and by is None:
        raise InputError("calibrate_on names groups of a column; name it with by")
    if isinstance(periods, bool) or not isinstance(periods, int) or periods < 1:
        raise InputError(f"periods must be a whole number of at least 1; got {periods!r}")
    detectors = resolve_scores(score)
    if len(detectors) != 1:
        raise InputError(f"shift takes one score; got {', '.join(s.name for s in detectors)}")
    if learns(detectors[0]):
        raise InputError(
            f"{detectors[0].name} learns, and here it would learn from what it is tested on; "
            "calibrate it on one set and certify its guardrail on the other"
        )
    detector = detectors[0]
    reading = reading or ReadOptions()
    column = by if by is not None else time
    table, features = _scored(source, detector, reading, column, progress)
    tables = [table]
    everything = _side(table, features)
    if test is not None:
        other, others = _scored(
            test, detector, test_reading or replace(reading, quarantine=None), None, progress
        )
        shared = [name for name in features if name in others]
        tables.append(other)
        home = Side(
            everything.values, everything.labels, {n: everything.features[n] for n in shared}
        )
        pairs = [("all of the first set", "the other set", home, _side(other, shared))]
    elif by is not None:
        pairs = _by_groups(everything, table.kept[by], by, calibrate_on)
    else:
        assert time is not None
        pairs = _by_time(everything, table.kept[time], time, periods)
    results = []
    failures = list[TooFewExamplesError]()
    for calibrated_on, tested_on, home, away in pairs:
        head = {"calibrated_on": calibrated_on, "tested_on": tested_on}
        try:
            found = drift(
                home, away, alpha=alpha, guarantee=guarantee, delta=delta, undefined=undefined,
                confidence=confidence, tolerance=detector.tolerance,
            )  # fmt: skip
        except TooFewExamplesError as error:
            failures.append(error)
            continue
        results.append({**head, **found})
    if not results:
        raise failures[0]
    judge_drift(results, alpha, confidence)
    for item in results:
        item["sentence"] = sentence(item, alpha)
    pinned = detector.pinned() if isinstance(detector, Pinning) else detector
    content = {
        "schema": SCHEMA,
        "finding": _finding(results, alpha, len(failures)),
        "score": describe(pinned, next(iter(table.columns))),
        "alpha": alpha,
        "guarantee": guarantee,
        "delta": delta if guarantee == "pac" else None,
        "confidence": confidence,
        "undefined": undefined,
        "split": {"by": by, "time": time, "test": test is not None},
        "tests": results,
        "left_out": len(failures),
        "data": {
            "n_examples": sum(map(len, tables)),
            "source": _named(source),
            "test": _named(test),
        },
        "reproduce": {"command": command, "versions": installed_versions()},
    }
    return ShiftRun(content, tuple(tables))


def _scored(
    source: Source,
    detector: Score,
    reading: ReadOptions,
    column: str | None,
    progress: Progress | None,
) -> tuple[ScoreTable, list[str]]:
    """Score one set, with the baselines as features where it holds texts."""
    keep = () if column is None else (column,)
    needed = tuple(dict.fromkeys((*columns_of([detector]), *keep)))
    examples, _ = open_source(source, reading, require=detector.requires, keep=needed)
    first = next(examples, None)
    if first is None:
        raise DataError("there is no usable labelled answer; `calibrail doctor` says why")
    features: list[Score] = []
    if first.response:
        features = [build(spec) for spec in parse_specs(",".join(BASELINES))]
        features = [feature for feature in features if feature.name != detector.name]
    table = score_examples(
        chain((first,), examples), (detector, *features), keep=keep, progress=progress
    )
    if np.isnan(next(iter(table.columns.values()))).all():
        reasons = next(iter(table.reasons.values()), {})
        raise DataError(
            f"the score {detector.name} is undefined everywhere ({next(iter(reasons.values()))})"
        )
    return table, [feature.name for feature in features]


def _side(table: ScoreTable, features: Sequence[str]) -> Side:
    values = next(iter(table.columns.values()))
    return Side(values, table.labels, {name: table.columns[name] for name in features})


def _by_groups(
    everything: Side, cells: Sequence[Any], by: str, calibrate_on: Sequence[str]
) -> list[tuple[str, str, Side, Side]]:
    names = np.array(["" if cell is None else str(cell) for cell in cells], dtype=object)
    groups = sorted(set(names.tolist()))
    if len(groups) < 2:
        raise DataError(f"the column {by!r} holds one value only; a shift needs two groups")
    if len(groups) > MOST_GROUPS:
        raise DataError(
            f"the column {by!r} holds {len(groups):,} different values, more than {MOST_GROUPS}; "
            "name a column of groups, or use --time"
        )
    if unknown := [name for name in calibrate_on if name not in groups]:
        raise InputError(
            f"{by} holds no group {unknown[0]!r}; it holds {', '.join(map(repr, groups[:10]))}"
        )
    home = np.isin(names, list(calibrate_on))
    found = []
    for group in groups:
        if group in calibrate_on:
            continue
        own = names == group
        source = home if calibrate_on else ~own
        said = ", ".join(calibrate_on) if calibrate_on else f"all but {group or '(none)'}"
        found.append((said, group or "(none)", everything.part(source), everything.part(own)))
    if not found:
        raise InputError(f"every group of {by} calibrates, and none is left to test")
    return found


def _by_time(
    everything: Side, cells: Sequence[Any], time: str, periods: int
) -> list[tuple[str, str, Side, Side]]:
    moments = _moments(cells, time)
    order = np.argsort(moments, kind="stable")
    # Answers of one moment stay together.
    half = moments[order[len(order) // 2]]
    home, later = moments < half, moments >= half
    if not home.any():
        raise DataError(f"the column {time!r} holds one time for most answers; nothing is later")
    texts = ["" if cell is None else str(cell) for cell in cells]
    edges = np.quantile(moments[later], np.linspace(0.0, 1.0, periods + 1)[1:-1], method="higher")
    part = np.searchsorted(edges, moments, "right")
    found = []
    for index in range(periods):
        rows = later & (part == index)
        if not rows.any():
            continue
        inside = np.flatnonzero(rows)
        first, last = inside[np.argmin(moments[inside])], inside[np.argmax(moments[inside])]
        name = f"{texts[first]} to {texts[last]}"
        found.append(
            (
                f"before {texts[order[len(order) // 2]]}",
                name,
                everything.part(home),
                everything.part(rows),
            )
        )
    return found


def _moments(cells: Sequence[Any], time: str) -> NDArray[np.float64]:
    """Read times: numbers, or ISO dates with or without a time of day."""
    from datetime import UTC, datetime

    found = np.empty(len(cells))
    for row, cell in enumerate(cells):
        try:
            found[row] = float(cell)
        except (TypeError, ValueError):
            try:
                moment = datetime.fromisoformat(str(cell).strip())
            except ValueError:
                found[row] = np.nan
            else:
                aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
                found[row] = aware.timestamp()
        if not np.isfinite(found[row]):
            raise DataError(
                f"{time}: {str(cell)[:40]!r} (answer {row + 1}) is neither a number nor a date "
                "such as 2026-03-31 or 2026-03-31T12:00:00"
            )
    return found


def _finding(results: Sequence[Mapping[str, Any]], alpha: float, left_out: int) -> str:
    """Return the whole result in one or two sentences."""
    broken = [item for item in results if item["finding"] == "broken"]
    tested = [item for item in results if item["finding"] != "too few"]
    target = percent(1.0 - alpha)
    if not tested:
        said = f"No test holds enough hallucinated answers to say anything about {target}."
    elif not broken:
        said = (
            f"No test contradicts the promise of {target} caught "
            f"({count(len(tested), 'test')}); that is no proof that nothing changes."
        )
    else:
        names = ", ".join(str(item["tested_on"]) for item in broken[:5])
        more = f" and {len(broken) - 5} more" if len(broken) > 5 else ""
        said = (
            f"The promise of {target} caught does not carry over to {names}{more}: "
            f"{len(broken)} of {count(len(tested), 'test')} broken."
        )
        repaired = sum(item["repair"] == "repaired" for item in broken)
        if any(item["repair"] for item in broken):
            said += f" Weighting repairs {repaired} of them."
    if left_out:
        said += f" Left out for too few calibration answers: {count(left_out, 'test')}."
    return said


def _named(source: Source | None) -> str | None:
    if source is None:
        return None
    return str(source) if isinstance(source, str | Path) else "examples in memory"
