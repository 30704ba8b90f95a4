"""Does every figure of the prose beside the leaderboard stand in the committed files?

Under each block of ``docs/leaderboard.md`` that holds figures, a comment names the place of each,
in their order: ``fb.hhem_1.fpr.lower%`` is a percentage, and ``=90`` a figure that is no result.
The latter have to stand in ``STATED``.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from benchmarks.leaderboard.board import Leaderboard
from benchmarks.leaderboard.comparisons import steady
from benchmarks.leaderboard.figures import shipped_svg

ROOT: Final = Path(__file__).resolve().parents[3]
PAGE: Final = ROOT / "docs" / "leaderboard.md"
FOLDER: Final = ROOT / "docs" / "leaderboard"
DATA: Final = {
    "ag": "LLM-AggreFact, together",
    "rv": "LLM-AggreFact, Reveal",
    "rg": "LLM-AggreFact, RAGTruth",
    "eq": "LLM-AggreFact, ExpertQA",
    "fb": "FaithBench",
    "fbu": "FaithBench, unwanted alone",
    "w1": "WikiBio GPT-3, 119 passages",
    "w2": "WikiBio GPT-3, 237 passages",
    "fr": "FRANK",
    "ll": "RAGTruth, answers of Llama-2-7B",
    "rt": "RAGTruth QA",
    "he": "HaluEval QA",
}
#: Detectors that give two values.
YES_NO: Final = ("true_teacher", "true_nli", "gpt_3_5_turbo", "gpt_4_turbo", "gpt_4o")
#: Figures that are no results, and what they are.
STATED: Final = {
    "shares to be caught, and the confidence that goes with delta 0.1": "90 95",
    "delta": "0.1",
    "a shipped threshold": "0.5",
    "sentences that both files of WikiBio hold, and their passages": "951 119 237",
    "neighbours that are one group, and subsets": "6 36 11",
    "draws": "50",
    "AUROC of ReDeEP where public_sets.py chooses the folds": "0.745",
}
FIGURE: Final = re.compile(r"(?<![\w./-])[+-]?\d[\d,]*(?:\.\d+)?(?!\w)")
COMMENT: Final = re.compile(r"<!-- figures: (.*?)\s*-->", re.DOTALL)
TARGETS: Final = {"": 0, "95": 1}


@cache
def committed(name: str) -> Any:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def data_set(name: str) -> Any:
    [found] = [item for item in committed("leaderboard.json")["data_sets"] if item["name"] == name]
    return found


def detectors(sets: Sequence[Any]) -> list[Any]:
    return [row for item in sets for row in item["rows"] if not row["baseline"]]


def counted(rows: Sequence[Any], what: str) -> float | None:
    """Return what is said of several rows together; None where nothing of that name is."""
    targets = [row["targets"][0] for row in rows]
    tests = [row["against"] for row in rows if row["against"] is not None]
    limits = [item["limit"] for item in targets if item["limit"] is not None]
    # A threshold that is shown to catch too little costs less than it may.
    kept = [item["fpr"]["estimate"] for item in targets if item["limit"] is not None]
    found = {
        "rows": len(rows),
        "yes_no": sum(row["name"] in YES_NO for row in rows),
        "flags_all": sum(item["state"] == "flags_all" for item in targets),
        "tested": len(tests),
        "fewer": sum(test["separated"] == "fewer" for test in tests),
        "more": sum(test["separated"] == "more" for test in tests),
        "least_fpr": min(kept, default=None),
        "least_limit": min(limits, default=None),
    }
    return found.get(what)


def in_target(targets: Sequence[Any], what: str) -> Any:
    """Return a field of the target at 90 %, or with 95 behind its name of the other."""
    at = "95" if what.endswith("95") else ""
    return targets[TARGETS[at]][what.removesuffix(at)]


def looked_up(place: str) -> float:
    """Return the number at a place."""
    head, *path = place.split(".")
    found: Any
    if head == "board":
        board = committed("leaderboard.json")
        found = counted(detectors(board["data_sets"]), path[0])
        found = board[path.pop(0)] if found is None else found
        path = []
    elif head in ("claims", "few"):
        everyone = committed("leaderboard.json")["data_sets"]
        sets = [item for item in everyone if item["name"].startswith("LLM-AggreFact")]
        few = [item["rows"][0]["targets"][0]["state"] == "few_labels" for item in sets]
        found = sum(few) if head == "few" else counted(detectors(sets), path[0])
        path = []
    elif head in DATA:
        item, what = data_set(DATA[head]), path.pop(0)
        rows = {row["name"].removeprefix("column:"): row for row in item["rows"]}
        if what in rows:
            found = field(rows[what], path.pop(0))
        elif what == "needed":
            found = item["rows"][0]["targets"][1]["needed"]
        else:
            found = counted(detectors([item]), what)
            found = item[what] if found is None else found
    elif head == "default":
        found, path = default(*path), []
    elif head == "ind":
        item = committed("supplement.json")["assumed_independent"][DATA[path.pop(0)]]
        rows = {name.removeprefix("column:"): row for name, row in item["rows"].items()}
        what = path.pop(0)
        found = in_target(rows[what], path.pop(0)) if what in rows else item[what]
    elif head == "redeep":
        found = committed("supplement.json")["redeep"]
    else:
        found = committed("supplement.json")["ragtruth_qa"]
        if path == ["gpt4"]:
            row = found["published"][1]
            assert row["method"] == "Prompt, gpt-4-turbo"
            p, r = row["precision"], row["recall"]
            return float(2 * p * r / (p + r))
        if path[0] not in found:
            found = found["out_of_fold"]
    for step in path:
        found = found[int(step)] if isinstance(found, list) else found[step]
    return float(found["estimate"] if isinstance(found, dict) else found)


def default(name: str, where: str = "") -> float:
    """Return what a detector costs on a set or on average, or how the default compares."""
    path = ROOT / "benchmarks" / "results" / "default_detector.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    costs, best = content["false_alarms"], content["best"]

    def mean(detector: str, sets: Sequence[str]) -> float:
        return sum(costs[item][detector] for item in sets) / len(sets)

    others = [item for item in next(iter(costs.values())) if item not in (best, "fused")]
    if name == "lead":
        return min(mean(item, [*costs]) for item in others) - mean(best, [*costs])
    people = ("RAGTruth QA", "FaithBench")
    if name == "behind":
        return mean(best, people) - min(mean(item, people) for item in others)
    if name == "luck":
        return max(float(content["spread"][item][best]) for item in people)
    return mean(name, [*costs] if where == "mean" else [where])


def field(row: Any, what: str) -> Any:
    """Return a field of a row of the page."""
    if what in ("shipped", "auroc", "marks"):
        return row[what]
    if what in ("difference", "p_adjusted"):
        return row["against"][what]
    if what == "gain":
        return -row["against"]["difference"]
    return in_target(row["targets"], what)


def shown(place: str, like: str) -> str:
    """Return the figure at a place, with as many decimals as one on the page."""
    if place.startswith("="):
        return place[1:]
    value = looked_up(place.removesuffix("%")) * (100 if place.endswith("%") else 1)
    decimals = len(like.partition(".")[2])
    return f"{value:+.{decimals}f}" if like[0] in "+-" else f"{value:.{decimals}f}"


def blocks(text: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Return each stretch of text up to a comment with its figures and their places."""
    start = 0
    for match in [*COMMENT.finditer(text), None]:
        part = text[start : match.start() if match else len(text)]
        plain = re.sub(r"`[^`]*`|\]\([^)]*\)", " ", part)
        places = match[1].replace("\n", " ").split(", ") if match else []
        yield part.strip(), FIGURE.findall(plain), [place.strip() for place in places]
        start = match.end() if match else len(text)


@pytest.mark.parametrize(
    ("part", "figures", "places"), list(blocks(PAGE.read_text(encoding="utf-8")))
)
def test_every_figure_comes_from_the_committed_files(
    part: str, figures: list[str], places: list[str]
) -> None:
    assert len(figures) == len(places), (figures, places, part)
    for figure, place in zip(figures, places, strict=True):
        number = figure.replace(",", "")
        assert number == shown(place, number), f"{figure} is not {place} in: {part}"


def test_what_is_no_result_is_stated() -> None:
    stated = {figure for figures in STATED.values() for figure in figures.split()}
    text = PAGE.read_text(encoding="utf-8")
    places = [place for _, _, places in blocks(text) for place in places]
    assert sum(not place.startswith("=") for place in places) > 70
    assert {place[1:] for place in places if place.startswith("=")} == stated


def test_a_wrong_figure_and_one_that_is_not_accounted_for_are_found() -> None:
    text = "It costs 64 % (56 to 71).<!-- figures: fr.bertscore_p_article.fpr% -->"
    [(_, figures, places), *_] = blocks(text)
    assert figures == ["64", "56", "71"]
    assert len(places) == 1
    assert shown(places[0], "64") == "61"
    assert shown(places[0], "63.1") == "60.8"


def test_figures_in_names_are_none() -> None:
    [(_, figures, _)] = blocks("Of GPT-3.5, HHEM-2.1 and Llama-2-7B, `x=0.5`, F1 is 1,204 or -0.5.")
    assert figures == ["1,204", "-0.5"]


def test_length_costs_less_than_every_embedding_detector_as_the_readme_says(
    repository: Path,
) -> None:
    said = " ".join((repository / "README.md").read_text(encoding="utf-8").split())
    claim = "On HaluEval QA answer length costs fewer false alarms than every embedding detector"
    assert claim in said
    board = json.loads((repository / "docs/leaderboard/leaderboard.json").read_text("utf-8"))
    [rows] = [item["rows"] for item in board["data_sets"] if item["name"] == "HaluEval QA"]
    found = {row["name"]: row["targets"][0]["fpr"] for row in rows}
    costs = {name: fpr["estimate"] for name, fpr in found.items() if fpr}
    embedding = ("sgi", "rad", "dgi", "redeep", "local_sgi", "displacement_magnitude", "tfg")
    assert all(costs["length"] < costs[name] for name in embedding)


def test_every_link_of_the_page_leads_to_a_committed_file() -> None:
    text = (FOLDER / "index.html").read_text(encoding="utf-8")
    links = set(re.findall(r'<a href="([^"]+)"', text))
    pages = {item["page"] for item in committed("leaderboard.json")["data_sets"]}
    assert {link for link in links if not link.startswith("#")} == pages
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert "runs/" not in ignored
    for page in pages:
        assert (FOLDER / page).read_text(encoding="utf-8").startswith("<!doctype html>")


def test_rows_that_are_read_back_are_corrected_as_those_that_were_computed() -> None:
    content = committed("leaderboard.json")
    board = Leaderboard.from_dict(content)
    promise = {key: getattr(board, key) for key in ("guarantee", "delta", "confidence")}
    again = Leaderboard.of(board.title, promise, board.data_sets)
    assert steady(again.to_dict()) == content


@pytest.mark.painted
def test_the_pictures_are_those_of_the_committed_rows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    text_sets = importlib.import_module("text_sets")
    monkeypatch.setattr(text_sets, "FIGURES", tmp_path)
    for narrow, name in ((False, "leaderboard"), (True, "leaderboard-narrow")):
        text_sets.write_schemes(shipped_svg(committed("leaderboard.json"), narrow=narrow), name)
    for drawn in tmp_path.iterdir():
        assert drawn.read_bytes() == (ROOT / "docs" / "figures" / drawn.name).read_bytes()
    assert len([*tmp_path.iterdir()]) == 4
