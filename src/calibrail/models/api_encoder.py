"""How are texts embedded by an endpoint, each once?"""

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.errors import InputError, ModelError
from calibrail.models.chat import read_tokens
from calibrail.models.embedding import Encoder
from calibrail.models.remote import Question, RemoteModel, Session
from calibrail.models.store import blocks
from calibrail.models.transport import RefusedError

#: How an encoder behind an endpoint is named: ``openai:MODEL`` or ``openai:MODEL@ADDRESS``.
PREFIX: Final = "openai:"

#: Texts, and characters of them, that one call holds at most.
BATCH_TEXTS: Final = 64
BATCH_CHARACTERS: Final = 200_000

#: A text that is still refused at this length is not refused for its length.
_SHORTEST: Final = 64


class ApiEncoder(RemoteModel, Encoder):
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
    """

    kind = "embedding"
    batch = BATCH_TEXTS

    def __init__(self, name: str, endpoint: str, prompt: str = "") -> None:
        RemoteModel.__init__(self, name, endpoint)
        Encoder.__init__(self, prompt)
        self.model = f"{PREFIX}{name}@{endpoint}"
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

    def question(self, item: str) -> Question:
        """Return what would be asked."""
        return Question(self._key(item), [item], 0)

    def embed(self, items: Sequence[tuple[str, bool]]) -> None:
        """Keep the vectors of texts: from the cache, or by the endpoint."""
        session = self.session()
        missing = []
        for text, _ in items:
            if (known := session.cache.get(self._key(text))) is not None:
                self._put(text, known, n_cached=1)
            else:
                missing.append(text)
        batches = list(blocks(missing, len, BATCH_TEXTS, BATCH_CHARACTERS))
        for texts, values in self.ask_each(self._ask, batches, session):
            for text, value in zip(texts, values, strict=True):
                self._put(text, value)

    def _ask(
        self, session: Session, texts: Sequence[str], beginnings: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """Have a batch embedded; where it is too long, in halves, and at last by beginnings."""
        bodies = beginnings or [text.encode("utf-8", "replace").decode() for text in texts]
        body = {"input": [self.prompt + text for text in bodies], "encoding_format": "float"}
        try:
            vectors, tokens = self.send(body, session, partial(read_vectors, n=len(texts)))
        except RefusedError as error:
            if not error.too_long:
                raise ModelError(
                    f"{self.model} embedded not every text ({error.reason}); those that it did are "
                    "kept, so run again"
                ) from None
            if half := len(texts) // 2:
                return [*self._ask(session, texts[:half]), *self._ask(session, texts[half:])]
            if len(bodies[0]) < _SHORTEST:
                raise ModelError(f"{self.model} refuses even short texts as too long") from None
            return self._ask(session, texts, [bodies[0][: len(bodies[0]) // 2]])
        values = []
        total = sum(map(len, bodies)) or 1
        for text, sent, vector in zip(texts, bodies, vectors, strict=True):
            raw = base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")
            share = None if tokens is None else round(tokens * len(sent) / total)
            values.append({"vector": raw, "cut": bool(beginnings), "tokens": share})
            self.keep_answer(session, self._key(text), values[-1], len(sent), (share, 0))
        return values

    def _put(self, text: str, value: dict[str, Any], n_cached: int = 0) -> None:
        vector = np.frombuffer(base64.b64decode(value["vector"]), dtype="<f4").astype(np.float32)
        self._width = self._width or len(vector)
        if len(vector) != self._width:
            raise ModelError(
                f"{self.model} gave vectors of {self._width} numbers before, and gives some of "
                f"{len(vector)}: another model has taken its name; clear its answers with "
                f"calibrail cache --clear --model {self.name}"
            )
        self.count_answer((value["tokens"], 0), n_cached)
        self.n_embedded += 1
        self.n_truncated += value["cut"]
        self.keep(text, vector, cut=value["cut"])

    def _key(self, text: str) -> str:
        content = [self.kind, self.endpoint, self.name, self.prompt, text]
        return hashlib.sha256(json.dumps(content).encode("ascii")).hexdigest()


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
    shapes = {vector.shape for vector in vectors}
    if len(shapes) != 1 or vectors[0].ndim != 1 or not vectors[0].size:
        raise ValueError("the endpoint answered with vectors of several lengths")
    if not all(np.isfinite(vector).all() and vector.any() for vector in vectors):
        raise ValueError("the endpoint answered with a vector that is zero or not finite")
    return vectors, read_tokens(answer, "prompt_tokens")
