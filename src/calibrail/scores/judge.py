"""What does a language model say when it is asked whether an answer is supported?"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, get_args

import numpy as np

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.models.chat import ChatAnswer, ChatRequest, Failure
from calibrail.models.llm import LanguageModel, load_llm
from calibrail.scores.base import JSON, Demand, Score, Scores, SharedModel, missing
from calibrail.scores.judge_prompts import DEFAULT, HALLUCINATION, Reply, load_template
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


class Judge:
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

    name = "judge"
    version = "calibrail-judge/1"
    #: A judge may say something else when it is asked again; what it said is kept, not rounded.
    tolerance = 0.0
    requires = ("contexts", "response")

    def __init__(
        self,
        *,
        model: str,
        mode: Mode = "auto",
        base_url: str | None = None,
        template: str = DEFAULT,
        votes: int = 5,
        temperature: float | None = None,
        max_tokens: int | None = None,
        served: str | None = None,
    ) -> None:
        if mode not in get_args(Mode):
            raise InputError(f"mode must be one of {', '.join(get_args(Mode))}; got {mode!r}")
        if isinstance(votes, bool) or not isinstance(votes, int) or votes < 2:
            raise InputError(f"votes must be a whole number of at least 2; got {votes!r}")
        if temperature is not None and (
            isinstance(temperature, bool)
            or not isinstance(temperature, int | float)
            or not 0.0 <= temperature <= 2.0
        ):
            raise InputError(f"temperature must lie in [0, 2]; got {temperature!r}")
        if mode == "votes" and temperature == 0.0:
            raise InputError("votes at temperature 0 are one vote; leave temperature out, or set 1")
        if max_tokens is not None and (
            isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1
        ):
            raise InputError(f"max_tokens must be a whole number of at least 1; got {max_tokens!r}")
        if served is not None and not isinstance(served, str):
            raise InputError(f"served must be the name of a model; got {served!r}")
        self.model: LanguageModel = load_llm(model, base_url)
        self.mode = mode
        self.reply: Reply = "grade" if mode == "graded" else "word"
        self.template = load_template(template, self.reply)
        self.votes, self.temperature, self.served = votes, temperature, served
        self.max_tokens = max_tokens
        self._chose = mode == "auto"
        self._found: Mode | None = None if mode == "auto" else mode
        self._names: set[str] = set()
        #: Answers that the model was asked about; it only grows.
        self.n_judged = 0

    @property
    def params(self) -> Mapping[str, JSON]:
        """Every parameter with its value; a template of one's own as its text."""
        own = self.template.name == "own"
        return {
            "model": self.model.model,
            "mode": self.mode,
            "base_url": self.model.endpoint,
            "template": self.template.text if own else self.template.name,
            "votes": self.votes,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "served": self.served,
        }

    def fingerprint(self) -> Mapping[str, JSON]:
        """Return the version and the prompt, with its digest."""
        return {
            "version": self.version,
            "template": self.template.text,
            "template_sha256": self.template.sha256,
        }

    @property
    def models(self) -> tuple[SharedModel, ...]:
        """The language model."""
        return (self.model,)

    def forget(self) -> None:
        """Drop answers in memory; those in the cache stand."""
        self.model.forget()

    @property
    def companions(self) -> tuple[Score, ...]:
        """Scores to show beside this one at no further call: ``logprob`` beside ``verdict``."""
        if self.mode != "verdict":
            return ()
        return (self._with(mode="logprob", _found="logprob"),)

    def pinned(self) -> Score:
        """Return a copy with what the endpoint's answers so far tell: the mode, and its name."""
        served = self.served
        if served is None and len(self._names) == 1:
            (served,) = self._names
        return self._with(mode=self._found or self.mode, served=served)

    @property
    def lessons(self) -> tuple[str, ...]:
        """What a reader should know of what the endpoint answered."""
        said = []
        if self._chose and self._found == "verdict":
            said.append(
                f"The endpoint gives no log-probabilities, so {self.model.model} judged by one "
                "word (mode=verdict), which has no threshold in between. mode=votes or mode=graded "
                "have."
            )
        if len(self._names) > 1:
            said.append(
                f"The endpoint answered as several models ({', '.join(sorted(self._names))}): "
                "scores of one are not those of another, and none can be pinned. Name a dated one."
            )
        return tuple(said)

    def requests(self, example: Example) -> tuple[ChatRequest, ...]:
        """Return what is asked about one example."""
        voting = self.mode == "votes"
        # A verdict asks for the log-probabilities, too: they cost nothing, and they show what a
        # threshold in between would do.
        asks_logprobs = self.mode in ("auto", "verdict", "logprob")
        temperature = self.temperature
        if temperature is None:
            temperature = 1.0 if voting else 0.0
        message = ("user", self.template.fill(example))
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

    def demands(self, examples: Sequence[Example]) -> tuple[Demand, ...]:
        """Return what will be asked."""
        usable = [example for example in examples if missing(example, self.requires) is None]
        asked = tuple(request for example in usable for request in self.requests(example))
        return (Demand(self.model, (asked,)),)

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return what the judge says; undefined where it says nothing that can be read."""
        values = np.full(len(examples), np.nan)
        reasons: dict[int, str] = {}
        asked: dict[int, tuple[ChatRequest, ...]] = {}
        for row, example in enumerate(examples):
            why = missing(example, self.requires)
            if why is None:
                asked[row] = self.requests(example)
            else:
                reasons[row] = why
        self.n_judged += len(asked)
        answers = iter(self.model.answers([item for items in asked.values() for item in items]))
        replies = {row: [next(answers) for _ in items] for row, items in asked.items()}
        self._settle(replies.values())
        evidence: list[Mapping[str, JSON]] = [{} for _ in examples]
        for row, given in replies.items():
            value = self._value(given)
            if isinstance(value, str):
                reasons[row] = value
            else:
                values[row] = value
                items = [_shown(reply, self.reply) for reply in given]
                evidence[row] = {"kind": "judge", "items": items}
        return Scores(values, reasons, tuple(evidence))

    def _settle(self, replies: Iterable[Sequence[ChatAnswer | Failure]]) -> None:
        """Note who answers, and at the first answers whether there are log-probabilities."""
        given = [answer for items in replies for answer in items if isinstance(answer, ChatAnswer)]
        self._names |= {answer.served for answer in given if answer.served}
        # A refusal has no log-probabilities, whatever the endpoint gives.
        told = [answer for answer in given if answer.text.strip() and not answer.refusal]
        if self._found is None and told:
            known = any(answer.positions is not None for answer in told)
            self._found = "logprob" if known else "verdict"

    def _value(self, replies: Sequence[ChatAnswer | Failure]) -> float | str:
        if self.mode == "votes":
            return self._share(replies)
        (reply,) = replies
        if why := self._unusable(reply):
            return why
        assert isinstance(reply, ChatAnswer)
        if self.mode == "graded":
            return read_grade(reply)
        if self._found == "logprob":
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


def _shown(reply: ChatAnswer | Failure, asked: Reply) -> Mapping[str, JSON]:
    """Return what a reviewer sees of one reply."""
    if isinstance(reply, Failure):
        return {"reason": reply.reason}
    item: dict[str, JSON] = {"reply": reply.text[:500], "served": reply.served}
    if asked == "grade":
        return item
    verdict, probability = read_verdict(reply), read_probability(reply)
    if isinstance(verdict, bool):
        item["verdict"] = "hallucination" if verdict else "faithful"
    if isinstance(probability, float):
        item["probability"] = probability
    return item
