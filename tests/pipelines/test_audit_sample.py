"""Are logged answers drawn as they should be: by the day, once each, and known again?"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binom, chi2

import calibrail
from calibrail import Example, Guardrail
from calibrail.errors import DataError, InputError
from calibrail.labelling.exchange.transfer import export_answers, import_labels
from calibrail.labelling.log_sampling import read_sample
from calibrail.options import Drawing
from calibrail.pipelines.audit_sample import AuditBatch
from calibrail.pipelines.monitor_inputs import audited_labels
from calibrail.ui.server import Page
from tests.labelling.logs import BEGIN, examples, logged
from tests.labelling.rows import frozen, label_some, lines, truth, write

FILES = ("draws.jsonl", "pool.jsonl", "batches.jsonl", "cursor.json", "session.json")


@pytest.fixture(scope="module")
def guardrail() -> Guardrail:
    return frozen()


def hours(n: float) -> Any:
    return BEGIN + timedelta(hours=n)


def ids(folder: Path) -> list[str]:
    return [line["id"] for line in lines(folder / "draws.jsonl")]


def content(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


def test_each_day_of_the_log_has_its_budget_and_calls_share_it(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    log, audit = tmp_path / "log", tmp_path / "audit"
    logged(log, guardrail, examples(60), hours=4)
    first = calibrail.audit_sample(guardrail, log, audit, per_day=5)
    assert (first.outcome, first.n_rows, first.n_drawn, first.n_handed_out) == ("drawn", 60, 5, 5)
    assert first.days == ("2026-03-02",) and first.batch == 1
    before = content(audit)
    again = calibrail.audit_sample(guardrail, log, audit)
    assert (again.outcome, again.n_rows, again.n_drawn, again.batch) == ("nothing new", 0, 0, None)
    # The same day: what comes later waits, and is drawn from with the next day's.
    logged(log, guardrail, examples(40, 60), begin=hours(6), hours=4)
    spent = calibrail.audit_sample(guardrail, log, audit)
    assert (spent.outcome, spent.n_rows, spent.n_drawn) == ("budget spent", 40, 0)
    assert content(audit) == before
    logged(log, guardrail, examples(100, 100), begin=hours(24), hours=4)
    later = calibrail.audit_sample(guardrail, log, audit)
    assert (later.n_rows, later.n_drawn, later.days) == (140, 5, ("2026-03-03",))
    found = ids(audit)
    assert len(set(found)) == len(found) == later.n_drawn_so_far == 10
    assert {line["share"] for line in lines(audit / "draws.jsonl")} == {5 / 60, 5 / 140}
    # Another number from now on; a week at once has the budget of its days.
    logged(log, guardrail, examples(140, 200), begin=hours(48), hours=7 * 24 - 12)
    week = calibrail.audit_sample(guardrail, log, audit, per_day=2)
    assert (len(week.days), week.n_drawn, week.per_day, week.n_batches) == (7, 14, 2, 3)
    # Too few answers for a budget: all of them, and the rest of it lapses.
    logged(log, guardrail, examples(3, 400), begin=hours(240), hours=1)
    few = calibrail.audit_sample(guardrail, log, audit, per_day=20)
    assert (few.n_rows, few.n_drawn, few.n_handed_out) == (3, 3, 3)
    logged(log, guardrail, examples(50, 410), begin=hours(264), hours=1)
    assert calibrail.audit_sample(guardrail, log, audit).n_drawn == 20


def test_below_one_a_day_one_is_drawn_in_several_days(tmp_path: Path, guardrail: Guardrail) -> None:
    log, drawn = tmp_path / "log", []
    for day in range(6):
        logged(log, guardrail, examples(5, 5 * day), begin=hours(24 * day), hours=2)
        options = {"per_day": 0.4} if not day else {}
        drawn.append(calibrail.audit_sample(guardrail, log, tmp_path / "a", **options).n_drawn)
    assert drawn == [0, 0, 1, 0, 1, 0]
    rows = [line["rows"] for line in lines(tmp_path / "a" / "batches.jsonl")]
    assert rows == [15, 10]


def test_the_same_log_and_seed_give_the_same_bytes_in_whatever_files_it_lies(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    for part in range(3):
        begin = hours(3 * part)
        logged(tmp_path / "log", guardrail, examples(40, 40 * part), begin=begin, hours=2)
    files = sorted((tmp_path / "log").iterdir())
    for place, file in enumerate(files):
        (tmp_path / f"part{place % 2}").mkdir(exist_ok=True)
        shutil.copy(file, tmp_path / f"part{place % 2}")
    sources: list[Any] = [
        tmp_path / "log",
        [tmp_path / "part1", tmp_path / "part0"],
        [str(file) for file in reversed(files)],
        [tmp_path / "log", tmp_path / "part0"],
    ]
    for place, source in enumerate(sources):
        calibrail.audit_sample(guardrail, source, tmp_path / f"a{place}", per_day=12, seed=7)
    wanted = content(tmp_path / "a0")
    assert all(content(tmp_path / f"a{place}") == wanted for place in range(4))
    calibrail.audit_sample(guardrail, sources[0], tmp_path / "other", per_day=12, seed=8)
    assert ids(tmp_path / "other") != ids(tmp_path / "a0")
    # Old files are gone, new ones come: nothing drawn changes, nothing is drawn twice.
    for file in files[:2]:
        file.unlink()
    logged(tmp_path / "log", guardrail, examples(40, 200), begin=hours(24), hours=2)
    more = calibrail.audit_sample(guardrail, tmp_path / "log", tmp_path / "a0")
    assert (more.n_rows, more.n_drawn) == (40, 12)
    assert (tmp_path / "a0" / "draws.jsonl").read_bytes().startswith(wanted["draws.jsonl"])


def test_a_call_that_is_cut_off_anywhere_is_whole_after_the_next_one(
    tmp_path: Path, guardrail: Guardrail, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = logged(tmp_path / "log", guardrail, examples(60), hours=12)
    calibrail.audit_sample(guardrail, log, tmp_path / "begun", per_day=4)
    logged(log, guardrail, examples(60, 60), begin=hours(24), hours=12)
    shutil.copytree(tmp_path / "begun", tmp_path / "whole")
    calibrail.audit_sample(guardrail, log, tmp_path / "whole")
    for start in ("begun", "nothing"):
        if start == "nothing":
            calibrail.audit_sample(guardrail, log, tmp_path / "whole1", per_day=4)
        for step in range(1, 40):
            folder = tmp_path / f"{start}{step}"
            if start == "begun":
                shutil.copytree(tmp_path / "begun", folder)
            with monkeypatch.context() as patch:
                steps = dies_at(step, patch)
                try:
                    calibrail.audit_sample(guardrail, log, folder, per_day=4)
                    break
                except Killed:
                    assert steps
            # Who labels in between sees no half of an answer.
            if (folder / "session.json").exists():
                with calibrail.label(None, folder) as session:
                    task = session.next("ada")
                    assert task is None or task.response
            # The log has grown meanwhile; what was drawn stays drawn.
            calibrail.audit_sample(guardrail, log, folder, per_day=4)
            wanted = content(tmp_path / ("whole" if start == "begun" else "whole1"))
            assert content(folder) == wanted
            assert not (folder / ".pending.json").exists()
        assert step > 6


@pytest.mark.parametrize(
    ("pending", "said"),
    [
        ({"draws": [], "before": {"draws": 99}}, r"draws\.jsonl lacks lines .*\(99\); restore it"),
        (None, r"\.pending\.json is damaged .*remove it"),
    ],
)
def test_an_unfinished_batch_that_does_not_fit_changes_nothing(
    tmp_path: Path, guardrail: Guardrail, pending: dict[str, Any] | None, said: str
) -> None:
    log, audit = tmp_path / "log", tmp_path / "audit"
    logged(log, guardrail, examples(20), hours=4)
    calibrail.audit_sample(guardrail, log, audit, per_day=5)
    before = content(audit)
    text = json.dumps(pending) if pending else "{"
    (audit / ".pending.json").write_text(text, encoding="utf-8")
    for _ in range(2):
        with pytest.raises(DataError, match=said):
            calibrail.audit_sample(guardrail, log, audit)
    assert content(audit) == before


class Killed(BaseException):
    """The process is gone."""


def dies_at(step: int, patch: pytest.MonkeyPatch) -> list[int]:
    """Let a program die before so many steps that change files, and in the middle of a write."""
    done: list[int] = []
    writing, replacing, unlinking = os.write, os.replace, Path.unlink

    def write(handle: int, raw: bytes) -> int:
        done.append(1)
        if len(done) >= step:
            writing(handle, raw[: len(raw) // 2])
            patch.setattr(os, "ftruncate", lambda *_: None)
            raise Killed
        return writing(handle, raw)

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            done.append(1)
            if len(done) >= step:
                raise Killed
            return function(*arguments, **options)

        return call

    patch.setattr(os, "write", write)
    patch.setattr(os, "replace", counted(replacing))
    patch.setattr(Path, "unlink", counted(unlinking))
    return done


def test_an_id_that_repeats_is_an_answer_each_time(tmp_path: Path, guardrail: Guardrail) -> None:
    log, audit = tmp_path / "log", tmp_path / "audit"
    logged(log, guardrail, [*examples(6), *examples(6), *examples(3, 6)], hours=2)
    calibrail.audit_sample(guardrail, log, audit, per_day=20)
    assert sorted(ids(audit)) == sorted([f"t{n}" for n in range(6)] * 2 + ["t6", "t7", "t8"])
    with calibrail.label(None, audit) as session:
        export_answers(session, tmp_path / "sheet.csv", "ada", 20)
        text = (tmp_path / "sheet.csv").read_text(encoding="utf-8-sig")
        filled = [
            row if not place else f"{row[: row.rindex(',,')]}faithful,,"
            for place, row in enumerate(text.splitlines())
        ]
        (tmp_path / "sheet.csv").write_text("\n".join(filled), encoding="utf-8")
        taken = import_labels(session, tmp_path / "sheet.csv", "ada")
        assert (taken.labelled, taken.problems) == (15, ())
    with calibrail.label(None, audit) as session:
        rows = [{"id": "t0", "label": 1}, {"id": "t7", "label": 1}]
        taken = import_labels(session, write(tmp_path / "by_id.jsonl", rows), "bob")
    # Whose id stands for two answers says which by the id that was exported.
    assert len(taken.problems) == 1 and taken.labelled == 1
    assert "'t0'" in taken.problems[0] and "several answers" in taken.problems[0]


def test_what_has_no_time_is_not_logged_at_none(tmp_path: Path, guardrail: Guardrail) -> None:
    log = logged(tmp_path / "log", guardrail, examples(4), hours=1, texts=False)
    calibrail.audit_sample(guardrail, log, tmp_path / "audit", per_day=20)
    with calibrail.label(None, tmp_path / "audit") as session:
        for answer in session._files.ledger.answers:
            answer.draw = replace(answer.draw, time=None)
        task = session.next("ada")
    assert task is not None and re.search(r"of the chain [\w-]+\.$", task.question)


def test_texts_come_from_the_log_from_traces_or_are_missed(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    log, audit = tmp_path / "log", tmp_path / "audit"
    logged(log, guardrail, examples(4), hours=1)
    logged(log, guardrail, examples(6, 4), begin=hours(2), hours=1, texts=False)
    rows = [
        {"id": item.id, "question": item.question, "contexts": item.contexts, "response": text}
        for item, text in zip(
            examples(3, 4),
            [examples(1, 4)[0].response, "Another answer altogether.", ""],
            strict=True,
        )
    ]
    traces = write(tmp_path / "traces.jsonl", rows[:2])
    found = calibrail.audit_sample(guardrail, log, audit, per_day=20, traces=traces)
    assert (found.n_drawn, found.n_without_text, found.n_other_texts) == (10, 5, 1)
    with calibrail.label(None, audit) as session:
        seen = {}
        while (task := session.next("ada")) is not None:
            seen[task.id] = task
            if task.id not in ("t5", "t9"):
                session.put("ada", task.order, truth(task.id))
            else:
                session.skip("ada", task.order)
            if len(seen) == 10 and task.id in ("t5", "t9"):
                break
        for id in ("t0", "t4"):
            assert seen[id].response == examples(1, int(id[1:]))[0].response
        assert seen["t5"].response == "" and "its id is t5" in seen["t5"].question
        assert re.search(r"number \d+ of the chain \S+, logged at 2026-", seen["t5"].question)
        # Found by a later call, also for who is labelling now.
        rest = [
            {"id": i.id, "question": i.question, "contexts": i.contexts, "response": i.response}
            for i in examples(5, 5)
        ]
        more = calibrail.audit_sample(guardrail, log, audit, traces=rest)
        assert (more.outcome, more.n_texts_found, more.n_without_text) == ("nothing new", 5, 0)
        task = session.next("bob")
        assert task is not None and task.response == examples(1, int(task.id[1:]))[0].response
        for id in ("t5", "t9"):
            session.put("ada", seen[id].order, truth(id))
    texts = {example.id: example.response for example in calibrail.read(audit)}
    assert {id: texts[id] for id in ("t0", "t6", "t9")} == {
        id: examples(1, int(id[1:]))[0].response for id in ("t0", "t6", "t9")
    }
    assert calibrail.audit_sample(guardrail, log, audit, traces=rest).n_texts_found == 0


def test_a_judge_of_logged_answers_moves_the_guess(tmp_path: Path, guardrail: Guardrail) -> None:
    log, audit, answers = tmp_path / "log", tmp_path / "audit", examples(300)
    logged(log, guardrail, answers, hours=20)
    traces = [{"id": item.id, "response": "-", "judge": truth(item.id)} for item in answers]
    asked = dict(per_day=60, judge_column="judge")
    with pytest.raises(InputError, match=r"the column judge holds a judge's labels.*--traces FILE"):
        calibrail.audit_sample(guardrail, log, audit, **asked)
    with pytest.raises(
        DataError, match=r"1 new answers whose ids no trace.*the first of them 't7'"
    ):
        rows = [row for row in traces if row["id"] != "t7"]
        calibrail.audit_sample(guardrail, log, audit, traces=rows, **asked)
    first = calibrail.audit_sample(guardrail, log, audit, traces=traces, **asked)
    assert first.design == "active"
    with calibrail.label(None, audit) as session:
        label_some(session, "ada", first.n_handed_out)
    logged(log, guardrail, examples(200, 300), begin=hours(48), hours=4)
    traces = [{"id": i.id, "response": "-", "judge": truth(i.id)} for i in examples(200, 300)]
    calibrail.audit_sample(guardrail, log, audit, traces=traces)
    late = [line for line in lines(audit / "draws.jsonl") if line["batch"] == 2]
    assert all(line["column"] == truth(line["id"]) for line in late)
    # Learnt from the first day's labels: the judge is right.
    sure = [abs(line["guess"] - truth(line["id"])) for line in late]
    assert max(sure) < 0.5 and sum(sure) / len(sure) < 0.2
    with pytest.raises(InputError, match="judge_column was judge and is now another"):
        calibrail.audit_sample(guardrail, log, audit, traces=traces, judge_column="another")
    # What a watch bets on are these guesses.
    guesses = audited_labels(audit, guardrail.config).guess.tolist()
    assert guesses[-len(late) :] == [line["guess"] for line in late]
    # What the judge said stands in the draws, whatever the log or the pool holds.
    with calibrail.label(None, audit) as session:
        label_some(session, "ada", sum(line["handed_out"] for line in late))
    (found,) = calibrail.agree(audit, judge_column="judge").judges
    assert found["caught"]["estimate"] == 1.0 and found["false_alarms"]["estimate"] == 0.0


def test_what_people_say_late_or_divided_or_not_at_all_is_in_the_order_drawn(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    log, audit = tmp_path / "log", tmp_path / "audit"
    logged(log, guardrail, examples(40), hours=12)
    calibrail.audit_sample(guardrail, log, audit, per_day=8, shared=1.0, seed=3)
    with calibrail.label(None, audit) as session:
        for order, ada, bob in ((7, 1, 1), (2, 0, 1), (5, None, None), (1, 0, 0)):
            session.next("ada")
            session.put("ada", order, ada)
            session.put("bob", order, bob)
        session.put("ada", 3, 1)
    found = read_sample(audit)
    assert found.settled.tolist() == [True, False, False, False, True, False, True, False]
    assert [None if value != value else value for value in found.label.tolist()] == (
        [0, None, None, None, None, None, 1, None]
    )
    assert found.unsure.tolist() == [False] * 4 + [True] + [False] * 3
    assert found.n_disagreements == 1 and not found.problems and len(found) == 8
    assert set(found.probability.tolist()) == {1.0} and set(found.share.tolist()) == {8 / 40}
    drawn = lines(audit / "draws.jsonl")
    assert found.score.tolist() == [line["score"] for line in drawn]
    assert found.flagged.tolist() == [line["flagged"] for line in drawn]
    with calibrail.label(None, audit, settle=True) as session:
        task = session.next("eve")
        assert task is not None and task.order == 2
        session.put("eve", 2, 1)
    assert read_sample(audit).label[1] == 1.0
    # Labels that nobody can place are named, and the others stay.
    path = audit / "labels.jsonl"
    good = lines(path)
    strange = {**good[0], "order": 99, "annotator": "eve"}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(strange) + "\n")
        file.write(json.dumps({**good[0], "label": 0}) + "\n")
        file.write("no JSON\n")
        file.write(json.dumps({**good[0], "label": "yes", "annotator": "eve"}) + "\n")
    after = read_sample(audit)
    assert after.label.tolist()[:2] == [0.0, 1.0] and len(after.problems) == 4
    named = "\n".join(after.problems)
    for words in ("number 99", "two labels of 'ada'", "is not JSON", "must be 1, 0 or null"):
        assert words in named
    assert all("labels.jsonl, line" in problem for problem in after.problems)
    with pytest.raises(DataError, match="not JSON"):
        calibrail.label(None, audit)


def by_lot(batch: AuditBatch, budget: int) -> bool:
    """Return whether as many were handed out as lots with that mean would, but once in 10^9.

    Logs bear random ids, so that each run has other lots. Sums of lots of different probabilities
    vary less than those of equal ones (Hoeffding 1956).
    """
    low, high = binom.interval(1 - 1e-9, batch.n_drawn, budget / batch.n_drawn)
    return bool(low <= batch.n_handed_out <= high) and batch.n_handed_out < batch.n_drawn


def test_active_draws_weigh_by_what_labels_say_and_are_checked(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    log, audit = tmp_path / "log", tmp_path / "audit"
    logged(log, guardrail, examples(300), hours=12)
    drawing = Drawing("active", floor=0.2)
    first = calibrail.audit_sample(guardrail, log, audit, per_day=25, drawing=drawing)
    assert by_lot(first, 25)
    with calibrail.label(None, audit) as session:
        label_some(session, "ada", first.n_handed_out)
    logged(log, guardrail, examples(300, 300), begin=hours(24), hours=12)
    second = calibrail.audit_sample(guardrail, log, audit)
    assert by_lot(second, 25)
    found = read_sample(audit)
    own = found.batch == 2
    assert set(found.guess[~own].tolist()) == {0.5} and len(set(found.guess[own].tolist())) > 3
    assert (found.probability[found.flagged] >= 0.2).all()
    assert (found.probability[~found.flagged] >= 0.4).all()
    # By lot left out: nothing of them is to come.
    left_out = ~found.handed_out
    assert left_out.any() and found.settled[left_out].all() and not found.unsure.any()
    with pytest.raises(DataError, match="drawn with different probabilities"):
        calibrail.calibrate(audit, "column:column=suspicion,higher=hallucinated")


@pytest.mark.parametrize(
    ("file", "line", "change", "words"),
    [
        ("draws.jsonl", 2, {"handed_out": False}, "by the lot of the seed"),
        ("draws.jsonl", 8, {"digest": "f" * 16}, "does not draw|digest must be"),
        ("draws.jsonl", 2, {"seq": 3}, "digest must be"),
        ("draws.jsonl", 2, {"share": 0.5}, "share must be"),
        ("draws.jsonl", 8, {"batch": 2}, "batch must be"),
        ("draws.jsonl", 2, {"probability": 0.5}, "probability must be at least 1"),
        ("draws.jsonl", 2, {"plan": "0" * 16}, "was changed after the first label"),
        ("batches.jsonl", 1, {"rows": 39}, "share must be"),
        ("batches.jsonl", 1, {"drawn": 9, "rows": 45}, "counts 9 draws"),
        ("batches.jsonl", 1, {"batch": 2}, "batch must be 1"),
        ("batches.jsonl", 1, {"drawn": 99}, "cannot have been drawn"),
    ],
)
def test_draws_that_were_changed_are_named(
    tmp_path: Path,
    guardrail: Guardrail,
    file: str,
    line: int,
    change: dict[str, Any],
    words: str,
) -> None:
    log, audit = tmp_path / "log", tmp_path / "audit"
    logged(log, guardrail, examples(40), hours=12)
    calibrail.audit_sample(guardrail, log, audit, per_day=8)
    rows = lines(audit / file)
    if change == {"seq": rows[line - 1].get("seq")}:
        change = {"seq": 4}  # The lot may have drawn this very line.
    rows[line - 1] |= change
    write(audit / file, rows)
    with pytest.raises(DataError, match=words) as refused:
        read_sample(audit)
    assert f"line {line}" in str(refused.value)


def test_what_does_not_go_together_is_refused_by_name(tmp_path: Path, guardrail: Guardrail) -> None:
    log, audit = tmp_path / "log", tmp_path / "audit"
    logged(log, guardrail, examples(40), hours=12)
    with pytest.raises(InputError, match=r"per_day=\.\.\. must be given"):
        calibrail.audit_sample(guardrail, log, audit)
    with pytest.raises(InputError, match="per_day must be above 0"):
        calibrail.audit_sample(guardrail, log, audit, per_day=0)
    with pytest.raises(InputError, match="unknown argument 'perday'; did you mean per_day"):
        calibrail.audit_sample(guardrail, log, audit, perday=3)  # type: ignore[call-arg]
    with pytest.raises(InputError, match="drawn by itself; leave out whole_groups"):
        drawing = Drawing(whole_groups=True)
        calibrail.audit_sample(guardrail, log, audit, per_day=3, drawing=drawing)
    with pytest.raises(DataError, match=r"can be used: .* of other guardrails"):
        calibrail.audit_sample(frozen(0.3), log, audit, per_day=3)
    with pytest.raises(DataError, match=r"cannot read the decision log .*gone"):
        calibrail.audit_sample(guardrail, tmp_path / "gone", audit, per_day=3)
    assert not audit.exists()
    calibrail.audit_sample(guardrail, log, audit, per_day=3)
    before = content(audit)
    for options, words in (
        ({"seed": 5}, "seed=... was 0 and is now 5|seed was 0"),
        ({"shared": 0.5}, "shared"),
        ({"drawing": Drawing("active")}, "design"),
    ):
        with pytest.raises(InputError, match=words):
            calibrail.audit_sample(guardrail, log, audit, **options)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the guardrail is another one"):
        calibrail.audit_sample(frozen(0.3), log, audit)
    with pytest.raises(InputError, match=r"calibrail[. ]monitor"):
        calibrail.certify(guardrail, labels=audit)
    with pytest.raises(DataError, match=r"calibrail[. ]monitor"):
        calibrail.certify(guardrail, audit, max_fpr=0.2)
    with pytest.raises(InputError, match="come from a decision log"):
        calibrail.label([{"id": "a", "response": "b"}], audit)
    with pytest.raises(InputError, match="were drawn from a decision log"):
        calibrail.label(None, audit, max_fpr=0.2)
    assert content(audit) == before
    with calibrail.label([{"id": "a", "response": "b"}], tmp_path / "labels"):
        pass
    with pytest.raises(InputError, match="name another folder for those of a log"):
        calibrail.audit_sample(guardrail, log, tmp_path / "labels", per_day=3)
    with pytest.raises(InputError, match="not drawn from a decision log"):
        read_sample(tmp_path / "labels")


def test_decisions_without_times_are_a_day_a_call(tmp_path: Path, guardrail: Guardrail) -> None:
    path = tmp_path / "decisions.jsonl"
    made = [item.line() for item in guardrail.decide(examples(50))]
    path.write_text("\n".join(made[:30]) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match="must be at least 1"):
        calibrail.audit_sample(guardrail, path, tmp_path / "a", per_day=0.5)
    assert not (tmp_path / "a").exists()
    first = calibrail.audit_sample(guardrail, path, tmp_path / "a", per_day=6)
    assert (first.n_drawn, first.days, first.first) == (6, (), None)
    assert calibrail.audit_sample(guardrail, path, tmp_path / "a").outcome == "nothing new"
    with path.open("a", encoding="utf-8") as file:
        file.write("\n".join(made[30:]) + "\n")
    second = calibrail.audit_sample(guardrail, path, tmp_path / "a")
    assert (second.n_rows, second.n_drawn) == (20, 6)
    assert len(read_sample(tmp_path / "a")) == 12


def test_labels_of_logged_answers_set_a_threshold(tmp_path: Path, guardrail: Guardrail) -> None:
    log, audit = tmp_path / "log", tmp_path / "audit"
    logged(log, guardrail, examples(200), hours=12, texts=False)
    calibrail.audit_sample(guardrail, log, audit, per_day=120)
    with calibrail.label(None, audit) as session:
        label_some(session, "ada", 110)
        counts = session.counts("ada")
        assert (counts.labelled, counts.waiting, counts.holding) == (110, 10, 0)
    run = calibrail.calibrate(audit, "column:column=suspicion,higher=hallucinated", alpha=0.2)
    report = run.report.to_dict()
    assert any("drawn from a decision log" in note for note in report["notes"])
    assert report["data"]["n_examples"] == 110


def test_labels_of_days_of_which_more_was_drawn_count_no_more(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    """The judge is right on a small day, and on a large one it catches half."""
    log, audit, words = tmp_path / "log", tmp_path / "audit", []
    for day, n in enumerate((60, 300)):
        made = examples(n, 60 * day)
        logged(log, guardrail, made, begin=hours(24 * day), hours=2, texts=False)
        calibrail.audit_sample(guardrail, log, audit, per_day=60)
        words += [(item.id, day, truth(str(item.id))) for item in made]
    with calibrail.label(None, audit) as session:
        label_some(session, "ada", 120)
    rows = [
        {"id": id, "judge": int(label and not (day and k % 2))}
        for k, (id, day, label) in enumerate(words)
    ]
    judged = write(tmp_path / "judged.jsonl", rows)
    data = calibrail.agree(judged, judge_column="judge", labels=audit).data
    assert (data["n"], data["n_human"] + data["n_thinned"]) == (360, 120)
    small = [line["id"] for line in lines(audit / "draws.jsonl") if line["share"] == 1.0]
    assert len(small) == 60 and 60 < data["n_human"] < 85
    report = calibrail.calibrate(audit, "column:column=suspicion,higher=hallucinated", alpha=0.2)
    assert report.report.data["n_examples"] == data["n_human"]


def test_through_the_front_door_every_logged_answer_is_as_likely_drawn(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    log = logged(tmp_path / "log", guardrail, examples(30), hours=12, texts=False)
    drawn: Counter[str] = Counter()
    seeds, budget = 80, 6
    for seed in range(seeds):
        folder = tmp_path / f"a{seed}"
        calibrail.audit_sample(guardrail, log, folder, per_day=budget, seed=seed)
        drawn.update(ids(folder))
    share = budget / 30
    deviations = [(drawn[f"t{n}"] - seeds * share) ** 2 for n in range(30)]
    assert sum(drawn.values()) == seeds * budget
    assert sum(deviations) / (seeds * share * (1 - share)) * 29 / 30 < chi2.isf(1e-4, 29)


def test_calls_at_once_draw_one_after_the_other(tmp_path: Path, guardrail: Guardrail) -> None:
    log, audit = tmp_path / "log", tmp_path / "audit"
    logged(log, guardrail, examples(200), hours=12)
    with ThreadPoolExecutor(4) as pool:
        calls = [
            pool.submit(calibrail.audit_sample, guardrail, log, audit, per_day=7) for _ in range(4)
        ]
        outcomes = Counter(call.result().outcome for call in calls)
    assert outcomes == {"drawn": 1, "nothing new": 3}
    assert len(read_sample(audit)) == 7


def test_who_labels_sees_what_is_drawn_meanwhile(tmp_path: Path, guardrail: Guardrail) -> None:
    log, audit = tmp_path / "log", tmp_path / "audit"
    logged(log, guardrail, examples(40), hours=12)
    calibrail.audit_sample(guardrail, log, audit, per_day=2)
    with calibrail.label(None, audit) as session:
        page = Page(session, "ada", lambda _: None)
        assert "that the promise is kept or that it is broken" in page.state()["unsure"]
        label_some(session, "ada", 2)
        state = page.state()
        assert state["task"] is None and not state["counts"]["waiting"]
        logged(log, guardrail, examples(40, 40), begin=hours(24), hours=12)
        calibrail.audit_sample(guardrail, log, audit)
        state = page.state()
        assert state["task"]["response"] and state["counts"]["waiting"] == 2
        label_some(session, "ada", 2)
    assert read_sample(audit).settled.all()


def test_groups_and_languages_of_the_log_are_known_of_each_draw(tmp_path: Path) -> None:
    rows = [
        Example(
            response=f"answer {place}",
            label=place % 2,
            columns={"risk": place % 2 + place % 7 / 10, "team": "ab"[place // 2 % 2]},
        )
        for place in range(400)
    ]
    score = "column:column=risk,higher=hallucinated"
    guardrail = calibrail.calibrate(rows, score, alpha=0.2, by="team", min_n=20).freeze()
    answers = [
        replace(item, columns={"risk": place / 40, "team": "ab"[place % 2]})
        for place, item in enumerate(examples(40))
    ]
    log = logged(tmp_path / "log", guardrail, answers, hours=12)
    calibrail.audit_sample(guardrail, log, tmp_path / "audit", per_day=12)
    found = read_sample(tmp_path / "audit")
    wanted = ["ab"[int(id[1:]) % 2] for id in found.id.tolist()]
    assert found.group.tolist() == wanted and set(wanted) == {"a", "b"}
    assert len(audited_labels(tmp_path / "audit", guardrail.config)) == 12
    assert set(found.language.tolist()) == {"en"}


def test_flags_and_labels_are_those_of_the_guardrail(tmp_path: Path, guardrail: Guardrail) -> None:
    log, audit = tmp_path / "log", tmp_path / "audit"
    logged(log, guardrail, examples(40), hours=12)
    calibrail.audit_sample(guardrail, log, audit, per_day=8)
    assert len(audited_labels(audit, guardrail.config)) == 8
    with pytest.raises(InputError, match="about another guardrail"):
        audited_labels(audit, frozen(0.3).config)
    rows = lines(audit / "draws.jsonl")
    rows[4]["flagged"] = not rows[4]["flagged"]
    write(audit / "draws.jsonl", rows)
    with pytest.raises(DataError, match=r"line 5: the guardrail's decision on a score"):
        audited_labels(audit, guardrail.config)
