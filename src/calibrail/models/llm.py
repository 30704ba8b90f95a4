"""How are many questions put to a chat model, each once, and no answer lost?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from threading import Event, Lock
from typing import Final

from calibrail.errors import InputError
from calibrail.models.answer_cache import AnswerCache
from calibrail.models.call_limits import Account, account
from calibrail.models.chat import ChatAnswer, ChatRequest, Failure, read_answer
from calibrail.models.endpoint import resolve_endpoint
from calibrail.models.pool import each
from calibrail.models.remote import Question, Usage
from calibrail.models.retry import Caller
from calibrail.models.transport import RefusedError

KIND: Final = "chat"

#: Answers held in memory beyond those that were just asked for.
HELD: Final = 4096


class LanguageModel:
    """A chat model behind an OpenAI-compatible endpoint.

    Use ``load_llm``, which shares one between all scores of a process.

    Parameters
    ----------
    model : str
        The model's name at the endpoint.
    endpoint : str
        Address, as ``resolve_endpoint`` returns it.
    caller : Caller, optional
        What sends the requests.
    """

    #: No forward pass runs on this machine.
    n_passes = 0
    #: Questions that one call holds.
    batch = 1

    def __init__(self, model: str, endpoint: str, caller: Caller | None = None) -> None:
        if not isinstance(model, str) or not model:
            raise InputError(f'model must be a name, e.g. model="gpt-4o-mini"; got {model!r}')
        self.model, self.endpoint = model, endpoint
        self.usage = Usage()
        self._caller = caller or Caller(endpoint)
        self._held: dict[ChatRequest, ChatAnswer | Failure] = {}
        self._lock = Lock()

    def prepare(self, requests: Iterable[ChatRequest]) -> None:
        """Have every request answered that is not yet: from the cache, or by the endpoint.

        Raises
        ------
        ModelError
            If the endpoint cannot be used at all.
        BudgetError
            If the calls that were allowed are spent.
        """
        self._found(requests)

    def answers(self, requests: Sequence[ChatRequest]) -> list[ChatAnswer | Failure]:
        """Return the answer to each request, or why there is none."""
        found = self._found(requests)
        return [found[request] for request in requests]

    def renew(self) -> None:
        """Forget what failed: an endpoint that was down may be up again."""
        with self._lock:
            self._held = {
                key: value for key, value in self._held.items() if not isinstance(value, Failure)
            }

    def _found(self, requests: Iterable[ChatRequest]) -> dict[ChatRequest, ChatAnswer | Failure]:
        """Return what became of each request; several threads may ask at the same time."""
        wanted = dict.fromkeys(requests)
        with self._lock:
            found = {key: self._held[key] for key in wanted if key in self._held}
            # What was asked for together with these may yet be looked up.
            if len(found) < len(wanted) and len(self._held) + len(wanted) - len(found) > HELD:
                self._held = dict(found)
        spent = account()
        cache = open_cache(spent.limits.cache)
        asked = []
        for request in wanted:
            if request in found:
                continue
            known = cache.get(request.key(self.endpoint, self.model))
            if known is None:
                asked.append(request)
            else:
                found[request] = ChatAnswer.from_dict(known)
                self._note(request, found[request], Usage(n_cached=1))
        if asked:
            found |= self._ask(asked, spent, cache)
        return found

    def questions(self, items: Sequence[ChatRequest]) -> Iterator[Question]:
        """Return what would be asked, and whether it is known; nothing is sent."""
        cache = open_cache(account().limits.cache)
        for request in items:
            key = request.key(self.endpoint, self.model)
            n_bytes = sum(len(text.encode("utf-8", "replace")) for _, text in request.messages)
            known = cache.get(key) is not None
            yield Question(key, known, request.n_characters, n_bytes, request.max_tokens)

    def tokens_so_far(self) -> float | None:
        """Return tokens per character of what was asked before, None if nothing was counted."""
        cache = open_cache(account().limits.cache)
        return cache.tokens_per_character(self.endpoint, self.model, KIND)

    def forget(self) -> None:
        """Drop the answers in memory; the cache keeps its own."""
        with self._lock:
            self._held = {}

    def _ask(
        self, requests: Sequence[ChatRequest], spent: Account, cache: AnswerCache
    ) -> dict[ChatRequest, ChatAnswer | Failure]:
        stop = Event()

        def one(request: ChatRequest) -> ChatAnswer | Failure:
            key = request.key(self.endpoint, self.model)
            # Another process may have asked meanwhile.
            found = cache.get(key)
            if found is not None:
                return ChatAnswer.from_dict(found)
            body = {"model": self.model, **request.parameters()}
            try:
                answer: ChatAnswer = self._caller.call(KIND, body, spent, stop, read_answer)
            except RefusedError as error:
                return Failure(str(error))
            cache.put(
                key,
                answer.to_dict(),
                endpoint=self.endpoint,
                model=self.model,
                kind=KIND,
                characters=request.n_characters,
                tokens_in=answer.tokens_in,
                tokens_out=answer.tokens_out,
            )
            spent.answered()
            # Where another process was faster, its answer is the one that both keep.
            kept = cache.get(key)
            return answer if kept is None else ChatAnswer.from_dict(kept)

        before = self._caller.n_sent
        found: dict[ChatRequest, ChatAnswer | Failure] = {}
        try:
            for request, answer in each(one, requests, spent.limits.concurrency, stop):
                found[request] = answer
                self._note(request, answer, Usage())
        finally:
            with self._lock:
                self.usage += Usage(n_sent=self._caller.n_sent - before)
        return found

    def _note(self, request: ChatRequest, answer: ChatAnswer | Failure, more: Usage) -> None:
        if isinstance(answer, Failure):
            used = Usage(n_failed=1)
        else:
            counted = answer.tokens_in is not None and answer.tokens_out is not None
            used = more + Usage(
                n_answers=1,
                tokens_in=answer.tokens_in or 0,
                tokens_out=answer.tokens_out or 0,
                n_counted=int(counted),
            )
        with self._lock:
            self._held[request] = answer
            self.usage += used


@lru_cache(maxsize=8)
def open_cache(path: Path | None) -> AnswerCache:
    """Return the process's one connection to a cache file."""
    return AnswerCache(path)


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
    return _shared(model, resolve_endpoint(base_url))


@lru_cache(maxsize=32)
def _shared(model: str, endpoint: str) -> LanguageModel:
    return LanguageModel(model, endpoint)
