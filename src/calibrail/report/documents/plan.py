"""Plan."""

from functools import partial
from statistics import NormalDist
from typing import Final

from calibrail.formatting import percent
from calibrail.options.guarantee import OF_THIS_THRESHOLD
from calibrail.report import document as parts
from calibrail.report.figures.sequential import VERDICTS, plan_svg
from calibrail.report.messages import say


def document(plan: parts.Json) -> parts.Document:
    """Return the minimum, the answers to label, a table with a curve, the next step.

    Parameters
    ----------
    plan : mapping
        What ``calibrail plan --json`` prints.
    """
    blocks: list[parts.Block] = [_minimum(plan)]
    headline, premises = say("plan.fewest", plan), ""
    if plan["assumed"]:
        code = "plan.unreachable" if plan["at"] is None else "plan.enough"
        headline = say(code, plan, most=_MOST)
        premises = say("plan.premises", plan)
        blocks += [
            parts.Text(headline, "strong", where="terminal"),
            parts.Text(premises, where="terminal"),
            _curve(plan),
            parts.Text(say("plan.decides", plan, most=_MOST) if plan["at"] else ""),
        ]
    if "sequential" in plan:
        blocks.append(_sequential(plan["sequential"]))
    of_this, flags = plan["guarantee"] in OF_THIS_THRESHOLD, None
    if (apart := plan["assumed"].get("separation")) is not None:
        # What its scores flag where so much is caught: a limit near it takes any number of labels.
        flags = NormalDist().cdf(NormalDist().inv_cdf(1.0 - plan["alpha"]) - apart)
    next_step = f"plan.{_next_step(plan)}"
    return parts.Document(
        "plan",
        subject=say("plan.subject", plan),
        headline=headline,
        summary=premises,
        brief="",
        blocks=blocks,
        next_step=say(next_step, plan, of_this_threshold=of_this, flags=flags),
    )


def _minimum(plan: parts.Json) -> parts.Section:
    """Show the fewest answers that a threshold can come from."""
    title, labels = say("plan.minimum", plan), plan["minimum_labels"]
    rows = [
        (
            say("plan.promised", plan, name=name, of_this_threshold=name in OF_THIS_THRESHOLD),
            f"{least:,}",
            f"{labels[name]:,}" if labels else "",
        )
        for name, least in plan["minimum"].items()
    ]
    in_all = parts.Text(say("plan.minimum_in_all", plan) if labels else "")
    return parts.tabled(title, ("Guarantee", ">Hallucinated", ">All labelled"), rows, in_all)


def _curve(plan: parts.Json) -> parts.Section:
    """Show the probability of each verdict by the number of labelled answers."""
    least = plan["minimum"].get(plan["guarantee"], 0)
    few = [point["n"] for point in plan["points"] if point["n_calibration"] < least]
    rows: list[parts.Row] = [
        (
            f"{point['n']:,}",
            *("-" if point["n"] in few else percent(point[verdict]) for verdict in VERDICTS),
        )
        for point in plan["points"]
    ]
    title = "Probability of each verdict"
    heads = (f">{name.capitalize()}" for name in ("labelled", *VERDICTS))
    return parts.section(
        title,
        parts.Figure("plan", partial(plan_svg, plan), say("plan.asked"))
        if plan["curve"]["n"]
        else None,
        parts.table(title, heads, rows),
        parts.Text(say("plan.too_few", least=least) if few else ""),
    )


def _sequential(plan: parts.Json) -> parts.Section:
    """Show how many labels a verdict takes that is looked for after every one of them."""
    title = "Labels until a verdict, looked for after every one"
    rows: list[parts.Row] = []
    if plan["fixed"] is not None:
        rows.append(("all first, one look", *[f"{plan['fixed']:,}"] * 3, "-", "-"))
    for name, design in (("uniform", "every answer"), ("active", "by a guess")):
        found = plan["designs"][name]
        spent = [found[key] for key in ("median", "percentile_80", "drawn_median")]
        cells = ["-" if labels is None else f"{labels:,}" for labels in spent]
        verdicts = (percent(found[verdict]) for verdict in ("certified", "rejected"))
        rows.append((f"{name}: {design}", *cells, *verdicts))
    heads = "Labelled", ">Half need", ">80% need", ">Drawn", ">Certified", ">Rejected"
    return parts.tabled(title, heads, rows, parts.Text(say("plan.simulated", plan)))


#: Labels that people give at most: where it takes more, the requirement is too close.
_MOST: Final = 100_000


def _next_step(plan: parts.Json) -> str:
    """Return the code of what to do now."""
    if not plan["assumed"]:
        return "assume"
    if plan["at"] is None and plan["guarantee"] == "marginal":
        return "plan_pac"
    if plan["at"] is None or plan["at"]["n"] > _MOST:
        return "accept_more"
    if "coverage" in plan["assumed"]:
        return "label_in_turn" if "sequential" in plan else "certify"
    return "calibrate"
