"""How does a frozen guardrail decide about an answer?"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from os import PathLike
from typing import Any, cast

from calibrail.conformal.group_keys import reads_length
from calibrail.data.by_sentence import sentences_of
from calibrail.data.columns import CHARACTERS
from calibrail.data.example import Example
from calibrail.data.in_memory import Rows
from calibrail.data.reader import read
from calibrail.data.sources import Source, is_named
from calibrail.errors import InputError
from calibrail.guardrail.cause import SCORED, Cause, CauseCode, reason_of_cause
from calibrail.guardrail.decision import Decision, Outcome
from calibrail.guardrail.frozen import FrozenConfig
from calibrail.guardrail.judge import Verdict
from calibrail.guardrail.loaded import FrozenGuardrail
from calibrail.guardrail.streaming import StreamCheck
from calibrail.guardrail.trimmed import refuse_long, sentences_to_judge, trimmed
from calibrail.settings.checks import Cell


class Guardrail(FrozenGuardrail):
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

    @classmethod
    def of(cls, value: object) -> "Guardrail":
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
            raise InputError(
                f"guardrail must be a Guardrail or the path of its file; got "
                f"{type(value).__name__}{remedy}"
            )
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to another process as the file's bytes, with what was verified of them.

        Models and connections are made there.
        """
        known = {"_origin": self._origin, "_probed": self._probed}
        return _from_bytes, (self._config.to_bytes(),), known

    def check(
        self,
        *,
        response: str = "",
        question: str = "",
        contexts: Sequence[str] | str = (),
        id: str = "",
        samples: Sequence[str] = (),
        columns: Mapping[str, Cell] | None = None,
    ) -> Decision:
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
            columns=columns,
        )
        return self._decided([asked])[0]

    def decide(self, examples: Source, *, alone: bool = False) -> list[Decision]:
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

    def _decided(self, examples: list[Example], alone: bool = False) -> list[Decision]:
        if wrong := [item for item in examples if not isinstance(item, Example)]:
            raise InputError(f"an answer to decide about is an Example; got {wrong[0]!r:.80}")
        self._renew()
        if self.unit == "sentence":
            return self._trimmed(examples, alone)
        verdicts = self.judge.of(examples, alone=alone)
        return list(map(self.of_answer, examples, verdicts))

    def _renew(self) -> None:
        """Ask an endpoint again what it failed to answer once."""
        for model in getattr(self._score, "models", ()):
            if callable(renew := getattr(model, "renew", None)):
                renew()

    def _trimmed(self, answers: list[Example], alone: bool) -> list[Decision]:
        """Decide about answers by their sentences, all of which are scored together."""
        parts: list[list[Example] | Exception] = []
        for place, answer in enumerate(answers):
            # One that cannot be split costs its own decision, not the batch.
            try:
                # Each is split once.
                answers[place] = answer = replace(answer, sentences=sentences_of(answer))
                parts.append(self.sentences(answer))
            except Exception as error:
                parts.append(error)
        rows = [row for part in parts if isinstance(part, list) for row in part]
        verdicts = iter(self.judge.of(rows, alone=alone))
        return [
            self.failed(answer, part, _whose(part))
            if isinstance(part, Exception)
            else self.of_sentences(answer, part, list(islice(verdicts, len(part))))
            for answer, part in zip(answers, parts, strict=True)
        ]

    def sentences(self, answer: Example) -> list[Example]:
        """Return the sentences of an answer, as its detector scores them.

        Raises
        ------
        InputError
            If a column holds another number of values than the answer has sentences.
        """
        if reads_length(self._config.promise.by):
            length = {CHARACTERS: float(len(answer.response))}
            answer = replace(answer, columns={**answer.columns, **length})
        return sentences_to_judge(answer, self.columns)

    def of_sentences(
        self, answer: Example, sentences: Sequence[Example], verdicts: Sequence[Verdict]
    ) -> Decision:
        """Return the decision about an answer by the verdicts on its sentences."""
        for verdict in verdicts:
            if verdict.error is not None:
                return self.failed(answer, verdict.error)
        try:
            refuse_long(answer)
        except InputError as error:
            return self.failed(answer, error)
        try:
            return trimmed(
                answer,
                sentences,
                verdicts,
                threshold=self.judge.threshold(answer),
                undefined=self._config.policy.undefined,
                scale=self.scale,
            )
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
        asked = Example.asked(
            question=question, contexts=contexts, id=id, samples=samples, columns=columns
        )
        check = StreamCheck(self, asked)
        self._renew()
        return check

    def stream(self, examples: Source, block: int = 256, alone: bool = False) -> Iterator[Decision]:
        """Decide about any number of examples, ``block`` at a time, in constant memory."""
        iterator = iter(self._examples(examples))
        while batch := list(islice(iterator, block)):
            yield from self._decided(batch, alone)

    def _examples(self, source: Source) -> Iterable[Example]:
        """Return examples as they are, and the rows of other data as examples."""
        if isinstance(source, Iterator):
            return source
        if not is_named(source) and Rows(source).format == "examples":
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
        )
        return (example for example in rows)

    def of_answer(self, example: Example, verdict: Verdict) -> Decision:
        """Return the decision about an answer by the verdict on it."""
        if verdict.error is not None:
            return self.failed(example, verdict.error)
        return Decision(
            example.id,
            verdict.outcome,
            verdict.score,
            verdict.threshold,
            verdict.p_value,
            verdict.reason,
            verdict.evidence,
            self.scale,
            cause=Cause("score_undefined") if verdict.score is None else SCORED,
        )

    def failed(
        self, example: Example, error: BaseException, code: CauseCode = "detector_failed"
    ) -> Decision:
        """Return the decision about an answer that could not be judged: the failure policy's.

        Its cause is that the detector failed, unless another code is given.
        """
        policy = self._config.policy.failure
        cause, edge = Cause.of_error(error, code), self.judge.threshold(example)
        return self.unjudged(example.id, policy, cause, str(error), edge)

    def unjudged(
        self,
        id: str,
        outcome: Outcome,
        cause: Cause,
        detail: str | None = None,
        threshold: float | None = None,
    ) -> Decision:
        """Return a decision about an answer that has no score; nothing of it may be shown."""
        removed = () if self.unit == "sentence" else None
        reason = reason_of_cause(cause, outcome, detail)
        return Decision(
            *(id, outcome, None, threshold, None, reason),
            scale=self.scale,
            removed=removed,
            cause=cause,
        )


def _whose(error: Exception) -> CauseCode:
    """Return whose failure it is that an answer has no sentences to judge."""
    # What the caller gave is refused in words; whatever else is raised is calibrail's own.
    return "detector_failed" if isinstance(error, InputError) else "calibrail_failed"


def _from_bytes(raw: bytes) -> Guardrail:
    return Guardrail(FrozenConfig.from_bytes(raw, source="a guardrail of another process"))
