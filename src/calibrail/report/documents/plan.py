"""What does `calibrail plan` say about how many labels are needed?"""

from collections.abc import Sequence
from functools import partial

from calibrail.phrases import percent
from calibrail.report.blocks import Cell, Column, Figure, Json, Section, Table, Text, numbers
from calibrail.report.document import Document
from calibrail.report.plan_figure import VERDICTS, plan_svg


def document(plan: Json) -> Document:
    """Return the minimum, the answers to label, a table with a curve, the next step.

    Parameters
    ----------
    plan : mapping
        What ``calibrail plan --json`` prints.
    """
    target = f"to catch {percent(1.0 - plan['alpha'])} of hallucinations"
    footer = "Every number on this page is in what --json prints."
    if not plan["assumed"]:
        return Document(
            "plan",
            subject=target,
            headline=f"At least {min(plan['minimum'].values()):,} hallucinated answers",
            brief="",
            blocks=(_minimum(plan),),
            next_step="Ask how likely a certificate is at the detector you expect, e.g. calibrail "
            f"plan --alpha {plan['alpha']:g} --max-fpr 0.3 --base-rate "
            f"{plan['base_rate'] or 0.3:g} --auroc 0.95.",
            footer=footer,
        )
    return Document(
        "plan",
        subject=target,
        headline=_headline(plan),
        summary=_premises(plan),
        brief="",
        blocks=(
            _minimum(plan),
            Text(_headline(plan), "strong", where="terminal"),
            Text(_premises(plan), where="terminal"),
            _curve(plan),
            Text(_decider(plan) if plan["reason"] is None else ""),
        ),
        next_step=_next_step(plan),
        footer=footer,
    )


def _minimum(plan: Json) -> Section:
    """Show the fewest answers that a threshold can come from."""
    labels = plan["minimum_labels"]
    title = f"To catch {percent(1.0 - plan['alpha'])} of hallucinations, at least"
    columns = [Column("Guarantee"), Column("Hallucinated answers to calibrate", "right")]
    if labels:
        columns.append(Column("Labelled answers in all", "right"))
    rows = []
    for guarantee, least in plan["minimum"].items():
        name = f"pac, delta = {plan['delta']:g}" if guarantee == "pac" else guarantee
        rows.append((name, f"{least:,}", *([f"{labels[guarantee]:,}"] if labels else [])))
    sentence = ""
    if labels:
        # Where a threshold is there already none calibrate, and the minimum is for the usual half.
        share = plan["calibration_share"] or 0.5
        sentence = (
            f"In all: {percent(plan['base_rate'])} of the labelled answers are hallucinated, and "
            f"{percent(share)} of those calibrate."
        )
    return Section(title, (Table(title, columns, rows), Text(sentence)))


def _headline(plan: Json) -> str:
    wanted, at = percent(plan["power"]), plan["at"]
    if at is None:
        return (
            f"No number of labels gives a certificate with a probability of {wanted}: "
            f"{plan['reason']}."
        )
    return (
        f"Label {at['n']:,} answers: from there on a certificate comes out with a probability of "
        f"at least {wanted} ({percent(at['certified'])} at {at['n']:,})."
    )


def _premises(plan: Json) -> str:
    """Say what is required, and of which detector the numbers hold."""
    assumed, share = plan["assumed"], plan["calibration_share"]
    if "coverage" in assumed:
        who = (
            f"a threshold that catches {percent(assumed['coverage'])} of hallucinations and flags "
            f"{percent(assumed['fpr'])} of faithful answers"
        )
        use = "all held out to certify"
        if share:
            use = f"{percent(share)} set aside and the rest held out to certify"
    else:
        who = (
            f"a detector with an AUROC of {assumed['auroc']:.3f} (Gaussian scores "
            f"{assumed['separation']:.2f} standard deviations apart), its threshold calibrated "
            f"under {plan['guarantee']}"
        )
        use = f"{percent(share)} used to calibrate"
    return (
        f"Required: at least {percent(plan['min_coverage'])} caught and at most "
        f"{percent(plan['max_fpr'])} false alarms, with {percent(plan['joint_confidence'])} joint "
        f"confidence. Assumed: {who}; {percent(plan['base_rate'])} of the labelled answers "
        f"hallucinated, {use}."
    )


def _curve(plan: Json) -> Section:
    """Show the probability of each verdict by the number of labelled answers."""
    least = plan["minimum"].get(plan["guarantee"], 0)
    few = [
        point for point in plan["points"] if plan["guarantee"] and point["n_calibration"] < least
    ]
    rows: list[Sequence[Cell | str]] = [
        (
            f"{point['n']:,}",
            Cell("", bar=point["certified"]),
            *("-" if point in few else percent(point[verdict]) for verdict in VERDICTS),
        )
        for point in plan["points"]
    ]
    title = "Probability of each verdict"
    columns = (
        Column("Labelled", "right"),
        Column("", where="terminal"),
        *numbers(*map(str.capitalize, VERDICTS)),
    )
    dash = (
        f"-: fewer than the {least:,} hallucinated answers that a threshold needs, so no verdict."
        if few
        else ""
    )
    figure = Figure("plan", partial(plan_svg, plan), "Dotted: the probability that is asked for.")
    return Section(
        title, (figure if plan["curve"]["n"] else None, Table(title, columns, rows), Text(dash))
    )


def _decider(plan: Json) -> str:
    at = plan["at"]
    sides = (
        f"At {at['n']:,} answers the requirement on coverage is met with a probability of "
        f"{percent(at['coverage_side'])}, that on false alarms with {percent(at['fpr_side'])}"
    )
    if plan["bottleneck"] == "coverage":
        return f"{sides}: coverage decides, so labels of hallucinated answers help most."
    if "coverage" in plan["assumed"]:
        return f"{sides}: false alarms decide, so labels of faithful answers help most."
    return (
        f"{sides}: false alarms decide. Faithful answers narrow their bound, hallucinated ones "
        "allow a higher threshold."
    )


def _next_step(plan: Json) -> str:
    if plan["at"] is None:
        return (
            "Accept more (--max-fpr, --alpha, --min-coverage), or find a detector that separates "
            "better."
        )
    limits = f"--max-fpr {plan['max_fpr']:.10g} --confidence {plan['confidence']:.10g}"
    coverage = f" --min-coverage {plan['min_coverage']:.10g}"
    if "coverage" in plan["assumed"]:
        return (
            f"Label {plan['n']:,} fresh answers and run calibrail certify guardrail.json HELDOUT "
            f"{limits}{coverage}."
        )
    delta = f" --delta {plan['delta']:.10g}" if plan["guarantee"] == "pac" else ""
    if abs(plan["min_coverage"] - (1.0 - plan["alpha"])) < 1e-9:
        coverage = ""
    share = plan["calibration_share"]
    return (
        f"Label {plan['n']:,} answers and run calibrail calibrate DATA --score NAME --alpha "
        f"{plan['alpha']:.10g} --guarantee {plan['guarantee']}{delta} {limits}{coverage}"
        f"{f' --calibration-share {share:.10g}' if share != 0.5 else ''} -o RUN."
    )
