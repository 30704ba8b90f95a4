from __future__ import annotations

import io
import os
import random
import re
import shutil
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from calibrail.errors import DataError, InputError
from calibrail.guardrail.decision_log import DecisionLog
from calibrail.guardrail.decision_log import writer as line_format
from calibrail.guardrail.decision_log.verify import (
    LogCheck,
    export,
    export_log,
    verify,
    verify_log,
)
from calibrail.report.documents.guardrail import sentence
from tests.guardrail.decision_log.logs import entry, files, lines


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """A clock that goes on by a second a line, and jumps where it is told to."""
    state = [datetime(2027, 1, 1, tzinfo=UTC)]

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            state[0] += timedelta(seconds=1)
            return state[0]

    monkeypatch.setattr(line_format, "datetime", Clock)
    monkeypatch.setattr("calibrail.guardrail.decision_log.writer.datetime", Clock)

    def jump(seconds: float) -> None:
        state[0] += timedelta(seconds=seconds)

    return jump


def written(folder: Path, n: int, *, start: int = 0, **options: Any) -> str:
    with DecisionLog(folder, **options) as log:
        for number in range(start, start + n):
            log.write([entry(str(number))])
    return log.chain


def checked(*folders: Path, **options: Any) -> LogCheck:
    return verify(folders, **options)


def codes(check: LogCheck) -> list[tuple[str, int | None]]:
    return [(item.code, item.line) for item in check.problems]


def change(path: Path, edit: Callable[[list[bytes]], list[bytes]]) -> None:
    path.write_bytes(b"".join(edit(path.read_bytes().splitlines(keepends=True))))


def test_a_whole_log_of_several_chains_and_files_is_whole(tmp_path: Path) -> None:
    written(tmp_path, 9, max_bytes=1500)
    chain = written(tmp_path, 5)
    check = checked(tmp_path)
    assert (check.verdict, check.n_decisions, check.n_problems) == ("whole", 14, 0)
    assert check.n_lines == len(lines(tmp_path)) and check.n_files == len(files(tmp_path)) > 3
    (last,) = (item for item in check.chains if item.name == chain)
    assert (last.n_decisions, last.last_seq, last.closed) == (5, 6, True)
    assert last.hash == lines(tmp_path)[-1]["hash"] or last.hash in {
        line["hash"] for line in lines(tmp_path)
    }
    assert LogCheck.from_dict(check.to_dict()) == check


@pytest.mark.parametrize(
    ("edit", "problems"),
    [
        (lambda a: [*a[:2], a[2].replace(b'"pass"', b'"flag"'), *a[3:]], [("changed", 3)]),
        (lambda a: [*a[:2], b"not json\n", *a[3:]], [("changed", 3)]),
        (lambda a: [*a[:2], b"\n", *a[3:]], [("changed", 3)]),
        (lambda a: [*a[:2], a[3], a[2], *a[4:]], [("gap", 3), ("again", 4)]),
        (lambda a: [*a[:3], a[2], *a[3:]], [("again", 4)]),
        (lambda a: [*a[:2], *a[3:]], [("gap", 3)]),
        (lambda a: a[1:], [("gap", 1), ("opening", 1)]),
        (lambda a: [a[0].replace(b"calibrail", b"calibrate"), *a[1:]], [("changed", 1)]),
        (lambda a: [*a[:3], resealed(a[3], 3, b'"pass"', b'"flag"'), *a[4:]], [("previous", 5)]),
        (lambda a: [*a[:3], a[3].rstrip(b"\n") + b" \n", *a[4:]], [("changed", 4)]),
    ],
)
def test_what_was_done_to_a_line_is_named_with_its_place(
    tmp_path: Path, edit: Callable[[list[bytes]], list[bytes]], problems: list[tuple[str, int]]
) -> None:
    written(tmp_path, 5)
    (path,) = files(tmp_path)
    change(path, edit)
    check = checked(tmp_path)
    assert check.verdict == "broken" and codes(check) == problems
    assert {item.file for item in check.problems} == {path.name}


def resealed(raw: bytes, seq: int, old: bytes, new: bytes) -> bytes:
    """Return a changed line with the hash that it then has, as a forger makes it."""
    form = rb'\{"time": "(.*?)", (.*), "seq": \d+, "previous": "(\w+)", "hash": .*\n'
    moment, fields, previous = re.fullmatch(form, raw).groups()  # type: ignore[union-attr]
    return line_format.seal_line(fields.replace(old, new), seq, previous.decode(), moment.decode())[
        0
    ]


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("step", [1, 29], ids=["all", "some"])
def test_every_changed_bit_of_a_log_is_found(tmp_path: Path, closed: bool, step: int) -> None:
    log = DecisionLog(tmp_path)
    log.write([entry("1")])
    if closed:
        log.close()
    (path,) = files(tmp_path)
    raw = bytearray(path.read_bytes())
    last = raw.rindex(b"\n", 0, len(raw) - 1)
    # What stands before the last line of an open log does so in the closed one, too.
    for bit in range(0 if closed else 8 * last, 8 * len(raw), step):
        raw[bit // 8] ^= 1 << bit % 8
        path.write_bytes(raw)
        check = checked(tmp_path)
        assert check.verdict == "broken", bit
        raw[bit // 8] ^= 1 << bit % 8


def test_a_whole_line_with_another_byte_as_its_end_is_broken_and_its_decision_counts(
    tmp_path: Path,
) -> None:
    DecisionLog(tmp_path).write([entry("1"), entry("2")])
    (path,) = files(tmp_path)
    whole = path.read_bytes()
    for end in (b"\x0b", b" ", b"}", b"\x00\x00", b"{torn"):
        path.write_bytes(whole[:-1] + end)
        check = checked(tmp_path)
        assert (check.verdict, check.n_decisions, codes(check)) == ("broken", 2, [("changed", 3)])
    # A tear may leave a line without its end, which is whole all the same.
    path.write_bytes(whole[:-1])
    check = checked(tmp_path)
    assert (check.verdict, check.n_decisions) == ("whole", 2)
    assert [(item.code, item.line) for item in check.notes] == [("torn", 3)]
    path.write_bytes(whole + b"something else")
    assert codes(checked(tmp_path)) == [("changed", 4)]


def test_nothing_stands_after_the_closing_line(tmp_path: Path) -> None:
    written(tmp_path, 1)
    (path,) = files(tmp_path)
    whole = path.read_bytes()
    closing = whole.splitlines()[-1]
    previous = re.findall(rb'"hash": "(\w+)"', closing)[-1].decode()
    fields = line_format.to_utf8(line_format.json_fields({"id": "x", "outcome": "pass"}))
    added, _ = line_format.seal_line(fields, 3, previous, "2027-01-01T00:01:00.000000Z")
    path.write_bytes(whole + added)
    assert codes(checked(tmp_path)) == [("after", 4)]
    path.write_bytes(whole + added[:-9])
    assert codes(checked(tmp_path)) == [("torn", 4)]


def test_a_last_line_that_a_crash_tore_is_said_and_breaks_nothing(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path)
    log.write([entry("1"), entry("2")])
    (path,) = files(tmp_path)
    path.write_bytes(path.read_bytes()[:-9])
    check = checked(tmp_path)
    assert (check.verdict, check.n_decisions) == ("whole", 1)
    assert [(item.code, item.line) for item in check.notes] == [("torn", 3)]
    assert not check.chains[0].closed
    path.write_bytes(b"")
    check = checked(tmp_path)
    assert (check.verdict, codes(check)) == ("broken", [("empty", None)])
    path.write_bytes(b'{"time": "20')
    assert codes(checked(tmp_path)) == [("torn", 1)]


def test_a_torn_line_in_the_middle_of_a_chain_is_broken(tmp_path: Path) -> None:
    written(tmp_path, 9, max_bytes=1500)
    path = files(tmp_path)[0]
    path.write_bytes(path.read_bytes()[:-9])
    assert codes(checked(tmp_path))[0] == ("torn", len(path.read_bytes().splitlines()))


def test_a_cut_off_end_is_found_where_a_later_chain_or_a_person_noted_it(tmp_path: Path) -> None:
    first = written(tmp_path, 5)
    (path,) = files(tmp_path)
    whole, head = path.read_bytes(), checked(tmp_path).chains[0].hash
    assert head is not None
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:3]))
    # Nothing in the folder knows of more: what is said is that the chain was not closed.
    check = checked(tmp_path)
    assert check.verdict == "whole" and not check.chains[0].closed
    assert codes(checked(tmp_path, noted=[head])) == [("noted", None)]
    path.write_bytes(whole)
    assert checked(tmp_path, noted=[head]).verdict == "whole"
    written(tmp_path, 1)
    assert checked(tmp_path).verdict == "whole"
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:3]))
    (problem,) = checked(tmp_path).problems
    assert (problem.code, problem.file) == ("cut", path.name)
    assert (problem.values["last"], problem.values["recorded"]) == (2, 6)
    assert first in problem.file


def test_a_chain_that_closes_records_where_the_others_end(tmp_path: Path) -> None:
    # Workers of a service open at once, and close at once.
    workers = [DecisionLog(tmp_path) for _ in range(3)]
    for number in range(5):
        for log in workers:
            log.write([entry(str(number))])
    for log in workers:
        log.close()
    assert checked(tmp_path).verdict == "whole"
    for log in workers[:-1]:
        (path,) = tmp_path.glob(f"{log.chain}.*")
        whole = path.read_bytes()
        for kept in range(1, 6):
            path.write_bytes(b"".join(whole.splitlines(keepends=True)[:kept]))
            assert {item.code for item in checked(tmp_path).problems} == {"cut"}
        path.unlink()
        assert checked(tmp_path).verdict != "whole"
        path.write_bytes(whole)


def test_a_note_that_was_cut_off_is_told_by_its_line(tmp_path: Path) -> None:
    log, heads = tmp_path / "log", tmp_path / "heads"
    written(log, 2)
    head = str(checked(log).chains[0].hash)
    heads.write_text(f"{head} 2027-01-01T00:00:00Z\n{head[:20]}\n{head} 2027")
    check = verify_log(log, noted=[str(heads)])
    assert check.verdict == "whole" and check.n_notes == 1
    assert [(note.code, note.file, note.line) for note in check.notes] == [
        ("noted_torn", str(heads), 2)
    ]
    assert sentence(check.to_dict()["notes"][0]).endswith("was cut off, or written over")
    heads.write_text(f"{head[:20]}\n{'0' * 64}\n")
    assert codes(verify_log(log, noted=[str(heads)])) == [("noted", None)]
    # A file that says nothing does not say that the log is whole.
    for content in ("", "\n", head[:20]):
        heads.write_text(content)
        with pytest.raises(InputError, match=r"64 hex digits.* which holds none"):
            verify_log(log, noted=[head, str(heads)])


def test_a_chain_that_just_ends_before_another_one_was_opened_is_noted(tmp_path: Path) -> None:
    killed = DecisionLog(tmp_path)
    killed.write([entry("1")])
    until = lines(tmp_path)[-1]["time"]
    assert checked(tmp_path).n_notes == 0
    later = written(tmp_path, 1)
    check = checked(tmp_path)
    (note,) = check.notes
    assert (check.verdict, note.code, note.file) == (
        "whole",
        "unclosed",
        f"{killed.chain}.0001.jsonl",
    )
    assert note.values == {"until": until, "by": later}
    killed.write([entry("2")])
    assert checked(tmp_path).n_notes == 0


def test_a_chain_written_anew_is_found_by_what_a_later_one_recorded(tmp_path: Path) -> None:
    written(tmp_path, 3)
    (path,) = files(tmp_path)
    written(tmp_path, 1)
    previous, lines_anew = "0" * 64, []
    for number, raw in enumerate(path.read_bytes().splitlines()):
        previous_line = previous.encode()
        kept = re.sub(rb'"previous": "\w+"', b'"previous": "%s"' % previous_line, raw)
        line = resealed(kept + b"\n", number, b'"pass"', b'"flag"')
        lines_anew.append(line)
        previous = re.findall(rb'"hash": "(\w+)"', line)[-1].decode()
    path.write_bytes(b"".join(lines_anew))
    assert codes(checked(tmp_path)) == [("rewritten", None)]


def test_a_removed_file_is_found(tmp_path: Path, clock: Callable[[float], None]) -> None:
    written(tmp_path, 9, max_bytes=1500)
    written(tmp_path, 2)
    old, middle = files(tmp_path)[0], files(tmp_path)[1]
    raw = middle.read_bytes()
    middle.unlink()
    (problem,) = checked(tmp_path).problems
    assert (problem.code, problem.values) == ("file", {"number": 2})
    middle.write_bytes(raw)
    # The last file of a chain that another one recorded.
    chain = old.name.partition(".")[0]
    last = [path for path in files(tmp_path) if path.name.startswith(chain)][-1]
    raw = last.read_bytes()
    last.unlink()
    assert codes(checked(tmp_path)) == [("cut", None)]
    last.write_bytes(raw)
    assert checked(tmp_path).verdict == "whole"


def test_a_removed_chain_is_found_and_so_is_one_in_the_middle(tmp_path: Path) -> None:
    chains = [written(tmp_path, 2) for _ in range(4)]
    paths = {path.name.partition(".")[0]: path for path in files(tmp_path)}
    raw = paths[chains[1]].read_bytes()
    paths[chains[1]].unlink()
    (problem,) = checked(tmp_path).problems
    assert (problem.code, problem.file, problem.values["n"]) == ("chain", chains[1], 4)
    paths[chains[1]].write_bytes(raw)
    assert checked(tmp_path).verdict == "whole"


def test_oldest_files_that_were_archived_are_no_breach_and_are_said(tmp_path: Path) -> None:
    live, archive = tmp_path / "live", tmp_path / "archive"
    archive.mkdir()
    first = written(live, 4)
    second = written(live, 9, max_bytes=1500)

    def missing(*names: str) -> list[tuple[str, int]]:
        for path in files(live):
            if path.name.startswith(names):
                path.rename(archive / path.name)
        check = checked(live)
        assert (check.verdict, check.n_problems) == ("beginning missing", 0)
        return [(item.code, item.values["n"]) for item in check.missing]

    assert missing(first) == [("chain", 6)]
    assert missing(f"{second}.0001") == [("first_files", 1)]
    assert checked(archive, live).verdict == "whole"
    path = files(archive)[0]
    (live / path.name).write_bytes(path.read_bytes())
    with pytest.raises(DataError, match="leave it in one of the two"):
        checked(archive, live)


def test_the_beginning_of_one_workers_chain_is_no_archive(tmp_path: Path) -> None:
    first, second = DecisionLog(tmp_path, max_bytes=1500), DecisionLog(tmp_path, max_bytes=1500)
    for number in range(12):
        first.write([entry(f"a{number}")])
        second.write([entry(f"b{number}")])
    first.close(), second.close()
    older, newer = (sorted(tmp_path.glob(f"{log.chain}.*")) for log in (first, second))
    for path in older[:-1]:
        path.unlink()
    (problem,) = checked(tmp_path).problems
    assert (problem.code, problem.file) == ("taken_files", older[-1].name)
    assert problem.values["n"] == len(older) - 1
    assert problem.values["until"] > problem.values["oldest"]
    # Where the other worker's files of that time are gone too, the oldest ones are missing.
    for path in newer[:-1]:
        path.unlink()
    check = checked(tmp_path)
    assert (check.verdict, len(check.missing)) == ("beginning missing", 2)


def test_a_chain_that_was_recorded_open_is_no_archived_one(tmp_path: Path) -> None:
    worker, other = DecisionLog(tmp_path), DecisionLog(tmp_path)
    for number in range(5):
        worker.write([entry(str(number))])
        other.write([entry(str(number))])
    (tmp_path / f"{worker.chain}.0001.jsonl").unlink()
    assert codes(checked(tmp_path)) == [("open_chain", None)]


def test_what_is_no_file_holds_nobody_up(tmp_path: Path) -> None:
    chain = written(tmp_path, 1)
    os.mkfifo(tmp_path / f"{chain}.0002.jsonl")
    written(tmp_path, 1)
    assert checked(tmp_path).verdict == "whole"


def test_a_log_that_cannot_be_read_is_named_and_not_what_is_written(tmp_path: Path) -> None:
    unreadable = tmp_path / "20260101T000000-1-deadbeef.0001.jsonl"
    unreadable.symlink_to("/proc/self/mem")
    for read in (verify_log, lambda folder: export_log(folder, tmp_path / "table.parquet")):
        with pytest.raises(DataError, match=f"^cannot read {unreadable}: Input/output error"):
            read(tmp_path)


def test_a_clock_that_jumps_changes_no_order_and_is_noted(
    tmp_path: Path, clock: Callable[[float], None]
) -> None:
    with DecisionLog(tmp_path) as log:
        for number in range(6):
            log.write([entry(str(number))])
            clock(-3600.0 if number in (1, 3) else 3600.0)
    check = checked(tmp_path)
    (note,) = check.notes
    assert (check.verdict, note.code, note.line, note.values) == ("whole", "clock", 4, {"n": 2})


def test_a_log_is_whole_at_any_moment_while_chains_open_rotate_and_close(tmp_path: Path) -> None:
    written(tmp_path, 1)
    done = threading.Event()

    def work() -> None:
        for number in range(12):
            written(tmp_path, 8, start=number, max_bytes=1500)
        done.set()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    while not done.is_set():
        check = checked(tmp_path)
        assert (check.verdict, check.problems) == ("whole", ())
    for thread in threads:
        thread.join()
    assert checked(tmp_path).n_decisions == 1 + 2 * 12 * 8


def test_a_file_under_another_name_is_no_part_of_another_chain(tmp_path: Path) -> None:
    written(tmp_path, 3)
    (path,) = files(tmp_path)
    twin = tmp_path / re.sub(r"-\w{8}\.", "-0123abcd.", path.name)
    twin.write_bytes(path.read_bytes())
    assert codes(checked(tmp_path)) == [("opening", 1)]
    twin.unlink()
    os.rename(path, tmp_path / path.name.replace("0001", "0002"))
    assert ("opening", 1) in codes(checked(tmp_path))


def test_rows_that_fill_their_groups_leave_no_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibrail.guardrail.decision_log.verify._ROWS", 2)
    written(tmp_path / "log", 4)
    assert export([tmp_path / "log"], tmp_path / "log.parquet") == (4, 0)
    assert pq.ParquetFile(tmp_path / "log.parquet").num_row_groups == 2


def test_the_last_line_of_a_file_that_became_shorter_is_looked_for_to_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Shrunk(io.BytesIO):
        def seek(self, offset: int, whence: int = 0) -> int:
            return super().seek(offset, whence) + (100 if whence else 0)

    written(tmp_path, 1)
    raw = files(tmp_path)[0].read_bytes().splitlines(keepends=True)[-1]
    monkeypatch.setattr(Path, "open", lambda *_: Shrunk(raw))
    line = line_format.last_line(tmp_path)
    assert line is not None and line.kind == line_format.CLOSED


def test_problems_are_listed_up_to_a_number_and_all_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DecisionLog(tmp_path) as log:
        log.write([entry(str(number)) for number in range(200)])
    change(files(tmp_path)[0], lambda a: [line.replace(b"pass", b"flag") for line in a])
    made, kind = [], line_format.LogFinding
    monkeypatch.setattr(line_format, "LogFinding", lambda *of: made.append(of) or kind(*of))
    check = checked(tmp_path)
    assert (check.n_problems, len(check.problems), len(made)) == (200, 50, 50)


def test_damage_by_chance_is_found_wherever_it_falls(tmp_path: Path) -> None:
    source, damaged = tmp_path / "source", tmp_path / "damaged"
    for chain in range(3):
        written(source, 6, start=10 * chain, max_bytes=1500)
    content = {path.name: path.read_bytes().splitlines(keepends=True) for path in files(source)}
    newest = max(checked(source).chains, key=lambda item: str(item.begins)).name
    end = max(name for name in content if name.startswith(newest))
    names, rng = sorted(content), random.Random(0)
    for _ in range(150):
        lines_of = {name: list(rows) for name, rows in content.items()}
        here, there = rng.choice(names), rng.choice(names)
        one, other = lines_of[here], lines_of[there]
        first, second = rng.randrange(len(one)), rng.randrange(len(other))
        match rng.choice(["delete", "swap", "copy", "move", "edit", "file"]):
            case "delete":
                del one[first]
            case "swap":
                one[first], other[second] = other[second], one[first]
            case "copy":
                other.insert(second, one[first])
            case "move":
                other.insert(second, one.pop(first))
            case "edit":
                at = rng.randrange(len(one[first]) - 1)
                one[first] = one[first][:at] + b"#" + one[first][at + 1 :]
            case "file":
                lines_of[here] = []
        shutil.rmtree(damaged, ignore_errors=True)
        damaged.mkdir()
        for name, rows in lines_of.items():
            if rows:
                (damaged / name).write_bytes(b"".join(rows))
        # Nothing in the folder can tell that lines are missing at the end of the newest chain.
        whole = [*content[end][: len(lines_of[end])]] == lines_of[end] and all(
            lines_of[name] == content[name] for name in names if name != end
        )
        assert (checked(damaged).verdict == "whole") == whole
