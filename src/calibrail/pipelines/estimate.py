"""--dry-run: calls, cost, time."""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, Final

from calibrail.data.dataset import Dataset
from calibrail.data.example import Example
from calibrail.data.formats import Source
from calibrail.data.sentences import sentence_examples
from calibrail.engine import score_examples
from calibrail.engine.distributed import engine, in_this_process, is_portable
from calibrail.engine.local import characters
from calibrail.engine.shards import SHARD_CHARACTERS
from calibrail.formatting import count, listed, spoken_bytes, spoken_time
from calibrail.models.hardware import cores, free_memory, held_memory, machine
from calibrail.models.llm.chat import RemoteModel
from calibrail.models.llm.limits import account
from calibrail.options import SplitOptions
from calibrail.options.data import ReadOptions
from calibrail.options.fields import optional, spell_option
from calibrail.options.guarantee import Unit
from calibrail.options.runtime import EngineOptions
from calibrail.pipelines.loading import batches, open_source
from calibrail.pipelines.scoring import resolve_scores
from calibrail.pipelines.splitting import BySentence, fitted
from calibrail.scores.base import Score
from calibrail.scores.custom import ScoreLike
from calibrail.scores.detector import learns
from calibrail.scores.registry import key_of
from calibrail.serialization import Record


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


def workers_at_once(options: EngineOptions) -> int | None:
    """Return how many workers can compute at a time; None where only the cluster knows."""
    if options.engine == "local":
        return 1
    asked = options.workers[1] if isinstance(options.workers, tuple) else options.workers
    if options.ray_address is not None or options.gpus:
        return asked
    return min(asked or cores(), cores())


def longest_share(n: int, shard_rows: int, workers: int) -> int:
    """Return how many rows pass until all are done, where workers take whole shards in turn.

    >>> longest_share(3000, 4096, 2), longest_share(9000, 4096, 2), longest_share(16384, 4096, 2)
    (3000, 4904, 8192)
    """
    full, rest = divmod(n, shard_rows)
    # The last shard, if smaller, is done beside full ones unless all of those come out even.
    return -(-full // workers) * shard_rows + (rest if full % workers == 0 else 0)


def times_sooner(
    options: EngineOptions,
    n: int | None,
    characters: float,
    *,
    busy: float = 1.0,
    on_gpu: bool = False,
) -> float:
    """Return how many times sooner the workers are done; below 1 where they are slower.

    Processes of one machine share its cores and its GPU: what keeps all of these busy by itself
    gains nothing. Of a cluster nothing is known, so that its workers count as this process does.

    Parameters
    ----------
    options : EngineOptions
        The engine, which the score can be sent to.
    n : int or None
        About how many answers there are.
    characters : float
        Of an answer with its texts, on average.
    busy : float
        Cores that one process kept busy, at least 1.
    on_gpu : bool
        Whether a GPU computed.
    """
    workers = workers_at_once(options)
    if workers is None or options.engine == "local" or (on_gpu and not options.gpus):
        return 1.0
    gained = float(workers)
    if n:
        rows = max(1, min(options.shard_rows, int(SHARD_CHARACTERS / max(1.0, characters))))
        gained = n / longest_share(n, rows, workers)
    if options.ray_address is None and not options.gpus:
        gained *= min(busy, max(1, cores() // workers)) / busy
    return gained


def what_it_rests_on(options: EngineOptions) -> str:
    """Return what the time that is told of an engine rests on, and leaves out; empty for none."""
    if options.engine == "local":
        return ""
    named = spell_option(EngineOptions, "engine", options.engine)
    rows = spell_option(EngineOptions, "shard_rows", options.shard_rows)
    cluster = options.ray_address is not None
    return (
        f"the time with {named} is computed from what one process of this machine took, for shards "
        f"of {rows}; the start of the workers comes on top"
        + ("; how fast the cluster's machines are is not known" if cluster else "")
    )


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
        limit, sample = (spell_option(ReadOptions, name) for name in ("limit", "sample"))
        shards = spell_option(EngineOptions, "shards")
        return (
            f"this run will need about {spoken_bytes((self.held or 0) + self.more)} of memory, "
            f"{spoken_bytes(self.more)} more than now, and {spoken_bytes(self.free)} are free: "
            f"read a part with {limit} or {sample}; with {shards} what is done is kept, whatever "
            "happens"
        )


#: Bytes of UTF-8 a token, where no answer of the model has been counted yet: English prose.
BYTES_A_TOKEN = 4.0

#: Answers that load what a score needs, and answers that are timed: so many at least and at most,
#: four times as many as before until they take a while.
WARM, TIMED, MOST_TIMED = 2, 16, 1024
A_WHILE = 0.5


def plan_calls(
    source: Source,
    scores: ScoreLike | Sequence[ScoreLike],
    *,
    reading: ReadOptions | None = None,
    splitting: SplitOptions | None = None,
    labelled: bool = True,
    unit: Unit = "answer",
) -> tuple[PlannedCalls, ...]:
    """Read the data and count the calls that scoring it would send; nothing is sent.

    A hybrid's cheap score is computed, so that what it leaves to the judge is known. Only scores
    that ask endpoints are listed.

    Parameters
    ----------
    source, scores, reading, splitting
        As in ``calibrate``.
    labelled : bool
        Whether answers without a label are left out.
    unit : {"answer", "sentence"}
        What is scored.

    Raises
    ------
    InputError
        If a score is unknown, or learns from an endpoint's answers: they are not there yet.
    """
    reading = replace(optional(reading, ReadOptions, "reading"), quarantine=None)
    detectors = resolve_scores(scores)
    splitting = optional(splitting, SplitOptions, "splitting")
    if not any(map(_asks, detectors)):
        # Then the data need not be read to its end.
        return ()
    keep = () if splitting.column is None else (splitting.column,)
    sentences = unit == "sentence"
    apart = BySentence(reading.span_share) if sentences else None
    examples: Iterable[Example] = open_source(
        source, reading, detectors, keep=keep, labelled=labelled, by_sentence=sentences
    )
    if any(map(learns, detectors)):
        examples = answers_read = Dataset(examples)
        detectors = fitted(detectors, answers_read, splitting, keep, apart)
    plans: dict[tuple[str, int], _CallPlan] = {}
    n_examples = 0
    for answers in batches(examples):
        batch = _scored(answers, unit)
        n_examples += len(answers)
        for score in detectors:
            undecided = getattr(score, "undecided", None)
            n_judged = len(undecided(batch)) if callable(undecided) else len(batch)
            # All that it will ask for, what depends on its own first step included.
            demands = getattr(score, "eventual_demands", getattr(score, "demands", None))
            for demand in demands(batch) if demands is not None else ():
                if isinstance(demand.model, RemoteModel):
                    key = (key_of(score), id(demand.model))
                    plan = plans.setdefault(key, _CallPlan(key[0], demand.model))
                    plan.n_judged += n_judged
                    plan.add([item for part in demand.parts for item in part])
    return tuple(plan.finish(n_examples, unit) for plan in plans.values())


def _scored(answers: Sequence[Example], unit: Unit) -> Sequence[Example]:
    """Return what is scored of answers: themselves, or their sentences."""
    return (
        answers if unit == "answer" else list(chain.from_iterable(map(sentence_examples, answers)))
    )


def _asks(score: Score) -> bool:
    return any(isinstance(model, RemoteModel) for model in getattr(score, "models", ()))


def plan_time(
    source: Source,
    scores: ScoreLike | Sequence[ScoreLike],
    *,
    reading: ReadOptions | None = None,
    labelled: bool = True,
    unit: Unit = "answer",
    clock: Callable[[], float] = time.perf_counter,
    worked: Callable[[], float] = time.process_time,
) -> tuple[PlannedTime, ...]:
    """Time the first answers on every score that neither learns nor asks an endpoint.

    That is done in this process, whatever the engine in use, and what the engine makes of it is
    computed: no worker is started, and no folder of shards is made, read or changed.

    Parameters
    ----------
    source, scores, reading, labelled, unit
        As in `plan_calls`; what is timed are answers, by all of their sentences.
    clock : callable
        The time in seconds.
    worked : callable
        Seconds that cores have worked for this process.
    """
    options = engine()
    reading = replace(optional(reading, ReadOptions, "reading"), quarantine=None)
    detectors = [
        score for score in resolve_scores(scores) if not learns(score) and not _asks(score)
    ]
    opened = open_source(
        source,
        reading,
        detectors,
        labelled=labelled,
        allow_none=True,
        by_sentence=unit == "sentence",
    )
    first = list(islice(opened, WARM + MOST_TIMED))
    planned = []
    for score in detectors if len(first) > WARM else ():
        with in_this_process():
            score_examples(_scored(first[:WARM], unit), [score])
            seconds, at_work, n, timed = 0.0, 0.0, TIMED, 0
            while seconds < A_WHILE and timed < len(first) - WARM:
                part = first[WARM : WARM + n]
                started, before = clock(), worked()
                score_examples(_scored(part, unit), [score])
                seconds, at_work = clock() - started, worked() - before
                n, timed = 4 * n, len(part)
        workers: int | None = 1
        sooner, n_examples = 1.0, opened.about_in_all()
        if options.engine != "local" and is_portable(score):
            workers = workers_at_once(options)
            device = machine(getattr(score, "models", ())).get("device", "cpu")
            sooner = times_sooner(
                options,
                n_examples,
                sum(map(characters, first)) / len(first),
                busy=max(1.0, at_work / seconds) if seconds > 0.0 else 1.0,
                on_gpu=device != "cpu",
            )
        planned.append(PlannedTime(key_of(score), timed, seconds, n_examples, workers, sooner))
    return tuple(planned)


def plan_run(
    calls: Sequence[PlannedCalls],
    times: Sequence[PlannedTime],
    kept: int,
    *,
    held: Callable[[], int | None] = held_memory,
    free: Callable[[], int | None] = free_memory,
) -> Forecast | None:
    """Return what the run would need in all; None where the number of answers is not known.

    Parameters
    ----------
    calls, times
        What `plan_calls` and `plan_time` return, in this process: its memory holds the models.
    kept : int
        Bytes that each answer takes until the end.
    held, free : callable
        Bytes of memory that the process holds, and that it could still have.
    """
    counts = {item.n_examples for item in calls} | {item.n_examples for item in times}
    if len(counts) != 1 or (n := counts.pop()) is None:
        return None
    costs = [item.dollars for item in calls]
    return Forecast(
        n_examples=n,
        seconds=sum(item.seconds_of(n) for item in times) if times else None,
        held=held(),
        more=n * kept,
        free=free(),
        dollars=sum(filter(None, costs)) if costs and None not in costs else None,
    )


class _CallPlan:
    """Adds up one score's questions to one model, each once."""

    def __init__(self, score: str, model: RemoteModel) -> None:
        self._score, self._model = score, model
        self._seen: set[bytes] = set()
        self.n_judged = self._n_known = self._tokens_out = 0
        self._n_bytes = self._n_characters = 0

    def add(self, items: Sequence[Any]) -> None:
        for question in map(self._model.question, items):
            key = bytes.fromhex(question.key)
            if key in self._seen:
                continue
            self._seen.add(key)
            if self._model.knows(question):
                self._n_known += 1
                continue
            self._n_bytes += sum(len(text.encode("utf-8", "replace")) for text in question.texts)
            self._n_characters += sum(map(len, question.texts))
            self._tokens_out += question.max_tokens

    def finish(self, n_examples: int, unit: Unit) -> PlannedCalls:
        model, price = self._model, account().limits.price
        rate = model.tokens_so_far()
        tokens = self._n_bytes / BYTES_A_TOKEN if rate is None else self._n_characters * rate
        tokens_in = round(tokens)
        return PlannedCalls(
            score=self._score,
            model=model.model,
            endpoint=model.endpoint,
            n_examples=n_examples,
            n_judged=self.n_judged,
            n_known=self._n_known,
            n_calls=math.ceil((len(self._seen) - self._n_known) / model.batch),
            tokens_in=tokens_in,
            tokens_out=self._tokens_out,
            measured=rate is not None,
            dollars=None if price is None else price.of(tokens_in, self._tokens_out),
            unit=unit,
        )
