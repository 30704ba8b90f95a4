"""How is a text turned into a vector, and its words into theirs, in one forward pass?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.errors import InputError, ModelError
from calibrail.models.location import DEFAULT_MODEL, EMBEDDED_NAMES, INSTALL, locate
from calibrail.models.store import VectorStore, text_key
from calibrail.models.subwords import WordSums
from calibrail.text.words import WORDS_VERSION

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

DTYPES: Final = ("float32", "bfloat16", "float16")

#: Padded tokens a batch: enough to keep the cores busy, small enough for the caches.
BATCH_TOKENS: Final = 4096
# Halves of a character, left over from broken UTF-16: no tokenizer takes them.
_SURROGATE = re.compile("[\ud800-\udfff]")

#: Texts tokenised at a time.
_CHUNK: Final = 2048

SENTENCE_BUDGET: Final = 256 * 2**20
WORD_BUDGET: Final = 512 * 2**20


class Encoder:
    """A sentence encoder whose every distinct text runs through the model once.

    Use ``load_encoder``, which shares one encoder between all scores of a process.

    Parameters
    ----------
    model : str
        Hub name or folder; the default is embedded and needs no hub.
    revision : str or None
        Revision of a hub model.
    prompt : str
        Put before every text, e.g. ``"query: "`` for E5 used with prompts.
    dtype : {"float32", "bfloat16", "float16"}
        Precision of the weights. Another precision is another score.

    Attributes
    ----------
    n_passes : int
        Forward passes so far (batches).
    n_embedded : int
        Texts embedded so far.
    n_truncated : int
        Texts longer than the model's maximum length so far: their sentence vector is that of their
        beginning, as sentence-transformers computes it.
    """

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        revision: str | None = None,
        prompt: str = "",
        dtype: str = "float32",
    ) -> None:
        if dtype not in DTYPES:
            raise InputError(f"dtype must be one of {', '.join(DTYPES)}; got {dtype!r}")
        for key, value in (("model", model), ("revision", revision), ("prompt", prompt)):
            if not isinstance(value, str) and not (key == "revision" and value is None):
                raise InputError(f'{key} must be a string; got {value!r}; write {key}="{value}"')
        self.model, self.revision, self.prompt, self.dtype = model, revision, prompt, dtype
        self.n_passes = self.n_embedded = self.n_truncated = 0
        self._sentences = VectorStore(SENTENCE_BUDGET)
        self._words = VectorStore(WORD_BUDGET)
        self._transformer: SentenceTransformer | None = None

    def fingerprint(self) -> dict[str, Any]:
        """Return what pins the vectors; reads files, loads no torch.

        Raises
        ------
        ModelError
            If the model is not on this machine and the hub cannot be reached.
        """
        place = locate(self.model, self.revision)
        return {
            "model": place.name,
            "revision": place.revision,
            **place.digests(),
            "dtype": self.dtype,
            "max_length": place.max_length(),
            "prompt": self.prompt,
            "windowing": "sentence vector: first window; words: consecutive windows",
            "words": WORDS_VERSION,
        }

    def prepare(self, texts: Iterable[str], word_texts: Iterable[str] = ()) -> None:
        """Embed what is not yet known, in length-sorted batches, one pass for both kinds.

        Parameters
        ----------
        texts : iterable of str
            Texts whose sentence vector will be asked for.
        word_texts : iterable of str
            Texts whose word vectors will be asked for; their sentence vector comes along.
        """
        wanted: dict[str, bool] = {}
        for text in word_texts:
            if self._words.get(text_key(text)) is None:
                wanted[text] = True
        for text in texts:
            if text not in wanted and self._sentences.get(text_key(text)) is None:
                wanted[text] = False
        items = list(wanted.items())
        for start in range(0, len(items), _CHUNK):
            self._embed(items[start : start + _CHUNK])

    def sentences(self, texts: Sequence[str], *, normal: bool = True) -> NDArray[np.float64]:
        """Return L2-normalised sentence vectors, float64, shape (n, d); else as the model gives."""
        self.prepare(texts)
        rows = [self._sentence(text) for text in texts]
        if not rows:
            return np.zeros((0, 0))
        vectors = np.array(rows, dtype=np.float64)
        if not normal:
            return vectors
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(norms > 0.0, norms, 1.0)

    def words(self, text: str) -> NDArray[np.float32]:
        """Return L2-normalised vectors of the text's content words, shape (words, d).

        A word's vector is the mean of its subwords' last hidden states in context.
        """
        vectors = self._words.get(text_key(text))
        if vectors is None:
            self.prepare((), (text,))
            vectors = self._words.get(text_key(text))
        if vectors is None:
            raise ModelError("a single text exceeds the memory set aside for word vectors")
        return vectors

    def cut(self, texts: Iterable[str]) -> set[bytes]:
        """Return the keys of those texts that are longer than the model reads.

        Texts that were not prepared, or whose vectors were dropped since, are not among them.
        """
        return {key for key in map(text_key, texts) if self._sentences.is_cut(key)}

    def forget(self) -> None:
        """Drop all vectors, so that the next text is embedded by itself."""
        self._sentences.clear()
        self._words.clear()

    def _sentence(self, text: str) -> NDArray[np.float32]:
        vector = self._sentences.get(text_key(text))
        if vector is None:
            self._embed([(text, False)])
            vector = self._sentences.get(text_key(text))
        if vector is None:
            raise ModelError("the memory set aside for sentence vectors holds not even one")
        return vector

    def _embed(self, items: Sequence[tuple[str, bool]]) -> None:
        model = self._load()
        encoded = model.tokenizer(
            [self.prompt + _SURROGATE.sub("\ufffd", text) for text, _ in items],
            truncation=True,
            max_length=model.max_seq_length,
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
        sums = WordSums(items)
        for batch in _batches(windows, [len(ids) for ids in encoded["input_ids"]]):
            sentence, tokens = self._forward(model, encoded, batch)
            for row, window in enumerate(batch):
                text, wants_words = items[owner[window]]
                if first[window]:
                    cut = owner[window] in longer
                    self._sentences.put(text_key(text), sentence[row].copy(), cut=cut)
                if wants_words:
                    offsets = np.array(encoded["offset_mapping"][window]) - len(self.prompt)
                    sums.add(owner[window], offsets, tokens[row, : len(offsets)])
        for index, vectors in sums.finish():
            self._words.put(text_key(items[index][0]), vectors)

    def _forward(
        self, model: SentenceTransformer, encoded: Any, batch: Sequence[int]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        import torch

        names = [name for name in model.tokenizer.model_input_names if name in encoded]
        features = model.tokenizer.pad(
            {name: [encoded[name][window] for window in batch] for name in names},
            padding=True,
            return_tensors="pt",
        )
        with torch.inference_mode():
            output = model({name: tensor.to(model.device) for name, tensor in features.items()})
            sentence = output["sentence_embedding"].float().cpu().numpy()
            tokens = output["token_embeddings"].float().cpu().numpy()
        self.n_passes += 1
        return sentence, tokens

    def _load(self) -> SentenceTransformer:
        if self._transformer is None:
            place = locate(self.model, self.revision)
            try:
                import torch
                from safetensors import SafetensorError
                from sentence_transformers import SentenceTransformer
                from transformers.utils import logging
            except ImportError as error:
                raise ModelError(f"{self.model} needs the models extra: {INSTALL}") from error
            logging.disable_progress_bar()
            try:
                model = SentenceTransformer(
                    str(place.folder),
                    local_files_only=True,
                    trust_remote_code=False,
                    model_kwargs={"dtype": getattr(torch, self.dtype), "use_safetensors": True},
                )
            except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
                raise ModelError(
                    f"{self.model} in {place.folder} cannot be loaded as an encoder: {error}"
                ) from error
            if not model.tokenizer.is_fast:
                raise ModelError(f"{self.model} has no fast tokenizer, which tells where words lie")
            # One source for the length that the fingerprint states and the one that is used.
            model.max_seq_length = place.max_length()
            model.eval()
            self._transformer = model
        return self._transformer


def _batches(windows: Sequence[int], lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield windows of similar length together, longest first."""
    batch: list[int] = []
    for window in sorted(windows, key=lambda index: -lengths[index]):
        if batch and lengths[batch[0]] * (len(batch) + 1) > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(window)
    if batch:
        yield batch


def load_encoder(
    model: str = DEFAULT_MODEL,
    revision: str | None = None,
    prompt: str = "",
    dtype: str = "float32",
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

    Raises
    ------
    InputError
        If the dtype is none of these.

    Examples
    --------
    >>> load_encoder("all-MiniLM-L6-v2") is load_encoder()
    True
    """
    if isinstance(model, str) and model.startswith("openai:"):
        from calibrail.models.api_encoder import load_api_encoder

        if revision is not None or dtype != "float32":
            raise InputError(
                f"{model} lies behind an endpoint, where revision and dtype are not ours to choose"
            )
        return load_api_encoder(model, prompt)
    full = DEFAULT_MODEL if model in EMBEDDED_NAMES else model
    return _shared(full, revision, prompt, dtype)


@lru_cache(maxsize=8)
def _shared(model: str, revision: str | None, prompt: str, dtype: str) -> Encoder:
    return Encoder(model, revision, prompt, dtype)
