"""Is each answer drawn with the probability that is written down, from what was known before?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import calibrail
from calibrail import Guardrail
from calibrail.conformal import SequentialTest
from calibrail.data.example import Example
from calibrail.errors import DataError, InputError, ModelError
from calibrail.labelling import sampling
from calibrail.labelling.folder import LabelFolder
from calibrail.labelling.ledger import Order
from calibrail.labelling.replay import replay
from calibrail.options import Drawing
from calibrail.report.documents.label import label_document
from tests.labelling.rows import frozen, label_some, lines, traces, truth, write

ACTIVE = Drawing("active", floor=0.2)


@pytest.fixture(scope="module")
def guardrail() -> Guardrail:
    return frozen()


def draws_of(folder: Path) -> list[dict[str, object]]:
    return lines(folder / "draws.jsonl")


def test_active_draws_are_reproduced_from_the_files_alone(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    asked = dict(guardrail=guardrail, max_fpr=0.55, drawing=ACTIVE)
    with calibrail.label(traces(300), tmp_path, **asked) as session:
        label_some(session, "ada", 40)
        said = session.counts("ada")
    draws = draws_of(tmp_path)
    least = np.where([line["flagged"] for line in draws], *ACTIVE.floors)
    share = np.array([line["probability"] for line in draws])
    assert (share >= least - 1e-12).all() and (share <= 1).all() and len(set(share)) > 10
    order = Order(0)
    lots = [order.lot("labelled", line["digest"]) < line["probability"] for line in draws]
    assert lots == [line["handed_out"] for line in draws]
    assert sum(lots) == 40 < len(draws) == said.drawn
    given = {line["order"]: line["label"] for line in lines(tmp_path / "labels.jsonl")}
    test = SequentialTest(session.plan.requirement, ACTIVE).update(
        [line["flagged"] for line in draws],
        np.array([given.get(line["order"]) for line in draws], float),
        share,
        [line["guess"] for line in draws],
    )
    folder = LabelFolder(tmp_path)
    with folder.lock():
        folder.refresh()
    assert folder.ledger.test is not None
    assert folder.ledger.test.certifying == test


def test_active_draws_do_not_depend_on_where_a_session_was_cut(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    rows = traces(300)
    asked = dict(guardrail=guardrail, max_fpr=0.55, drawing=ACTIVE, looks=False)
    with calibrail.label(rows, tmp_path / "whole", **asked) as session:
        label_some(session, "ada", 20)
        session.next("ada")
    for n in (1, 6, 2, 11):
        with calibrail.label(rows, tmp_path / "cut", **asked) as session:
            label_some(session, "ada", n)
            session.counts("ada")
            session.next("ada")
    whole, cut = (tmp_path / name / "draws.jsonl" for name in ("whole", "cut"))
    assert whole.read_bytes() == cut.read_bytes()


def test_labels_and_a_judge_move_the_guess(tmp_path: Path, guardrail: Guardrail) -> None:
    rows = traces(400)
    for i, row in enumerate(rows):
        row["judge"] = "fail" if i % 3 == 0 else "pass"
        row["chance"] = 0.9 if i % 3 == 0 else 0.2
    apart = {}
    for judge in ((), "judge", "chance"):
        asked = dict(guardrail=guardrail, max_fpr=0.55, drawing=ACTIVE, judge_column=judge)
        with calibrail.label(rows, tmp_path / str(judge), **asked) as session:
            label_some(session, "ada", 50)
        late = draws_of(tmp_path / str(judge))[-30:]
        by_truth = [
            np.mean([line["guess"] for line in late if truth(line["id"]) == label])
            for label in (0, 1)
        ]
        apart[judge] = by_truth[1] - by_truth[0]
    assert min(apart.values()) > 0.05
    assert min(apart["judge"], apart["chance"]) > apart[()]


def test_a_judge_who_says_nothing_is_named(tmp_path: Path, guardrail: Guardrail) -> None:
    rows = [row | {"judge": ("pass", "fail")[i % 2]} for i, row in enumerate(traces(20))]
    rows[4]["judge"] = "perhaps"
    asked = dict(guardrail=guardrail, max_fpr=0.55, drawing=ACTIVE)
    with pytest.raises(DataError, match="trace 't4' has 'perhaps' in the column 'judge'"):
        calibrail.label(rows, tmp_path, judge_column="judge", **asked)
    with pytest.raises(DataError, match="no column 'jugde'"):
        calibrail.label(rows, tmp_path, judge_column="jugde", **asked)
    rows[4]["judge"] = ""
    with pytest.raises(DataError, match="trace 't4' has no judge's label in the column 'judge'"):
        calibrail.label(rows, tmp_path, judge_column="judge", **asked)
    alike = [row | {"judge": "pass"} for row in traces(20)]
    with pytest.raises(InputError, match=r"'judge' holds 0 for every trace.*name none"):
        calibrail.label(alike, tmp_path, judge_column="judge", **asked)
    with pytest.raises(InputError, match=r"judge_column=.* decides how often"):
        calibrail.label(rows, tmp_path, judge_column="judge", **asked | {"drawing": Drawing()})
    with pytest.raises(InputError, match=r"drawn uniformly.*leave out design='active'"):
        calibrail.label(rows, tmp_path, drawing=ACTIVE)


def judged(n: int, right: bool = True) -> list[dict[str, object]]:
    """Return traces with a judge that is always right, or always wrong."""
    return [row | {"judge": int((truth(str(row["id"])) == 1) == right)} for row in traces(n)]


@pytest.mark.parametrize("right", [True, False])
def test_what_was_done_with_a_judge_is_said_beside_the_verdict(
    tmp_path: Path, guardrail: Guardrail, right: bool
) -> None:
    asked = dict(
        guardrail=guardrail, max_fpr=0.9, min_coverage=0.3, judge_column="judge", looks=False
    )
    with calibrail.label(judged(900, right), tmp_path, **asked) as session:
        # Without --design, a judge's answers are drawn by the design active.
        assert session.plan.drawing == Drawing("active", floor=0.2)
        while not session.counts("ada").decided:
            label_some(session, "ada", 5)
    result = calibrail.certify(tmp_path / "guardrail.json", labels=tmp_path, looks=False)
    assert result.verdict == "certified" and result.sequential is not None
    told = result.sequential["judge"]
    # What its word is worth is learnt: an inverted judge is read the other way round.
    assert (told["said"] > told["unsaid"]) == right
    assert told["labelled"] < told["drawn"] and told["alone"] > 0
    page = repr(label_document(result.to_dict()))
    assert "The judge (column `judge`) labelled nothing." in page
    assert f"{told['labelled']} of {told['drawn']} answers drawn went to people" in page


@pytest.mark.parametrize("label", [None, "nothing"])
def test_a_judge_alone_decides_nothing(
    tmp_path: Path, guardrail: Guardrail, label: str | None
) -> None:
    asked = dict(
        guardrail=guardrail, max_fpr=0.9, min_coverage=0.3, judge_column="judge", looks=False
    )
    with calibrail.label(judged(900), tmp_path, **asked) as session:
        if label is None:
            # People could tell of no answer.
            while (task := session.next("ada")) is not None:
                session.put("ada", task.order, None)
        else:
            session.next("ada")
    sequential = calibrail.certify(None, labels=tmp_path, looks=False).sequential
    assert sequential is not None and sequential["verdict"] == "inconclusive"
    assert sequential["judge"]["alone"] is None


@pytest.mark.parametrize("design", ["uniform", "active"])
def test_whole_groups_are_drawn_whole_and_counted_whole(
    tmp_path: Path, guardrail: Guardrail, design: str
) -> None:
    rows = traces(120, groups=40)
    drawing = Drawing(design, whole_groups=True)
    with calibrail.label(
        rows, tmp_path, guardrail=guardrail, max_fpr=0.55, drawing=drawing
    ) as session:
        for _ in range(10):
            label_some(session, "ada", 1)
            assert session.counts("ada").counted % 3 == 0
    draws = draws_of(tmp_path)
    assert len(draws) % 3 == 0
    for first in range(0, len(draws), 3):
        unit = draws[first : first + 3]
        assert len({(line["unit"], line["group"], line["of"]) for line in unit}) == 1
    assert [line["unit"] for line in draws[::3]] == list(range(1, len(draws) // 3 + 1))


def test_a_group_that_a_crash_tore_is_drawn_to_its_end(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    rows, drawing = traces(60, groups=15), Drawing(whole_groups=True)
    asked = dict(guardrail=guardrail, max_fpr=0.55, drawing=drawing)
    with calibrail.label(rows, tmp_path, **asked) as session:
        label_some(session, "ada", 9)
    path = tmp_path / "draws.jsonl"
    whole = path.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:10]) + b'{"order": 11, "uni')
    with calibrail.label(rows, tmp_path, **asked) as session:
        assert session.torn == ("draws.jsonl",)
        label_some(session, "ada", 3)
    assert path.read_bytes() == whole


def test_near_copies_of_earlier_answers_are_passed_over_and_counted(tmp_path: Path) -> None:
    rows = traces(30)
    for i in (3, 8, 21):
        copy = dict(rows[i], id=f"t{100 + i}", response=rows[i]["response"].replace(".", " !"))
        rows.append(copy)
    with calibrail.label(rows, tmp_path) as session:
        ids = label_some(session, "ada", 30)
        assert session.next("ada") is None
        assert session.counts("ada").copies == 3
    assert len({int(name[1:]) % 100 for name in ids}) == 30


def test_many_answers_of_one_template_are_all_drawn(tmp_path: Path) -> None:
    """They differ in a word or two, as copies might; a dozen are no copies of one."""
    words = [
        f"{a}{b}" for a in ("ora", "iton", "uval", "emy") for b in ("bra", "dun", "fel", "gim")
    ]
    rows = traces(32)
    for row, word in zip(rows, words, strict=False):
        note = "the parcel was packed in our warehouse and leaves it by the usual service today"
        same = {"question": "Was it sent?", "contexts": ["A note."]}
        row |= same | {"response": f"Yes, the {word} one was sent, {note}."}
    with calibrail.label(rows, tmp_path) as session:
        assert len(set(label_some(session, "ada", 32))) == 32 and session.counts("ada").copies == 0


def test_copies_word_for_word_are_one_answer_under_any_id(tmp_path: Path) -> None:
    rows = traces(10) + [dict(row, id=f"u{i}") for i, row in enumerate(traces(10))]
    with calibrail.label(rows, tmp_path) as session:
        assert sorted(label_some(session, "ada", 10)) == [f"t{i}" for i in range(10)]
        assert session.next("ada") is None


@pytest.mark.parametrize("whole_groups", [False, True])
def test_a_group_spelt_in_several_ways_is_drawn_once(
    tmp_path: Path, guardrail: Guardrail, whole_groups: bool
) -> None:
    rows = traces(60)
    for number, row in enumerate(rows):
        name = ("Question {}", "question  {}", "QUESTION\u00a0{}")[number % 3]
        row["group"] = name.format(number // 3)
    asked = dict(guardrail=guardrail, max_fpr=0.5, drawing=Drawing(whole_groups=whole_groups))
    with calibrail.label(rows, tmp_path, **asked, looks=False) as session:
        assert len(session.hand_out("ada", 100)) == (60 if whole_groups else 20)
    assert {draw["unit"] for draw in draws_of(tmp_path)} == {*range(1, 21)}
    assert replay(tmp_path).plan.one_spelling
    # What was begun before goes on as it was: each spelling by itself.
    one, other = Example(group="Q1"), Example(group="q 1")
    assert Order(0).unit(one) != Order(0).unit(other)
    assert Order(0, one_spelling=True).unit(one) == Order(0, one_spelling=True).unit(other)


@pytest.mark.parametrize("whole_groups", [False, True])
def test_more_passes_over_the_traces_give_the_order_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole_groups: bool
) -> None:
    rows = traces(90, groups=45 if whole_groups else None)
    copy = dict(rows[7], id="t777", response=rows[7]["response"].replace(".", " !"))
    source = write(tmp_path / "traces.jsonl", [*rows, copy | {"group": "alone"}])
    orders = []
    for most in (1000, 10):
        monkeypatch.setattr(sampling, "POOL", most)
        folder, ids, left = tmp_path / str(most), list[str](), True
        drawing = Drawing(whole_groups=whole_groups)
        while left:
            # Every session begins with what the last one left.
            with calibrail.label(source, folder, drawing=drawing) as session:
                for _ in range(30):
                    if left := session.next("ada") is not None:
                        ids += label_some(session, "ada", 1)
                copies = session.counts("ada").copies
        orders.append((ids, copies))
    assert orders[0] == orders[1]
    assert len(set(ids)) == len(ids) and 89 <= len(ids) <= 90 and 1 <= copies <= 2


def test_nothing_is_drawn_while_the_detector_fails(
    tmp_path: Path, guardrail: Guardrail, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no connection")

    with calibrail.label(traces(40), tmp_path, guardrail=guardrail, max_fpr=0.5) as session:
        with monkeypatch.context() as broken:
            broken.setattr(type(guardrail.score), "score", fail)
            with pytest.raises(ModelError, match=r"no connection.*; nothing was drawn"):
                session.next("ada")
        assert not (tmp_path / "draws.jsonl").exists()
        assert len(label_some(session, "ada", 3)) == 3
