"""Log lines, labels and judge labels of a watch."""

import math
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import DECISIONS
from calibrail.data import read
from calibrail.data.example import RowProblem
from calibrail.errors import CalibrailError, DataError, InputError, error_text
from calibrail.guardrail.decision import Cause, parse_cause
from calibrail.guardrail.decision_log.reader import Cursor, LogCounts, Logged, LogSource, read_on
from calibrail.guardrail.decision_rule import frozen_rule
from calibrail.guardrail.file import FrozenConfig
from calibrail.labelling.folder import agreed_on
from calibrail.labelling.log_sampling import LabelledSample, read_sample
from calibrail.monitoring import promise as draws
from calibrail.monitoring.history import Rows
from calibrail.monitoring.prevalence import JudgeSample, prevalence_status
from calibrail.monitoring.promise import promise_status
from calibrail.options import Requirement, runtime
from calibrail.options.data import judge_of
from calibrail.pipelines.run import frozen_limits, refuse_other_flags
from calibrail.report.documents.guardrail import skipped
from calibrail.report.messages import say

_LARGEST: Final = sys.float_info.max

#: Guardrails, rows and problems that are named; all are counted.
_NAMED: Final = 20


class OwnDecisions:
    """Tells the decisions of one guardrail from those that it did not make.

    Parameters
    ----------
    config : FrozenConfig
        The guardrail; its detector is not needed.
    """

    def __init__(self, config: FrozenConfig) -> None:
        self._digest, self._tolerance = config.digest, config.score.tolerance
        self._rule, self._failure = frozen_rule(config), config.policy.failure
        # Where a line does not name its group, the threshold beside the score does.
        groups = self._rule.groups
        self._groups: dict[float, str] = {} if groups is None else groups.deciding()
        self._thresholds = {*self._groups} or {float(self._rule.thresholds(1)[0])}

    def usable(self, lines: Sequence[Logged], tally: LogCounts) -> list[Logged]:
        """Return the lines that hold decisions of this guardrail, as its frozen rule gives them.

        Every other one is counted, and named unless it is another guardrail's: one without the
        fields of a decision, one whose outcome is not that of its score, and one that names no
        guardrail and bears a threshold that this one does not have.
        """
        decisions = [line for line in lines if self._is_own(line, tally)]
        scored = [line for line in decisions if line.content["score"] is not None]
        scores = np.array([line.content["score"] for line in scored], np.float64)
        groups = None
        if self._rule.groups is not None:
            groups = [self._group(line.content) for line in scored]
        codes = iter(self._rule.decide(scores, groups, self._tolerance).tolist())
        own = []
        for line in decisions:
            content = line.content
            has_score = content["score"] is not None
            rule = DECISIONS[next(codes)] if has_score else self._without_score(content)
            if rule == content["outcome"]:
                own.append(line)
                continue
            given = {name: content[name] for name in ("score", "outcome")}
            tally.refuse("outcome", line.file, line.number, **given, rule=rule)
        tally.used += len(own)
        return own

    def _is_own(self, line: Logged, tally: LogCounts) -> bool:
        content = line.content
        digest = content.get("guardrail", self._digest)
        if digest != self._digest:
            tally.skip("other_guardrail")
            name = str(digest)[:80]
            if name in tally.others or len(tally.others) < _NAMED:
                tally.others[name] = tally.others.get(name, 0) + 1
            return False
        score, cause = content.get("score", ""), None
        texts = all(isinstance(content.get(name), str) for name in ("id", "outcome", "reason"))
        if texts and (score is None or is_number(score)):
            with suppress(InputError):
                cause = parse_cause(content)
        if cause is None:
            tally.refuse("malformed", line.file, line.number)
        elif cause.code == "seen_before":
            tally.skip("seen_before")
        elif "guardrail" not in content and not self._has(content, cause):
            # What an older version of `calibrail check` wrote names none: its threshold tells.
            tally.refuse("threshold", line.file, line.number, threshold=content.get("threshold"))
        else:
            return True
        return False

    def _has(self, content: Any, cause: Cause) -> bool:
        """Return whether the threshold beside a score is one of this guardrail's."""
        threshold = content.get("threshold")
        if threshold is None and self._groups and cause.code == "row_unusable":
            return True
        return (threshold is None or is_number(threshold)) and _edge(threshold) in self._thresholds

    def _group(self, content: Any) -> str:
        if isinstance(name := content.get("group"), str):
            return name
        threshold = content.get("threshold")
        known = threshold is None or is_number(threshold)
        return self._groups.get(_edge(threshold), "") if known else ""

    def _without_score(self, content: Any) -> str:
        cause = parse_cause(content)
        if cause.code == "score_undefined":
            return self._rule.undefined
        if cause.code == "row_unusable":
            return "error"
        return self._failure if cause.failed else ""


#: Why a line that should hold a decision of this guardrail cannot be used.
_REFUSED: Final = ("other_guardrail", "threshold", "outcome", "malformed", "changed", "time")


def none_used(tally: LogCounts, config: FrozenConfig) -> str | None:
    """Return why no line of a log can be used; None where one was, or none should have been.

    Parameters
    ----------
    tally : Tally
        What was met in the log.
    config : FrozenConfig
        The guardrail.
    """
    reasons = {code: tally.skipped[code] for code in _REFUSED if code in tally.skipped}
    n = sum(reasons.values())
    if tally.used or not n:
        return None
    first = next((item for item in tally.findings if item.code in reasons), None)
    where = "" if first is None else f", the first in {first.file}, line {first.line}"
    if reasons.keys() == {"malformed"}:
        return error_text("lines_of_no_guardrail", n=n, where=where)
    listed = ", ".join(f"{count:,} {skipped(code)}" for code, count in reasons.items())
    others = ", ".join(f"{name:.19}... ({count:,})" for name, count in tally.others.items())
    seen = f"{listed}{where}; they are of {others}" if others else f"{listed}{where}"
    return error_text("decisions_of_others", n=n, seen=seen, config=config)


def rows_of(lines: Sequence[Logged]) -> Rows:
    """Return usable lines as what a watch takes, in their order."""
    contents = [line.content for line in lines]
    traffic = [_traffic(content) for content in contents]
    undefined = [parse_cause(content).code == "score_undefined" for content in contents]
    return Rows.of(
        [content["score"] for content in contents],
        [content["outcome"] != "pass" for content in contents],
        undefined=undefined,
        failed=[
            content["score"] is None and not row
            for content, row in zip(contents, undefined, strict=True)
        ],
        time=[line.moment for line in lines],
        question_length=_numbers(traffic, "question"),
        response_length=_numbers(traffic, "response"),
        chunks=_numbers(traffic, "chunks"),
        language=[text_in(item.get("language")) for item in traffic],
        ref=[(line.chain, line.seq, line.content["id"]) for line in lines],
    )


def _traffic(content: Any) -> Any:
    """Return lengths and language; of a line with texts that lacks them, what the texts give."""
    if isinstance(given := content.get("traffic"), dict):
        return given
    texts = {name: content.get(name) for name in ("question", "response")}
    lengths: dict[str, int] = {k: len(it) for k, it in texts.items() if isinstance(it, str)}
    if isinstance(chunks := content.get("contexts"), list):
        lengths["chunks"] = len(chunks)
    return lengths


def _numbers(traffic: Sequence[Any], name: str) -> NDArray[np.float64]:
    values = (item.get(name) for item in traffic)
    return np.array([x if is_number(x) and x >= 0 else math.nan for x in values], np.float64)


def is_number(value: Any) -> bool:
    """Return whether a value is a number that a float holds, and finite."""
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return known and -_LARGEST <= value <= _LARGEST


def text_in(value: Any) -> str | None:
    """Return a text; None where the value is none."""
    return value if isinstance(value, str) else None


def _edge(threshold: float | None) -> float:
    """Return a threshold as rules have it; none at all flags everything."""
    return -math.inf if threshold is None else float(threshold)


def _states(paths: Iterable[Path]) -> dict[str, tuple[int, int]]:
    """Return the size of each file, and when it was written."""
    states: dict[str, tuple[int, int]] = {}
    with suppress(OSError):
        for path in paths:
            state = path.stat()
            states[path.name] = state.st_size, state.st_mtime_ns
    return states


class JudgeLabels:
    """A judge's labels of logged answers, by their ids; counted in the log as it grows.

    Parameters
    ----------
    file : Path
        Rows with ``id`` and ``label``, in any format that calibrail reads.
    config : FrozenConfig
        The guardrail.
    sources : sequence of Path or "-"
        Its log, which is read once more for these labels.

    Attributes
    ----------
    error : CalibrailError or None
        Why the file cannot be read now; what was read of it before goes on to count.

    Raises
    ------
    InputError
        The log comes on standard input, which cannot be read twice.
    """

    def __init__(self, file: Path, config: FrozenConfig, sources: Sequence[LogSource]) -> None:
        if "-" in sources:
            raise InputError(say("refused.judge_needs_files"))
        self._file, self._own, self._sources = file, OwnDecisions(config), sources
        self.error: CalibrailError | None = None
        self._labels: dict[str, int] = {}
        self._refused: list[str] = []
        self._n_refused = self._n_contradicting = 0
        self._begin_anew()
        self._seen: object = None
        self.changed()

    def changed(self) -> bool:
        """Read the file where it has changed; return whether it has."""
        if (now := _states([self._file])) == self._seen:
            return False
        self._seen, self.error = now, None
        try:
            if not now:
                raise DataError(f"cannot read the judge's labels {self._file}: it is not there")
            self._read()
        except CalibrailError as error:
            self.error = error
        return True

    def _read(self) -> None:
        labels: dict[str, int] = {}
        contradicting, unusable = dict[str, None](), list[RowProblem]()
        rows = read(self._file, require=(), repeats=True)

        def note(problem: RowProblem) -> None:
            if len(unusable) < _NAMED:
                unusable.append(problem)

        rows.told = note
        for row in rows:
            if row.label is not None and labels.setdefault(row.id, row.label) != row.label:
                contradicting[row.id] = None
        named = [
            f"judge's labels, row {item.row}: {item.field}: {item.entry()['reason']}"
            for item in unusable
        ]
        named += [say("monitor.contradicting", name=name) for name in contradicting]
        self._refused, self._n_contradicting = named[:_NAMED], len(contradicting)
        self._n_refused = rows.n_quarantined + len(contradicting)
        self._labels = {name: labels[name] for name in labels if name not in contradicting}
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._cursor, self._counts, self._ids = Cursor(), Counter[tuple[bool, int]](), set[str]()

    def judged(self) -> JudgeSample:
        """Return what the judge says, counted among all lines of the log so far."""
        tally = LogCounts()
        for block in read_on(self._sources, self._cursor, tally):
            for line in self._own.usable(block, tally):
                if (label := self._labels.get(line.content["id"])) is not None:
                    self._counts[line.content["outcome"] != "pass", label] += 1
                    self._ids.add(line.content["id"])
        flagged, passed = (
            (self._counts[side, 1], self._counts[side, 0] + self._counts[side, 1])
            for side in (True, False)
        )
        return JudgeSample(self._labels, flagged, passed)

    def status(self) -> dict[str, Any]:
        """Return what became of the rows of the file."""
        trouble = None if self.error is None else str(self.error)
        return {
            "n_labels": len(self._labels),
            "n_not_in_log": len(self._labels) - len(self._ids),
            "n_contradicting": self._n_contradicting,
            "trouble": trouble,
            "n_problems": self._n_refused + (trouble is not None),
            "problems": [*filter(None, [trouble]), *self._refused][:_NAMED],
        }


def audited_labels(folder: Path, config: FrozenConfig) -> LabelledSample:
    """Return the answers of a folder of ``label --from-log``, checked against a guardrail.

    Raises
    ------
    DataError
        A draw is not what it was, or bears a flag that the guardrail does not give to its score.
    InputError
        The answers are another guardrail's, or were not drawn from a log.
    """
    sample = read_sample(folder)
    if sample.guardrail != config.digest:
        raise InputError.on("labels_of_another", folder=folder, sample=sample, config=config)
    groups = sample.group.tolist()
    refuse_other_flags(config, sample.score, sample.flagged, groups, folder / "draws.jsonl")
    return sample


class WatchLabels:
    """The labels of a folder, read again where they have changed.

    Parameters
    ----------
    config : FrozenConfig
        The guardrail.
    asked : Requirement
        Limits in place of the frozen ones.
    folder : Path, optional
        Of ``calibrail label --from-log``.
    judge : JudgeLabels, optional
        What a judge says.

    A folder that is damaged or cannot be read, whose answers were not drawn from a log or are
    another guardrail's, or in which a draw bears a flag that the guardrail does not give to its
    score, stops no watch of the traffic: ``error`` says what is wrong.

    Raises
    ------
    InputError
        A judge's labels are given without a folder.
    """

    def __init__(
        self,
        config: FrozenConfig,
        asked: Requirement,
        folder: Path | None = None,
        judge: JudgeLabels | None = None,
    ) -> None:
        if judge is not None and folder is None:
            raise InputError(say("refused.judge_without_labels"))
        self.folder, self._config, self._judge = folder, config, judge
        coverage, fpr = frozen_limits(config)
        self.limits = {
            "min_coverage": coverage if asked.min_coverage is None else asked.min_coverage,
            "max_fpr": fpr if asked.max_fpr is None else asked.max_fpr,
        }
        self._audited: LabelledSample | None = None
        self._used: LabelledSample | None = None
        self._elsewhere: str | None = None
        self._none_read: CalibrailError | None = None
        self._trouble: CalibrailError | None = None
        #: Of what was agreed on before the first label; None without a folder that can be read.
        self.digest: str | None = None
        self._seen = self._files()
        self._read()

    @property
    def error(self) -> CalibrailError | None:
        """What keeps labels, or a judge's, from counting; None where nothing does."""
        judge = None if self._judge is None else self._judge.error
        return self._trouble or self._none_read or judge

    def changed(self) -> bool:
        """Take up labels that came meanwhile; return whether there may be any.

        Where the folder cannot be read any more, what was read of it before goes on to count, and
        the trouble is named.
        """
        judged = self._judge is not None and self._judge.changed()
        if (now := self._files()) == self._seen:
            return judged
        self._seen = now
        self._read()
        return True

    def refuse(self, error: CalibrailError) -> None:
        """Let no label count, and name the reason."""
        self._audited = self._used = self.digest = None
        self._trouble = error

    def keep_read(self, cursor: Cursor, logs: Sequence[object]) -> None:
        """Let only those draws count whose lines were read; where none was, ``error`` says so.

        Parameters
        ----------
        cursor : Cursor
            How far the watched log was read.
        logs : sequence of object
            What is called the log.
        """
        sample, self._elsewhere, self._none_read = self._audited, None, None
        if sample is None or sample.line is None:
            return
        read = np.array([cursor.has_read(*line) for line in sample.line.tolist()], np.bool_)
        self._used = draws.take_rows(sample, read)
        if read.all():
            return
        place = int(np.argmin(read))
        chain, seq = sample.line[place]
        n, where = int(np.count_nonzero(~read)), f"{self.folder}/draws.jsonl, line {place + 1}"
        self._elsewhere = error_text(
            "draws_elsewhere", where=where, seq=seq, chain=chain, more=n - 1, of=len(read)
        )
        if not read.any():
            watched = ", ".join(map(str, logs))
            self._none_read = DataError.on(
                "draws_of_another", n=n, of=self, seq=seq, chain=chain, logs=watched
            )

    def promise(
        self, options: runtime.WatchOptions, decided: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return whether the promise is kept; what was decided before stands."""
        limits = self.limits["min_coverage"], self.limits["max_fpr"]
        each = options.by == "group" and self._config.promise.by is not None
        if each and isinstance(self._config.promise.by, tuple):
            raise InputError(say("refused.overlapping_groups"))
        return promise_status(
            self._used, limits, options.delta, by=options.by, each=each, decided=decided
        )

    def prevalence(
        self, options: runtime.WatchOptions, timeline: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Return how many of the logged answers are hallucinated."""
        judged = self._judge.judged() if self._judge and self._used is not None else None
        of_judge = judge_of(self._config.data.reading) is not None
        return prevalence_status(
            timeline,
            self._config.headline,
            self._used,
            judged,
            options.delta,
            noted=["clustered"] * self._config.promise.clustered + ["labels_of_judge"] * of_judge,
        )

    def status(self) -> dict[str, Any] | None:
        """Return what became of the labels; None without a folder."""
        if self.folder is None:
            return None
        sample = self._audited
        trouble = None if self._trouble is None else str(self._trouble)
        problems = [*filter(None, [trouble, self._elsewhere])]
        problems += [] if sample is None else sample.problems
        n_drawn, n_used = (0 if item is None else len(item) for item in (sample, self._used))
        handed_out = 0 if sample is None else int(sample.handed_out.sum())
        return {
            "n_drawn": n_drawn,
            "n_not_in_log": n_drawn - n_used,
            "n_handed_out": handed_out,
            "n_settled": 0 if sample is None else int((sample.settled & sample.handed_out).sum()),
            "n_disagreements": 0 if sample is None else sample.n_disagreements,
            "design": None if sample is None else sample.drawing.design,
            "trouble": trouble,
            "n_problems": len(problems),
            "problems": problems[:_NAMED],
            "judge": None if self._judge is None else self._judge.status(),
        }

    def _read(self) -> None:
        """Take up what the folder holds; where it cannot be read, what was read before stands."""
        if self.folder is None:
            return
        try:
            if not self.folder.is_dir():
                raise DataError(say("refused.no_labels", folder=self.folder))
            audited = draws.watchable(audited_labels(self.folder, self._config))
            self.digest = agreed_on(self.folder)
        except CalibrailError as error:
            self._trouble = error
        else:
            self._audited = self._used = audited
            self._trouble = None

    def _files(self) -> dict[str, tuple[int, int]]:
        return {} if self.folder is None else _states(self.folder.glob("*.json*"))
