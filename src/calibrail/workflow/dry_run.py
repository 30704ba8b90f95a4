"""What would a run ask of endpoints, cost and need, before anything is sent?"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from calibrail.data.by_sentence import sentence_examples
from calibrail.data.example import Example
from calibrail.data.sources import Source
from calibrail.engine import score_examples
from calibrail.engine.current import engine, in_this_process
from calibrail.engine.local import characters
from calibrail.engine.score_task import travels
from calibrail.models.call_limits import account
from calibrail.models.machine import machine
from calibrail.models.memory import free_memory, held_memory
from calibrail.models.remote import RemoteModel
from calibrail.scores.base import Score
from calibrail.scores.custom import ScoreLike
from calibrail.scores.learned import learns
from calibrail.scores.registry import key_of
from calibrail.settings import ReadOptions, SplitOptions
from calibrail.settings.checks import optional
from calibrail.settings.promise import Unit
from calibrail.workflow.by_sentence import BySentence
from calibrail.workflow.forecast import Forecast
from calibrail.workflow.planned import PlannedCalls, PlannedTime
from calibrail.workflow.scoring import resolve_scores
from calibrail.workflow.sooner import times_sooner, workers_at_once
from calibrail.workflow.sources import batches, open_source
from calibrail.workflow.splitting import fitted

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
    detectors, source = fitted(detectors, source, reading, splitting, keep, apart)
    examples = open_source(
        source, reading, detectors, keep=keep, labelled=labelled, by_sentence=sentences
    )
    plans: dict[tuple[str, int], _Plan] = {}
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
                    plan = plans.setdefault(key, _Plan(key[0], demand.model))
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
        if options.engine != "local" and travels(score):
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


class _Plan:
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
