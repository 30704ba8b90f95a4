"""How are texts embedded by an endpoint, each once?"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from threading import Event
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.errors import InputError, ModelError
from calibrail.models.answer_cache import AnswerCache
from calibrail.models.call_limits import Account, account
from calibrail.models.chat import read_count
from calibrail.models.encoder import Encoder
from calibrail.models.endpoint import resolve_endpoint
from calibrail.models.llm import open_cache
from calibrail.models.pool import each
from calibrail.models.remote import Question, Usage
from calibrail.models.retry import Caller
from calibrail.models.store import text_key
from calibrail.models.transport import RefusedError

KIND: Final = "embedding"

#: How an encoder behind an endpoint is named: ``openai:MODEL`` or ``openai:MODEL@ADDRESS``.
PREFIX: Final = "openai:"

#: Texts, and characters of them, that one call holds at most.
BATCH_TEXTS: Final = 64
BATCH_CHARACTERS: Final = 200_000

#: A text that is still refused at this length is not refused for its length.
_SHORTEST: Final = 64


class ApiEncoder(Encoder):
    """An embedding model behind an OpenAI-compatible endpoint; gives sentence vectors only.

    Use ``load_encoder("openai:text-embedding-3-large")``. A text longer than the model reads is
    embedded by its beginning, as a local encoder does it, and counted.

    Parameters
    ----------
    name : str
        The model's name at the endpoint.
    endpoint : str
        Address, as ``resolve_endpoint`` returns it.
    prompt : str
        Put before every text.
    caller : Caller, optional
        What sends the requests.
    """

    batch = BATCH_TEXTS

    def __init__(
        self, name: str, endpoint: str, prompt: str = "", caller: Caller | None = None
    ) -> None:
        super().__init__(f"{PREFIX}{name}@{endpoint}", None, prompt)
        self.name, self.endpoint = name, endpoint
        self.usage = Usage()
        self._caller = caller or Caller(endpoint)
        self._width: int | None = None

    def fingerprint(self) -> dict[str, Any]:
        """Return what is known of a model that lies elsewhere: its name and its endpoint."""
        return {"model": self.name, "endpoint": self.endpoint, "prompt": self.prompt}

    def prepare(self, texts: Iterable[str], word_texts: Iterable[str] = ()) -> None:
        """Embed what is not yet known.

        Raises
        ------
        InputError
            If word vectors are wanted, which no endpoint gives.
        ModelError
            If a text gets no vector after all attempts; those that have theirs are kept.
        """
        if any(True for _ in word_texts):
            raise InputError(
                f"{self.model} gives vectors of whole texts only, and this score needs those of "
                "words; use a local model"
            )
        super().prepare(texts)

    def questions(self, items: Sequence[str]) -> Iterator[Question]:
        """Return what would be asked, and whether it is known; nothing is sent."""
        cache = open_cache(account().limits.cache)
        for text in items:
            key = self._key(text)
            n_bytes = len(text.encode("utf-8", "replace"))
            yield Question(key, cache.get(key) is not None, len(text), n_bytes, 0)

    def tokens_so_far(self) -> float | None:
        """Return tokens per character of what was asked before, None if nothing was counted."""
        cache = open_cache(account().limits.cache)
        return cache.tokens_per_character(self.endpoint, self.name, KIND)

    def _embed(self, items: Sequence[tuple[str, bool]]) -> None:
        spent = account()
        cache = open_cache(spent.limits.cache)
        missing = []
        for text, _ in items:
            found = cache.get(self._key(text))
            if found is None:
                missing.append(text)
            else:
                self._put(text, found, n_cached=1)
        stop = Event()

        def ask(texts: Sequence[str]) -> list[dict[str, Any]]:
            return self._ask(texts, cache, spent, stop)

        before = self._caller.n_sent
        try:
            for texts, found in each(ask, list(_batches(missing)), spent.limits.concurrency, stop):
                for text, value in zip(texts, found, strict=True):
                    self._put(text, value)
        finally:
            self.usage += Usage(n_sent=self._caller.n_sent - before)

    def _ask(
        self, texts: Sequence[str], cache: AnswerCache, spent: Account, stop: Event
    ) -> list[dict[str, Any]]:
        """Have a batch embedded; where it is too long, in halves, and at last cut short."""
        shortened = [text.encode("utf-8", "replace").decode() for text in texts]
        cut = False
        while True:
            try:
                vectors, tokens = self._call(shortened, spent, stop)
                break
            except RefusedError as error:
                if not error.too_long:
                    raise ModelError(
                        f"{self.model} embedded not every text ({error.reason}); those that it "
                        "did are kept, so run again"
                    ) from None
                if len(texts) > 1:
                    half = len(texts) // 2
                    first = self._ask(texts[:half], cache, spent, stop)
                    return [*first, *self._ask(texts[half:], cache, spent, stop)]
                if len(shortened[0]) < _SHORTEST:
                    raise ModelError(f"{self.model} refuses even short texts as too long") from None
                shortened = [shortened[0][: len(shortened[0]) // 2]]
                cut = True
        values = []
        total = sum(map(len, shortened)) or 1
        for text, sent, vector in zip(texts, shortened, vectors, strict=True):
            raw = base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")
            share = None if tokens is None else round(tokens * len(sent) / total)
            values.append({"vector": raw, "cut": cut, "tokens": share})
            spent.answered()
            cache.put(
                self._key(text), values[-1], endpoint=self.endpoint, model=self.name, kind=KIND,
                characters=len(sent), tokens_in=share, tokens_out=0,
            )  # fmt: skip
        return values

    def _call(
        self, texts: Sequence[str], spent: Account, stop: Event
    ) -> tuple[list[NDArray[np.float32]], int | None]:
        body = {
            "model": self.name,
            "input": [self.prompt + text for text in texts],
            "encoding_format": "float",
        }

        def read(answer: Any) -> tuple[list[NDArray[np.float32]], int | None]:
            return read_vectors(answer, len(texts))

        result: tuple[list[NDArray[np.float32]], int | None] = self._caller.call(
            KIND, body, spent, stop, read
        )
        return result

    def _put(self, text: str, value: dict[str, Any], n_cached: int = 0) -> None:
        vector = np.frombuffer(base64.b64decode(value["vector"]), dtype="<f4").astype(np.float32)
        if self._width is None:
            self._width = len(vector)
        elif len(vector) != self._width:
            raise ModelError(
                f"{self.model} gave vectors of {self._width} numbers before, and gives some of "
                f"{len(vector)}: another model has taken its name; clear its answers with "
                f"calibrail cache --clear --model {self.name}"
            )
        tokens = value["tokens"]
        self.usage += Usage(
            n_answers=1, n_cached=n_cached, tokens_in=tokens or 0, n_counted=int(tokens is not None)
        )
        self.n_embedded += 1
        self.n_truncated += bool(value["cut"])
        self._sentences.put(text_key(text), vector, cut=bool(value["cut"]))

    def _key(self, text: str) -> str:
        content = [self.endpoint, self.name, self.prompt, text]
        return hashlib.sha256(json.dumps(["embedding", *content]).encode("ascii")).hexdigest()


def read_vectors(answer: Any, n: int) -> tuple[list[NDArray[np.float32]], int | None]:
    """Read the body of an embedding answer: n vectors in order, and the tokens they cost.

    Raises
    ------
    ValueError
        If it does not hold n vectors of finite numbers and one length.
    """
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list) or len(data) != n:
        raise ValueError("the endpoint answered with another number of vectors than texts")
    try:
        ordered = sorted(data, key=lambda item: item["index"])
        # Numbers beyond float32 become infinite, and are refused as such.
        with np.errstate(over="ignore"):
            vectors = [np.asarray(item["embedding"], dtype=np.float32) for item in ordered]
        indices = [item["index"] for item in ordered]
    except (TypeError, KeyError, ValueError, OverflowError) as error:
        raise ValueError("the endpoint answered with something that is no vector") from error
    if indices != list(range(n)):
        raise ValueError("the endpoint answered with vectors that do not say whose they are")
    if (
        len({vector.shape for vector in vectors}) != 1
        or vectors[0].ndim != 1
        or not vectors[0].size
    ):
        raise ValueError("the endpoint answered with vectors of several lengths")
    if not all(np.isfinite(vector).all() and vector.any() for vector in vectors):
        raise ValueError("the endpoint answered with a vector that is zero or not finite")
    usage = answer.get("usage")
    tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return vectors, read_count(tokens)


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch, characters = list[str](), 0
    for text in texts:
        if batch and (len(batch) == BATCH_TEXTS or characters + len(text) > BATCH_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(text)
        characters += len(text)
    if batch:
        yield batch


def load_api_encoder(model: str, prompt: str = "") -> ApiEncoder:
    """Return the process's one encoder for ``openai:MODEL`` or ``openai:MODEL@ADDRESS``.

    Raises
    ------
    InputError
        If no model is named, or the address is none.
    """
    name, _, address = model.removeprefix(PREFIX).partition("@")
    if not name:
        raise InputError(f"an encoder behind an endpoint is named {PREFIX}MODEL; got {model!r}")
    return _shared(name, resolve_endpoint(address or None), prompt)


@lru_cache(maxsize=8)
def _shared(name: str, endpoint: str, prompt: str) -> ApiEncoder:
    return ApiEncoder(name, endpoint, prompt)
