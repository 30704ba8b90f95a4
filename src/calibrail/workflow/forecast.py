"""What will a run need: how much time, how much memory, how many dollars?"""

from dataclasses import dataclass
from typing import Final

from calibrail.phrases import count, listed, spoken_bytes, spoken_time
from calibrail.record import Record
from calibrail.settings.engine import EngineOptions
from calibrail.settings.option import option_of
from calibrail.settings.reading import ReadOptions

#: Bytes that a further answer takes until the end of a run on columns of scores (45 to 75,
#: ``benchmarks/calibrate_memory.py``), and of one that also looks for copies among the texts
#: (1,380 between 20,000 and 60,000 answers with sources of 60 words).
SCORES_KEPT: Final = 70
TEXTS_KEPT: Final = 1400

#: Seconds below which nothing is said before the end.
SHORT: Final = 60.0


@dataclass(frozen=True, slots=True)
class Forecast(Record):
    """What a run will need, as far as its first answers show.

    Attributes
    ----------
    n_examples : int
        About how many answers there are.
    seconds : float or None
        Seconds that they take from the first to the last; None where none was timed.
    held : int or None
        Bytes of memory that the process holds; None where that cannot be told.
    more : int
        Bytes that it will hold beside these at the end.
    free : int or None
        Bytes that the machine, or the container, could still give.
    dollars : float or None
        What calls to endpoints cost; None without a price.
    """

    n_examples: int
    seconds: float | None
    held: int | None
    more: int
    free: int | None
    dollars: float | None = None

    @property
    def too_large(self) -> bool:
        """Whether more memory will be needed than is free."""
        return self.free is not None and self.more > self.free

    @property
    def long(self) -> bool:
        """Whether it takes longer than one waits for without a word."""
        return self.seconds is not None and self.seconds > SHORT

    def sentence(self) -> str:
        """Return all of it in one line."""
        parts = [] if self.seconds is None else [f"about {spoken_time(self.seconds)}"]
        if self.held is not None:
            parts.append(f"{spoken_bytes(self.held + self.more)} of memory")
        if self.dollars is not None:
            parts.append(f"${self.dollars:,.2f} for calls to endpoints")
        return f"about {count(self.n_examples, 'example')} will take {listed(parts)}"

    def warning(self) -> str:
        """Return what to do where memory will not suffice; empty where it will."""
        if not self.too_large or self.free is None:
            return ""
        limit, sample = (option_of(ReadOptions, name) for name in ("limit", "sample"))
        shards = option_of(EngineOptions, "shards")
        return (
            f"this run will need about {spoken_bytes((self.held or 0) + self.more)} of memory, "
            f"{spoken_bytes(self.more)} more than now, and {spoken_bytes(self.free)} are free: "
            f"read a part with {limit} or {sample}; with {shards} what is done is kept, whatever "
            "happens"
        )
