"""Do a report's reason and warnings say what its numbers say?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calibrail import calibrate
from calibrail.evaluation import Sample
from calibrail.report import render_page
from calibrail.report.document import Tile
from calibrail.report.documents import measures
from calibrail.report.documents.calibrate import document
from calibrail.report.documents.calibrate_sections import (
    assumptions,
    baselines_finding,
    look_number,
    risks_reason,
    verdict_summary,
)
from calibrail.report.documents.guardrail import export_document
from calibrail.report.documents.next_steps import label_anew, next_step
from calibrail.report.messages import say
from calibrail.report.text import tile_line
from tests.measured import measure
from tests.report.reports import NOISE, classes, report

pytestmark = pytest.mark.usefixtures("as_command_line")


def few_distinct(hallucinated: list[float], faithful: list[float], alpha: float) -> str:
    """Return the warning of a score that calibration and test part share value by value."""
    values = np.array(2 * hallucinated + faithful)
    labels = np.repeat([1, 0], [2 * len(hallucinated), len(faithful)]).astype(np.int8)
    codes = np.full(len(values), 2, dtype=np.int8)
    codes[: len(hallucinated)] = 1
    warnings = measure(Sample(values, labels, codes), alpha=alpha).warnings
    return next(item.message for item in warnings if item.code == "few_distinct_scores")


def test_two_thresholds_with_nothing_between() -> None:
    text = few_distinct([0.0] * 33 + [1.0] * 66, [0.0] * 90 + [1.0] * 10, 0.05)
    assert text.startswith("The score takes only 2 distinct values on 99 hallucinated calibration")
    assert "can only catch 66.7% and 100% of them. No threshold catches just 95%: " in text
    assert "the threshold in use, 0, catches more than is required and flags 100 of 100" in text
    assert "Less can be promised: 66% (at 10% false alarms)." in text
    assert "cannot be had" not in few_distinct([0.0] * 33 + [1.0] * 66, [0.0] * 90, 0.35)


def test_many_values_with_most_answers_at_one() -> None:
    spread = (-1.0 - np.random.default_rng(0).random(30)).tolist()
    text = few_distinct(spread + [0.0] * 60 + [1.0] * 200, [0.0] * 80 + [-1.5] * 20, 0.15)
    assert text.startswith("60 of 290 hallucinated calibration answers share the score 0. No")


def confounds(**ranks: str) -> dict[str, Any]:
    """Return a section in which each baseline's correlation grows with its place."""
    rows = [
        {"name": name, "ranks": how, "spearman": {"estimate": 0.1 * place or None}, "n": 600}
        for place, (name, how) in enumerate(ranks.items())
    ]
    return {"rows": rows, "auroc": {"estimate": 0.75}, "n": 600}


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ({"a": "worse"}, "This score (AUROC 0.750) ranks these answers better than every baseline"),
        (
            {"a": "better"},
            "The baseline a ranks these answers better than this score (AUROC 0.750)",
        ),
        (
            {"a": "as well"},
            "The baseline a ranks these answers as well as this score (AUROC 0.750), as far as 600 "
            "test answers can tell",
        ),
        (
            {"a": "better", "b": "as well", "c": "better"},
            "The baselines a and c rank these answers better than this score (AUROC 0.750); b as "
            "well as it, as far as 600 test answers can tell",
        ),
    ],
)
def test_baselines_that_rank_as_well_are_named(ranks: dict[str, str], text: str) -> None:
    last = f" The score correlates most with {list(ranks)[-1]} (Spearman 0.{len(ranks) - 1}0)."
    report = {"confounds": confounds(**ranks), "test": {"coverage": {"n": 300}}}
    assert baselines_finding(report) == f"{text}.{last if len(ranks) > 1 else ''}"


def test_a_correlation_of_one_answer_a_group_names_how_many_those_are() -> None:
    section = confounds(a="worse", b="worse")
    section["rows"][1]["n"] = 80
    said = baselines_finding({"confounds": section, "test": {"coverage": {"n": 300}}})
    assert said.endswith(" correlates most with b (Spearman 0.10, 80 of the 600 answers).")


def test_the_risks_that_decide_are_named() -> None:
    measured = [
        {"name": name, "relation": ">=", "level": 0.8, "shown": shown, "test": {**ends}}
        for name, shown, ends in (
            ("precision", "within", {"lower": 0.85, "upper": 0.95}),
            ("recall", "open", {"lower": 0.7, "upper": 0.9}),
            ("accuracy", "within", {"lower": 0.81, "upper": 0.9}),
        )
    ]
    assert risks_reason("inconclusive", measured) == (
        "Recall lies between 70% and 90%, where >= 80% is required."
    )
    assert risks_reason("certified", measured) == (
        "Precision lies between 85% and 95%, where >= 80% is required; accuracy lies between "
        "81% and 90%, where >= 80% is required."
    )


def test_a_promise_that_may_be_refused_says_that_it_counts_refusals() -> None:
    def lines(**options: Any) -> str:
        return " ".join(assumptions(report(**options)))

    assert "promise about misses is an average over all calibrations" in lines(undefined="pass")
    assert (
        "about misses holds in 90% of all calibrations, including those that end without"
        in lines(undefined="pass", guarantee="pac")
    )
    assert "including those that end without" not in lines()
    assert "promise about false alarms is an average" in lines(beta=0.2)


def test_with_a_review_the_bound_is_on_what_is_withheld() -> None:
    limits = {"max_fpr": 0.01, "min_coverage": 0.5}
    assert "confidence it flags at least" in report(**limits)["reason"]
    assert "confidence it flags or reviews at least" in report(**limits, beta=0.2)["reason"]


def test_what_goes_to_review_is_not_called_flagged() -> None:
    rare = (NOISE > 0.8).astype(float)
    value = report(rare, beta=0.3)
    assert value["three_way"]["review"]["count"]
    made = document(value, classes(rare))
    assert made.headline == "Hardly any answer passes"
    assert made.warnings[0].title == "Hardly any answer passes"
    assert "the threshold flags or reviews" in made.warnings[0].text
    assert made.lead[0].text.count("are flagged, about") == 2 and "mistake" not in made.lead[0].text
    assert "No limit on false alarms" not in made.summary
    assert "(--beta limits those flagged alone, to 30%.)" in made.summary
    assert [(tile.name, tile.asked) for tile in made.tiles[:4]] == [
        ("Caught or reviewed", ""),
        ("False alarms or reviews", ""),
        ("Faithful answers flagged", "<= 30%"),
        ("Sent to review", ""),
    ]
    page = render_page(made)
    assert ">false alarms or reviews, % of faithful answers<" in page
    assert "of the dashed line are not passed." in page
    assert '"act":"do not pass"' in page.replace('": "', '":"')
    # The command shows what the words advise.
    assert "(here --alpha 0.2)" in made.next_step and " --alpha 0.2" in made.next_step
    alone = document(report(rare))
    assert alone.headline == "Everything is flagged" and alone.tiles[0].name == "Caught"


@pytest.mark.parametrize(
    ("source", "command", "named"),
    [
        (
            "my runs/a.csv",
            "calibrail calibrate 'my runs/a.csv' --alpha 0.2 --by topic --clustered",
            "'my runs/a.csv' --alpha 0.2",
        ),
        ("a.csv", None, "DATA --score NAME"),
    ],
)
def test_a_rejected_run_names_its_data_in_the_next_step(
    source: str, command: str | None, named: str
) -> None:
    report = {
        "warnings": [],
        "verdict": "rejected",
        "reason": None,
        "data": {"source": source},
        "reproduce": {"command": command},
    }
    assert f"calibrail compare {named} --score" in next_step(report)


def test_advice_is_one_piece_and_asks_for_no_number_that_nobody_labels() -> None:
    rate = {"estimate": 0.9, "lower": 0.88, "upper": 0.97, "count": 180, "n": 200}
    certificate = {
        "needed": {"hallucinated": 200_000, "faithful": 0},
        "coverage": rate,
        "fpr": rate,
        "min_coverage": 0.9,
        "max_fpr": 0.99,
    }
    report = {
        "warnings": [],
        "verdict": "inconclusive",
        "reason": "Coverage lies between 88% and 97%.",
        "data": {},
        "alpha": 0.1,
        "min_coverage": 0.9,
        "confidence": 0.95,
        "guarantee": "marginal",
        "by_group": {"rows": []},
        "risks": None,
        "max_fpr": 0.99,
        "certificate": certificate,
    }
    assert next_step(report).startswith("Calibrate again with --guarantee pac, or require less")
    assert label_anew(certificate) is None
    assert next_step({**report, "guarantee": "pac"}) == say("verdict.too_close")
    certificate["needed"] = {"hallucinated": 4_000, "faithful": 0}
    code, parameters = label_anew(certificate) or ("", {})
    # Nobody finds hallucinated answers alone: of those seen, so many are.
    n = round(4200 * (200 + certificate["fpr"]["n"]) / 200)
    assert code == "label_anew" and "4,200 hallucinated answers" in parameters["wanted"]
    assert parameters["wanted"][-1].endswith(f" (among about {n:,} in all)")
    # What is missed by one alone is rejected: labels of the other decide nothing.
    certificate["max_fpr"] = 0.5
    code, parameters = label_anew(certificate) or ("", {})
    assert parameters["verdict"] == "rejected"
    assert [wanted.split()[1] for wanted in parameters["wanted"]] == ["faithful"]
    # So it is where both are missed, however close to its limit the other one lies.
    certificate["min_coverage"], certificate["needed"] = (
        0.99,
        {"hallucinated": 50, "faithful": None},
    )
    code, parameters = label_anew(certificate) or ("", {})
    assert parameters["verdict"] == "rejected" and parameters["more"].startswith(
        "50 hallucinated answers ("
    )
    asked = {"guarantee": "pac", "min_coverage": 0.99, "reproduce": {}}
    # Nobody labels in order to be rejected: first what takes no labels, then that they do not help.
    step = next_step({**report, **asked})
    assert step.startswith("Allow more misses (a larger --alpha) or more false alarms (a larger ")
    assert "more labels would hardly help, since at these rates about " in step
    assert "new answers would show that it fails. Or see" in step and "Label" not in step


def test_the_bound_that_decides_is_the_number_to_look_at() -> None:
    shown = "(at least 90% shown)"
    lines = [
        ("Caught", "89.8%", "85 to 93%", f">= 90% {shown}", "of the test"),
        ("False alarms", "22.5%", "12.9 to 34.8%", "<= 20%", "open"),
        ("Caught", "at least 90%", "", f">= 90% {shown}", "by rank"),
        ("Faithful answers flagged in the test set", "3.7%", "", "<= 10%", "other answers"),
    ]
    tiles = list(measures.tiles(lines))
    assert tiles == [
        Tile("Caught", "at least 90%", "measured 89.8%", ">= 90%"),
        Tile("False alarms", "22.5%", "12.9 to 34.8%", "<= 20%"),
        Tile("Caught", "at least 90%", "", ">= 90%"),
    ]
    assert tile_line(tiles[0]) == "Caught at least 90% (measured 89.8%; required >= 90%)"


@pytest.mark.parametrize(("measured", "by_chance"), [(0.898, True), (0.9, False), (None, False)])
def test_what_chance_left_below_the_promise_of_a_certificate_is_called_chance(
    measured: float | None, by_chance: bool
) -> None:
    found = {"verdict": "certified", "reason": "", "min_coverage": 0.9, "warnings": []}
    share = {"estimate": measured, "count": 212, "n": 236, "method": "wilson"}
    summary = verdict_summary({**found, "test": {"coverage": share, "auroc": {"lower": 0.9}}})
    assert ("came out at 89.8%, too close to speak against it" in summary) is by_chance
    assert summary.startswith("Meets your requirement.")


def test_an_area_says_what_its_values_mean_below_it() -> None:
    page = render_page(document(report()))
    assert "<small>0.5 = guessing, 1 = perfect</small></dd>" in page


def test_which_answers_a_verdict_counts_stands_beside_the_table_not_above_it() -> None:
    value = report(max_fpr=0.5, guarantee="pac")
    assert measures.counted(report(max_fpr=0.5)) == ""
    certificate = {**value["certificate"], "fpr": {**value["certificate"]["fpr"], "n": 1028}}
    other = {**value, "certificate": certificate, "test": {**value["test"], "fpr": {"n": 514}}}
    said = measures.counted(other)
    assert said.startswith("The verdict counts all 1,028 faithful answers that did not choose")
    assert said.endswith("of the test set alone (514 faithful).")
    assert verdict_summary(other) == verdict_summary(value)


def test_for_a_verdict_there_is_a_whole_command() -> None:
    made = {"command": "calibrail calibrate a.csv --alpha 0.2 -o runs/x"}
    step = next_step({**report(), "reproduce": made})
    command = "calibrail calibrate a.csv --alpha 0.2 --max-false-alarms 0.2 -o RUN"
    assert step.endswith(f"in place of 0.2 (one that you choose now needs new answers): {command}")


def test_more_labels_are_advised_where_few_of_them_make_a_threshold_cautious() -> None:
    few = {"verdict": "rejected", "n_calibration": 40, "reproduce": {}}
    value = {**report(max_fpr=0.5, guarantee="pac"), **few}
    step = next_step({**value, "rank": 1})
    assert step.startswith(
        "Label more answers, and run this on the new ones alone: with only 40 hallucinated "
        "answers the threshold has to be so cautious that it flags much. Another one caught "
    )
    assert "or allow more misses" in step and "calibrail compare" not in step
    # Not of many, and not where no threshold does both on these.
    assert next_step({**value, "rank": 3}).startswith("Allow more misses")
    assert next_step({**value, "rank": 1, "max_fpr": 0.0}).startswith("Allow more misses")


def test_the_first_test_of_several_is_no_news_for_the_lead() -> None:
    for number in (1, 2):
        look = {"number": number, "declared": 3, "together": 0.05, "level": 0.02}
        lead, detail = (look_number({"look": look}, first=first) for first in (False, True))
        assert (lead == "", detail == "") == (number == 1, number == 2)
        assert f"This is test {number} of 3 declared" in lead + detail
        # Verdicts of groups err as often again.
        by = look_number({"look": look, "by_group": {"rows": []}}, first=number == 1)
        assert by == (lead + detail).replace(
            "ence.", "ence about all answers, and as much about the groups."
        )


def test_what_stands_in_for_a_file_is_said() -> None:
    assert "(TRACES, a file of your application's answers): calibrail" in say("certify.use")
    groups = {"groups": ["'legal'"], "by_group": {"column": "team"}}
    assert "By itself the group 'legal' (team) is" in say("certify.rejected_groups", groups)
    for kept in (True, False):
        said = say("fixed_threshold.export", kept=kept, command="calibrail test a.csv -o RUN")
        assert said.endswith(": calibrail test a.csv -o RUN") is not kept


@pytest.mark.parametrize("rejected", [False, True])
def test_another_detector_is_advised_for_groups_that_are_rejected(rejected: bool) -> None:
    verdicts = ["certified", "inconclusive", *["rejected"] * rejected]
    assert ("rejected ones" in say("verdict.look_at_groups", verdicts=verdicts)) == rejected
    seen = say("verdict.look_at_groups", verdicts=verdicts, seen=True)
    assert "test on these alone" in seen and "--calibration-share" not in seen
    only = say("verdict.look_at_groups", verdicts=["certified", "rejected"])
    assert only.startswith("Take another detector for the rejected groups (see")


@pytest.mark.parametrize(("n", "pac"), [(16, False), (17, True)])
def test_pac_is_suggested_where_there_are_labels_for_it(n: int, pac: bool) -> None:
    rows = [
        {"id": f"a{i}", "label": i % 2, "s": i % 2 + (i * 7919 % 101) / 60} for i in range(2 * n)
    ]
    asked = {"alpha": 0.2, "max_fpr": 0.3, "baselines": False}
    score = "column:column=s,higher=hallucinated"
    report = calibrate(rows, score, guarantee="marginal", **asked).report
    assert report.verdict == "inconclusive"
    assert next_step(report.to_dict()).startswith("Calibrate again with --guarantee pac") == pac
    if pac:
        calibrate(rows, score, guarantee="pac", **asked)


def test_what_was_looked_at_before_and_fails_is_not_to_be_certified_anew() -> None:
    taken = {"verdict": "inconclusive", "reason_code": "looked_before"}
    for limit, said in ((0.5, "Freeze this detector"), (0.01, "Allow more misses")):
        value = {**report(max_fpr=limit, guarantee="pac"), **taken}
        assert next_step(value).startswith(said)
        exported = export_document({}, "g.json", [], [], value).next_step
        assert exported.startswith("Certify it" if limit == 0.5 else "Do not rely")
    # Of sentences what is kept may be refused alone.
    kept = {"estimate": 0.4, "lower": 0.3, "upper": 0.5}
    fails = {**value["certificate"], "kept": kept, "kept_at_least": 0.3}
    asked = {**value["requirement"], "max_fpr": None, "min_kept": 0.6}
    parts = {"unit": "sentence", "max_fpr": None, "requirement": asked, "certificate": fails}
    assert next_step({**value, **parts}).startswith("Accept more misses")


def test_both_rates_are_said_in_answers_of_a_hundred_for_readers_who_manage() -> None:
    def said(caught: dict[str, Any], alarms: float, *more: Any) -> str:
        measured = {"coverage": {"lower": 0.0, **caught}, "fpr": {"estimate": alarms}}
        return measures.in_short(measured, *(more or ({},)))[0].text

    assert said({"estimate": 0.93}, 0.171) == (
        "Of 100 hallucinated answers about 7 get through; of 100 good ones about 17 are flagged "
        "by mistake."
    )
    assert "hardly any get through" in said({"estimate": 1.0}, 0.5)
    # What the rank of a threshold proves is a bound, and rounded outwards.
    assert "at most 13 get through" in said({"estimate": None, "lower": 0.876}, 0.5)
    assert "at most 30 get through" in said({"estimate": None, "lower": 0.7}, 0.5)
    # Where all is flagged, next to nothing gets through: what the rank proves would mislead.
    assert said({"estimate": None, "lower": 0.8}, 1.0) == (
        "Nearly everything is flagged, good or bad: of 100 good answers about 100 are flagged by "
        "mistake."
    )
    groups = [
        {"group": name, "max_fpr": 0.2, "verdict": verdict}
        for name, verdict in (("law", "certified"), ("news", "rejected"), ("art", "certified"))
    ]
    assert said({"estimate": None}, 0.5, {"by_group": {"rows": groups, "column": "topic"}}) == (
        "Of 100 hallucinated answers an unknown number get through; of 100 good "
        "ones about 50 are flagged by mistake. By themselves the groups law and art (topic) are "
        "certified; news is rejected."
    )


def test_a_threshold_that_was_found_without_a_limit_names_no_share_that_nobody_required() -> None:
    found, asked = (document(report(max_fpr=limit)) for limit in (None, 0.2))
    assert found.summary.startswith("Flag an answer when") and "Flag" not in asked.summary
    assert [tile.asked for tile in found.tiles] == ["", "", ""]
    assert asked.tiles[0].asked.startswith(">= 90%")
    assert [item.title for item in (*found.lead, *asked.lead)] == ["In short", "In short"]
