"""What does a language model say when it is asked whether an answer is supported?"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, get_args

import numpy as np

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.models.chat import ChatAnswer, ChatRequest, Failure
from calibrail.models.llm import LanguageModel, load_llm
from calibrail.scores.base import JSON, Score, Scores, missing
from calibrail.scores.detector import ModelScore
from calibrail.scores.judge_prompts import DEFAULT, HALLUCINATION, Reply, load_template
from calibrail.scores.parameters import is_number, one_of, whole
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
    served: str | None = None

    name = "judge"
    version: ClassVar[str] = "calibrail-judge/1"
    #: A judge may say something else when it is asked again; what it said is kept, not rounded.
    tolerance = 0.0

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
        #: How a verdict is read: known from the start, or once the endpoint has answered.
        self._reading: Mode | None = None if self.mode == "auto" else self.mode
        self._is_auto = self.mode == "auto"
        self._names: set[str] = set()
        #: Answers that the model was asked about; it only grows.
        self.n_judged = 0

    def fingerprint(self) -> Mapping[str, JSON]:
        """Return the version and the prompt, with its digest."""
        return {
            "version": self.version,
            "template": self.prompt.text,
            "template_sha256": self.prompt.sha256,
        }

    @property
    def models(self) -> tuple[Any, ...]:
        """The language model; what ``forget`` drops are its answers in memory, not its cache."""
        return (self.llm,)

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
        return self._with(mode=self._reading or self.mode, served=served)

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
        voting = self.mode == "votes"
        # A verdict asks for the log-probabilities, too: they cost nothing, and they show what a
        # threshold in between would do.
        asks_logprobs = self.mode in ("auto", "verdict", "logprob")
        temperature = self.temperature
        if temperature is None:
            temperature = 1.0 if voting else 0.0
        message = ("user", self.prompt.fill(example))
        return tuple(
            ChatRequest(
                messages=(message,),
                temperature=float(temperature),
                max_tokens=self.max_tokens or MAX_TOKENS[self.reply],
                top_logprobs=20 if asks_logprobs else 0,
                schema=SCHEMA if self.mode == "graded" else "",
                sample=sample,
            )
            for sample in range(self.votes if voting else 1)
        )

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return what the judge says; undefined where it says nothing that can be read."""
        values = np.full(len(examples), np.nan)
        reasons: dict[int, str] = {}
        requests: dict[int, tuple[ChatRequest, ...]] = {}
        for row, example in enumerate(examples):
            why = missing(example, self.requires)
            if why is None:
                requests[row] = self.inputs(example)
            else:
                reasons[row] = why
        self.n_judged += len(requests)
        answers = iter(self.llm.answers([item for items in requests.values() for item in items]))
        replies = {row: [next(answers) for _ in items] for row, items in requests.items()}
        self._settle(replies.values())
        evidence: list[Mapping[str, JSON]] = [{} for _ in examples]
        for row, given in replies.items():
            value = self._judged(given)
            if isinstance(value, str):
                reasons[row] = value
            else:
                values[row] = value
                items = [_evidence(reply, self.reply) for reply in given]
                evidence[row] = {"kind": "judge", "items": items}
        return Scores(values, reasons, tuple(evidence))

    def _settle(self, replies: Iterable[Sequence[ChatAnswer | Failure]]) -> None:
        """Note who answers, and at the first answers whether there are log-probabilities."""
        given = [answer for items in replies for answer in items if isinstance(answer, ChatAnswer)]
        self._names |= {answer.served for answer in given if answer.served}
        # A refusal has no log-probabilities, whatever the endpoint gives.
        replied = [answer for answer in given if answer.text.strip() and not answer.refusal]
        if self._reading is None and replied:
            known = any(answer.positions is not None for answer in replied)
            self._reading = "logprob" if known else "verdict"

    def _judged(self, replies: Sequence[ChatAnswer | Failure]) -> float | str:
        if self.mode == "votes":
            return self._share(replies)
        (reply,) = replies
        if why := self._unusable(reply):
            return why
        assert isinstance(reply, ChatAnswer)
        if self.mode == "graded":
            return read_grade(reply)
        if self._reading == "logprob":
            return read_probability(reply)
        verdict = read_verdict(reply)
        return verdict if isinstance(verdict, str) else float(verdict)

    def _share(self, replies: Sequence[ChatAnswer | Failure]) -> float | str:
        """Return the share of "hallucination" among the votes that can be read, if most can."""
        votes: list[bool] = []
        reasons: dict[str, int] = {}
        for reply in replies:
            why = self._unusable(reply)
            vote = why or (read_verdict(reply) if isinstance(reply, ChatAnswer) else "")
            if isinstance(vote, str):
                reasons[vote] = reasons.get(vote, 0) + 1
            else:
                votes.append(vote)
        if 2 * len(votes) <= len(replies):
            worst = max(reasons, key=lambda reason: reasons[reason])
            if any(isinstance(reply, Failure) for reply in replies):
                return f"{NO_REPLY} in most of {len(replies)} votes: {worst}"
            return f"{len(replies) - len(votes)} of {len(replies)} votes cannot be read: {worst}"
        return math.fsum(votes) / len(votes)

    def _unusable(self, reply: ChatAnswer | Failure) -> str | None:
        """Return why a reply cannot count at all."""
        if isinstance(reply, Failure):
            return f"{NO_REPLY}: {reply.reason}"
        if self.served is not None and reply.served != self.served:
            return (
                f"the endpoint answered as {reply.served[:100]!r}, and {self.served!r} was "
                "calibrated; calibrate again"
            )
        return None

    def _with(self, **changes: object) -> Judge:
        other = copy.copy(self)
        other._names = set(self._names)
        for name, value in changes.items():
            setattr(other, name, value)
        return other


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
