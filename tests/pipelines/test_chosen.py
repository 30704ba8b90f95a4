"""Does what a comparison chose ship with the certificate of answers that did not choose it?"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import calibrail
from calibrail.data.splits import CALIBRATION, CHOOSING, TEST
from calibrail.evaluation import winner
from calibrail.guardrail.file import read_file
from calibrail.pipelines.check import check_source
from calibrail.pipelines.compare import ComparisonRun
from calibrail.pipelines.data_reuse import Standing, report_after_reuse
from calibrail.serve.guardrails import Loaded
from calibrail.serve.process import describe_guardrail
from tests.answers import rows as answers
from tests.command_line import calibrail as run_command

LIMITS: dict[str, Any] = {"alpha": 0.2, "max_fpr": 0.4, "min_coverage": 0.6}
FLAGS = "--higher hallucinated --alpha 0.2 --max-fpr 0.4 --min-coverage 0.6 --guarantee marginal"


def table(
    *shifts: float, n: int = 600, seed: int = 0, share: float = 0.5, prefix: str = "r"
) -> list[dict[str, Any]]:
    """Return rows with a column of scores for each shift of the hallucinated ones: a, b, ..."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(n) < share).astype(int)
    columns = {chr(97 + i): rng.normal(shift * labels) for i, shift in enumerate(shifts)}
    return [
        {"id": f"{prefix}{row}", "label": int(label)}
        | {name: round(float(values[row]), 6) for name, values in columns.items()}
        for row, label in enumerate(labels)
    ]


def compared(rows: list[dict[str, Any]], names: str = "ab", **options: Any) -> ComparisonRun:
    scores = [f"column:column={name},higher=hallucinated" for name in names]
    return calibrail.compare(rows, scores, **{**LIMITS, **options})


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return path


def command(code: int, *words: object) -> str:
    """Run one command, and return all that it printed in one line."""
    done = run_command(*words)
    assert done.returncode == code, done.stderr
    return " ".join(f"{done.stdout} {done.stderr}".split())


def columns(names: str) -> list[str]:
    return [word for name in names for word in ("--score-column", name)]


@pytest.mark.parametrize("guarantee", ["marginal", "pac"])
def test_what_is_frozen_decides_as_one_that_was_calibrated_alone(
    guarantee: Any, tmp_path: Path
) -> None:
    rows = table(3.0, 0.5)
    comparison = compared(rows, guarantee=guarantee)
    assert comparison.comparison.winner.name == "a"
    halves = calibrail.SplitOptions(calibration_share=0.5)
    alone = calibrail.calibrate(
        rows, "column:column=a,higher=hallucinated", guarantee=guarantee, splitting=halves, **LIMITS
    )
    frozen, other = comparison.freeze(), alone.freeze()
    assert frozen.config.calibration == other.config.calibration
    assert frozen.config.data.calibration_examples == other.config.data.calibration_examples
    fresh = table(3.0, 0.5, seed=1, prefix="new")

    decided = []
    for name, guardrail in (("chosen", frozen), ("alone", other)):
        check_source(guardrail, fresh, tmp_path / name)
        # Each line names its own guardrail, and what it says is the same.
        named = guardrail.config.digest
        decided.append((tmp_path / name).read_text().replace(named, "its own"))
    assert decided[0] == decided[1]
    headline = frozen.config.headline
    assert headline.verdict == "certified"
    # What its rank proves of a detector named beforehand proves nothing of the one chosen.
    assert comparison.chosen().report.certificate["coverage"]["method"] == "clopper-pearson"
    assert headline.coverage["n"] + headline.fpr["n"] < sum(alone.codes == TEST)


def test_the_certificate_is_of_the_half_that_did_not_choose_alone() -> None:
    rows = table(2.0, 0.5)
    before = compared(rows)
    codes = before.chosen().codes
    assert codes is not None and {int(code) for code in codes} == {CALIBRATION, TEST, CHOOSING}

    def changed(part: int) -> ComparisonRun:
        rng = np.random.default_rng(3)
        noisy = [
            {**row, "a": float(rng.normal(4.0 * row["label"]))} if code == part else row
            for row, code in zip(rows, codes.tolist(), strict=True)
        ]
        return compared(noisy)

    other = changed(CHOOSING)
    assert other.comparison.detectors != before.comparison.detectors
    assert other.chosen().report.certificate == before.chosen().report.certificate
    assert other.chosen().report.test == before.chosen().report.test
    other = changed(TEST)
    assert other.chosen().rule.to_dict() == before.chosen().rule.to_dict()
    assert other.chosen().report.certificate != before.chosen().report.certificate
    assert [row.test for _, row in other.comparison.detectors] == [
        row.test for _, row in before.comparison.detectors
    ]


def test_without_a_winner_only_best_freezes(tmp_path: Path) -> None:
    rows = table(2.6, 2.6)
    data, run, file = written(tmp_path / "a.jsonl", rows), tmp_path / "run", tmp_path / "g.json"
    words = ["compare", data, *columns("ab"), *FLAGS.split(), "-o", run, "--export", file]
    printed = command(4, *words)
    assert "nothing was frozen: there is no winner" in printed and "--best" in printed
    assert "No winner" in printed and not file.exists()
    assert json.loads((run / "compare.json").read_text())["winner"]["certificate"] is None
    printed = command(2, "export", run, "-o", file)
    assert "there is no winner" in printed and "(--best)" in printed
    command(0, "export", run, "-o", file, "--best")
    first = file.read_bytes()
    printed = command(0, *words, "--best")
    assert file.read_bytes() == first
    assert "on answers that did not choose it: certified" in printed
    config = read_file(file)[0]
    choice = config.data.choice
    assert choice is not None and (choice["n_detectors"], choice["winner"]) == (2, False)
    assert choice["confirming"]["n_faithful"] == config.headline.fpr["n"]
    page = " ".join(calibrail.card(file).markdown().split())
    assert "among 2 detectors without a winner" in page
    assert "named beforehand" in page and "whatever the detector is" not in page
    with pytest.raises(calibrail.InputError, match="best=True"):
        compared(rows).freeze()
    assert compared(rows).freeze(best=True).config.headline.verdict == "certified"


def test_best_and_sign_want_an_export(tmp_path: Path) -> None:
    data = written(tmp_path / "a.jsonl", table(2.0, 1.0, n=60))
    words = ["compare", data, *columns("ab"), *FLAGS.split(), "-o", tmp_path / "run"]
    assert "add --export FILE" in command(2, *words, "--best")


def test_a_comparison_that_kept_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "compare.json").write_text('{"schema": "calibrail.compare/1"}')
    with pytest.raises(calibrail.InputError, match="nothing to freeze"):
        calibrail.Run.load(tmp_path)


def report_of(run: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((run / "report.json").read_text())
    return content


def test_a_choice_is_carried_into_what_is_calibrated_on_the_same_answers(tmp_path: Path) -> None:
    data = str(written(tmp_path / "a.jsonl", table(2.6, 2.4, 2.2, 2.2)))
    more = str(written(tmp_path / "b.jsonl", table(2.6, 2.4, 2.2, 2.2, seed=1, prefix="new")))

    def calibrated(name: str, folder: str, *options: str, source: str = data) -> dict[str, Any]:
        words = ["calibrate", source, *columns(name), *FLAGS.split(), *options]
        run_command(*words, "-o", tmp_path / folder)
        return report_of(tmp_path / folder)

    earlier = calibrated("a", "earlier")
    assert earlier["verdict"] == "certified"
    words = ["compare", data, *columns("ab"), *FLAGS.split(), "--looks", "3"]
    command(0, *words, "-o", tmp_path / "compared")
    later = calibrated("a", "later")
    assert (later["verdict"], later["reason_code"]) == ("inconclusive", "looked_before")
    assert "in a comparison of 2 detectors" in later["reason"]
    assert [item["code"] for item in later["warnings"]][-1] == "compared_before"
    # Declared looks divide one error among looks at one detector, not among the best of several.
    assert calibrated("b", "compared", "--looks", "3")["verdict"] == "inconclusive"
    guardrail = tmp_path / "g.json"
    printed = command(0, "export", tmp_path / "later", "-o", guardrail)
    assert "compared with 1 other on these answers" in printed
    page = calibrail.card(guardrail).markdown()
    assert "There is no verdict" in page and "chosen among others on the same answers" in page
    # What stood beside the detector of a run may have been chosen by it; its own was named before.
    calibrated("cd", "beside")
    assert calibrated("d", "d")["verdict"] == "inconclusive"
    # What no comparison chose, what other answers say, and what was said before stays.
    assert calibrated("c", "other")["verdict"] == "certified"
    assert calibrated("a", "fresh", source=more)["verdict"] == "certified"
    assert calibrated("a", "earlier") == earlier


def test_the_best_of_ten_equal_detectors_is_rarely_certified_wrongly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each detector flags three of ten faithful answers, and at most 29.9 % are allowed."""
    monkeypatch.setattr(winner.intervals, "draws_for", lambda n, *most: 200)
    limits: dict[str, Any] = {"alpha": 0.1, "max_fpr": 0.299, "min_coverage": 0.8}
    limits |= {"guarantee": "pac", "delta": 0.05, "confidence": 0.8}
    runs, wrong, by_calibrate = 40, 0, 0
    for seed in range(runs):
        rng, rows = np.random.default_rng(seed), table(n=600, seed=seed)
        for row in rows:
            flagged = rng.random(10) < (0.99 if row["label"] else 0.3)
            row |= dict(zip("abcdefghij", flagged.astype(float).tolist(), strict=True))
        limits["splitting"] = calibrail.SplitOptions(calibration_share=0.5, seed=seed)
        chosen = compared(rows, "abcdefghij", **limits).chosen(best=True)
        assert chosen.rule.calibration.threshold == 1.0
        wrong += chosen.verdict == "certified"
        detector = f"column:column={chosen.report.score['params']['column']},higher=hallucinated"
        alone = calibrail.calibrate(rows, detector, **limits)
        by_calibrate += alone.verdict == "certified"
    # More than this in as many runs at what calibrate states has a probability of 1 in 1,000.
    most = binom.ppf(0.999, runs, 0.05 + 0.1)
    assert wrong <= most < by_calibrate, (wrong, by_calibrate)


def odd(kind: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Return answers and two detectors that are odd in a way, the better one first."""
    rows = table(2.6, 0.3, n=480)
    names = [f"column:column={name},higher=hallucinated" for name in "ab"]
    if kind == "faithful":
        rows = [{**row, "a": -row["a"]} for row in rows]
        names[0] = "column:column=a,higher=faithful"
    elif kind == "groups":
        rows = [{**row, "group": f"g{place // 3}"} for place, row in enumerate(rows)]
    elif kind == "undefined":
        rows = [{**row, "a": row["a"] if place % 9 else None} for place, row in enumerate(rows)]
    elif kind == "learns":
        return answers(), ['ensemble:scores="novelty,length"', "entities"]
    elif kind == "near copies":
        rows = [
            {**row, "response": f"Answer {place % 400} of all, or nearly"}
            for place, row in enumerate(rows)
        ]
    return rows, names


@pytest.mark.parametrize("kind", ["faithful", "groups", "undefined", "learns", "near copies"])
def test_a_folder_keeps_what_is_frozen_of_odd_data(kind: str, tmp_path: Path) -> None:
    rows, names = odd(kind)
    comparison = calibrail.compare(rows, names, **LIMITS)
    frozen = comparison.freeze(best=True)
    comparison.save(tmp_path / "run")
    again = calibrail.Run.load(tmp_path / "run", best=True).freeze()
    assert again.config.to_bytes() == frozen.config.to_bytes()
    chosen = comparison.chosen(best=True)
    certificate, fpr = chosen.report.certificate, chosen.report.test.fpr
    counted = certificate["counted"]
    assert counted == ("one answer of each group and class" if kind == "groups" else "every answer")
    assert kind == "groups" or certificate["fpr"]["count"] == fpr.count
    chosen.save(tmp_path / "alone")
    again = calibrail.Run.load(tmp_path / "alone").freeze()
    assert again.config.to_bytes() == frozen.config.to_bytes()


@pytest.mark.parametrize("group", ["certified", "inconclusive"])
@pytest.mark.parametrize("wins", [False, True])
def test_what_was_tried_is_told_of_whatever_is_certified(group: str, wins: bool) -> None:
    """A group, or a winner on the half that confirms it, where the whole is not."""
    made = calibrail.calibrate(table(2.6), "column:column=a,higher=hallucinated", alpha=0.2)
    by = {"column": "topic", "rows": [{"verdict": group}]}
    report = replace(made.report, verdict="inconclusive", by_group=by)
    found = report_after_reuse(report, Standing(beside={"others_tried": {"n": 2}}), wins=wins)
    told = "others_tried" in [item.code for item in found.warnings]
    assert told == (wins or group == "certified")


def test_runs_of_other_detectors_beside_a_run_are_told_beside_its_certificate(
    tmp_path: Path,
) -> None:
    data = str(written(tmp_path / "a.jsonl", table(2.6, 2.6, 2.6, 2.6)))
    more = str(written(tmp_path / "b.jsonl", table(2.6, 2.6, seed=1, prefix="new")))

    def calibrated(name: str, folder: str, source: str = data) -> list[str]:
        words = ["calibrate", source, *columns(name), *FLAGS.split(), "--no-baselines"]
        command(0, *words, "-o", tmp_path / "runs" / folder)
        return [item["code"] for item in report_of(tmp_path / "runs" / folder)["warnings"]]

    # Other answers, and the same detector in another folder, are no choice among detectors.
    assert "others_tried" not in calibrated("a", "first")
    assert "others_tried" not in calibrated("a", "again")
    assert "others_tried" not in calibrated("b", "elsewhere", more)
    assert "others_tried" in calibrated("b", "second")
    assert "others_tried" in calibrated("c", "third")
    said = report_of(tmp_path / "runs" / "third")["warnings"][-1]["message"]
    assert said.startswith("2 other detectors were tried on these answers")
    # Whichever is frozen, and what was tried after it counts.
    guardrail = tmp_path / "g.json"
    printed = " ".join(command(0, "export", tmp_path / "runs" / "first", "-o", guardrail).split())
    assert "2 other detectors were tried on these answers" in printed
    assert "others_tried" in read_file(guardrail)[0].headline.warnings
    assert "other detectors were tried on the same answers" in calibrail.card(guardrail).markdown()
    verified = " ".join(command(0, "guardrail", "verify", guardrail).split())
    known = "when calibrated: certified, if fixed beforehand"
    assert verified.endswith(known) and f"; {known}" in printed
    served = Loaded("g", guardrail, calibrail.Guardrail.load(guardrail), datetime.now(UTC))
    assert f", {known}; " in describe_guardrail(served)
    alone = " ".join(
        command(0, "export", tmp_path / "runs" / "elsewhere", "-o", tmp_path / "e.json").split()
    )
    assert "tried" not in alone
    # A comparison of them all says what it chose among.
    words = ["compare", data, *columns("abc"), *FLAGS.split(), "-o", tmp_path / "runs" / "compared"]
    command(0, *words)
    chosen = json.loads((tmp_path / "runs" / "compared" / "chosen.json").read_text())
    assert "others_tried" not in [item["code"] for item in chosen["report"]["warnings"]]
    # A threshold in use is one of several detectors' all the same.
    goals = ["--higher", "hallucinated", "--threshold", "1.5"]
    goals += ["--min-caught", "0.5", "--max-false-alarms", "0.4"]
    for name, told in (("a", False), ("b", True)):
        folder = tmp_path / "tests" / name
        command(0, "test", data, *columns(name), *goals, "-o", folder)
        codes = [item["code"] for item in report_of(folder)["warnings"]]
        assert ("others_tried" in codes) is told


def test_other_looks_of_the_detector_in_folders_beside_are_told_beside_its_certificate(
    tmp_path: Path,
) -> None:
    data = str(written(tmp_path / "a.jsonl", table(2.6, 2.6)))

    def codes(folder: str, *more: str) -> list[str]:
        words = ["calibrate", data, *columns("a"), *FLAGS.split(), "--no-baselines", *more]
        command(0, *words, "-o", tmp_path / "runs" / folder)
        return [item["code"] for item in report_of(tmp_path / "runs" / folder)["warnings"]]

    assert "tested_beside" not in codes("first")
    assert "tested_beside" not in codes("again")
    assert "tested_beside" in codes("limits", "--max-fpr", "0.45")
    told = report_of(tmp_path / "runs" / "limits")["warnings"][-1]["message"]
    assert told.startswith("This detector was tested 1 other time on these")
    printed = command(0, "export", tmp_path / "runs" / "first", "-o", tmp_path / "g.json")
    assert "This detector was tested 1 other time" in " ".join(printed.split())
    goals = ["--higher", "hallucinated", "--threshold", "1.5"]
    command(0, "test", data, *columns("a"), *goals, "-o", tmp_path / "tests" / "first")
    goals += ["--min-caught", "0.5", "--max-false-alarms", "0.4"]
    command(0, "test", data, *columns("a"), *goals, "-o", tmp_path / "tests" / "second")
    known = report_of(tmp_path / "tests" / "second")["warnings"]
    assert "tested_beside" in [item["code"] for item in known]


def test_verdicts_of_one_threshold_on_ever_fresh_answers_are_counted(tmp_path: Path) -> None:
    goals = ["--higher", "hallucinated", "--threshold", "1.5"]
    limits = ["--min-caught", "0.5", "--max-false-alarms", "0.4"]

    def warned(number: int, folder: str, *words: str) -> list[dict[str, float]]:
        rows = table(2.6, seed=number, prefix=f"{number}-")
        data, out = written(tmp_path / f"{number}.jsonl", rows), tmp_path / "runs" / folder
        command(0, "test", data, *columns("a"), *(words or (*goals, *limits)), "-o", out, "--force")
        codes = report_of(out)["warnings"]
        return [item["values"] for item in codes if item["code"] == "judged_before"]

    assert warned(1, "first") == []
    # Without limits there is no verdict; another threshold has verdicts of its own.
    assert warned(2, "unasked", *goals) == []
    assert warned(3, "other", *goals[:3], "1.4", *limits) == []
    assert warned(4, "second", *goals, *limits, "--confidence", "0.8") == [{"n": 1, "errors": 0.05}]
    # In a folder beside it and in its own, each with the error that it had.
    assert warned(5, "second") == [{"n": 2, "errors": 0.25}]
    told = report_of(tmp_path / "runs" / "second")["warnings"][-1]["message"]
    assert "errs with at most 5%, this or one of those with up to 30%" in " ".join(told.split())
    # The same answers again are one set.
    assert warned(5, "second") == warned(5, "again") == [{"n": 2, "errors": 0.25}]
    shown = command(0, "export", tmp_path / "runs" / "first", "-o", tmp_path / "g.json")
    assert "This threshold had 2 verdicts on other answers" in " ".join(shown.split())


def test_select_says_that_its_answers_chose_the_detector(tmp_path: Path) -> None:
    rows = table(2.6, 2.4)
    chosen = compared(rows).freeze(best=True)
    named = calibrail.calibrate(rows, "column:column=a,higher=hallucinated", alpha=0.2).freeze()
    fresh = table(2.6, 2.4, n=60, seed=3, prefix="new")
    for guardrail, says in ((chosen, True), (named, False)):
        made = calibrail.select(guardrail, fresh, fdr=0.2)
        assert made.to_dict()["detector_chosen"] is says
        assert ("chose this detector among others" in " ".join(made.markdown().split())) is says
