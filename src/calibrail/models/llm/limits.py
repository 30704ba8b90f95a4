"""Budget, price, concurrency."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import ClassVar, Final

from calibrail.errors import CalibrailError, InputError
from calibrail.models.fork_safety import renewed
from calibrail.options.fields import cli_or_python, setting

#: Environment variable with the file of the answer cache; ``off`` keeps answers in memory only.
CACHE_VARIABLE: Final = "CALIBRAIL_CACHE"


class BudgetError(CalibrailError):
    """The calls that were allowed are spent; what was answered is kept."""


def default_cache() -> Path | None:
    """Return the file of the answer cache: ``CALIBRAIL_CACHE``, or one in the user's cache folder.

    None where the environment says ``off``.
    """
    if named := os.environ.get(CACHE_VARIABLE):
        return None if named == "off" else Path(named).expanduser()
    return cache_folder() / "answers.sqlite"


def cache_folder() -> Path:
    """Return calibrail's folder within the user's cache folder, ``XDG_CACHE_HOME``."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "calibrail"


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens.

    Attributes
    ----------
    tokens_in, tokens_out : float
        Of what is sent and of what is answered.
    """

    tokens_in: float
    tokens_out: float

    def of(self, tokens_in: float, tokens_out: float) -> float:
        """Return what so many tokens cost, in US dollars.

        >>> Price(0.15, 0.6).of(1_000_000, 10_000)
        0.156
        """
        return (self.tokens_in * tokens_in + self.tokens_out * tokens_out) / 1e6


def read_price(text: str) -> Price:
    """Return the price that ``IN,OUT`` stands for.

    Raises
    ------
    InputError
        If these are not two amounts of money.

    >>> read_price("0.15,0.60")
    Price(tokens_in=0.15, tokens_out=0.6)
    """
    try:
        tokens_in, tokens_out = (float(part) for part in text.split(","))
    except ValueError:
        tokens_in = tokens_out = -1.0
    if not (0.0 <= tokens_in < float("inf") and 0.0 <= tokens_out < float("inf")):
        raise InputError(
            "price must be two numbers of US dollars per million tokens, sent and answered, "
            f"e.g. 0.15,0.60; got {text!r}"
        )
    return Price(tokens_in, tokens_out)


@dataclass(frozen=True)
class CallLimits:
    """How calls to an endpoint are limited. Limits do not change what a judge says.

    Parameters
    ----------
    concurrency : int
        Calls in flight at most.
    timeout : float
        Seconds that one call may take, its whole body included.
    attempts : int
        Times that one request is sent at most, where the endpoint is busy, fails or cannot be
        reached.
    max_calls : int or None
        Calls in all, further attempts included; None for no limit.
    price : Price or None
        For the cost per 1,000 answers; None where it is not known.
    cache : Path or None
        SQLite file with the answers so far; None for this process's memory.
    patience : float
        Longest wait, in seconds, that an endpoint may ask for (Retry-After) before an example is
        given up.
    """

    panel: ClassVar = "Calls to endpoints"

    concurrency: int = setting("For judges: most calls at the same time.", 8, metavar="N")
    timeout: float = setting("For judges: longest that one call may take.", 60.0, metavar="SECONDS")
    attempts: int = 6
    max_calls: int | None = setting(
        "For judges: most calls to endpoints, retries included.", None, metavar="N"
    )
    price: Price | None = setting(
        "For judges: US dollars per million tokens, e.g. 0.15,0.60.",
        None,
        metavar="IN,OUT",
        parse=read_price,
    )
    cache: Path | None = field(default_factory=default_cache)
    patience: float = 300.0

    def __post_init__(self) -> None:
        for name, least in (("concurrency", 1), ("attempts", 1), ("max_calls", 0)):
            value = getattr(self, name)
            if name == "max_calls" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(
                    f"{name} must be a whole number of at least {least}; got {value!r}"
                )
        for name in ("timeout", "patience"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0.0 < value < float("inf"):
                raise InputError(f"{name} must be a number of seconds above 0; got {value!r}")


class Account:
    """What was spent under one set of limits, by all models and threads.

    Parameters
    ----------
    limits : CallLimits
        The limits.
    watch : callable, optional
        Called with the number of answers so far whenever one comes in, from any thread.
    """

    def __init__(self, limits: CallLimits, watch: Callable[[int], None] | None = None) -> None:
        self.limits = limits
        self.n_sent = self.n_answered = 0
        self._tokens = [0, 0]
        self._watch = watch
        self._lock = Lock()
        renewed(self)

    def renew_after_fork(self) -> None:
        """Make a lock that no thread of the parent holds; each process spends for itself."""
        self._lock = Lock()

    def spend(self) -> None:
        """Count one call that is about to be sent.

        Raises
        ------
        BudgetError
            If no more may be sent.
        """
        with self._lock:
            limit = self.limits.max_calls
            if limit is not None and self.n_sent >= limit:
                larger = cli_or_python("--max-calls", "CallLimits(max_calls=...)")
                remedy = f"allow more ({larger}), and keep a cache so that none is lost"
                if self.limits.cache is not None:
                    remedy = (
                        "they are kept, and are not asked for again: run the same again with a "
                        f"larger limit ({larger})"
                    )
                raise BudgetError(
                    f"the budget of {limit:,} calls is spent, after {self.n_answered:,} answers; "
                    f"{remedy}"
                )
            self.n_sent += 1

    def answered(self, tokens: Sequence[int | None] = ()) -> None:
        """Count one answer, and the tokens that were sent and answered where they are known."""
        with self._lock:
            self.n_answered += 1
            for place, n in enumerate(tokens):
                self._tokens[place] += n or 0
            if self._watch is not None:
                self._watch(self.n_answered)

    def dollars(self) -> float | None:
        """Return what the answers so far have cost; None where none was asked for, or no price."""
        with self._lock:
            price = self.limits.price if self.n_sent else None
            return None if price is None else price.of(*self._tokens)


_current: ContextVar[Account | None] = ContextVar("calibrail_account", default=None)


def account() -> Account:
    """Return the account that calls are charged to: the innermost ``limit_calls``, or a new one."""
    return _current.get() or Account(CallLimits())


@contextmanager
def limit_calls(
    limits: CallLimits | None = None, watch: Callable[[int], None] | None = None
) -> Iterator[Account]:
    """Limit all calls made within the block.

    Parameters
    ----------
    limits : CallLimits, optional
        The limits; the usual ones when left out.
    watch : callable, optional
        Called with the number of answers so far.

    Examples
    --------
    >>> with limit_calls(CallLimits(max_calls=100, concurrency=16)) as spent:
    ...     pass  # calibrate(..., "judge:model=...")
    >>> spent.n_sent
    0
    """
    spent = Account(limits or CallLimits(), watch)
    token = _current.set(spent)
    try:
        yield spent
    finally:
        _current.reset(token)


def no_calls() -> AbstractContextManager[Account]:
    """Send nothing within the block: what was answered before is looked up.

    What would be sent raises `BudgetError`.
    """
    return limit_calls(replace(account().limits, max_calls=0))
