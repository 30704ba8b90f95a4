"""Earlier evaluations of the same data, and what they do to a verdict.

Data is known again by what it holds: of every look the lowest digests of its answers are kept, a
fair sample of them all (as in a bottom-k sketch), which estimates the share that two looks have in
common. Where rows cannot be told apart, only all of them together are. A detector is known again by
its specification, or by its values: the same column under another name is the same detector.

A verdict errs with a stated probability once. Who looks, labels some more and looks again, or
splits the same data by seed after seed and keeps the best verdict, has as many chances as looks:
eight of them made three times the error that was stated. So a file beside the results keeps what
was looked at, and a further look at data that was looked at before certifies nothing.

Labels of one folder are one look, whose place among all looks is where it began: what others look
at later takes nothing away from it, and a verdict that is recomputed stays as it is.
"""

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from math import nan
from os import PathLike
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibrail.atomic_files import write_atomically
from calibrail.conformal.certificate import Verdict
from calibrail.data.example import Example, mix64, n_repeated
from calibrail.data.splits import TEST
from calibrail.errors import DataError, file_errors
from calibrail.evaluation import Report
from calibrail.guardrail.file import FrozenConfig
from calibrail.labelling.folder import agreed_on, read_plan
from calibrail.labelling.ledger import LedgerAnswer, SessionPlan
from calibrail.options import Promise
from calibrail.pipelines.calibration_overlap import ALIKE, KnownBy, revised_report, withdrawn_for
from calibrail.pipelines.scoring import Scored
from calibrail.report.documents.calibrate_sections import few_looked_before, looked_before
from calibrail.serialization import Record

#: Digests kept of every look.
KEPT: Final = 256
#: Share of the answers that were looked at before from which nothing is certified.
VOID: Final = 0.1
#: Share of the smaller look's answers to which two names of one detector give the same value.
SAME_VALUES: Final = 0.9


@dataclass(frozen=True, slots=True)
class DataUse(Record):
    """One look at labelled data.

    Attributes
    ----------
    n : int
        Answers.
    seed : int or None
        Of the split; None where the data says it or there is none.
    content : str
        Digest of all answers' digests, whatever their order.
    lowest : tuple of str
        The lowest digests of its answers; empty where these do not tell them apart.
    verdict : str
        What it said.
    split : str
        Digest of all answers' digests with their labels and parts, whatever their order.
    assumed : bool
        Whether all answers were taken as independent.
    reported : bool
        Whether it is the look of the guardrail's own report at its test part.
    detector : str
        Digest of the detector's specification; empty where there is one detector only.
    question : str
        Digest of what was asked about it (alpha, guarantee, ...).
    valued : tuple of str
        The lowest digests of its answers, each with the value that the detector gave it; empty
        where ``lowest`` is.
    session : str
        Digest of what was agreed on before answers were labelled one after another; empty where
        they were not. However far it goes on, it is one look.
    traces, folder : str
        Of such a session: the digest of what it draws from, and where its labels are.
    answers, answers_split : tuple of str, str
        As ``lowest`` and ``split``, however the answers are spelt; the others are of the texts as
        they stand, which is all that looks have that were kept before.
    """

    later = ("answers", "answers_split")

    n: int
    seed: int | None
    content: str
    lowest: tuple[str, ...]
    verdict: str = ""
    split: str = ""
    assumed: bool = False
    reported: bool = False
    detector: str = ""
    question: str = ""
    valued: tuple[str, ...] = ()
    session: str = ""
    traces: str = ""
    folder: str = ""
    answers: tuple[str, ...] = ()
    answers_split: str = ""

    def __post_init__(self) -> None:
        texts = ["content", "verdict", "split", "detector", "question", "session"]
        texts += ["traces", "folder", "answers_split"]
        types: dict[str, Any] = dict.fromkeys(texts, str)
        types |= {"n": int, "seed": int | None, "assumed": bool, "reported": bool}
        for name, kind in types.items():
            value = getattr(self, name)
            if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
                raise TypeError(f"{name} of a look is {value!r:.40}")
        for item in (*self.lowest, *self.valued, *self.answers):
            if not (isinstance(item, str) and re.fullmatch("[0-9a-f]{16}", item)):
                raise ValueError(f"a digest of a look is {item!r:.40}")

    @classmethod
    def at(
        cls,
        digests: NDArray[np.uint64],
        labels: NDArray[np.int8],
        codes: NDArray[np.int8] | None = None,
        *,
        seed: int | None = None,
        assumed: bool = False,
        apart: bool = True,
        scores: NDArray[np.float64] | None = None,
        marks: NDArray[np.uint64] | None = None,
        answers: NDArray[np.uint64] | None = None,
    ) -> "DataUse":
        """Return the look at answers with these digests, labels and parts of a split.

        ``apart`` says whether the digests tell the answers apart, ``scores`` are what the
        detector gave them, and ``marks`` stand for the labels of their sentences, where they count.
        ``digests`` are of texts as they are spelt, ``answers`` of what they say.
        """
        parts = np.zeros(len(digests), np.int8) if codes is None else codes

        def hashed(numbers: NDArray[np.uint64]) -> tuple[str, str]:
            order = np.lexsort((*(() if marks is None else (marks,)), parts, labels, numbers))
            hasher = sha256(numbers[order].astype("<u8").data)
            content = hasher.hexdigest()
            hasher.update(labels[order].astype(np.int8).data)
            hasher.update(parts[order].data)
            if marks is not None:
                hasher.update(marks[order].astype("<u8").data)
            return content, hasher.hexdigest()

        content, split = hashed(digests)
        lowest = _lowest(digests) if apart else ()
        valued: tuple[str, ...] = ()
        if apart and scores is not None:
            # To about four digits: two computations of one value may differ in the last ones.
            bits = (scores + 0.0).astype(np.float32).view(np.uint32).astype(np.uint64)
            valued = _lowest(mix64(digests ^ mix64((bits + np.uint64(512)) >> np.uint64(10))))
        look = cls(len(digests), seed, content, lowest, split=split, assumed=assumed, valued=valued)
        if answers is None:
            return look
        lowest = _lowest(answers) if apart else ()
        return replace(look, answers=lowest, answers_split=hashed(answers)[1])

    def same(self, other: "DataUse") -> bool:
        """Return whether the same answers, with the same labels, were split and counted alike."""
        one, two = (
            (look.seed, look.assumed, look.reported, look.session) for look in (self, other)
        )
        spelt_alike = (self.content, self.split) == (other.content, other.split)
        says = bool(self.answers_split) and self.answers_split == other.answers_split
        return one == two and (spelt_alike or says)

    def goes_on_from(self, other: "DataUse") -> bool:
        """Return whether this is the other look again, or labels that went on since."""
        return self.session == other.session if self.session else self.same(other)

    def adds_nothing_to(self, other: "DataUse") -> bool:
        """Return whether the other one stands for this one, too."""
        if self.session and not self.n:
            return self.session == other.session
        return self.same(other) and self.question == other.question

    def of_one_detector(self, other: "DataUse") -> bool:
        """Return whether both are about one detector, by its specification or by its values."""
        if self.detector == other.detector:
            return True
        if not (self.valued and other.valued):
            # Answers that are not told apart are known by their values.
            return self.content == other.content and not self.lowest
        pairs = _common(self.valued, other.valued), _common(other.valued, self.valued)
        # Of the smaller one: data grows.
        return max(len(both) / max(1, size) for both, size in pairs) >= SAME_VALUES

    def common(self, other: "DataUse") -> tuple[set[str], int]:
        """Return which of a fair sample of these answers the other look has, and its size."""
        # Other lots from the same traces are another chance, whichever answers they fall on.
        alike = self.traces and self.traces == other.traces
        mine, theirs = self.lowest, other.lowest
        if self.answers and other.answers:
            mine, theirs = self.answers, other.answers
        if alike or (self.n and self.content == other.content):
            return set(mine) or {self.content}, len(mine) or 1
        return _common(mine, theirs)


def _common(one: Sequence[str], other: Sequence[str]) -> tuple[set[str], int]:
    """Return which of a fair sample of one look's digests the other's hold, and its size."""
    # Only below the lower of both limits do both samples hold all that there is.
    limit = min(kept[-1] if len(kept) >= KEPT else "g" for kept in (one, other))
    sample = {item for item in one if item <= limit}
    return sample & set(other), len(sample)


def _lowest(numbers: NDArray[np.uint64]) -> tuple[str, ...]:
    """Return the lowest numbers, each once."""
    ordered = np.sort(numbers)
    lowest = ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]][:KEPT]
    return tuple(f"{value:016x}" for value in lowest.tolist())


#: Earlier looks, each with the estimated share of the answers that it was the first to look at.
Earlier: TypeAlias = tuple[tuple[DataUse, float], ...]


def overlapping_uses(look: DataUse, others: Sequence[DataUse]) -> Earlier:
    """Return the looks at data that shares answers with this one, each with the share it adds.

    Those that return without traces drew from other ones.
    """
    found: set[str] = set()
    result = []
    for other in others:
        among, size = look.common(other)
        if among:
            same = other if other.traces == look.traces else replace(other, traces="")
            result.append((same, len(among - found) / size))
        found |= among
    return tuple(result)


def exceeds_reuse_limit(earlier: Earlier) -> bool:
    """Return whether so many answers were looked at before that nothing can be certified."""
    # Of several estimates, each of which is a share of another sample.
    return sum(share for _, share in earlier) >= VOID - 1e-9


def to_report_rows(earlier: Earlier) -> list[dict[str, Any]]:
    """Return earlier looks as a report holds them, without digests."""
    return [
        {
            "n": look.n,
            "seed": look.seed,
            "verdict": look.verdict,
            "reported": look.reported,
            "shared": share,
            "folder": look.folder,
            "same_traces": bool(look.traces),
        }
        for look, share in earlier
    ]


SCHEMA: Final = "calibrail.looks/1"
#: Subject of the looks at labelled answers that a run splits itself.
SPLIT: Final = "split"

_REMEDY: Final = "; it keeps what was looked at, so that a verdict is no second chance: "


def looks_of(guardrail: str | PathLike[str]) -> Path:
    """Return the file of looks that stands beside a guardrail's.

    >>> looks_of("guards/faq.json").as_posix()
    'guards/faq.looks.json'
    """
    return Path(guardrail).with_suffix(".looks.json")


class DataUseHistory:
    """The file of looks, by subject: labelled answers with their split, or one guardrail.

    Parameters
    ----------
    path : path or None
        File that keeps them; None keeps none.

    Raises
    ------
    DataError
        If the file is there and is damaged, or cannot be read or written: before any work is done.
    """

    def __init__(self, path: str | PathLike[str] | None) -> None:
        self._path = None if path is None else Path(path)
        if self._path is None:
            return
        self._read(self._path)
        folder = self._path.absolute().parent
        with self._writing():
            while not folder.exists():
                folder = folder.parent
            tempfile.TemporaryFile(dir=folder).close()

    def record(
        self, subject: Any, look: DataUse, *others: DataUse, in_its_place: bool = False
    ) -> Earlier:
        """Keep a look, unless this very one is kept; return those before it at the same answers.

        The subject is anything that JSON can hold; further looks at its data may be named. Looks of
        other detectors at it do not count, nor does another question about the same split: what
        was before the first of them was before all. Labels that go on are the look that they began
        as: what came before that came before them. The verdict that is kept is the one that these
        leave. With ``in_its_place`` looks at subjects that the file met before this one count, too:
        a guardrail that is made anew until one is certified has as many chances.

        Raises
        ------
        DataError
            If the file cannot be read or written.
        """
        if self._path is None:
            return overlapping_uses(look, others)
        key = _digest(subject)
        with self._writing():
            self._path.parent.mkdir(parents=True, exist_ok=True)
        # Read again under the lock, since another process may have looked meanwhile.
        with _locked(self._path.parent):
            questions = self._read(self._path)
            kept = questions.get(key, ())
            before = [item for item in kept if look.of_one_detector(item)]
            own = [i for i, item in enumerate(before) if look.goes_on_from(item)]
            met = list(questions)[: list(questions).index(key) if key in questions else None]
            there = [item for name in met for item in questions[name]] if in_its_place else []
            earlier = overlapping_uses(
                look, _last(*others, *there, *before[: own[0] if own else None])
            )
            if not any(look.adds_nothing_to(item) for item in before):
                certain = look.verdict == "certified" and exceeds_reuse_limit(earlier)
                if look.session and kept and kept[-1].session == look.session:
                    # Nobody has looked since.
                    kept = kept[:-1]
                kept_as = "inconclusive" if certain else look.verdict
                questions[key] = (*kept, replace(look, verdict=kept_as))
                content = {name: [item.to_dict() for item in questions[name]] for name in questions}
                text = json.dumps({"schema": SCHEMA, "questions": content}, indent=1)
                with self._writing():
                    write_atomically(self._path, f"{text}\n".encode("ascii"))
        return earlier

    @contextmanager
    def _writing(self) -> Iterator[None]:
        remedy = f"{_REMEDY}name a folder that can be written, or copy the guardrail to one"
        with file_errors(f"cannot write {self._path}", remedy):
            yield

    @staticmethod
    def _read(path: Path) -> dict[str, tuple[DataUse, ...]]:
        remedy = f"{_REMEDY}restore it, or name another folder"
        try:
            with file_errors(f"cannot read {path}", remedy):
                if not path.exists():
                    return {}
                content = json.loads(path.read_bytes())
            if content["schema"] != SCHEMA:
                raise ValueError(f"its schema is {content['schema']!r}")
            return {
                name: tuple(map(DataUse.from_dict, items))
                for name, items in content["questions"].items()
            }
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DataError(f"{path} holds no looks ({error}){remedy}") from error


def _last(*looks: DataUse) -> tuple[DataUse, ...]:
    """Return looks in order, of labels that went on the last one only."""
    gone_on = {look.session: i for i, look in enumerate(looks) if look.session}
    return tuple(look for i, look in enumerate(looks) if gone_on.get(look.session, i) == i)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time read and write here, where the system has such locks."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        # A file system of a network may know no locks.
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def certificate_after_reuse(certificate: Mapping[str, Any], earlier: Earlier) -> dict[str, Any]:
    """Return a certificate in words as earlier looks leave it: after many nothing is certified."""
    if not earlier or certificate["verdict"] != "certified":
        return dict(certificate)
    looks = to_report_rows(earlier)
    if not exceeds_reuse_limit(earlier):
        return {**certificate, "reason": f"{certificate['reason']} {few_looked_before(looks)}"}
    return {**certificate, **withdrawn_for("looked_before", looked_before(looks))}


def look_at_report(
    history: DataUseHistory, scored: Scored, key: str, promise: Promise, report: Report
) -> tuple[Report, Earlier]:
    """Keep the look that a report is; return what earlier looks leave of it, and these.

    It is one at all answers, by the detector in a column, for what is promised.
    """
    asked = promise.to_dict() | {"clustered": None}
    look = replace(
        _look_at(scored, key, slice(None), report.requirement.assume_independent),
        detector=_digest(scored.specs[key]),
        question=_digest(asked),
        verdict=report.verdict,
    )
    earlier = history.record(SPLIT, look)
    if earlier:
        void = report.verdict == "certified" and exceeds_reuse_limit(earlier)
        report = revised_report(
            replace(report, looks=tuple(to_report_rows(earlier))),
            lambda row: certificate_after_reuse(row, earlier),
            "looked_before" if void else None,
        )
    return report, earlier


class TestSetFingerprint:
    """Collects which answers are looked at, one by one.

    Rows of scores are known by id and score together. Those without an id are known by their
    scores, which further columns beside them do not change; where many have the same score, by all
    that the row holds; where many of these are alike, too, not at all.
    """

    def __init__(self) -> None:
        self.known_by = KnownBy()
        self._scores: list[float] = []
        self._labels: list[int] = []
        self._marks: list[int] = []

    def add(self, example: Example, score: float | None) -> None:
        """Add one answer."""
        self.known_by.add(example)
        self._labels.append(int(example.label or 0))
        self._scores.append(nan if score is None else score)

    def mark(self, labels: Iterable[int | None]) -> None:
        """Note the labels of the sentences of the answer that was added last: they count, too."""
        self._marks.append(_of_marks(-1 if label is None else label for label in labels))

    def look(self, *, assumed: bool) -> DataUse:
        """Return the look at all of them."""
        scores, kinds = np.array(self._scores, np.float64), self.known_by.kinds
        digests, apart = _known_by(self.known_by.spelt, scores, kinds)
        answers, _ = _known_by(self.known_by.digests, scores, kinds)
        labels = np.array(self._labels, np.int8)
        marks = np.array(self._marks, np.uint64) if self._marks else None
        return DataUse.at(
            digests, labels, assumed=assumed, apart=apart, marks=marks, answers=answers
        )


def with_reuse_reported(scored: Scored, *, everyone: bool, verdict: str) -> DataUse:
    """Return the look of a guardrail's own report: at the test part by the first detector.

    With ``everyone``, at the faithful calibration answers, too, on which a certificate rests where
    the coverage is proven by construction.
    """
    codes, labels = scored.codes, scored.table.labels
    rows = (codes == TEST) | (everyone & (codes > 0) & (labels == 0))
    return replace(_look_at(scored, scored.keys[0], rows), verdict=verdict, reported=True)


def own_look(config: FrozenConfig) -> tuple[DataUse, ...]:
    """Return the look of a guardrail's own report, where its file holds it."""
    held = config.data.looked_at
    return () if held is None else (DataUse.from_dict(held),)


def _look_at(
    scored: Scored, key: str, rows: NDArray[np.bool_] | slice, assumed: bool = False
) -> DataUse:
    table, known = scored.table, {kind for kind, n in scored.data["known_by"].items() if n}
    scores = table.columns[key][rows]
    digests, apart = _known_by(scored.known_by.spelt[rows], scores, known)
    answers, _ = _known_by(scored.known_by.digests[rows], scores, known)
    seed = scored.data["split"]["seed"]
    labels, codes = table.labels[rows], scored.codes[rows]
    marks = None
    if (sentences := scored.sentences) is not None:
        each = np.split(sentences.labels, sentences.first[1:-1])
        marks = np.array([_of_marks(part.tolist()) for part in each], np.uint64)[rows]
    return replace(
        DataUse.at(
            digests, labels, codes, apart=apart, scores=scores, marks=marks, answers=answers
        ),
        seed=seed,
        assumed=assumed,
    )


def _of_marks(labels: Iterable[int]) -> int:
    """Return a number for the labels of an answer's sentences, from -1 to 1."""
    spelt = bytes(label + 1 for label in labels)
    return int.from_bytes(sha256(spelt).digest()[:8], "little")


def _known_by(
    digests: NDArray[np.uint64], scores: NDArray[np.float64], known: set[str]
) -> tuple[NDArray[np.uint64], bool]:
    """Return the numbers by which answers are known, and whether these tell them apart."""
    if known <= {"texts"}:
        return digests, True
    # Adding zero makes one of both zeros.
    hashed = mix64((scores + 0.0).view(np.uint64))
    if not known & {"content", "nothing"}:
        # Another batch may be numbered alike: an id is one answer only together with its score.
        return mix64(digests ^ hashed), True
    for numbers in (hashed, digests):
        # The digest of a row that nothing is known of is that of its place.
        if n_repeated(numbers) <= ALIKE * len(numbers) and (
            numbers is hashed or "nothing" not in known
        ):
            return numbers, True
    return hashed, False


def _digest(content: Any) -> str:
    """Return a short digest of anything that JSON can hold."""
    text = json.dumps(content, sort_keys=True).encode("utf-8", "surrogatepass")
    return sha256(text).hexdigest()[:16]


def looks_beside(plan: SessionPlan, given: str | PathLike[str] | None = None) -> Path | None:
    """Return the file of looks at the guardrail that labels are about; None where none can be.

    It stands beside the guardrail that they were begun with. Where the place of that is gone, or
    was never known, it is beside the one given.
    """
    for file in (plan.guardrail_file, given):
        if file is not None and Path(file).parent.is_dir():
            return looks_of(file)
    return None


def look_at_labels(
    folder: Path, plan: SessionPlan, answers: list[LedgerAnswer], verdict: Verdict
) -> DataUse:
    """Return the look at these answers of a folder of labels, with what it says."""
    digests = np.array([int(item.draw.digest, 16) for item in answers], np.uint64)
    labels = np.array([-1 if item.label is None else item.label for item in answers], np.int8)
    return replace(
        DataUse.at(digests, labels, seed=plan.seed),
        verdict=verdict,
        session=agreed_on(folder),
        traces=plan.traces.sha256 or "",
        folder=str(folder.absolute()),
    )


def begin_look(folder: Path, looks: str | PathLike[str] | None) -> list[dict[str, Any]]:
    """Keep that labelling has begun; return earlier looks on which nothing can be certified.

    Raises
    ------
    DataError
        If the file of looks is damaged, or cannot be written.
    """
    plan = read_plan(folder)
    look = look_at_labels(folder, plan, [], "inconclusive")
    earlier = DataUseHistory(looks).record(plan.guardrail, look)
    return [item for item in to_report_rows(earlier) if item["same_traces"]]
