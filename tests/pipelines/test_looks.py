"""Does a further look at the same data certify nothing, as a user gets it?"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import calibrail
from calibrail.data.duplicates import sketched
from calibrail.data.example import Example, mix64
from calibrail.pipelines import look_overlap
from calibrail.pipelines.data_reuse import DataUseHistory
from calibrail.pipelines.independence import joint_comparison
from calibrail.pipelines.look_overlap import DataUse, exceeds_reuse_limit, overlapping_uses
from calibrail.report.documents.compare import finding, next_step
from tests.command_line import calibrail as run_command

DETECTOR = "column:column=s,higher=hallucinated"
OPTIONS = "--score-column s --higher hallucinated --alpha 0.1 --min-coverage 0.8 --max-fpr 0.4"


def write(path: Path, start: int, stop: int, separation: float = 2.8) -> Path:
    """Write rows ``start`` to ``stop`` of one endless table."""
    rng = np.random.default_rng(1)
    labels = (rng.random(4000) < 0.4).astype(int)
    scores = rng.normal(separation * labels)
    rows = [f"r{i},{scores[i]:.6f},{labels[i]}" for i in range(start, stop)]
    path.write_text("\n".join(["id,s,label", *rows]) + "\n")
    return path


_BOTH = "0" * 16 + "\n" + "1" * 16


@pytest.mark.parametrize("digests", [("0" * 15,), ("g" * 16,), (_BOTH,), (5, _BOTH)])
def test_what_is_no_digest_is_refused(digests: Any) -> None:
    for field in ("lowest", "names"):
        with pytest.raises(ValueError, match=f"{field} of a look"):
            DataUse(**{"n": 2, "seed": None, "content": "", "lowest": (), field: digests})
    named = ("0" * 16 + "1 -0.5e-3", "f" * 16 + "-1 nan")
    assert DataUse(2, None, "", ("0" * 16, "f" * 16), names=named).names == named


def calibrated(data: Path, folder: Path, *more: str) -> dict[str, Any]:
    run_command("calibrate", str(data), *OPTIONS.split(), "-o", str(folder), *more)
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return report


def test_one_look_certifies_and_the_same_one_again_says_the_same(tmp_path: Path) -> None:
    data, run = write(tmp_path / "a.csv", 0, 600), tmp_path / "run"
    first = calibrated(data, run)
    assert first["verdict"] == "certified" and first["looks"] == []
    before = (run / "looks.json").read_bytes(), (run / "report.json").read_bytes()
    assert calibrated(data, run)["verdict"] == "certified"
    assert ((run / "looks.json").read_bytes(), (run / "report.json").read_bytes()) == before


def test_more_of_the_data_or_another_seed_is_a_second_chance(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert calibrated(write(tmp_path / "a.csv", 0, 600), run)["verdict"] == "certified"
    grown = calibrated(write(tmp_path / "b.csv", 0, 1300), run)
    assert grown["verdict"] == "inconclusive"
    assert grown["certificate"]["verdict"] == "inconclusive"
    assert "600 answers with seed 0 (certified)" in grown["reason"]
    assert "new answers alone" in grown["reason"]
    again = calibrated(tmp_path / "a.csv", run, "--seed", "1")
    assert again["verdict"] == "inconclusive"
    assert [look["n"] for look in again["looks"]] == [600, 1300]
    for data, *more in (("b.csv",), ("a.csv",), ("a.csv", "--seed", "2")):
        other = calibrated(tmp_path / data, run, "--alpha", "0.12", *more)
        assert other["verdict"] == "inconclusive"


@pytest.mark.parametrize("known", ["id", "nothing"])
def test_a_rerolled_seed_is_a_second_chance_whatever_else_moves_a_little(
    tmp_path: Path, known: str
) -> None:
    run, first = tmp_path / "run", write(tmp_path / "a.csv", 0, 1400)
    if known == "nothing":
        first = without_ids(first, 0, 1400, 6)
    renamed = tmp_path / "renamed.csv"
    renamed.write_text(first.read_text().replace("s,label", "t,label"))
    pac = ("--guarantee", "pac", "--delta")
    assert calibrated(first, run, *pac, "0.02")["verdict"] == "certified"
    rerolled = (
        (first, *pac, "0.021", "--seed", "1"),
        (first, *pac, "0.02", "--alpha", "0.11", "--seed", "2"),
        (first, "--seed", "3"),
        (renamed, "--score-column", "t", *pac, "0.02", "--seed", "4"),
    )
    for data, *changed in rerolled:
        report = calibrated(data, run, *changed)
        assert report["verdict"] == "inconclusive" and "looked at before" in report["reason"]
    # One detector's values of other answers that are numbered alike, and another one's of these.
    rng, other = np.random.default_rng(7), tmp_path / "other.csv"
    rows = [row.split(",") for row in write(other, 0, 1400).read_text().split()[1:]]
    ids, _, ys = zip(*rows, strict=True)
    for labels, same in ((rng.permutation(ys), False), (ys, True)):
        scores = 2.8 * np.array(labels, float) + rng.normal(size=1400)
        lines = [f"{i},{s:.6f},{y}" for i, s, y in zip(ids, scores, labels, strict=True)]
        other.write_text("\n".join(["id,s,label", *lines]) + "\n")
        found = calibrated(other, run, *pac, "0.02", "--seed", "1")["looks"]
        assert bool(found) is same


def read(kind: str, rows: list[tuple[str, float, int]]) -> list[dict[str, Any]]:
    """Return rows of scores as they come back."""
    rng = np.random.default_rng(len(kind))
    scores = {
        "moved": lambda s: s * (1.0 + 1e-9),
        "four digits": lambda s: float(f"{s:.4g}"),
        "transformed": lambda s: float(np.arctan(s)),
        "another detector": lambda s: float(rng.normal()),
    }
    change = next((scores[name] for name in scores if name in kind), lambda s: s)
    anew = [f"x{i}" for i in rng.permutation(len(rows))]
    named = anew if "new ids" in kind else [name for name, _, _ in rows]
    back = [
        {"id": name, "s": change(s), "label": y}
        for name, (_, s, y) in zip(named, rows, strict=True)
    ]
    return back[: len(back) - 9] if "fewer" in kind else back


@pytest.mark.parametrize(
    "kind",
    [
        *("moved", "four digits", "transformed", "another detector", "moved, fewer"),
        *("new ids", "new ids, moved", "new ids, four digits", "new ids, transformed, fewer"),
    ],
)
def test_the_same_answers_come_back_rescored(tmp_path: Path, kind: str) -> None:
    def rows(start: int) -> list[tuple[str, float, int]]:
        lines = write(tmp_path / "a.csv", start, start + 500, 2.2).read_text().split()[1:]
        cells = [line.split(",") for line in lines]
        return [(name, float(s), int(y)) for name, s, y in cells]

    looks, limits = tmp_path / "looks.json", {"alpha": 0.1, "max_fpr": 0.6, "min_coverage": 0.75}

    def run(data: list[dict[str, Any]], column: str = "s") -> calibrail.Run:
        detector = f"column:column={column},higher=hallucinated"
        return calibrail.calibrate(data, detector, looks=looks, **limits)

    first = rows(0)
    assert run(read("", first)).verdict == "certified"
    # A later batch that is numbered alike is another one.
    again = [(name, s, y) for (name, _, _), (_, s, y) in zip(first, rows(700), strict=True)]
    assert run(read("", again)).report.looks == ()
    column = "t" if kind == "another detector" else "s"
    data = [{"id": row["id"], column: row["s"], "label": row["label"]} for row in read(kind, first)]
    report = run(data, column).report
    assert report.verdict == "inconclusive" and len(report.looks) == 1
    assert report.reason_code == "looked_before" or kind == "another detector"
    # The very same look is no further one.
    assert run(read("", first)).verdict == "certified"


def test_limits_are_fixed_before_the_look_but_the_first_one(tmp_path: Path) -> None:
    data, looks = write(tmp_path / "a.csv", 0, 900), tmp_path / "looks.json"

    def verdict(**limits: float) -> str:
        return calibrail.calibrate(data, DETECTOR, looks=looks, alpha=0.1, **limits).verdict

    assert verdict(min_coverage=0.8) == "inconclusive"
    assert verdict(min_coverage=0.8, max_fpr=0.4) == "certified"
    for limits in ({"max_fpr": 0.41}, {"max_fpr": 0.4, "min_coverage": 0.79}, {"max_fpr": 0.01}):
        assert verdict(**{"min_coverage": 0.8, **limits}) == "inconclusive"
    assert verdict(min_coverage=0.8, max_fpr=0.4) == "certified"


@pytest.mark.parametrize("first", [{}, {"guarantee": "marginal"}, {"alpha": 0.2}, {"seed": 1}])
def test_the_first_limit_may_follow_a_look_of_which_nothing_was_asked(
    tmp_path: Path, first: dict[str, Any]
) -> None:
    data, looks = write(tmp_path / "a.csv", 0, 900), tmp_path / "looks.json"

    def verdict(seed: int = 0, **asked: Any) -> str:
        splitting = calibrail.options.SplitOptions(seed=seed)
        options = {"alpha": 0.1, "looks": looks, "splitting": splitting, **asked}
        return calibrail.calibrate(data, DETECTOR, **options).verdict

    assert verdict(**first) == "inconclusive"
    # Another guarantee or alpha is a choice; seed and parts are none where all answers prove it.
    allowed = not set(first) & {"guarantee", "alpha"}
    assert verdict(max_fpr=0.4) == ("certified" if allowed else "inconclusive")
    assert verdict(max_fpr=0.41) == "inconclusive"
    assert verdict(max_fpr=0.4) == ("certified" if allowed else "inconclusive")


def test_declared_looks_share_one_error(tmp_path: Path) -> None:
    looks = {"looks": tmp_path / "looks.json", "max_fpr": 0.4, "min_coverage": 0.8, "n_looks": 2}
    data = write(tmp_path / "a.csv", 0, 900)

    def run(seed: int) -> calibrail.Run:
        splitting = calibrail.options.SplitOptions(seed=seed)
        return calibrail.calibrate(
            data, DETECTOR, splitting=splitting, alpha=0.1, guarantee="pac", **looks
        )

    runs = [run(seed) for seed in range(3)]
    assert [item.verdict for item in runs] == ["certified", "certified", "inconclusive"]
    assert runs[0].report.requirement.confidence == pytest.approx(0.975)
    assert runs[0].report.promise.delta == pytest.approx(0.0125)
    with pytest.raises(calibrail.CalibrailError, match="2 looks were declared"):
        calibrail.calibrate(data, DETECTOR, alpha=0.2, **{**looks, "n_looks": 3})


def test_looks_at_a_guardrail_spend_one_error(tmp_path: Path) -> None:
    guardrail = calibrail.calibrate(write(tmp_path / "a.csv", 0, 400), DETECTOR, alpha=0.1).freeze()

    def look(start: int, looks: str, **limits: Any) -> tuple[str, dict[str, Any]]:
        limits = {"max_fpr": 0.4, "min_coverage": 0.8, **limits}
        data = write(tmp_path / "f.csv", start, start + 500)
        result = calibrail.certify(guardrail, data, looks=tmp_path / looks, **limits)
        assert result.look is not None
        return result.verdict, dict(result.look)

    spent = [look(1000 + 500 * i, "l.json")[1]["level"] for i in range(3)]
    assert spent == pytest.approx([0.0375, 0.009375, 0.00234375])
    # The very same look costs nothing, and limits read off are another one.
    assert look(1500, "l.json")[1]["number"] == 2
    assert look(1500, "l.json", max_fpr=0.41)[1]["number"] == 4
    declared = [look(1000 + 500 * i, "d.json", n_looks=2) for i in range(3)]
    assert [item["level"] for _, item in declared] == pytest.approx([0.025, 0.025, 0.0])
    assert [verdict for verdict, _ in declared] == ["certified", "certified", "inconclusive"]
    assert look(2000, "one.json", n_looks=1)[1]["level"] == pytest.approx(0.05)


def test_after_a_further_look_the_next_step_is_new_answers(tmp_path: Path) -> None:
    data, run = write(tmp_path / "a.csv", 0, 900), tmp_path / "run"
    calibrated(data, run)
    done = run_command("calibrate", str(data), *OPTIONS.split(), "-o", str(run), "--seed", "1")
    assert "Next: Freeze this detector" in " ".join(done.stdout.split())


def test_other_data_is_no_second_chance_and_nobody_is_rejected_by_one(tmp_path: Path) -> None:
    run = tmp_path / "run"
    calibrated(write(tmp_path / "a.csv", 0, 600), run)
    assert calibrated(write(tmp_path / "b.csv", 600, 1300), run)["verdict"] == "certified"
    poor = tmp_path / "poor"
    assert calibrated(write(tmp_path / "c.csv", 0, 600, 0.0), poor)["verdict"] == "rejected"
    assert calibrated(write(tmp_path / "d.csv", 0, 900, 0.0), poor)["verdict"] == "inconclusive"


def test_a_guardrail_is_certified_on_one_look_at_fresh_answers(tmp_path: Path) -> None:
    run, file = tmp_path / "run", tmp_path / "guardrail.json"
    calibrated(write(tmp_path / "a.csv", 0, 800), run)
    calibrail.Run.load(run).freeze().save(file, force=True)

    def certified(data: Path) -> dict[str, Any]:
        options = ["--max-fpr", "0.4", "--min-coverage", "0.8", "--json"]
        done = run_command("certify", str(file), str(data), *options)
        content: dict[str, Any] = json.loads(done.stdout)
        return content

    assert certified(write(tmp_path / "f.csv", 1000, 1400))["verdict"] == "certified"
    grown = certified(write(tmp_path / "g.csv", 1000, 1900))
    assert grown["verdict"] == "certified" and len(grown["looks"]) == 1
    assert grown["look"]["number"] == 2 and grown["look"]["level"] == 0.009375
    assert certified(write(tmp_path / "f.csv", 1000, 1400))["verdict"] == "certified"
    assert certified(write(tmp_path / "h.csv", 2000, 2400))["verdict"] == "certified"
    # From Python the same file keeps them.
    result = calibrail.certify(file, tmp_path / "g.csv", max_fpr=0.4, min_coverage=0.8)
    assert result.verdict == "certified" and result.look and result.look["number"] == 2


def looked(guardrail: Any, start: int, place: Path, **more: Any) -> Any:
    data = write(place / "looked.csv", start, start + 400)
    return calibrail.certify(guardrail, data, **{"max_fpr": 0.4, "min_coverage": 0.8, **more}).look


@pytest.mark.parametrize("way", ["in memory", "made anew", "loaded", "named", "renamed"])
def test_looks_from_python_spend_as_those_of_the_command(tmp_path: Path, way: str) -> None:
    run = calibrail.calibrate(write(tmp_path / "a.csv", 0, 400), DETECTOR, alpha=0.1)
    file, kept = tmp_path / "guardrail.json", way not in ("in memory", "made anew")
    frozen = run.freeze()
    frozen.save(file)

    def guardrail(number: int) -> Any:
        if way == "renamed" and number:
            # A copy beside it, under another name, is the same guardrail.
            other = tmp_path / f"copy{number}.json"
            other.write_bytes(file.read_bytes())
            return other
        ways = {"in memory": lambda: frozen, "made anew": run.freeze, "named": lambda: file}
        return ways.get(way, lambda: calibrail.Guardrail.load(file))()

    levels = [looked(guardrail(i), 1000 + 400 * i, tmp_path)["level"] for i in range(3)]
    assert levels == pytest.approx([0.0375, 0.009375, 0.00234375])
    assert (tmp_path / "guardrail.looks.json").exists() == kept
    # The very same look costs nothing, and a simulation keeps none.
    assert [looked(guardrail(i), 1000, tmp_path)["number"] for i in (0, 3)] == [1, 1]
    assert looked(guardrail(0), 3000, tmp_path, looks=False) is None


def test_all_guardrails_of_a_folder_share_the_error_of_the_same_answers(tmp_path: Path) -> None:
    """As somebody does who exports one after another until one is certified."""
    data, numbers = write(tmp_path / "a.csv", 0, 800), []
    for number, alpha in enumerate((0.1, 0.12, 0.14)):
        file = tmp_path / f"guardrail{number}.json"
        calibrail.calibrate(data, DETECTOR, alpha=alpha).freeze().save(file)
        numbers.append(looked(file, 1000, tmp_path)["number"])
        # Other answers are no further look at those.
        assert number or looked(file, 2000, tmp_path)["number"] == 2
    assert numbers == [1, 2, 3]
    # A damaged file beside it is another guardrail's affair.
    (tmp_path / "damaged.looks.json").write_text("{")
    assert looked(tmp_path / "guardrail1.json", 1500, tmp_path)["number"] == 2


def test_what_all_looks_err_with_counts_each_at_its_own_confidence(tmp_path: Path) -> None:
    guardrail = calibrail.calibrate(write(tmp_path / "a.csv", 0, 400), DETECTOR, alpha=0.1).freeze()
    looked(guardrail, 1000, tmp_path, confidence=0.5)
    look = looked(guardrail, 1400, tmp_path)
    assert look["level"] == pytest.approx(0.009375)
    assert look["together"] == pytest.approx(0.75 * 0.5 + 0.25 * 0.05)


@pytest.mark.parametrize(
    ("kappa", "related", "detector", "same"),
    [
        # The same questions a week later, answered anew.
        *((0.6, 0.3, "same", False), (0.6, 0.3, "other", False), (0.6, 0.3, "report", False)),
        # The same answers by another detector; scored again, with some labels corrected.
        *((1.0, 0.0, "other", True), (0.9, 0.95, "same", True), (0.9, 0.95, "report", True)),
    ],
)
def test_answers_numbered_alike_are_the_same_where_labels_or_scores_say_so(
    kappa: float, related: float, detector: str, same: bool
) -> None:
    rng, n = np.random.default_rng(3), 200
    labels = (rng.random(n) < 0.3).astype(np.int8)
    others = np.where(rng.random(n) < kappa, labels, rng.random(n) < 0.3).astype(np.int8)
    own, noise = rng.normal(size=(2, n))
    digests = rng.integers(0, 2**63, n, dtype=np.uint64)
    then = DataUse.at(digests, labels, own + 2.0 * labels, kinds=("id",))
    scores = related * own + np.sqrt(1.0 - related**2) * noise + 2.0 * others
    now = replace(DataUse.at(digests, others, scores, kinds=("id",)), detector="a")
    then = replace(then, reported=detector == "report", detector="a" * (detector == "same"))
    assert exceeds_reuse_limit(overlapping_uses(now, [then])) == same


def test_guardrails_made_anew_until_one_is_certified_are_further_looks(tmp_path: Path) -> None:
    """As a pull request does that tries another seed, or alpha, on the same held-out file."""
    data, file = write(tmp_path / "a.csv", 0, 800), tmp_path / "guardrail.json"
    heldout = write(tmp_path / "f.csv", 1000, 1400)
    guardrails = []
    for number, more in enumerate(([], ["--seed", "2"], ["--alpha", "0.12"])):
        calibrated(data, tmp_path / f"run{number}", *more)
        calibrail.Run.load(tmp_path / f"run{number}").freeze().save(file, force=True)
        guardrails.append(file.read_bytes())
        options = ["--max-fpr", "0.4", "--min-coverage", "0.8", "--json"]
        content = json.loads(run_command("certify", str(file), str(heldout), *options).stdout)
        assert len(content["looks"]) == number and content["look"]["number"] == number + 1
    assert len(set(guardrails)) == 3
    # The first one was looked at before the others.
    file.write_bytes(guardrails[0])
    content = json.loads(run_command("certify", str(file), str(heldout), *options).stdout)
    assert content["verdict"] == "certified" and content["look"]["number"] == 1


def test_what_is_left_to_label_is_said_for_new_answers_with_the_verdict(tmp_path: Path) -> None:
    run = tmp_path / "run"
    text = run_command(
        "calibrate",
        str(write(tmp_path / "a.csv", 0, 300, 2.0)),
        *["--score-column", "s", "--higher", "hallucinated", "--alpha", "0.1", "--max-fpr", "0.25"],
        *("--min-coverage", "0.6", "--guarantee", "marginal", "-o", str(run)),
    ).stdout
    report = json.loads((run / "report.json").read_text())
    assert report["verdict"] == "inconclusive"
    assert report["certificate"]["fpr"]["estimate"] > 0.25
    assert "new answers would show that it fails" in " ".join(text.split())


def look_of(digests: NDArray[np.uint64], **more: Any) -> DataUse:
    labels, scores = np.zeros(len(digests), np.int8), np.full(len(digests), np.nan)
    return DataUse.at(digests, labels, scores, kinds=("texts",), **more)


def test_what_two_looks_have_in_common_is_estimated() -> None:
    rng = np.random.default_rng(0)
    digests = rng.integers(0, 2**63, 20_000, dtype=np.uint64)
    first = look_of(digests[:8000])
    for start, stop, true in ((4000, 12_000, 0.5), (7000, 20_000, 1 / 13), (8000, 20_000, 0.0)):
        estimate = sum(
            share for _, share in overlapping_uses(look_of(digests[start:stop]), [first])
        )
        assert estimate == pytest.approx(true, abs=4 * np.sqrt(true * (1 - true) / 256))
    # Earlier versions took other spellings for one answer; as they stand they are known again.
    other = look_of(mix64(digests[4000:8000]), told_by=[digests[4000:8000]] * 2)
    assert exceeds_reuse_limit(overlapping_uses(other, [first]))
    # All of a small look stands in its digests, and what two looks share with it counts once.
    small, third = look_of(digests[7984:8800]), look_of(digests[7992:8016])
    beside = look_of(digests[7184:8000])
    assert [share for _, share in overlapping_uses(small, [beside])] == [
        pytest.approx(16 / 816, abs=0.04)
    ]
    both = overlapping_uses(small, [beside, third])
    assert sum(share for _, share in both) == pytest.approx(32 / 816, abs=0.05)
    assert len(both) == 2 and not exceeds_reuse_limit(both)
    assert look_of(digests[:8000][::-1]).same(first)
    assert not replace(look_of(digests[:8000]), assumed=True).same(first)
    labels, scores = np.eye(1, 8000, dtype=np.int8)[0], np.full(8000, np.nan)
    flipped = DataUse.at(digests[:8000], labels, scores, kinds=("texts",))
    assert not flipped.same(first) and exceeds_reuse_limit(overlapping_uses(flipped, [first]))


@pytest.mark.parametrize(
    "change",
    [
        ["--calibration-share", "0.4"],
        ["--fit-share", "0.1", "--calibration-share", "0.5"],
        ["--split-column", "part"],
        ["--label-column", "relabelled"],
        ["--assume-independent", "--seed", "3"],
    ],
)
def test_the_same_answers_looked_at_in_another_way_certify_nothing(
    tmp_path: Path, change: list[str]
) -> None:
    lines = write(tmp_path / "a.csv", 0, 1400).read_text().split()[1:]
    # Two answers a group, with which independence may be assumed or not.
    parts, labels = ("test", "calibration"), [int(line[-1]) for line in lines]
    labels[0] = 1 - labels[0]
    rows = [f"{line},{parts[i // 2 % 2]},{labels[i]},g{i // 2}" for i, line in enumerate(lines)]
    data, run = tmp_path / "b.csv", tmp_path / "run"
    data.write_text("\n".join(["id,s,label,part,relabelled,g", *rows]) + "\n")
    grouped = ["--group-column", "g"] if "--assume-independent" in change else []
    assert calibrated(data, run, *grouped)["verdict"] == "certified"
    assert calibrated(data, run, *grouped)["looks"] == []
    again = calibrated(data, run, *grouped, *change)
    assert again["verdict"] == "inconclusive" and "looked at before" in again["reason"]
    assert again["looks"][0]["shared"] == 1.0


def without_ids(path: Path, start: int, stop: int, digits: int, *, more: bool = False) -> Path:
    rows = write(path, start, stop).read_text().split()[1:]
    cells = [row.split(",")[1:] for row in rows]
    lines = [
        f"{float(s):.{digits}f},{label}" + (f",{i}" if more else "")
        for i, (s, label) in enumerate(cells)
    ]
    path.write_text("\n".join(["s,label,extra" if more else "s,label", *lines]) + "\n")
    return path


def test_one_more_column_makes_no_other_data_of_rows_without_ids(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert calibrated(without_ids(tmp_path / "a.csv", 0, 600, 6), run)["verdict"] == "certified"
    data = without_ids(tmp_path / "b.csv", 0, 600, 6, more=True)
    again = calibrated(data, run, "--seed", "1")
    assert again["verdict"] == "inconclusive" and len(again["looks"]) == 1


def test_coarse_scores_without_ids_are_known_only_all_together(tmp_path: Path) -> None:
    run = tmp_path / "run"
    apart = "--assume-independent"
    first = calibrated(without_ids(tmp_path / "a.csv", 0, 800, 0), run, apart)
    assert first["verdict"] == "certified"
    other = calibrated(without_ids(tmp_path / "b.csv", 800, 1600, 0), run, apart)
    assert other["verdict"] == "certified" and other["looks"] == []
    again = calibrated(tmp_path / "a.csv", run, "--seed", "1", apart)
    assert again["verdict"] == "inconclusive" and len(again["looks"]) == 1


def test_few_answers_in_common_are_told_and_void_nothing(tmp_path: Path) -> None:
    run = tmp_path / "run"
    calibrated(write(tmp_path / "a.csv", 0, 600), run)
    report = calibrated(write(tmp_path / "b.csv", 570, 1400), run)
    assert report["verdict"] == "certified"
    assert 0.0 < report["looks"][0]["shared"] < 0.1
    assert "of one class in it, was looked at before (600 answers with seed 0" in report["reason"]


def test_what_a_report_tested_is_no_fresh_data_for_its_guardrail(tmp_path: Path) -> None:
    run, file = tmp_path / "run", tmp_path / "guardrail.json"
    data = write(tmp_path / "a.csv", 0, 1200)
    calibrated(data, run, "--guarantee", "marginal")
    guardrail = calibrail.Run.load(run).freeze()
    guardrail.save(file)
    content = json.loads((run / "calibration.json").read_text())
    known = set(content["data"]["looked_at"]["lowest"])
    assert content["data"]["looked_at"]["reported"] and len(known) == 256

    result = calibrail.certify(file, data, max_fpr=0.4, min_coverage=0.8)
    assert result.verdict == "inconclusive" and result.looks[0]["reported"]
    # Its test part alone, written anew, with as many new answers.
    table = calibrail.Run.load(run).report.to_dict()
    assert table["looks"] == []
    scores = pq.read_table(run / "scores.parquet")
    tested = {row["id"] for row in scores.to_pylist() if row["split"] == "test"}
    lines = data.read_text().split()
    half = [lines[0], *(line for line in lines[1:] if line.split(",")[0] in tested)]
    assert 400 < len(half) < 800
    (tmp_path / "half.csv").write_text("\n".join(half) + "\n")
    result = calibrail.certify(file, tmp_path / "half.csv", max_fpr=0.4, min_coverage=0.8)
    assert result.verdict == "inconclusive"
    assert "by the guardrail's own report" in result.certificate.reason
    assert result.looks[0]["shared"] == pytest.approx(1.0)
    fresh = write(tmp_path / "c.csv", 2000, 2600)
    assert calibrail.certify(file, fresh, max_fpr=0.4, min_coverage=0.8).verdict == "certified"


def test_a_pac_report_looked_at_faithful_calibration_answers_too(tmp_path: Path) -> None:
    run = calibrail.calibrate(write(tmp_path / "a.csv", 0, 1200), DETECTOR, alpha=0.1)
    pac, halves = (
        calibrail.calibrate(tmp_path / "a.csv", DETECTOR, alpha=0.1, guarantee="pac", **split)
        for split in ({}, {"splitting": calibrail.SplitOptions(calibration_share=0.5)})
    )
    assert halves.data["looked_at"]["n"] > 1.4 * run.data["looked_at"]["n"]
    # Without a test part those that the guardrail does not know as calibration answers.
    assert pac.data["looked_at"]["n"] == 1200 - pac.data["n_hallucinated"]


GOOD = {"n": 3, "seed": 0, "content": "c", "lowest": ["0" * 16], "verdict": "certified"}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"schema": "other"}',
        '{"schema": "calibrail.looks/1"}',
        "[" * 9999,
        '{"schema": "calibrail.looks/1", "questions": []}',
        *(
            json.dumps({"schema": "calibrail.looks/1", "questions": {"q": [GOOD | change]}})
            for change in (
                *({"n": "3"}, {"n": True}, {"seed": "a"}, {"content": None}, {"verdict": 1}),
                *({"lowest": ["0"]}, {"lowest": [1, 2]}, {"ranks": [[1]]}, {"x": 1}),
                *({"sketches": 1}, {"sketches": "a"}, {"sketches": "names:AAAA"}),
            )
        ),
        json.dumps({"schema": "calibrail.looks/1", "questions": {"q": 1}}),
    ],
)
def test_a_damaged_file_of_looks_is_an_error_before_any_work(tmp_path: Path, text: str) -> None:
    (tmp_path / "looks.json").write_text(text)
    with pytest.raises(calibrail.CalibrailError, match="restore it"):
        DataUseHistory(tmp_path / "looks.json")


@pytest.mark.parametrize("path", ["file/looks.json", "."])
def test_a_file_of_looks_that_is_of_no_use_ends_a_run_before_it_scores(
    tmp_path: Path, path: str
) -> None:
    (tmp_path / "file").write_text("")
    looks, data = tmp_path / path, [{"response": "unread"}]
    guardrail = calibrail.calibrate("example:facts", "novelty", alpha=0.2, max_fpr=0.6).freeze()

    def score(example: calibrail.Example) -> float:
        raise AssertionError("scored")

    with pytest.raises(calibrail.CalibrailError, match=r"cannot .*it keeps what"):
        calibrail.calibrate(data, score, looks=looks)
    with pytest.raises(calibrail.CalibrailError, match=r"cannot .*it keeps what"):
        calibrail.compare(data, score, looks=looks)
    with pytest.raises(calibrail.CalibrailError, match=r"cannot .*it keeps what"):
        calibrail.certify(guardrail, data, max_fpr=0.4, looks=looks)


def test_looks_of_several_processes_are_all_kept(tmp_path: Path) -> None:
    spent, path, n = (
        tmp_path / "spent.json",
        tmp_path / "looks.json",
        np.arange(1000, dtype=np.uint64),
    )
    one, other = DataUseHistory(path), DataUseHistory(path)
    look = look_of(n)
    assert one.record("x", look).earlier == ()
    standing = other.record("x", replace(look, seed=7))
    assert [item.seed for item, _ in standing.earlier] == [None] and standing.share == 0.0
    assert DataUseHistory(path).record("y", look).share == 1.0
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: DataUseHistory(path).record("z", replace(look, seed=i)), range(24)))
        list(
            pool.map(
                lambda i: DataUseHistory(spent).record("w", replace(look, seed=i), spends=True),
                range(9),
            )
        )
    kept = json.loads(path.read_text())["questions"].values()
    assert sorted(map(len, kept)) == [1, 2, 24]
    # Looks at the same time, too, share one error.
    assert [sum(look["share"] for look in looks) for looks in kept] == [1.0, 1.0, 1.0]
    (looks,) = json.loads(spent.read_text())["questions"].values()
    shares = [look["share"] for look in looks]
    assert sum(shares) < 1.0 and len(set(shares)) == 9


def test_groups_lose_verdict_reason_and_flips_together(tmp_path: Path) -> None:
    lines = write(tmp_path / "a.csv", 0, 1600).read_text().split()
    rows = [f"{line},{'ab'[i % 2]}" for i, line in enumerate(lines[1:])]
    data, run = tmp_path / "b.csv", tmp_path / "run"
    data.write_text("\n".join([lines[0] + ",kind", *rows]) + "\n")
    first = calibrated(data, run, "--by", "kind")["by_group"]["rows"]
    assert [row["verdict"] for row in first] == ["certified", "certified"]
    for row in calibrated(data, run, "--by", "kind", "--seed", "1")["by_group"]["rows"]:
        assert row["verdict"] == "inconclusive" and row["flips"] is None
        assert "looked at before" in row["reason"]


def test_a_comparison_by_another_seed_certifies_nobody(tmp_path: Path) -> None:
    data, run = write(tmp_path / "a.csv", 0, 1300), tmp_path / "run"

    def verdict(seed: int) -> str:
        run_command("compare", str(data), *OPTIONS.split(), "-o", str(run), "--seed", str(seed))
        detectors = json.loads((run / "compare.json").read_text())["detectors"]
        return str(detectors[0]["verdict"])

    assert [verdict(seed) for seed in (0, 1, 0)] == ["certified", "inconclusive", "certified"]


def test_a_further_comparison_names_no_winner(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(1200) % 2
    rows = [
        {"id": f"a{i}", "label": int(y), "good": rng.normal(2.5 * y), "bad": rng.normal(0.2 * y)}
        for i, y in enumerate(labels.tolist())
    ]
    detectors = [f"column:column={name},higher=hallucinated" for name in ("good", "bad")]

    def winner(seed: int) -> Any:
        splitting = calibrail.options.SplitOptions(seed=seed)
        looks = tmp_path / "looks.json"
        done = calibrail.compare(rows, detectors, alpha=0.1, splitting=splitting, looks=looks)
        return done.comparison.winner

    first, second, again = map(winner, (0, 1, 0))
    assert first == again and first.name == first.candidate == "good"
    assert (second.name, second.candidate, second.withheld) == (None, "good", "looked_before")
    assert (second.confirming, second.fpr, second.certificate) == ((), {}, None)


def test_nobody_wins_by_how_near_copies_count(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [
        {"id": f"a{i}", "label": i % 2, "good": rng.normal(2.5 * (i % 2)), "bad": rng.normal()}
        for i in range(1200)
    ]
    detectors = [f"column:column={name},higher=hallucinated" for name in ("good", "bad")]
    once = calibrail.compare(rows, detectors, alpha=0.1).comparison
    assert once.winner.name == "good" and "withheld" not in once.to_dict()["winner"]
    each = replace(once, winner=replace(once.winner, name=None))
    left = joint_comparison([once, each], {})
    assert (left.winner.name, left.winner.withheld) == (None, "near_copies")
    content = left.to_dict()
    assert "good wins where near copies count once, and not where each does." in finding(content)
    assert next_step(content) == "Compare on new answers alone."


@pytest.mark.parametrize("without", ["context", "question"])
def test_answers_are_known_again_without_one_of_their_texts(tmp_path: Path, without: str) -> None:
    rng = np.random.default_rng(1)
    rows = [
        {
            "question": f"What is {i}?",
            "context": f"The number {i} of {7 * i}.",
            "response": f"It is {i} and {7 * i}, said {rng.integers(1_000_000)}.",
            "label": i % 2,
            "s": float(rng.normal(3.0 * (i % 2))),
        }
        for i in range(240)
    ]
    looks, detector = tmp_path / "looks.json", "column:column=s,higher=hallucinated"
    fewer = [{name: cell for name, cell in row.items() if name != without} for row in rows]
    found = [
        calibrail.test(
            data, detector, threshold=1.5, min_caught=caught, max_false_alarms=0.2, looks=looks
        )
        for data, caught in ((rows, 0.7), (fewer, 0.75), (rows, 0.7))
    ]
    assert [len(run.report.looks) for run in found] == [0, 1, 0]
    assert [run.verdict for run in found] == ["certified", "inconclusive", "certified"]


def test_other_costs_are_another_look(tmp_path: Path) -> None:
    data, looks = write(tmp_path / "a.csv", 0, 400), tmp_path / "looks.json"
    costs = [{"cost_miss": miss, "cost_alarm": 1.0, "base_rate": 0.5} for miss in (2.0, 5.0, 2.0)]
    found = [
        calibrail.test(data, DETECTOR, threshold=0.5, looks=looks, **cost).report for cost in costs
    ]
    assert [len(report.looks) for report in found] == [0, 1, 0]


def test_a_small_part_of_a_large_look_is_known_again() -> None:
    rng = np.random.default_rng(2)
    digests = rng.integers(2**63, size=100_000).astype(np.uint64)
    labels = (rng.random(100_000) < 0.5).astype(np.int8)

    def look(rows: Any) -> DataUse:
        scores = np.round(rng.random(100_000), 2)
        return DataUse.at(digests[rows], labels[rows], scores[rows], kinds={"texts"})

    whole, new = look(slice(None)), rng.integers(2**63, size=200).astype(np.uint64)
    for _ in range(20):
        part = look(rng.choice(100_000, 200, replace=False))
        assert exceeds_reuse_limit(overlapping_uses(part, [whole]))
    fresh = DataUse.at(new, labels[:200], np.zeros(200), kinds={"texts"})
    assert not exceeds_reuse_limit(overlapping_uses(fresh, [whole]))


def test_reworded_answers_are_known_again_by_sketches_and_others_are_not() -> None:
    rng = np.random.default_rng(5)
    words = [f"{start}{end}" for start in "bdfgklmnprst" for end in ("ola", "itan", "uvel", "emir")]

    def said(template: list[str], kind: str) -> str:
        if kind == "another number":
            return f"Your order {rng.integers(1e9)} was {' '.join(words[:20])} today."
        if kind == "another core":
            return f"It is {' '.join(rng.choice(words, 3))} that {' '.join(words[:20])} today."
        reworded = [word + "s" * int(rng.random() < 0.06) for word in template]
        halves = [" ".join(reworded[:9]), " ".join(reworded[9:])]
        return "! ".join(half.capitalize() for half in rng.permutation(halves))

    def look(kind: str, fresh: int = 0) -> DataUse:
        texts = [*templates[fresh:], *([*rng.choice(words, 20)] for _ in range(fresh))]
        examples = [
            calibrail.Example(question="What is known?", response=said(text, kind))
            for text in texts
        ]
        digests = np.array([int(item.digest(), 16) for item in examples], np.uint64)
        return look_of(digests, sketches=sketched(examples))

    templates = [[*rng.choice(words, 20)] for _ in range(150)]
    first = look("reworded")
    assert len(first.sketches) < 1.4 * 240 * 150 and "bola" not in first.sketches
    assert DataUse.from_dict(first.to_dict()) == first

    def again(then: DataUse, now: DataUse) -> bool:
        return exceeds_reuse_limit(overlapping_uses(now, [then]))

    assert again(first, look("reworded")) and again(first, look("reworded", fresh=75))
    assert not again(first, look("reworded", fresh=150))
    # A question without an answer is none, and has no sketch.
    asked = sketched([calibrail.Example(question="What is known?", id="a")])
    assert look_of(np.zeros(1, np.uint64), sketches=asked).sketches == ""
    # A file that an earlier version kept holds none.
    assert not again(replace(first, sketches=""), look("reworded"))
    # Answers of one template are no rewordings of one another.
    assert not again(look("another number"), look("another number"))
    # Where all look alike, nothing tells a rewording from another answer.
    assert not again(look("another core"), look("another core"))


SCORES = ["s0", "s1", "s2"]
REACHED: dict[str, Any] = {"min_caught": 0.8, "max_false_alarms": 0.2}


def by(name: str) -> str:
    return f"column:column={name},higher=hallucinated"


def scored_file(path: Path, seed: int = 0, *, names: list[str] = SCORES, n: int = 160) -> Path:
    """Write labels and scores of good detectors without ids or texts; each is known by its name."""
    labels = (np.random.default_rng(seed).random(n) < 0.5).astype(int)
    columns = {"label": labels.tolist()} | {
        name: np.random.default_rng((seed, int(name[1:]))).normal(5.0 * labels).round(6).tolist()
        for name in names
        if name != "label"
    }
    rows = zip(*(columns[name] for name in (names if "label" in names else columns)), strict=True)
    head = names if "label" in names else [*columns]
    path.write_text("\n".join([",".join(head), *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


@pytest.mark.parametrize(
    ("columns", "n"), [(SCORES, 30), ([*SCORES, "s3"], 160), (["s1"], 160), (["s1", "label"], 160)]
)
def test_another_column_of_rows_without_ids_is_no_other_data(
    tmp_path: Path, columns: list[str], n: int
) -> None:
    looks = tmp_path / "run" / "looks.json"

    def looks_before(data: Path, name: str) -> int:
        run = calibrail.test(data, by(name), threshold=2.5, **REACHED, looks=looks)
        assert n < 160 or (run.verdict == "certified") is (not run.report.looks)
        return len(run.report.looks)

    assert looks_before(scored_file(tmp_path / "a.csv", n=n), "s0") == 0
    assert looks_before(scored_file(tmp_path / "b.csv", names=columns, n=n), "s1") == 1
    for seed in (1, 2):
        assert looks_before(scored_file(tmp_path / "c.csv", seed, n=n), "s1") == 0


@pytest.mark.parametrize("way", ["scores after texts", "texts after scores", "other ids"])
def test_answers_are_known_again_by_what_two_files_both_hold(tmp_path: Path, way: str) -> None:
    rng = np.random.default_rng(1)
    bare = [
        {"id": f"a{i}", "label": label, **{name: 3.0 * label + rng.normal() for name in SCORES}}
        for i, label in enumerate(rng.integers(2, size=160).tolist())
    ]
    texts = [row | {"response": f"It is {rng.integers(1 << 60):x}."} for row in bare]
    others = [row | {"id": f"b{i}"} for i, row in enumerate(bare)]
    looks = tmp_path / "run" / "looks.json"

    def looks_before(rows: list[dict[str, Any]], name: str) -> int:
        run = calibrail.test(rows, by(name), threshold=1.5, **REACHED, looks=looks)
        assert (run.verdict == "certified") is (not run.report.looks)
        return len(run.report.looks)

    files = {"scores after texts": (texts, bare), "texts after scores": (bare, texts)}
    first, then = files.get(way, (bare, others))
    assert looks_before(first, "s0") == 0
    assert looks_before(then, "s1") == 1
    # Other answers, numbered alike.
    fresh = [
        {"id": row["id"], "label": label, "s1": 3.0 * label}
        for row, label in zip(then, rng.integers(2, size=160).tolist(), strict=True)
    ]
    assert looks_before(fresh, "s1") == 0


def test_labels_of_people_are_known_again_under_other_ids(tmp_path: Path) -> None:
    """A judge's yes and no tell of no answers, but their order in the file does."""
    said, looks = np.random.default_rng(1).integers(2, size=160), tmp_path / "looks.json"
    verdicts = []
    for letter in "ab":
        rows = [{"id": f"{letter}{i}", "human": h, "judge": h} for i, h in enumerate(said.tolist())]
        found = calibrail.agree(
            rows, label_column="human", judge_column="judge", **REACHED, looks=looks
        )
        verdicts.append(found.verdict)
    assert verdicts == ["certified", "inconclusive"]


def test_labels_that_come_again_in_every_file_tell_no_answers(tmp_path: Path) -> None:
    """As where the right and the wrong answer to each question stand side by side."""
    for seed in range(2):
        scores = np.random.default_rng(seed).normal(size=(2, 160)) + 5.0 * (np.arange(160) % 2)
        rows = [{"label": i % 2, "s0": s, "s1": t} for i, (s, t) in enumerate(scores.T.tolist())]
        options = {"threshold": 2.5, **REACHED, "looks": tmp_path / "run" / "looks.json"}
        assert calibrail.test(rows, by(f"s{seed}"), **options).verdict == "certified"


def test_every_detector_of_a_comparison_is_known_without_ids(tmp_path: Path) -> None:
    data = scored_file(tmp_path / "a.csv")
    options: dict[str, Any] = {"alpha": 0.2, "max_fpr": 0.3, "baselines": False}
    compared = tmp_path / "compared" / "looks.json"
    calibrail.compare(data, [by(name) for name in SCORES], **options, looks=compared)
    lines = data.read_text().split()
    # In another order, and alone: its scores tell.
    rows = [line.split(",") for line in lines[:0:-1]]
    alone = [{"label": int(row[0]), "s2": float(row[3])} for row in sorted(rows)]
    for place, source in enumerate((data, alone)):
        looks = tmp_path / f"run{place}" / "looks.json"
        report = calibrail.calibrate(source, by("s2"), **options, looks=looks).report
        assert (report.verdict, report.reason_code) == ("inconclusive", "looked_before")
        assert [item.code for item in report.warnings] == ["compared_before"]


def test_guardrails_of_a_folder_share_the_error_of_rows_without_ids(tmp_path: Path) -> None:
    data, fresh = scored_file(tmp_path / "a.csv"), scored_file(tmp_path / "b.csv", 1)
    numbers = []
    for name in ("s0", "s1"):
        run = calibrail.calibrate(data, by(name), alpha=0.2, baselines=False)
        run.freeze().save(file := tmp_path / f"{name}.json")
        numbers.append(calibrail.certify(file, fresh, max_fpr=0.4, min_coverage=0.6).look["number"])
    assert numbers == [1, 2]


@pytest.mark.parametrize("place", ["", "guards"])
@pytest.mark.parametrize("looked", ["calibrate", "compare", "test", "unasked", "declared"])
def test_what_runs_showed_of_answers_leaves_a_guardrail_no_verdict_from_them(
    tmp_path: Path, looked: str, place: str
) -> None:
    data, fresh, new = (scored_file(tmp_path / f"{i}.csv", i) for i in range(3))
    run = calibrail.calibrate(data, by("s0"), alpha=0.2, baselines=False)
    (tmp_path / place).mkdir(exist_ok=True)
    run.freeze().save(file := tmp_path / place / "g.json")
    ways: dict[str, Any] = {
        "calibrate": lambda **kept: calibrail.calibrate(fresh, by("s1"), alpha=0.2, **kept),
        "compare": lambda **kept: calibrail.compare(fresh, [*map(by, SCORES)], alpha=0.2, **kept),
        "test": lambda **kept: calibrail.test(fresh, by("s1"), threshold=2.5, **kept),
        # Of which no verdict was asked, or a hundredth of the error.
        "unasked": lambda looks, **_: calibrail.test(fresh, by("s1"), threshold=2.5, looks=looks),
        "declared": lambda **kept: calibrail.test(
            fresh, by("s1"), threshold=2.5, n_looks=100, **kept
        ),
    }
    limits = {"min_coverage": 0.6, "max_fpr": 0.4}
    ways[looked](**limits, looks=tmp_path / "runs" / "looks.json")
    made = calibrail.certify(file, fresh, **limits)
    assert (made.verdict, made.certificate.reason_code) == ("inconclusive", "looked_before")
    assert "160 answers" in made.certificate.reason
    assert calibrail.certify(file, new, **limits).verdict == "certified"


def test_what_certify_showed_of_answers_is_told_beside_the_certificate_of_a_run(
    tmp_path: Path,
) -> None:
    data, fresh = scored_file(tmp_path / "a.csv"), scored_file(tmp_path / "b.csv", 1)
    calibrated = calibrail.calibrate(data, by("s0"), alpha=0.2, looks=tmp_path / "a" / "looks.json")
    calibrated.freeze().save(file := tmp_path / "g.json")
    limits = {"min_coverage": 0.6, "max_fpr": 0.4}
    assert calibrail.certify(file, fresh, **limits).verdict == "certified"

    def told(folder: str, name: str, **asked: float) -> list[str]:
        options: dict[str, Any] = {"threshold": calibrated.calibration.threshold, **limits, **asked}
        looks = tmp_path / folder / "looks.json"
        run = calibrail.test(fresh, by(name), **options, looks=looks)
        assert run.verdict == "certified"
        return [item.code for item in run.report.warnings]

    # The guardrail itself, asked the same; other limits; another detector.
    assert told("same", "s0") == []
    assert calibrail.certify(file, fresh, **limits).verdict == "certified"
    assert told("same", "s0") == []
    assert told("limits", "s0", max_fpr=0.39) == ["tested_beside"]
    assert told("other", "s1") == ["others_tried"]


def test_answers_split_by_seed_after_seed_are_told_where_nothing_is_required(
    tmp_path: Path,
) -> None:
    data, run = write(tmp_path / "a.csv", 0, 200), tmp_path / "run"
    options = ["--score-column", "s", "--higher", "hallucinated", "--alpha", "0.1"]
    options += ["--guarantee", "marginal", "--no-baselines", "-o", str(run), "--seed"]
    for seed in (0, 1, 2):
        said = run_command("calibrate", str(data), *options, str(seed)).stdout
        report = json.loads((run / "report.json").read_text())
        values = {item["code"]: item["values"] for item in report["warnings"]}
        assert values.get("calibrated_before", {"n": 0})["n"] == seed
        assert ("holds for settings fixed beforehand" in " ".join(said.split())) is (seed > 0)
    printed = run_command("export", str(run), "-o", str(tmp_path / "g.json")).stdout
    assert "These answers were used 2 times before" in " ".join(printed.split())
    page = calibrail.card(tmp_path / "g.json").markdown()
    assert "calibrated otherwise on the same answers" in page


def test_an_audit_of_several_detectors_may_have_chosen_one(tmp_path: Path) -> None:
    data = scored_file(tmp_path / "a.csv")
    options: dict[str, Any] = {"alpha": 0.2, "max_fpr": 0.3, "baselines": False}

    def verdict(name: str) -> str:
        looks = tmp_path / name / "looks.json"
        return calibrail.calibrate(data, by("s1"), **options, looks=looks).verdict

    # Of one detector it chooses none.
    calibrail.audit(data, by("s1"), geometry=False).save(tmp_path / "one")
    assert verdict("run") == "certified" and not (tmp_path / "one" / "looks.json").exists()
    calibrail.audit(data, [*map(by, SCORES)], geometry=False).save(tmp_path / "audit")
    assert verdict("later") == "inconclusive"


def test_what_shift_has_shown_may_have_chosen_a_detector(tmp_path: Path) -> None:
    data, home = scored_file(tmp_path / "a.csv"), scored_file(tmp_path / "b.csv", seed=7)
    options: dict[str, Any] = {"alpha": 0.2, "max_fpr": 0.3, "baselines": False}
    frozen = calibrail.calibrate(home, by("s1"), **options).freeze()
    frozen.save(tmp_path / "g.json")
    calibrail.shift(home, by("s2"), test=data, alpha=0.2).save(tmp_path / "shift")
    run = calibrail.calibrate(data, by("s1"), **options, looks=tmp_path / "run" / "looks.json")
    assert "others_tried" in {warning.code for warning in run.report.warnings}
    # What sets the threshold was not looked at; what tests it was.
    looks = tmp_path / "home" / "looks.json"
    assert calibrail.calibrate(home, by("s1"), **options, looks=looks).verdict == "certified"
    made = calibrail.certify(tmp_path / "g.json", data, max_false_alarms=0.3)
    assert made.verdict == "inconclusive"


def reached(rows: dict[str, list[Any]], name: str, folder: Path) -> bool:
    """Return whether a test of one threshold certifies a detector, and is no further look."""
    run = calibrail.test(rows, by(name), threshold=2.5, **REACHED, looks=folder / "looks.json")
    assert (run.verdict == "certified") is not bool(run.report.looks)
    return run.verdict == "certified"


def detectors(n: int = 160) -> dict[str, list[Any]]:
    rng = np.random.default_rng(3)
    labels = rng.integers(2, size=n)
    columns = {name: rng.normal(5.0 * labels).tolist() for name in SCORES}
    return {"id": [f"{i:x}" for i in rng.permutation(n)], "label": labels.tolist(), **columns}


def test_a_detector_that_a_comparison_chose_is_known_by_another_name(tmp_path: Path) -> None:
    rows = detectors()
    kept = tmp_path / "compared" / "looks.json"
    calibrail.compare(rows, list(map(by, SCORES)), alpha=0.2, baselines=False, looks=kept)
    columns = {name: rows[name] for name in ("id", "label")}
    other = np.random.default_rng(4).normal(5.0 * np.array(rows["label"])).tolist()
    for name, scores in (("best", rows["s1"]), ("other", other)):
        found = reached(columns | {"best": scores}, "best", tmp_path / name)
        assert found is (name == "other")


def test_a_detector_that_a_comparison_chose_is_known_by_the_order_of_its_scores() -> None:
    rng = np.random.default_rng(8)
    labels = rng.integers(2, size=300).astype(np.int8)
    chosen, other = rng.normal(labels, size=(2, 300))
    digests = rng.integers(2**63, size=300).astype(np.uint64)

    def look(scores: NDArray[np.float64]) -> DataUse:
        return replace(DataUse.at(digests, labels, scores, kinds=("id",)), detector="a")

    several = replace(look(chosen), detector="b", compared=("c" * 16, "d" * 16))
    assert several.chose(look(-np.exp(chosen))) and not several.chose(look(other))
    assert not replace(several, compared=()).chose(look(chosen))


@pytest.mark.parametrize("texts", ["question", "contexts", "neither", "one"])
def test_the_same_responses_are_known_again_beside_other_texts(tmp_path: Path, texts: str) -> None:
    rng, rows = np.random.default_rng(5), detectors()
    words = [f"{a}{b}" for a in "bdfgklmnprst" for b in ("ola", "itan", "uvel", "emir")]

    def said(length: int) -> list[str]:
        return [" ".join(rng.choice(words, length)) for _ in rows["id"]]

    asked, read, answered = said(8), said(30), said(20)
    whole = {"question": asked, "contexts": [[text] for text in read], "response": answered}
    beside: dict[str, list[Any]] = {"question": asked} if texts == "question" else {}
    if texts == "contexts":
        beside = {"contexts": whole["contexts"]}
    if texts == "one":
        beside = {"question": [f"{ask} {text}" for ask, text in zip(asked, read, strict=True)]}
    labels = {"label": rows["label"]}
    assert reached({**labels, **whole, "s0": rows["s0"]}, "s0", tmp_path)
    again = {**labels, **beside, "response": answered, "s1": rows["s1"]}
    assert not reached(again, "s1", tmp_path)
    assert reached(again | {"response": said(20)} | {"s1": rows["s2"]}, "s1", tmp_path / "fresh")


def test_an_apology_that_many_answers_share_makes_fresh_ones_no_others(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    sorry = "I am sorry, but I could not find any information about this in our documents."
    for _ in range(2):
        labels = rng.integers(2, size=200)
        texts = [f"The answer is {' '.join(map(str, rng.integers(99, size=9)))}." for _ in labels]
        rows: dict[str, list[Any]] = {
            "label": labels.tolist(),
            "response": [sorry if rng.random() < 0.4 else text for text in texts],
            "s0": rng.normal(5.0 * labels).tolist(),
        }
        asked: dict[str, Any] = {"threshold": 2.5, **REACHED, "looks": tmp_path / "looks.json"}
        assert calibrail.test(rows, by("s0"), **asked).verdict == "certified"


def test_another_seed_draws_other_answers_of_groups_and_is_another_look(tmp_path: Path) -> None:
    labels = np.arange(400) // 4 % 2
    scores = np.random.default_rng(7).normal(4.0 * labels).tolist()
    rows = {"id": [*range(400)], "label": labels.tolist(), "s0": scores}
    asked: dict[str, Any] = {"alpha": 0.2, "guarantee": "pac", "max_fpr": 0.5, "baselines": False}
    for grouped, looks_before in ((True, [0, 1, 0]), (False, [0, 0, 0])):
        kept, more = tmp_path / f"{grouped}" / "looks.json", {}
        if grouped:
            more = {"group_column": "q"}
        data = rows | ({"q": [f"q{i // 4}" for i in range(400)]} if grouped else {})
        found = [
            calibrail.calibrate(
                data,
                by("s0"),
                **asked,
                **more,
                looks=kept,
                splitting=calibrail.options.SplitOptions(seed=seed),
            ).report.looks
            for seed in (0, 1, 0)
        ]
        assert [*map(len, found)] == looks_before


def test_a_guardrail_whose_column_is_renamed_goes_on_with_its_looks(tmp_path: Path) -> None:
    home, numbers = detectors(), []
    for place, name in enumerate(("s0", "renamed")):
        rows = {"id": home["id"], "label": home["label"], name: home["s0"]}
        run = calibrail.calibrate(rows, by(name), alpha=0.2, baselines=False)
        run.freeze().save(file := tmp_path / f"{name}.json")
        rng = np.random.default_rng(place)
        labels = rng.integers(2, size=160)
        fresh = {"id": [f"{place}-{i}" for i in range(160)], "label": labels.tolist()}
        data = fresh | {name: rng.normal(5.0 * labels).tolist()}
        numbers.append(calibrail.certify(file, data, max_fpr=0.6, min_coverage=0.6).look["number"])
    assert numbers == [1, 2]


def test_a_judge_of_two_values_never_stood_in_a_comparison_of_scores(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    labels = rng.integers(2, size=200)
    rows = {"id": [f"x{i}" for i in range(200)], "label": labels.tolist()}
    spread = np.clip(rng.normal(0.3 + 0.4 * labels, 0.3, size=(2, 200)), 0, 1).round(2).tolist()
    kept = tmp_path / "compared" / "looks.json"
    scores = dict(zip(("s0", "s1"), spread, strict=True))
    calibrail.compare(rows | scores, [by("s0"), by("s1")], alpha=0.2, baselines=False, looks=kept)
    judge = np.where(rng.random(200) < 0.95, labels, 1 - labels).tolist()
    asked: dict[str, Any] = {**REACHED, "threshold": 0.5, "looks": tmp_path / "run" / "looks.json"}
    found = calibrail.test(rows | {"judge": judge}, by("judge"), **asked)
    assert found.verdict == "certified"


def test_batches_whose_labels_are_shuffled_alike_are_others(tmp_path: Path) -> None:
    labels = np.random.default_rng(42).permutation([0] * 150 + [1] * 150)
    for batch in range(2):
        rng = np.random.default_rng(50 + batch)
        rows = {
            "id": [f"{batch}-{i}" for i in range(300)],
            "label": labels.tolist(),
            "s0": rng.normal(5.0 * labels).tolist(),
        }
        asked: dict[str, Any] = {**REACHED, "threshold": 2.5, "looks": tmp_path / "looks.json"}
        assert calibrail.test(rows, by("s0"), **asked).verdict == "certified"


def test_guardrails_that_share_a_threshold_have_looks_of_their_own(tmp_path: Path) -> None:
    numbers = []
    for place, name in enumerate(("s0", "s1")):
        rng = np.random.default_rng(place)
        labels, fresh = rng.integers(2, size=(2, 300))

        def rows(kind: str, of: NDArray[np.int64], name: str = name) -> dict[str, list[Any]]:
            votes = np.random.default_rng(len(name + kind)).binomial(3, 0.1 + 0.8 * of) / 3.0
            ids = [f"{name}{kind}{i}" for i in range(len(of))]
            return {"id": ids, "label": of.tolist(), name: votes.tolist()}

        run = calibrail.calibrate(rows("a", labels), by(name), alpha=0.2, baselines=False)
        run.freeze().save(file := tmp_path / f"{name}.json")
        limits = {"max_fpr": 0.6, "min_coverage": 0.6}
        numbers.append(calibrail.certify(file, rows("b", fresh), **limits).look["number"])
    assert numbers == [1, 1]


@pytest.mark.parametrize("way", ["group", "topic", "segment"])
def test_other_groups_of_the_same_answers_are_another_look(tmp_path: Path, way: str) -> None:
    rng, data = np.random.default_rng(5), tmp_path / "a.csv"
    labels, places = np.arange(600) % 2, np.arange(600) // 2 % 4
    scores = np.round(rng.normal(6.0 * labels), 3)
    if way == "segment":
        scores = (scores > 3.0).astype(int)

    def looked(names: list[str]) -> str:
        """Return the verdict on answers that these names part, after all looks so far."""
        columns = zip(range(600), scores, labels, names, strict=True)
        lines = [f"r{i},{score},{label},{name}" for i, score, label, name in columns]
        data.write_text("\n".join(["id,s,label,name", *lines]) + "\n")
        asked: dict[str, Any] = {"max_false_alarms": 0.3, "looks": tmp_path / "looks.json"}
        if way == "segment":
            asked |= {"by": "name", "min_caught": 0.7}
            return calibrail.agree(data, judge_column="s", label_column="label", **asked).verdict
        if way == "topic":
            asked |= {"alpha": 0.2, "by": "name", "baselines": False}
            return calibrail.calibrate(data, DETECTOR, **asked).verdict
        asked |= {"threshold": 3.0, "min_caught": 0.7, "group_column": "name"}
        return calibrail.test(data, DETECTOR, **asked).verdict

    if way == "group":
        places = np.arange(600) // 4
    own = [f"a{place}" for place in places]
    assert looked(own) == "certified"
    # By whatever names, in whatever order.
    assert looked([f"b{place}" for place in places]) == "certified"
    assert looked([own[row] for row in rng.permutation(600)]) == "inconclusive"


@pytest.mark.parametrize(("group", "verdict"), [(True, "inconclusive"), (False, "certified")])
def test_respelt_answers_of_groups_are_another_look(
    tmp_path: Path, group: bool, verdict: str
) -> None:
    rng = np.random.default_rng(6)
    rows: list[dict[str, Any]] = [
        {
            "id": f"r{row}",
            "label": row % 2,
            "s": float(rng.normal(6.0 * (row % 2))),
            "contexts": ["Notes."],
            "response": " ".join(map(str, rng.integers(10**6, size=9))),
        }
        | ({"source": f"q{row // 4}"} if group else {})
        for row in range(600)
    ]

    def looked(question: str) -> str:
        asked = {"threshold": 3.0, "min_caught": 0.7, "max_false_alarms": 0.3}
        asked |= {"group_column": "source"} if group else {}
        answers = [row | {"question": question} for row in rows]
        return calibrail.test(answers, DETECTOR, looks=tmp_path / "looks.json", **asked).verdict

    assert [looked("Who?"), looked("Who?"), looked("WHO?")] == ["certified", "certified", verdict]


def look_at_new(ids: list[str], labels: list[int], seed: int, *, texts: bool = True) -> DataUse:
    """Return the look of a detector of its own at answers that say what no others say."""
    rng, seen = np.random.default_rng(seed), look_overlap.TestSetFingerprint()
    for id, label in zip(ids, labels, strict=True):
        said = " ".join(map(str, rng.integers(10**9, size=8))) if texts else ""
        seen.add(Example(id=id, question="What?" * texts, response=said, label=label), rng.normal())
    return replace(seen.look(None, assumed=False), detector=str(seed))


def test_the_same_ids_and_labels_are_the_same_answers_whatever_their_texts() -> None:
    rng, ids = np.random.default_rng(0), [f"{number}" for number in range(240)]
    mixed = rng.integers(2, size=240).tolist()
    first = look_at_new(ids, mixed, 1)
    assert exceeds_reuse_limit(overlapping_uses(look_at_new(ids, mixed, 2), [first]))
    # Other answers of a batch that is numbered alike: drawn, sorted by label, or in pairs.
    orders = rng.integers(2, size=240).tolist(), sorted(mixed), [0, 1] * 120
    for labels in orders:
        batches = look_at_new(ids, labels, 3), look_at_new(ids, labels, 4)
        assert not overlapping_uses(batches[0], [first])
        again = overlapping_uses(batches[0], [batches[1]])
        assert bool(again) == (labels is orders[0])
    rare = [int(number < 3) for number in range(240)]
    assert not overlapping_uses(look_at_new(ids, rare, 5), [look_at_new(ids, rare, 6)])


@pytest.mark.parametrize("texts", [True, False])
def test_a_tenth_of_one_class_is_a_tenth_of_the_evidence(texts: bool) -> None:
    def beside(n: int, again: int, seed: int) -> DataUse:
        ids = [f"h{number}" for number in range(again)]
        ids += [f"{seed}-{number}" for number in range(n + 1000 - again)]
        rng, seen = np.random.default_rng(seed), look_overlap.TestSetFingerprint()
        for place, id in enumerate(ids):
            said = f"What {id} says is in the file." if texts else ""
            example = Example(id=id, question="?" * texts, response=said, label=int(place < n))
            seen.add(example, rng.normal())
        return replace(seen.look(None, assumed=False), detector=str(seed))

    first = beside(100, 100, 1)
    for n, again, known in ((100, 100, True), (100, 12, texts), (100, 4, False), (30, 4, False)):
        assert exceeds_reuse_limit(overlapping_uses(beside(n, again, 2), [first])) == known
