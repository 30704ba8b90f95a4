"""What do models behind endpoints share, that is asked before anything is sent?"""

import operator
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import astuple, dataclass
from functools import partial
from threading import Event, Lock
from typing import Any, NamedTuple, Self, TypeVar

from calibrail.models.answer_cache import AnswerCache, Source, Tokens, open_cache
from calibrail.models.call_limits import Account, account
from calibrail.models.forks import renewed, waited_for
from calibrail.models.retry import Caller, Request
from calibrail.models.store import tell

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Question(NamedTuple):
    """One thing that would be asked.

    Attributes
    ----------
    key : str
        Digest under which its answer is kept, hexadecimal.
    texts : sequence of str
        What is sent.
    max_tokens : int
        Tokens of the answer at most.
    """

    key: str
    texts: Sequence[str]
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Usage:
    """What a model was used for so far; figures only grow.

    Attributes
    ----------
    n_answers : int
        Distinct requests that were answered, by the endpoint or the cache.
    n_sent : int
        Requests sent, further attempts included.
    n_cached : int
        Answers that the cache held.
    n_failed : int
        Requests that got no answer.
    tokens_in, tokens_out : int
        Tokens of all answers, the cached ones included, as the endpoint counted them.
    n_counted : int
        Answers whose tokens were counted.
    """

    n_answers: int = 0
    n_sent: int = 0
    n_cached: int = 0
    n_failed: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    n_counted: int = 0

    def __sub__(self, other: Self) -> Self:
        return type(self)(*map(operator.sub, astuple(self), astuple(other)))

    def __add__(self, other: Self) -> Self:
        return type(self)(*map(operator.add, astuple(self), astuple(other)))


class Session(NamedTuple):
    """What one round of asking goes by.

    Attributes
    ----------
    account : Account
        What calls are charged to.
    cache : AnswerCache
        Where answers are kept.
    stop : Event
        Set when nothing more is to be sent.
    """

    account: Account
    cache: AnswerCache
    stop: Event


class RemoteModel:
    """Base of the models behind an OpenAI-compatible endpoint.

    Parameters
    ----------
    name : str
        The model's name at the endpoint.
    endpoint : str
        Address, as ``resolve_endpoint`` returns it.

    Attributes
    ----------
    model : str
        What the user called it.
    usage : Usage
        What it was used for so far.
    """

    #: What is asked for: ``chat`` or ``embedding``.
    kind: str
    #: Questions that one call holds.
    batch = 1

    def __init__(self, name: str, endpoint: str) -> None:
        self.name, self.model, self.endpoint = name, name, endpoint
        self.usage = Usage()
        self._caller = Caller(endpoint)
        self._source = Source(endpoint, name, self.kind)
        self._lock = Lock()
        renewed(self)

    def renew_after_fork(self) -> None:
        """Make a lock that no thread of the parent holds; answers in memory stay good."""
        self._lock = Lock()

    def question(self, item: Any) -> Question:
        """Return what would be asked."""
        raise NotImplementedError

    def knows(self, question: Question) -> bool:
        """Return whether the answer is kept already."""
        return open_cache(account().limits.cache).get(question.key) is not None

    def tokens_so_far(self) -> float | None:
        """Return tokens per character of what was asked before, None if nothing was counted."""
        return open_cache(account().limits.cache).tokens_per_character(self._source)

    def count(self, used: Usage) -> None:
        """Add to what the model was used for."""
        with self._lock:
            self.usage += used

    def count_answer(self, tokens: Tokens, n_cached: int) -> None:
        """Count one answer with its tokens, and whether the cache held it (1) or not (0)."""
        tokens_in, tokens_out = (n or 0 for n in tokens)
        self.count(Usage(1, 0, n_cached, 0, tokens_in, tokens_out, int(None not in tokens)))

    def session(self) -> Session:
        """Return what a round of asking goes by, as it is now."""
        spent = account()
        return Session(spent, open_cache(spent.limits.cache), Event())

    def ask_each(
        self, ask: Callable[[Session, Item], Answer], items: Sequence[Item], session: Session
    ) -> Iterator[tuple[Item, Answer]]:
        """Yield every item with what came of asking, as it is ready; see ``each``."""
        before = self._caller.n_sent
        n_threads = session.account.limits.concurrency
        try:
            answers = each(partial(ask, session), items, n_threads, session.stop)
            for done, answer in enumerate(answers, start=1):
                yield answer
                tell(done / len(items))
        finally:
            self.count(Usage(n_sent=self._caller.n_sent - before))

    def send(self, body: dict[str, Any], session: Session, read: Callable[[Any], Answer]) -> Answer:
        """Have one request answered; see ``Caller.call``."""
        body = {"model": self.name, **body}
        request = Request(self.kind, body, session.account, session.stop, read)
        answer: Answer = self._caller.call(request)
        return answer

    def keep_answer(
        self, session: Session, key: str, value: dict[str, Any], characters: int, tokens: Tokens
    ) -> None:
        """Keep an answer, with the tokens that it cost as far as they were counted."""
        session.cache.put(key, value, self._source, characters, tokens)
        session.account.answered(tokens)


def each(
    work: Callable[[Item], Answer], items: Sequence[Item], n_threads: int, stop: Event
) -> Iterator[tuple[Item, Answer]]:
    """Yield every item with what became of it, as it is ready.

    Whatever ends the loop early (an error, an interrupt), ``stop`` is set, what is under way is
    waited for, and nothing more is begun.

    Parameters
    ----------
    work : callable
        Run in threads; an error that it raises ends the loop.
    items : sequence
        What to work on.
    n_threads : int
        Items at the same time at most.
    stop : Event
        Set when the loop ends.
    """
    if not items:
        return

    def guarded(item: Item) -> list[Answer]:
        """Return what became of an item; nothing, where it was stopped before it began."""
        try:
            return [] if stop.is_set() else [work(item)]
        except BaseException:
            # At once: by the time that the loop hears of it, others would have begun.
            stop.set()
            raise

    pool = ThreadPoolExecutor(min(n_threads, len(items)), initializer=waited_for)
    try:
        futures = {pool.submit(guarded, item): item for item in items}
        for future in as_completed(futures):
            item = futures.pop(future)
            for answer in future.result():
                yield item, answer
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
