"""Plan."""

from functools import partial

from calibrail.formatting import count, percent
from calibrail.options.guarantee import OF_THIS_THRESHOLD
from calibrail.report import document as parts
from calibrail.report.document import Document, Json
from calibrail.report.figures.sequential import VERDICTS, plan_svg


def document(plan: Json) -> Document:
    """Return the minimum, the answers to label, a table with a curve, the next step.

    Parameters
    ----------
    plan : mapping
        What ``calibrail plan --json`` prints.
    """
    blocks: list[parts.Block] = [_minimum(plan)]
    headline, premises = _headline(plan), _premises(plan) if plan["assumed"] else ""
    if plan["assumed"]:
        blocks += [
            parts.Text(headline, "strong", where="terminal"),
            parts.Text(premises, where="terminal"),
            _curve(plan),
            parts.Text(_decider(plan) if plan["at"] else ""),
        ]
    if "sequential" in plan:
        blocks.append(_sequential(plan["sequential"]))
    return Document(
        "plan",
        subject=f"to catch {percent(1.0 - plan['alpha'])} of hallucinations",
        headline=headline,
        summary=premises,
        brief="",
        blocks=blocks,
        next_step=_next_step(plan),
    )


def _minimum(plan: Json) -> parts.Section:
    """Show the fewest answers that a threshold can come from."""
    title = f"To catch {percent(1.0 - plan['alpha'])} of hallucinations, at least"
    labels, sentence = plan["minimum_labels"], ""
    if labels:
        # Where a threshold is there already none calibrate, and the minimum is for the usual half.
        share = percent(plan["calibration_share"] or 0.5)
        sentence = (
            f"In all: {percent(plan['base_rate'])} of the labelled answers are hallucinated, and "
            f"{share} of those calibrate."
        )
    rows = [
        (
            f"{name}, delta = {plan['delta']:g}" if name in OF_THIS_THRESHOLD else name,
            f"{least:,}",
            *([f"{labels[name]:,}"] if labels else []),
        )
        for name, least in plan["minimum"].items()
    ]
    heads = ("Hallucinated answers to calibrate", "Labelled answers in all")
    columns = (parts.TableColumn("Guarantee"), *parts.numbers(*heads[: 2 if labels else 1]))
    return parts.section(title, parts.Table(title, columns, rows), parts.Text(sentence))


def _headline(plan: Json) -> str:
    if not plan["assumed"]:
        return f"At least {count(min(plan['minimum'].values()), 'hallucinated answer')}"
    wanted, at = percent(plan["power"]), plan["at"]
    if at is None:
        return (
            f"No number of labels gives a certificate with a probability of {wanted}: "
            f"{plan['reason']}."
        )
    return (
        f"Label {count(at['n'], 'answer')}: from there on a certificate comes out with a "
        f"probability of at least {wanted} ({percent(at['certified'])} at {at['n']:,})."
    )


def _premises(plan: Json) -> str:
    """Say what is required, and of which detector the numbers hold."""
    assumed, share = plan["assumed"], percent(plan["calibration_share"])
    if "coverage" in assumed:
        who = (
            f"a threshold that catches {percent(assumed['coverage'])} of hallucinations and flags "
            f"{percent(assumed['fpr'])} of faithful answers"
        )
        aside = f"{share} set aside and the rest" if plan["calibration_share"] else "all"
        use = f"{aside} held out to certify"
    else:
        who = (
            f"a detector with an AUROC of {assumed['auroc']:.3f} (Gaussian scores "
            f"{assumed['separation']:.2f} standard deviations apart), its threshold calibrated "
            f"under {plan['guarantee']}"
        )
        use = f"{share} used to calibrate"
    return (
        f"Required: at least {percent(plan['min_coverage'])} caught and at most "
        f"{percent(plan['max_fpr'])} false alarms, with {percent(plan['joint_confidence'])} joint "
        f"confidence. Assumed: {who}; {percent(plan['base_rate'])} of the labelled answers "
        f"hallucinated, {use}."
    )


def _curve(plan: Json) -> parts.Section:
    """Show the probability of each verdict by the number of labelled answers."""
    least = plan["minimum"].get(plan["guarantee"], 0)
    few = [point["n"] for point in plan["points"] if point["n_calibration"] < least]
    needed = f"the {least:,} hallucinated answers that a threshold needs"
    rows: list[parts.Row] = [
        (
            f"{point['n']:,}",
            parts.Cell("", bar=point["certified"]),
            *("-" if point["n"] in few else percent(point[verdict]) for verdict in VERDICTS),
        )
        for point in plan["points"]
    ]
    title = "Probability of each verdict"
    heads = parts.numbers(*map(str.capitalize, VERDICTS))
    columns = (
        parts.TableColumn("Labelled", "right"),
        parts.TableColumn("", where="terminal"),
        *heads,
    )
    figure = parts.Figure(
        "plan", partial(plan_svg, plan), "Dotted: the probability that is asked for."
    )
    drawn = figure if plan["curve"]["n"] else None
    dash = parts.Text(f"-: fewer than {needed}, so no verdict." if few else "")
    return parts.section(title, drawn, parts.Table(title, columns, rows), dash)


def _sequential(plan: Json) -> parts.Section:
    """Show how many labels a verdict takes that is looked for after every one of them."""
    title = "Labels until a verdict, looked for after every one"
    names = {"uniform": "every answer", "active": "by a guess"}
    rows: list[parts.Row] = []
    if plan["fixed"] is not None:
        fixed = f"{plan['fixed']:,}"
        rows.append(("all first, one look", fixed, fixed, fixed, "-", "-"))
    for name, said in names.items():
        found = plan["designs"][name]
        spent = [
            "-" if found[key] is None else f"{found[key]:,}"
            for key in ("median", "percentile_80", "drawn_median")
        ]
        verdicts = (percent(found[verdict]) for verdict in ("certified", "rejected"))
        rows.append((f"{name}: {said}", *spent, *verdicts))
    columns = (
        parts.TableColumn("Labelled"),
        *parts.numbers("Half need", "80% need", "Drawn", "Certified", "Rejected"),
    )
    guess = (
        f"Simulated: {count(plan['runs'], 'stream')} of each, at most {plan['budget']:,} labels. "
        "Active needs a guess of how likely each answer is hallucinated; here it is as good as the "
        "assumed detector allows, and a poorer one saves less. Drawn: answers looked at until half "
        "of the streams have their verdict, labelled or not."
    )
    return parts.section(title, parts.Table(title, columns, rows), parts.Text(guess))


def _decider(plan: Json) -> str:
    """Say which side of the requirement decides."""
    at = plan["at"]
    sides = (
        f"At {count(at['n'], 'answer')} the requirement on coverage is met with a probability of "
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
    if not plan["assumed"]:
        base_rate = plan["base_rate"] or 0.3
        return (
            "Ask how likely a certificate is at the detector you expect, e.g. calibrail plan "
            f"--alpha {plan['alpha']:g} --max-fpr 0.3 --base-rate {base_rate:g} --auroc 0.95 "
            "--guarantee pac."
        )
    if plan["at"] is None and plan["guarantee"] == "marginal":
        return (
            "Plan with --guarantee pac, whose threshold proves the coverage by the way it is made; "
            "a marginal one aims at 1 - alpha, and a sample shows a lower --min-coverage at best."
        )
    if plan["at"] is None:
        return (
            "Accept more (--max-fpr, --alpha, --min-coverage), or find a detector that separates "
            "better."
        )
    limits = f"--max-fpr {plan['max_fpr']:.10g} --confidence {plan['confidence']:.10g}"
    coverage = f" --min-coverage {plan['min_coverage']:.10g}"
    if "coverage" in plan["assumed"] and "sequential" in plan:
        return (
            "Label fresh answers until the verdict falls: calibrail label TRACES -o labels "
            f"--guardrail guardrail.json {limits}{coverage}"
        )
    if "coverage" in plan["assumed"]:
        return (
            f"Label {count(plan['n'], 'fresh answer')} and run calibrail certify guardrail.json "
            f"HELDOUT {limits}{coverage}."
        )
    if abs(plan["min_coverage"] - (1.0 - plan["alpha"])) < 1e-9:
        coverage = ""
    delta = f" --delta {plan['delta']:.10g}" if plan["guarantee"] in OF_THIS_THRESHOLD else ""
    share = plan["calibration_share"]
    part = f" --calibration-share {share:.10g}" if share != 0.5 else ""
    return (
        f"Label {count(plan['n'], 'answer')} and run calibrail calibrate DATA --score NAME --alpha "
        f"{plan['alpha']:.10g} --guarantee {plan['guarantee']}{delta} {limits}{coverage}{part} "
        "-o run"
    )
