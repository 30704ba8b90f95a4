"""Decision models: the probability of "yes" to one question about an answer, and no text."""

import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from calibrail.data.example import Example
from calibrail.errors import InputError, ModelError, error_text, tables_beside
from calibrail.models.llm import chat
from calibrail.models.llm.transport import NoRouteError
from calibrail.options.fields import one_of
from calibrail.scores import base, judge, judge_replies
from calibrail.scores.registry import Higher
from calibrail.text.words import rules_version

TEMPLATES: Final[Mapping[str, Any]] = tables_beside(__file__, "decision_prompts.toml")

Template = Literal["calibrail-decision/1", "granite-guardian/4.1", "lynx/1"]
Route = Literal["auto", "decisions", "systemone", "chat"]
#: Routes in the order in which an endpoint is asked whether it has them.
ROUTES: Final[tuple[Route, ...]] = ("decisions", "systemone", "chat")
#: The name that a question goes by, where it has one.
NAME: Final = "answer"
#: What an endpoint is asked that is to show its route: what is shown, and the question.
PROBE: Final = ("The sky was blue all day.", "Was the sky blue?")

NO_REPLY: Final = "the decision model gave no answer"
REFUSED: Final = "the decision model refused to answer"
CUT: Final = "the decision model read only a part: the documents or the answer are too long for it"
NO_PROBABILITY: Final = base.DetectorFailure(
    "the endpoint's probability is no number between 0 and 1"
)


@dataclass(frozen=True, slots=True)
class DecisionRequest(chat.ChatRequest):
    """One question to a decision model, or to a chat model in its stead.

    Attributes
    ----------
    messages : tuple of (str, str)
        Those of a chat; of a decision route what is shown and, last, the question.
    route : {"decisions", "systemone", "chat"}
        Where it is asked.
    """

    route: str = "chat"

    @property
    def kind(self) -> str:
        """What the transport is asked for."""
        return self.route

    def parameters(self) -> dict[str, Any]:
        """Return everything but the model as the fields of a request."""
        fields = chat.ChatRequest.parameters(self)
        if self.route == "chat":
            return fields
        state, asked = (message["content"] for message in fields["messages"])
        if self.route == "decisions":
            question = {"type": "predicate", "name": NAME, "instructions": asked}
            return {"input": state, "questions": [question]}
        return {"state": state, "questions": {NAME: {"type": "noul", "instructions": asked}}}

    def read(self, body: Any) -> chat.ChatAnswer:
        """Return the answer that a body holds; a ``ValueError`` says what is wrong with it."""
        return chat.read_answer(body) if self.route == "chat" else read_decision(body)


def read_decision(body: Any) -> chat.ChatAnswer:
    """Read what a decision route answers; the probability of "yes" becomes the text.

    OpenAI's shape lists the answers, with a ``probability`` each; System One's names them, with a
    ``noul`` each. A probability that is none leaves the text empty.

    Raises
    ------
    ValueError
        If it answers no question; the message says what is missing.
    """
    answers = body.get("answers") if isinstance(body, dict) else None
    listed = list(answers.values()) if isinstance(answers, dict) else answers
    if not isinstance(listed, list) or not listed or not isinstance(listed[0], dict):
        raise ValueError("the endpoint answered without a decision")
    found, usage = listed[0], body.get("usage")
    value: Any = found.get("probability", found.get("noul"))
    refused = found.get("type") == "refusal"
    if value is None and not refused:
        raise ValueError("the endpoint answered without a probability")
    known = base.is_number(value) and 0.0 <= value <= 1.0
    is_cut = isinstance(usage, dict) and usage.get("truncated") is True
    served = body.get("model")
    return chat.ChatAnswer(
        text=repr(float(value)) if known and not refused else "",
        refusal=refused,
        finish="length" if is_cut else "stop",
        served=served if isinstance(served, str) else "",
        tokens_in=chat.read_tokens(body, "input_tokens"),
        tokens_out=chat.read_tokens(body, "output_tokens"),
    )


class DecisionScore(base.ModelScore):
    """P(hallucination) as a decision model gives it for one yes/no question. In [0, 1].

    An endpoint with a decision route (``/decisions`` as OpenAI has it, ``/systemone``) is asked
    there; any other in a chat, where the probability is that of the first token of "yes" against
    that of "no". Of a sentence the model is shown the answer up to there, and asked about the
    sentence alone.

    Parameters
    ----------
    model : str
        The model's name at the endpoint.
    question : str or None
        What is asked about "the answer" and "the documents"; None for the template's own question.
    higher : {"faithful", "hallucinated"} or None
        What a "yes" means; needed with a question of one's own.
    route : {"auto", "decisions", "systemone", "chat"}
        Where it is asked; ``auto`` for the first of these that the endpoint has.
    base_url : str or None
        See ``Judge``.
    template : str
        ``"calibrail-decision/1"``, or the exact prompt of an open checker behind a chat endpoint:
        ``"granite-guardian/4.1"`` or ``"lynx/1"``.
    served : str or None
        See ``Judge``.
    """

    model: str
    question: str | None = None
    higher: str | None = None
    route: Route = "auto"
    base_url: str | None = None
    template: Template = "calibrail-decision/1"
    served: str | None = None

    name = "decision"
    #: What was said is kept, not rounded.
    tolerance = 0.0
    explains = True
    uses = ("llm",)
    of_response = True

    def __post_init__(self) -> None:
        one_of(self.route, Route, "route")
        one_of(self.template, Template, "template")
        self.prompt = prompt = TEMPLATES[self.template]
        #: What is asked, and what a yes to it means.
        self.asked, self.yes_means = prompt["asked"], prompt["higher"]
        if self.question is not None:
            if not isinstance(self.question, str) or not self.question.strip():
                raise InputError(f"question must ask about the answer; got {self.question!r}")
            if not any("{asked}" in text for _, text in prompt["messages"]):
                raise InputError(f"the template {self.template} has a question of its own")
            if self.higher not in get_args(Higher):
                raise InputError.on("meaning_of_yes", higher=self.higher)
            self.asked, self.yes_means = self.question, self.higher
        elif self.higher not in (None, self.yes_means):
            raise InputError(f"a yes to {self.asked!r} means {self.yes_means}; leave higher out")
        if "state" not in prompt:
            if self.route not in ("auto", "chat"):
                raise InputError(f"the template {self.template} is asked in a chat: route=chat")
            self.route = "chat"
        self.llm: chat.LanguageModel = chat.load_llm(self.model, self.base_url)
        self.base_url = self.llm.endpoint
        #: Where the endpoint is asked: known from the start, or once it has answered.
        self._known_route: Route | None = None if self.route == "auto" else self.route
        self._names: set[str] = set()
        #: Answers that the model was asked about; it only grows.
        self.n_judged = 0

    def fingerprint(self) -> Mapping[str, base.JSON]:
        """Return the version of the rules, what is asked, and a digest of all that goes with it."""
        content = json.dumps([judge.FILLING, self.prompt], sort_keys=True)
        return {
            "version": rules_version("judge"),
            "question": self.asked,
            "yes": self.yes_means,
            "template_sha256": hashlib.sha256(content.encode()).hexdigest(),
        }

    def pinned(self) -> base.Score:
        """Return a copy with what the endpoint's answers so far tell: the route, and its name."""
        other = copy.copy(self)
        other._names = set(self._names)
        other.route = self._known_route or self.route
        if self.served is None and len(self._names) == 1:
            (other.served,) = self._names
        return other

    @property
    def lessons(self) -> tuple[str, ...]:
        """What a reader should know of what the endpoint answered."""
        in_chat = self.route == "auto" and self._known_route == "chat"
        lessons = [error_text("asked_in_chat", of=self)] if in_chat else []
        return (*lessons, *judge.several_names(self._names))

    def inputs(self, example: Example) -> tuple[DecisionRequest, ...]:
        """Return what is asked about one example, at the first route while none is known."""
        route = self._known_route or self._kept_route() or ROUTES[0]
        state, chunks = "", [judge.neutral(text) for text in base.filled(example.contexts)]
        if "state" in self.prompt:
            unit = "state" if example.before is None else "sentence"
            state = judge.Template(self.template, self.prompt[unit]).fill(example)
        numbered = ({"doc_id": place, "text": text} for place, text in enumerate(chunks, 1))
        documents = (json.dumps(item, ensure_ascii=False) for item in numbered)
        pieces = {
            "contexts": "\n".join(chunks),
            "documents": "\n".join(documents),
            "question": judge.neutral(example.question),
            "response": judge.neutral(example.response),
        }
        return (self._request(route, state, self.asked, pieces),)

    def try_out(self, examples: Sequence[Example]) -> str | None:
        """Learn the route, and so what there is to ask; it is never given up."""
        if self.usable(examples):
            self._learn_route()
        return None

    def score(self, examples: Sequence[Example]) -> base.Scores:
        """Return the probability that each answer is hallucinated; undefined where none is said."""
        results: dict[int, base.Valued | str] = dict(self.lacking(examples))
        usable = [row for row in range(len(examples)) if row not in results]
        if usable:
            self._learn_route()
        self.n_judged += len(usable)
        replies = self.llm.answers([self.inputs(examples[row])[0] for row in usable])
        results |= zip(usable, map(self._judged, replies), strict=True)
        return base.Scores.of(results[row] for row in range(len(examples)))

    def _judged(self, reply: chat.ChatAnswer | chat.Failure) -> base.Valued | str:
        if isinstance(reply, chat.Failure):
            return base.NoReplyFailure(f"{NO_REPLY}: {reply.reason}")
        self._names |= {reply.served} - {""}
        if (other := judge.other_model(self.served, reply)) is not None:
            return other
        yes = self._probability(reply, self._known_route)
        if isinstance(yes, str):
            return yes
        value = yes if self.yes_means == "hallucinated" else 1.0 - yes
        item = {"reply": reply.text[:500], "served": reply.served, "probability": value}
        return value, {"kind": "judge", "items": [item]}

    def _probability(self, reply: chat.ChatAnswer, route: Route | None) -> float | str:
        """Return the probability of "yes", or why there is none."""
        if reply.refusal:
            return REFUSED
        if route == "chat":
            return judge_replies.read_choice(reply, *self.prompt["words"])
        if reply.finish == "length":
            return CUT
        return float(reply.text) if reply.text else NO_PROBABILITY

    def _request(
        self, route: str, state: str, asked: str, pieces: Mapping[str, str]
    ) -> DecisionRequest:
        if route != "chat":
            return DecisionRequest((("user", state), ("user", asked)), max_tokens=0, route=route)
        pieces = {**pieces, "state": state, "asked": asked}
        filled = [(role, text.format(**pieces)) for role, text in self.prompt["messages"]]
        return DecisionRequest(
            # An answer to no question is the first that is said.
            messages=tuple((role, text) for role, text in filled if text.strip()),
            max_tokens=self.prompt["max_tokens"],
            top_logprobs=20,
        )

    def _probes(self) -> dict[Route, DecisionRequest]:
        return {route: self._request(route, *PROBE, {}) for route in ROUTES}

    def _kept_route(self) -> Route | None:
        """Return the route at which the cache holds an answer of this endpoint."""
        probes = self._probes() if self.route == "auto" else {}
        kept = (name for name, item in probes.items() if self.llm.knows(self.llm.question(item)))
        return next(kept, None)

    def _learn_route(self) -> None:
        """Ask the endpoint something harmless at each route until one answers.

        Raises
        ------
        ModelError
            If none does.
        """
        if self._known_route is not None:
            return
        kept, probes, whys = self._kept_route(), self._probes(), []
        for route in ROUTES if kept is None else (kept,):
            try:
                (reply,) = self.llm.answers([probes[route]])
            except NoRouteError as error:
                whys.append(str(error))
                continue
            if isinstance(reply, chat.Failure):
                whys.append(f"/{route}: {reply.reason}")
                if reply.status in (400, 422):
                    continue
                break
            if isinstance(yes := self._probability(reply, route), str):
                whys.append(f"/{route}: {yes}")
                continue
            self._known_route = route
            return
        raise ModelError.on("no_probability_of_yes", score=self, whys="; ".join(whys))
