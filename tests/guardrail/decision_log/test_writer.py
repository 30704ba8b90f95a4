from __future__ import annotations

import errno
import json
import os
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest

from calibrail import Example, calibrate
from calibrail.errors import CalibrailError, InputError, LogError
from calibrail.formatting import Scale
from calibrail.guardrail.decision_log import DecisionLog, Entry
from calibrail.guardrail.decision_log.verify import verify
from tests.guardrail.decision_log.logs import DIGEST, decided, decision, entry, files, lines

TRAFFIC = ("question", "response", "chunks", "language")


def test_a_line_holds_what_was_decided_by_what_and_when(tmp_path: Path) -> None:
    with DecisionLog(tmp_path / "new" / "log") as log:
        log.write([entry("1"), entry("2", kind="select", released=False, response="secret")])
    opened, first, second, closed = lines(tmp_path / "new" / "log")
    (path,) = files(tmp_path / "new" / "log")
    assert re.fullmatch(rf"\d{{8}}T\d{{6}}-{os.getpid()}-[0-9a-f]{{8}}\.0001\.jsonl", path.name)
    assert (opened["kind"], opened["seq"], opened["file"], opened["others"]) == ("opened", 0, 1, {})
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", first["time"])
    said, traffic = decision("1").to_dict(), dict.fromkeys(TRAFFIC)
    assert first == {
        **{"time": first["time"], "guardrail": DIGEST, "name": "faq", **said, "traffic": traffic},
        **{"seq": 1, "previous": opened["hash"], "hash": first["hash"]},
    }
    assert (closed["kind"], closed["seq"]) == ("closed", 3)
    assert list(second)[-6:] == ["kind", "released", "traffic", "seq", "previous", "hash"]
    assert "secret" not in path.read_text()
    # One that says itself what made it says it once.
    with DecisionLog(tmp_path / "own") as log:
        made = entry("1")
        log.write([replace(made, decision=replace(made.decision, guardrail=DIGEST))])
    (path,) = files(tmp_path / "own")
    assert path.read_text().count('"guardrail"') == 1


def test_each_line_is_chained_to_the_one_before_by_a_hash_that_anyone_can_compute(
    tmp_path: Path,
) -> None:
    with DecisionLog(tmp_path) as log:
        log.write([entry(str(number)) for number in range(3)])
    (path,) = files(tmp_path)
    previous = "0" * 64
    for number, raw in enumerate(path.read_bytes().splitlines()):
        line = json.loads(raw)
        body = re.sub(rb', "hash": "[0-9a-f]{64}"}$', b"}", raw)
        assert line["hash"] == sha256(body).hexdigest() == json.loads(raw)["hash"]
        assert (line["seq"], line["previous"]) == (number, previous)
        previous = line["hash"]
    assert log.head == (4, previous)


def test_texts_are_kept_only_where_they_are_asked_for(tmp_path: Path) -> None:
    with DecisionLog(tmp_path, texts=True) as log:
        log.write([entry(question="why?", contexts=("one", "two"), response="so")])
    line = lines(tmp_path)[1]
    assert (line["question"], line["contexts"], line["response"]) == ("why?", ["one", "two"], "so")


def test_lengths_and_the_language_of_texts_are_logged_without_them(tmp_path: Path) -> None:
    english = "Mars has two moons, Phobos and Deimos."
    said = [
        entry(question="How many?", contexts=("one", "two"), response=english),
        entry(question="Wie viele Monde hat der Planet Mars?", response="Zwei."),
        entry(contexts=("x",), response="\ud800 7"),
        entry(question="q", response="é" * 10**7),
        entry(question="q", response=english, group="Münch\ud800en"),
    ]
    with DecisionLog(tmp_path) as log:
        log.write(said)
    found = lines(tmp_path)[1:-1]
    assert [tuple(line["traffic"][name] for name in TRAFFIC) for line in found] == [
        *((9, 38, 2, "en"), (36, 5, 0, "de"), (0, 3, 1, None)),
        *((1, 10**7, 0, None), (1, 38, 0, "en")),
    ]
    assert [line.get("group") for line in found] == [None] * 4 + ["Münch\ud800en"]
    (path,) = files(tmp_path)
    assert "Phobos" not in path.read_text() and path.stat().st_size < 5000
    assert verify([tmp_path]).verdict == "whole"


@pytest.mark.parametrize("texts", [{"response": None}, {"question": 3}, {"contexts": "one"}])
def test_what_is_no_text_is_refused_by_its_name(texts: dict[str, object]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(texts))} must be a"):
        entry(**texts)


def test_an_entry_of_a_guardrail_names_only_groups_that_it_knows(tmp_path: Path) -> None:
    rows = [
        Example(response=f"answer {row}", label=row % 2, columns={"risk": row % 7, "by": by})
        for row, by in enumerate(["de", "en"] * 40 + ["fr"] * 2)
    ]
    run = calibrate(rows, "column:column=risk,higher=hallucinated", alpha=0.4, by="by")
    guardrail = run.freeze()
    known = [*guardrail.rule.groups.groups, *guardrail.rule.groups.small]
    answers = [Example(columns={"risk": 1, "by": by}) for by in (*known, "Ann is ill", None)]
    decisions = guardrail.decide(answers)
    with DecisionLog(tmp_path) as log:
        log.write([Entry.of(guardrail, *pair) for pair in zip(answers, decisions, strict=True)])
    found = lines(tmp_path)[1:-1]
    assert [line["group"] for line in found] == [*known, "", ""]
    assert {line["guardrail"] for line in found} == {guardrail.config.digest}


def test_a_full_file_is_followed_by_the_next_and_no_batch_is_torn_apart(tmp_path: Path) -> None:
    with DecisionLog(tmp_path, max_bytes=2000) as log:
        for start in range(0, 30, 3):
            log.write([entry(str(start + step)) for step in range(3)])
        log.write([entry("x" * 5000)])
    assert [path.name[-10:] for path in files(tmp_path)[:2]] == ["0001.jsonl", "0002.jsonl"]
    found = lines(tmp_path)
    assert [line["seq"] for line in found] == list(range(len(found)))
    assert all(after["previous"] == line["hash"] for line, after in pairwise(found))
    assert decided(tmp_path) == [*map(str, range(30)), "x" * 5000]
    *full, large = files(tmp_path)
    assert len(large.read_bytes().splitlines()) == 3
    for path in full:
        n = len(path.read_bytes().splitlines()) - 1
        assert n % 3 == 0 and path.stat().st_size <= 2000


@pytest.mark.parametrize("id", ["a\nb\r\u2028\x00\x85", "\ud800 alone", '"},{"', "é" * 10**6])
def test_no_id_breaks_a_line(tmp_path: Path, id: str) -> None:
    with DecisionLog(tmp_path) as log:
        log.write([entry(id)])
        log.write([entry("after")])
    (path,) = files(tmp_path)
    assert len(path.read_bytes().split(b"\n")) == 5
    assert decided(tmp_path) == [id, "after"]


def test_a_number_that_is_none_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with DecisionLog(tmp_path) as log:
        with pytest.raises(LogError, match="cannot be logged as JSON"):
            log.write([entry("1"), Entry(decision("2", score=float("inf")), DIGEST)])
        log.write([entry("3")])
    assert decided(tmp_path) == ["3"]


def fail(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Let the disk take so many bytes, and then none."""
    write, room = os.write, [after]

    def full(handle: int, raw: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        n = write(handle, raw[: room[0]])
        room[0] -= n
        return n

    monkeypatch.setattr(os, "write", full)


@pytest.mark.parametrize("room", [0, 1, 200, 700])
def test_a_full_disk_is_an_error_and_leaves_no_torn_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    with DecisionLog(tmp_path) as log:
        log.write([entry("1")])
        (path,) = files(tmp_path)
        before = path.read_bytes()
        with monkeypatch.context() as patch:
            fail(patch, room)
            for _ in range(2):
                with pytest.raises(LogError, match=r"No space left on device; make room"):
                    log.write([entry("2"), entry("3")])
        assert path.read_bytes() == before
        log.write([entry("4")])
    assert decided(tmp_path) == ["1", "4"]
    assert [line["seq"] for line in lines(tmp_path)] == [0, 1, 2, 3]


def test_a_torn_part_that_cannot_be_cut_off_at_once_is_cut_off_before_the_next_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stuck(handle: int, size: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with DecisionLog(tmp_path) as log:
        with monkeypatch.context() as patch:
            patch.setattr(os, "ftruncate", stuck)
            with monkeypatch.context() as inner:
                fail(inner, 100)
                with pytest.raises(LogError):
                    log.write([entry("1")])
            with pytest.raises(LogError, match="Input/output"):
                log.write([entry("2")])
        log.write([entry("3")])
    assert decided(tmp_path) == ["3"]


def test_with_sync_every_write_is_synced_and_a_new_file_with_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bool] = []
    monkeypatch.setattr(
        os, "fsync", lambda handle: synced.append(os.path.isdir(f"/dev/fd/{handle}"))
    )
    log = DecisionLog(tmp_path, sync=True)
    n = len(synced)
    log.write([entry("1"), entry("2")])
    assert n == 2 and len(synced) == 3
    without = DecisionLog(tmp_path / "other")
    without.write([entry("1")])
    assert len(synced) == 3


def test_a_full_disk_at_the_next_file_keeps_the_old_one_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DecisionLog(tmp_path, max_bytes=1000) as log:
        log.write([entry("1")])
        with monkeypatch.context() as patch:
            fail(patch, 10)
            with pytest.raises(LogError):
                log.write([entry("2"), entry("3")])
        assert len(files(tmp_path)) == 1
        log.write([entry("4"), entry("5")])
    assert decided(tmp_path) == ["1", "4", "5"] and len(files(tmp_path)) == 2


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(b"")])
def test_lines_do_not_go_to_a_file_that_was_removed_or_emptied(
    tmp_path: Path, harm: object
) -> None:
    with DecisionLog(tmp_path) as log:
        log.write([entry("1")])
        harm(files(tmp_path)[0])  # type: ignore[operator]
        log.write([entry("2")])
    assert decided(tmp_path) == ["2"]
    assert lines(tmp_path)[-1]["seq"] == 4


def test_a_file_has_its_first_line_from_the_moment_on_at_which_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.rename

    def killed(source: Path, target: Path) -> None:
        raise KeyboardInterrupt

    with DecisionLog(tmp_path, max_bytes=1000) as log:
        log.write([entry("1")])
        for patched in ("rename", "open"):
            with monkeypatch.context() as patch:
                if patched == "rename":
                    patch.setattr(os, "rename", killed)
                else:
                    # The new file is there, and cannot be opened again.
                    patch.setattr(
                        os, "rename", lambda *at: (rename(*at), patch.delattr(os, "open"))
                    )
                with pytest.raises((KeyboardInterrupt, AttributeError)):
                    log.write([entry("2"), entry("3")])
            assert [path.name for path in tmp_path.iterdir()] == [f"{log.chain}.0001.jsonl"]
        log.write([entry("4"), entry("5")])
    assert decided(tmp_path) == ["1", "4", "5"]
    assert verify([tmp_path]).verdict == "whole"


def test_a_file_that_has_the_next_name_is_neither_followed_nor_changed(tmp_path: Path) -> None:
    folder, target = tmp_path / "log", tmp_path / "target"
    target.write_text("precious")
    with DecisionLog(folder, max_bytes=1000) as log:
        (folder / f"{log.chain}.0002.jsonl").symlink_to(target)
        (folder / f"{log.chain}.0003.jsonl").symlink_to(tmp_path / "nowhere")
        (folder / f"{log.chain}.0004.jsonl").write_text("not mine")
        for number in range(3):
            log.write([entry(str(number))])
    assert target.read_text() == "precious" and not (tmp_path / "nowhere").exists()
    assert (folder / f"{log.chain}.0004.jsonl").read_text() == "not mine"
    own = [path for number in (1, 5) for path in folder.glob(f"*.000{number}.jsonl")]
    found = [json.loads(line) for path in own for line in path.read_text().splitlines()]
    assert [line["id"] for line in found if "id" in line][:2] == ["0", "1"]
    assert verify([folder]).verdict == "broken"


def in_child(work: Callable[[], None]) -> None:
    """Run something in a forked process, and see that it ends well."""
    child = os.fork()
    if not child:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def takes_nothing(log: DecisionLog) -> None:
    with pytest.raises(LogError, match="is closed"):
        log.write([entry("late")])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_child_writes_a_chain_of_its_own(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path, max_bytes=1000)
    log.write([entry("parent")])

    def work() -> None:
        for number in range(4):
            log.write([entry(f"child {number}")])
        in_child(lambda: log.write([entry("grandchild")]))
        log.close()

    # The lock of a thread that writes meanwhile stays with the parent.
    with log._lock:
        in_child(work)
    in_child(log.close)
    for number in range(4):
        log.write([entry(f"parent {number}")])
    log.close()
    in_child(lambda: takes_nothing(log))
    expected = [f"{name} {n}" for name in ("child", "parent") for n in range(4)]
    assert sorted(decided(tmp_path)) == sorted([*expected, "parent", "grandchild"])
    check = verify([tmp_path])
    assert (check.verdict, check.n_decisions, len(check.chains)) == ("whole", 10, 3)


def test_a_folder_that_cannot_be_written_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(LogError, match="cannot write to the decision log in") as raised:
            DecisionLog(place)
        assert isinstance(raised.value, CalibrailError)
    with pytest.raises(InputError, match="max_bytes must be at least 1"):
        DecisionLog(tmp_path, max_bytes=0)


@pytest.mark.parametrize("kind", ["opened", "closed", "", None])
def test_the_logs_own_kinds_are_no_kinds_of_decisions(kind: str) -> None:
    with pytest.raises(InputError, match="kind must say what was asked"):
        entry(kind=kind)


def test_an_undefined_score_is_logged_by_its_column_alone(tmp_path: Path) -> None:
    reason = "undefined score (column dae holds 'Ann is ill', which is no number); policy: review"
    none = {"score": None, "p_value": None, "outcome": "review", "reason": reason}
    with DecisionLog(tmp_path) as log:
        log.write([Entry(decision(**none, scale=Scale("dae")), DIGEST)])
        log.write([Entry(decision(**none), DIGEST)])
    assert [line["reason"] for line in lines(tmp_path)[1:3]] == [
        "undefined score of column dae; policy: review",
        "undefined score; policy: review",
    ]
    assert "Ann" not in files(tmp_path)[0].read_text()


def test_threads_write_one_chain(tmp_path: Path) -> None:
    with DecisionLog(tmp_path, max_bytes=10_000) as log:

        def some(name: int) -> None:
            for number in range(50):
                log.write([entry(f"{name}-{number}-{part}") for part in range(2)])

        threads = [threading.Thread(target=some, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = lines(tmp_path)
    assert len(set(decided(tmp_path))) == 400
    assert [line["seq"] for line in found] == list(range(len(found)))
    assert all(after["previous"] == line["hash"] for line, after in pairwise(found))


def test_a_log_without_room_for_its_last_line_is_closed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = DecisionLog(tmp_path)
    log.write([entry("1")])
    with monkeypatch.context() as patch:
        fail(patch, 50)
        log.close()
    assert [line.get("kind") for line in lines(tmp_path)] == ["opened", None]
    assert files(tmp_path)[0].read_bytes().endswith(b"}\n")
    with pytest.raises(LogError, match="is closed"):
        log.write([entry("2")])


def test_a_closed_log_takes_nothing(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path)
    log.close()
    log.close()
    with pytest.raises(LogError, match="is closed"):
        log.write([entry("1")])
    assert decided(tmp_path) == []


def test_a_new_chain_records_where_the_others_end_once(tmp_path: Path) -> None:
    first, second = DecisionLog(tmp_path), DecisionLog(tmp_path)
    first.write([entry("1")])
    with (tmp_path / f"{second.chain}.0001.jsonl").open("ab") as file:
        file.write(b'{"torn')
    third, fourth = DecisionLog(tmp_path), DecisionLog(tmp_path)
    recorded = {line["chain"]: line["others"] for line in lines_of_openings(tmp_path)}
    assert {name: end["seq"] for name, end in recorded[second.chain].items()} == {first.chain: 0}
    ends = {name: (end["seq"], end["hash"]) for name, end in recorded[third.chain].items()}
    assert ends == {first.chain: first.head, second.chain: second.head}
    # What is recorded already is bound through the chain that recorded it.
    assert list(recorded[fourth.chain]) == [third.chain]


def lines_of_openings(folder: Path) -> list[dict[str, object]]:
    return [json.loads(path.read_bytes().split(b"\n")[0]) for path in files(folder)]
