"""What a batch's selection releases and promises, from files to the frozen guardrail and back."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterable
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import calibrail
from calibrail.conformal import storey_share
from calibrail.errors import InputError
from calibrail.guardrail import Guardrail
from calibrail.guardrail.file import DataRecord
from calibrail.options import Release, SelectionMethod
from calibrail.pipelines.select import METHODS, BatchSelection
from calibrail.report.document import Heading, Section, Table
from calibrail.report.documents.decisions import select_document
from calibrail.report.terminal import print_document
from calibrail.scores.registry import build_column
from tests.answers import write

Rng = np.random.Generator


#: What tiles of shares are about.
OVER = ("over many batches", "in this batch alone")


def answers(rng: Rng, n: int, pi: float, prefix: str, **more: Any) -> list[dict[str, Any]]:
    """Return n answers of which each is hallucinated with probability pi, with rounded scores."""
    labels = rng.random(n) < pi
    scores = np.round(rng.normal(2.5 * labels, 1.0), 1)
    return [
        {"id": f"{prefix}{i}", "label": int(label), "detector": float(score), **more}
        for i, (label, score) in enumerate(zip(labels, scores, strict=True))
    ]


def guarded(folder: Path, labelled: Iterable[dict[str, Any]], **options: Any) -> Guardrail:
    """Return the guardrail of these answers, through the run's folder and the guardrail's file."""
    column = build_column("detector", higher="hallucinated")
    source = write(folder / "labelled.jsonl", labelled)
    run = calibrail.calibrate(source, column, alpha=0.2, allow_flag_all=True, **options)
    run.freeze().save(folder / "guardrail.json", force=True)
    return Guardrail.load(folder / "guardrail.json")


@pytest.fixture(scope="module")
def guardrail(tmp_path_factory: pytest.TempPathFactory) -> Guardrail:
    return guarded(tmp_path_factory.mktemp("run"), answers(np.random.default_rng(1), 600, 0.2, "L"))


@pytest.mark.parametrize(("n", "pi", "m", "fdr"), [(500, 0.1, 60, 0.1), (160, 0.5, 40, 0.2)])
def test_every_method_keeps_its_rate_through_files_split_and_guardrail(
    tmp_path: Path, n: int, pi: float, m: int, fdr: float
) -> None:
    rng, runs = np.random.default_rng(round(100 * pi)), 25
    rates: dict[str, list[float]] = {method: [] for method in METHODS}
    n_released, beyond = dict.fromkeys(METHODS, 0), 0
    for run in range(runs):
        batch = answers(rng, m, pi, "B")
        labels = np.array([answer.pop("label") for answer in batch], dtype=bool)
        source = write(tmp_path / "batch.jsonl", batch)
        found = calibrail.select(
            guarded(tmp_path, answers(rng, n, pi, f"L{run}-")), source, fdr=fdr, confidence=0.8
        )
        assert found.method == "storey" and found.n_seen_before == 0
        for method, selected in {"storey": found.selection, **found.others}.items():
            assert not isinstance(selected, str)
            n_released[method] += selected.n_released
            wrong = int(np.count_nonzero(labels & selected.released))
            rates[method].append(wrong / max(1, selected.n_released))
        p = found.selection.p_values
        beyond += any(
            np.count_nonzero(labels & (p <= cutoff)) > found.at(cutoff)[1] for cutoff in p
        )
    share = {"bh": pi, "storey": 1.0, "both-classes": 1.0}
    for method, values in rates.items():
        # Four standard errors of the mean.
        assert np.mean(values) <= fdr * share[method] + 4 * np.std(values) / math.sqrt(runs)
    assert 0 < n_released["bh"] < min(n_released["storey"], n_released["both-classes"])
    assert beyond / runs <= 0.2 + 4 * math.sqrt(0.2 * 0.8 / runs)


@pytest.mark.parametrize("method", METHODS)
def test_a_method_releases_what_the_others_say_of_it(
    guardrail: Guardrail, tmp_path: Path, method: SelectionMethod
) -> None:
    batch = answers(np.random.default_rng(2), 150, 0.2, "B")
    batch[3]["detector"] = None
    source = write(tmp_path / "batch.jsonl", batch)
    found = calibrail.select(guardrail, source, fdr=0.1, method=method)
    automatic = calibrail.select(guardrail, source, fdr=0.1)
    assert automatic.method == "storey" and found.method == method
    content, other = found.to_dict(), automatic.to_dict()
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    rows = {row["method"]: row for row in content["methods"]}
    without = [{**row, "chosen": None} for row in other["methods"]]
    assert [{**row, "chosen": None} for row in content["methods"]] == without
    assert [name for name, row in rows.items() if row["chosen"]] == [method]
    assert content["share"] == rows[method]["share"] and content["method"] == method
    assert content["n_released"] == rows[method]["released"] > 0
    assert rows["bh"]["share"] == 1.0 and rows["bh"]["released"] < rows["storey"]["released"]
    data = guardrail.config.data
    assert data.n_hallucinated is not None
    assert rows["both-classes"]["share"] == (data.n_hallucinated + 1) / (data.n_examples + 1)
    p = np.where(np.isnan(found.scores), np.nan, found.selection.p_values)
    assert rows["storey"]["share"] == storey_share(p, guardrail.calibration.n)
    # Every method's selection is a row of the table that holds for all cut-offs together.
    for row in rows.values():
        assert found.at(row["cutoff"]) == (row["released"], row["most_hallucinated"])
    assert content["n_undefined"] == 1 and not found.selection.released[3]


def printed(found: BatchSelection) -> str:
    console = Console(file=StringIO(), width=100)
    print_document(select_document(found.to_dict()), console)
    return " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]


def test_how_many_good_answers_are_held_back_is_bounded_or_said_to_be_unknown(
    guardrail: Guardrail, tmp_path: Path
) -> None:
    batch = answers(np.random.default_rng(2), 600, 0.2, "B")
    found = calibrail.select(guardrail, write(tmp_path / "a.jsonl", batch), fdr=0.02)
    content, said = found.to_dict(), printed(found)
    held = len(batch) - content["n_released"]
    (least,) = re.findall(
        rf"Of the {held} held back at least (\d+) are good answers, with 95%", said
    )
    good = sum(
        not row["label"]
        for row, released in zip(batch, found.selection.released, strict=True)
        if not released
    )
    assert int(least) == held - content["most_hallucinated_in_batch"] and 0 < int(least) <= good
    unknown = f"How many of the {held} held back are good answers is not known: label some"
    # A row that cannot be used is no good answer, and a bound that is not promised is no bound.
    for more in ({"n_grouped": 2}, {"most_hallucinated_in_batch": held}, {"n_errors": held}):
        assert unknown in select_document({**content, **more}).summary
    few = calibrail.select(guardrail, tmp_path / "a.jsonl", fdr=0.0001)
    assert not few.selection.n_released and "held back" in select_document(few.to_dict()).summary


def test_each_promise_is_said_with_what_it_takes(guardrail: Guardrail, tmp_path: Path) -> None:
    source = write(tmp_path / "b.jsonl", answers(np.random.default_rng(2), 100, 0.2, "B"))
    sentences: dict[SelectionMethod, tuple[str, ...]] = {
        "bh": (
            "Method bh: on average at most 10% times the share of hallucinated answers in the ",
        ),
        "storey": ("batches of independent answers", "Method storey: it estimates that "),
        "both-classes": (
            "hallucinated as often as these (19",
            "of 600), and neither chosen by",
            "if answers are hallucinated as often here as among the labelled ones",
        ),
    }
    for method, parts in sentences.items():
        text = printed(calibrail.select(guardrail, source, fdr=0.1, method=method))
        assert all(part in text for part in parts), text
        promised = (
            "Over many batches like this at most 10% of the released answers are hallucinated, on "
        )
        assert promised in text
        assert "if you chose it, and the batch, before you saw this table" in text
        assert "all these bounds hold together, so you may choose any row after looking" in text


def test_average_and_bound_of_this_batch_are_told_apart(
    guardrail: Guardrail, tmp_path: Path
) -> None:
    source = write(tmp_path / "b.jsonl", answers(np.random.default_rng(2), 300, 0.2, "B"))
    content = calibrail.select(guardrail, source, fdr=0.1).to_dict()
    (chosen,) = (row for row in content["table"] if row["chosen"])
    page = select_document(content)
    bound = f"{chosen['most_hallucinated']} of the {content['n_released']}"
    assert chosen["share"] > 0.1
    assert f"For this one batch alone less is certain: at most {bound}" in page.summary
    assert "method" not in page.summary.lower() and "p-value" not in page.summary
    safe = {"cutoff": 0.01, "released": 50, "most_hallucinated": 4, "share": 0.08, "chosen": False}
    safest = select_document({**content, "table": [safe, chosen]}).summary
    assert "release only the 50 that look safest: at most 4 of them (8%)." in safest
    assert "look safest" not in select_document({**content, "table": [chosen]}).summary
    names = ["May be released", *(f"Hallucinated, {over}" for over in OVER)]
    assert [tile.name for tile in page.tiles] == names
    # A bound within the promise rules more out; where answers share a group, there is none.
    low = {**content, "table": [{**chosen, "share": 0.08}]}
    assert "The same holds of this batch alone: at most" in select_document(low).summary
    grouped = select_document({**content, "n_grouped": 2})
    assert "this batch alone" not in grouped.summary and len(grouped.tiles) == 2
    # A round cut-off that releases about the same answers is no other choice.
    near = {**chosen, "chosen": False, "cutoff": 0.1234}
    page = select_document({**content, "table": [near, chosen]})
    (section, *_) = (block for block in page.blocks if isinstance(block, Section))
    (table, *_) = (block for block in section.blocks if isinstance(block, Table))
    assert [row[-1] for row in table.rows if not isinstance(row, Heading)] == ["chosen"]


def test_where_few_are_hallucinated_everything_with_a_score_is_released(
    guardrail: Guardrail, tmp_path: Path
) -> None:
    batch = answers(np.random.default_rng(2), 100, 0.2, "B")
    batch[0]["detector"] = None
    source = write(tmp_path / "b.jsonl", batch)
    found = calibrail.select(guardrail, source, fdr=0.3, method="both-classes")
    assert found.selection.n_released == 99 and not found.selection.released[0]
    (row,) = (row for row in found.table() if row["chosen"])
    assert (row["released"], row["cutoff"]) == (99, found.selection.p_values[1:].max())
    assert "Every answer with a score may be released: the assumed share" in printed(found)


def test_one_calibration_answer_releases_nothing_and_says_what_it_takes(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    labelled = [*answers(rng, 20, 0.0, "L"), *answers(rng, 2, 1.0, "H")]
    source = write(tmp_path / "b.jsonl", answers(rng, 40, 0.2, "B"))
    found = calibrail.select(guarded(tmp_path, labelled), source, fdr=0.1)
    assert found.n_calibration == 1 and found.selection.n_released == 0
    assert found.selection.share == (1 + 40) * 2 / 40
    assert "The smallest p-value that 1 calibration answer can give is 0.5" in printed(found)


def test_answers_that_share_a_group_call_for_bh(guardrail: Guardrail, tmp_path: Path) -> None:
    batch = answers(np.random.default_rng(3), 100, 0.2, "B")
    for place, item in enumerate(batch[:30]):
        item["group"] = f"q{place // 3}"
    batch[40]["group"] = "alone"
    source = write(tmp_path / "b.jsonl", batch)
    found = calibrail.select(guardrail, source, fdr=0.1)
    assert (found.method, found.n_grouped) == ("bh", 30)
    assert found.others["storey"] == "grouped_batch"
    text = printed(found)
    assert "30 answers of the batch share a group with another" in text
    assert "no promise: answers of the batch share a group" in text
    assert "a group with another, so none of these bounds is promised, only the average" in text
    assert "all these bounds hold together" not in text
    both = calibrail.select(guardrail, source, fdr=0.1, method="both-classes")
    assert both.selection.n_released >= found.selection.n_released
    with pytest.raises(InputError, match="take the method bh, or select from one answer per group"):
        calibrail.select(guardrail, source, fdr=0.1, method="storey")


def test_a_clustered_guardrail_counts_one_answer_of_each_group(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    labelled = answers(rng, 400, 0.5, "L")
    for place, item in enumerate(labelled):
        item["group"] = f"q{place // 4}"
    # A question that is answered thirty times, always with the lowest score.
    labelled += [{"id": f"M{i}", "label": 1, "detector": -9.0, "group": "much"} for i in range(30)]
    for item in labelled:
        item["split"] = (
            "test" if item["group"] < "q40" and item["group"] != "much" else "calibration"
        )
    splitting = calibrail.SplitOptions(column="split")
    guardrail = guarded(tmp_path, labelled, clustered=True, splitting=splitting)
    source = write(tmp_path / "batch.jsonl", answers(rng, 80, 0.2, "B"))
    found = calibrail.select(guardrail, source, fdr=0.2)
    groups = {row["group"] for row in labelled if row["split"] == "calibration" and row["label"]}
    assert found.n_calibration == len(groups) < guardrail.calibration.n
    # The one low score of the crowd, and no other, lies below every answer.
    assert found.selection.p_values.min() == 2 / (len(groups) + 1)
    again = calibrail.select(Guardrail.load(tmp_path / "guardrail.json"), source, fdr=0.2)
    assert again.lines() == found.lines() and again.to_dict() == found.to_dict()
    assert found.others["both-classes"] == "grouped_labels"
    with pytest.raises(InputError, match="needs independent labelled answers"):
        calibrail.select(guardrail, source, fdr=0.2, method="both-classes")
    grouped = write(tmp_path / "grouped.jsonl", answers(rng, 9, 0.2, "C", group="one"))
    with pytest.raises(InputError, match="9 of 9 answers share a group with another"):
        calibrail.select(guardrail, grouped, fdr=0.2)


def test_one_score_of_each_cluster_follows_the_law_of_a_new_one() -> None:
    from calibrail.conformal import Promise, calibrate_clusters

    made = calibrate_clusters(
        [1.0, 2.0, 3.0, np.nan, 5.0], [0, 0, 7, 7, 9], Promise(0.5, allow_flag_all=True)
    )
    drawn = made.one_per_cluster()
    assert drawn[0] in (1.0, 2.0) and (drawn[1] == 3.0 or np.isnan(drawn[1])) and drawn[2] == 5.0
    counts = np.zeros(2)
    for k in range(200):
        sizes = [1.0 + k / 997, 2.0 + k / 997] + [10.0 + j for j in range(k)]
        two = calibrate_clusters(sizes, [0, 0, *range(1, k + 1)], Promise(0.5, allow_flag_all=True))
        counts[int(two.one_per_cluster()[0]) - 1] += 1
    assert counts.min() > 60


def test_a_guardrail_that_does_not_say_how_many_were_hallucinated(
    guardrail: Guardrail, tmp_path: Path
) -> None:
    older = guardrail.config.data.model_dump(exclude={"n_hallucinated"})
    config = guardrail.config.model_copy(update={"data": DataRecord(**older)})
    source = write(tmp_path / "b.jsonl", answers(np.random.default_rng(2), 50, 0.2, "B"))
    found = calibrail.select(Guardrail(config), source, fdr=0.1)
    assert found.others["both-classes"] == "unknown_mix"
    with pytest.raises(InputError, match="calibrate and export it again"):
        calibrail.select(Guardrail(config), source, fdr=0.1, method="both-classes")


def test_groups_of_their_own_thresholds_are_refused(tmp_path: Path) -> None:
    labelled = answers(np.random.default_rng(5), 300, 0.5, "L", topic="law")
    guardrail = guarded(tmp_path, labelled, by="topic")
    batch = write(tmp_path / "b.jsonl", answers(np.random.default_rng(2), 50, 0.2, "B", topic="x"))
    with pytest.raises(InputError, match="select needs a guardrail with one threshold"):
        calibrail.select(guardrail, batch, fdr=0.1)


def test_a_release_checks_itself() -> None:
    assert dataclasses.asdict(Release(0.1)) == {"fdr": 0.1, "method": "auto", "confidence": 0.95}
    for options, message in (
        ({"fdr": 1.0}, "fdr must lie in"),
        ({"fdr": 0.1, "method": "by"}, "method must be one of auto, bh, storey, both-classes"),
        ({"fdr": 0.1, "confidence": 0.0}, "confidence must lie in"),
    ):
        with pytest.raises(InputError, match=message):
            Release(**options)  # type: ignore[arg-type]
