"""Does ``calibrail versus`` print what it read, the verdict, its exit code, and what to do?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command_line import calibrail
from tests.pipelines.test_versus import answers, apart, files


@pytest.mark.parametrize(
    ("rates", "more", "code", "says"),
    [
        ((0.1, 0.4), (), 0, "Separated: a.jsonl is better"),
        ((0.4, 0.1), (), 3, "Separated: a.jsonl is worse"),
        ((0.2, 0.2), (), 4, "Not separated yet: it cannot be told which is better"),
        ((0.2, 0.2), ("--margin", "0.3"), 0, "As allowed: a.jsonl is at most 30 points worse"),
        ((0.5, 0.1), ("--margin", "0.1"), 3, "Separated: a.jsonl is worse"),
    ],
)
def test_the_exit_code_is_the_verdict(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rates: tuple[float, float],
    more: tuple[str, ...],
    code: int,
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = files(Path(), *answers(rates=rates))
    done = calibrail("versus", *paths, "--judge-column", "judge", *more, "-o", "run")
    words = " ".join(done.stdout.split())
    assert done.returncode == code and words.startswith(says)
    assert "400 questions paired by id; people labelled both" in words
    assert "Next: " in words and "wrote run/versus.json" in done.stderr
    # More labels are asked for with the whole command, on files that do not exist yet.
    anew = "calibrail versus NEW-A NEW-B --judge-column judge -o run-new"
    assert (anew in words) == ("Label both answers" in words)
    page = Path("run/report.html").read_text("utf-8")
    assert "a.jsonl against b.jsonl</b> on <b><bdi>a.jsonl, b.jsonl</bdi>" in page
    content = json.loads(Path("run/versus.json").read_text("utf-8"))
    assert content["schema"] == "calibrail.versus/1"
    again = calibrail("versus", *paths, "--judge-column", "judge", *more, "-o", "run", "--json")
    assert json.loads(again.stdout)["difference"] == content["difference"]
    other = calibrail("versus", *paths, *more, "-o", "run")
    assert other.returncode == 4
    assert code == 4 or "looked at before" in " ".join(other.stdout.split())


def test_looks_stand_beside_the_data_whichever_is_a(tmp_path: Path) -> None:
    paths = files(tmp_path, *answers(rates=(0.1, 0.4)), names=("d", "c"))
    judged = ("--judge-column", "judge")
    # Without the judge it is another question, in either order.
    asked = [(*paths, *judged), (*paths[::-1], *judged), paths, paths[::-1]]
    codes = [calibrail("versus", *how, "-o", tmp_path / "run").returncode for how in asked]
    assert codes == [0, 3, 4, 4]
    assert [path.name for path in tmp_path.glob("*.looks.json")] == ["c.looks.json"]


def test_nothing_is_written_over_what_is_read(tmp_path: Path) -> None:
    paths = files(tmp_path, *answers())
    done = calibrail("versus", *paths, "-o", paths[0])
    assert done.returncode == 1 and "is a file" in done.stderr


def test_two_labels_of_one_answer_leave_its_pair_out(tmp_path: Path) -> None:
    one, other = answers()
    at = next(row for row in one if row["human"] is not None)
    found = []
    for more in ([], [at], [{**at, "human": 1 - at["human"]}]):
        paths = files(tmp_path, [*one, *more], other)
        done = calibrail("versus", *paths, "-o", tmp_path / f"run{len(found)}", "--json")
        (tmp_path / "a.looks.json").unlink()
        found.append(json.loads(done.stdout))
    once, twice, unlike = found
    assert once["counts"] == twice["counts"]
    assert unlike["data"]["n_labelled"] == once["data"]["n_labelled"] - 1
    assert [item["n_repeated"] for item in unlike["systems"]] == [2, 1]


def test_labels_stand_in_files_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    inside = calibrail("versus", *files(Path(), *answers(60, (0.1, 0.2), 30)), "-o", "in", "--json")
    paths, labels = apart(Path(), rates=(0.1, 0.2))
    given = [
        word for path in files(Path(), *labels, names=("la", "lb")) for word in ("--labels", path)
    ]
    done = calibrail("versus", *paths, *given, "-o", "run")
    found = json.loads(Path("run/versus.json").read_text("utf-8"))
    assert found["counts"] == json.loads(inside.stdout)["counts"] and done.returncode == 4
    anew = "calibrail versus NEW-A NEW-B --labels NEW-LABELS-A --labels NEW-LABELS-B -o run-new"
    assert anew in " ".join(done.stdout.split())
    # Looks stand beside the answers, whoever has the labels.
    assert [path.name for path in Path().glob("bare*.looks.json")] == ["bare-a.looks.json"]
    refused = calibrail("versus", *paths, *given[:2], "-o", "other")
    said = " ".join(refused.stderr.split())
    assert refused.returncode == 1 and "may be of bare-a.jsonl or of bare-b.jsonl" in said
    assert "give a file of labels for each (--labels LABELS-A --labels LABELS-B)" in said
