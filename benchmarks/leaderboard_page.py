"""What do published detectors, and ours, cost at the coverage that is needed?

``make leaderboard`` compares them on labelled data and writes ``docs/leaderboard``. Comparisons are
kept under ``runs/leaderboard``; that of a data set is made again when its file, its command or
calibrail's version has changed, or when its folder was deleted. Without ``CALIBRAIL_DATA`` the data
is sought at ``../shared/data``, as the commands on the page name it.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from claim_sets import write_claims
from detectors import DATA, MODEL, Cache, out_of_fold
from leaderboard import LeaderboardRun, leaderboard
from leaderboard.board import Leaderboard
from leaderboard.comparisons import BASE_TESTS
from leaderboard.figures import shipped_svg
from leaderboard_sets import ASSUMED, CLAIMS, COLUMNS, LEARNT, OUT_OF_FOLD, OWN, Set
from ragtruth_f1 import figures
from results import write
from text_sets import write_schemes

import calibrail
from calibrail.data import Example, read
from calibrail.data.sources import digest_files, open_source
from calibrail.data.splits import CALIBRATION
from calibrail.engine import score_examples
from calibrail.evaluation.winner import CHOOSING, Candidate, Candidates, PairTests
from calibrail.models.embeddings import load_encoder
from calibrail.options import ReadOptions
from calibrail.pipelines.compare import ComparisonRun
from calibrail.pipelines.independence import independent
from calibrail.pipelines.loading import Context
from calibrail.scores import build, build_column, parse_spec

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "leaderboard"
#: Seconds in which the page is to be made from files of scores, on two cores.
GOAL = 300


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--columns", type=Path, metavar="FOLDER", help="only scores that files hold, written here"
    )
    parser.add_argument(
        "--committed-own",
        action="store_true",
        help="calibrail's own detectors, which take an hour, as the page has them: no model runs",
    )
    given = parser.parse_args()
    columns: Path | None = given.columns
    only_files = columns is not None or given.committed_own
    needed = {DATA / name for name in ("aggrefact", "faithbench", "frank", "wikibio", "ragtruth")}
    needed |= set() if only_files else {DATA / "halueval", MODEL}
    if missing := sorted(str(path) for path in needed if not path.is_dir()):
        print(f"nothing was made: no {', no '.join(missing)}; CALIBRAIL_DATA names the data")
        return
    output = (PAGE if columns is None else columns).resolve()
    with checkout():
        write_claims(DATA / "aggrefact" / "scores.csv", Path(CLAIMS))
        known = None if only_files else write_out_of_fold()
        run = made(COLUMNS if known is None else (*COLUMNS, *OWN))
        run = with_committed(run) if given.committed_own else run
        run.save(output)
        if columns is None:
            for narrow, name in ((False, "leaderboard"), (True, "leaderboard-narrow")):
                write_schemes(shipped_svg(run.to_dict(), narrow=narrow), name)
        content = supplement(known)
        if given.committed_own:
            content |= {"ragtruth_qa": committed("supplement.json")["ragtruth_qa"]}
        text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False)
        (output / "supplement.json").write_text(text + "\n", encoding="utf-8")
        if known is not None:
            with tempfile.TemporaryDirectory() as folder:
                report_time(Path(folder))


def committed(name: str) -> dict[str, Any]:
    """Return what a file of the page holds as it is."""
    content: dict[str, Any] = json.loads((PAGE / name).read_text(encoding="utf-8"))
    return content


def with_committed(run: LeaderboardRun) -> LeaderboardRun:
    """Return the leaderboard with calibrail's own detectors as the page has them."""
    board = Leaderboard.from_dict(committed("leaderboard.json"))
    own = [item for item in board.data_sets if item.name in {item.name for item in OWN}]
    costs = committed("cost.json")["data_sets"]
    promise = {key: getattr(board, key) for key in ("guarantee", "delta", "confidence")}
    return LeaderboardRun(
        Leaderboard.of(board.title, promise, [*run.board.data_sets, *own]),
        {**run.costs, **{item.name: costs[item.name] for item in own}},
        {**run.pages, **{item.name: PAGE / item.page for item in own if item.page}},
    )


def report_time(folder: Path) -> None:
    """Measure how long the page takes from files of scores, with nothing kept."""
    started = time.perf_counter()
    runs = {item.name: saved(compared(item), item, folder / item.folder) for item in COLUMNS}
    compared_in = time.perf_counter() - started
    merged(runs, COLUMNS).save(folder / "page")
    taken = time.perf_counter() - started
    rows = sum(len(item.columns) for item in COLUMNS)
    write(
        "leaderboard",
        "The leaderboard from files of scores",
        [
            f"{len(COLUMNS)} comparisons of {rows} columns with their pages took "
            f"{compared_in:.0f} s, the leaderboard from them {taken - compared_in:.0f} s: "
            f"{taken:.0f} s in all, where {GOAL} s are the goal. The load of the machine in the "
            f"minute before: {os.getloadavg()[0]:.1f}.",
        ],
        script="benchmarks/leaderboard_page.py",
    )


@contextmanager
def checkout() -> Iterator[None]:
    """Work where the data lies at ``../shared``, so that no page names another place."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        here, shared = Path(name) / "calibrail", Path(name) / "shared"
        (ROOT / "runs" / "leaderboard").mkdir(parents=True, exist_ok=True)
        for link, target in (
            (here / "runs", ROOT / "runs"),
            (shared / "data", DATA),
            (shared / "models", MODEL.parent),
        ):
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(target.resolve())
        os.chdir(here)
        try:
            yield
        finally:
            os.chdir(before)


def made(sets: Sequence[Set]) -> LeaderboardRun:
    """Return the leaderboard of some comparisons, which are kept where nothing has changed."""
    return merged({item.name: kept(item) for item in sets}, sets)


def merged(runs: Mapping[str, Path], sets: Sequence[Set]) -> LeaderboardRun:
    """Return the leaderboard with what is said of every data set and detector."""
    return leaderboard(
        runs,
        shipped={
            f"{item.name}/{column}": 0.5 for item in sets if item.half for column in item.columns
        },
        marks={
            f"{item.name}/{name}" if name else item.name: mark
            for item in sets
            for name, mark in item.marks.items()
        },
        notes={item.name: item.note for item in sets},
    )


def kept(item: Set, **assumed: Any) -> Path:
    """Return the folder of a comparison, made anew unless it is that of the same data."""
    folder = Path(item.folder + "-assumed" * bool(assumed))
    try:
        content = json.loads((folder / "compare.json").read_text(encoding="utf-8"))
        files = open_source(item.path, ReadOptions()).files
        same = content["reproduce"] == described(item).reproduce()
        same = same and content["data"]["sha256"] == digest_files(files)
        same = same and (item.base is None or (folder / BASE_TESTS).exists())
    except (OSError, LookupError, ValueError):
        same = False
    if same:
        print(f"{item.name}: kept in {folder}; delete it to compare again", flush=True)
        return folder
    started = time.perf_counter()
    saved(compared(item, **assumed), item, folder)
    print(f"{item.name}: {time.perf_counter() - started:.0f} s", flush=True)
    return folder


def described(item: Set) -> Context:
    """Return how a comparison can be made again."""
    return Context(command=item.command, text=False)


def compared(item: Set, **assumed: Any) -> ComparisonRun:
    """Compare a data set's detectors."""
    columns = [build_column(name, item.higher) for name in item.columns]
    return calibrail.compare(
        item.path,
        [*item.scores, *columns],
        context=described(item),
        reading=ReadOptions(**item.reading),
        **item.promise,
        **assumed,
    )


def saved(run: ComparisonRun, item: Set, folder: Path) -> Path:
    """Write a comparison and, where its detectors were made of one, how they differ from that."""
    run.save(folder)
    if item.base is not None:
        content = {"paired": {"against_base": against_base(run, item.base)}}
        (folder / BASE_TESTS).write_text(json.dumps(content), encoding="utf-8")
    return folder


def against_base(run: ComparisonRun, base: str) -> list[dict[str, Any]]:
    """Return the comparison's own tests of every detector against one that is named beforehand.

    False alarms at the same coverage, all thresholds set anew in every draw, on calibration answers
    and those that choose.
    """
    report = run.comparison.detectors[0][1]
    samples, promise = independent(run.scored, report.promise, report.requirement, halved=True)
    pairs = zip(run.scored.keys, samples, strict=True)
    everyone = Candidates.on(
        samples[0], [Candidate.of(key, item, item.calibrated(promise)) for key, item in pairs]
    )
    part = (everyone.halves == CHOOSING) | (everyone.split == CALIBRATION)
    tests = PairTests(everyone, part)
    return [
        {"name": name, "against": base, "fpr": tests.difference(name, base).to_dict()}
        for name in run.scored.keys
        if name != base
    ]


def write_out_of_fold() -> tuple[list[Example], Cache]:
    """Write the answers of RAGTruth QA with scores out of fold beside them."""
    examples = list(read("../shared/data/ragtruth"))
    fused = build(parse_spec("fused"))
    table = score_examples(examples, list(fused.members.values()))  # type: ignore[attr-defined]
    ids = [example.id for example in examples]
    known: Cache = {
        key: (
            dict(zip(ids, values.tolist(), strict=True)),
            {ids[i]: why for i, why in table.reasons[key].items()},
        )
        for key, values in table.columns.items()
    }
    columns = {
        name: out_of_fold(examples, spec, known, repeats=1)[0] for name, spec in LEARNT.items()
    }
    # What was embedded for these is not to be found again: scores are timed.
    load_encoder().forget()
    lines = []
    for i, example in enumerate(examples):
        scores = {
            name: None if np.isnan(values[i]) else float(values[i])
            for name, values in columns.items()
        }
        lines.append(
            json.dumps(
                {
                    "id": example.id,
                    "group": example.group,
                    "label": example.label,
                    "question": example.question,
                    "contexts": example.contexts,
                    "response": example.response,
                    **scores,
                }
            )
        )
    Path(OUT_OF_FOLD).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return examples, known


def supplement(known: tuple[list[Example], Cache] | None) -> dict[str, Any]:
    """Return what the prose beside the page says and no row of the page does."""
    assumed = [item for item in COLUMNS if item.name in ASSUMED]
    runs = {item.name: kept(item, assume_independent=True) for item in assumed}
    content: dict[str, Any] = {
        "schema": "calibrail.leaderboard.supplement/1",
        "assumed_independent": {
            item["name"]: {
                **{key: item[key] for key in ("n_calibration", "n_groups", "n_test")},
                "rows": {row["name"]: row["targets"] for row in item["rows"]},
            }
            for item in merged(runs, assumed).to_dict()["data_sets"]
        },
        "redeep": paired(next(item for item in COLUMNS if "Llama" in item.name)),
    }
    return content if known is None else {**content, "ragtruth_qa": figures(*known)}


def paired(item: Set) -> dict[str, Any]:
    """Return how two detectors of one comparison differ on the same answers."""
    content = json.loads((Path(item.folder) / "compare.json").read_text(encoding="utf-8"))
    (found,) = (
        test
        for test in content["paired"]["against_best"]
        if {test["name"], test["against"]} == set(item.columns)
    )
    return {key: found[key] for key in ("name", "against", "fpr", "auroc")}


if __name__ == "__main__":
    main()
