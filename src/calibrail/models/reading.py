"""How does a local model read each distinct input once, and keep what it computed?"""

from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from typing import Any, Final, Generic, TypeVar

from calibrail.models.loading import LocalModel
from calibrail.models.store import ResultStore, blocks, run_key, text_key

Item = TypeVar("Item", bound=Sequence[Any])
Head = TypeVar("Head")
Result = TypeVar("Result")

#: Goes into fingerprints: another way of cutting gives other scores.
WINDOWING: Final = "long side only; overlap 1/4 of a window, cut between words; last one full"


class ReadingModel(LocalModel, Generic[Item, Head, Result]):
    """Base of the models that read texts together, each distinct item once.

    Parameters
    ----------
    model, revision, dtype, window
        See ``LocalModel``.
    """

    #: Items, and characters of them, computed at a time.
    block = 2048
    block_characters = 1_000_000
    #: Sum of the sizes of the results that are kept.
    budget: int

    def fingerprint(self) -> dict[str, Any]:
        """Return what pins the results; reads files, loads no torch.

        Raises
        ------
        ModelError
            If the model is not on this machine and the hub cannot be reached, or it is none of
            this kind.
        InputError
            If the window is larger than the model.
        """
        return {
            **super().fingerprint(),
            **self.describe(),
            "max_length": self.length,
            "window": self.window,
            "windowing": WINDOWING,
        }

    def describe(self) -> dict[str, Any]:
        """Return what pins this kind of model besides, from its files alone."""
        raise NotImplementedError

    @property
    def length(self) -> int:
        """How many tokens are read at a time, all texts and special tokens included."""
        raise NotImplementedError

    def open(self) -> Head:
        """Load the model."""
        raise NotImplementedError

    def texts(self, item: Item) -> Sequence[str]:
        """Return the texts of an item: the item itself, where it consists of them."""
        return item

    def compute(self, items: Sequence[Item]) -> None:
        """Compute items together, and keep their results."""
        raise NotImplementedError

    @cached_property
    def _store(self) -> ResultStore[Result]:
        return ResultStore(self.budget)

    @cached_property
    def head(self) -> Head:
        """The opened model."""
        return self.open()

    def prepare(self, items: Iterable[Item]) -> None:
        """Compute what is not yet known, in length-sorted batches.

        Parameters
        ----------
        items : iterable
            In the order in which the model reads their texts.
        """
        unknown = [
            item for item in dict.fromkeys(items) if self._store.get(self._key(item)) is None
        ]
        for block in blocks(unknown, self._characters, self.block, self.block_characters):
            keys = list(map(self._key, block))
            if not self._store.repeat(run := run_key(keys)):
                self.compute(block)
                self._store.note(run, keys)

    def results(self, items: Sequence[Item]) -> list[Result]:
        """Return the result of each item, computed where it is not known."""
        self.prepare(items)
        # Where more is asked for than is kept, some were dropped since they were prepared.
        return [
            self._store.get_or(self._key(item), partial(self.compute, [item])) for item in items
        ]

    def keep(self, item: Item, result: Result, size: int = 1) -> None:
        """Keep the result of an item."""
        self._store.put(self._key(item), result, size)

    def forget(self) -> None:
        """Drop all results, so that the next item is computed by itself."""
        self._store.clear()

    def _key(self, item: Item) -> bytes:
        return text_key(*self.texts(item))

    def _characters(self, item: Item) -> int:
        return sum(map(len, self.texts(item)))
