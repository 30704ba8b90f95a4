"""Groups, clusters, risks, review, confounds."""

from collections.abc import Iterator
from functools import partial

from calibrail.formatting import Scale, percent
from calibrail.report import document as parts
from calibrail.report import text as phrases
from calibrail.report.document import Json
from calibrail.report.documents import measures
from calibrail.report.documents.calibrate_messages import UnitWords, unit_words
from calibrail.report.figures.plot import interval_lines
from calibrail.report.figures.scores import MOST_GROUPS, groups_svg
from calibrail.report.messages import say


def of_report(report: Json) -> Iterator[parts.Block]:
    """Yield the sections that only some reports have."""
    confidence, scale, words = report["confidence"], Scale.of(report["score"]), unit_words(report)
    if report["by_group"]:
        yield _groups(report["by_group"], scale, words)
    if report["attainable"]:
        yield _attainable(report["attainable"], scale, words)
    if clustering := report["clustering"]:
        text = say("calibrate.clusters", clustering, scale=scale, unit=words)
        yield parts.section("Groups that count once", parts.Text(text))
    if report["shift"]:
        yield parts.listing("Production", shift_sentences(report["shift"], scale))
    if risks := report["risks"]:
        lines = measures.risk_lines(risks["measured"])
        table = measures.table("The risks on the test part", lines, confidence)
        text = say("calibrate.risks", risks)
        yield parts.section("Several risks at once", table, parts.Text(text))
    if report["three_way"]:
        yield _review(report["three_way"], confidence, scale)
    if report["confounds"]:
        yield _confounds(report["confounds"])


def _groups(by_group: Json, scale: Scale, words: UnitWords) -> parts.Section:
    """Show every group's threshold, bounds and verdict, and which groups are let down."""
    rows, title = by_group["rows"], f"By {phrases.plain(by_group['column'])}"
    overlap, alone = "by" in by_group, sum(row["own"] for row in rows)
    # Of each group what is caught and what is wrongly acted on, and where what was asked stands.
    rates = ((words.caught, "coverage", "min_coverage"), (words.harm, "fpr", "max_fpr"))
    figure = parts.Figure(
        "groups",
        partial(groups_svg, by_group, names=(words.caught, words.alarms)),
        say("calibrate.groups_figure", by_group, unit=words, most=MOST_GROUPS),
        lines=interval_lines(
            (f"{phrases.group_of(row)}: {called}", row[key], row.get(limit))
            for row in rows[:MOST_GROUPS]
            for called, key, limit in rates
        ),
    )
    caught, alarms = map(phrases.capital, (words.caught, words.alarms))
    table = parts.Table(
        title,
        parts.texts("Group", "Threshold", caught, alarms, "Kept", "Verdict", f"{caught}, shared"),
        [
            (
                phrases.group_of(row),
                _threshold_of(row, scale),
                phrases.share_with_bounds(row["coverage"]),
                phrases.share_with_bounds(row["fpr"]),
                phrases.share_with_bounds(row["kept"]) if row.get("kept") else "",
                str(row["verdict"]),
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
        figure if rows else None,
        table,
        parts.Text(f"{text} {say('calibrate.groups_corrected', by_group)}"),
        parts.Bullets(f"{caught} too few", broken, style="bad"),
    )


def _threshold_of(row: Json, scale: Scale) -> str:
    """Return the threshold of a group, or the lowest and the highest among its answers."""
    if "thresholds" in row:
        low, high = (scale.text(end, "all") for end in row["thresholds"])
        return low if low == high else f"{low} to {high}"
    return ("" if row["own"] else "shared ") + str(scale.text(row["threshold"], "all"))


def _attainable(attainable: Json, scale: Scale, words: UnitWords) -> parts.Section:
    """Show all that a score with few distinct values can promise."""
    title = say("calibrate.all_thresholds", attainable)
    code = "attainable" if attainable["is_attainable"] else "not_attainable"
    rows = [
        (
            f"{scale.text(step['threshold'])}{' (in use)' if step['is_used'] else ''}",
            percent(max(0.0, step["promise"])),
            phrases.share_with_bounds(step["coverage"]),
            phrases.share_with_bounds(step["fpr"]),
        )
        for step in reversed(attainable["steps"])
    ]
    heads = map(phrases.capital, (words.by_score, words.alarms))
    table = parts.Table(title, parts.texts("Threshold", "Can promise", *heads), rows)
    return parts.section(title, table, parts.Text(say(f"calibrate.{code}", attainable)))


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
    alpha, beta = (f"<= {percent(review[name])}" for name in ("alpha", "beta"))
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
        measures.table("Pass, review, flag on the test part", lines, confidence),
        parts.Text(feasible),
    )


def _confounds(confounds: Json) -> parts.Section:
    """Show how trivial baselines rank beside the score."""
    columns = (
        parts.TableColumn("Baseline"),
        parts.TableColumn("AUROC", "right"),
        parts.TableColumn("Ranks the answers"),
        parts.TableColumn("Spearman with the score", "right"),
    )
    name = parts.Cell("this score", style="strong")
    rows: list[parts.Row] = [(name, phrases.measure_cell(confounds["auroc"]), "", "")]
    for row in confounds["rows"]:
        turned = "turned round" if row["reversed"] else ""
        ranks = parts.Cell(row["ranks"] or "cannot tell", turned)
        area, spearman = row["auroc"], row["spearman"]
        cells = phrases.measure_cell(area), ranks, phrases.measure_cell(spearman, 2)
        rows.append((row["name"], *cells))
    title = f"Baselines beside the score, on the {confounds['n']:,} test answers"
    return parts.section(
        "Could something plainer explain it?",
        parts.Text(confounds["finding"]),
        parts.Table(title, columns, rows),
        parts.note(say("calibrate.confounds")),
        where="page",
    )
