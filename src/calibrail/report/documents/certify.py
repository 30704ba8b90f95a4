"""Document and warnings of certify."""

import shlex

from calibrail.report import document as parts
from calibrail.report.documents import calibrate_sections as messages
from calibrail.report.documents import label, measures, next_steps
from calibrail.report.documents.data import alike_names, labellers_note
from calibrail.report.messages import say, say_each, say_first
from calibrail.report.text import by_sentence, group_label, last_part, plain, share_with_bounds


def document(certificate: parts.Json, *, guardrail: str = "the guardrail") -> parts.Document:
    """Return the verdict with its exact bounds.

    Parameters
    ----------
    certificate : mapping
        What ``calibrail certify --json`` prints.
    guardrail : str
        What the guardrail is called.
    """
    if certificate.get("sequential"):
        return label.label_document(certificate, guardrail=guardrail)
    verdict, shown = certificate["verdict"], measures.together(certificate)
    lines, trims = measures.rates(shown, certificate), by_sentence(certificate)
    more = measures.left_whole(certificate) if trims else ()
    # Of all looks together, where they are kept.
    look: parts.Json = certificate.get("look") or {}
    joint = look.get("confidence") or shown["confidence"]
    in_short = f"{messages.removal_summary(certificate)} " if trims else ""
    options = (certificate.get("reading") or {}).get("options") or ()
    intervals = "intervals_of_sentences" if trims else "intervals"
    risks = measures.table("The risks", measures.risk_lines(certificate.get("risks") or ()), joint)
    return parts.Document(
        "certificate of",
        subject=last_part(guardrail),
        headline=messages.verdict_headline(certificate),
        verdict=verdict,
        summary=f"{in_short}{messages.verdict_summary(certificate)}{messages.look_number(certificate)}",
        lead=[] if trims else measures.in_short(certificate, certificate),
        tiles=tuple(measures.tiles(lines)),
        blocks=(
            parts.section(
                "On the test set",
                measures.rates_figure({**shown, "confidence": joint}, certificate),
                measures.table("On the test set", [*lines, *more], joint),
                parts.Text(say(f"certify.{intervals}", certificate, together=joint)),
                parts.Text(measures.flips(certificate)),
                parts.Text(messages.look_number(certificate, first=True).lstrip()),
                parts.Text(say_first({"certify.read_with": options}, options=shlex.join(options))),
            ),
            parts.section("The risks", risks),
            _groups(certificate, look) if certificate.get("by_group") else None,
            measures.cost_section(certificate.get("cost")),
            messages.possible_section(certificate.get("possible"), certificate),
        ),
        warnings=[parts.Bullet(text) for text in certificate.get("warnings", ())],
        next_step=_next_step(certificate),
        data=certificate.get("data") or {},
    )


def _groups(certificate: parts.Json, look: parts.Json) -> parts.Section:
    """Show bounds and verdict of every group."""
    by_group, unit = {**certificate["by_group"], **look}, measures.unit_words(certificate)
    title = f"By {plain(by_group['column'])}"
    trims = any(row.get("kept") for row in by_group["rows"])
    rows: list[parts.Row] = [
        (
            group_label(row["group"]),
            *(measures.share_of_group(row, name) for name in ("coverage", "fpr")),
            share_with_bounds(measures.together(row)["kept"]) if trims else "",
            str(row["verdict"]),
            ", ".join(
                f"{'?' if n is None else format(n, ',')} {label}"
                for label, n in row["needed"].items()
                if n != 0 and row["verdict"] == "inconclusive"
            ),
        )
        for row in by_group["rows"]
    ]
    corrected = say("certify.corrected", by_group, n=len(rows), what="group")
    rates = unit["caught"].capitalize(), unit["alarms"].capitalize()
    table = parts.table(title, ("Group", *rates, "Kept", "Verdict", "More needed"), rows)
    figure = measures.group_targets(by_group["rows"], by_group["confidence"], unit)
    return parts.section(title, figure, table, parts.Text(corrected))


def _next_step(certificate: parts.Json) -> str:
    trims, needed = by_sentence(certificate), certificate["needed"]
    limits = "--min-caught, --min-kept" if trims else "--min-caught, --max-false-alarms"
    verdict, freshness = certificate["verdict"], certificate.get("freshness")
    reason = certificate.get("reason_code")
    look, once = certificate.get("look") or {}, bool(certificate.get("n_set_aside"))
    spent = look.get("declared") and not look["next_level"]
    cases = {
        "certify.use": verdict == "certified",
        "certify.do_not_rely": verdict == "rejected",
        "verdict.name_copies": reason == "near_copies",
        "verdict.name_rows": reason == "rows_alike",
        "verdict.label_by_people": reason == "labels_of_judge",
        "certify.would_fail": reason == "looked_before" and measures.is_missed(certificate),
        "agree.again": reason == "looked_before",
        "certify.use_unseen": freshness == "calibration data",
        "certify.identify_rows": freshness == "unknown" and not any(needed.values()),
        "certify.no_look_left": spent or reason == "no_look_left",
    }
    if code := next((code for code, is_so in cases.items() if is_so), None):
        return say(code, limits=limits)
    needed = look.get("needed") or needed
    if anew := next_steps.label_anew({**certificate, "needed": needed}, once=once):
        code, parameters = anew
        if "needed" in look:
            goals = next_steps.goals(certificate)
            return say("certify.next_look", look, parameters, once=once, goals=goals)
        return say(f"verdict.{code}", **parameters)
    return say("certify.too_close", limits=limits)


def withheld(freshness: str) -> str:
    """Return why there is no certificate on answers that may have set the threshold."""
    known = freshness == "calibration data"
    return say("certify.calibration_data" if known else "certify.unknown_data")


def certify_warnings(certificate: parts.Json, *, same_file: bool, policy: str) -> list[str]:
    """Return what weakens a certificate.

    Parameters
    ----------
    certificate : mapping
        What ``calibrail certify --json`` prints.
    same_file : bool
        Whether the data is the file that the guardrail was calibrated on.
    policy : str
        What the guardrail does with answers without a score.
    """
    by, copies = certificate["by_group"] or {"column": "", "rows": ()}, certificate["copies"]
    rows, names = by["rows"], [row["group"] for row in by["rows"]]
    near, data = certificate.get("near_copies"), certificate.get("data", {})
    groups = [group_label(row["group"]) for row in rows if row["verdict"] == "rejected"]
    applies = {
        "certify.seen_before": certificate["n_seen_before"],
        "certify.known_as_spelt": certificate.get("known_as_spelt"),
        "certify.same_file": same_file,
        "certify.copies": copies["n"],
        "certify.near_copies": near and certificate.get("reason_code") != "near_copies",
        "certify.repeated_ids": certificate["reading"].get("repeated_ids"),
        "certify.set_aside": certificate["n_set_aside"],
        "certify.errors": certificate["n_errors"],
        "certify.undefined": certificate["n_undefined"],
        "data.stand_ins": data.get("stand_ins"),
        # Groups may be rejected although the verdict about all answers together is not.
        "certify.rejected_groups": groups and certificate["verdict"] != "rejected",
    }
    parameters = {
        "sentences": by_sentence(certificate),
        "policy": policy,
        "groups": groups,
        "near_copies": near,
    }
    said = [text for _, text in say_each(applies, certificate, data, parameters)]
    said += alike_names(by["column"], names, "groups")
    return [*said, *labellers_note(certificate["reading"].get("labellers"))]
