"""Do two versions of calibrail give the same numbers? Compare two folders of results.

Run the same commands with both versions, each into a folder of its own, then::

    python benchmarks/same_results.py before/ after/

Every file of the first folder is compared with the file of the same name in the second: JSON, JSON
lines, CSV and Parquet field by field, anything else that is text by the numbers that occur in it.
Floats may differ by a relative 1e-12. What the second folder has in addition is no difference; nor
are measured times and versions. One line is printed for each field that changed, with the files it
changed in; the exit status is 1 if there is one.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet

RELATIVE_TOLERANCE = 1e-12
#: Fields whose values differ between two runs of one version, or name the version.
CHANGING_FIELDS = frozenset(
    {
        "seconds",
        "seconds_per_1000",
        "seconds_opening",
        "version",
        "versions",
        "calibrail_version",
        "created",
    }
)
#: Pictures and pages hold coordinates; what they show stands in the JSON beside them.
IGNORED_FILES = ("*.html", "*.svg", "*.png", "*.pdf", "*.sqlite", "*.sqlite-*")
NUMBER = re.compile(r"(?<![\w.])[-\u2212]?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """One place where two results differ; ``field`` has ``*`` for positions in lists."""

    field: str
    kind: str
    before: str = ""
    after: str = ""


def differences(before: Any, after: Any, field: str = "") -> Iterator[Difference]:
    """Yield where two trees of lists, dictionaries and plain values differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            name = f"{field}.{key}" if field else str(key)
            if key in CHANGING_FIELDS:
                continue
            if key not in after:
                yield Difference(name, "missing", _brief(value))
            else:
                yield from differences(value, after[key], name)
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield Difference(field, "length", str(len(before)), str(len(after)))
        for one, other in zip(before, after, strict=False):
            yield from differences(one, other, f"{field}[*]")
    elif not _equal(before, after):
        numbers = _is_number(before) and _is_number(after)
        kind = "number" if numbers else "text" if isinstance(before, str) else "value"
        yield Difference(field, kind, _brief(before), _brief(after))


def numbers_in(text: str) -> Counter[str]:
    """Count the numbers of a text as they are written.

    >>> sorted(numbers_in("alpha=0.10 flags 1,204 of 2,000").items())
    [('0.10', 1), ('1,204', 1), ('2,000', 1)]
    """
    return Counter(number.rstrip(",") for number in NUMBER.findall(text))


def compare_files(before: Path, after: Path) -> list[Difference]:
    """Return where two files differ."""
    suffix = before.suffix
    readers = {".json": _json, ".jsonl": _json_lines, ".parquet": _parquet, ".csv": _csv}
    if suffix in readers:
        return list(differences(readers[suffix](before), readers[suffix](after)))
    try:
        old_text, new_text = before.read_text("utf-8"), after.read_text("utf-8")
    except UnicodeDecodeError:
        same = before.read_bytes() == after.read_bytes()
        return [] if same else [Difference("", "other bytes")]
    try:  # A command's output with --json.
        return list(differences(json.loads(old_text), json.loads(new_text)))
    except ValueError:
        gone = numbers_in(old_text) - numbers_in(new_text)
    shown = ", ".join(sorted(gone))
    return [Difference("", "numbers gone from the text", shown)] if gone else []


def compare_folders(
    before: Path, after: Path, ignored: tuple[str, ...] = ()
) -> dict[tuple[str, Difference], list[str]]:
    """Return the differences by file name and field, each with the files it was seen in."""
    places: defaultdict[tuple[str, str, str], list[tuple[str, Difference]]] = defaultdict(list)
    for path in sorted(path for path in before.rglob("*") if path.is_file()):
        name = path.relative_to(before).as_posix()
        if any(fnmatch.fnmatch(name, pattern) for pattern in (*IGNORED_FILES, *ignored)):
            continue
        other = after / name
        changes = compare_files(path, other) if other.is_file() else [Difference("", "no file")]
        for change in changes:
            places[path.name, change.field, change.kind].append((name, change))
    return {
        (file, seen[0][1]): list(dict.fromkeys(name for name, _ in seen))
        for (file, _, _), seen in sorted(places.items())
    }


def main(arguments: list[str] | None = None) -> int:
    """Print the differences between two folders and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--ignore", action="append", default=[], metavar="PATTERN")
    parser.add_argument("--all-files", action="store_true", help="name every file, not three")
    options = parser.parse_args(arguments)
    if not (options.before.is_dir() and options.after.is_dir()):
        parser.error("both must be folders")
    found = compare_folders(options.before, options.after, tuple(options.ignore))
    for (file, change), names in found.items():
        listed = names if options.all_files else names[:3]
        more = f" and {len(names) - len(listed)} more" if len(listed) < len(names) else ""
        values = f": {change.before} -> {change.after}" if change.after else f": {change.before}"
        where = f"{file} {change.field}".strip()
        print(f"{change.kind:8} {where}{values}  [{', '.join(listed)}{more}]")
    print(f"{len(found)} differences" if found else "the same")
    return 1 if found else 0


def _equal(before: Any, after: Any) -> bool:
    if isinstance(before, bool) or isinstance(after, bool):
        return before is after
    if _is_number(before) and _is_number(after):
        both_nan = math.isnan(before) and math.isnan(after)
        return both_nan or math.isclose(before, after, rel_tol=RELATIVE_TOLERANCE)
    return bool(before == after)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 120 else f"{text[:117]}..."


def _json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def _json_lines(path: Path) -> Any:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _parquet(path: Path) -> Any:
    return pyarrow.parquet.read_table(path).to_pydict()


def _csv(path: Path) -> Any:
    return pyarrow.csv.read_csv(path).to_pydict()


if __name__ == "__main__":
    raise SystemExit(main())
