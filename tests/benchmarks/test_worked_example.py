"""docs/worked-example.md quotes the committed results, and these are those of the public data."""

from __future__ import annotations

import importlib
import json
import math
import re
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

#: Figures of the page that are no results: what was required, and promised, in per cent; the
#: thresholds that the model ships with and that a reader picks; the score of a new claim.
STATED: Final = {"80", "20", "60", "90", "95", "0.5", "0.86", "0.03"}


@pytest.fixture
def example(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    return importlib.import_module("worked_example")


@pytest.fixture
def page(repository: Path) -> str:
    text = (repository / "docs" / "worked-example.md").read_text(encoding="utf-8")
    return " ".join(text.replace("\n> ", "\n").replace("\\\n", "\n").split())


@pytest.fixture
def committed(repository: Path) -> Any:
    path = repository / "benchmarks" / "results" / "worked_example.json"
    return json.loads(path.read_text(encoding="utf-8"))


def rounded(found: Any) -> Any:
    """Return results as a file holds them, without the last digits of their floats."""
    return json.loads(json.dumps(found), parse_float=lambda text: round(float(text), 9))


def said_of_the_claims(found: Any) -> list[str]:
    fpr, shipped = found["fpr"], found["shipped"]
    return [
        f"{found['n']} steps of models' reasoning",
        f"{found['n_hallucinated']} of them unsupported",
        f"blocks of {found['block']} neighbouring rows",
        f"*{found['verdict'].capitalize()}.* The threshold, {found['threshold']:.4f}, flags "
        f"{fpr['count']} of {fpr['n']} faithful claims, one of each block: {fpr['estimate']:.1%}. "
        f"The 0.5 that the model ships with catches {shipped['caught']['count']} of "
        f"{shipped['caught']['n']}, and flags {shipped['fpr']['count']}.",
        f'score, 0.03. It is {found["new"]["outcome"]}ged: "{found["new"]["reason"]}".',
        f"**{found['card']['verdict'].strip('*')}.** {found['card']['says']}",
    ]


def said_of_the_summaries(found: Any) -> list[str]:
    fpr, alone, (bbc, cnndm) = found["fpr"], found["assumed_independent"], found["by"].values()
    shared = cnndm["shared_coverage"]
    return [
        f"{found['n']:,} machine-written summaries",
        f"*{found['verdict'].capitalize()}.* The threshold, {found['threshold']:.4f}, catches",
        f"It flags {fpr['count']} of {fpr['n']} faithful summaries, {fpr['estimate']:.1%}, and at "
        f"least {math.floor(1000 * found['fpr_at_least']) / 10}% with the same confidence",
        f"The AUROC of {found['auroc']:.3f}",
        f"the {found['n_hallucinated']:,} hallucinated summaries come from {found['n_articles']} "
        "articles",
        f"you get {alone['threshold']:.4f}, {alone['fpr']['estimate']:.0%} false alarms, and "
        f"*{alone['verdict']}*",
        f"catches {bbc['shared_coverage']['estimate']:.1%} of the hallucinated `bbc` test "
        f"summaries and {shared['estimate']:.1%} of the `cnndm` ones ({shared['count']} of "
        f"{shared['n']}; Holm-adjusted p = {math.ceil(1000 * cnndm['p_too_few']) / 1000}",
        f"lifts `cnndm` to {cnndm['coverage']['estimate']:.1%}, at {cnndm['fpr']['estimate']:.1%} "
        "false alarms",
        f"`bbc` lies at {bbc['coverage']['estimate']:.1%}",
    ]


def test_every_figure_of_the_page_is_a_committed_result(page: str, committed: Any) -> None:
    assert committed["frank"]["most_of_an_article"] == 5 and "Up to five systems" in page
    assert list(committed["frank"]["by"]) == ["bbc", "cnndm"]
    said = [*said_of_the_claims(committed["claims"]), *said_of_the_summaries(committed["frank"])]
    for sentence in said:
        assert sentence in page
        page = page.replace(sentence, " ")
    # Of options the page shows commands, and of a picture its address.
    left = re.sub(r"calibrail [a-z]+ .*? -o \S+|\]\([^)]*\)|`[^`]*`", " ", page)
    assert {*re.findall(r"(?<![\w.-])\d[\d,]*(?:\.\d+)?(?!\w)", left)} <= STATED


def test_what_is_required_on_the_page_is_what_was_run(example: ModuleType, page: str) -> None:
    assert f"Required: {1 - example.ALPHA:.0%} caught, at most {example.MOST:.0%} false" in page
    assert f"--alpha {example.ALPHA} --max-false-alarms {example.MOST} -o runs/claims" in page
    assert f"--score-column {example.BASE} --higher faithful --group-column block" in page
    assert (f"{example.SHIPPED}", f"{example.NEW}") == ("0.5", "0.03")
    certified = f"## FactCG on {example.SUBSET}: certified"
    assert page.index(certified) < page.index("## BERTScore on FRANK: rejected")


def test_the_certified_detector(
    example: ModuleType, real_data: Path, committed: Any, repository: Path, tmp_path: Path
) -> None:
    if not (scores := real_data / "aggrefact" / "scores.csv").is_file():
        pytest.skip(f"no {scores}")
    example.write_claims(scores, tmp_path / "claims.csv")
    found, card = example.certify(tmp_path / "claims.csv", tmp_path)
    assert found["verdict"] == "certified"
    assert rounded(found) == rounded(committed["claims"])
    example.draw_card(card, tmp_path / "worked_card.svg")
    for scheme in example.SCHEMES:
        drawn = (tmp_path / f"worked_card-{scheme}.svg").read_text(encoding="utf-8")
        figure = repository / "docs" / "figures" / f"worked_card-{scheme}.svg"
        assert drawn == figure.read_text(encoding="utf-8")
        # On no background: neither a sheet nor a halo around its words.
        assert "#ffffff" not in drawn and "var(--" not in drawn


def test_the_rejected_detector(
    example: ModuleType, real_data: Path, committed: Any, repository: Path, tmp_path: Path
) -> None:
    found, pac, by = example.reject(real_data / "frank" / "metric_scores.csv")
    assert found["verdict"] == "rejected"
    assert rounded(found) == rounded(committed["frank"])
    for scheme, colours in example.SCHEMES.items():
        example.draw_curve(pac, colours, tmp_path / f"frank_curve-{scheme}.svg")
        example.draw_groups(by["by_group"], colours, tmp_path / f"frank_groups-{scheme}.svg")
    for drawn in tmp_path.iterdir():
        figure = repository / "docs" / "figures" / drawn.name
        assert drawn.read_bytes() == figure.read_bytes(), drawn.name
