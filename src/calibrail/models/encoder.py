"""How is a text turned into a vector, and its words into theirs, in one forward pass?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calibrail.errors import InputError, ModelError
from calibrail.models.api_encoder import PREFIX, load_api_encoder
from calibrail.models.batches import batches
from calibrail.models.embedding import Encoder
from calibrail.models.layout import whole_characters
from calibrail.models.loading import UNREADABLE, LocalModel
from calibrail.models.location import DEFAULT_MODEL, INSTALL, full_name
from calibrail.models.store import shared, text_key
from calibrail.text.words import WORDS_VERSION, content_words

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


class WordSums:
    """Adds up token vectors by content word, over the windows of a text.

    Parameters
    ----------
    items : sequence of (str, bool)
        Texts, and whether their word vectors are wanted.
    """

    def __init__(self, items: Sequence[tuple[str, bool]]) -> None:
        self._places: dict[int, NDArray[np.int64]] = {}
        self._sums: dict[int, NDArray[np.float32]] = {}
        for index, (text, wants_words) in enumerate(items):
            if wants_words:
                places = [(word.start, word.end) for word in content_words(text)]
                self._places[index] = np.array(places, dtype=np.int64).reshape(-1, 2)

    def add(self, index: int, offsets: NDArray[np.int64], tokens: NDArray[np.float32]) -> None:
        """Add one window of a text: character offsets (n, 2) and vectors (n, d) of its tokens."""
        places = self._places[index]
        sums = self._sums.setdefault(
            index, np.zeros((len(places), tokens.shape[1]), dtype=np.float32)
        )
        if not len(places):
            return
        starts, ends = offsets[:, 0], offsets[:, 1]
        word = np.searchsorted(places[:, 0], starts, side="right") - 1
        # Special tokens are empty; punctuation and stop words lie in no content word.
        inside = (ends > starts) & (word >= 0) & (starts < places[word, 1])
        np.add.at(sums, word[inside], tokens[inside])

    def finish(self) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Yield each text's index with its unit word vectors, shape (words, d)."""
        for index, sums in self._sums.items():
            # The direction of a sum is that of the mean. A word without a token (a character that
            # the vocabulary drops) keeps a zero vector: it resembles nothing.
            norms = np.linalg.norm(sums, axis=1, keepdims=True)
            norms[norms == 0.0] = 1.0
            yield index, sums / norms


class LocalEncoder(LocalModel, Encoder):
    """A sentence encoder that runs on this machine.

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
    """

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        revision: str | None = None,
        prompt: str = "",
        dtype: str = "float32",
    ) -> None:
        for key, value in (("revision", revision), ("prompt", prompt)):
            if not isinstance(value, str) and not (key == "revision" and value is None):
                raise InputError(f'{key} must be a string; got {value!r}; write {key}="{value}"')
        LocalModel.__init__(self, model, revision, dtype)
        Encoder.__init__(self, prompt)
        self._transformer: SentenceTransformer | None = None

    def fingerprint(self) -> dict[str, Any]:
        """Return what pins the vectors; reads files, loads no torch.

        Raises
        ------
        ModelError
            If the model is not on this machine and the hub cannot be reached.
        """
        return {
            **LocalModel.fingerprint(self),
            "max_length": self.place().max_length(),
            "prompt": self.prompt,
            "windowing": "sentence vector: first window; words: consecutive windows",
            "words": WORDS_VERSION,
        }

    def embed(self, items: Sequence[tuple[str, bool]]) -> None:
        """Compute the vectors of texts, and of their words where they are wanted, in one pass."""
        model = self._load()
        encoded = model.tokenizer(
            [self.prompt + whole_characters(text) for text, _ in items],
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
        for batch in batches([len(encoded["input_ids"][window]) for window in windows]):
            rows = [windows[index] for index in batch]
            sentence, tokens = self._forward(model, encoded, rows)
            for row, window in enumerate(rows):
                text, wants_words = items[owner[window]]
                if first[window]:
                    self.keep(text, sentence[row].copy(), cut=owner[window] in longer)
                if wants_words:
                    offsets = np.array(encoded["offset_mapping"][window]) - len(self.prompt)
                    sums.add(owner[window], offsets, tokens[row, : len(offsets)])
        for index, vectors in sums.finish():
            self._words.put(text_key(items[index][0]), vectors, vectors.nbytes)

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
            place = self.place()
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
            except (*UNREADABLE, SafetensorError) as error:
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
    if isinstance(model, str) and model.startswith(PREFIX):
        if revision is not None or dtype != "float32":
            raise InputError(
                f"{model} lies behind an endpoint, where revision and dtype are not ours to choose"
            )
        return load_api_encoder(model, prompt)
    return shared(LocalEncoder, full_name(model), revision, prompt, dtype)
