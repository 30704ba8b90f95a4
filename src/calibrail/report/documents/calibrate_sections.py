"""Sections of a run's document, and the warnings and sentences in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import calibrail
from calibrail.formatting import Scale, lower_percent, percent
from calibrail.options import ReadOptions
from calibrail.options.data import judge_of
from calibrail.options.fields import spell_words
from calibrail.options.guarantee import OF_THIS_THRESHOLD
from calibrail.report import document as parts
from calibrail.report import text as phrases
from calibrail.report.document import Json
from calibrail.report.documents import measures
from calibrail.report.documents.measures import unit_words
from calibrail.report.documents.next_steps import STEPS
from calibrail.report.figures.plot import interval_lines
from calibrail.report.figures.scores import MOST_GROUPS, edges, groups_svg
from calibrail.report.messages import is_known, say, say_each, spell, spell_reasons, title
from calibrail.text.removal import TEARS


def reason(report: Json, n_assumed: int = 0) -> str:
    """Return why a report has its verdict, in words.

    ``n_assumed`` answers were taken as independent although they share groups.
    """
    code, data = report["reason_code"], report["data"]
    parts = [spell(report["certificate"]["reason"], reviews=report["three_way"] is not None)]
    if code == "risks":
        parts = [risks_reason(report["verdict"], report["risks"]["measured"])]
    elif code == "looked_before":
        parts = [looked_before(report["looks"])]
    elif code == "near_copies":
        parts = [say("verdict.near_copies", report["certificate"]["near_copies"])]
    elif code in ("caught_too_few", "rows_alike", "labels_of_judge"):
        judge = judge_of(data.get("reading"))
        about = {"n_alike": data.get("n_alike"), "unit": unit_words(report), "judge": judge}
        parts = [say(f"verdict.{code}", report, about)]
    elif report["certificate"]["reason_code"] == "no_limit" and report["three_way"]:
        parts = [say("verdict.no_limit_of_reviews", report)]
    elif code == "aims_at_the_requirement":
        parts.append(say("verdict.aims_at_the_requirement", report))
    if report["verdict"] == "certified":
        parts.append(few_looked_before(report["looks"]))
    parts.append(assumed(n_assumed))
    if report["requirement"]["assume_independent"]:
        parts.append(assumed(data.get("n_alike", 0), "assumed_apart"))
    return " ".join(filter(None, parts))


def looked_before(looks: Sequence[Json]) -> str:
    """Return why a further look at the same data is no certificate."""
    same = any(look.get("same_traces") for look in looks)
    return say("verdict.looked_before", **_looks(looks), same_traces=same)


def few_looked_before(looks: Sequence[Json]) -> str:
    """Return how few of the answers were looked at before; empty where none were."""
    return say("verdict.few_looked_before", **_looks(looks)) if looks else ""


def _looks(looks: Sequence[Json]) -> dict[str, Any]:
    """Return the first looks by size, place, seed and verdict, and which share all saw."""
    named = [say("verdict.look", look={"folder": "", "compared": 0, **look}) for look in looks]
    return {"looks": named, "shared": sum(look["shared"] for look in looks)}


def assumed(n: int, code: str = "assumed") -> str:
    """Return that answers, or equal rows, were taken as independent; empty where none were."""
    return say(f"verdict.{code}", n=n) if n else ""


def risks_reason(verdict: str, measured: Sequence[Json]) -> str:
    """Return what the bounds of several risks show: those that decide the verdict."""
    state = {"rejected": "exceeded", "inconclusive": "open", "certified": "within"}[verdict]
    shown = [say("verdict.risk", item) for item in measured if item["shown"] == state]
    return f"{phrases.capital(('; ' if verdict == 'certified' else ' and ').join(shown))}."


def add_messages(report: calibrail.Report) -> calibrail.Report:
    """Return a report with the words of its codes: reasons, warnings, and its baselines."""
    content = report.to_dict()
    n_assumed = sum(item.values.get("n_sharing", 0) for item in report.warnings)
    why, confounds = reason(content, n_assumed), report.confounds
    return spell_reasons(
        replace(
            report,
            reason=why,
            certificate={**report.certificate, "reason": why},
            warnings=tuple(
                replace(item, message=message(item.code, content, item.values))
                for item in report.warnings
            ),
            confounds=confounds and {**confounds, "finding": baselines_finding(content)},
        )
    )


def message(code: str, report: Json, values: Json) -> str:
    """Return what a warning says; ``values`` are the numbers that the report does not hold."""
    of_sentences = phrases.by_sentence(report) and is_known(f"sentence_warning.{code}")
    parameters = {"scale": Scale.of(report["score"]), "unit": unit_words(report), "values": values}
    if code == "labels_look_inverted":
        words = (report["data"].get("reading") or {}).get("turned")
        parameters["areas"] = ", ".join(f"{name} {area:.3f}" for name, area in values.items())
        parameters["turned"] = words and spell_words(ReadOptions, words)
    elif code == "baseline_beats_detector":
        parameters |= _better_baselines(report)
    elif code == "not_shown_to_beat_baseline":
        parameters["unclear"] = [
            row["name"]
            for row in report["baselines"]
            if not (row["beats_detector"] or row["detector_beats"])
        ]
    elif code == "few_distinct_scores":
        parameters["shares"] = [percent(k / report["n_calibration"]) for k in values["caught"]]
        parameters["instead"] = _attainable_instead(report["attainable"], parameters)
    return say(f"{'sentence_' if of_sentences else ''}warning.{code}", report, **parameters)


def _better_baselines(report: Json) -> dict[str, Any]:
    """Return the baseline that beats the detector most, and the names of the others that do."""
    better, measure = [row for row in report["baselines"] if row["beats_detector"]], "auroc"
    names = [row["name"] for row in better]
    if phrases.by_sentence(report):
        measure = "kept_supported"
        better = [row for row in report["sentences"]["baselines"] if row["name"] in names]
    best = max(better, key=lambda row: (row[measure]["estimate"], row["name"]))
    return {"best": best, "others": [name for name in names if name != best["name"]]}


def _attainable_instead(offered: Json, parameters: Json) -> str:
    """Return that the target itself cannot be had, where that is so, and what can."""
    if offered["is_attainable"]:
        return ""
    lower = [
        step
        for step in offered["steps"]
        if 0.0 < step["promise"] < offered["target"] and step["fpr"]["estimate"] is not None
    ]
    used = [step for step in offered["steps"] if step["is_used"]]
    about = {"attainable": offered, "used_steps": used, "lower": lower[:3]}
    return say("warning.target_not_attainable", parameters, about) + " "


def baselines_finding(report: Json) -> str:
    """Return which baselines rank as well, and with which one the score correlates most."""
    confounds, tests = report["confounds"], not phrases.is_proven(report["test"]["coverage"])
    rows = confounds["rows"]
    better, alike = ([it["name"] for it in rows if it["ranks"] == k] for k in ("better", "as well"))
    known = [row for row in rows if row["spearman"]["estimate"] is not None]
    closest = max(known, key=lambda row: abs(row["spearman"]["estimate"]), default=None)
    about = {"better": better, "alike": alike, "closest": closest}
    return say("verdict.baselines", confounds, about, tests=tests)


def verdict_summary(result: Json) -> str:
    """Return what the verdict of a report or a certificate means, and why it is what it is."""
    # Of a verdict that was taken back the evidence is not what is missing.
    taken_back = {*STEPS, "calibration_data", "unknown_data"}
    silent = is_unasked(result) or result.get("reason_code") in taken_back
    codes = phrases.warned(result)
    meaning = "" if silent else f"{say('verdict.' + result['verdict'], result, codes=codes)} "
    return f"{meaning}{result['reason']}{_guessing(result)}".lstrip()


def is_clustered(report: Json) -> bool:
    """Return whether answers share groups, of which one answer counts."""
    return any(item["code"] == "clustered" for item in report["warnings"])


def is_unasked(result: Json) -> bool:
    """Say whether a report or a guardrail has no verdict since none was asked for."""
    asked = result.get("requirement") or {"max_fpr": "by certify"}
    limits = [asked.get(name) for name in ("max_fpr", "min_kept", "risks")]
    return result["verdict"] == "inconclusive" and limits in ([None, None, []], [None, None, None])


def verdict_word(result: Json) -> str:
    """Return a verdict for a table; nothing where none was asked for."""
    return "" if is_unasked(result) else measures.verdict_word(result)


def verdict_headline(result: Json) -> str:
    """Return the verdict of a report, or that a threshold was found where none was asked for."""
    judge = judge_of((result.get("data") or {}).get("reading") or result.get("reading"))
    codes = phrases.warned(result)
    if not is_unasked(result):
        return say("verdict.with_doubt", verdict=result["verdict"], codes=codes, judge=judge)
    useless = result.get("flag_all") or "flags_everything" in codes
    return say(f"verdict.{'found_none' if useless else 'found'}", result, judge=judge)


def warning_title(code: str, result: Json) -> str:
    """Return the title of a warning of a report or a guardrail."""
    reviews = result["three_way"] and is_known(f"review_warning.{code}")
    return title(f"{'review_' if reviews else ''}warning.{code}")


def _guessing(result: Json) -> str:
    """Return that a certified detector may tell nothing; empty of one that does."""
    area, rates = result.get("test", result).get("auroc"), result.get("certificate", result)
    if isinstance(area, dict):
        guesses = area["lower"] is not None and area["lower"] <= 0.5
    else:
        lower, upper = rates["coverage"]["lower"], rates["fpr"]["upper"]
        guesses = None not in (lower, upper) and lower <= upper
        area = None
    if result["verdict"] != "certified" or phrases.by_sentence(result) or not guesses:
        return ""
    return f" {say('verdict.guessing', area=area)}"


def look_number(certificate: Json, *, first: bool = False) -> str:
    """Return which look it is, and how likely all may err; of the ``first`` only where asked."""
    look = certificate.get("look") or {"level": None}
    tells = look["level"] and (look["number"] == 1) == first
    return f" {say('verdict.look_number', {**certificate, **look})}" if tells else ""


def how_sure(report: Json) -> str:
    """Return on what level a promise holds: on average, or for this threshold."""
    code = "with_confidence" if report["guarantee"] in OF_THIS_THRESHOLD else "on_average"
    return say(f"verdict.{code}", report, sure=sure(report))


def sure(content: Json) -> float:
    """Return the confidence in a threshold: that of the verdict where one is asked for."""
    own, asked = 1.0 - (content["promise"]["delta"] or 0.0), content["requirement"]
    limits = [asked.get(name) for name in ("max_fpr", "min_coverage", "min_kept")]
    return own if limits == [None, None, None] else min(own, float(asked["confidence"]))


def possible(report: Json) -> Json | None:
    """Return what other thresholds would do about either limit; None where that needs no saying.

    Of the lowest that raises few enough false alarms what it catches, with its lower bound, and of
    the highest that catches enough what it flags, with its upper bound: in the bands of the
    report's ``curve``, which hold for all thresholds. These are given as the user knows them.
    """
    curve, most, least = report["curve"], report["max_fpr"], report["min_coverage"]
    scale = Scale.of(report["score"])
    if report["verdict"] == "certified" or None in (curve, most):
        return None
    points: dict[str, Any] = {"alarms": None, "caught": None}
    for name, rate, end in (("alarms", "coverage", "lower"), ("caught", "fpr", "upper")):
        if (place := edges(report)[name]) is not None:
            values = {"rate": curve[rate]["estimate"][place], "bound": curve[rate][end][place]}
            points[name] = {"threshold": float(to_try(scale, curve, place)), **values}
    return {"max_fpr": most, "min_coverage": least, "confidence": curve["confidence"], **points}


def to_try(scale: Scale, curve: Json, place: int) -> str:
    """Return a threshold of a curve, which may be of before, to be typed in: in few digits."""
    below = curve.get("below")
    return scale.to_try(curve["thresholds"][place], below and below[place])


def possible_section(points: Json | None, of: Json) -> parts.Section | None:
    """Say what `possible` found, in the words for a report or a certificate."""
    about = {"scale": Scale(), "unit": unit_words(of)}
    text = say("verdict.possible", points, about) if points else ""
    return parts.section("What is possible", parts.Text(text))


def rests_on(report: Json, what: str = "the promise") -> parts.Section:
    """Return the part of a page that says what the promise and the intervals rest on."""
    said = parts.Later(lambda: assumptions(report))
    return parts.listing(f"What {what} rests on", said, where="page")


def assumptions(report: Json) -> list[str]:
    """Return what the promise and the intervals rest on."""
    if phrases.by_sentence(report):
        codes = ["same_answers", "about_removed", "marks", "up_to_there", "tears"]
        codes += ["undefined_sentence", "intervals_by_betting"]
        return [say(f"assumption.{code}", report) for code in codes]
    policy, three_way = report["undefined"]["policy"], report["three_way"]
    applies = {
        "assumption.same_source": True,
        "assumption.same_proportion": report["risks"],
        "assumption.labels": True,
        "assumption.intervals": True,
        "assumption.undefined": True,
        "assumption.refusable": policy == "pass" or (three_way and policy == "flag"),
    }
    return [line for _, line in say_each(applies, report)]


def review_reasons() -> dict[str, str]:
    """Return by code why an answer that would lose sentences goes to a person instead."""
    tears = {str(code): words for code, words in TEARS.items()}
    return {**tears, "undefined": say("removal.undefined")}


def removal_summary(measured: Json) -> str:
    """Return what removing sentences does: of ``test`` of a report, or of a certificate."""
    return say("removal.in_short", {"freed": measured.get("coverage")}, measured)


def reviewed_for(counts: Json) -> str:
    """Return why answers go to review; empty where none do."""
    reasons = review_reasons().items()
    why = [f"{words} ({counts[code]:,})" for code, words in reasons if counts[code]]
    return say("removal.reviewed_for", reasons=why) if why else ""


def needed_auroc(report: Json) -> str:
    """Return how well a score would have to rank sentences; empty where that is not known."""
    needed, area = report["sentences"].get("needed_auroc"), report["test"]["auroc"]["estimate"]
    if needed is None or area is None:
        return ""
    return say("removal.needed_auroc", needed=needed, area=area)


def of_report(report: Json) -> Iterator[parts.Block]:
    """Yield the sections that only some reports have."""
    confidence, scale, words = report["confidence"], Scale.of(report["score"]), unit_words(report)
    if report["by_group"]:
        yield _groups(report, scale, words)
    if report["attainable"]:
        yield _attainable(report["attainable"], scale, words)
    if clustering := report["clustering"]:
        text = say("calibrate.clusters", clustering)
        yield parts.section("Groups that count once", parts.Text(text))
    if report["shift"]:
        yield parts.listing("Production", shift_sentences(report["shift"], scale))
    if risks := report["risks"]:
        lines = measures.risk_lines(risks["measured"])
        table = measures.table("The risks on the test set", lines, confidence)
        text = say("calibrate.risks", risks)
        yield parts.section("Several risks at once", table, parts.Text(text))
    if report["three_way"]:
        yield _review(report["three_way"], confidence, scale)
    if report["confounds"]:
        yield parts.section(
            "Does a simple baseline do as well?",
            parts.Text(report["confounds"]["finding"]),
            parts.note(say("calibrate.confounds")),
            where="page",
        )


def _groups(report: Json, scale: Scale, words: Json) -> parts.Section:
    """Show every group's threshold, bounds and verdict, and which groups are let down."""
    # What the certificate hangs on, those of groups hang on, too.
    by_group, asked = report["by_group"], {"warnings": report["warnings"]}
    rows = [{**row, **asked} for row in by_group["rows"]]
    title = f"By {phrases.plain(by_group['column'])}"
    overlap, alone = "by" in by_group, sum(row["own"] for row in rows)
    # Of each group what is caught and what is wrongly acted on, and where what was asked stands.
    rates = ((words["caught"], "coverage", "min_coverage"), (words["harm"], "fpr", "max_fpr"))
    shown = {**by_group, "rows": [measures.together(row) for row in rows]}
    figure = measures.group_targets(rows, by_group["confidence"], words) or parts.Figure(
        "groups",
        partial(groups_svg, shown, names=(words["caught"], words["alarms"])),
        say("calibrate.groups_figure", by_group, unit=words, most=MOST_GROUPS),
    )
    lines = interval_lines(
        (f"{phrases.group_of(row)}: {called}", row[key], row.get(limit))
        for row in shown["rows"][:MOST_GROUPS]
        for called, key, limit in rates
    )
    caught, alarms = map(phrases.capital, (words["caught"], words["alarms"]))
    table = parts.table(
        title,
        ("Group", "Threshold", caught, alarms, "Kept", "Verdict", f"{caught}, shared"),
        [
            (
                phrases.group_of(row),
                _threshold_of(row, scale),
                *(measures.share_of_group(row, name) for name in ("coverage", "fpr")),
                phrases.share_with_bounds(measures.together(row)["kept"])
                if row.get("kept")
                else "",
                verdict_word({**report, **row}),
                phrases.share(row["shared_coverage"]),
            )
            for row in rows
        ],
    )
    # By a corrected test at 5 %.
    broken = [
        say(
            "calibrate.let_down",
            row,
            unit=words,
            group=phrases.group_of(row, phrases.plain),
            what=what,
            coverage=row[f"{key}coverage"],
            p=row[f"{key}p_undercovered"],
        )
        for row in rows
        for key, what in (
            ("", "what is promised" if overlap else "its threshold"),
            ("shared_", "one shared threshold"),
        )
        if row[f"{key}p_undercovered"] <= 0.05
    ]
    about = {"alone": alone, "others": len(rows) - alone}
    text = say(f"calibrate.{'overlap' if overlap else 'groups'}", by_group, about)
    return parts.section(
        title,
        replace(figure, lines=lines) if rows else None,
        table,
        parts.Text(f"{text} {say('calibrate.groups_corrected', by_group)}"),
        parts.Bullets(f"Too few {words['caught']}", broken, style="bad"),
    )


def _threshold_of(row: Json, scale: Scale) -> str:
    """Return the threshold of a group, or the lowest and the highest among its answers."""
    if "thresholds" in row:
        low, high = (scale.cell(end, "all") for end in row["thresholds"])
        return low if low == high else f"{low} to {high}"
    return ("" if row["own"] else "shared ") + scale.cell(row["threshold"], "all")


def _attainable(attainable: Json, scale: Scale, words: Json) -> parts.Section:
    """Show all that a score with few distinct values can promise."""
    title = say("calibrate.all_thresholds", attainable)
    code = "attainable" if attainable["is_attainable"] else "not_attainable"
    rates = {"coverage": words["by_score"], "fpr": words["alarms"]}
    if not any(step["coverage"]["n"] for step in attainable["steps"]):
        # Without a test set what is promised is all that is known.
        del rates["coverage"]
    rows = [
        (
            f"{scale.cell(step['threshold'])}{' (in use)' if step['is_used'] else ''}",
            lower_percent(max(0.0, step["promise"])),
            *(phrases.share_with_bounds(step[rate]) for rate in rates),
        )
        for step in reversed(attainable["steps"])
    ]
    heads = (phrases.capital(rates[rate]) for rate in rates)
    text = parts.Text(say(f"calibrate.{code}", attainable))
    return parts.tabled(title, ("Threshold", "Can promise", *heads), rows, text)


def shift_sentences(shift: Json, scale: Scale) -> list[str]:
    """Say how production differs, what is left of the calibration examples, and what follows."""
    codes = ["told_apart", "worth", "would_move"]
    if shift["auroc"]["estimate"] > 0.9:
        codes.insert(1, "outside")
    return [say(f"calibrate.{code}", shift, scale=scale) for code in codes]


def _review(review: Json, confidence: float, scale: Scale) -> parts.Section:
    """Show the two promises, what they cost, and what no detector can do."""
    sent, counts = review["review"], review["counts"]
    of_each = ", ".join(f"{counts[label]['review']:,} {label}" for label in measures.LABELS)
    passed, flagged = (f"; {review['shown'][outcome]}" for outcome in ("pass", "flag"))
    alpha, beta = (phrases.required("<=", review[name]) for name in ("alpha", "beta"))
    lines = [
        measures.share_line("Hallucinations that pass", review["missed"], alpha, passed),
        measures.share_line("Faithful answers flagged", review["blocked"], beta, flagged),
        ("Sent to review", phrases.share(sent), phrases.interval(sent), "", of_each),
        measures.share_line("Hallucinated among passed", review["released_hallucinated"]),
    ]
    feasible = say("calibrate.least_withheld", review) if review["least_withheld"] > 0.0 else ""
    return parts.section(
        "Pass, review, flag",
        parts.Text(say("calibrate.review", review, scale=scale)),
        measures.table("Pass, review, flag on the test set", lines, confidence),
        parts.Text(feasible),
    )
