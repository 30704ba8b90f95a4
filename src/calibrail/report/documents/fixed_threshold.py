"""Document of a threshold that was given and tested."""

import math
import shlex
from collections.abc import Iterator
from typing import Any, Final

from calibrail.conformal import ClassCounts, certify_counts, minimum_n
from calibrail.data.labels import NO, PLAIN, YES, is_unsaid, label_key
from calibrail.formatting import Scale
from calibrail.options import Costs, ReadOptions, Requirement
from calibrail.options.data import judge_of
from calibrail.options.fields import cli_or_python, spell_words, spellings
from calibrail.report import document as parts
from calibrail.report import text
from calibrail.report.document import Document, Json
from calibrail.report.documents import calibrate_sections as sections
from calibrail.report.documents import measures, next_steps
from calibrail.report.documents.examples import error_examples
from calibrail.report.documents.measures import BothScores, scores_figure
from calibrail.report.messages import say

#: Shares caught of which there is a line each about another threshold.
_STEPS = (0.95, 0.8, 0.5)
#: What is asked most often, where nothing was: least caught, most false alarms.
_USUAL = {"min_coverage": 0.8, "max_fpr": 0.2}


def of_fixed(report: Json, scores: BothScores | None, examples: Json | None) -> Document:
    """Return what only a report about a threshold that was given says."""
    about = _about(report)
    asked, headline = about["asked"], say("fixed_threshold.headline", report, about)
    measured = say("fixed_threshold.measured", report, about)
    guess = report["test"]["auroc"]["lower"]
    unsure = guess is not None and guess <= 0.5 <= report["test"]["auroc"]["upper"]
    where = "On the test set" if about["picked"] else "On all answers"
    answer = _answer(report, about) if asked else ""
    cost = measures.costs_in_words(report.get("cost"), _no_bound(report))
    codes = {item["code"] for item in report["warnings"]}
    is_turned = "reversed_direction" in codes and not _is_of_other_unit(report)
    step, *others = _turns(report, about) if is_turned else _next_steps(report, about)
    first = "costs_less" if about["picked"] and report["cost"]["upper"] is not None else "unasked"
    return Document(
        "report for" if about["picked"] else "test of",
        # Without a headline it is the verdict.
        headline="" if asked else say(f"fixed_threshold.{first}", report.get("cost") or {}),
        rule=headline,
        summary=" ".join(filter(None, (answer, headline, *cost[:1]))),
        lead=measures.in_short(report["test"], report),
        tiles=(
            *measures.tiles(measures.of_verdict(report["test"], report)),
            measures.auroc_tile(report["test"]["auroc"]),
        ),
        blocks=(
            measures.target_section(report),
            parts.Facts(
                [
                    ("Data", say("fixed_threshold.understood", report, about)),
                    *_far(report, about),
                    *_ties(report, about),
                    ("Bounds", measured),
                    *_possible(report, about),
                    *_others(report, about),
                    *_labels(report, about),
                ]
            ),
            parts.Text(say("fixed_threshold.guessing", report) if unsure else "", "warning"),
            measures.cost_section(report.get("cost")),
            parts.section(
                where,
                scores_figure(report, scores, caption="Scores of the two classes.{dashed}"),
                *measures.decided(where, measures.of_test_part(report), about["level"]),
                parts.Text(measures.flips(report["certificate"])),
                where="page",
            ),
            None if examples is None else error_examples(examples, report),
            sections.rests_on(report, "this"),
            parts.listing("Notes", [] if asked else report["notes"], where="page"),
        ),
        next_step=step,
        alternatives=others,
    )


def _about(report: Json) -> dict[str, Any]:
    """Return what the sentences need beside the report."""
    scale, shown = Scale.of(report["score"]), measures.together(report["certificate"])
    caught, alarms = shown["coverage"], shown["fpr"]
    goals = {"caught": report["min_coverage"], "alarms": report["max_fpr"]}
    labels = (report["data"].get("reading") or {}).get("labels")
    one = [item["value"] for item in (labels or {"values": ()})["values"] if item["class"] == 1]
    turned = (report["data"].get("reading") or {}).get("turned") or ()
    once, anew = sections.is_clustered(report), None
    if report["max_fpr"] is not None and report["verdict"] == "inconclusive":
        level = report["confidence"]
        anew = next_steps.label_anew(report["certificate"], once=once, confidence=level)
    return {
        "scale": scale,
        "name": scale.column or text.score_name(report),
        "at": scale.edge(report["threshold"]),
        "rates": {"caught": _of_hundred(caught), "alarms": _of_hundred(alarms)},
        "goals": {name: f"{100 * goal:g}" for name, goal in goals.items() if goal is not None},
        "asked": report["max_fpr"] is not None,
        "halved": say("fixed_threshold.halved") in report["notes"],
        "labels": labels
        and {
            "column": labels["column"],
            "means": one,
            "several": labels["several"],
            "unsaid": turned and not labels["by_user"] and is_unsaid(labels["column"], one),
            "turned": spell_words(ReadOptions, turned),
            "said": not labels["by_user"] and not {*map(label_key, one)} & (PLAIN | YES | NO),
        },
        "turned": turned,
        "verdict": report["score"]["params"].get("positive"),
        "once": once,
        "level": (report["certificate"]["region"] or report)["confidence"],
        "anew": anew,
        "kept": (made := _command(report)) != next_steps.without_options(made, next_steps.PLACE),
        "withdrawn": "looked_before" if report["looks"] else "rows_alike",
        # The data picked it, by what errors cost.
        "picked": report["n_calibration"] > 0,
        "judge": judge_of(report["data"].get("reading")),
        "yes_no": {*filter(None, (report["curve"] or {"thresholds": ()})["thresholds"])} <= {-1, 1},
    }


def _no_bound(report: Json) -> str:
    """Return why a report's answers bound no cost, where that is so."""
    if report["looks"]:
        return sections.looked_before(report["looks"])
    n_alike = report["data"].get("n_alike")
    return say("verdict.rows_alike", n_alike=n_alike) if n_alike else ""


def _of_hundred(share: Json) -> str:
    """Return an interval in answers of a hundred, rounded outward."""
    low, high = math.floor(100 * share["lower"] + 1e-9), math.ceil(100 * share["upper"] - 1e-9)
    return f"{low} to {high}"


def _answer(report: Json, about: Json) -> str:
    """Return what the verdict means; why, where it was taken back."""
    if report["reason_code"] != "bounds":
        return sections.verdict_summary(report)
    why = report["reason"]
    failing = f" {why[:1].lower()}{why[1:].removesuffix('.')}"
    return say(f"fixed_threshold.{report['verdict']}", report, about, failing=failing)


def _is_of_other_unit(report: Json) -> bool:
    return (report["data"].get("far") or {"nearer": None})["nearer"] is not None


#: Answers from which on no detector separates all labels by chance.
_ENOUGH: Final = 40


def _far(report: Json, about: Json) -> Iterator[tuple[str, str]]:
    """Yield between what nearly all scores lie, where the threshold parts next to none."""
    counts = (report["test"][label] for label in ("n_hallucinated", "n_faithful"))
    if report["test"]["auroc"]["estimate"] in (0.0, 1.0) and sum(counts) >= _ENOUGH:
        yield "No mistake", say("fixed_threshold.told", report, about)
    for item in report["data"].get("stand_ins") or ():
        name = "Two units?" if "low" in item else "No score?"
        yield name, say("data.stand_ins", stand_ins=[item])
    if far := report["data"].get("far"):
        yield f"{about['at']} is far", say("fixed_threshold.far", far)


def _ties(report: Json, about: Json) -> Iterator[tuple[str, str]]:
    """Yield how many answers lie exactly at the threshold, where these are many."""
    if (ties := report["data"].get("ties")) and not about["yes_no"]:
        beyond = about["scale"].to_try(ties["beyond"], report["threshold"])
        command = cli_or_python(_at_another(report, beyond), f"test(data, threshold={beyond})")
        yield f"At {about['at']}", say("fixed_threshold.ties", ties, command=command)


def _others(report: Json, about: Json) -> Iterator[tuple[str, str]]:
    """Yield what other thresholds would catch and cost, in bands that hold for all of them.

    Where a goal is not met, what is possible says more.
    """
    curve = report["curve"]
    if about["yes_no"] or (about["asked"] and report["verdict"] != "certified"):
        return
    caught = curve["coverage"]["estimate"]
    known = [[place for place, share in enumerate(caught) if share >= step] for step in _STEPS]
    places = list(dict.fromkeys(reached[-1] for reached in known if reached))
    places = [at for at in places if curve["thresholds"][at] != report["threshold"]]
    for place in places:
        rates = [
            _of_hundred({end: curve[rate][end][place] for end in ("lower", "upper")})
            for rate in ("coverage", "fpr")
        ]
        more = {"caught": rates[0], "alarms": rates[1], "last": place == places[-1]}
        at = sections.to_try(about["scale"], curve, place)
        yield f"At {at}", say("fixed_threshold.other", more)


def _labels(report: Json, about: Json) -> Iterator[tuple[str, str]]:
    """Yield how many labels what is asked most often takes, where nothing was asked."""
    certificate, level = {**report["certificate"], **_USUAL}, report["confidence"]
    sides = (certificate["coverage"], certificate["fpr"])
    counts = ClassCounts(*(side[part] for side in sides for part in ("count", "n")))
    certificate["needed"] = certify_counts(counts, Requirement(0.2, 0.8, level)).needed
    anew = next_steps.label_anew(certificate, once=about["once"], confidence=level)
    if not (about["asked"] or about["picked"]) and anew is not None:
        yield "Labels", say("fixed_threshold.labels", anew[1])


def _possible(report: Json, about: Json) -> Iterator[tuple[str, str]]:
    """Yield what this score can do about either goal, where it is not shown to meet both."""
    points = sections.possible(report) if about["asked"] and not about["yes_no"] else None
    if points is not None:
        unit = measures.unit_words(report)
        yield "Possible", say("verdict.possible", points, scale=Scale(), unit=unit)


def _command(report: Json) -> list[str]:
    """Return the command that tests the threshold, or made it, in words."""
    words = shlex.split(report["reproduce"].get("command") or "calibrail test DATA")
    return words if report["n_calibration"] > 0 else [words[0], "test", *words[2:]]


def _at_another(report: Json, threshold: str) -> str:
    """Return the command that tests another threshold of the same score."""
    words = next_steps.without_options(_command(report), {"--threshold="})
    return shlex.join([*words, "--threshold", threshold])


def _next_steps(report: Json, about: Json) -> list[str]:
    """Return what to do now; where labels would reject this threshold, first what takes none."""
    step, (_, wanted) = _next_step(report, about), about["anew"] or ("", {"verdict": ""})
    fails = (report["reason_code"], wanted["verdict"]) == ("bounds", "rejected")
    elsewhere = fails and not _is_of_other_unit(report)
    return [_elsewhere(report, about), step] if elsewhere else [step]


def _elsewhere(report: Json, about: Json) -> str:
    """Return how another threshold is found on these answers, or that none does both there."""
    least = ((sections.possible(report) or {}).get("alarms") or {"rate": 0.0})["rate"]
    if not about["yes_no"] and least < report["min_coverage"]:
        target = f" --alpha {1.0 - report['min_coverage']:.6g}"
        return say("fixed_threshold.change", about, command=next_steps.for_several(report, target))
    words, params, score = _command(report), report["score"]["params"], list[str]()
    kept = shlex.join(next_steps.without_options(words, _GOALS | next_steps.ELSEWHERE)[2:])
    given = {word.partition("=")[0] for word in words}
    if about["scale"].column and "--score" not in given:
        named = {"--score-column": params["column"], "--higher": params["higher"]}
        score = [part for item in named.items() if item[0] not in given for part in item]
    alpha, command = round(1.0 - report["min_coverage"], 9), ""
    # Half of these answers, about, make the threshold.
    if 0.0 < alpha < 1.0 and report["test"]["n_hallucinated"] >= 2.2 * minimum_n(alpha):
        end = shlex.join([*score, "--alpha", f"{alpha:g}"])
        command = f"calibrail calibrate {kept} {end} -o RUN-calibrated"
    return say("fixed_threshold.search", about, command=command)


def _next_step(report: Json, about: Json) -> str:
    """Return what to do now, with its command where a command made the report."""
    words = _command(report)
    if _is_of_other_unit(report):
        far = report["data"]["far"]
        command = _at_another(report, f"{far['nearer']:.12g}")
        return say("fixed_threshold.rescale", about, far, command=command)
    fails, shown = next_steps.would_fail(report), text.tone(report)
    decided = fails or report["reason_code"] == "bounds"
    if shown == "conditional" or (about["asked"] and not decided):
        return next_steps.next_step(report)
    if about["picked"] and (fails or not about["asked"]):
        beaten = about["asked"] or not report["cost"]["beats"]
        if report["cost"]["upper"] is None and not fails:
            return next_steps.next_step({**report, "reason_code": about["withdrawn"]})
        command = next_steps.for_several(report)
        return say(f"fixed_threshold.{'another' if beaten else 'export'}", about, command=command)
    if not about["asked"]:
        goals = "--min-caught 0.8 --max-false-alarms 0.2 -o RUN"
        this = shlex.join(next_steps.without_options(words, next_steps.PLACE))
        return say("fixed_threshold.ask", command=f"{this} {goals}")
    alarms = ((sections.possible(report) or {}).get("caught") or {"bound": 2.0})["bound"]
    if fails or (about["anew"] is None and alarms <= report["max_fpr"]):
        return _elsewhere(report, about)
    if shown == "certified":
        return say("fixed_threshold.export", about, command=shlex.join([*words, "-o", "RUN"]))
    if about["anew"] is None:
        return say("verdict.too_close")
    goals, (_, wanted) = next_steps.goals(report), about["anew"]
    return say("fixed_threshold.label_anew", about, wanted, goals=goals)


def _turns(report: Json, about: Json) -> list[str]:
    """Return what to check where the score runs the wrong way, each with what turns it."""
    words, params = _command(report), report["score"]["params"]
    given, said = {word.partition("=")[0] for word in words}, (about["labels"] or {}).get("said")
    reading = () if said else about["turned"]
    turned = [*next_steps.without_options(words, {"--positive=", "--label-map="}), *reading]
    command = cli_or_python(shlex.join(turned), f"test(..., {spell_words(ReadOptions, reading)})")
    steps = [say("fixed_threshold.turn", about, turn=command if reading else "")]
    # Words that say a class have no direction that an option could turn.
    plain_words = about["yes_no"] and "--higher" not in given
    higher = next_steps.OTHER.get(params.get("higher")) if about["scale"].column else None
    if higher is not None and not plain_words and "--score" not in given:
        other = next_steps.without_options(words, {"--score-column=", "--higher="})
        other += ["--score-column", about["scale"].column, "--higher", higher]
        command = cli_or_python(shlex.join(other), f"test(..., higher={higher!r})")
        more = {"column": about["scale"].column, "higher": higher, "turn": command, "said": said}
        steps.append(say("fixed_threshold.turn_score", more))
    return steps


#: Options of test that calibrate does not take beside alpha.
_GOALS = spellings(Costs) | {"--threshold=", "--min-caught=", "--max-false-alarms="}
