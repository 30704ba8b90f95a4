"""Sentence and word embeddings, local and by API."""

import base64
import hashlib
import json
import operator
from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrail.errors import InputError, ModelError
from calibrail.models import loading
from calibrail.models.batching import ResultStore, batches, blocks, run_key, shared, text_key
from calibrail.models.hardware import Runtime
from calibrail.models.llm.chat import ChatSession, Question, RemoteModel, first_sample, read_tokens
from calibrail.models.llm.transport import RefusedError, resolve_endpoint
from calibrail.models.networks import Exportable, Network
from calibrail.models.windows import whole_characters
from calibrail.text.words import content_words, edition, words_version

#: Texts tokenised at a time.
_CHUNK: Final = 2048

#: Bytes of vectors to keep.
SENTENCE_BUDGET: Final = 256 * 2**20
WORD_BUDGET: Final = 512 * 2**20


class SentenceVector(NamedTuple):
    """The vector of a text.

    Attributes
    ----------
    vector : array of float32, shape (d,)
        As the model gives it.
    cut : bool
        Whether it stands for the beginning of a longer text.
    """

    vector: NDArray[np.float32]
    cut: bool


class Encoder:
    """Base of the sentence encoders, whose every distinct text runs through the model once.

    Parameters
    ----------
    prompt : str
        Put before every text.

    Attributes
    ----------
    model : str
        What the user called it.
    n_passes : int
        Forward passes so far (batches).
    n_embedded : int
        Texts embedded so far.
    n_truncated : int
        Texts longer than the model's maximum length so far: their sentence vector is that of their
        beginning, as sentence-transformers computes it.
    """

    model: str
    n_passes: int = 0

    def __init__(self, prompt: str = "") -> None:
        self.prompt = prompt
        self.n_embedded = self.n_truncated = 0
        self._sentences = ResultStore[SentenceVector](SENTENCE_BUDGET)
        self._words = ResultStore[NDArray[np.float32]](WORD_BUDGET)

    def fingerprint(self) -> dict[str, Any]:
        """Return what pins the vectors."""
        raise NotImplementedError

    def embed(self, items: Sequence[tuple[str, bool]]) -> None:
        """Compute and keep the vectors of texts, of their words too where a text's flag says so."""
        raise NotImplementedError

    def prepare(self, texts: Iterable[str], word_texts: Iterable[str] = ()) -> None:
        """Embed what is not yet known, in length-sorted batches, one pass for both kinds.

        Parameters
        ----------
        texts : iterable of str
            Texts whose sentence vector will be asked for.
        word_texts : iterable of str
            Texts whose word vectors will be asked for; their sentence vector comes along.
        """
        missing = (text for text in word_texts if self._words.get(_key(text)) is None)
        wanted = dict.fromkeys(missing, True)
        for text in texts:
            if text not in wanted and self._sentences.get(_key(text)) is None:
                wanted[text] = False
        items = list(wanted.items())
        for start in range(0, len(items), _CHUNK):
            self._together(items[start : start + _CHUNK])

    def _together(self, items: Sequence[tuple[str, bool]]) -> None:
        """Embed texts, or take up what they were when they were embedded together, and alone."""
        keys = [_key(text) for text, _ in items]
        run = run_key(key + bytes([words]) for key, (_, words) in zip(keys, items, strict=True))
        if not (self._sentences.repeat(run) and self._words.repeat(run)):
            self.embed(items)
            self._sentences.note(run, keys)
            self._words.note(run, keys)

    def sentences(self, texts: Sequence[str], *, normal: bool = True) -> NDArray[np.float64]:
        """Return L2-normalised sentence vectors, float64, shape (n, d); else as the model gives."""
        keys = list(map(_key, texts))
        known = [self._sentences.get(key) for key in keys]
        if None in known:
            self.prepare(texts)
        rows = [
            row or self._sentences.get_or(key, partial(self.embed, [(text, False)]))
            for key, text, row in zip(keys, texts, known, strict=True)
        ]
        if not rows:
            return np.zeros((0, 0))
        vectors = np.array([row.vector for row in rows], dtype=np.float64)
        if not normal:
            return vectors
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(norms > 0.0, norms, 1.0)

    def words(self, text: str) -> NDArray[np.float32]:
        """Return L2-normalised vectors of the text's content words, shape (words, d).

        A word's vector is the mean of its subwords' last hidden states in context.
        """
        return self._words.get_or(_key(text), partial(self.prepare, (), (text,)))

    def settle(self, texts: Iterable[str]) -> None:
        """Embed texts and their words again, each by itself: what they are then no batch changes.

        For a caller that draws a line, and whose value lies near it in half precision.
        """
        for text in dict.fromkeys(texts):
            self.embed([(text, True)])

    def cut(self, texts: Iterable[str]) -> set[bytes]:
        """Return the keys of those texts that are longer than the model reads.

        Texts that were not prepared, or whose vectors were dropped since, are not among them.
        """
        keys = map(_key, texts)
        return {key for key in keys if (kept := self._sentences.peek(key)) and kept.cut}

    def forget(self) -> None:
        """Drop all vectors, so that the next text is embedded by itself."""
        self._sentences.clear()
        self._words.clear()

    def keep(self, text: str, vector: NDArray[np.float32], cut: bool) -> None:
        """Keep the vector of a text."""
        self._sentences.put(_key(text), SentenceVector(vector, cut), vector.nbytes)


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
            raise InputError.on("whole_texts_alone", model=self.model)
        super().prepare(texts)

    def question(self, item: str) -> Question:
        """Return what would be asked."""
        return Question(self._key(item), [item], 0)

    def embed(self, items: Sequence[tuple[str, bool]]) -> None:
        """Keep the vectors of texts: from the cache, or by the endpoint."""
        session = self.session()
        missing = []
        for text, _ in items:
            if (known := session.cache.get(self._key(text), _kept)) is not None:
                self._put(text, known, n_cached=1)
            else:
                missing.append(text)
        batches = list(blocks(missing, len, BATCH_TEXTS, BATCH_CHARACTERS))
        for texts, values in self.ask_each(self._ask, batches, session):
            for text, value in zip(texts, values, strict=True):
                self._put(text, _kept(value))

    def _ask(
        self, session: ChatSession, texts: Sequence[str], beginnings: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """Have a batch embedded; where it is too long, in halves, and at last by beginnings."""
        bodies = beginnings or [text.encode("utf-8", "replace").decode() for text in texts]
        body = {"input": [self.prompt + text for text in bodies], "encoding_format": "float"}
        try:
            vectors, tokens = self.send(body, session, partial(read_vectors, n=len(texts)))
        except RefusedError as error:
            if not error.too_long:
                raise ModelError.on("embedding_incomplete", model=self.model, error=error) from None
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

    def _put(self, text: str, kept: tuple[SentenceVector, int | None], n_cached: int = 0) -> None:
        (vector, cut), tokens = kept
        self._width = self._width or len(vector)
        if len(vector) != self._width:
            raise ModelError.on("another_encoder", encoder=self, now=len(vector))
        self.count_answer((tokens, 0), n_cached)
        self.n_embedded += 1
        self.n_truncated += cut
        self.keep(text, vector, cut=cut)

    def _key(self, text: str) -> str:
        content = [self.kind, self.endpoint, self.name, self.prompt, text]
        if sample := first_sample():
            content.append(str(sample))
        return hashlib.sha256(json.dumps(content).encode("ascii")).hexdigest()


def _kept(value: Any) -> tuple[SentenceVector, int | None]:
    """Return a vector as the cache keeps it, and the tokens that it cost."""
    vector = np.frombuffer(base64.b64decode(value["vector"]), dtype="<f4").astype(np.float32)
    tokens, is_vector = value["tokens"], np.isfinite(vector).all() and vector.any()
    if len(value) != 3 or not is_vector or float(operator.index(tokens or 0)) < 0.0:
        raise ValueError("it is no vector of finite numbers")
    return SentenceVector(vector, bool(value["cut"])), tokens


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
            table = np.array([item["embedding"] for item in ordered], dtype=np.float32)
        is_whole = [item["index"] for item in ordered] == list(range(n)) and table.ndim == 2
    except (TypeError, KeyError, ValueError, OverflowError):
        is_whole = False
    if not (is_whole and table.size and np.isfinite(table).all() and table.any(axis=1).all()):
        raise ValueError("the endpoint answered with something other than finite vectors in order")
    return list(table), read_tokens(answer, "prompt_tokens")


_PURPOSE: Final = "an encoder"


def _key(text: str) -> bytes:
    """Return what stands for a text: its words depend on the edition of the rules."""
    return text_key(text) + bytes([edition()])


class WordSums:
    """Adds up token vectors by content word, over the windows of a text.

    Parameters
    ----------
    text : str
        The text.
    width : int
        Length of the vectors.
    """

    def __init__(self, text: str, width: int) -> None:
        spans = [(word.start, word.end) for word in content_words(text)]
        self._spans = np.array(spans, dtype=np.int64).reshape(-1, 2)
        self._sums = np.zeros((len(spans), width), dtype=np.float32)

    def add(self, offsets: NDArray[np.int64], tokens: NDArray[np.float32]) -> None:
        """Add one window: character offsets (n, 2) and vectors (n, d) of its tokens."""
        if not len(self._spans):
            return
        starts, ends = offsets[:, 0], offsets[:, 1]
        word = np.searchsorted(self._spans[:, 0], starts, side="right") - 1
        # Special tokens are empty; punctuation and stop words lie in no content word.
        inside = (ends > starts) & (word >= 0) & (starts < self._spans[word, 1])
        np.add.at(self._sums, word[inside], tokens[inside])

    def vectors(self) -> NDArray[np.float32]:
        """Return the unit word vectors, shape (words, d)."""
        # The direction of a sum is that of the mean. A word without a token (a character that
        # the vocabulary drops) keeps a zero vector: it resembles nothing.
        norms = np.linalg.norm(self._sums, axis=1, keepdims=True)
        norms[norms == 0.0] = 1.0
        return np.asarray(self._sums / norms)


class LocalEncoder(loading.LocalModel, Encoder):
    """A sentence encoder that runs on this machine.

    Use ``load_encoder``, which shares one encoder between all scores of a process.

    Parameters
    ----------
    model : str
        Hub name or folder.
    revision : str or None
        Revision of a hub model.
    prompt : str
        Put before every text, e.g. ``"query: "`` for E5 used with prompts.
    dtype : {"float32", "bfloat16", "float16"}
        Precision of the weights. Another precision is another score.
    backend, device : str, str or None
        See ``Runtime``.
    """

    def __init__(
        self,
        model: str,
        revision: str | None,
        prompt: str,
        dtype: str,
        backend: str = "torch",
        device: str | None = None,
    ) -> None:
        if not isinstance(prompt, str):
            raise InputError(f'prompt must be a string; got {prompt!r}; write prompt="{prompt}"')
        loading.LocalModel.__init__(self, model, revision, dtype, None, backend, device)
        Encoder.__init__(self, prompt)

    def fingerprint(self) -> dict[str, Any]:
        """Return what pins the vectors; reads files, loads no torch.

        Raises
        ------
        ModelError
            If the model is not on this machine and the hub cannot be reached.
        """
        return {
            **loading.LocalModel.fingerprint(self),
            "max_length": self.place.max_length(),
            "prompt": self.prompt,
            "windowing": "sentence vector: first window; words: consecutive windows",
            "words": words_version(),
        }

    def embed(self, items: Sequence[tuple[str, bool]]) -> None:
        """Compute the vectors of texts, and of their words where they are wanted, in one pass."""
        opened = self.opened
        encoded = opened.tokenizer(
            [self.prompt + whole_characters(text) for text, _ in items],
            truncation=True,
            max_length=self.place.max_length(),
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            padding=False,
        )
        owner: list[int] = encoded["overflow_to_sample_mapping"]
        longer = {owner[i] for i in range(1, len(owner)) if owner[i] == owner[i - 1]}
        first = [index == 0 or owner[index] != owner[index - 1] for index in range(len(owner))]
        # Windows after the first serve word vectors only.
        windows = [i for i in range(len(owner)) if first[i] or items[owner[i]][1]]
        self.n_truncated += len(longer)
        self.n_embedded += len(items)
        sums: dict[int, WordSums] = {}
        names = [name for name in opened.tokenizer.model_input_names if name in encoded]

        lengths = [len(encoded["input_ids"][window]) for window in windows]
        for batch in batches(lengths, partial(self.most_rows, on_gpu=opened.on_gpu)):
            rows = [windows[index] for index in batch]
            inputs = {name: [encoded[name][i] for i in rows] for name in names}
            features = opened.tokenizer.pad(inputs, padding=True, return_tensors="np")
            arrays = {name: part.astype(np.int64) for name, part in features.items()}
            vectors = opened.outputs(arrays, _vectors)
            # Sentence vectors (windows, d), and token vectors (windows, tokens, d).
            sentence, tokens = (part.float().cpu().numpy() for part in vectors)
            self.n_passes += 1
            for row, window in enumerate(rows):
                text, wants_words = items[owner[window]]
                if first[window]:
                    self.keep(text, sentence[row].copy(), cut=owner[window] in longer)
                if wants_words:
                    offsets = np.array(encoded["offset_mapping"][window]) - len(self.prompt)
                    if owner[window] not in sums:
                        sums[owner[window]] = WordSums(text, tokens.shape[2])
                    sums[owner[window]].add(offsets, tokens[row, : len(offsets)])
        for index, of_text in sums.items():
            unit = of_text.vectors()
            self._words.put(_key(items[index][0]), unit, unit.nbytes)

    @cached_property
    def opened(self) -> Network:
        """The opened encoder: by torch, or as it was exported."""
        if self.runtime.is_torch:
            return Network(self.transformer, self.transformer.tokenizer, self.model)
        return self.open_graph(_PURPOSE, self._exportable)

    @cached_property
    def transformer(self) -> Any:
        """The SentenceTransformer, opened by torch."""
        return self._open_transformer()

    def _open_transformer(self, **options: Any) -> Any:
        with self.loading(_PURPOSE, "sentence_transformers") as library:
            if self.device is not None or not self.runtime.is_torch:
                options["device"] = self.torch_device()
            weights = {"dtype": self.torch_dtype(), "use_safetensors": True}
            model = library.SentenceTransformer(
                str(self.place.folder),
                **loading.CLOSED,
                model_kwargs=weights | options.pop("weights", {}),
                **options,
            )
            loading.take_into_memory(model)
        if not model.tokenizer.is_fast:
            raise ModelError(f"{self.model} has no fast tokenizer, which tells where words lie")
        # One source for the length that the fingerprint states and the one that is used.
        model.max_seq_length = self.place.max_length()
        return model.eval()

    def _exportable(self) -> Exportable:
        model = self._open_transformer(weights={"attn_implementation": "eager"})

        def tokenised(texts: Sequence[str]) -> dict[str, Any]:
            options = {"padding": True, "truncation": True, "max_length": self.place.max_length()}
            encoded = model.tokenizer(list(texts), return_tensors="pt", **options)
            return {name: encoded[name] for name in model.tokenizer.model_input_names}

        texts = loading.PUBLISHED["samples"]["texts"]
        batches_compared = [tokenised(part) for part in (texts[:1], texts[1:2], texts)]
        axes = {"sentence_embedding": (0,), "token_embeddings": (0, 1)}
        return Exportable(model, model.tokenizer, _vectors, batches_compared, axes)


def _vectors(module: Any, inputs: dict[str, Any]) -> tuple[Any, ...]:
    output = module(dict(inputs))
    return output["sentence_embedding"], output["token_embeddings"]


def load_encoder(
    model: str = loading.DEFAULT_MODEL,
    revision: str | None = None,
    prompt: str = "",
    dtype: str = "float32",
    backend: str = "torch",
    device: str | None = None,
) -> Encoder:
    """Return the process's one encoder of this specification; nothing is loaded yet.

    Parameters
    ----------
    model : str
        Hub name or folder. ``all-MiniLM-L6-v2`` is short for the embedded default, and
        ``openai:text-embedding-3-large`` is a model behind an OpenAI-compatible endpoint
        (``openai:MODEL@http://localhost:8000/v1`` names another than the environment's).
    revision : str or None
        Revision of a hub model.
    prompt : str
        Put before every text.
    dtype : {"float32", "bfloat16", "float16"}
        Precision of the weights.
    backend, device : str, str or None
        See ``Runtime``.

    Raises
    ------
    InputError
        If the backend does not offer the dtype or device, no model is named, or the address is
        none.

    Examples
    --------
    >>> load_encoder("all-MiniLM-L6-v2") is load_encoder()
    True
    """
    if isinstance(model, str) and model.startswith(PREFIX):
        if revision is not None or Runtime(backend, dtype, device) != Runtime():
            raise InputError.on("encoder_behind_endpoint", model=model)
        name, _, address = model.removeprefix(PREFIX).partition("@")
        if not name:
            raise InputError(f"an encoder behind an endpoint is named {PREFIX}MODEL; got {model!r}")
        return shared(ApiEncoder, name, resolve_endpoint(address or None), prompt)
    return shared(LocalEncoder, loading.full_name(model), revision, prompt, dtype, backend, device)
