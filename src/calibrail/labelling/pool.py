"""Which answers are drawn next, of however many there are?"""

import heapq
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np

from calibrail.data.copies import CopyFinder
from calibrail.data.example import Example
from calibrail.errors import DataError, file_errors
from calibrail.labelling.order import Order
from calibrail.labelling.store import Log, encoded

#: Groups, or answers without one, that one pass over the traces finds.
POOL: Final = 4096

_LOST: Final = (
    "; it holds the texts of the answers set aside: restore it from a copy. The labels are there "
    "all the same, and `calibrail certify --labels` reads them without it"
)


@dataclass(frozen=True, slots=True)
class Waiting:
    """An answer that has its place in the order of drawing.

    Attributes
    ----------
    unit : str
        Place of what is drawn, see ``Order.unit``.
    digest : str
        Of its texts.
    example : Example
        The answer itself.
    copy_of : str or None
        Id of an earlier one of which it is a near copy: it is passed over.
    fills : int or None
        Place, from 0, of an answer whose texts were not known when it was set aside, and are these.
    lengths : mapping of str to int
        Where no text is known: how long question and response are, and how many chunks there are.
    """

    unit: str
    digest: str
    example: Example
    copy_of: str | None = None
    fills: int | None = None
    lengths: Mapping[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the line of ``pool.jsonl``."""
        example = self.example
        content: dict[str, Any] = {"unit": self.unit, "id": example.id, "digest": self.digest}
        if self.copy_of is not None:
            return content | {"copy_of": self.copy_of}
        if self.fills is not None:
            content["fills"] = self.fills
        content |= {"group": example.group, "question": example.question}
        content |= {"contexts": list(example.contexts), "response": example.response}
        if example.samples:
            content["samples"] = list(example.samples)
        if example.columns:
            content["columns"] = dict(example.columns)
        if self.lengths:
            content["lengths"] = dict(self.lengths)
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "Waiting":
        """Rebuild it from its line."""
        example = Example(
            content.get("question", ""),
            tuple(content.get("contexts", ())),
            content.get("response", ""),
            group=content.get("group"),
            id=content["id"],
            samples=tuple(content.get("samples", ())),
            columns=content.get("columns", {}),
        )
        more = {name: content[name] for name in ("copy_of", "fills", "lengths") if name in content}
        return cls(content["unit"], content["digest"], example, **more)


def first_units(
    examples: Iterable[Example],
    order: Order,
    *,
    whole_groups: bool,
    after: str = "",
    most: int | None = None,
) -> list[Waiting]:
    """Return what is drawn first, in the order of drawing, after one streaming pass.

    Parameters
    ----------
    examples : iterable of Example
        Read once; only what may be among the first is kept.
    order : Order
        Of drawing.
    whole_groups : bool
        Whether all answers of a group are drawn; otherwise one, which the lot decides.
    after : str
        Place behind which the pass begins.
    most : int, optional
        Groups, or answers without one, to find; ``POOL`` unless said otherwise.
    """
    most = POOL if most is None else most
    units: dict[str, dict[str, Waiting]] = {}
    latest: list[tuple[int, str]] = []
    last = ""
    for example in examples:
        digest = example.digest() if example.group is None else None
        unit = order.unit(example, digest)
        if unit <= after or (last and unit > last):
            continue
        waiting = Waiting(unit, digest or example.digest(), example)
        if unit not in units:
            units[unit] = {}
            heapq.heappush(latest, (-int(unit, 16), unit))
            if len(latest) > most:
                del units[heapq.heappop(latest)[1]]
                last = latest[0][1]
        answers = units.get(unit)
        if answers is None:
            continue
        # Copies word for word are one answer, called by the least of its ids.
        same = answers.get(digest := waiting.digest)
        if same is None or example.id < same.example.id:
            answers[digest] = waiting
        if not whole_groups and len(answers) > 1:
            del answers[max(answers, key=order.within)]
    return [
        units[unit][digest]
        for unit in sorted(units)
        for digest in sorted(units[unit], key=order.within)
    ]


def without_copies(waiting: list[Waiting], earlier: Iterable[Example]) -> list[Waiting]:
    """Return the same with near copies of what is drawn before marked, whole units each.

    Parameters
    ----------
    waiting : list of Waiting
        In the order of drawing.
    earlier : iterable of Example
        What was drawn before these.
    """
    finder, ids = CopyFinder(), []
    for example in earlier:
        finder.add(example)
        ids.append(example.id)
    n_before = len(ids)
    for item in waiting:
        finder.add(item.example)
        ids.append(item.example.id)
    groups = finder.finish().groups
    first: dict[int, int] = {}
    unit_of = np.arange(len(ids))
    for place, item in enumerate(waiting, start=n_before):
        if place > n_before and waiting[place - n_before - 1].unit == item.unit:
            unit_of[place] = unit_of[place - 1]
    copied: dict[str, str] = {}
    for place, group in enumerate(groups.tolist()):
        if group < 0:
            continue
        original = first.setdefault(group, place)
        if place >= n_before and unit_of[original] != unit_of[place]:
            copied.setdefault(waiting[place - n_before].unit, ids[original])
    return [replace(item, copy_of=copied.get(item.unit)) for item in waiting]


class Pool:
    """The file of answers that have their place, of which only places are kept in memory.

    Parameters
    ----------
    path : Path
        ``pool.jsonl``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        #: Place behind the last answer.
        self.last = ""
        self._read_to, self._number, self._n_copies, self._n_units = 0, 0, 0, 0
        self._starts: list[int] = []
        self._units: list[str] = []
        self._copies_before: list[int] = []

    def write(self, waiting: Iterable[Waiting]) -> None:
        """Add answers behind those that are there; the file is written whole or not at all."""
        before = self.path.read_bytes() if self.path.exists() else b""
        lines = (encoded(item.to_dict()) for item in waiting)
        Log(self.path).rewrite(chain((before,), lines))

    def refresh(self) -> None:
        """Take in what was written since; only at the end is anything ever added.

        Raises
        ------
        DataError
            The file cannot be read, or a line is damaged.
        """
        with file_errors(f"cannot read {self.path}", _LOST), self.path.open("rb") as stream:
            stream.seek(self._read_to)
            for raw in stream:
                self._number += 1
                item = self._parse(raw, self._number)
                if item.fills is not None:
                    self._fill(item, item.fills)
                    self._read_to += len(raw)
                    continue
                self._n_units += item.unit != self.last
                self.last = item.unit
                if item.copy_of is not None:
                    self._n_copies += 1
                else:
                    self._starts.append(self._read_to)
                    self._units.append(item.unit)
                    self._copies_before.append(self._n_copies)
                self._read_to += len(raw)

    def _fill(self, item: Waiting, place: int) -> None:
        """Take in the texts of an answer that was set aside without."""
        if not 0 <= place < len(self._starts) or self._units[place] != item.unit:
            raise DataError(
                f"{self.path}, line {self._number}, holds texts for an answer that does not stand "
                "where it says; restore it from a copy"
            )
        self._starts[place] = self._read_to

    def __len__(self) -> int:
        """Return how many answers there are to draw, copies left out."""
        return len(self._starts)

    def __getitem__(self, place: int) -> Waiting:
        """Return an answer by its place in the order of drawing, from 0."""
        with file_errors(f"cannot read {self.path}", _LOST), self.path.open("rb") as stream:
            stream.seek(self._starts[place])
            return self._parse(stream.readline())

    def unit_of(self, place: int) -> tuple[int, int]:
        """Return where what is drawn with an answer begins, and behind which place it ends."""
        first, stop = place, place + 1
        while first > 0 and self._units[first - 1] == self._units[place]:
            first -= 1
        while stop < len(self) and self._units[stop] == self._units[place]:
            stop += 1
        return first, stop

    @property
    def may_go_on(self) -> bool:
        """Whether the last pass found as much as it was to find, so that there may be more."""
        return self._n_units > 0 and self._n_units % POOL == 0

    def copies_before(self, place: int) -> int:
        """Return how many near copies were passed over before a place."""
        return self._copies_before[place] if place < len(self) else self._n_copies

    def _parse(self, raw: bytes, number: int | None = None) -> Waiting:
        try:
            return Waiting.from_dict(json.loads(raw))
        except (ValueError, KeyError, TypeError) as error:
            where = f", line {number}," if number else ""
            raise DataError(
                f"{self.path}{where} is damaged ({error}); restore it from a copy: without it the "
                "next answer is unknown. What is labelled is in the other files"
            ) from error
