"""Document and messages of agree."""

import shlex
from collections.abc import Iterable, Iterator

from calibrail.evaluation.judge_agreement import RateEstimate
from calibrail.formatting import floor_percent
from calibrail.report import document as parts
from calibrail.report.document import Document, Json
from calibrail.report.documents.measures import part_note
from calibrail.report.messages import facts, say, say_first, word
from calibrail.report.text import bounds, count_of, estimate, interval, share


def document(result: Json) -> Document:
    """Return the agreement, the four estimates side by side, and which to trust.

    Parameters
    ----------
    result : mapping
        What ``calibrail agree --json`` prints.
    """
    flag = result["flag"]
    column = shlex.quote(result["columns"]["human"]) if flag and "guardrail" in flag else ""
    untrusted = any(rate["trust"]["method"] is None for rate in result["rates"].values())
    return Document(
        "agreement of",
        subject="judge and people",
        headline=say("agree.headline", result["data"], agreed=result["agreement"]["agreement"]),
        blocks=(_agreement(result), *_estimates(result)),
        warnings=[parts.Bullet(text) for text in result["warnings"]],
        notes=part_note(result["data"].get("part")),
        next_step=say_first(
            {
                "agree.draw_at_random": untrusted,
                "agree.name_what_flags": flag is None,
                "agree.certify": True,
            },
            column=column,
        ),
        data=result["data"],
    )


def _agreement(result: Json) -> parts.Section:
    """Show how far the judge agrees with people, and whether it leans one way."""
    agreement, rows = result["agreement"], []
    kappa, asymmetry = agreement["kappa"], agreement["asymmetry"]
    for key, name in facts("agree.judged"):
        rate = agreement[key]
        span = interval(rate) if rate["n"] else rate["reason"]
        rows.append((name, share(rate), span, count_of(rate)))
    known = kappa["estimate"] is not None
    span, beyond = (bounds(kappa, 2), "agreement beyond chance") if known else (kappa["reason"], "")
    rows.append(("Cohen's kappa", estimate(kappa, 2), span or "", beyond))
    heads = parts.texts(f"{floor_percent(result['confidence'])} interval", "Counts")
    columns = (parts.TableColumn("Measure", brief=""), *parts.numbers("Value"), *heads)
    title = "The judge, where people have labelled, too"
    leaning = "" if asymmetry["p_value"] is None else say("agree.leaning", asymmetry)
    return parts.section(title, parts.Table(title, columns, rows), parts.Text(leaning))


def _estimates(result: Json) -> Iterator[parts.Block]:
    """Yield the four estimates of each rate, what they assume and lack, and which to trust."""
    rows: list[parts.Row] = []
    missing, trusted, methods, note = [], [], dict(facts("agree.methods")), ""
    for key, rate in result["rates"].items():
        title, trust, cells = word("agree.rates", key), rate["trust"], []
        for method, name in methods.items():
            value = rate[method]
            mark = " *" if trust["method"] == method and value["estimate"] is not None else ""
            if method == "rogan_gladen" and key != "prevalence" and value["estimate"] is not None:
                mark, note = " †", say("agree.if_alike")
            cells.append(parts.Cell(f"{share(value)}{mark}", interval(value)))
            if value["estimate"] is None:
                missing.append(f"{title}, {name}: {value['reason']}.")
            elif "estimate" in value["clipped"]:
                missing.append(f"{title}, {name}: {say('agree.cut_off')}.")
        rows.append((title, *cells))
        best = "none of them" if trust["method"] is None else f"{methods[trust['method']]} (*)"
        trusted.append(f"{title}: {best}; {trust['reason']}.")
    title = f"Four estimates, with {floor_percent(result['confidence'])} intervals"
    columns = (parts.TableColumn("Rate", brief=""), *parts.texts(*methods.values()))
    yield parts.section(title, parts.Table(title, columns, rows, two_lines=True), parts.Text(note))
    assumed = result["rates"].get("coverage", result["rates"]["prevalence"])
    granted = [
        f"{name}: {assumed[method]['assumption']} ({assumed[method]['promise']})."
        for method, name in methods.items()
    ]
    yield parts.Bullets("What each takes for granted", granted)
    yield parts.Bullets("Missing or cut off", missing)
    yield parts.Bullets("Which to trust", trusted)


def code_message(code: str | None) -> str | None:
    """Return what a code without numbers says."""
    return None if code is None else say(f"agree.{code}")


def assumption(rate: str, method: str) -> str:
    """Return what a method takes for granted of a rate."""
    if (rate, method) == ("prevalence", "rogan_gladen"):
        # Flags have no part in it.
        return say("agree.assumes_rogan_gladen_of_prevalence")
    return say(f"agree.assumes_{method}")


def reason(rate: str, estimate: RateEstimate) -> str | None:
    """Return why a rate has no estimate, where it has none."""
    code, values = estimate.measure.reason, estimate.values
    if code is None:
        return None
    # The FPR is about faithful answers.
    hallucinated = values.get("label", 1) == (rate != "fpr")
    name = "hallucinated" if hallucinated else "faithful"
    return say(f"agree.{code}", values, name=name)


def trust(code: str, rate: Json, doubt: str) -> str:
    """Return why one of the four estimates of a rate is to be relied on, or none."""
    human, tuned, gained = rate["human_only"], rate["prediction_powered"], 0.0
    if code == "narrower":
        gained = 1.0 - (tuned["upper"] - tuned["lower"]) / (human["upper"] - human["lower"])
    return say(f"agree.trust_{code}", human=human, tuned=tuned, doubt=doubt, gained=gained)


def doubt(result: Json) -> str:
    """Return why the rows with human labels are no random sample, if it shows."""
    if result["data"]["n_seen_before"]:
        return say("agree.set_threshold")
    differing = " and ".join(_differing(result["random_sample"]))
    return f"{differing}; label rows drawn at random" if differing else ""


def _differing(tests: Iterable[Json]) -> Iterator[str]:
    for test in tests:
        if test["differs"]:
            labelled, others = _rate(test["human_labelled"]), _rate(test["others"])
            yield say("agree.differs", test, what=test["share"], labelled=labelled, others=others)


def _rate(rows: Json) -> float:
    return float(rows["count"] / rows["n"])


def warnings(result: Json) -> Iterator[str]:
    """Yield what weakens the result.

    Parameters
    ----------
    result : mapping
        What ``calibrail agree --json`` prints.
    """
    data = result["data"]
    for difference in _differing(result["random_sample"]):
        yield say("agree.not_alike", difference=difference)
    for test in result["errs_alike"]:
        if test["differs"]:
            rates = {name: _rate(test[name]) for name in ("flagged", "passed")}
            yield say("agree.errs_differently", rates, what=test["share"], p_value=test["p_value"])
    by_column = "column" in (result["flag"] or ())
    # The variance of answers that are all alike within groups is that of the groups.
    times = (data["n_human"] / max(1, data["n_human"] - data["n_sharing_a_group"])) ** 0.5
    for code in ("seen_before", "sharing_a_group", "human_alone", "errors", "undefined"):
        if data[f"n_{code}"]:
            yield say(f"agree.{code}", data, by_column=by_column, times=times)


def no_label(name: str, column: str, role: str, n_unreadable: int, first: str | None) -> str:
    """Return that a column of labels is empty, and what stands in its way."""
    about = {"column": repr(column), "role": role}
    if first is not None:
        return say("agree.unreadable_labels", about, n_unreadable=n_unreadable, first=first)
    return say("agree.no_labels", about, name=name)
