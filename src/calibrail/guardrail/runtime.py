"""Guardrails at run time: a frozen detector with its threshold decides about answers."""

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import FrozenInstanceError, replace
from functools import cached_property
from itertools import islice
from os import PathLike
from typing import Any, Final, Self, cast

from calibrail.conformal import Calibration
from calibrail.conformal.group_thresholds import columns_of_groups, reads_length
from calibrail.conformal.threshold import NegatedCalibration
from calibrail.data.columns import CHARACTERS
from calibrail.data.example import TEXT_FIELDS, Example
from calibrail.data.reading import read
from calibrail.data.sources import Source, is_named
from calibrail.data.tables import MemoryRows
from calibrail.data.values import with_decimals
from calibrail.errors import GuardrailError, InputError, errors_as, variable_set
from calibrail.formatting import Scale, Shown
from calibrail.guardrail import decision, decision_rule, sentences
from calibrail.guardrail.decision_rule import HallucinationProbability, RowDecision
from calibrail.guardrail.file import FileOrigin, FrozenConfig, read_file, write_file
from calibrail.guardrail.probes import Probed, compare_probes, edition_of, frozen_detector
from calibrail.guardrail.sentences import StreamCheck
from calibrail.guardrail.signing import PublicKey, Signature, SignatureTerms
from calibrail.models.llm.chat import RemoteModel
from calibrail.options import Promise
from calibrail.options.fields import Cell, share, spell_option
from calibrail.options.guarantee import Unit
from calibrail.scores.base import Score
from calibrail.text.words import rules_of
from calibrail.working_folder import UNVOUCHED


class Guardrail(Shown):
    """A frozen detector with its certified threshold; decides exactly as it did when certified.

    Make one with ``Run.freeze`` or ``Guardrail.load``. It is immutable.

    Parameters
    ----------
    config : FrozenConfig
        The content of the file.
    score : Score, optional
        The detector; built from ``config`` when left out.

    Raises
    ------
    GuardrailError
        If the detector that this machine builds is not the one that was calibrated: other weights,
        another revision, precision or word splitter.
    """

    shown_as = "guardrail"

    def __init__(self, config: FrozenConfig, score: Score | None = None) -> None:
        #: The frozen content.
        self.config: Final = config
        #: The file that it was loaded from; None for a guardrail of a run.
        self.origin: FileOrigin | None = None
        #: How this machine compared with the frozen probes; None where it was not compared.
        self.probed: Probed | None = None
        #: Everything that decides: the threshold, and those of groups and of a review.
        self.rule: Final = decision_rule.frozen_rule(config)
        #: What parted decimals in columns of texts that calibrated it, where no point did.
        self.decimals: Final[Mapping[str, str]] = (config.data.reading or {}).get("decimals", {})
        self._edition = edition_of(config.score)
        #: The detector.
        with variable_set(UNVOUCHED, config.unvouched):
            self.score: Final = frozen_detector(config.score, score, config.promise.unit)
        self._probability: HallucinationProbability | None = None
        self._on_request: HallucinationProbability | None = None
        if (told := config.probability) and told.base_rate is not None:
            self._probability = HallucinationProbability(told, config.score.tolerance)

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse another detector, or rule, under the threshold that was certified."""
        if name in ("config", "rule", "decimals", "score") and name in self.__dict__:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super().__setattr__(name, value)

    def shown(self) -> tuple[Any, ...]:
        """Return the content of the file."""
        return (json.loads(self.config.to_bytes()),)

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        *,
        trusted: Sequence[PublicKey] | None = None,
        probe: bool = False,
        own_code: bool = False,
    ) -> Self:
        """Load a guardrail file, verify every byte, and verify the detector's weights.

        Parameters
        ----------
        trusted : sequence of path or bytes, optional
            Public keys (PEM files, or what stands in them), at least one. One of them must have
            signed the file. Left out, signatures are not looked at.
        probe : bool
            Whether this machine must show that it computes what was certified; see `probe`.
            Endpoints are not asked. Where no probe has a score, which the file says truthfully,
            nothing is shown: a warning says so.
        own_code : bool
            Whether code and addresses that it names are trusted though no key of ``trusted`` has
            signed it and this user did not export it on this machine; else it is refused for them.
        """
        config, origin = read_file(path, trusted)
        if own_code:
            config.__dict__["unvouched"] = None
        guardrail = cls(config)
        guardrail.origin = origin
        if probe:
            with errors_as(GuardrailError, GuardrailError, "guardrail_refused", path=path):
                probed = guardrail.probe()
            if (why := probed.unproven()) is not None:
                warnings.warn(why, UserWarning, stacklevel=2)
        return guardrail

    def probe(self, *, endpoint: bool = False) -> Probed:
        """Compare what this machine computes of the frozen probe answers with what was frozen.

        An endpoint is asked where ``endpoint`` says so: as many calls as for 16 answers. Raises a
        ``GuardrailError`` where a score differs by more than its tolerance, with the versions on
        both sides, and where no probes were frozen.
        """
        with self.rules():
            self.probed = compare_probes(
                self.config.probes, self.score, endpoint=endpoint, unit=self.unit
            )
        return self.probed

    def save(
        self,
        path: str | PathLike[str],
        *,
        sign: str | PathLike[str] | None = None,
        force: bool = False,
        terms: SignatureTerms | None = None,
    ) -> None:
        """Write the guardrail file; the same guardrail always gives the same bytes.

        ``sign`` is a private Ed25519 key (PEM): ``PATH.dsse`` then holds its signature, and
        ``terms`` until when and from which version of calibrail on it holds. A file of another
        content that stands there is replaced only with ``force``.
        """
        write_file(self.config, path, sign, force=force, terms=terms)

    def with_probability(self, base_rate: float | None = None) -> "Guardrail":
        """Return the same guardrail, whose decisions tell P(hallucinated) as an interval.

        Of its two ends one is calibrated, on average over answers like those of the calibration;
        for one answer by itself nothing is guaranteed.

        Parameters
        ----------
        base_rate : float, optional
            Share of hallucinated answers, in (0, 1); that of the calibration when left out.

        Raises
        ------
        InputError
            If the guardrail was not frozen with the scores of both classes.
        MissingExtraError
            If the library for it is not installed.
        """
        kept = self.config.probability
        if kept is None:
            raise InputError.on("no_class_scores")
        rate = kept.own_rate if base_rate is None else share(base_rate, "base_rate")
        told = kept.model_copy(update={"base_rate": rate})
        made = type(self)(self.config.model_copy(update={"probability": told}), self.score)
        made.origin, made.probed = self.origin, self.probed
        return made

    def tell(
        self, decisions: Iterable[decision.Decision], base_rate: float | None = None
    ) -> list[decision.Decision]:
        """Return decisions of this guardrail that tell P(hallucinated), as `with_probability` does.

        Raises
        ------
        InputError, MissingExtraError
            As there.
        """
        if self._on_request is None:
            self._on_request = self._probability or self.with_probability()._probability
        rate = None if base_rate is None else share(base_rate, "base_rate")
        of = cast(HallucinationProbability, self._on_request).of
        return [
            item if item.score is None else replace(item, probability=of(item.score, rate))
            for item in decisions
        ]

    @property
    def signature(self) -> Signature | None:
        """The signature that was verified when it was loaded; None where no key was trusted."""
        return None if self.origin is None else self.origin.signature

    def rules(self) -> AbstractContextManager[int]:
        """Let the rules for texts and replies that it was frozen with be in force in a block."""
        return rules_of(self._edition)

    @property
    def calibration(self) -> Calibration | NegatedCalibration:
        """The threshold with its guarantee and calibration scores; with groups, the fallback.

        In the numbers of the score as its user knows it; ``rule`` holds those that decide.
        """
        return self.rule.calibration.as_known(self.scale.negated)

    @cached_property
    def judge(self) -> decision_rule.DecisionRule:
        """What judges answers, or sentences, by the rule."""
        return decision_rule.DecisionRule(self.rule, self.score, self.config.promise.by)

    def group_of(self, example: Example) -> str:
        """Return the name of an answer's group, or of its groups where several columns name them.

        One without a group belongs to no known one; without groups it is empty.
        """
        return self.judge.group_of(example)

    @property
    def unit(self) -> Unit:
        """What is flagged: whole answers, or sentences, which are removed."""
        return self.config.promise.unit

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data that a decision needs: an outside score, a group."""
        return (*getattr(self.score, "columns", ()), *columns_of_groups(self.config.promise.by))

    @property
    def texts(self) -> tuple[str, ...]:
        """Text fields that a decision needs: those of the score, and the answer for its length."""
        measured = {"response"} if reads_length(self.config.promise.by) else set()
        return tuple(name for name in TEXT_FIELDS if name in {*self.score.requires, *measured})

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Where the detector sends answers, sorted; empty where all is computed in this process."""
        models = getattr(self.score, "models", ())
        return tuple(sorted({item.endpoint for item in models if isinstance(item, RemoteModel)}))

    @property
    def scale(self) -> Scale:
        """In which numbers its user knows the score."""
        return self.judge.scale

    @classmethod
    def coerce(cls, value: object) -> "Guardrail":
        """Return a guardrail as it is, or make that of a file or of its content.

        Raises
        ------
        InputError
            If it is neither.
        """
        if isinstance(value, str | PathLike):
            return cls.load(value)
        if isinstance(value, FrozenConfig):
            return cls(value)
        if not isinstance(value, Guardrail):
            remedy = "; freeze the run: run.freeze()" if hasattr(value, "freeze") else ""
            raise InputError.on("guardrail_kind", kind=type(value), remedy=remedy)
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to another process as the file's bytes, with what was verified of them.

        Models and connections are made there.
        """
        known = {"origin": self.origin, "probed": self.probed}
        return guardrail_of_bytes, (self.config.to_bytes(),), known

    def check(
        self,
        *,
        response: str = "",
        question: str = "",
        contexts: Sequence[str] | str = (),
        id: str = "",
        samples: Sequence[str] = (),
        columns: Mapping[str, Cell] | None = None,
    ) -> decision.Decision:
        """Decide about one answer; a guardrail of sentences says what of it may be shown.

        Parameters
        ----------
        response, question : str
            The answer and what was asked.
        contexts : sequence of str, or str
            The retrieved chunks; one string is one chunk.
        id : str
            Carried into the decision.
        samples : sequence of str
            Further answers sampled for the question, for a guardrail that compares them.
        columns : mapping, optional
            The outside score's value, for a guardrail on a score column; of sentences a list with
            a number, or None, for each.
        """
        asked = Example.asked(
            response=response,
            question=question,
            contexts=contexts,
            id=id,
            samples=samples,
            columns=self.cells(columns),
        )
        return self._decided([asked])[0]

    def cells(self, columns: Any) -> Any:
        """Return columns with the numbers that texts spell as those did that calibrated it."""
        return with_decimals(columns, self.decimals) if isinstance(columns, Mapping) else columns

    def decide(self, examples: Source, *, alone: bool = False) -> list[decision.Decision]:
        """Decide about a batch; each decision is the one that ``check`` gives to it alone.

        Parameters
        ----------
        examples : sequence of Example, or any data
            What every function reads is taken: a frame, dicts, a file. Its first row that cannot be
            used is an error; ``calibrail check`` decides about such rows as errors.
        alone : bool
            Whether each is scored with nothing remembered, so that its evidence is the same, too.
        """
        return self._decided(list(self._examples(examples)), alone)

    def _decided(self, examples: list[Example], alone: bool = False) -> list[decision.Decision]:
        if wrong := [item for item in examples if not isinstance(item, Example)]:
            raise InputError(f"an answer to decide about is an Example; got {wrong[0]!r:.80}")
        self._renew()
        if self.unit == "sentence":
            with self.rules():
                return self._decide_by_sentences(examples, alone)
        verdicts = self.judge.decide(examples, alone=alone)
        return list(map(self.decision_for_answer, examples, verdicts))

    def _renew(self) -> None:
        """Ask an endpoint again what it failed to answer once."""
        for model in getattr(self.score, "models", ()):
            if callable(renew := getattr(model, "renew", None)):
                renew()

    def _decide_by_sentences(self, answers: list[Example], alone: bool) -> list[decision.Decision]:
        """Decide about answers by their sentences, all of which are scored together."""
        parts: list[list[Example] | Exception] = []
        for place, answer in enumerate(answers):
            # One that cannot be split costs its own decision, not the batch.
            try:
                # Each is split once.
                answers[place] = answer = sentences.with_sentences(answer)
                parts.append(self.sentences(answer))
            except Exception as error:
                parts.append(error)
        rows = [row for part in parts if isinstance(part, list) for row in part]
        verdicts = iter(self.judge.decide(rows, alone=alone))
        decisions = []
        for answer, part in zip(answers, parts, strict=True):
            if isinstance(part, Exception):
                # What the caller gave is refused in words; what else is raised is our own.
                own = not isinstance(part, InputError)
                code: decision.CauseCode = "calibrail_failed" if own else "detector_failed"
                decisions.append(self.failed(answer, part, code))
            else:
                own_verdicts = list(islice(verdicts, len(part)))
                decisions.append(self.decision_for_sentences(answer, own_verdicts))
        return decisions

    def sentences(self, answer: Example) -> list[Example]:
        """Return the sentences of an answer, as its detector scores them.

        Raises
        ------
        InputError
            If a column holds another number of values than the answer has sentences.
        """
        if reads_length(self.config.promise.by):
            length = {CHARACTERS: float(len(answer.response))}
            answer = replace(answer, columns={**answer.columns, **length})
        with self.rules():
            return sentences.sentences_to_judge(answer, self.columns)

    def decision_for_sentences(
        self, answer: Example, verdicts: Sequence[RowDecision]
    ) -> decision.Decision:
        """Return the decision about an answer by the verdicts on its sentences."""
        for verdict in verdicts:
            if verdict.error is not None:
                return self.failed(answer, verdict.error)
        try:
            sentences.refuse_long(answer)
        except InputError as error:
            return self.failed(answer, error)
        try:
            with self.rules():
                made = sentences.decision_from_sentences(
                    answer,
                    verdicts,
                    threshold=self.judge.threshold(answer),
                    undefined=self.config.policy.undefined,
                    scale=self.scale,
                )
            return replace(made, guardrail=self.config.digest)
        except Exception as error:
            return self.failed(answer, error, "calibrail_failed")

    def stream_check(
        self,
        *,
        question: str = "",
        contexts: Sequence[str] | str = (),
        id: str = "",
        samples: Sequence[str] = (),
        columns: Mapping[str, Cell] | None = None,
    ) -> StreamCheck:
        """Begin to decide about an answer that is still being written, sentence by sentence.

        The parameters are those of `check`, without the response. A guardrail of sentences can, and
        one of answers whose detector is ``worst_sentence``.

        Raises
        ------
        GuardrailError
            If this guardrail cannot decide about a part of an answer; it says what to calibrate.
        InputError
            If a text is none, or a column holds a list.
        """
        columns = self.cells(columns)
        asked = Example.asked(
            question=question, contexts=contexts, id=id, samples=samples, columns=columns
        )
        check = StreamCheck(self, asked)
        self._renew()
        return check

    def stream(
        self, examples: Source, block: int = 256, alone: bool = False
    ) -> Iterator[decision.Decision]:
        """Decide about any number of examples, ``block`` at a time, in constant memory."""
        # A generator, since what reads a source refuses to be begun again.
        iterator = (example for example in self._examples(examples))
        while batch := list(islice(iterator, block)):
            yield from self._decided(batch, alone)

    def _examples(self, source: Source) -> Iterable[Example]:
        """Return examples as they are, and the rows of other data as examples."""
        streamed = isinstance(source, Iterator) and not hasattr(source, "__arrow_c_stream__")
        if streamed or (not is_named(source) and MemoryRows(source).format == "examples"):
            return cast(Iterable[Example], source)
        rows = read(
            source,
            keep=self.columns,
            require=(),
            expect=self.texts,
            labelled=False,
            allow_none=True,
            strict=True,
            by_sentence=self.unit == "sentence",
            decimals=self.decimals,
        )
        return iter(rows)

    def decision_for_answer(self, example: Example, verdict: RowDecision) -> decision.Decision:
        """Return the decision about an answer by the verdict on it."""
        if verdict.error is not None:
            return self.failed(example, verdict.error)
        cause = decision.Cause("score_undefined") if verdict.score is None else decision.SCORED
        numbers = verdict.score, verdict.threshold, verdict.p_value
        shown = verdict.reason, verdict.evidence, self.scale
        told = None
        if self._probability is not None and verdict.score is not None:
            told = self._probability.of(verdict.score)
        head = example.id, verdict.outcome, *numbers, *shown
        return decision.Decision(*head, cause=cause, probability=told, guardrail=self.config.digest)

    def failed(
        self, example: Example, error: BaseException, code: decision.CauseCode = "detector_failed"
    ) -> decision.Decision:
        """Return the decision about an answer that could not be judged: the failure policy's.

        Its cause is that the detector failed, unless another code is given.
        """
        policy = self.config.policy.failure
        cause, edge = decision.Cause.of_error(error, code), self.judge.threshold(example)
        return self.unjudged(example.id, policy, cause, str(error), edge)

    def unjudged(
        self,
        id: str,
        outcome: decision.Outcome,
        cause: decision.Cause,
        detail: str | None = None,
        threshold: float | None = None,
    ) -> decision.Decision:
        """Return a decision about an answer that has no score; nothing of it may be shown."""
        removed = () if self.unit == "sentence" else None
        head = id, outcome, None, threshold, None, decision.reason_of_cause(cause, outcome, detail)
        why: Any = {"cause": cause, "guardrail": self.config.digest}
        return decision.Decision(*head, scale=self.scale, removed=removed, **why)


def guardrail_of_bytes(raw: bytes) -> Guardrail:
    """Return the guardrail of a file's content that another process has read."""
    return Guardrail(FrozenConfig.from_bytes(raw, source="a guardrail of another process"))


def require_answers(config: FrozenConfig, what: str) -> None:
    """Refuse a guardrail of sentences where flags of whole answers are counted.

    Parameters
    ----------
    config : FrozenConfig
        The guardrail.
    what : str
        What is asked of it, as the beginning of a sentence.

    Raises
    ------
    InputError
        If it removes sentences.
    """
    if config.promise.unit == "sentence":
        option = spell_option(Promise, "unit", "sentence")
        raise InputError.on("counts_whole_answers", what=what, option=option)
