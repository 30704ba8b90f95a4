"""Which answers set the threshold of a drift audit, and which others test it?"""

from dataclasses import dataclass
from typing import Any

from calibrail.errors import InputError
from calibrail.settings.checks import column, texts
from calibrail.settings.option import setting
from calibrail.settings.reading import ReadOptions


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

    test: Any = setting("Labelled answers from elsewhere.", None, metavar="FILE")
    by: str | None = setting(
        "Column of groups: each is tested by all the others.", None, metavar="COL"
    )
    calibrate_on: tuple[str, ...] = setting(
        "With --by: groups that calibrate. Repeatable.", (), metavar="VALUE"
    )
    time: str | None = setting(
        "Column of dates or numbers: the earlier half calibrates.", None, metavar="COL"
    )
    periods: int = setting("With --time: parts of the later half.", 4)
    test_reading: ReadOptions | None = None

    def __post_init__(self) -> None:
        column(self.by, "by")
        column(self.time, "time")
        if sum(way is not None for way in (self.test, self.by, self.time)) != 1:
            raise InputError("name one of test (another file), by (a column of groups) and time")
        object.__setattr__(self, "calibrate_on", texts(self.calibrate_on, "calibrate_on"))
        if self.calibrate_on and self.by is None:
            raise InputError("calibrate_on names groups of a column; name it with by")
        periods = self.periods
        if isinstance(periods, bool) or not isinstance(periods, int) or periods < 1:
            raise InputError(f"periods must be a whole number of at least 1; got {periods!r}")
