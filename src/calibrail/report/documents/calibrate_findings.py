"""Why does a report decide as it does, and what does it warn about, in words?"""

import shlex
from collections.abc import Sequence

from calibrail.phrases import count, listed, percent
from calibrail.report.blocks import Json
from calibrail.report.documents.trim_warnings import SentenceWarnings
from calibrail.report.documents.unit_words import UnitWords, by_sentence, unit_words
from calibrail.scale import Scale


def reason(report: Json, n_assumed: int = 0) -> str:
    """Return why a report has its verdict; ``report["reason"]`` is a code of ``evaluation``.

    ``n_assumed`` answers were taken as independent although they share groups.
    """
    certificate, test = report["certificate"], report["test"]
    text: str = certificate["reason"]
    if report["reason"] == "risks":
        text = risks_reason(report["verdict"], report["risks"]["measured"])
    elif report["reason"] == "caught_too_few":
        text = (
            f"The bounds would certify it, but the test part {unit_words(report).caught} only "
            f"{test['coverage']['count']:,} of {test['coverage']['n']:,} hallucinations, fewer "
            f"than the {test['coverage_band']['lowest']:,} that chance explains."
        )
    elif report["reason"] == "looked_before":
        text = looked_before(report["looks"])
    elif report["reason"] == "rows_alike":
        text = alike(report["data"]["n_alike"])
    elif report["reason"] == "aims_at_the_requirement":
        text += (
            f" A {report['guarantee']} threshold aims at {percent(1 - report['alpha'])}, so about "
            f"half of all draws lie below, and more labels do not change that: use --guarantee "
            "pac on new answers, or require less with --min-coverage."
        )
    if report["verdict"] == "certified":
        text += few_looked_before(report["looks"])
    text += assumed(n_assumed)
    if report["requirement"]["assume_independent"]:
        text += assumed_apart(report["data"].get("n_alike", 0))
    # A bound on answers that are not passed is one on flags, and with a review on both.
    return text.replace("flags", "withholds") if report["three_way"] else text


def looked_before(looks: Sequence[Json]) -> str:
    """Say why a further look at the same data is no certificate."""
    share = sum(look["shared"] for look in looks)
    data = "this data was" if share > 0.995 else f"about {percent(share)} of this data was"
    if any(look.get("same_traces") for look in looks):
        data = "other labels of these traces were"
    return (
        f"The bounds would certify it, but {data} looked at before: {_looks(looks)}. The error "
        "that a verdict may have holds for one look; who looks again has another chance to be "
        "lucky. Certify the guardrail on new answers alone."
    )


def few_looked_before(looks: Sequence[Json]) -> str:
    """Say how few of the answers were looked at before; empty where none were."""
    if not looks:
        return ""
    share = sum(look["shared"] for look in looks)
    return (
        f" About {percent(share)} of this data was looked at before ({_looks(looks)}), too little "
        "to take the verdict back."
    )


def _looks(looks: Sequence[Json]) -> str:
    """Name looks by size, place, seed and verdict."""
    return listed(
        [
            (count(look["n"], "answer") if look["n"] or not look.get("folder") else "labels begun")
            + (f" in {look['folder']}" if look.get("folder") else "")
            + (" by the guardrail's own report" if look["reported"] else "")
            + ("" if look["seed"] is None else f" with seed {look['seed']}")
            + f" ({look['verdict']})"
            for look in looks
        ]
    )


def assumed(n: int) -> str:
    """Say that answers were taken as independent that are not; empty where none were."""
    if not n:
        return ""
    return (
        f" This takes all answers as independent (--assume-independent), although "
        f"{count(n, 'of them shares', 'of them share')} a group with another one of the same class."
    )


def alike(n: int) -> str:
    """Say why there is no verdict on rows that cannot be told from one another."""
    return (
        f"There is no verdict, since {count(n, 'row is', 'rows are')} the same as another one: "
        "scores alone do not tell copies of an answer from answers that are alike by chance. Name "
        "a column of ids or of groups (--id-column, --group-column), or say that every row is an "
        "answer of its own (--assume-independent)."
    )


def assumed_apart(n: int) -> str:
    """Say that rows that are alike were taken as answers of their own; empty without any."""
    if not n:
        return ""
    return (
        " This takes all answers as independent (--assume-independent), although "
        f"{count(n, 'row is', 'rows are')} the same as another one."
    )


def risks_reason(verdict: str, measured: Sequence[Json]) -> str:
    """Return what the bounds of several risks show: those that decide the verdict."""
    state = {"rejected": "exceeded", "inconclusive": "open", "certified": "within"}[verdict]
    text = ("; " if verdict == "certified" else " and ").join(
        f"{item['name']} lies between {percent(item['test']['lower'])} and "
        f"{percent(item['test']['upper'])}, where {item['relation']} {percent(item['level'])} is "
        "asked"
        for item in measured
        if item["shown"] == state
    )
    return f"{text[0].upper()}{text[1:]}."


def message(code: str, report: Json, values: Json) -> str:
    """Return what a warning says; ``values`` are the numbers that the report does not hold."""
    kind = _SentenceWarnings if by_sentence(report) else _Warnings
    text: str = getattr(kind(report, values), code)()
    return text


class _Warnings:
    """What a report warns about: one method a code."""

    def __init__(self, report: Json, values: Json) -> None:
        self.report, self.values, self.test = report, values, report["test"]

    def labels_look_inverted(self) -> str:
        areas = ", ".join(f"{name} {area:.3f}" for name, area in self.values.items())
        turned = (self.report["data"].get("reading") or {}).get("turned")
        remedy = f"{shlex.join(turned)} reads them" if turned else "turn them"
        return (
            "The labels look inverted: answers read as faithful share less with their contexts "
            f"than those read as hallucinated (AUROC {areas}, each below 0.5 with 99.9% "
            f"confidence). Nothing was turned around. Where they are inverted, {remedy} the other "
            "way round, and every number here is about the wrong class; they may be right where "
            "hallucinated answers copy and faithful ones paraphrase."
        )

    def reversed_direction(self) -> str:
        area, scale = self.test["auroc"], Scale.of(self.report["score"])
        remedy = "" if scale.column is None else " Check what a higher value means (--higher)."
        return (
            f"The score runs the wrong way: AUROC is {area['estimate']:.3f} ({area['lower']:.3f} "
            f"to {area['upper']:.3f}), so {scale.reversed}. Nothing was flipped: on this data the "
            f"detector points away from hallucinations.{remedy}"
        )

    def flags_everything(self) -> str:
        fpr = self.test["fpr"]
        flagged = f"{fpr['count']:,} of {count(fpr['n'], 'faithful test answer')}"
        if self.report["flag_all"]:
            return (
                f"No threshold keeps the promise, so every answer is flagged ({flagged}). Label "
                "more hallucinated examples or tolerate more misses."
            )
        return (
            f"To catch {percent(1 - self.report['alpha'])} of hallucinations the threshold flags "
            f"{flagged}: as a filter it is useless. Use a score that separates the classes better, "
            "or tolerate more misses (a larger --alpha)."
        )

    def baseline_beats_detector(self) -> str:
        better = [row for row in self.report["baselines"] if row["beats_detector"]]
        best = max(better, key=lambda row: (row["auroc"]["estimate"], row["name"]))
        area, fpr = self.test["auroc"]["estimate"], percent(self.test["fpr"]["estimate"])
        others = [row["name"] for row in better if row is not best]
        also = f" So {'do' if len(others) > 1 else 'does'} {listed(others)}." if others else ""
        return (
            f"The baseline {best['name']} beats the detector: AUROC "
            f"{best['auroc']['estimate']:.3f} against {area:.3f}, and "
            f"{percent(best['fpr']['estimate'])} false alarms against {fpr} at the same "
            f"target.{also} Either the data gives the answer away by surface features, or the "
            "detector adds nothing: check both before you use it."
        )

    def not_shown_to_beat_baseline(self) -> str:
        rows = self.report["baselines"]
        told_apart = ("beats_detector", "detector_beats")
        names = [row["name"] for row in rows if not any(row[key] for key in told_apart)]
        return (
            f"The detector has not been shown to rank answers better than the {_baselines(names)} "
            "(paired AUROC intervals do not lie in its favour). Test on more examples or on data "
            "without such shortcuts."
        )

    def coverage_outside_band(self) -> str:
        caught, band = self.test["coverage"], self.test["coverage_band"]
        answers = count(caught["n"], "hallucinated test answer")
        side = "below" if caught["count"] < band["lowest"] else "above"
        return (
            f"The threshold caught {caught['count']:,} of {answers}, {side} the "
            f"{band['lowest']:,} to {band['highest']:,} that chance explains. Calibration and test "
            "examples do not seem to come from the same source: check how they were split."
        )

    def near_duplicates(self) -> str:
        found = self.report["data"]["near_duplicates"]
        return (
            f"{found['count']:,} of {count(found['n'], 'answer')} have a near-duplicate on the "
            f"other side of the split ({found['exact']:,} identical), so that the threshold is "
            "tested on what set it, or nearly so, and results look too good, the verdict among "
            "them. Give answers that are alike one group (--group-column), or remove them."
        )

    def paper_rank_undercovers(self) -> str:
        n, target = self.report["n_calibration"], percent(1.0 - self.report["alpha"])
        return (
            f"The paper's rank catches {percent(1.0 - self.report['rank'] / (n + 1))} of "
            f"hallucinations on average at n = {n:,}, less than the {target} asked for. Use it "
            "only to reproduce published tables; use --guarantee marginal or pac for decisions."
        )

    def few_distinct_scores(self) -> str:
        offered, scale = self.report["attainable"], Scale.of(self.report["score"])
        words = unit_words(self.report)
        can_be_had = _can_be_had(offered, scale, words)
        examples = count(self.values["n"], "hallucinated calibration example")
        if offered["n_distinct"] > len(offered["steps"]):
            return (
                f"{self.values['n_tied']:,} of {examples} share the score "
                f"{scale.text(self.report['threshold'])}. {can_be_had}Use a score that tells them "
                "apart, such as mode=logprob of a judge."
            )
        shares = [percent(k / self.report["n_calibration"]) for k in self.values["caught"]]
        some = listed(shares) if len(shares) <= 6 else f"{', '.join(shares[:3])}, ..., {shares[-1]}"
        return (
            f"The score takes only {count(offered['n_distinct'], 'distinct value')} on {examples}, "
            f"so thresholds can only {words.catch} {some} of them. {can_be_had}Use a "
            "finer score, such as a probability in place of a yes/no verdict (mode=logprob of a "
            "judge)."
        )

    def too_few_examples(self) -> str:
        test, parts = self.test, []
        if few := self.values["fewer_than"]:
            parts.append(
                f"The test part has {test['n_hallucinated']:,} hallucinated and "
                f"{test['n_faithful']:,} faithful examples, fewer than {few} of a class, so its "
                "intervals are wide."
            )
        if self.values["low_rank"]:
            scores = count(self.report["n_calibration"], "hallucinated calibration score")
            parts.append(
                f"The threshold is number {self.report['rank']} of only {scores} and would move a "
                "lot with other data."
            )
        return " ".join([*parts, "Label more examples."])

    def clustered(self) -> str:
        aside, counted = self.values["n_set_aside"], self.values["n"]
        kind = "group" if self.report["risks"] else "group and class"
        threshold = "; the threshold counts each group once" if self.report["clustering"] else ""
        return (
            f"Answers of one group (a source, a question, copies of an answer) are not "
            f"independent. So one answer of each {kind} counts: {counted:,} of "
            f"{aside + counted:,}{threshold}. All measures, intervals and the verdict rest on "
            "these. (--assume-independent counts every answer.)"
        )

    def assumed_independent(self) -> str:
        examples = count(self.values["n"], "example")
        return (
            f"{self.values['n_sharing']:,} of {examples} share a group (a source or a question) "
            "with another of their class, and every one counted, as --assume-independent asks: "
            "threshold, intervals and verdict promise too much if answers of one group are alike."
        )

    def undefined_scores(self) -> str:
        undefined = self.report["undefined"]
        test, source, policy = undefined["test"], undefined["calibration"], undefined["policy"]
        meaning = "passed as if faithful" if policy == "pass" else f"not released (policy {policy})"
        return (
            f"The score is undefined for {count(sum(test.values()), 'test answer')} "
            f"({test['hallucinated']:,} hallucinated, {test['faithful']:,} faithful) and "
            f"{count(sum(source.values()), 'calibration answer')} ({source['hallucinated']:,} "
            f"hallucinated); they count as {meaning}. --undefined changes that."
        )


class _SentenceWarnings(SentenceWarnings, _Warnings):
    """What a report about removing sentences warns about."""


def _can_be_had(offered: Json, scale: Scale, words: UnitWords) -> str:
    """Say that the target itself cannot be had, where that is so, and what can."""
    if offered["is_attainable"]:
        return ""
    text = f"{percent(offered['target'])} itself cannot be had"
    for used in (step for step in offered["steps"] if step["is_used"]):
        fpr = used["fpr"]
        text += (
            f": the threshold in use, {scale.text(used['threshold'])}, {words.catches} more than "
            f"was asked and {words.flags} {fpr['count']:,} of "
            f"{count(fpr['n'], 'faithful test answer')}"
        )
    lower = [
        f"{percent(step['promise'])} (at {percent(step['fpr']['estimate'])} {words.alarms})"
        for step in offered["steps"]
        if 0.0 < step["promise"] < offered["target"] and step["fpr"]["estimate"] is not None
    ]
    return f"{text}. Below it, {listed(lower[:3])} can be promised. " if lower else f"{text}. "


def baselines_finding(confounds: Json) -> str:
    """Say which baselines rank as well, and with which one the score goes together most."""
    rows, estimate = confounds["rows"], confounds["auroc"]["estimate"]
    better, alike = (
        [row["name"] for row in rows if row["ranks"] == how] for how in ("better", "as well")
    )
    area = "" if estimate is None else f" (AUROC {estimate:.3f})"
    tested = f", as far as {count(confounds['n'], 'test answer')} can tell"
    parts = []
    if better:
        parts.append(f"{_rank(better)} these answers better than this score{area}")
    if alike and better:
        parts.append(f"{listed(alike)} as well as it{tested}")
    elif alike:
        parts.append(f"{_rank(alike)} these answers as well as this score{area}{tested}")
    text = "; ".join(parts) or f"This score{area} ranks these answers better than every baseline"
    closeness = {
        row["name"]: row["spearman"]["estimate"]
        for row in rows
        if row["spearman"]["estimate"] is not None
    }
    if not closeness:
        return f"{text}."
    most = max(closeness, key=lambda name: abs(closeness[name]))
    return f"{text}. The score goes together most with {most} (Spearman {closeness[most]:.2f})."


def _rank(names: Sequence[str]) -> str:
    return f"The {_baselines(names)} {'ranks' if len(names) == 1 else 'rank'}"


def _baselines(names: Sequence[str]) -> str:
    return f"{'baseline' if len(names) == 1 else 'baselines'} {listed(list(names))}"
