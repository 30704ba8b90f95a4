"""What does a language model say when it is asked whether an answer is supported?"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final, Literal, get_args

import numpy as np

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.models.chat import ChatAnswer, ChatRequest, Failure
from calibrail.models.llm import LanguageModel, load_llm
from calibrail.scores.base import JSON, DetectorFailure, NoReplyFailure, Score, Scores
from calibrail.scores.detector import ModelScore, is_number, one_of, whole
from calibrail.scores.judge_prompts import (
    DEFAULT,
    HALLUCINATION,
    SENTENCE_DEFAULT,
    Reply,
    Template,
    load_template,
)
from calibrail.scores.verdicts import read_grade, read_probability, read_verdict

Mode = Literal["auto", "verdict", "logprob", "votes", "graded"]

#: JSON schema of a graded reply.
SCHEMA: Final = (
    f'{{"type":"object","properties":{{"{HALLUCINATION}":{{"type":"number","minimum":0,'
    f'"maximum":1}}}},"required":["{HALLUCINATION}"],"additionalProperties":false}}'
)

#: How the reason begins where a call failed, which says nothing of the answer that was judged.
NO_REPLY: Final = "the judge gave no answer"

#: Tokens of a reply, by what is to be given.
MAX_TOKENS: Final[dict[Reply, int]] = {"word": 10, "grade": 32}


class Judge(ModelScore):
    """P(hallucination) as a language model at an OpenAI-compatible endpoint sees it. In [0, 1].

    Of a sentence it is shown the answer up to there, and asked about the sentence alone.

    Parameters
    ----------
    model : str
        The model's name at the endpoint, e.g. ``"gpt-4o-mini"``.
    mode : {"auto", "verdict", "logprob", "votes", "graded"}
        ``verdict``: one word, 0 or 1. ``logprob``: P("hallucination") / (P("hallucination") +
        P("faithful")) from the log-probabilities of the verdict's first token. ``votes``: the share
        of "hallucination" among ``votes`` samples. ``graded``: a number in structured output.
        ``auto``: ``logprob`` where the endpoint gives log-probabilities, else ``verdict``.
    base_url : str or None
        The endpoint, e.g. ``"http://localhost:11434/v1"``; None for the environment's
        (``OPENAI_BASE_URL``), else OpenAI's. The key comes from ``OPENAI_API_KEY`` alone.
    template : str
        ``"calibrail/1"``, or a file or text of one's own with ``{contexts}``, ``{response}`` and,
        where wanted, ``{question}``.
    votes : int
        Samples for ``mode="votes"``, 2 or more.
    temperature : float or None
        None for 1 with ``votes`` and 0 otherwise.
    max_tokens : int or None
        Tokens of a reply at most; None for 10, or 32 with ``graded``. A model that reasons before
        it answers needs more.
    sentence_template : str or None
        What is asked about one sentence of an answer: ``"calibrail-sentence/1"``, which stands for
        None, or a file or text of one's own, which may hold ``{before}``, what the answer says up
        to there. Set when a guardrail on sentences is frozen.
    served : str or None
        The model as the endpoint itself names it (``gpt-4o-mini-2024-07-18``): another leaves the
        score undefined. Set when a guardrail is frozen.
    """

    model: str
    mode: Mode = "auto"
    base_url: str | None = None
    template: str = DEFAULT
    votes: int = 5
    temperature: float | None = None
    max_tokens: int | None = None
    sentence_template: str | None = None
    served: str | None = None

    name = "judge"
    later = ("sentence_template",)
    version: ClassVar[str] = "calibrail-judge/1"
    #: A judge may say something else when it is asked again; what it said is kept, not rounded.
    tolerance = 0.0
    uses = ("llm",)
    of_response = True

    def __post_init__(self) -> None:
        one_of(self.mode, "mode", get_args(Mode))
        whole(self.votes, "votes", least=2)
        temperature = self.temperature
        if temperature is not None and not (is_number(temperature) and 0.0 <= temperature <= 2.0):
            raise InputError(f"temperature must lie in [0, 2]; got {temperature!r}")
        if self.mode == "votes" and temperature == 0.0:
            raise InputError("votes at temperature 0 are one vote; leave temperature out, or set 1")
        if self.max_tokens is not None:
            whole(self.max_tokens, "max_tokens")
        if self.served is not None and not isinstance(self.served, str):
            raise InputError(f"served must be the name of a model; got {self.served!r}")
        self.llm: LanguageModel = load_llm(self.model, self.base_url)
        self.base_url = self.llm.endpoint
        self.reply: Reply = "grade" if self.mode == "graded" else "word"
        self.prompt = load_template(self.template, self.reply)
        if self.prompt.name == "own":
            self.template = self.prompt.text
        self._by_sentence: Template | None = None
        if self.sentence_template is not None:
            self._by_sentence = load_template(self.sentence_template, self.reply, by_sentence=True)
            if self._by_sentence.name == "own":
                self.sentence_template = self._by_sentence.text
        self._asked_sentences = False
        #: How a verdict is read: known from the start, or once the endpoint has answered.
        self._is_auto = self.mode == "auto"
        self._reading: Mode | None = None if self._is_auto else self.mode
        self._names: set[str] = set()
        #: Answers that the model was asked about; it only grows.
        self.n_judged = 0

    def fingerprint(self) -> Mapping[str, JSON]:
        """Return the version and the prompt, with its digest; that about sentences, where named."""
        pinned = {"version": self.version, **_pinned("template", self.prompt)}
        if self._by_sentence is not None:
            pinned |= _pinned("sentence_template", self._by_sentence)
        return pinned

    @property
    def sentence_prompt(self) -> Template:
        """What is asked about one sentence of an answer.

        Raises
        ------
        InputError
            If whole answers have a template of the user's own, and sentences none.
        """
        if self._by_sentence is not None:
            return self._by_sentence
        if self.prompt.name == "own":
            raise InputError(
                "template asks about a whole answer, and sentences are to be judged: give "
                "sentence_template, too, a file or text with {contexts}, {response} (the sentence) "
                f"and, where wanted, {{before}} and {{question}}, or {SENTENCE_DEFAULT!r}"
            )
        return load_template(SENTENCE_DEFAULT, self.reply, by_sentence=True)

    @property
    def companions(self) -> tuple[Score, ...]:
        """Scores to show beside this one at no further call: ``logprob`` beside ``verdict``."""
        if self.mode != "verdict":
            return ()
        return (self._with(mode="logprob", _reading="logprob"),)

    def pinned(self) -> Score:
        """Return a copy with what the endpoint's answers so far tell: the mode, and its name."""
        served = self.served
        if served is None and len(self._names) == 1:
            (served,) = self._names
        named = self.sentence_template
        if named is None and self._asked_sentences:
            named = SENTENCE_DEFAULT
        by_sentence = None if named is None else self.sentence_prompt
        return self._with(
            mode=self._reading or self.mode,
            served=served,
            sentence_template=named,
            _by_sentence=by_sentence,
        )

    @property
    def lessons(self) -> tuple[str, ...]:
        """What a reader should know of what the endpoint answered."""
        lessons = []
        if self._is_auto and self._reading == "verdict":
            lessons.append(
                f"The endpoint gives no log-probabilities, so {self.model} judged by one "
                "word (mode=verdict), which has no threshold in between. mode=votes or mode=graded "
                "have."
            )
        if len(self._names) > 1:
            lessons.append(
                f"The endpoint answered as several models ({', '.join(sorted(self._names))}): "
                "scores of one are not those of another, and none can be pinned. Name a dated one."
            )
        return tuple(lessons)

    def inputs(self, example: Example) -> tuple[ChatRequest, ...]:
        """Return what is asked about one example."""
        is_voting = self.mode == "votes"
        prompt = self.prompt if example.before is None else self.sentence_prompt
        request = ChatRequest(
            messages=(("user", prompt.fill(example)),),
            temperature=float(is_voting if self.temperature is None else self.temperature),
            max_tokens=self.max_tokens or MAX_TOKENS[self.reply],
            # A verdict asks for the log-probabilities, too: they cost nothing, and they show what
            # a threshold in between would do.
            top_logprobs=20 if self.mode in ("auto", "verdict", "logprob") else 0,
            schema=SCHEMA if self.mode == "graded" else "",
        )
        n = self.votes if is_voting else 1
        return tuple(replace(request, sample=sample) for sample in range(n))

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return what the judge says; undefined where it says nothing that can be read."""
        reasons = self.lacking(examples)
        usable = [row for row in range(len(examples)) if row not in reasons]
        requests = [self.inputs(examples[row]) for row in usable]
        self.n_judged += len(usable)
        self._asked_sentences |= any(examples[row].before is not None for row in usable)
        answers = iter(self.llm.answers([item for items in requests for item in items]))
        replies = [[next(answers) for _ in items] for items in requests]
        self._settle([reply for items in replies for reply in items])
        values = np.full(len(examples), np.nan)
        evidence: list[Mapping[str, JSON]] = [{} for _ in examples]
        for row, given in zip(usable, replies, strict=True):
            value = self._judged(given)
            if isinstance(value, str):
                reasons[row] = value
            else:
                values[row] = value
                items = [_evidence(reply, self.reply) for reply in given]
                evidence[row] = {"kind": "judge", "items": items}
        return Scores(values, reasons, tuple(evidence))

    def _settle(self, replies: Iterable[ChatAnswer | Failure]) -> None:
        """Note who answers, and at the first answers whether there are log-probabilities."""
        given = [reply for reply in replies if isinstance(reply, ChatAnswer)]
        self._names |= {answer.served for answer in given if answer.served}
        # A refusal has no log-probabilities, whatever the endpoint gives.
        replied = [answer for answer in given if answer.text.strip() and not answer.refusal]
        if self._reading is None and replied:
            known = any(answer.positions is not None for answer in replied)
            self._reading = "logprob" if known else "verdict"

    def _judged(self, replies: Sequence[ChatAnswer | Failure]) -> float | str:
        values = [self._read(reply) for reply in replies]
        known = [float(value) for value in values if not isinstance(value, str)]
        # Of several votes most must be readable.
        if 2 * len(known) > len(values):
            return math.fsum(known) / len(known)
        whys = Counter(value for value in values if isinstance(value, str))
        ((worst, _),) = whys.most_common(1)
        if len(values) == 1:
            return worst
        if any(isinstance(reply, Failure) for reply in replies):
            return NoReplyFailure(f"{NO_REPLY} in most of {len(values)} votes: {worst}")
        return f"{whys.total()} of {len(values)} votes cannot be read: {worst}"

    def _read(self, reply: ChatAnswer | Failure) -> float | str:
        if isinstance(reply, Failure):
            return NoReplyFailure(f"{NO_REPLY}: {reply.reason}")
        if self.served is not None and reply.served != self.served:
            return DetectorFailure(
                f"the endpoint answered as {reply.served[:100]!r}, and {self.served!r} was "
                "calibrated; calibrate again"
            )
        readers = {"graded": read_grade, "logprob": read_probability}
        return readers.get(self._reading or "verdict", read_verdict)(reply)

    def _with(self, **changes: object) -> Judge:
        other = copy.copy(self)
        other._names = set(self._names)
        for name, value in changes.items():
            setattr(other, name, value)
        return other


def _pinned(name: str, prompt: Template) -> dict[str, JSON]:
    return {name: prompt.text, f"{name}_sha256": prompt.sha256}


def _evidence(reply: ChatAnswer | Failure, wanted: Reply) -> Mapping[str, JSON]:
    """Return what a reviewer sees of one reply."""
    if isinstance(reply, Failure):
        return {"reason": reply.reason}
    item: dict[str, JSON] = {"reply": reply.text[:500], "served": reply.served}
    if wanted == "grade":
        return item
    verdict, probability = read_verdict(reply), read_probability(reply)
    if isinstance(verdict, bool):
        item["verdict"] = "hallucination" if verdict else "faithful"
    if isinstance(probability, float):
        item["probability"] = probability
    return item
