from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrail
from calibrail import Example, Guardrail, atomic_files
from calibrail.errors import DataError, InputError
from calibrail.guardrail.decision_log import DecisionLog, Entry
from calibrail.pipelines.monitor import Watch
from tests.labelling.logs import examples
from tests.labelling.logs import logged as timed
from tests.labelling.rows import frozen, truth
from tests.pipelines.logs import column_guardrail, entries, logged

#: Few answers make the reference, so that small logs raise alarms.
FEW: dict[str, Any] = {"reference": 60, "arl": 2_000}


@pytest.fixture(scope="module")
def guardrail() -> Guardrail:
    return column_guardrail()


def risks(n: int, *, moved: int = 0, seed: int = 0) -> list[float | None]:
    """Return scores of answers, the last of them higher."""
    rng = np.random.default_rng(seed)
    values = rng.uniform(0.0, 1.0, n)
    values[n - moved :] += 0.8
    return [None if value < 0.03 else round(float(value), 3) for value in values]


def kept(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in ("state.json", "status.json")]


def written(folder: Path, guardrail: Guardrail, values: list[float | None], **log: Any) -> Path:
    with DecisionLog(folder, **log) as chain:
        for begin in range(0, len(values), 50):
            chain.write(entries(guardrail, values[begin : begin + 50], begin))
    return folder


def test_a_log_becomes_a_status(tmp_path: Path, guardrail: Guardrail) -> None:
    log = written(tmp_path / "log", guardrail, risks(400, moved=150), texts=True)
    watch = calibrail.monitor(guardrail, log, tmp_path / "w", **FEW)
    content = watch.to_dict()
    assert content == json.loads((tmp_path / "w" / "status.json").read_bytes())
    assert content["schema"] == "calibrail.watch/1"
    assert content["guardrail"] == guardrail.config.digest
    assert content["n"] == watch.n == sum(item["n"] for item in content["timeline"]) == 400
    assert content["log"]["lines"] == 402 and content["log"]["skipped"] == {"no_decision": 2}
    assert content["log"]["whole"] and content["log"]["chains"] == 1
    assert content["options"]["arl"] == 2_000
    alarm = content["traffic"]["alarms"][0]
    assert watch.alarm and alarm["feature"] == "score"
    # To the length of a block.
    assert abs(alarm["since"]["row"] - 250) <= 64
    # Each answer behind the alarm has the texts that the log holds of it.
    assert alarm["examples"]
    for example in alarm["examples"]:
        row = int(example["id"].removeprefix("t"))
        assert example["text"]["response"] == f"It is {row:06}." and row >= 240
        assert example["seq"] == row + 1
    assert (watch.promise, content["promise"]["n_labels"]) == ("undecided", 0)
    assert content["promise"]["limits"]["coverage"] == pytest.approx(0.9)


def test_without_texts_in_the_log_alarms_have_none(tmp_path: Path, guardrail: Guardrail) -> None:
    log = written(tmp_path / "log", guardrail, risks(400, moved=150))
    content = calibrail.monitor(guardrail, log, **FEW).to_dict()
    examples = content["traffic"]["alarms"][0]["examples"]
    assert examples and all("text" not in item for item in examples)
    assert "It is" not in json.dumps(content)


@pytest.mark.parametrize("max_bytes", [1 << 26, 20_000])
def test_a_log_cut_anywhere_gives_the_bytes_of_one_run(
    tmp_path: Path, guardrail: Guardrail, max_bytes: int
) -> None:
    log = written(tmp_path / "log", guardrail, risks(300, moved=80), max_bytes=max_bytes)
    calibrail.monitor(guardrail, log, tmp_path / "once", **FEW)
    paths = sorted(log.iterdir())
    size = sum(path.stat().st_size for path in paths)
    for cuts in ([1], [700], [size - 1], [size // 3, size // 2, size // 2 + 100]):
        part, folder = tmp_path / "log-part", tmp_path / "parts"
        for old in (part, folder):
            shutil.rmtree(old, ignore_errors=True)
        part.mkdir()
        for cut in (*cuts, size):
            left = cut
            for path in paths:
                if left > 0:
                    (part / path.name).write_bytes(path.read_bytes()[:left])
                left -= path.stat().st_size
            if cut >= 200:
                calibrail.monitor(guardrail, part, folder, **FEW)
        assert kept(folder) == kept(tmp_path / "once"), cuts
    # Once more changes nothing, from a copy elsewhere either.
    log.rename(tmp_path / "moved")
    calibrail.monitor(guardrail, tmp_path / "moved", folder, **FEW)
    assert kept(folder) == kept(tmp_path / "once")


def test_several_chains_read_in_parts_are_one_stream(tmp_path: Path, guardrail: Guardrail) -> None:
    values, log = risks(240), tmp_path / "log"
    given = entries(guardrail, values)
    workers = [DecisionLog(log) for _ in range(3)]
    for row, item in enumerate(given[:150]):
        workers[row % 3].write([item])
    calibrail.monitor(guardrail, log, tmp_path / "parts", **FEW)
    for row, item in enumerate(given[150:]):
        workers[row % 3].write([item])
    for chain in workers:
        chain.close()
    parts = calibrail.monitor(guardrail, log, tmp_path / "parts", **FEW)
    once = calibrail.monitor(guardrail, log, tmp_path / "once", **FEW)
    assert kept(tmp_path / "parts") == kept(tmp_path / "once")
    assert parts.to_dict()["log"]["chains"] == 3 and once.n == 240


def test_a_kill_between_state_and_status_loses_nothing(
    tmp_path: Path, guardrail: Guardrail, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = written(tmp_path / "log", guardrail, risks(100))
    calibrail.monitor(guardrail, log, tmp_path / "once", **FEW)
    put = atomic_files._put

    def killed(made: Path, path: Path) -> None:
        if path.name == "status.json":
            raise KeyboardInterrupt
        put(made, path)

    with monkeypatch.context() as patch:
        patch.setattr(atomic_files, "_put", killed)
        with pytest.raises(KeyboardInterrupt):
            calibrail.monitor(guardrail, log, tmp_path / "w", **FEW)
    assert [path.name for path in (tmp_path / "w").glob("*.json")] == ["state.json"]
    calibrail.monitor(guardrail, log, tmp_path / "w", **FEW)
    assert kept(tmp_path / "w") == kept(tmp_path / "once")


def test_a_full_disk_leaves_the_watch_as_it_was(
    tmp_path: Path, guardrail: Guardrail, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = logged(tmp_path / "log", guardrail, risks(20))
    calibrail.monitor(guardrail, log, tmp_path / "w", **FEW)
    before = kept(tmp_path / "w")
    logged(tmp_path / "log", guardrail, risks(20), start=20)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(DataError, match="No space left on device; make room"):
            calibrail.monitor(guardrail, log, tmp_path / "w", **FEW)
    assert kept(tmp_path / "w") == before
    assert calibrail.monitor(guardrail, log, tmp_path / "w", **FEW).n == 40


def test_another_watch_in_the_folder_is_refused(tmp_path: Path, guardrail: Guardrail) -> None:
    log, folder = logged(tmp_path / "log", guardrail, risks(20)), tmp_path / "w"
    calibrail.monitor(guardrail, log, folder, max_fpr=0.3, **FEW)
    other = column_guardrail(alpha=0.2)
    for given, options, why in (
        (other, {"max_fpr": 0.3, **FEW}, "the watch of another guardrail: its digest is sha256:"),
        (guardrail, FEW, "max_fpr 0.3; it is null now"),
        (guardrail, {"max_fpr": 0.3, **FEW, "arl": 99}, "arl 2000; it is 99 now"),
        (guardrail, {"max_fpr": 0.3, "arl": 2_000, "reference": log}, "reference 60; it is 1000"),
    ):
        with pytest.raises(InputError, match=why):
            calibrail.monitor(given, log, folder, **options)
    state = json.loads((folder / "state.json").read_bytes())
    for changed, why in (
        ({**state, "schema": "calibrail.watch_state/9"}, "another version of calibrail"),
        ({**state, "cursor": {}}, "no state of a watch"),
        ({**state, "monitor": {}}, "no state of a watch"),
        ([], "no state of a watch"),
    ):
        (folder / "state.json").write_text(json.dumps(changed))
        with pytest.raises(DataError, match=why):
            calibrail.monitor(guardrail, log, folder, max_fpr=0.3, **FEW)


def test_lines_of_others_and_changed_ones_are_counted(tmp_path: Path, guardrail: Guardrail) -> None:
    log, other = tmp_path / "log", column_guardrail(alpha=0.2)
    logged(log, other, risks(5))
    with pytest.raises(DataError, match="none of the 5 decisions in this log can be used: 5 of"):
        calibrail.monitor(guardrail, log, tmp_path / "w")
    assert not (tmp_path / "w").exists()
    logged(log, guardrail, [0.1, 0.2, 0.3])
    path = max(log.iterdir(), key=lambda item: b'"id": "t2"' in item.read_bytes() and item.name)
    for path in log.iterdir():
        raw = path.read_bytes()
        if guardrail.config.digest.encode() in raw:
            path.write_bytes(raw.replace(b'"id": "t1"', b'"id": "tx"'))
    found = calibrail.monitor(guardrail, log, tmp_path / "w").to_dict()
    assert found["n"] == 2 and found["log"]["other_guardrails"] == {other.config.digest: 5}
    assert found["log"]["skipped"] == {"changed": 1, "no_decision": 4, "other_guardrail": 5}
    assert [(item["code"], item["line"]) for item in found["log"]["findings"]] == [("changed", 3)]
    assert not found["log"]["whole"]


def test_an_empty_log_is_a_watch_of_nothing(tmp_path: Path, guardrail: Guardrail) -> None:
    log = logged(tmp_path / "log", guardrail, [])
    found = calibrail.monitor(guardrail, log, tmp_path / "w").to_dict()
    assert (found["n"], found["timeline"], found["from"]) == (0, [], None)
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match=r"there is no decision log in"):
        calibrail.monitor(guardrail, tmp_path / "none")


def test_another_log_serves_as_the_reference(tmp_path: Path, guardrail: Guardrail) -> None:
    before = written(tmp_path / "before", guardrail, risks(200))
    log = written(tmp_path / "log", guardrail, risks(200, moved=200, seed=1))
    options = {"arl": 2_000, "reference": before}
    watch = calibrail.monitor(guardrail, log, tmp_path / "w", **options)
    assert watch.alarm and watch.to_dict()["traffic"]["alarms"][0]["row"] < 100
    assert not calibrail.monitor(guardrail, before, arl=100_000, reference=before).alarm
    # The reference is kept: it may be gone when the watch goes on.
    state = (tmp_path / "w" / "state.json").read_bytes()
    assert calibrail.monitor(guardrail, log, tmp_path / "w", **options).state == state
    with pytest.raises(DataError, match="holds no decision of this guardrail"):
        calibrail.monitor(column_guardrail(alpha=0.2), before, reference=log)


def test_a_log_is_followed_while_it_grows(
    tmp_path: Path, guardrail: Guardrail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibrail.pipelines.monitor._LOOK", 0.01)
    monkeypatch.setattr("calibrail.pipelines.monitor._STATUS", 0.01)
    log, folder, stop = tmp_path / "log", tmp_path / "w", threading.Event()
    log.mkdir()
    found: list[Watch] = []
    watching = threading.Thread(
        target=lambda: found.append(calibrail.monitor(guardrail, log, folder, follow=stop, **FEW))
    )
    watching.start()
    try:
        with DecisionLog(log) as chain:
            given = entries(guardrail, risks(90))
            for n in (30, 60, 90):
                chain.write(given[n - 30 : n])
                while not (folder / "status.json").exists() or (
                    json.loads((folder / "status.json").read_bytes())["n"] < n
                ):
                    assert watching.is_alive()
            with pytest.raises(DataError, match="another process keeps its watch in"):
                calibrail.monitor(guardrail, log, folder, **FEW)
    finally:
        stop.set()
        watching.join(30)
    assert found[0].n == 90 and found[0].state == (folder / "state.json").read_bytes()
    once = calibrail.monitor(guardrail, log, tmp_path / "once", **FEW)
    going_on = calibrail.monitor(guardrail, log, folder, **FEW)
    assert going_on.to_dict() == once.to_dict() and kept(folder) == kept(tmp_path / "once")


def test_wrong_arguments_are_named(tmp_path: Path, guardrail: Guardrail) -> None:
    log = logged(tmp_path / "log", guardrail, [0.1])
    for options, why in (
        ({"alr": 5}, "unknown argument 'alr'; did you mean arl"),
        ({"arl": 0}, "arl must be at least 1"),
        ({"max_fpr": 2}, "max_false_alarms"),
        ({"options": 3}, "must be a WatchOptions"),
    ):
        with pytest.raises(InputError, match=why):
            calibrail.monitor(guardrail, log, **options)
    with pytest.raises(InputError, match="logs must be paths"):
        calibrail.monitor(guardrail, 3)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Guardrail, Path, Path]:
    """A guardrail, its log, and answers drawn from that to be labelled."""
    folder, guardrail = tmp_path_factory.mktemp("drawn"), frozen()
    log = timed(folder / "log", guardrail, examples(150))
    calibrail.audit_sample(guardrail, log, folder / "audit", per_day=120, seed=1)
    return guardrail, log, folder / "audit"


def label(audit: Path, n: int, says: Callable[[str], int]) -> None:
    with calibrail.label(None, audit) as session:
        for _ in range(n):
            task = session.next("ada")
            assert task is not None
            session.put("ada", task.order, says(task.id))


def test_labels_show_whether_the_promise_is_kept(
    tmp_path: Path, drawn: tuple[Guardrail, Path, Path]
) -> None:
    guardrail, log, audit = drawn
    flagged = {item.id: item.flagged for item in guardrail.decide(examples(150))}
    right, wrong = shutil.copytree(audit, tmp_path / "r"), shutil.copytree(audit, tmp_path / "w")
    folder = tmp_path / "watch"
    options: dict[str, Any] = {"max_fpr": 0.5, "labels": right}
    before = calibrail.monitor(guardrail, log, folder, **options)
    n = before.to_dict()["labels"]["n_handed_out"]
    assert before.to_dict()["promise"]["n_pending"] == n >= 100
    label(right, n, lambda id: int(flagged[id]))
    kept_so_far = calibrail.monitor(guardrail, log, folder, **options)
    found = kept_so_far.to_dict()
    assert (kept_so_far.promise, found["promise"]["n_labels"]) == ("kept", n)
    assert found["promise"]["coverage"]["estimate"] == 1.0
    assert found["promise"]["limits"] == {"coverage": 0.8, "fpr": 0.5}
    # All that passed was hallucinated.
    label(wrong, n, lambda id: int(not flagged[id]))
    options["labels"] = wrong
    broken = calibrail.monitor(guardrail, log, folder, **options)
    assert broken.promise == "broken"
    decided = broken.to_dict()["promise"]["decided"]
    assert decided["rate"] in ("coverage", "fpr") and decided["time"].startswith("2026-03-0")
    # That stands, whatever becomes of the labels; and the same files give the same bytes.
    written = kept(folder)
    calibrail.monitor(guardrail, log, folder, **options)
    assert kept(folder) == written
    options["labels"] = right
    after = calibrail.monitor(guardrail, log, folder, **options)
    assert after.promise == "broken" and not after.to_dict()["promise"]["decided"]["shown"]


def test_labels_that_cannot_count_are_named(
    tmp_path: Path, drawn: tuple[Guardrail, Path, Path]
) -> None:
    guardrail, log, audit = drawn
    with pytest.raises(DataError, match=r"the labels in .* are about another guardrail"):
        calibrail.monitor(
            frozen(0.3), timed(tmp_path / "o", frozen(0.3), examples(3)), labels=audit
        )
    with pytest.raises(DataError, match=r"there are no labels in"):
        calibrail.monitor(guardrail, log, labels=tmp_path / "none")
    strange = shutil.copytree(audit, tmp_path / "strange")
    label(strange, 2, lambda _: 0)
    with (strange / "labels.jsonl").open("a") as file:
        file.write("no JSON\n")
    found = calibrail.monitor(guardrail, log, labels=strange).to_dict()
    assert found["labels"]["n_problems"] == 1 and "line 3" in found["labels"]["problems"][0]
    assert found["promise"]["n_labels"] == 2


def test_draws_of_another_log_do_not_count(
    tmp_path: Path, drawn: tuple[Guardrail, Path, Path]
) -> None:
    guardrail, log, audit = drawn
    audit = shutil.copytree(audit, tmp_path / "audit")
    label(audit, 100, lambda _: 1)
    other = timed(tmp_path / "other", guardrail, examples(20, first=500))
    with pytest.raises(DataError, match=r"none of the \d+ answers in .*audit .* is .*other; name"):
        calibrail.monitor(guardrail, other, labels=audit)
    # A log that goes on is watched all the same.
    stop = threading.Event()
    stop.set()
    going = calibrail.monitor(guardrail, other, tmp_path / "w", labels=audit, follow=stop)
    found = going.to_dict()
    assert found["n"] == 20 and found["promise"]["n_drawn"] == found["promise"]["n_labels"] == 0
    assert found["labels"]["n_not_in_log"] == found["labels"]["n_drawn"]
    assert "line 1: number" in found["labels"]["problems"][0]
    # Of both logs, only draws of lines that were read: here the first 75 are.
    part = tmp_path / "part"
    part.mkdir()
    for path in log.iterdir():
        lines = path.read_bytes().splitlines(keepends=True)
        (part / path.name).write_bytes(b"".join(lines[:76]))
    seqs = [json.loads(raw)["seq"] for raw in (audit / "draws.jsonl").read_text().splitlines()]
    n = sum(seq >= 76 for seq in seqs)
    found = calibrail.monitor(guardrail, part, labels=audit).to_dict()
    assert 0 < found["labels"]["n_not_in_log"] == n < len(seqs)
    assert found["promise"]["n_drawn"] == len(seqs) - n
    assert found["labels"]["n_problems"] == 1
    whole = calibrail.monitor(guardrail, log, labels=audit).to_dict()["labels"]
    assert (whole["n_not_in_log"], whole["problems"]) == (0, [])


def test_draws_of_files_that_were_rotated_away_do_not_count(tmp_path: Path) -> None:
    guardrail = frozen()
    answers = examples(60)
    with DecisionLog(tmp_path / "log", texts=True, max_bytes=8_000) as chain:
        for answer, decision in zip(answers, guardrail.decide(answers), strict=True):
            chain.write([Entry.of(guardrail, answer, decision)])
    calibrail.audit_sample(guardrail, tmp_path / "log", tmp_path / "audit", per_day=60)
    first, second = sorted((tmp_path / "log").iterdir())[:2]
    first.unlink()
    begin = json.loads(second.read_text().splitlines()[0])["seq"]
    raw = (tmp_path / "audit" / "draws.jsonl").read_text().splitlines()
    n = sum(json.loads(line)["seq"] < begin for line in raw)
    found = calibrail.monitor(guardrail, tmp_path / "log", labels=tmp_path / "audit").to_dict()
    assert 0 < found["labels"]["n_not_in_log"] == n < len(raw)


def test_a_draw_whose_flag_is_not_the_guardrails_is_refused(
    tmp_path: Path, drawn: tuple[Guardrail, Path, Path]
) -> None:
    guardrail, log, audit = drawn
    changed = shutil.copytree(audit, tmp_path / "changed")
    lines = (changed / "draws.jsonl").read_text().splitlines()
    place = next(n for n, line in enumerate(lines) if not json.loads(line)["flagged"])
    lines[place] = json.dumps({**json.loads(lines[place]), "score": 0.99})
    (changed / "draws.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match=rf"draws.jsonl, line {place + 1}: the guardrail's decis"):
        calibrail.monitor(guardrail, log, labels=changed)


def test_a_watch_takes_labels_of_one_folder(
    tmp_path: Path, drawn: tuple[Guardrail, Path, Path]
) -> None:
    guardrail, log, audit = drawn
    first, other = shutil.copytree(audit, tmp_path / "first"), tmp_path / "other"
    calibrail.audit_sample(guardrail, log, other, per_day=5, seed=99)
    for folder in (other, first):
        # Nothing is labelled before: nothing is spent.
        calibrail.monitor(guardrail, log, tmp_path / "w", labels=folder)
    label(first, 2, truth)
    found = calibrail.monitor(guardrail, log, tmp_path / "w", labels=first)
    with pytest.raises(InputError, match="begun with the labels of another folder"):
        calibrail.monitor(guardrail, log, tmp_path / "w", labels=other)
    moved = shutil.copytree(first, tmp_path / "moved")
    again = calibrail.monitor(guardrail, log, tmp_path / "w", labels=moved)
    assert again.to_dict() == found.to_dict()


def test_prevalence_follows_from_flags_labels_and_a_judge(
    tmp_path: Path, drawn: tuple[Guardrail, Path, Path]
) -> None:
    guardrail, log, audit = drawn
    audit = shutil.copytree(audit, tmp_path / "audit")
    label(audit, 140, truth)
    flags = calibrail.monitor(guardrail, log).to_dict()["prevalence"]
    assert flags["method"] == "flags" and flags["labels"] is flags["judge"] is None
    assert 0.0 <= flags["lower"] <= flags["upper"] <= 1.0
    people = calibrail.monitor(guardrail, log, labels=audit).to_dict()["prevalence"]
    assert people["labels"]["lower"] <= 1 / 3 <= people["labels"]["upper"]
    judge = tmp_path / "judge.csv"
    rows = [f"t{row},{truth(f't{row}')}" for row in range(150)]
    judge.write_text("\n".join(["id,label", *rows, "elsewhere,1", "t3,0", "x,maybe"]))
    found = calibrail.monitor(guardrail, log, labels=audit, judge_labels=judge).to_dict()
    judged, counts = found["prevalence"]["judge"], found["labels"]["judge"]
    assert judged["flagged"]["n"] + judged["passed"]["n"] == judged["n"] > 0
    assert judged["lower"] <= 1 / 3 <= judged["upper"]
    assert (counts["n_labels"], counts["n_not_in_log"], counts["n_problems"]) == (150, 1, 2)
    assert "row 154" in counts["problems"][0] and counts["n_contradicting"] == 1
    assert "t3 is labelled 1 and 0, and neither counts" in counts["problems"][1]
    for options, error, why in (
        ({"judge_labels": judge}, InputError, "count only together with labels of people"),
        ({"labels": audit, "judge_labels": tmp_path / "no"}, DataError, "cannot read the judge's"),
    ):
        with pytest.raises(error, match=why):
            calibrail.monitor(guardrail, log, **options)
    with pytest.raises(InputError, match=r"standard input cannot be read twice"):
        calibrail.monitor(guardrail, "-", labels=audit, judge_labels=judge)


def going_on(found: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((found / "status.json").read_bytes())
    return content


def test_labels_that_cannot_be_read_stop_no_watch_of_the_traffic(
    tmp_path: Path, drawn: tuple[Guardrail, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibrail.pipelines.monitor._LOOK", 0.01)
    monkeypatch.setattr("calibrail.pipelines.monitor._STATUS", 0.01)
    guardrail, log, whole = drawn
    audit, judge, folder = tmp_path / "audit", tmp_path / "judge.csv", tmp_path / "w"
    given: dict[str, Any] = {"labels": audit, "judge_labels": judge}
    # Neither is there: the log is watched, and what is missing is named.
    with pytest.raises(
        DataError, match=r"there are no labels in .*What the log shows without them"
    ):
        calibrail.monitor(guardrail, log, folder, **given)
    assert going_on(folder)["n"] == 150 and (folder / "watch.html").exists()
    stop, found = threading.Event(), []
    watching = threading.Thread(
        target=lambda: found.append(calibrail.monitor(guardrail, log, folder, follow=stop, **given))
    )

    def until(holds: Callable[[dict[str, Any]], bool]) -> None:
        for _ in range(3000):
            if holds(going_on(folder)["labels"]):
                return
            assert watching.is_alive()
            stop.wait(0.01)
        raise AssertionError(going_on(folder)["labels"])

    watching.start()
    try:
        until(lambda labels: "there are no labels in" in labels["problems"][0])
        until(lambda labels: "cannot read the judge's" in labels["judge"]["problems"][0])
        shutil.copytree(whole, audit)
        judge.write_text(
            "\n".join(["id,label", *(f"t{row},{truth(f't{row}')}" for row in range(150))])
        )
        until(lambda labels: not labels["problems"] and not labels["judge"]["problems"])
        assert going_on(folder)["labels"]["judge"]["n_not_in_log"] == 0
        # A judge's file that is gone or damaged: what was read of it before goes on to count.
        judge.unlink()
        until(lambda labels: labels["judge"]["n_problems"] == 1)
        assert going_on(folder)["prevalence"]["judge"] is not None
        judge.write_text("no,labels\n1,2\n")
        until(lambda labels: "cannot read" not in str(labels["judge"]["problems"]))
        shutil.rmtree(audit)
        until(lambda labels: len(labels["problems"]) == 1)
    finally:
        stop.set()
        watching.join(30)
    # The labels of another folder are not taken up in the place of those that were.
    counted = found[0].to_dict()["labels"]
    assert counted["n_drawn"] > 0 and counted["judge"]["n_labels"] == 150


def test_a_watch_that_follows_takes_up_no_labels_of_another_folder(
    tmp_path: Path, drawn: tuple[Guardrail, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calibrail.pipelines.monitor._LOOK", 0.01)
    guardrail, log, whole = drawn
    audit, folder = shutil.copytree(whole, tmp_path / "audit"), tmp_path / "w"
    label(audit, 2, truth)
    calibrail.monitor(guardrail, log, folder, labels=audit)
    shutil.rmtree(audit)
    other = tmp_path / "other"
    calibrail.audit_sample(guardrail, log, other, per_day=5, seed=99)
    label(other, 2, truth)
    stop = threading.Event()
    given: dict[str, Any] = {"labels": audit, "follow": stop}
    threading.Timer(0.5, lambda: shutil.copytree(other, audit)).start()
    threading.Timer(2.0, stop.set).start()
    found = calibrail.monitor(guardrail, log, folder, **given).to_dict()
    assert "begun with the labels of another folder" in found["labels"]["problems"][0]
    assert found["promise"]["n_labels"] == 0


def test_a_file_without_decisions_is_an_error(tmp_path: Path, guardrail: Guardrail) -> None:
    path = tmp_path / "facts.jsonl"
    path.write_text('{"fact": 1}\nsome text\n')
    with pytest.raises(DataError, match="none of the 2 lines read is a decision"):
        calibrail.monitor(guardrail, path, tmp_path / "w")
    assert not (tmp_path / "w").exists()


def test_answers_to_one_question_are_known_where_the_log_has_them(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    asked = [
        Example(f"What is {row % 12}?", ("A chunk.",), f"It is {row}.", id=f"t{row}", columns=risk)
        for row in range(60)
        for risk in [{"risk": 9.0 if row % 4 else -9.0}]
    ]
    with DecisionLog(tmp_path / "log", texts=True) as log:
        for pair in zip(asked, guardrail.decide(asked), strict=True):
            log.write([Entry.of(guardrail, *pair)])
    audit = tmp_path / "audit"
    calibrail.audit_sample(guardrail, tmp_path / "log", audit, per_day=40)
    lines = [json.loads(line) for line in (audit / "draws.jsonl").read_text().splitlines()]
    assert len({line["question"] for line in lines}) == len({int(i["id"][1:]) % 12 for i in lines})
    label(audit, 40, lambda id: int(id[1:]) % 2)
    found = calibrail.monitor(guardrail, tmp_path / "log", tmp_path / "w", labels=audit)
    promise = found.to_dict()["promise"]
    n_questions = len({line["question"] for line in lines})
    assert (promise["n_labels"], promise["repeated"]) == (40, 40 - n_questions)
    assert promise["coverage"]["n"] + promise["fpr"]["n"] == 40
