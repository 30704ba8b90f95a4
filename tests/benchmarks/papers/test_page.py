"""Every figure of docs/papers.md is a committed result, or something that a paper states.

Each part of the page has a function that writes its sentences from results; what they leave of the
part holds no figure but those of ``STATED``.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[3]
RESULTS: Final = ROOT / "benchmarks" / "results"
WORDS: Final = {1: "one", 2: "two", 3: "three", 5: "five", 7: "seven"}
#: Figures that are no results, by the part of the page.
STATED: Final[Mapping[str, str]] = {
    "": "95",  # per cent of the intervals
    "Semantic Grounding Index": "2 4",  # tables
    "The Semantic Illusion": "95",  # per cent to be caught
    "The repository's displacement table": "1 10",  # neighbours
    "Thresholds on another data set": "95 11",  # published: caught at home and elsewhere
    "Conformal factuality": "90",  # per cent of our trimming
    "A published AUROC at a threshold": "90",  # per cent to be caught
}
FIGURE: Final = re.compile(r"(?<![\w.-])\d[\d,]*(?:\.\d+)?(?!\w)")


class Row:
    """One line of a table of results: what was published, what was measured, and the verdict."""

    def __init__(self, line: str) -> None:
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        self.table, self.row, self.column, self.published, measured = cells[:5]
        self.verdict, self.why = cells[6:8]
        self.measured, _, rest = measured.partition(" (")
        self.ends = rest.rstrip(")")

    @property
    def numbers(self) -> list[float]:
        return [float(each) for each in re.findall(r"[\d.]+", f"{self.measured} {self.ends}")]


class Part(dict[tuple[str, str], Row]):
    """Rows of a section of results by row and column, and the section's text."""

    def __init__(self, name: str, section: str) -> None:
        results = (RESULTS / f"papers_{name}.md").read_text(encoding="utf-8")
        self.text = results.split(f"\n## {section}", 1)[1].split("\n## ", 1)[0]
        rows = [Row(line) for line in self.text.splitlines() if line.count(" | ") > 6]
        super().__init__(((row.row, row.column), row) for row in rows if row.table != "table")
        self.rows = [row for row in rows if row.table != "table"]

    def n(self, pattern: str) -> list[int]:
        """Return the whole numbers that a pattern finds in the text."""
        [found] = re.findall(pattern, self.text)
        return [int(each.replace(",", "")) for each in found]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    for folder in ("benchmarks", "benchmarks/papers"):
        monkeypatch.syspath_prepend(str(ROOT / folder))
    return importlib.import_module


def committed(name: str) -> Any:
    return json.loads((RESULTS / f"papers_{name}.json").read_text(encoding="utf-8"))


def questions(*_: object) -> list[str]:
    bad, good, asked = Part("sgi", "All answers").n(
        r"([\d,]+) hallucinated and ([\d,]+) right answers to ([\d,]+) questions"
    )
    assert bad == good == asked
    ragtruth = Part("semantic_illusion", "RAGTruth").n(
        r"([\d,]+) hallucinated and ([\d,]+) faithful"
    )
    return [f"{asked:,} questions of HaluEval QA, {sum(ragtruth)} RAGTruth answers"]


def grounding(*_: object) -> list[str]:
    long, every = Part("sgi", "Answers of at least 20 characters"), Part("sgi", "All answers")
    judged = [row for row in long.rows if row.verdict.endswith("reproduced")]
    assert {row.verdict for row in judged} == {"reproduced"}
    assert {row.table for row in judged} == {"1", "5"}
    missed = [row for row in every.rows if row.verdict == "not reproduced"]
    assert len(judged) == len(missed) + sum(row.verdict == "reproduced" for row in every.rows)
    valid, bad, d, auc = (long["minilm", name] for name in ("SGI valid", "SGI halluc", "d", "AUC"))
    kept = long.n(r"([\d,]+) hallucinated and ([\d,]+) right answers")
    of = every.n(r"([\d,]+) hallucinated and ([\d,]+) right answers")
    lost = [1 - one / whole for one, whole in zip(kept, of, strict=True)]
    ece = long["calibration", "ECE"]
    truthful = Part("sgi", "TruthfulQA")["theta(r,q)", "AUC"]
    return [
        f"all {WORDS[len(judged)]} cells of tables 1 and 5: means {valid.measured} and "
        f"{bad.measured} (published {valid.published} and {bad.published}), d {d.measured} "
        f"({d.published}), AUC {auc.measured} ({auc.published}).",
        "answers of at least 20 characters",
        f"removes {lost[1]:.0%} of the right answers and {lost[0]:.0%} of the hallucinated ones",
        f"{WORDS[len(missed)]} of the {WORDS[len(judged)]} cells are not reproduced (AUC "
        f"{every['minilm', 'AUC'].measured})",
        f"TruthfulQA: AUC {truthful.measured} ({truthful.published}).",
        f"ECE: {ece.measured} ({ece.ends}; published {ece.published})",
    ]


def illusion(*_: object) -> list[str]:
    swapped, refused, halueval, ragtruth = (
        Part("semantic_illusion", name)
        for name in (
            "Natural Questions, answers swapped",
            "Natural Questions, refusals",
            "HaluEval QA",
            "RAGTruth",
        )
    )
    every = [row for part in (swapped, refused, halueval, ragtruth) for row in part.rows]
    assert {row.verdict for row in every} == {"not runnable here"}  # no cell has a verdict
    table = [row for row in halueval.rows if row.table == "2"]
    assert len(table) > 10 and all(row.why.endswith("would agree") for row in table)
    flagged = halueval["HaluEval, alpha 0.05", "FPR"]
    one, low, high = flagged.numbers
    overlap = halueval["HaluEval", "overlap"]
    paper = refused["NQ", "FPR"]
    assert paper.why.endswith("would agree")  # the paper's code, and its figure
    of_swaps = swapped["NQ, alpha 0.05", "FPR"].numbers
    of_ragtruth = ragtruth["RAGTruth", "FPR"].numbers
    detectors = (RESULTS / "detectors.md").read_text(encoding="utf-8").split("## HaluEval QA")[1]
    [length] = re.findall(r"^\| length \| ([\d.]+)", detectors, re.MULTILINE)
    return [
        f"flags {one}% of the right answers ({low} to {high:g}; published "
        f"{float(flagged.published[:-1]):g}%), and agrees at every \N{GREEK SMALL LETTER ALPHA} of "
        "table 2",
        f"{overlap.numbers[0]:.1f}% ({float(overlap.published[:-1]):.1f}%)",
        f"length alone reaches AUROC {float(length):.2f} there",
        f"`redeep` costs {halueval['ReDeEP style', 'FPR'].numbers[0]:.0f}% false alarms",
        f"hence its {float(paper.published[:-1])}%",
        f"flag {of_swaps[0]:.1f}% ({of_swaps[1]:.1f} to {of_swaps[2]:.1f})",
        f"{of_ragtruth[0]:.1f}% false alarms ({of_ragtruth[1]:.0f} to {of_ragtruth[2]:.0f}; "
        "published for QA 85%)",
    ]


def provenance(*_: object) -> list[str]:
    part = Part("provenance", "Table 3")
    assert {row.verdict for row in part.rows} == {"not runnable here"}
    row = part["HaluEval QA", "AUC"]
    return [f"AUC {row.measured} ({row.ends}; published {row.published})"]


def displacement(*_: object) -> list[str]:
    near, far, other = (
        Part("displacement", f"{name} neighbour")
        for name in (
            "With the leakage: references are the tested answers, 1",
            "With the leakage: references are the tested answers, 10",
            "Without leakage: references answer other questions, 10",
        )
    )
    assert {row.verdict for row in other.rows} == {"not reproduced"}
    said = []
    for name, decimals in (
        ("expected response deviation", (3, 2, 2)),
        ("tangent residual", (3, 3, 2)),
    ):
        key = name.replace(" ", "_")
        published = ", ".join(near[key, f"{each}-domain"].published for each in ("cross", "within"))
        parts = zip((near, far, other), decimals, strict=True)
        cells = [f"{part[key, 'cross-domain'].numbers[0]:.{n}f}" for part, n in parts]
        said.append(f"| {name} | {published} | {' | '.join(cells)} |")
    return said


def drift(script: Callable[[str], ModuleType]) -> list[str]:
    module = script("drift")
    rows = {(row["home"], row["score"]): row for row in committed("drift")["rows"]}

    def whole(share: Sequence[float]) -> str:
        return f"{100 * share[0]:.0f}%"

    moved, *others = (rows["Natural Questions", name] for name in module.SCORES)
    back, _, few = (rows["RAGTruth QA", name] for name in module.SCORES)
    assert (moved["finding"], few["finding"]) == ("broken", "broken")
    caught, alarms = moved["weighted"]
    return [
        f"`rouge_l`, set to {1 - module.ALPHA:.0%} on Natural Questions' swapped answers, catches "
        f"{module.shown(moved['caught'])} of RAGTruth QA's hallucinations",
        f"`novelty` and `novel_count` catch {whole(others[0]['caught'])} and "
        f"{whole(others[1]['caught'])}, the latter at {whole(others[1]['false_alarms'])} false",
        f"calls the promise broken for `rouge_l`: {1 - module.ALPHA:.0%} caught costs "
        f"{module.shown(moved['needed'])} false alarms there",
        f"catch {whole(caught)} at {whole(alarms)} false alarms",
        f"`rouge_l` catches {whole(back['caught'])} at {whole(back['false_alarms'])} false alarms, "
        f"and `novel_count` {whole(few['caught'])}:",
    ]


def factuality(script: Callable[[str], ModuleType]) -> list[str]:
    content, rag = committed("conformal_factuality"), script("conformal_rag")
    measured = (RESULTS / "papers_conformal_factuality.md").read_text(encoding="utf-8")
    published = re.findall(r"\| (-?\d\.\d{12,}) \| (-?\d\.\d{12,}) \|", measured)
    equal = sum(one == other for one, other in published)
    math, sets, stated = content["claims"]["MATH"], content["rag"]["sets"], content["rag"]["stated"]
    stripped = content["claims"]["MATH, blanks stripped"]["trimmed"][1][0]
    [(read, as_it_is)] = re.findall(r"90% costs (\d+%) of the claims instead of (\d+%)", measured)

    def more(name: str, arm: str) -> list[float]:
        found: list[float] = sets[name]["arms"][arm]["more"][1]
        return found

    popqa, hotpotqa = more("PopQA", "similarity"), more("HotpotQA", "similarity")
    alpha, loses, without = rag.PUBLISHED_REMOVED
    (ours, *_), (one, low, high) = ([100 * x for x in figure] for figure in stated["removed"])
    at, threshold = rag.PUBLISHED_THRESHOLD
    # Of five figures those that come out as printed: the third is of other answers, and the
    # claims of the example are not there.
    right = (f"{ours:.1f}" == f"{100 * loses:.1f}") + (
        f"{stated['threshold']:.3f}" == f"{threshold}"
    )
    facts = content["rag"]["figures"]["FActScore, similarity"][0][0]
    _, either, both = sets["PopQA"]["twice"]
    return [
        f"to the last digit**: {WORDS[equal]} thresholds",
        f"made MATH lose {as_it_is} of its claims, not {read}",
        f"{100 * math['cleaned'][0]:.0f}% of its answers with a wrong claim are cleared",
        f"takes {100 * math['trimmed'][1][0]:.0f}% ({100 * stripped:.0f}% without the blanks)",
        f"in {WORDS[right]} of {WORDS[2 + 1 + len(rag.PUBLISHED_SCORES)]} figures",
        f"At {1 - alpha:.0%} FActScore loses {ours:.1f}% of its claims, and at {1 - at:.0%} "
        f"`{rag.EXAMPLE[0]}`'s threshold is {stated['threshold']:.3f}",
        f"stands on {stated['with_wrong']} answers with a wrong claim: by halves it is "
        f"{100 * facts[rag.TARGETS.index(alpha)]:.0f}%",
        f"lose {one:.1f}% ({low:.1f} to {high:.1f}; published {without:.1%}",
        f"{popqa[0]:.1f} times as many right claims ({popqa[1]:.1f} to {popqa[2]:.1f}) on PopQA "
        f"as without passages, random scores {more('PopQA', rag.LOT)[0]:.1f} times",
        f"HotpotQA {hotpotqa[0]:.1f} times ({hotpotqa[1]:.1f} to {hotpotqa[2]:.1f})",
        f"Of {either} claims that a model annotated as wrong, it did so twice for {both}.",
    ]


def area(script: Callable[[str], ModuleType]) -> list[str]:
    module = script("drift")
    at, n = module.JEV["auroc"], module.LABELS[0]
    costs = [100 * module.false_alarms(at, share) for share in (0.9, 0.95)]
    return [
        f"AUROC of {at} costs {costs[0]:.0f}% false alarms at 90% caught, and {costs[1]:.0f}% at "
        "95%",
        f"by {n} labelled answers of each class, 90% costs "
        f"{100 * module.false_alarms(at, 0.9, n):.0f}% on average; that certifies "
        f"{100 * module.limit_with(at, 0.9, n):.0f}% ({module.CONFIDENCE - module.DELTA:.1%} "
        "confidence",
        f"ECE of {module.JEV['ece']}",
    ]


PARTS: Final[Mapping[str, Callable[..., list[str]]]] = {
    "": questions,
    "Semantic Grounding Index": grounding,
    "The Semantic Illusion": illusion,
    "Provenance": provenance,
    "The repository's displacement table": displacement,
    "Thresholds on another data set": drift,
    "Conformal factuality": factuality,
    "A published AUROC at a threshold": area,
}


def parts() -> dict[str, str]:
    """Return the parts of the page by the beginnings of their headings."""
    text = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    first, *rest = text.split("\n## ")
    found = {"": first}
    for part in rest:
        head, _, below = part.partition("\n")
        [name] = [name for name in PARTS if name and head.startswith(name)]
        found[name] = below
    return found


def test_every_part_of_the_page_is_looked_at() -> None:
    assert [*parts()] == [*PARTS]


@pytest.mark.parametrize("name", [*PARTS])
def test_every_figure_is_a_result(name: str, script: Callable[[str], ModuleType]) -> None:
    # Commands, addresses and names of papers are no figures of results.
    prose = re.sub(r"^    .*$|\]\([^)]*\)|arXiv [\d.]+", " ", parts()[name], flags=re.MULTILINE)
    prose = " ".join(prose.split())
    for sentence in PARTS[name](script):
        assert sentence in prose
        prose = prose.replace(sentence, " ", 1)
    assert {*FIGURE.findall(prose)} <= {*STATED.get(name, "").split()}, prose
