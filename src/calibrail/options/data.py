"""ReadOptions, SplitOptions, ShiftSplit, detectors of a command."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Self, TypedDict

from calibrail.errors import InputError
from calibrail.options import fields
from calibrail.options.fields import setting
from calibrail.options.guarantee import Promise

Annotators = Literal["majority", "any", "all"]

#: What says how much of a file is read, which says nothing of its layout.
PART: Final = ("limit", "sample", "sample_seed")

#: The two answers of a row that holds a pair, by their labels 0 and 1.
PAIR: Final = ("faithful", "hallucinated")

#: What a pair says by itself.
LABELLING: Final = ("label_column", "label_map", "positive", "annotators", "labelled_by")

#: The class of a label whose rows are left out on request.
SKIP: Final = "skip"

_CLASSES: Final[Mapping[str, int | str]] = {
    "0": 0,
    "1": 1,
    "faithful": 0,
    "hallucinated": 1,
    SKIP: SKIP,
}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read a file; what is left out is guessed from it.

    Attributes
    ----------
    format : str or None
        ``jsonl``, ``csv``, ``parquet``, the name of a benchmark or of a tool's export, or one that
        a plug-in registers.
    preset : str or None
        Another tool whose field names the file has.
    mapping : mapping of str to str
        Column of each field whose column is named otherwise. Here and below, a column may be a
        path into objects, such as ``metadata.label``.
    label_column : str, tuple of str or None
        Column of labels; several, or names with commas between them, hold an annotator's each.
    label_map : mapping or None
        What each value of the labels means: 1 or ``hallucinated``, 0 or ``faithful``, or ``skip``
        for rows to leave out. Without, 1 = hallucinated and 0 = faithful, or what the words say.
    positive : str, number or None
        The one value that means hallucinated, where every other one means faithful.
    pair : mapping or None
        The columns of a row's two answers: ``faithful`` and ``hallucinated``. They share all else
        that the row holds.
    annotators : {"majority", "any", "all"} or None
        When a row with several labels is hallucinated; a tie of the majority is set aside. And who
        must have marked what is unsupported, where several people marked. None is ``majority`` of
        labels, and ``any`` of marks.
    labelled_by : str or None
        The judge that gave the labels (model, prompt); None or ``people`` for people's. What agrees
        with a judge's labels is never certified.
    group_column, id_column : str or None
        Columns of what a split keeps whole, and of ids.
    options : mapping
        For the format's own reader.
    strict : bool
        Stop at the first row that is unusable.
    limit : int or None
        Read the first rows only, so many.
    sample : int or None
        Read so many rows, drawn by lot (of the first ones, where there is a limit). Where rows have
        groups, whole groups are drawn, whatever their size, so that it is about so many.
    sample_seed : int
        Another lot.
    span_share : float
        A sentence is unsupported where marked spans cover at least this share of its characters,
        white space apart; 0 for any overlap.
    quarantine : Path or None
        File for rows that are unusable, with the reasons.
    """

    panel: ClassVar = "Reading data"

    format: str | None = setting(default=None, metavar="NAME")
    preset: str | None = setting(default=None, metavar="NAME")
    mapping: Mapping[str, str] | None = setting(default=None, flag="map", metavar="FIELD=COL")
    label_column: str | tuple[str, ...] | None = setting(default=None)
    label_map: Mapping[str, Any] | None = setting(default=None, metavar="VALUE=CLASS")
    positive: str | float | None = setting(default=None, metavar="VALUE")
    pair: Mapping[str, str] | None = setting(default=None, metavar="faithful=COL,hallucinated=COL")
    annotators: Annotators | None = setting(default=None)
    labelled_by: str | None = setting(default=None, metavar="JUDGE")
    group_column: str | None = setting(default=None)
    id_column: str | None = setting(default=None)
    options: Mapping[str, Any] | None = setting(
        default=None, flag="reader-option", metavar="KEY=VALUE"
    )
    strict: bool = setting(default=False)
    limit: int | None = setting(default=None, metavar="N")
    sample: int | None = setting(default=None, metavar="N")
    sample_seed: int = setting(default=0)
    span_share: float = setting(default=0.0)
    quarantine: Path | None = field(default=None)

    def __post_init__(self) -> None:
        counts = {"limit": fields.count, "sample": fields.count}
        fields.replace_checked(self, quarantine=fields.path, **counts, sample_seed=fields.whole)
        for name in ("mapping", "options", "pair"):
            if not isinstance(getattr(self, name), Mapping | None):
                raise InputError(f"{name} must be a dict; got {getattr(self, name)!r}")
        for name in ("format", "preset", "labelled_by", "group_column", "id_column"):
            if not isinstance(getattr(self, name), str | None):
                raise InputError(f"{name} must be a name; got {getattr(self, name)!r}")
        if not isinstance(self.label_column, str | None):
            fields.texts(self.label_column, "label_column")
        if self.annotators is not None:
            fields.one_of(self.annotators, Annotators, "annotators")
        fields.rate(self.span_share, "span_share")
        self.label_classes()
        if self.label_map is not None and self.positive is not None:
            raise InputError("give label_map or positive, not both: each says what labels mean")
        if self.pair is not None:
            self._check_pair(self.pair)

    def _check_pair(self, pair: Mapping[str, str]) -> None:
        spell = partial(fields.spell_option, ReadOptions)
        spelled = spell("pair", dict(zip(PAIR, ("A", "B"), strict=True)))
        if pair.keys() != {*PAIR} or len({*map(str, pair.values())}) < len(PAIR):
            raise InputError(f"a pair is two columns, {spelled}; got {spell('pair', pair)}")
        beside = [spell(name) for name in LABELLING if getattr(self, name) is not None]
        beside += [
            spell("mapping", {name: self.columns[name]})
            for name in ("response", "label")
            if name in self.columns
        ]
        if beside:
            raise InputError.on("pair_alone", spelled=spelled, beside=beside[0])

    @property
    def columns(self) -> Mapping[str, str]:
        """The columns of fields that are named one by one."""
        return self.mapping or {}

    def of_answers(self) -> "ReadOptions":
        """Return how the answers of rows that hold pairs are read, once they are apart."""
        if self.pair is None:
            return self
        mapping = {**self.columns, "response": "response"}
        return replace(self, pair=None, mapping=mapping, label_column="label")

    def label_classes(self) -> dict[Any, int | str]:
        """Return the class of every value of ``label_map``: 0, 1 or `SKIP`.

        Raises
        ------
        InputError
            A class is none of these.

        Examples
        --------
        >>> ReadOptions(label_map={"PASS": "faithful", "FAIL": 1}).label_classes()
        {'PASS': 0, 'FAIL': 1}
        """
        classes: dict[Any, int | str] = {}
        for value, name in (self.label_map or {}).items():
            key = str(int(name)) if isinstance(name, int | float) else str(name).strip().lower()
            if key not in _CLASSES:
                raise InputError.on("label_map_class", skip=SKIP, value=value, name=name)
            classes[value] = _CLASSES[key]
        return classes


def judge_of(reading: Mapping[str, Any] | None) -> str | None:
    """Return which judge gave the labels of data that was read so; None where people did.

    >>> judge_of({"settings": {"labelled_by": "gpt"}}), judge_of({"settings": {}}), judge_of(None)
    ('gpt', None, None)
    """
    judge = ((reading or {}).get("settings") or {}).get("labelled_by")
    return None if judge == "people" else judge


class ReadKeywords(TypedDict, total=False):
    """The fields of `ReadOptions`, which functions that read data take one by one."""

    format: str | None
    preset: str | None
    mapping: Mapping[str, str] | None
    label_column: str | tuple[str, ...] | None
    label_map: Mapping[str, Any] | None
    positive: str | float | None
    pair: Mapping[str, str] | None
    annotators: Annotators | None
    labelled_by: str | None
    group_column: str | None
    id_column: str | None
    options: Mapping[str, Any] | None
    strict: bool
    limit: int | None
    sample: int | None
    sample_seed: int
    span_share: float
    quarantine: str | PathLike[str] | None


#: Share of the data that a score learns from, where nothing else is said.
FIT_SHARE: Final = 0.3


@dataclass(frozen=True, slots=True)
class SplitOptions:
    """How to split: seeded shares, or the user's own column.

    Without a share to fit, none is kept, or ``FIT_SHARE`` where a score learns; without one to
    calibrate, it is half of the rest, or all of it where a promise needs no test (``proving``).
    """

    panel: ClassVar = "Split"

    column: str | None = setting(default=None, flag="split-column")
    seed: int = setting(default=0)
    calibration_share: float | None = setting(default=None)
    fit_share: float | None = setting(default=None)

    def shares(self, learning: bool) -> dict[str, float]:
        """Return the shares that calibrate and that fit, as ``split`` takes them."""
        fit, share = self.fit_share, self.calibration_share
        if fit is None:
            fit = FIT_SHARE if learning and self.column is None else 0.0
            # All is what is left where nobody said how much is to fit.
            share = 1.0 - fit if share == 1.0 else share
        calibration = (1.0 - fit) / 2.0 if share is None else share
        return {"calibration_share": calibration, "fit_share": fit}

    def proving(self, promise: Promise) -> Self:
        """Return the split that a promise needs: one that proves itself keeps no test part."""
        if not promise.proves_itself or (self.column, self.calibration_share) != (None, None):
            return self
        return replace(self, calibration_share=1.0 - (self.fit_share or 0.0))


@dataclass(frozen=True, slots=True)
class ShiftSplit:
    """Where the other answers come from: exactly one of ``test``, ``by`` and ``time``.

    Attributes
    ----------
    test : path, str or iterable of Example, optional
        Other labelled answers: the threshold comes from all of the first ones.
    by : str or None
        Column of groups (a model, a domain). Each group is tested with a threshold from all the
        others, or from the groups in ``calibrate_on``.
    calibrate_on : tuple of str
        Values of ``by`` that set the threshold.
    time : str or None
        Column of times: ISO dates or numbers. The earlier half sets the threshold, the rest is
        tested in ``periods`` parts.
    periods : int
        Parts of the later half, 1 or more.
    test_reading : ReadOptions or None
        How to read ``test``; like the first answers when left out.

    Raises
    ------
    InputError
        If not exactly one way is named, or a value is outside its domain.
    """

    panel: ClassVar = "Split"

    test: Any = setting(default=None, metavar="FILE", main=True)
    by: str | None = setting(default=None, metavar="COL", main=True)
    calibrate_on: tuple[str, ...] = setting(default=(), metavar="VALUE")
    time: str | None = setting(default=None, metavar="COL", main=True)
    periods: int = setting(default=4)
    test_reading: ReadOptions | None = None

    def __post_init__(self) -> None:
        fields.column(self.by, "by")
        fields.column(self.time, "time")
        if sum(way is not None for way in (self.test, self.by, self.time)) != 1:
            raise InputError("name one of test (another file), by (a column of groups) and time")
        fields.replace_checked(self, calibrate_on=fields.texts)
        if self.calibrate_on and self.by is None:
            raise InputError("calibrate_on names groups of a column; name it with by")
        fields.count(self.periods, "periods")


@dataclass(frozen=True, slots=True)
class Detectors:
    """Which detectors a command looks at.

    Attributes
    ----------
    score : tuple of str
        Names of detectors.
    score_column : tuple of str
        Columns of scores that the data holds.
    higher : str or None
        What a higher value of these columns means.
    baselines : bool
        Whether trivial baselines stand beside them.
    """

    panel: ClassVar = "Detectors"

    score: tuple[str, ...] = setting(default=(), metavar="NAME[:KEY=VALUE,...]", main=True)
    score_column: tuple[str, ...] = setting(default=(), metavar="COL")
    higher: str | None = setting(default=None, metavar="hallucinated|faithful")
    baselines: bool = setting(default=True)


@dataclass(frozen=True, slots=True)
class Beyond:
    """What a report holds beyond what was measured on labelled answers.

    Attributes
    ----------
    target : str or None
        File of unlabelled answers from production.
    no_text : bool
        Whether questions, contexts and answers stay out of the page.
    """

    panel: ClassVar = "Report"

    target: str | None = setting(default=None, metavar="FILE")
    no_text: bool = setting(default=False)
