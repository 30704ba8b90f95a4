"""Calls that a run would send to endpoints, and their cost (``--dry-run``)."""

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, count, product
from typing import Any, Final

import numpy as np

from calibrail.conformal.threshold_rule import Rule
from calibrail.data import dataset, example, sources
from calibrail.data.sentences import sentence_examples
from calibrail.data.splits import TEST
from calibrail.errors import InputError, Library, errors_as
from calibrail.evaluation import Report, Sample
from calibrail.evaluation.evaluate import ReportWarning
from calibrail.models.llm import transport
from calibrail.options import SplitOptions, data, fields, guarantee
from calibrail.pipelines.loading import batches, open_source
from calibrail.pipelines.scoring import Scored, resolve_scores
from calibrail.pipelines.splitting import BySentence, fitted
from calibrail.report.messages import say
from calibrail.scores import base, custom, registry
from calibrail.serialization import Record

chat = Library("calibrail.models.llm.chat")

#: Bytes of UTF-8 a token, where no answer of the model has been counted yet: English prose.
BYTES_A_TOKEN: Final = 4.0


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
    dollars, dollars_batch : float or None
        Their cost, by themselves and in batches; None without a price, or batches.
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
    dollars_batch: float | None
    unit: guarantee.Unit = "answer"

    def sentence(self) -> str:
        """Return all of it in one line."""
        costs = {"most": self.dollars, "most_in_batches": self.dollars_batch}
        known = {name: x if x is None else dollars_at_most(x) for name, x in costs.items()}
        return say("command.planned_calls", self.to_dict(), known)


def dollars_at_most(dollars: float) -> str:
    """Return an amount that is not exceeded, in whole cents.

    >>> dollars_at_most(0.0146), dollars_at_most(1234.5)
    ('0.02', '1,234.50')
    """
    return f"{math.ceil(100.0 * dollars - 1e-6) / 100.0:,.2f}"


def plan_calls(
    source: sources.Source,
    scores: custom.ScoreLike | Sequence[custom.ScoreLike],
    *,
    reading: data.ReadOptions | None = None,
    splitting: SplitOptions | None = None,
    labelled: bool = True,
    unit: guarantee.Unit = "answer",
    times: int = 1,
    in_batches: bool = True,
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
    times : int
        How often each is.
    in_batches : bool
        Whether batches may be asked for, so that their price is of interest.

    Raises
    ------
    InputError
        If a score is unknown, or learns from an endpoint's answers: they are not there yet.
    """
    reading = replace(fields.optional(reading, data.ReadOptions, "reading"), quarantine=None)
    detectors = resolve_scores(scores)
    splitting = fields.optional(splitting, SplitOptions, "splitting")
    sentences = unit == "sentence"
    models = (model for item in detectors for model in getattr(item, "models", ()))
    asks = any(isinstance(model, chat.RemoteModel) for model in models)
    keep = () if splitting.column is None else (splitting.column,)
    apart = BySentence(reading.span_share) if sentences else None
    examples: Iterable[example.Example] = open_source(
        source,
        reading,
        detectors,
        keep=keep,
        labelled=labelled,
        allow_none=not asks,
        by_sentence=sentences,
    )
    if not asks:
        # Data that cannot be read is refused; it need not be read to its end.
        next(iter(examples), None)
        return ()
    plans: dict[tuple[str, int], _CallPlan] = {}
    n_examples = 0
    with errors_as(InputError, transport.BudgetError, "dry_run_asks"), transport.no_calls():
        # Which answers a hybrid asks about follows from what it has learnt; others ask about all.
        if any(base.learns(score) and hasattr(score, "undecided") for score in detectors):
            examples = answers_read = dataset.Dataset(examples)
            detectors = fitted(detectors, answers_read, splitting, keep, apart)
        for answers in batches(examples):
            batch: Sequence[example.Example] = answers
            if sentences:
                batch = list(chain.from_iterable(map(sentence_examples, answers)))
            n_examples += len(answers)
            for score, number in product(detectors, range(times)):
                undecided = getattr(score, "undecided", None)
                with chat.asked_again(number):
                    n_judged = len(undecided(batch)) if callable(undecided) else len(batch)
                    for demand in base.eventual_demands(score, batch):
                        if isinstance(demand.model, chat.RemoteModel):
                            key = (registry.key_of(score), id(demand.model))
                            new = _CallPlan(key[0], demand.model, in_batches)
                            plan = plans.setdefault(key, new)
                            plan.n_judged += n_judged * (number == 0)
                            plan.add([item for part in demand.parts for item in part])
    return tuple(plan.finish(n_examples, unit) for plan in plans.values())


class _CallPlan:
    """Adds up one score's questions to one model, each once."""

    def __init__(self, score: str, model: Any, in_batches: bool) -> None:
        self._score, self._model, self._in_batches = score, model, in_batches
        self._known: dict[bytes, bool] = {}
        self._share = transport.BATCH_SHARE
        self.n_judged = self._tokens_out = self._n_bytes = self._n_characters = 0

    def add(self, items: Sequence[Any]) -> None:
        if not all(getattr(item, "kind", "") == "chat" for item in items):
            # Texts to embed, and decisions, are asked for by themselves in any case.
            self._share = 1.0
        for question in map(self._model.question, items):
            key = bytes.fromhex(question.key)
            if key in self._known:
                continue
            self._known[key] = known = self._model.knows(question)
            if not known:
                texts = question.texts
                self._n_bytes += sum(len(text.encode("utf-8", "replace")) for text in texts)
                self._n_characters += sum(map(len, texts))
                self._tokens_out += question.max_tokens

    def finish(self, n_examples: int, unit: guarantee.Unit) -> PlannedCalls:
        model, n_known = self._model, sum(self._known.values())
        price = transport.account().limits.price_of(model.name)
        rate = model.tokens_so_far()
        tokens = self._n_bytes / BYTES_A_TOKEN if rate is None else self._n_characters * rate
        tokens_in = math.ceil(tokens)
        dollars = None if price is None else price.of(tokens_in, self._tokens_out)
        is_known = (
            dollars is not None and self._in_batches and transport.takes_batches(model.endpoint)
        )
        return PlannedCalls(
            score=self._score,
            model=model.model,
            endpoint=model.endpoint,
            n_examples=n_examples,
            n_judged=self.n_judged,
            n_known=n_known,
            n_calls=math.ceil((len(self._known) - n_known) / model.batch),
            tokens_in=tokens_in,
            tokens_out=self._tokens_out,
            measured=rate is not None,
            dollars=dollars,
            dollars_batch=self._share * (dollars or 0.0) if is_known else None,
            unit=unit,
        )


def with_repeats(
    report: Report, scored: Scored, sample: Sample, rule: Rule, names: Sequence[str] | None
) -> Report:
    """Add how many test answers a judge decided otherwise when it was asked again, if it was.

    That is what the cache holds of the very same questions, as ``calibrail repeat`` leaves it;
    nothing is sent. Where more decisions differ than the verdict can bear, a warning says so.
    """
    detector, rows = scored.detectors[0], sample.rows(TEST)
    first, counts = rule.flags(sample.values, names, sample.tolerance), list[int]()
    if scored.answers is None or scored.sentences is not None or not scored.data["calls"]:
        return report
    examples = [scored.answers[row] for row in np.flatnonzero(rows).tolist()]
    # An embedding is the same in every round, and where nobody was asked rounds would never end.
    models = getattr(detector, "models", ())
    judges = {model.model for model in models if isinstance(model, chat.LanguageModel)}
    for number in count(1):
        with chat.asked_again(number), transport.no_calls():
            plans: Sequence[PlannedCalls] = ()
            # What a hybrid asks follows from replies to its cheap score, which are not kept.
            with suppress(InputError):
                plans = plan_calls(examples, detector, labelled=False)
            asked = [plan.n_known for plan in plans if plan.model in judges]
            if not any(asked) or any(plan.n_calls for plan in plans):
                break
            values = np.full(len(rows), np.nan)
            values[rows] = detector.score(examples).values
        other = rule.flags(values, names, sample.tolerance) != first
        counts.append(int((other & rows).sum()))
    if not counts:
        return report
    n = len(counts) * len(examples)
    repeats = {"n": n, "count": sum(counts), "share": sum(counts) / n}
    warnings, margin = report.warnings, report.certificate.get("flips")
    if report.verdict == "certified" and margin and repeats["share"] > margin["share"]:
        about = {**repeats, "margin": margin}
        warnings = (*warnings, ReportWarning("flips_more_than_its_margin", values=about))
    notes = (*report.notes, say("calibrate.asked_again", repeats))
    return replace(report, warnings=warnings, notes=notes, data={**report.data, "repeats": repeats})
