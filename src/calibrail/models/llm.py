"""How are many questions put to a chat model, each once, and no answer lost?"""

from collections.abc import Iterable, Sequence
from typing import Final

from calibrail.errors import InputError
from calibrail.models.chat import ChatAnswer, ChatRequest, Failure, read_answer
from calibrail.models.endpoint import resolve_endpoint
from calibrail.models.remote import Question, RemoteModel, Session, Usage
from calibrail.models.store import shared
from calibrail.models.transport import RefusedError

#: Answers held in memory beyond those that were just asked for.
HELD: Final = 4096

Answers = dict[ChatRequest, ChatAnswer | Failure]


class LanguageModel(RemoteModel):
    """A chat model behind an OpenAI-compatible endpoint.

    Use ``load_llm``, which shares one between all scores of a process.

    Parameters
    ----------
    model : str
        The model's name at the endpoint.
    endpoint : str
        Address, as ``resolve_endpoint`` returns it.
    """

    #: No forward pass runs on this machine.
    n_passes = 0
    kind = "chat"

    def __init__(self, model: str, endpoint: str) -> None:
        super().__init__(model, endpoint)
        self._held: Answers = {}

    def prepare(self, requests: Iterable[ChatRequest]) -> None:
        """Have every request answered that is not yet: from the cache, or by the endpoint.

        Raises
        ------
        ModelError
            If the endpoint cannot be used at all.
        BudgetError
            If the calls that were allowed are spent.
        """
        self.answers(tuple(requests))

    def renew(self) -> None:
        """Forget what failed: an endpoint that was down may be up again."""
        with self._lock:
            self._held = {
                key: value for key, value in self._held.items() if not isinstance(value, Failure)
            }

    def forget(self) -> None:
        """Drop the answers in memory; the cache keeps its own."""
        with self._lock:
            self._held = {}

    def question(self, item: ChatRequest) -> Question:
        """Return what would be asked."""
        return Question(self._key(item), [text for _, text in item.messages], item.max_tokens)

    def answers(self, requests: Sequence[ChatRequest]) -> list[ChatAnswer | Failure]:
        """Return the answer to each request, or why there is none; from any thread."""
        wanted = dict.fromkeys(requests)
        with self._lock:
            answers = {key: self._held[key] for key in wanted if key in self._held}
            # What was asked for together with these may yet be looked up.
            if len(answers) < len(wanted) and len(self._held) + len(wanted) - len(answers) > HELD:
                self._held = dict(answers)
        session = self.session()
        unknown = []
        for request in [request for request in wanted if request not in answers]:
            if (known := session.cache.get(self._key(request))) is not None:
                answers[request] = ChatAnswer.from_dict(known)
                self._note(request, answers[request], n_cached=1)
            else:
                unknown.append(request)
        for request, answer in self.ask_each(self._ask, unknown, session):
            answers[request] = answer
            self._note(request, answer)
        return [answers[request] for request in requests]

    def _ask(self, session: Session, request: ChatRequest) -> ChatAnswer | Failure:
        key, texts, _ = self.question(request)
        # Another process may have asked meanwhile.
        if (known := session.cache.get(key)) is not None:
            return ChatAnswer.from_dict(known)
        try:
            answer = self.send(request.parameters(), session, read_answer)
        except RefusedError as error:
            return Failure(str(error))
        tokens = answer.tokens_in, answer.tokens_out
        self.keep_answer(session, key, answer.to_dict(), sum(map(len, texts)), tokens)
        # Where another process was faster, its answer is the one that both keep.
        kept = session.cache.get(key)
        return answer if kept is None else ChatAnswer.from_dict(kept)

    def _note(self, request: ChatRequest, answer: ChatAnswer | Failure, n_cached: int = 0) -> None:
        if isinstance(answer, Failure):
            self.count(Usage(n_failed=1))
        else:
            self.count_answer((answer.tokens_in, answer.tokens_out), n_cached)
        with self._lock:
            self._held[request] = answer

    def _key(self, request: ChatRequest) -> str:
        return request.key(self.endpoint, self.name)


def load_llm(model: str, base_url: str | None = None) -> LanguageModel:
    """Return the process's one chat model of this name at this endpoint; nothing is sent yet.

    Parameters
    ----------
    model : str
        The model's name at the endpoint.
    base_url : str or None
        See ``resolve_endpoint``.

    Raises
    ------
    InputError
        If the name or the address is none.
    """
    if not isinstance(model, str) or not model:
        raise InputError(f'model must be a name, e.g. model="gpt-4o-mini"; got {model!r}')
    return shared(LanguageModel, model, resolve_endpoint(base_url))
