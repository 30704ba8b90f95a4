"""Which texts does the log have of the answers behind an alarm?"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from calibrail.guardrail.decision_log.folder import files_of, first_line, place_of
from calibrail.guardrail.decision_log.lines import readable
from calibrail.guardrail.decision_log.tail import LogSource

_SEQ: Final = re.compile(rb', "seq": (\d+), "previous": "')
#: Bytes at the end of a line that hold its number and its hashes.
_END: Final = 250

#: Where a line stands: its chain, and its number there.
_Place = tuple[str, int]


class AlarmTexts:
    """Looks up lines of a log by chain and number, each once.

    Parameters
    ----------
    sources : sequence of Path or "-"
        The log: its folders and files.
    """

    def __init__(self, sources: Sequence[LogSource]) -> None:
        self._sources = sources
        self._known: dict[_Place, Mapping[str, Any] | None] = {}

    def fill(self, alarms: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return alarms with the texts of their examples, where the log has them."""
        named = [_place(item) for alarm in alarms for item in alarm["examples"]]
        wanted = set(named) - self._known.keys()
        if wanted:
            self._known |= dict.fromkeys(wanted) | dict(self._found(wanted))
        return [
            {**alarm, "examples": [self._with_text(item) for item in alarm["examples"]]}
            for alarm in alarms
        ]

    def _with_text(self, example: Mapping[str, Any]) -> dict[str, Any]:
        text = self._known.get(_place(example))
        return dict(example) if text is None else {**example, "text": dict(text)}

    def _found(self, wanted: set[_Place]) -> Iterator[tuple[_Place, Mapping[str, Any]]]:
        chains: dict[str, dict[int, Path]] = {}
        for source in self._sources:
            if source == "-":
                continue
            if source.is_dir():
                for chain, number, path in files_of(source):
                    chains.setdefault(chain, {})[number] = path
            elif (place := place_of(source.name)) is not None:
                chains.setdefault(place[0], {})[place[1]] = source
        for chain, files in chains.items():
            numbers = sorted(seq for name, seq in wanted if name == chain)
            for path, seqs in _spread(numbers, [files[number] for number in sorted(files)]):
                # A file that was moved meanwhile has no texts for this page.
                with suppress(OSError):
                    yield from (((chain, seq), text) for seq, text in _texts(path, seqs))


def _place(example: Mapping[str, Any]) -> _Place:
    return example.get("chain", ""), example.get("seq", -1)


def _spread(numbers: Sequence[int], paths: Sequence[Path]) -> Iterator[tuple[Path, list[int]]]:
    """Yield the files of a chain in which lines of these numbers stand."""
    if not numbers:
        return
    firsts = [0 if (line := first_line(path)) is None else line.seq for path in paths]
    for at, path in enumerate(paths):
        end = firsts[at + 1] if at + 1 < len(paths) else None
        within = [seq for seq in numbers if firsts[at] <= seq and (end is None or seq < end)]
        if within:
            yield path, within


def _texts(path: Path, seqs: Sequence[int]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    wanted = set(seqs)
    with path.open("rb") as file:
        for raw in file:
            # Only the end of a line is looked at: most are not wanted.
            match = _SEQ.search(raw, max(0, len(raw) - _END))
            if match is None or int(match[1]) not in wanted:
                continue
            line = readable(raw.removesuffix(b"\n"))
            if line is not None and isinstance(line.content.get("response"), str):
                names = ("question", "contexts", "response")
                yield line.seq, {name: line.content.get(name) for name in names}
            if (wanted := wanted - {int(match[1])}) == set():
                return
