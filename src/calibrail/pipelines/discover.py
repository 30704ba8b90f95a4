"""Labelled answers, scores and tools' results among the files of a folder."""

import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Final

from calibrail.data import suggested_options
from calibrail.data.aliases import PRESETS, aliases_of
from calibrail.data.columns import is_of_program, likely_labels
from calibrail.data.example import SourceRow
from calibrail.data.files import SUFFIXES, suffix_of
from calibrail.data.labels import is_of_people, is_plain_name, spells_label
from calibrail.data.reading import read
from calibrail.data.sources import open_path, peek
from calibrail.data.suggested_options import direction_of, suggest_labels, words_of
from calibrail.data.traces._spans import ANNOTATION, TOOLS
from calibrail.data.values import nested_names, value_at
from calibrail.errors import CalibrailError
from calibrail.options import ReadOptions
from calibrail.options.fields import worded
from calibrail.pipelines.fixed_threshold import choose_score, held_in
from calibrail.report.messages import say

#: Folders below the first, entries looked at, and files opened, at most.
DEPTH, ENTRIES, OPENED = 5, 5_000, 200
#: Files that are shown.
SHOWN: Final = 9
#: Bytes from which on a file is named by its size, and not opened.
LARGE: Final = 50_000_000

#: Where DeepEval leaves the results of a test run.
_SHOWN: Final = frozenset((".deepeval", ".latest_test_run.json"))
#: Characters of the two words of a verdict.
_SHORT: Final = 60
#: Folders that hold programs, and no results.
_ASIDE: Final = frozenset(("node_modules", "site-packages", "dist", "build", "venv", "env"))


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that may be read.

    Attributes
    ----------
    path : Path
        Relative to the folder.
    tool : str
        Whose results it holds; empty where that is not known.
    labels, scores : tuple of str
        Columns whose names speak of labels, and of scores.
    paired : bool
        Whether each row holds a right answer and a wrong one.
    size : int
        Bytes.
    encoding : str
        In which it can be read where it is not UTF-8; empty where it is.
    """

    path: Path
    tool: str
    labels: tuple[str, ...]
    scores: tuple[str, ...]
    paired: bool
    size: int
    encoding: str = ""

    @property
    def is_testable(self) -> bool:
        """Whether there are labels and scores, so that a threshold can be tested at once."""
        return bool(self.labels and self.scores)

    @property
    def _rank(self) -> tuple[bool, bool, bool, int, str]:
        depth, labelled = len(self.path.parts), self.labels or self.paired
        return not self.is_testable, not labelled, not self.tool, depth, str(self.path)


def discover(folder: Path) -> list[FoundFile]:
    """Return the files that hold something like labels, scores or a tool's results, the best first.

    What can be opened is opened for the names of its columns alone. Hidden folders, those of
    programs, links, and what cannot be read are passed over; a large file is told by its name only.
    """
    candidates, n_opened = list[FoundFile](), 0
    for path in _files(folder):
        size, near = path.stat().st_size, path.relative_to(folder)
        if size >= LARGE:
            candidates.append(FoundFile(near, "", (), (), False, size))
        elif size and n_opened < OPENED:
            n_opened += 1
            # What Excel saves as CSV is in the encoding of its country.
            for encoding in ("", "cp1252"):
                with suppress(CalibrailError, OSError, ValueError):
                    if (looked := _look(path, encoding)) is not None:
                        candidates.append(FoundFile(near, *looked, size, encoding))
                    break
    return sorted(candidates, key=lambda item: item._rank)


def shown(candidates: Sequence[FoundFile]) -> Iterator[str]:
    """Yield the lines that show what was found, and what to do next."""
    if not candidates:
        yield from map(say, ("command.nothing_here", "command.begin_with", "command.all_commands"))
        return
    yield say("command.here")
    width = max(len(str(item.path)) for item in candidates[:SHOWN])
    for number, item in enumerate(candidates[:SHOWN], 1):
        about = {**asdict(item), "large": item.size >= LARGE, "mb": item.size // 1_000_000}
        yield f"  {number}  {item.path!s:{width}}  {say('command.found_file', **about)}"
    if len(candidates) > SHOWN:
        yield say("command.found_more", n=len(candidates) - SHOWN)
    words, test, choices = words_of_file(candidates[0])
    yield say("command.next_here", path=shlex.join(words), test=shlex.join(test))
    yield from (f"  {choice}" for choice in choices)


def words_of_file(item: FoundFile) -> tuple[list[str], list[str], list[str]]:
    """Return a file as a command takes it, as `test` does, and what of that is to be chosen.

    The second has all options that are needed; it is empty where nothing can be tested.
    """
    words, given = [str(item.path)], {"encoding": item.encoding} if item.encoding else {}
    words += worded(ReadOptions, "options", given) if given else []
    if not item.is_testable:
        return words, [], []
    test, choices, how = list(words), list[str](), ReadOptions(options=given)
    with suppress(CalibrailError, OSError):
        found = read(item.path, how, require=(), labelled=False, allow_none=True)
        named = () if "label" in found.columns.present else item.labels
        columns = found.columns.label_columns if not named else named[:1]
        labels: dict[str, Any] = dict(suggest_labels(found.head, columns).options)
        if named:
            labels.setdefault("label_column", named[0])
        else:
            labels.pop("label_column", None)
            if disputed := _disputed(item.path, how):
                labels["label_column"] = next(filter(is_of_people, disputed), disputed[0])
        test += [word for pair in labels.items() for word in worded(ReadOptions, *pair)]
        choices += [say("command.choose_annotators", names=named)] if len(named) > 1 else []
        if "positive" in labels or "label_map" in labels:
            choices.append(say("command.choose_label", option=shlex.join(test[-2:])))
        how = replace(how, **{k: value for k, value in labels.items() if k != "label_map"})
        found = read(item.path, how, require=(), labelled=False, allow_none=True)
        choice, judge = choose_score(found, 0.0), choose_score(found)
        # How sure a judge is of what it says tells not which of both it says.
        sure = choice.higher is None and all("confidence" in words_of(it) for it in choice.names)
        choice = judge if judge.verdict and sure else choice
        name, strange = choice.names[0], choice.strange
        if strange:
            spec = f"column:column={json.dumps(name)},higher=hallucinated,positive={strange[0]}"
            test += ["--score", spec]
            choices.append(say("command.choose_words", words=strange))
        elif len(choice.names) > 1 or choice.higher is None:
            higher = choice.higher or direction_of(name)
            test += ["--score-column", name, *([] if higher else ["--higher", "YOURS"])]
            several = len(choice.names) > 1
            choices += [say("command.choose_score", names=choice.names)] if several else []
            choices += [] if higher else [say("command.choose_higher", name=name)]
        test += [] if choice.verdict or strange else ["--threshold", "YOURS"]
        return words, test, choices
    return words, [], []


def _disputed(path: Path, how: ReadOptions) -> list[str]:
    """Return the column of labels, and those that contradict it in the first rows, if any do."""
    found = read(path, how, require=(), allow_none=True)
    labels, names = found.columns.labels, list[str]()
    for row, rival in product(found.head, found.columns.rivals):
        label, name = labels.of_one(value_at(row, labels.column)), rival.reader.column
        if label is not None and rival.contradicts(label, value_at(row, name)):
            names = [labels.column, name]
    return names


def _files(folder: Path) -> Iterator[Path]:
    """Yield the tables of a folder and of those in it, nearest ones first."""
    n_seen, level = 0, [folder]
    for _ in range(DEPTH + 1):
        below = list[Path]()
        for place in level:
            try:
                entries = sorted(os.scandir(place), key=lambda entry: entry.name)
            except OSError:
                continue
            for entry in entries:
                n_seen += 1
                if n_seen > ENTRIES:
                    return
                hidden = entry.name.startswith(".") and entry.name not in _SHOWN
                if hidden or entry.is_symlink():
                    continue
                if entry.is_dir():
                    # A run of calibrail's holds what it made of data that lie elsewhere.
                    aside = entry.name.lower() in _ASIDE or Path(entry.path, "looks.json").exists()
                    below += [] if aside else [Path(entry.path)]
                elif entry.is_file() and suffix_of(Path(entry.name)) in SUFFIXES:
                    yield Path(entry.path)
        level = below


def _look(path: Path, encoding: str) -> tuple[str, tuple[str, ...], tuple[str, ...], bool] | None:
    """Return whose results a file holds, its columns of labels and of scores, and whether it pairs.

    None without any.
    """
    opened = open_path(path, ReadOptions(options={"encoding": encoding} if encoding else {}))
    head, names = peek(opened.items)
    rows = [item.values for item in head if isinstance(item, SourceRow)]
    fields = list(names)
    # Guardrails, and what they decided, are no labelled answers.
    if {"schema", "digest"} <= {*fields} or {"outcome", "guardrail"} <= {*fields}:
        return None
    pair = suggested_options.right_and_wrong(suggested_options.looks(rows))
    labels = aliases_of("label", fields) + likely_labels(rows)
    by_name = (spells_label, is_plain_name, is_of_people)
    labels += [name for name in fields if any(says(name) for says in by_name)]
    labels += [name for name in fields if name.startswith(ANNOTATION) or "label" in words_of(name)]
    labels = [name for name in dict.fromkeys(labels) if not (name in pair or is_of_program(name))]
    scores = [
        name
        for name in dict.fromkeys(name for row in rows for name in nested_names(row))
        if name not in labels
        and (direction_of(name) or suggested_options.speaks_of_score(name))
        and _holds_numbers(rows, name)
    ]
    tool = opened.export.tool if opened.export else opened.format if opened.format in TOOLS else ""
    # Of calibrail's own names everybody has some.
    named = (k for k, own in PRESETS.items() if k != "calibrail" and {*own} <= {*fields})
    tool = tool or next(named, "")
    of_names = tool, tuple(labels), tuple(scores), bool(pair) and not labels
    return of_names if any(of_names) else None


def _holds_numbers(rows: list[Mapping[str, object]], name: str) -> bool:
    """Return whether a column holds numbers or verdicts, and nothing else."""
    known, strange = held_in(rows, name)
    return bool(known) and (None not in known or 0 < len("".join(strange)) <= _SHORT)
