"""Which audited answers set a new threshold, and how sure is it?"""

from dataclasses import dataclass
from datetime import datetime

from calibrail.errors import InputError
from calibrail.record import Record
from calibrail.settings.checks import share
from calibrail.settings.option import setting


@dataclass(frozen=True, slots=True)
class RecalibrateOptions(Record):
    """What a new threshold is made of, and with which probability none ever misses too much.

    Attributes
    ----------
    delta : float or None
        Of the guarantee ``anytime``; that of the guardrail when left out.
    since : str or None
        A time (ISO 8601, UTC unless it says otherwise): only answers that were logged then or later
        take part. To be told without a look at labels, which would void the guarantee.

    Raises
    ------
    InputError
        If a value is outside its domain.

    Examples
    --------
    >>> RecalibrateOptions(since="2027-03-01").since
    '2027-03-01'
    """

    delta: float | None = setting(
        "Most probable that any threshold made so ever misses too much (default: that of the "
        "guardrail).",
        None,
    )
    since: str | None = setting(
        "Only answers logged then or later take part, e.g. 2027-03-01: when the traffic changed, "
        "as monitor tells. A time chosen by a look at labels voids the promise.",
        None,
        metavar="TIME",
    )

    def __post_init__(self) -> None:
        if self.delta is not None:
            share(self.delta, "delta")
        if self.since is not None:
            try:
                datetime.fromisoformat(self.since)
            except (TypeError, ValueError) as error:
                raise InputError(
                    f"since must be a time, e.g. 2027-03-01 or 2027-03-01T12:00; got {self.since!r}"
                ) from error
