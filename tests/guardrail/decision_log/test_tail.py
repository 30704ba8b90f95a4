from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from calibrail.errors import DataError, InputError
from calibrail.guardrail.decision_log import DecisionLog
from calibrail.guardrail.decision_log import writer as line_format
from calibrail.guardrail.decision_log.reader import Cursor, LogCounts, Logged, log_sources, read_on
from calibrail.guardrail.decision_log.writer import files_of, json_fields, seal_line, to_utf8
from tests.guardrail.decision_log.logs import decision, entry, files


def written(folder: Path, n: int, *, start: int = 0, max_bytes: int = 1 << 26) -> None:
    with DecisionLog(folder, max_bytes=max_bytes) as chain:
        for number in range(start, start + n):
            chain.write([entry(str(number))])


class Reading:
    """A log that is read on, its cursor and tally through JSON each time."""

    def __init__(self) -> None:
        self.cursor, self.tally = Cursor(), LogCounts()
        self.lines: list[Logged] = []

    def on(self, *sources: Path | str) -> list[str]:
        self.cursor = Cursor.from_dict(json.loads(json.dumps(self.cursor.to_dict())))
        self.tally = LogCounts.from_dict(json.loads(json.dumps(self.tally.to_dict())))
        before = len(self.lines)
        for block in read_on(log_sources(sources), self.cursor, self.tally):
            self.lines += block
        return [item.content["id"] for item in self.lines[before:]]

    @property
    def ids(self) -> list[str]:
        return [item.content["id"] for item in self.lines]


def codes(tally: LogCounts) -> list[tuple[str, int | None]]:
    return [(item.code, item.line) for item in tally.findings]


@pytest.mark.parametrize("max_bytes", [1 << 26, 1500])
def test_a_chain_cut_at_any_byte_is_read_on_as_if_it_had_not_been(
    tmp_path: Path, max_bytes: int
) -> None:
    written(tmp_path / "log", 6, max_bytes=max_bytes)
    paths = files(tmp_path / "log")
    once = Reading()
    assert once.on(tmp_path / "log") == list("012345")
    assert once.tally.whole and once.tally.skipped == {"no_decision": len(paths) + 1}
    assert once.on(tmp_path / "log") == []
    size = sum(path.stat().st_size for path in paths)
    for cut in range(1, size, 37):
        part, left = tmp_path / "part", cut
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        reading = Reading()
        for path in paths:
            raw = path.read_bytes()
            if left > 0:
                (part / path.name).write_bytes(raw[:left])
            left -= len(raw)
        reading.on(part)
        shutil.copytree(tmp_path / "log", part, dirs_exist_ok=True)
        reading.on(part)
        assert reading.ids == list("012345"), cut
        assert reading.cursor == once.cursor and reading.tally == once.tally, cut


def test_a_folder_that_is_named_twice_holds_copies(tmp_path: Path) -> None:
    written(tmp_path, 3)
    (path,) = files(tmp_path)
    reading = Reading()
    assert reading.on(tmp_path, tmp_path) == list("012")
    assert reading.tally.skipped["duplicate"] == len(path.read_bytes().splitlines())


def test_a_file_that_is_moved_to_the_archive_while_both_are_listed_is_read_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, archive = tmp_path / "log", tmp_path / "archive"
    written(log, 8, max_bytes=1500)
    archive.mkdir()
    first = files(log)[0]
    shutil.copy(first, archive)

    def listed(folder: Path) -> Iterator[tuple[str, int, Path]]:
        yield from files_of(folder)
        if folder == archive:
            first.unlink(missing_ok=True)

    monkeypatch.setattr(line_format, "files_of", listed)
    reading = Reading()
    assert reading.on(log, archive) == list("01234567")
    assert reading.tally.found == {} and not first.exists()


def test_chains_are_merged_by_time(tmp_path: Path) -> None:
    chains = [DecisionLog(tmp_path) for _ in range(3)]
    for number in range(9):
        chains[number % 3].write([entry(str(number))])
    reading = Reading()
    assert reading.on(tmp_path) == list("012345678")
    chains[1].write([entry("9")])
    assert reading.on(tmp_path) == ["9"]
    assert len(reading.cursor.chains) == 3 and reading.tally.found == {}


def test_what_is_rotated_removed_or_given_twice_is_read_once(tmp_path: Path) -> None:
    log, archive = tmp_path / "log", tmp_path / "archive"
    written(log, 8, max_bytes=1500)
    first, second, *_ = files(log)
    archive.mkdir()
    reading = Reading()
    shutil.copy(first, archive)
    n = len(first.read_bytes().splitlines())
    assert reading.on(archive, log) == list("01234567")
    assert reading.tally.skipped["duplicate"] == n
    first.unlink()
    second.rename(archive / second.name)
    assert reading.on(log, archive) == [] and reading.on(log) == []
    assert reading.tally.skipped["duplicate"] == n and reading.tally.whole
    # A reader that begins when the oldest file is gone cannot know what stood there.
    late = Reading()
    assert "0" not in late.on(log) and late.tally.whole
    assert late.on(archive, log) == [] and set(late.tally.found) == {"late"}
    assert late.on(archive, log) == [] and late.tally.found == {"late": 2}


@pytest.mark.parametrize(
    ("edit", "found", "ids", "skipped"),
    [
        (
            lambda lines: [*lines[:2], lines[2].replace(b"0.1", b"0.3"), *lines[3:]],
            [("changed", 3)],
            "0234",
            {"changed": 1},
        ),
        (lambda lines: [*lines[:2], *lines[3:]], [("gap", 3)], "0234", {}),
        (lambda lines: [*lines[:3], *lines[2:]], [], "01234", {"duplicate": 1}),
        (lambda lines: [*lines[:2], lines[2][:-5]], [], "0", {}),
        (
            lambda lines: [*lines[:2], b'{"time": "?"}\n', b"?\n", *lines[2:]],
            [("changed", 3), ("changed", 4)],
            "01234",
            {"changed": 2},
        ),
        (
            lambda lines: [*lines[:2], b"?\n", *lines[3:4], b"?\n", *lines[5:]],
            [("changed", 3), ("changed", 5)],
            "024",
            {"changed": 2},
        ),
        (
            lambda lines: [*lines[:2], b"?\n", *lines[1:2], *lines[5:]],
            [("changed", 3), ("gap", 5)],
            "04",
            {"changed": 1, "duplicate": 1},
        ),
        (
            lambda lines: [*lines[:2], b"?\n", lines[2], b"?\n", *lines[1:]],
            [("changed", 3), ("changed", 5)],
            "01234",
            {"changed": 2, "duplicate": 2},
        ),
        (
            lambda lines: [
                *lines[:2],
                seal_line(
                    to_utf8(json_fields({"id": "x", **DECIDED})),
                    2,
                    "0" * 64,
                    "2026-01-01T00:00:00Z",
                )[0],
                *lines[3:],
            ],
            [("previous", 3), ("clock_back", 3), ("previous", 4)],
            "0x234",
            {},
        ),
    ],
    ids=[
        *("changed", "gap", "twice", "torn"),
        *("put in", "replaced", "replaced, and some gone", "put in twice", "rewritten"),
    ],
)
def test_what_was_done_to_a_line_is_named(
    tmp_path: Path,
    edit: Callable[[list[bytes]], list[bytes]],
    found: list[tuple[str, int | None]],
    ids: str,
    skipped: dict[str, int],
) -> None:
    written(tmp_path, 5)
    (path,) = files(tmp_path)
    path.write_bytes(b"".join(edit(path.read_bytes().splitlines(keepends=True))))
    reading = Reading()
    assert "".join(reading.on(tmp_path)) == ids
    assert codes(reading.tally) == found
    del reading.tally.skipped["no_decision"]
    assert reading.tally.skipped == skipped
    assert reading.on(tmp_path) == [] and codes(reading.tally) == found


DECIDED = {key: value for key, value in decision().to_dict().items() if key != "id"}


def test_what_was_put_into_a_shipped_log_hides_no_line(tmp_path: Path) -> None:
    chains = [DecisionLog(tmp_path / "log") for _ in range(2)]
    for number in range(6):
        chains[number % 2].write([entry(str(number))])
    both = [path.read_bytes().splitlines(keepends=True) for path in files(tmp_path / "log")]
    lines = [line for pair in zip(*both, strict=True) for line in pair]
    shipped, reading = tmp_path / "shipped.jsonl", Reading()
    shipped.write_bytes(b"".join([*lines[:4], b'{"time": "?"}\n', *lines[4:]]))
    ids = [json.loads(line).get("id") for line in lines]
    assert reading.on(shipped) == ids[2:]
    assert reading.tally.found == {"changed": 1} and len(reading.cursor.chains) == 2
    # However the file is cut, what is read on is the same.
    for n in range(1, len(lines)):
        shipped.write_bytes(b"".join(lines[:n]) + b'{"time": "?"}\n')
        again = Reading()
        again.on(shipped)
        shipped.write_bytes(shipped.read_bytes() + b"".join(lines[n:]))
        again.on(shipped)
        assert (again.ids, again.tally.found) == (ids[2:], {"changed": 1}), n
    # One of a chain that lost a line, while the other one goes on.
    shipped.write_bytes(b"".join([*lines[:4], lines[4].replace(b"0.1", b"0.3"), *lines[5:]]))
    again = Reading()
    assert again.on(shipped) == [*ids[2:4], *ids[5:]] and again.tally.found == {"changed": 1}


def test_clocks_are_named(tmp_path: Path) -> None:
    times = ["2026-01-01T00:00:05Z", "2026-01-01T00:00:01Z", "2099-01-01T00:00:00Z", "noon"]
    raw, previous = b"", "0" * 64
    for seq, time in enumerate(times):
        line, previous = seal_line(
            to_utf8(json_fields({"id": str(seq), **DECIDED})), seq, previous, time
        )
        raw += line
    path = tmp_path / "20260101T000000-1-aaaaaaaa.0001.jsonl"
    path.write_bytes(raw)
    reading = Reading()
    assert reading.on(path) == ["0", "1", "2"]
    assert codes(reading.tally) == [("opening", 1), ("clock_back", 2), ("future", 3), ("time", 4)]
    assert reading.lines[0].moment - reading.lines[1].moment == 4.0
    assert reading.lines[2].moment != reading.lines[2].moment
    assert reading.tally.skipped == {"time": 1}


def test_a_file_that_became_shorter_is_named_once(tmp_path: Path) -> None:
    written(tmp_path, 3)
    (path,) = files(tmp_path)
    reading = Reading()
    reading.on(tmp_path)
    path.write_bytes(path.read_bytes()[:300])
    assert reading.on(tmp_path) == reading.on(tmp_path) == []
    assert reading.tally.found == {"cut": 1}


def test_lines_that_were_shipped_belong_to_their_chains(tmp_path: Path) -> None:
    chains = [DecisionLog(tmp_path / "log") for _ in range(2)]
    for number in range(6):
        chains[number % 2].write([entry(str(number))])
    both = [path.read_bytes().splitlines(keepends=True) for path in files(tmp_path / "log")]
    shipped = tmp_path / "shipped.jsonl"
    lines = [line for pair in zip(*both, strict=True) for line in pair]
    shipped.write_bytes(b"".join(lines[:5]))
    reading = Reading()
    ids = [json.loads(line).get("id") for line in lines]
    assert reading.on(shipped) == ids[2:5]
    shipped.rename(tmp_path / "moved.jsonl")
    (tmp_path / "moved.jsonl").write_bytes(b"".join(lines))
    assert reading.on(tmp_path / "moved.jsonl") == ids[5:]
    assert reading.on(tmp_path / "log") == [] and reading.tally.whole
    assert {item.chain for item in reading.lines} == {chain.chain for chain in chains}


def test_decisions_of_check_have_no_chain_and_are_known_by_their_content(tmp_path: Path) -> None:
    path, copy = tmp_path / "decisions.jsonl", tmp_path / "copy.jsonl"
    path.write_text(decision("a").line() + "\n" + decision("b").line() + "\n[1]\n")
    shutil.copy(path, copy)
    reading = Reading()
    assert reading.on(path, copy) == ["a", "b"]
    assert (reading.lines[0].time, reading.lines[0].chain) == (None, "file-1")
    assert reading.tally.skipped == {"malformed": 1, "duplicate": 3}
    assert codes(reading.tally) == [("no_chain", None), ("malformed", 3)]
    with path.open("a") as file:
        file.write(decision("c").line() + "\n" + decision("d").line()[:20])
    assert reading.on(path) == ["c"]
    # Another file of that name holds other decisions.
    path.write_text(decision("z").line() + "\n")
    assert reading.on(path) == ["z"]


def test_standard_input_is_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, 3)
    raw = files(tmp_path)[0].read_bytes()
    reading = Reading()
    for given, ids in ((raw[:-500], "01"), (raw, "2"), (raw, "")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        assert "".join(reading.on("-")) == ids
    assert reading.tally.skipped["duplicate"] > 3 and reading.tally.found == {"torn": 1}


def test_what_is_no_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for given, why in (
        (tmp_path / "none", "No such file"),
        (tmp_path / "empty", "there is no decision log in"),
    ):
        with pytest.raises(DataError, match=why):
            log_sources(given)
    assert log_sources(tmp_path / "empty", growing=True) == (tmp_path / "empty",)
    for wrong in ([], 3, ["-", "-"], [3]):
        with pytest.raises(InputError, match=r"logs must be|standard input"):
            log_sources(wrong)


def test_old_chains_are_forgotten_and_never_read_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibrail.guardrail.decision_log.reader._REMEMBERED", 2)
    for number in range(4):
        written(tmp_path, 1, start=number)
    reading = Reading()
    assert sorted(reading.on(tmp_path)) == list("0123")
    assert len(reading.cursor.chains) == 2
    assert reading.on(tmp_path) == []
    gone = {item.chain for item in reading.lines} - set(reading.cursor.chains)
    assert len(gone) == 2 and all(reading.cursor.has_read(chain, 1) for chain in gone)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"chains": {"a": [1] * 20}, "streams": {}, "forgotten": ""},
        {"chains": {}, "streams": {}},
    ],
)
def test_what_is_no_cursor_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError, match="how far the log was read"):
        Cursor.from_dict(wrong)
