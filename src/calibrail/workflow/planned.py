"""What is said of the calls and the time that a score would take?"""

from dataclasses import dataclass

from calibrail.phrases import count, spoken_time
from calibrail.record import Record
from calibrail.settings.promise import Unit


@dataclass(frozen=True, slots=True)
class PlannedCalls(Record):
    """What one score would ask of one model.

    Attributes
    ----------
    score, model, endpoint : str
        Who asks whom.
    n_examples : int
        Examples read.
    n_judged : int
        Examples that the model is asked about, or sentences of theirs.
    n_known : int
        Questions that the cache has the answer to.
    n_calls : int
        Calls that would be sent, without further attempts.
    tokens_in : int
        Tokens of those calls.
    tokens_out : int
        Tokens of their answers, at most.
    measured : bool
        Whether tokens follow from counted answers of this model; else from 4 bytes a token.
    dollars : float or None
        Their cost; None without a price.
    unit : {"answer", "sentence"}
        What the model is asked about.
    """

    score: str
    model: str
    endpoint: str
    n_examples: int
    n_judged: int
    n_known: int
    n_calls: int
    tokens_in: int
    tokens_out: int
    measured: bool
    dollars: float | None
    unit: Unit = "answer"

    def sentence(self) -> str:
        """Return all of it in one line."""
        how = "by this model's answers so far" if self.measured else "estimated, 4 bytes a token"
        cost = (
            "cost unknown: give --price IN,OUT (US dollars per million tokens)"
            if self.dollars is None
            else f"${self.dollars:,.2f} at most"
        )
        judged = f"{self.n_judged:,}{' sentences' if self.unit == 'sentence' else ''}"
        return (
            f"{self.score}: {self.n_calls:,} calls to {self.model} at {self.endpoint}, for "
            f"{judged} of {self.n_examples:,} answers ({self.n_known:,} known already); "
            f"{self.tokens_in:,} tokens in ({how}), at most {self.tokens_out:,} out; {cost}"
        )


@dataclass(frozen=True, slots=True)
class PlannedTime(Record):
    """How long a score that asks no endpoint would take.

    Attributes
    ----------
    score : str
        The score.
    n_timed : int
        Answers that were scored to find out, after two that load what is needed.
    seconds : float
        Seconds that they took, in one process of this machine.
    n_examples : int or None
        About how many answers there are; None where they cannot be counted at once.
    workers : int or None
        Workers of the engine that compute it at a time; None where only a cluster knows.
    sooner : float
        How many times sooner than one process they are done.
    """

    score: str
    n_timed: int
    seconds: float
    n_examples: int | None
    workers: int | None = 1
    sooner: float = 1.0

    def seconds_of(self, n: int) -> float:
        """Return the seconds that so many answers take by the engine in use."""
        return n * self.seconds / self.n_timed / self.sooner

    def sentence(self) -> str:
        """Return all of it in one line."""
        n = 1000 if self.n_examples is None else self.n_examples
        here = spoken_time(self.seconds_of(n) * self.sooner)
        timed = f"by {self.n_timed} that were timed"
        if self.workers == 1:
            return f"{self.score}: about {here} for {n:,} answers on this machine, {timed}"
        if self.workers is None:
            return (
                f"{self.score}: about {here} for {n:,} answers in one process of this machine, "
                f"{timed}, to be divided by the cluster's workers"
            )
        return (
            f"{self.score}: about {spoken_time(self.seconds_of(n))} for {n:,} answers with "
            f"{count(self.workers, 'worker')} at a time, computed from about {here} in one process "
            f"of this machine, {timed}"
        )
