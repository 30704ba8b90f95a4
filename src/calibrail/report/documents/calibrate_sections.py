"""Groups, clusters, risks, review, confounds."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from calibrail.formatting import Scale, count, percent
from calibrail.report import document as parts
from calibrail.report import text as phrases
from calibrail.report.document import Json
from calibrail.report.documents import measures
from calibrail.report.documents.calibrate_messages import UnitWords, unit_words
from calibrail.report.figures.plot import interval_lines
from calibrail.report.figures.scores import MOST_GROUPS, groups_svg

#: What decides in a group of one column, and in one of several.
_WHAT: Final = ("its threshold", "what is promised")
#: Both rates of a group: where they stand, and where what was asked does.
_RATES: Final = (("coverage", "min_coverage"), ("fpr", "max_fpr"))


def of_report(report: Json) -> Iterator[parts.Block]:
    """Yield the sections that only some reports have."""
    confidence, scale, words = report["confidence"], Scale.of(report["score"]), unit_words(report)
    if report["by_group"]:
        yield _groups(report["by_group"], scale, words)
    if report["attainable"]:
        yield _attainable(report["attainable"], scale, words)
    if clustering := report["clustering"]:
        text = _clusters(clustering, scale, words)
        yield parts.section("Groups that count once", parts.Text(text))
    if report["shift"]:
        yield parts.listing("Production", shift_sentences(report["shift"], scale))
    if risks := report["risks"]:
        lines = measures.risk_lines(risks["measured"])
        table = measures.table("The risks on the test part", lines, confidence)
        yield parts.section("Several risks at once", table, parts.Text(_risk_sentence(risks)))
    if report["three_way"]:
        yield _review(report["three_way"], confidence, scale)
    if report["confounds"]:
        yield _confounds(report["confounds"])


def _groups(by_group: Json, scale: Scale, words: UnitWords) -> parts.Section:
    """Show every group's threshold, bounds and verdict, and which groups are let down."""
    rows, title = by_group["rows"], f"By {phrases.plain(by_group['column'])}"
    first = f" The first {MOST_GROUPS} groups; the table has all." * (len(rows) > MOST_GROUPS)
    figure = parts.Figure(
        "groups",
        partial(groups_svg, by_group, names=(words.caught, words.alarms)),
        f"What is {words.caught} and what is {words.wrongly} in each group. Dashed: what was "
        f"asked.{first}",
        lines=interval_lines(
            (f"{phrases.group_of(row)}: {called}", row[key], row.get(limit))
            for row in rows[:MOST_GROUPS]
            for called, (key, limit) in zip((words.caught, words.harm), _RATES, strict=True)
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
        f"In {phrases.group_of(row, phrases.plain)!r} {what} {words.catches} "
        f"{phrases.share(row[f'{key}coverage'])} ({phrases.count_of(row[f'{key}coverage'])}), less "
        f"than the {percent(row['min_coverage'])} required (Holm-adjusted p = "
        f"{row[f'{key}p_undercovered']:.2g})."
        for row in rows
        for key, what in (("", _WHAT["by" in by_group]), ("shared_", "one shared threshold"))
        if row[f"{key}p_undercovered"] <= 0.05
    ]
    return parts.section(
        title,
        figure if rows else None,
        table,
        parts.Text(_overlap_sentence(by_group) if "by" in by_group else _groups_sentence(by_group)),
        parts.Bullets(f"{caught} too few", broken, style="bad"),
    )


def _threshold_of(row: Json, scale: Scale) -> str:
    """Return the threshold of a group, or the lowest and the highest among its answers."""
    if "thresholds" in row:
        low, high = (scale.text(end, "all") for end in row["thresholds"])
        return low if low == high else f"{low} to {high}"
    return ("" if row["own"] else "shared ") + str(scale.text(row["threshold"], "all"))


def _overlap_sentence(by_group: Json) -> str:
    """Say what is promised to overlapping groups, to whom, and to whom not."""
    rows, test = by_group["rows"], "test answer"
    alone = sum(row["own"] for row in rows)
    text = (
        f"The groups of {phrases.plain(by_group['column'])} overlap: each answer has one of each, "
        f"and its threshold follows from all of them. The promise holds in {count(alone, 'group')} "
        f"with at least {by_group['min_n']:,} hallucinated calibration examples; it says nothing "
        "of where two of them meet."
    )
    if cuts := by_group["cuts"]:
        short, middle = (f"{cut:,.0f}" for cut in cuts)
        text += f" Answers of at most {short} characters are short, of at most {middle} middle."
    if others := len(rows) - alone:
        text += (
            f" {count(others, 'group').capitalize()} with fewer "
            f"{'is' if others == 1 else 'are'} pooled with the small ones of the same column."
        )
    if n := by_group["n_uncovered"]:
        text += (
            f" For {count(n, f'hallucinated {test}')} nothing is promised, since a group is small "
            "or unknown: one threshold for all decides."
        )
    if n := by_group["n_flagged_by_lack"]:
        text += (
            f" {count(n, test).capitalize()} {'is' if n == 1 else 'are'} flagged whatever the "
            "score: too few examples share the groups."
        )
    return (
        f"{text} Bounds are exact and corrected for the number of groups: with "
        f"{percent(by_group['confidence'])} confidence no verdict among them is wrong."
    )


def _groups_sentence(by_group: Json) -> str:
    """Say what the table of groups shows and at which level."""
    alone = sum(row["own"] for row in by_group["rows"])
    text = (
        f"{count(alone, 'group')} of {phrases.plain(by_group['column'])} with a threshold of "
        f"{'its' if alone == 1 else 'their'} own (at least {by_group['min_n']:,} hallucinated "
        "calibration examples)"
    )
    if others := len(by_group["rows"]) - alone:
        scope = by_group["scope"]
        source = "the small groups together" if scope == "small groups" else "all examples"
        text += (
            f"; {count(others, 'other group')} under a shared threshold, made from {source}, for "
            "which nothing exact is promised"
        )
    return (
        f"{text}. Bounds are exact and corrected for the number of groups: with "
        f"{percent(by_group['confidence'])} confidence no verdict among them is wrong."
    )


def _attainable(attainable: Json, scale: Scale, words: UnitWords) -> parts.Section:
    """Show all that a score with few distinct values can promise."""
    title, target = "All thresholds that this score offers", percent(attainable["target"])
    if attainable["n_distinct"] > len(attainable["steps"]):
        title = "The thresholds on either side of the target"
    sentence = (
        f"The target of {target} is among what these thresholds can promise."
        if attainable["is_attainable"]
        else f"No threshold promises {target} and not much more: nothing lies in between, and "
        "calibrail does not pretend that it does."
    )
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
    columns = parts.texts("Threshold", "Can promise", *heads)
    return parts.section(title, parts.Table(title, columns, rows), parts.Text(sentence))


def _clusters(clustering: Json, scale: Scale, words: UnitWords) -> str:
    """Say what counting each group once changed."""

    def effect(rule: Json) -> str:
        limit = scale.text(rule["threshold"], f"{words.acts} all")
        caught, wrongly = phrases.share(rule["coverage"]), phrases.share(rule["fpr"])
        return f"{limit}, {caught} {words.by_score}, {wrongly} {words.alarms}"

    return (
        f"The {count(clustering['n'], 'hallucinated calibration answer')} come from "
        f"{count(clustering['n_clusters'], 'group')} (up to {clustering['largest']:,} in one). "
        "Each group counts once, so the promise is for an answer from a new group: threshold "
        f"{effect(clustering['each_group_once'])}. Taken as independent, the same answers would "
        f"give {effect(clustering['naive'])}, with no promise."
    )


def shift_sentences(shift: Json, scale: Scale) -> list[str]:
    """Say how production differs, what is left of the calibration examples, and what follows."""
    area, moved = shift["auroc"], shift["weighted_threshold"]
    span = "" if area["lower"] is None else f", {phrases.bounds(area)}"
    answers = count(shift["n"], "hallucinated calibration answer")
    move = (
        "An answer of typical weight would always be flagged: production looks like nothing that "
        "was labelled."
    )
    if moved is not None:
        before = scale.text(shift["threshold"])
        move = f"The threshold would move from {before} to {scale.text(moved)}."
    sentences = [
        f"{count(shift['n_target'], 'production answer')} can be told from the calibration "
        f"answers by {', '.join(shift['features'])} with an AUROC {phrases.estimate(area)}{span} "
        "(0.5 = no difference seen).",
        f"Weighted towards production, the {answers} are worth {shift['effective_n']:,.0f}.",
        f"{move} The weights are estimated, so no exact promise follows; fresh labels from "
        "production are the only proof.",
    ]
    if area["estimate"] > 0.9:
        outside = "Most production answers lie outside what was labelled"
        sentences.insert(1, f"{outside}; no weighting repairs that.")
    return sentences


def _risk_sentence(risks: Json) -> str:
    """Say how the threshold was chosen among the valid ones."""
    learn = f" {risks['n_learn']:,} calibration examples chose the candidates and their order."
    return (
        f"Valid are {risks['n_valid']:,} of {len(risks['candidates']):,} candidate thresholds "
        f"(Learn then Test, {risks['method'].replace('_', ' ')}, "
        f"{risks['n_hallucinated']:,} hallucinated and {risks['n_faithful']:,} faithful "
        f"examples).{learn if risks['n_learn'] else ''} Chosen is {risks['rule']}."
    )


def _review(review: Json, confidence: float, scale: Scale) -> parts.Section:
    """Show the two promises, what they cost, and what no detector can do."""
    alpha, beta = percent(review["alpha"]), percent(review["beta"])
    withheld, sent, counts = review["least_withheld"], review["review"], review["counts"]
    of_each = ", ".join(f"{counts[label]['review']:,} {label}" for label in measures.LABELS)
    passed, flagged = (f"; {review['shown'][outcome]}" for outcome in ("pass", "flag"))
    lines = [
        measures.share_line("Hallucinations that pass", review["missed"], f"<= {alpha}", passed),
        measures.share_line("Faithful answers flagged", review["blocked"], f"<= {beta}", flagged),
        ("Sent to review", phrases.share(sent), phrases.interval(sent), "", of_each),
        measures.share_line("Hallucinated among passed", review["released_hallucinated"]),
    ]
    feasible = ""
    if withheld > 0.0:
        feasible = (
            f"{percent(review['base_rate'])} of the test answers are hallucinated. To release "
            f"answers of which at most {alpha} are, ANY detector, even a perfect one, has to "
            f"withhold at least {percent(withheld)} of them; this one withholds "
            f"{phrases.share(review['withheld'])}. (That share among the released is not promised "
            "here.)"
        )
    return parts.section(
        "Pass, review, flag",
        parts.Text(_review_sentence(review, scale)),
        measures.table("Pass, review, flag on the test part", lines, confidence),
        parts.Text(feasible),
    )


def _review_sentence(review: Json, scale: Scale) -> str:
    """Say where answers pass, where they are flagged and what lies between."""
    passed = f"{scale.harmless} {scale.text(review['pass_below'])}"
    flagged = f"{scale.suspicious} {scale.text(review['flag_above'])}"
    promises = (
        f"At most {percent(review['alpha'])} of hallucinations are to pass, and at most "
        f"{percent(review['beta'])} of faithful answers to be flagged."
    )
    if review["by_group"]:
        return (
            f"An answer passes {scale.harmless} its group's threshold; of the others, those "
            f"{flagged} are flagged and the rest goes to review. {promises}"
        )
    if review["pass_below"] is None:
        return "No answer passes: there were too few hallucinated calibration examples."
    if not review["needs_review"]:
        return (
            f"An answer passes {passed} and is flagged from there on: one threshold "
            "keeps both promises, and nothing needs review."
        )
    return (
        f"An answer passes {passed}, is flagged {flagged}, and goes to review between the two. "
        f"{promises}"
    )


def _confounds(confounds: Json) -> parts.Section:
    """Show how trivial baselines rank beside the score."""
    columns = (
        parts.TableColumn("Baseline"),
        parts.TableColumn("AUROC", "right"),
        parts.TableColumn("Ranks the answers"),
        parts.TableColumn("Spearman with the score", "right"),
    )
    this: parts.Row = (
        parts.Cell("this score", style="strong"),
        phrases.measure_cell(confounds["auroc"]),
        "",
        "",
    )
    rows = [
        (
            row["name"],
            phrases.measure_cell(row["auroc"]),
            parts.Cell(row["ranks"] or "cannot tell", "turned round" if row["reversed"] else ""),
            phrases.measure_cell(row["spearman"], 2),
        )
        for row in confounds["rows"]
    ]
    title = f"Baselines beside the score, on the {confounds['n']:,} test answers"
    return parts.section(
        "Could something plainer explain it?",
        parts.Text(confounds["finding"]),
        parts.Table(title, columns, [this, *rows]),
        parts.note(
            "A baseline reads no meaning. Where one ranks as well as a detector, the detector "
            "has not been shown to do more than it; where the two go together closely, what "
            "the detector finds may be just that."
        ),
        where="page",
    )
