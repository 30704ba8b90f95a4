"""Is the verdict of a folder of labels the same from Python and the command line, every time?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import calibrail
from calibrail import Guardrail
from calibrail.errors import DataError, InputError
from calibrail.pipelines.certify_labels import Certification, write_verdict
from tests import command_line
from tests.labelling.rows import frozen, lines, traces, truth, write


@pytest.fixture(scope="module")
def guardrail() -> Guardrail:
    return frozen()


#: What the guardrail on ``suspicion`` keeps on these traces, and what it does not.
EASY = {"max_fpr": 0.9, "min_coverage": 0.4}
HARD = {"max_fpr": 0.05, "min_coverage": 0.9}


def labelled(
    folder: Path,
    guardrail: Guardrail | Path,
    n: int,
    limits: dict[str, float] = EASY,
    rows: list[dict[str, Any]] | None = None,
    **more: Any,
) -> Path:
    """Label n answers truthfully."""
    rows = traces(300) if rows is None else rows
    with calibrail.label(rows, folder, guardrail=guardrail, **limits, **more) as session:
        for _ in range(n):
            task = session.next("ada")
            assert task is not None
            session.put("ada", task.order, truth(task.id))
    return folder


def test_certified_rejected_and_open_with_their_exit_codes(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    file = tmp_path / "g.json"
    guardrail.save(file)
    cases = [("certified", EASY, 120, 0), ("rejected", HARD, 60, 3), ("inconclusive", EASY, 9, 4)]
    for verdict, limits, n, code in cases:
        folder = labelled(tmp_path / verdict, file, n, limits, seed=n)
        result = calibrail.certify(file, labels=folder)
        assert result.verdict == verdict
        done = command_line.calibrail("certify", file, "--labels", folder, "--json")
        assert done.returncode == code, done.stderr
        content = json.loads(done.stdout)
        # Both know one file of looks, and each is the first one in it.
        assert (content["look"]["number"], content["look"]["level"]) == (1, 0.0375)
        assert content == result.to_dict()
        assert (folder / "verdict.json").read_text(encoding="utf-8") == done.stdout
        assert verdict in (folder / "index.html").read_text(encoding="utf-8").lower()
        (tmp_path / "g.looks.json").unlink()


def test_what_readers_of_every_certificate_know_is_there(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    content = calibrail.certify(guardrail, labels=labelled(tmp_path, guardrail, 200)).to_dict()
    rows = lines(tmp_path / "draws.jsonl")
    assert content["schema"] == "calibrail.certificate/1"
    hallucinated = [row["flagged"] for row in rows if truth(row["id"])]
    assert content["coverage"]["n"] == len(hallucinated)
    assert content["coverage"]["count"] == sum(hallucinated)
    assert content["coverage_at_least"] >= content["min_coverage"] == 0.4
    assert content["fpr_at_most"] <= content["max_fpr"] == 0.9
    assert content["needed"] == {"hallucinated": 0, "faithful": 0}
    found = content["sequential"]
    assert found["n_drawn"] == found["n_counted"] == len(rows) == 200
    assert 0 < found["decided"]["labelled"] < 200
    assert found["expect"]["unforeseeable"] == "decided"
    assert found["annotators"] == {"ada": 200}
    assert len(found["course"]["labelled"]) == len(found["course"]["coverage"]["lower"]) <= 40
    assert found["course"]["labelled"][-1] == 200


@pytest.mark.painted
def test_the_same_files_give_the_same_bytes(tmp_path: Path, guardrail: Guardrail) -> None:
    folder, looks = labelled(tmp_path / "labels", guardrail, 40), tmp_path / "looks.json"
    written = []
    for _ in range(2):
        write_verdict(calibrail.certify(guardrail, labels=folder, looks=looks), folder)
        written.append([(folder / name).read_bytes() for name in ("verdict.json", "index.html")])
    # A line that a crash tears and that is cut off is said, once.
    with (folder / "labels.jsonl").open("a", encoding="utf-8") as stream:
        stream.write('{"id": "t1", "lab')
    torn = calibrail.certify(guardrail, labels=folder, looks=looks)
    assert torn.torn == ("labels.jsonl",)
    write_verdict(torn, folder)
    assert (folder / "verdict.json").read_bytes() == written[0][0]
    # Elsewhere, without the traces, what was set aside, or a model.
    (folder / "pool.jsonl").unlink()
    moved = folder.rename(tmp_path / "moved")
    write_verdict(calibrail.certify(guardrail, labels=moved, looks=looks), moved)
    written.append([(moved / "verdict.json").read_bytes(), written[0][1]])
    assert written[0] == written[1] == written[2]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"max_fpr": 0.5}, "max_fpr was 0.9"),
        ({"min_coverage": 0.3}, "min_coverage was 0.4"),
        ({"confidence": 0.8}, "confidence was 0.95"),
        ({"risks": ["fpr<=0.5"]}, "leave them out"),
        ({"by": "topic"}, "leave out by"),
        ({"source": "more.jsonl"}, "leave out the data"),
    ],
)
def test_another_question_after_the_labels_is_refused(
    tmp_path: Path, guardrail: Guardrail, given: dict[str, Any], said: str
) -> None:
    folder = labelled(tmp_path, guardrail, 5)
    with pytest.raises(InputError, match=said):
        calibrail.certify(guardrail, labels=folder, **given)
    assert calibrail.certify(guardrail, labels=folder, max_fpr=0.9, min_coverage=0.4)


def test_another_guardrail_another_flag_and_labels_for_a_threshold_are_refused(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    folder = labelled(tmp_path / "labels", guardrail, 12)
    with pytest.raises(InputError, match="about another guardrail"):
        calibrail.certify(frozen(0.1), labels=folder)
    rows = lines(folder / "draws.jsonl")
    rows[6]["flagged"] = not rows[6]["flagged"]
    write(folder / "draws.jsonl", rows)
    with pytest.raises(DataError, match=r"draws\.jsonl, line 7: the guardrail's decision"):
        calibrail.certify(guardrail, labels=folder)
    calibrail.label(traces(20), tmp_path / "other").close()
    with pytest.raises(InputError, match="for a threshold, not about a guardrail"):
        calibrail.certify(guardrail, labels=tmp_path / "other")
    with pytest.raises(DataError, match=r"session\.json"):
        calibrail.certify(guardrail, labels=tmp_path / "nothing")


@pytest.mark.parametrize("kept", ["in the file", "in the process", "nowhere"])
def test_another_seed_on_the_same_answers_is_no_second_chance(
    tmp_path: Path, guardrail: Guardrail, kept: str
) -> None:
    """Labels that are begun where looks are kept leave an error; elsewhere they take it all."""
    looks, spends = tmp_path / "looks.json", kept != "nowhere"
    begun = {"in the file": {"looks": looks}, "in the process": {}, "nowhere": {"looks": False}}

    def look(name: str, n: int, **more: Any) -> Certification:
        folder = tmp_path / name
        done = len(lines(folder / "labels.jsonl")) if folder.exists() else 0
        labelled(folder, guardrail, n - done, **more, **begun[kept])
        return calibrail.certify(guardrail, labels=folder, looks=looks)

    def level(found: Certification) -> float:
        assert found.look is not None
        return float(found.look["level"])

    # Going on is one look, however often.
    assert look("first", 5, seed=0).verdict == "inconclusive"
    assert look("first", 10, seed=0).looks == ()
    first = look("first", 200, seed=0)
    assert (first.verdict, first.looks) == ("certified", ())
    second = look("second", 200, seed=1)
    assert second.looks[0]["n"] < 200
    assert second.sequential["verdict"] == "certified"
    assert second.verdict == ("certified" if spends else "inconclusive")
    assert (level(first), level(second)) == ((0.0375, 0.009375) if spends else (0.05, 0.0))
    assert spends or "no look at this guardrail is left" in second.certificate.reason
    # The first one fell before the second was begun, and stands, however far it goes on.
    assert look("first", 200, seed=0).to_dict() == first.to_dict()
    assert look("first", 220, seed=0).verdict == "certified"
    # Other answers have what is left, too.
    fresh = [{**row, "id": f"n{row['id'][1:]}"} for row in traces(1400)[600:]]
    for row in fresh:
        row["response"] = f"Of late {row['response']} Nothing else is written on it."
    other = look("fresh", 200, seed=1, rows=fresh)
    assert [look["shared"] for look in other.looks] == [0.0, 0.0]
    assert level(other) == (0.00234375 if spends else 0.0)
    assert other.verdict == ("certified" if spends else "inconclusive")
    # Whichever of them is wrong, all of them together are so with no more than one.
    assert sum(map(level, (first, second, other))) <= 0.05


def test_held_out_answers_that_were_labelled_before_are_known_again(
    tmp_path: Path, guardrail: Guardrail
) -> None:
    looks = tmp_path / "looks.json"
    folder = labelled(tmp_path / "labels", guardrail, 120)
    assert calibrail.certify(guardrail, labels=folder, looks=looks).verdict == "certified"
    rows = [{**row, "label": truth(row["id"])} for row in traces(300)]
    held_out = calibrail.certify(guardrail, rows, **EASY, looks=looks)
    # What the labels left of the error is for these.
    assert held_out.looks and held_out.look["level"] == pytest.approx(0.009375)


def test_what_holds_the_verdict_up_is_said(tmp_path: Path, guardrail: Guardrail) -> None:
    with calibrail.label(traces(200), tmp_path, guardrail=guardrail, **EASY, shared=0.5) as session:
        session.skip("ada", session.next("ada").order)
        for name in ("ada", "bob"):
            for _ in range(12):
                task = session.next(name)
                label = truth(task.id) if name == "ada" or task.order % 4 else None
                session.put(name, task.order, label)
    result = calibrail.certify(guardrail, labels=tmp_path)
    content = result.to_dict()["sequential"]
    assert content["held_up"]["final"] > 0 and content["n_skipped"] == 1
    assert content["agreement"]["n"] + content["agreement"]["unsure"] > 2
    said = " ".join(result.warnings)
    assert "do not count yet" in said and "skipped" in said
    page = write_verdict(result, tmp_path).read_text(encoding="utf-8")
    assert "Cohen" in page and "kappa" in page


def test_unsure_answers_count_against_either_verdict(tmp_path: Path, guardrail: Guardrail) -> None:
    with calibrail.label(traces(200), tmp_path, guardrail=guardrail, **EASY) as session:
        for _ in range(60):
            task = session.next("ada")
            session.put("ada", task.order, None)
    result = calibrail.certify(guardrail, labels=tmp_path)
    assert result.verdict == "inconclusive"
    assert result.sequential["n_unsure"] == result.sequential["labels"]["unsure"] == 60
    assert any("unsure" in text for text in result.warnings)
    assert result.certificate.coverage.estimate is None
    assert "cannot be foreseen" in write_verdict(result, tmp_path).read_text(encoding="utf-8")
