from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.answers import rows, write
from tests.cli.test_commands import COLUMN
from tests.command_line import calibrail


@pytest.fixture(scope="module")
def guardrail(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    answers = write(folder / "answers.jsonl", rows(300))
    assert calibrail("calibrate", answers, *COLUMN, "-o", folder / "run").returncode == 0
    assert calibrail("export", folder / "run", "-o", folder / "g.json").returncode == 0
    return folder / "g.json"


def test_select_releases_prints_and_writes(guardrail: Path, tmp_path: Path) -> None:
    batch = write(tmp_path / "batch.jsonl", [*rows(100, seed=1, prefix="New "), "{broken"])
    done = calibrail(
        "select", guardrail, batch, "--fdr", 0.3, "-o", tmp_path / "released.jsonl", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "released.jsonl").open()]
    assert len(lines) == 201
    n = sum(line["released"] for line in lines)
    assert n > 0 and f"May be released: {n} of 201 answers" in done.stdout
    # What ends the text holds the bound and what was asked.
    said = " ".join(done.stdout.split())
    assert (
        f"May be released {n} of 201 answers; Hallucinated, over many batches at most 30%" in said
    )
    assert "of the released answers are hallucinated" in said and "Nothing is released" not in said
    # A long path goes on in the next line.
    said = "".join(done.stdout.split())
    assert f"Releasetheanswersthat{tmp_path / 'released.jsonl'}marks" in said
    nothing = {"released": False, "score": None, "p_value": None}
    nothing |= {"column": "detector", "column_value": None}
    assert lines[-1] == {"id": "row-201", **nothing, "row": 201}
    assert [line["row"] for line in lines] == list(range(1, 202))
    cutoff = max(line["p_value"] for line in lines if line["released"])
    passed = [line["p_value"] <= cutoff for line in lines if line["p_value"] is not None]
    assert sum(passed) == n
    assert "not judged, and so not released: 1 answer" in done.stderr


def test_select_as_json_and_with_nothing_to_release(guardrail: Path, tmp_path: Path) -> None:
    batch = write(tmp_path / "batch.jsonl", rows(100, seed=1, prefix="New "))
    done = calibrail("select", guardrail, batch, "--fdr", 0.0001, "--json")
    result = json.loads(done.stdout)
    assert done.returncode == 0 and result["n_released"] == 0
    assert result["schema"] == "calibrail.selection/1"
    assert result["n_calibration_for_one"] == 1_999_999
    for row in result["table"]:
        assert row["most_hallucinated"] <= row["released"] <= result["n"] == 200
    told = calibrail("select", guardrail, batch, "--fdr", 0.0001)
    assert "1,999,999 are needed" in " ".join(told.stdout.split())


def test_the_method_is_chosen_and_recorded(guardrail: Path, tmp_path: Path) -> None:
    alone = [{**row, "group": None} for row in rows(100, seed=1, prefix="New ")]
    batch = write(tmp_path / "batch.jsonl", alone)
    released = {}
    for method in ("auto", "bh", "both-classes"):
        done = calibrail("select", guardrail, batch, "--fdr", 0.3, "--method", method, "--json")
        result = json.loads(done.stdout)
        released[result["method"]] = result["n_released"]
        assert {row["method"]: row["released"] for row in result["methods"]}.items() >= (
            released.items()
        )
    assert list(released) == ["storey", "bh", "both-classes"]
    done = calibrail("select", guardrail, batch, "--fdr", 0.3, "--group-column", "question")
    said = " ".join(done.stdout.split())
    assert "200 answers of the batch share a group" in said
    # No file says yet which answers they are.
    assert "May be released: " in said and "Nothing is released yet" in said
    done = calibrail("select", guardrail, batch, "--fdr", 0.3, "--method", "by")
    assert done.returncode == 2
    assert "--method must be one of auto, bh, storey, both-classes; got 'by'" in done.stderr


def test_select_names_a_bad_rate(guardrail: Path, tmp_path: Path) -> None:
    batch = write(tmp_path / "batch.jsonl", rows(3))
    done = calibrail("select", guardrail, batch, "--fdr", 1.5)
    assert done.returncode == 2 and "fdr must lie in (0, 1); got 1.5" in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--by", "kind"), "By kind"),
        (("--clustered",), "counts once"),
        (("--beta", 0.2), "Pass, review, flag"),
        (("--risk", "recall>=0.5", "--risk", "fpr<=0.6"), "The risks on the test set"),
    ],
)
def test_every_further_promise_is_printed_and_drawn(
    tmp_path: Path, options: tuple[object, ...], said: str
) -> None:
    items = [
        {**item, "kind": "<b>odd</b>" if i % 4 < 2 else "even"} for i, item in enumerate(rows(150))
    ]
    answers = write(tmp_path / "answers.jsonl", items)
    done = calibrail("calibrate", answers, *COLUMN, "--alpha", 0.2, *options, "-o", tmp_path / "r")
    assert done.returncode in (0, 3, 4), done.stderr
    assert said in done.stdout
    page = (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
    assert "Try another threshold" in page and "<b>odd</b>" not in page
    exported = calibrail("export", tmp_path / "r", "-o", tmp_path / "g.json")
    assert exported.returncode == 0, exported.stderr
    checked = calibrail("check", tmp_path / "g.json", answers, "-o", tmp_path / "d.jsonl")
    assert checked.returncode == 0, checked.stderr
    outcomes = {json.loads(line)["outcome"] for line in (tmp_path / "d.jsonl").open()}
    assert outcomes == ({"pass", "review", "flag"} if "--beta" in options else {"pass", "flag"})
