"""Looks at labelled answers: what each may err with, and what it leaves to the next ones.

A verdict errs with a stated probability once. Who looks, labels some more and looks again, tries
other limits, or splits the same data by seed after seed, has as many chances as looks. So a file
beside the results keeps the looks, and they share that probability: by the union bound all of
them together err with no more than one.

The looks of a guardrail spend it, whatever they are at: each takes three quarters of what is left,
or an equal part where their number was declared. A threshold that a run makes is new each time;
there the first look at answers has all of it, and later ones have what was declared beforehand.

Whoever sets detectors side by side may choose among them: a detector that stood beside others in a
look here, or in a folder beside this one, has no certificate from these answers. Where others had
looks of their own in folders beside it, nobody knows whether these chose it; that is said.

Labels of one folder are one look, from where they were begun, and so is a verdict that is
recomputed.
"""

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import nan
from operator import attrgetter
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

import numpy as np

from calibrail.atomic_files import folder_lock, new_folder, read_regular, write_atomically
from calibrail.data.splits import CALIBRATION
from calibrail.errors import DataError, InputError, errors_as, file_errors
from calibrail.evaluation import Report
from calibrail.evaluation.evaluate import ReportWarning
from calibrail.options import Costs, Promise, Requirement
from calibrail.options.fields import cli_or_python, spell_option
from calibrail.options.guarantee import TAKEN
from calibrail.pipelines.calibration_overlap import (
    ALIKE,
    revised_report,
    withdrawn_for,
    without_cost_bound,
)
from calibrail.pipelines.look_overlap import (
    KEPT,
    DataUse,
    Earlier,
    digest_of,
    exceeds_reuse_limit,
    limits_of,
    look_at,
    overlapping_uses,
)
from calibrail.pipelines.scoring import Scored
from calibrail.report.documents.calibrate_sections import few_looked_before, looked_before, message
from calibrail.report.messages import say, spell

if TYPE_CHECKING:
    from calibrail.labelling.ledger import LedgerAnswer, SessionPlan


#: What was tried beside a look, by the code of the warning that says so.
Tried: TypeAlias = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Standing:
    """What a look may err with, among all that share one error.

    Attributes
    ----------
    number : int
        Of this look, from 1 on.
    share : float
        Of the error; 0 where nothing is left.
    left, following : float
        What it leaves of the error, and what of it the next look takes.
    declared : int or None
        How many looks there were to be.
    spent : tuple of DataUse
        Looks that it shares the error with, before it. Those that an earlier version kept took the
        whole error each.
    earlier : tuple
        Looks before it.
    compared : int
        Among how many detectors an earlier look at these answers chose this one; 0 where none did.
    beside : mapping
        What was tried beside it, in folders beside this one, by the code that says so: how many
        other detectors had looks of their own at these answers, how many other looks it had, and
        how many verdicts on other answers a given threshold had, with what these may err with.
    """

    number: int = 1
    share: float = 1.0
    left: float = 0.0
    following: float = 0.0
    declared: int | None = None
    spent: tuple[DataUse, ...] = ()
    earlier: Earlier = ()
    compared: int = 0
    beside: Tried = field(default_factory=dict)

    def confidence(self, asked: float) -> float:
        """Return the confidence of this look's verdict; as asked where nothing is left."""
        return asked if self.share in (0.0, 1.0) else 1.0 - self.share * (1.0 - asked)

    def part_of(self, promise: Promise) -> Promise:
        """Return a promise of this very threshold with this look's part of its error."""
        if self.share in (0.0, 1.0) or not promise.of_this_threshold:
            return promise
        return replace(promise, delta=promise.delta * self.share)

    def strict(self, requirement: Requirement) -> Requirement:
        """Return a requirement at the confidence of this look."""
        return replace(requirement, confidence=self.confidence(requirement.confidence))

    @property
    def halves(self) -> bool:
        """Whether limits were named after a look without any: each bound has half of the error."""
        return self.share == 0.5 and self.declared is None

    def to_dict(self, asked: float) -> dict[str, Any]:
        """Return the number, and how likely this look, all of them, and the next one may err."""
        error = 1.0 - asked
        # Each look had its part of the error that was asked for then.
        before = [(1.0 if it.share is None else it.share) * it.error(asked) for it in self.spent]
        rates = {
            "level": self.share * error,
            "together": sum(before) + (self.share + self.left) * error,
            "left": self.left * error,
            "next_level": self.following * error,
        }
        rates = {name: round(rate, 12) for name, rate in rates.items()}
        return {"number": self.number, **rates, "declared": self.declared}


def _shared(chain: Sequence[DataUse], n_looks: int | None, *, spends: bool) -> tuple[float, float]:
    """Return what is left after looks, and what of it the next one takes."""
    # Earlier versions kept looks that each took all of it.
    n_older = sum(look.share is None for look in chain)
    left = ((1.0 - TAKEN) * spends) ** n_older - sum(look.share or 0.0 for look in chain)
    left = left if left > 1e-9 else 0.0
    declared = [look for look in chain if look.declared is not None]
    if declared:
        further = (declared[0].declared or 0) - len(declared)
        return left, left / further if further > 0 else 0.0
    if n_looks is not None and (spends or not chain):
        return left, left / n_looks
    return left, TAKEN * left if spends else 0.0 if chain else left


def to_report_rows(earlier: Earlier) -> list[dict[str, Any]]:
    """Return earlier looks as a report holds them, without digests.

    Of labels that may go on it holds that they were begun: what is said once stays.
    """
    return [
        {
            "n": 0 if look.session else look.n,
            "seed": look.seed,
            "verdict": "begun" if look.session else look.verdict,
            "reported": look.reported,
            "shared": float(bool(look.traces)) if look.session else share,
            "folder": look.folder,
            "same_traces": bool(look.traces),
            "compared": len(look.compared),
        }
        for look, share in earlier
    ]


SCHEMA: Final = "calibrail.looks/1"
#: Subject of the looks at labelled answers that a run splits itself.
SPLIT: Final = "split"
#: Subject of those that a guardrail has taken over from the folders of runs.
BESIDE: Final = "beside"
_REMEDY: Final = "; it keeps what was looked at, so that a verdict is no second chance: "


def looks_of(guardrail: str | PathLike[str]) -> Path:
    """Return the file of looks that stands beside a guardrail's.

    >>> looks_of("guards/faq.json").as_posix()
    'guards/faq.looks.json'
    """
    return Path(guardrail).with_suffix(".looks.json")


#: Who keeps the looks at a guardrail: the file that is named, the one beside it (None), or nobody.
LooksFile: TypeAlias = str | PathLike[str] | Literal[False] | None
#: Looks at guardrails that have no file, as long as the process lives.
_HERE: Final = dict[str, tuple["DataUse", ...]]()
_ONE_AT_A_TIME: Final = Lock()


class DataUseHistory:
    """The file of looks, by subject: labelled answers with their split, or one guardrail.

    Parameters
    ----------
    path : path or None
        File that keeps them; None keeps none.
    here : bool
        Whether this process keeps them where there is no file.

    Raises
    ------
    DataError
        If the file is there and is damaged, or cannot be read or written: before any work is done.
    """

    def __init__(self, path: str | PathLike[str] | None, *, here: bool = False) -> None:
        self._path = None if path is None else Path(path)
        #: Whether looks are kept.
        self.keeps = here or self._path is not None
        if self._path is None:
            return
        self.read(self._path)
        with self._writing():
            folder = next(place for place in self._path.absolute().parents if place.exists())
            tempfile.TemporaryFile(dir=folder).close()

    @classmethod
    def of_guardrail(cls, file: str | PathLike[str] | None, looks: LooksFile) -> "DataUseHistory":
        """Return what keeps the looks at a guardrail of this file: at best the file beside it."""
        if looks is False:
            return cls(None)
        return cls(looks_of(file) if looks is None and file is not None else looks, here=True)

    def following(self, subject: Any, n_looks: int | None = None) -> float:
        """Return what the next look at a guardrail would take, whatever it is at."""
        if not self.keeps:
            return 1.0
        kept = _HERE if self._path is None else self.read(self._path)
        return _shared(kept.get(digest_of(subject), ()), n_looks, spends=True)[1]

    def record(
        self,
        subject: Any,
        look: DataUse,
        *others: DataUse,
        spends: bool = False,
        n_looks: int | None = None,
        wants: float | None = None,
    ) -> Standing:
        """Keep a look, unless this very one is kept; return what it may err with.

        Parameters
        ----------
        subject : object
            Anything that JSON can hold.
        look : DataUse
            Its verdict follows, by `conclude`.
        *others : DataUse
            Looks that are kept elsewhere: after one at the same answers nothing is left.
        spends : bool
            Whether all looks of the subject share one error, and those of others at the same
            answers with them: a guardrail that is made anew until one is certified has as many
            chances. Else those at the same answers do.
        n_looks : int, optional
            How many looks there are to be, where the first one says so.
        wants : float, optional
            What a look was begun with; it gets that, or nothing. Of one that does not spend, at
            most that.

        Raises
        ------
        DataError
            If the file cannot be read or written.
        InputError
            If another number of looks was declared.
        """
        elsewhere = overlapping_uses(look, others)
        void = exceeds_reuse_limit(elsewhere)
        if not self.keeps:
            # Where nothing is kept, what was declared is taken at its word.
            share = 0.0 if void else _shared((), n_looks, spends=False)[1]
            return Standing(share=share, declared=n_looks, earlier=elsewhere)
        key = digest_of(subject)
        with self._changing() as questions:
            if spends:
                _take_over(questions, _at_guardrails(self._path), partial(look.goes_on_with, key))
                # How many looks a run was to have says nothing of how many a guardrail has.
                beside = [replace(run, declared=None) for run in _looks_beside(self._path, True)]
                beside = [run for run in beside if look.is_at_answers_of(run)]
                _take_over(questions, ((digest_of(BESIDE), run) for run in beside), lambda *_: True)
                # Whatever share of the error they had, they may have chosen this guardrail.
                void = void or exceeds_reuse_limit(overlapping_uses(look, beside))
            else:
                runs, beside = [digest_of(SPLIT), digest_of(BESIDE)], [*_looks_beside(self._path)]
                guarded = (it for name, it in _at_guardrails(self._path, 2) if name not in runs)
                beside += (replace(item, detector=item.score) for item in guarded)
                # Labels that grow may stand in files of several names.
                grown = (pair for pair in _at_guardrails(self._path) if pair[0] == key)
                _take_over(questions, grown, lambda _, item: look.is_at_answers_of(item))
                # They may have chosen this detector.
                chosen = ((key, item) for item in beside if item.chose(look))
                _take_over(questions, chosen, lambda *_: True)
            kept = questions.get(key, ())
            place = next((i for i, item in enumerate(kept) if look.same(item)), len(kept))
            before, first = kept[:place], kept[place] if place < len(kept) else None
            tried = _tried(look, *((), ()) if spends else (beside, kept))
            order = 1 + sum(map(len, questions.values())) if first is None else first.order
            apart = (items for name, items in questions.items() if spends and name != key)
            there = [item for items in apart for item in items if item.order < order]
            own = [*before, *filter(look.decides_as, there)]
            own, there = [*_once(own)], [*_once(item for item in there if item not in own)]
            at_these = overlapping_uses(look, there if spends else own)
            chain = own if spends else []
            at_few = [item for item, _ in at_these]
            chose = [item for item in own if not spends and item.chose(look)]
            # However many looks were declared, one of them chose the detector by these answers.
            void = void or exceeds_reuse_limit(overlapping_uses(look, chose))
            chain = [*chain, *at_few] if exceeds_reuse_limit(at_these) else chain
            declared = next((item.declared for item in chain if item.declared is not None), None)
            if n_looks is not None and declared not in (None, n_looks):
                option = spell_option(Requirement, "n_looks", n_looks)
                raise InputError(say("refused.other_looks", declared=declared, option=option))
            if first is None:
                left, share = _shared(chain, n_looks, spends=spends)
                if wants is not None:
                    share = min(wants, share) if not spends else wants * (wants <= left + 1e-9)
                declared = n_looks if declared is None and (spends or not chain) else declared
                share = 0.0 if void else share
            else:
                share, declared = cast(float, first.share), first.declared
                tried = json.loads(first.near) if first.near else tried
            look = replace(look, order=order, share=share, declared=declared)
            look = replace(look, near=json.dumps(tried, sort_keys=True))
            if first is None or (look.n and (look.told, look.limits) != (first.told, first.limits)):
                # It is new, labels went on, or the first limit was set.
                questions[key] = (*before, look, *kept[place + 1 :])
        earlier = overlapping_uses(look, chain if chain else at_few, every=bool(chain))
        share = 1.0 if look.share is None else look.share
        left, following = _shared([*chain, look], None, spends=spends)
        spent = (len(chain) + 1, share, left, following, look.declared, tuple(chain))
        compared = (len(item.compared) for item, _ in overlapping_uses(look, chose))
        return Standing(*spent, (*elsewhere, *earlier), max(compared, default=0), tried)

    def conclude(self, subject: Any, look: DataUse, verdict: str | None) -> None:
        """Keep what a look that was recorded says; one that has shown nothing (None) is none."""
        if not self.keeps:
            return
        key = digest_of(subject)
        with self._changing() as questions:
            questions[key] = tuple(
                replace(item, verdict=verdict or item.verdict) if look.same(item) else item
                for item in questions.get(key, ())
                if verdict is not None or item.verdict or not look.same(item)
            )

    @contextmanager
    def _changing(self) -> Iterator[dict[str, tuple[DataUse, ...]]]:
        """Let one process read what is kept, and keep what it changes."""
        if self._path is None:
            with _ONE_AT_A_TIME:
                yield _HERE
            return
        # Read again under the lock, since another process may have looked meanwhile.
        with self._writing(), new_folder(self._path.parent), folder_lock(self._path.parent):
            questions = self.read(self._path)
            before = dict(questions)
            yield questions
            if questions == before:
                return
            content = {name: [item.to_dict() for item in questions[name]] for name in questions}
            text = json.dumps({"schema": SCHEMA, "questions": content})
            write_atomically(self._path, f"{text}\n".encode("ascii"))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        there = cli_or_python("a folder", "a file (looks=...)")
        remedy = f"{_REMEDY}name {there} that can be written, or copy the guardrail to one"
        with file_errors(f"cannot write {self._path}", remedy):
            yield

    @staticmethod
    def read(path: Path) -> dict[str, tuple[DataUse, ...]]:
        """Return the looks in a file, by the digest of their subject."""
        remedy = f"{_REMEDY}restore it, or name another folder"
        odd = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
        with errors_as(DataError, odd, "no_looks_in", path=path, remedy=remedy):
            with file_errors(f"cannot read {path}", remedy):
                if not path.exists():
                    return {}
                content = json.loads(read_regular(path))
            if content["schema"] != SCHEMA:
                raise ValueError(f"its schema is {content['schema']!r}")
            questions = content["questions"].items()
            return {name: tuple(map(DataUse.from_dict, items)) for name, items in questions}


def _undamaged(path: Path) -> dict[str, tuple[DataUse, ...]]:
    """Return the looks in a file, or none: a damaged one is told of by those who look there."""
    with suppress(DataError):
        return DataUseHistory.read(path)
    return {}


def _take_over(
    questions: dict[str, tuple[DataUse, ...]],
    items: Iterable[tuple[str, DataUse]],
    wanted: Callable[[str, DataUse], bool],
) -> None:
    """Add the looks of other files that are wanted, each once."""
    for name, item in items:
        own = questions.get(name, ())
        if not any(map(item.same, own)) and wanted(name, item):
            questions[name] = (*own, replace(item, order=1 + sum(map(len, questions.values()))))


def _once(looks: Iterable[DataUse]) -> Iterator[DataUse]:
    """Yield looks in order, of labels that went on the first one only."""
    sessions = set[str]()
    for look in looks:
        if not look.session or look.session not in sessions:
            yield look
        sessions.add(look.session)


def certificate_after_reuse(
    certificate: Mapping[str, Any], standing: Standing, *, spends: bool = False
) -> dict[str, Any]:
    """Return a certificate in words as earlier looks leave it: none where nothing is left."""
    looks = to_report_rows(standing.earlier)
    if standing.share or certificate["verdict"] == "inconclusive":
        few = certificate["verdict"] == "certified" and sum(row["shared"] for row in looks) > 0.0
        if not few or spends or exceeds_reuse_limit(standing.earlier):
            return dict(certificate)
        why = f"{spell(certificate['reason'])} {few_looked_before(looks)}"
        return {**certificate, "reason": why}
    # What runs beside it have shown of these answers is no look at the guardrail.
    own = standing.declared or not exceeds_reuse_limit(standing.earlier)
    own = own or any(row["folder"] for row in looks)
    if spends and own and not any(row["reported"] for row in looks):
        return {**certificate, **withdrawn_for("no_look_left", no_look_left(looks, standing))}
    return {**certificate, **withdrawn_for("looked_before", looked_before(looks))}


def at_confidence(certificate: Mapping[str, Any], asked: Requirement) -> dict[str, Any]:
    """Return a certificate that states what both of its bounds have together, for any limits."""
    kept = certificate["verdict"] == "certified"
    reason = spell(certificate["reason"], asked.confidence if kept else None)
    return {**certificate, "confidence": asked.confidence, "reason": reason}


def no_look_left(looks: Sequence[Mapping[str, Any]], standing: Standing) -> str:
    """Return why a guardrail is not judged any more."""
    folder = next((row["folder"] for row in looks if row["folder"]), "")
    return say("verdict.no_look_left", n=len(looks), declared=standing.declared, folder=folder)


def begin_report(
    history: DataUseHistory,
    scored: Scored,
    keys: Sequence[str],
    promise: Promise,
    requirement: Requirement,
    *,
    costs: Costs | None = None,
    threshold: float | None = None,
    asked: bool = True,
    given: Promise | None = None,
) -> tuple[DataUse, Standing]:
    """Keep the look that a report is; return it, and what it may err with.

    It is one at all answers, by the detectors in some columns, for what is promised and required.
    Other ``costs`` pick another threshold, or another bound of its cost. Of a ``threshold`` that
    was given, what is required may be named later, where nothing is ``asked`` yet: each of the two
    bounds then has half of the error, so that they hold for any. ``given`` is the promise as it was
    named.
    """
    looks = [look_at(scored, key, slice(None)) for key in sorted(keys)]
    # Of coarse scores, those of one say nothing of the others.
    told = [item for item in looks if item.repeated <= ALIKE] or looks[:1]
    specs: Any = {key: scored.specs[key] for key in keys}
    question = promise.to_dict() | {"clustered": None}
    question |= {} if threshold is None else {"alpha": None, "threshold": threshold}
    if costs is not None and costs.cost_miss is not None:
        question |= {"alpha": None, "costs": costs.to_dict()}
    every = sorted(map(digest_of, scored.specs.values()))
    look = replace(
        looks[0],
        values=tuple(sorted({value for item in told for value in item.values})[:KEPT]),
        repeated=sum(item.repeated for item in told),
        ranks=tuple(sorted({rank for item in looks for rank in item.ranks})[:KEPT]),
        assumed=requirement.assume_independent,
        detector=digest_of(specs if len(specs) > 1 else specs[keys[0]]),
        compared=tuple(every) if len(every) > 1 else (),
        question=digest_of(question),
        limits=limits_of(requirement, promise.unit if threshold is None else "threshold"),
        told=digest_of([item.told for item in looks]),
        rows=digest_of([item.rows for item in looks]),
        given="" if given is None else digest_of(given.to_dict()),
        whole=bool((scored.codes == CALIBRATION).all()),
    )
    wants = None if asked else 0.5
    return look, history.record(SPLIT, look, n_looks=requirement.n_looks, wants=wants)


def look_of_run(scored: Scored, keys: Sequence[str], asked: Requirement) -> DataUse:
    """Return the look of a run that gives no verdict, and may choose detectors all the same."""
    look, _ = begin_report(DataUseHistory(None), scored, keys, Promise(), asked)
    return replace(look, verdict="inconclusive")


def with_look(files: Mapping[str, Any], folder: str | Path, look: DataUse) -> dict[str, Any]:
    """Return the files of a run with the look that it is, which is kept before any can be read.

    It comes last: where another one cannot be written, nothing can be read.
    """
    history = DataUseHistory(Path(folder) / "looks.json")
    return {**files, "looks.json": lambda _: history.record(SPLIT, look)}


def _looks_beside(path: Path | None, below: bool = False) -> Iterator[DataUse]:
    """Yield the looks of runs in the folders beside a file's and, with ``below``, beside it."""
    own = Path() if path is None else path.absolute()
    for place in () if path is None else own.parents[0 if below else 1 : 2]:
        for file in sorted(place.glob("*/looks.json")):
            yield from _undamaged(file).get(digest_of(SPLIT), ()) if file != own else ()


def _at_guardrails(path: Path | None, above: int = 1) -> Iterator[tuple[str, DataUse]]:
    """Yield the looks kept beside other guardrails in a file's folder and above, with subjects."""
    own = Path() if path is None else path.absolute()
    for place in () if path is None else own.parents[:above]:
        for file in sorted(place.glob("*.looks.json")):
            for name, items in (_undamaged(file) if file != own else {}).items():
                yield from ((name, item) for item in sorted(items, key=attrgetter("order")))


def _tried(look: DataUse, beside: Sequence[DataUse], kept: Sequence[DataUse]) -> Tried:
    """Return how many other detectors, and how many other looks of this one, these answers saw.

    And what each verdict might err with that a threshold which was given had on other answers,
    here and in the folders beside it: of looks at some answers that go on, the first one.
    """
    at_these = [item for item in beside if look.is_at_answers_of(item)]
    others = {item.detector for item in at_these if not item.chose(look)}
    again = list[DataUse]()
    for item in at_these:
        # Of a threshold that was given, limits that are named after a look are others.
        same = look.same(item) and (look.limits == item.limits or '"threshold"' not in item.limits)
        if item.score:
            # A guardrail was asked the same, of its own unit.
            then = json.loads(item.limits)
            same = then == {**json.loads(look.limits), "unit": then["unit"]}
        if item.detector == look.detector and not (same or any(map(item.same, again))):
            again.append(item)
    key, judged = attrgetter("detector", "question"), list[DataUse]()
    for item in (*beside, *kept) if '"threshold"' in look.limits else ():
        asked = item.share != 0.0 and '"min_coverage": null' not in item.limits
        seen = any(a.is_at_answers_of(item) or item.is_at_answers_of(a) for a in (look, *judged))
        judged += [item] if asked and key(item) == key(look) and not seen else []
    errors = sum((1.0 if it.share is None else it.share) * it.error(0.95) for it in judged)
    return {
        "others_tried": {"n": len(others - {"", look.detector, *look.compared})},
        "tested_beside": {"n": len(again)},
        "judged_before": {"n": len(judged), "errors": round(errors, 12)},
    }


def _with_tried(report: Report, tried: Tried, *, certified: bool = False) -> Report:
    """Return a report that says what was tried beside it, where anything of it is certified."""
    rows = (report.by_group or {"rows": ()})["rows"]
    certified |= "certified" in (report.verdict, *(row["verdict"] for row in rows))
    kept = [item for item in report.warnings if item.code not in tried]
    told = [(code, about) for code, about in tried.items() if about["n"] and certified]
    said = [ReportWarning(code, message(code, report.to_dict(), it), it) for code, it in told]
    return replace(report, warnings=(*kept, *said))


def with_tried_since(report: Report, folder: Path) -> Report:
    """Return a report of a run with what was tried by now in the folders beside the run's own."""
    path, detector = folder / "looks.json", digest_of(report.score)
    kept = _undamaged(path).get(digest_of(SPLIT), ())
    own = [item for item in kept if item.detector == detector]
    return _with_tried(report, _tried(own[-1], [*_looks_beside(path)], own)) if own else report


def report_after_reuse(report: Report, standing: Standing, *, wins: bool = False) -> Report:
    """Return what earlier looks leave of a report, and what was tried beside it.

    ``wins`` is whether a certificate stands beside it, of the half that confirms a winner.
    """
    report = report if standing.share else without_cost_bound(report)
    further = not standing.share and exceeds_reuse_limit(standing.earlier)
    again = int(standing.beside.get("tested_beside", {"n": 0})["n"])
    otherwise = again * (report.verdict != "certified") + len(standing.earlier) * further
    # Whoever gave the threshold was promised nothing.
    otherwise *= report.promise.guarantee != "fixed" and not standing.compared
    counts = {"compared_before": standing.compared, "calibrated_before": otherwise}
    found = (ReportWarning(code, values={"n": n}) for code, n in counts.items() if n)
    report = replace(report, warnings=(*report.warnings, *found))
    void = report.verdict != "inconclusive" and not standing.share
    revised = revised_report(
        replace(report, looks=tuple(to_report_rows(standing.earlier))),
        lambda row: certificate_after_reuse(row, standing),
        "looked_before" if void else None,
    )
    return _with_tried(revised, standing.beside, certified=wins)


def history_of_labels(
    plan: "SessionPlan", given: str | PathLike[str] | None, looks: LooksFile
) -> DataUseHistory:
    """Return what keeps the looks at the guardrail that labels are about.

    At best it stands beside the guardrail that they were begun with. Where the place of that is
    gone, or was never known, it is beside the one given.
    """
    places = [file for file in (plan.guardrail_file, given) if file and Path(file).parent.is_dir()]
    return DataUseHistory.of_guardrail(next(iter(places), None), looks)


def look_at_labels(folder: Path, plan: "SessionPlan", answers: "list[LedgerAnswer]") -> DataUse:
    """Return the look at these answers of a folder of labels."""
    from calibrail.labelling.folder import agreed_on

    digests = np.array([int(item.draw.digest, 16) for item in answers], np.uint64)
    labels = np.array([-1 if item.label is None else item.label for item in answers], np.int8)
    scores = [nan if item.draw.score is None else item.draw.score for item in answers]
    return replace(
        DataUse.at(digests, labels, np.array(scores, np.float64)),
        seed=plan.seed,
        session=agreed_on(folder),
        traces=plan.traces.sha256 or "",
        folder=str(folder.absolute()),
        limits="" if plan.asked is None else limits_of(plan.asked, "answer"),
    )


def begin_look(folder: Path, history: DataUseHistory) -> list[dict[str, Any]]:
    """Keep that labelling has begun; return earlier looks after which nothing is left.

    Raises
    ------
    DataError
        If the file of looks is damaged, or cannot be written.
    """
    from calibrail.labelling.folder import read_plan

    plan = read_plan(folder)
    standing = record_labels(history, look_at_labels(folder, plan, []), plan)
    rows = to_report_rows(standing.earlier)
    return [] if standing.share else [item for item in rows if item["folder"]] or rows


def record_labels(
    history: DataUseHistory, look: DataUse, plan: "SessionPlan", *others: DataUse
) -> Standing:
    """Keep the look of a folder of labels, which gets what it was begun with, or nothing."""
    n_looks = None if plan.requirement is None else plan.requirement.n_looks
    return history.record(
        plan.guardrail, look, *others, spends=True, n_looks=n_looks, wants=plan.share
    )
