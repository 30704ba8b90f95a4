"""Does a person get from files as they come to decisions, by the command line alone?"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import calibrail
from calibrail.cli import app
from calibrail.data.reading import read
from calibrail.errors import CalibrailError


def rows(n: int, start: int = 0) -> list[dict[str, Any]]:
    """Return summaries in which 1 means consistent; every second one has words of its own."""
    return [
        {
            "doc": [{"title": f"T{i}", "text": f"fact{i} one two three four five"}],
            "summary": f"fact{i} one {'invented' if i % 2 else 'two'} four",
            "meta": {"verdict": "ok" if i % 2 == 0 else "bad"},
        }
        for i in range(start, start + n)
    ]


def invoke(*words: object, given: bytes | None = None) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], input=given)


def test_from_a_folder_to_decisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path("data")
    folder.mkdir()
    for name, start in (("a.json", 0), ("b.json", 60)):
        (folder / name).write_text(json.dumps({"examples": rows(60, start)}))
    labels = ("--label-column", "meta.verdict", "--label-map", "bad=1,ok=0")
    made = invoke("calibrate", folder, "--score", "novelty", "--alpha", "0.2", *labels, "-o", "run")
    assert made.exit_code == 0, made.output
    report = json.loads(Path("run/report.json").read_text())
    assert report["data"]["n_examples"] == 120
    assert [item["name"] for item in report["data"]["reading"]["files"]] == ["a.json", "b.json"]
    assert invoke("export", "run", "-o", "g.json").exit_code == 0
    # Fresh answers of the same making need no option, and come through a pipe as well as in files.
    fresh = json.dumps({"examples": rows(40, 200)}).encode()
    Path("c.json.gz").write_bytes(gzip.compress(fresh))
    Path("d.json").write_text(json.dumps(rows(20, 300)))
    for words, n, given in ((["-"], 40, fresh), (["c.json.gz", "d.json"], 60, None)):
        result = invoke("certify", "g.json", *words, "--max-fpr", "0.5", "--json", given=given)
        content = json.loads(result.stdout)
        assert content["coverage"]["n"] + content["fpr"]["n"] == n, result.output
        assert content["coverage"]["count"] == n // 2 and content["fpr"]["count"] == 0
        checked = invoke("check", "g.json", *words, "-o", "out.jsonl", given=given)
        assert checked.exit_code == 0, checked.output
        assert "as the calibration data was" not in checked.stderr
        decisions = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
        assert [item["outcome"] for item in decisions] == ["pass", "flag"] * (n // 2)
        assert len({item["id"] for item in decisions}) == n


def test_what_cannot_be_read_says_what_would_read_it(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    lines = [{**row, "label": "yes" if row["meta"]["verdict"] == "ok" else "no"} for row in rows(9)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = invoke("calibrate", path, "--score", "novelty", "-o", tmp_path / "run")
    assert isinstance(result.exception, CalibrailError)
    assert "'yes' can mean either class: --positive yes if it means hallucinated" in str(
        result.exception
    )
    for wrong, reason in (
        (("--label-map", "yes=maybe"), "label_map must give each value 1 (hallucinated), 0"),
        (("--label-map", "yes=1,no=0", "--positive", "no"), "label_map or positive, not both"),
        (("--label-column", "meta.nothing"), "no label column 'meta.nothing'"),
        (("--map", "response=no.where"), "no column 'no.where' to map to response"),
        (("--annotators", "some"), "annotators must be one of majority, any, all"),
    ):
        result = invoke("calibrate", path, *wrong, "-o", tmp_path / "run")
        assert isinstance(result.exception, CalibrailError) and reason in str(result.exception)


def test_one_list_of_a_file_calibrates_and_another_certifies(tmp_path: Path) -> None:
    path, run, frozen = tmp_path / "both.json", tmp_path / "run", tmp_path / "g.json"
    lists = {"train": rows(120), "test": rows(60, 500)}
    path.write_text(json.dumps({"version": "1", **lists}))
    labels = ("--label-column", "meta.verdict", "--label-map", "bad=1,ok=0")
    refused = invoke("doctor", path, *labels)
    assert "several lists of rows: train, test" in str(refused.exception)
    named = str(refused.exception).rpartition("choose one with ")[2].split()
    assert named == ["--reader-option", "list=train"]
    assert "Read as hallucinated  bad (60)" in invoke("doctor", path, *labels, *named).output
    words = ("--score", "novelty", "--alpha", "0.2", "-o", run)
    assert invoke("calibrate", path, *labels, *named, *words).exit_code == 0
    assert invoke("export", run, "-o", frozen).exit_code == 0
    # What was named stays so; the list of another name is new data.
    for chosen, freshness in (((), "calibration data"), (("list=test",), "new")):
        given = [word for option in chosen for word in ("--reader-option", option)]
        result = invoke("certify", frozen, path, *given, "--max-fpr", "0.5", "--json")
        assert json.loads(result.stdout)["freshness"] == freshness


def test_check_says_which_options_it_takes_up_and_those_given_win(tmp_path: Path) -> None:
    path, run, frozen = tmp_path / "a.jsonl", tmp_path / "run", tmp_path / "g.json"
    lines = [
        {"grounds": row["doc"], "ours": row["summary"], "label": i % 2, "theirs": "one"}
        for i, row in enumerate(rows(80))
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    named = ("--map", "contexts=grounds,response=ours")
    made = invoke("calibrate", path, "--score", "novelty", "--alpha", "0.2", *named, "-o", run)
    assert made.exit_code == 0 and invoke("export", run, "-o", frozen).exit_code == 0
    words = ("check", frozen, path, "-o", tmp_path / "out.jsonl")
    told = "read with --map contexts=grounds,response=ours, as the calibration data was"
    result = invoke(*words)
    assert result.exit_code == 0 and told in result.stderr and "40 flag" in result.output
    other = invoke(*words, "--map", "contexts=grounds,response=theirs")
    assert other.exit_code == 0 and "read with" not in other.stderr and "80 pass" in other.output


EXAMPLES = [
    {"id": e.id, "question": e.question, "contexts": e.contexts, "response": e.response}
    | {"label": e.label, "group": e.group}
    for e in read("example:facts")
]
PIPED = "".join(f"{json.dumps(row)}\n" for row in EXAMPLES).encode()


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, list[object]]:
    """Return the same 596 grouped answers as one file, a folder, several files and a table."""
    lines = PIPED.decode().splitlines(keepends=True)
    whole, folder, table = tmp_path / "all.jsonl", tmp_path / "folder", tmp_path / "all.parquet"
    whole.write_text("".join(lines))
    folder.mkdir()
    files = [folder / "a.jsonl", folder / "b.jsonl"]
    for file, part in zip(files, (lines[:300], lines[300:]), strict=True):
        file.write_text("".join(part))
    pq.write_table(pa.Table.from_pylist(EXAMPLES), table)
    return {"file": [whole], "folder": [folder], "files": [*files], "table": [table], "pipe": ["-"]}


@pytest.mark.parametrize(
    ("options", "n", "said"),
    [
        (("--limit", 150), 150, "Only the first 150 rows of the source were read (--limit)"),
        (("--sample", 150), 134, "134 rows drawn at random (seed 0) from the source's 596 rows"),
        (
            ("--sample", 150, "--sample-seed", 1, "--limit", 400),
            152,
            "152 rows drawn at random (seed 1) from the first 400 rows of the source",
        ),
        (("--sample", 5000, "--limit", 596), 596, None),
    ],
)
def test_a_part_is_the_same_from_every_source(
    sources: dict[str, list[object]],
    tmp_path: Path,
    options: tuple[object, ...],
    n: int,
    said: str | None,
) -> None:
    table = tmp_path / "s.parquet"
    for data in sources.values():
        result = invoke("score", *data, "--score", "novelty", *options, "-o", table, given=PIPED)
        told = " ".join(result.output.split())
        assert ("(--" in told) == (said is not None) and (said or "") in told, told
        assert pq.read_table(table).num_rows == n


def test_every_command_reads_a_part_and_says_so(
    sources: dict[str, list[object]], tmp_path: Path
) -> None:
    part = ("--sample", 150)
    said = "134 rows drawn at random (seed 0) from the source's 596 rows"
    detector, folder = ("--score", "novelty", *part), ("-o", tmp_path / "run")
    calibrail.calibrate("example:facts", "novelty", alpha=0.3).freeze().save(tmp_path / "g.json")
    for words in (
        ("calibrate", *sources["file"], *detector, "--alpha", 0.3, *folder),
        ("compare", "-", *detector, "--score", "rouge_l", "--alpha", 0.3, *folder),
        ("audit", *sources["files"], *detector, "--no-geometry", *folder),
        ("check", tmp_path / "g.json", "-", *part, "-o", tmp_path / "d.jsonl"),
    ):
        told = " ".join(invoke(*words, given=PIPED).output.split())
        assert said in told, told
        content = json.loads(invoke(*words, "--json", given=PIPED).stdout)
        assert content.get("checked", content.get("data", {}).get("n_examples")) == 134
