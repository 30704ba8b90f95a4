"""Reasons, warnings, next steps (templates)."""

import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from calibrail.formatting import count, listed, percent
from calibrail.options import Beyond, Detectors, Promise, Requirement, ShiftSplit
from calibrail.options.fields import spellings
from calibrail.options.guarantee import OF_ONE_DETECTOR, OF_ONE_THRESHOLD, OF_THIS_THRESHOLD
from calibrail.report.document import Json
from calibrail.report.text import share
from calibrail.scores.base import Scale

#: Options that name detectors.
_DETECTORS: Final = spellings(Detectors, without=("baselines",))
#: Options of calibrate that compare does not take.
ONE_ONLY: Final = (
    spellings(Promise, without=OF_ONE_THRESHOLD)
    | spellings(Requirement, only=OF_ONE_DETECTOR)
    | spellings(Beyond)
)
#: Options of shift that calibrate does not take.
SIDES: Final = spellings(ShiftSplit, without=("by",))


def for_one(content: Json, name: str) -> str:
    """Return the command that calibrates one detector of a comparison, as it was compared.

    Its folder stands beside that of the comparison, ``RUN``. Nothing is returned for a comparison
    that no command made, or that did not name the detector.
    """
    words = _words(content, "compare")
    # A column that bears a score's name is known by its kind, too.
    column = name.removeprefix("column:")
    if column in _values(words, "--score-column"):
        chosen = ["--score-column", column, "--higher", *_values(words, "--higher")[-1:]]
    elif name in _values(words, "--score"):
        chosen = ["--score", name]
    else:
        return ""
    rest = shlex.join([*_without(words, _DETECTORS)[2:], *chosen])
    return f"calibrail calibrate {rest} -o RUN-{_in_a_path(name)}"


def for_several(content: Json) -> str:
    """Return the command that compares a run's detector with others, on the same data and split.

    NAME stands for these others; DATA where no command made the run.
    """
    if not (words := _words(content, "calibrate")):
        return "calibrail compare DATA --score NAME --score NAME"
    without_texts = (content["data"].get("baselines") or {}).get("none") == "no texts"
    other = "--score-column COL" if without_texts else "--score NAME"
    return f"calibrail compare {shlex.join(_without(words, ONE_ONLY)[2:])} {other} -o RUN-compared"


def for_groups(content: Json) -> str:
    """Return the command that gives each group of a drift audit a threshold of its own."""
    words = _words(content, "shift")
    if not (by := _values(words, "--by")):
        return ""
    kept = shlex.join(_without(words, SIDES)[2:])
    return f"calibrail calibrate {kept} -o RUN-by-{_in_a_path(by[-1])}"


def turned(content: Json) -> str:
    """Return a run's command with the other direction of its column; nothing without one."""
    words = _words(content, "calibrate")
    other = {"hallucinated": "faithful", "faithful": "hallucinated"}
    given = _values(words, "--higher")
    if not given or given[-1] not in other:
        return ""
    kept = _without(words, {"--higher="})
    return f"{shlex.join([*kept, '--higher', other[given[-1]]])} -o RUN"


def _words(content: Json, command: str) -> list[str]:
    """Return the words of the command that made a result; none where another one did."""
    words = shlex.split(content["reproduce"].get("command") or "")
    return words if words[1:2] == [command] else []


def _in_a_path(name: str) -> str:
    return re.sub(r"[\W_]", "-", name)[:40].strip("-")


def _options(words: Sequence[str], names: Collection[str]) -> Iterator[tuple[int, int, str]]:
    """Yield where each of some options stands, how many words it takes, and its value."""
    for place, word in enumerate(words):
        name, given, value = word.partition("=")
        if f"{name}=" in names:
            yield place, 1 if given else 2, value if given else "".join(words[place + 1 :][:1])
        elif word in names:
            yield place, 1, ""


def _values(words: Sequence[str], option: str) -> list[str]:
    return [value for _, _, value in _options(words, {f"{option}="})]


def _without(words: Sequence[str], names: Collection[str]) -> list[str]:
    """Return the words without some options and their values."""
    gone = {place + i for place, length, _ in _options(words, names) for i in range(length)}
    return [word for place, word in enumerate(words) if place not in gone]


class SentenceWarnings:
    """What a report about removing sentences warns about, where answers have other words."""

    report: Json
    values: Json
    test: Json

    def reversed_direction(self) -> str:
        """Say that supported sentences score as the more suspicious ones."""
        area, scale = self.test["auroc"], Scale.of(self.report["score"])
        remedy = "" if scale.column is None else " Check what a higher value means (--higher)."
        return (
            f"The score runs the wrong way: by sentence its AUROC is {area['estimate']:.3f} "
            f"({area['lower']:.3f} to {area['upper']:.3f}), so supported sentences look more "
            f"suspicious than unsupported ones. Nothing was flipped.{remedy}"
        )

    def flags_everything(self) -> str:
        """Say that nearly every faithful answer loses a sentence, or every sentence goes."""
        fpr, kept = self.test["fpr"], self.test["kept_supported"]
        touched = f"{fpr['count']:,} of {count(fpr['n'], 'faithful test answer')}"
        if self.report["flag_all"]:
            return (
                "No threshold keeps the promise, so every sentence is removed. Label more "
                "hallucinated answers or tolerate more misses."
            )
        return (
            f"To free {percent(1 - self.report['alpha'])} of hallucinated answers the threshold "
            f"takes sentences from {touched}, and keeps {share(kept)} of what is supported. Use a "
            "score that ranks sentences better, or tolerate more misses (a larger --alpha)."
        )

    def baseline_beats_detector(self) -> str:
        """Say which baseline keeps more."""
        rows = {row["name"]: row for row in self.report["sentences"]["baselines"]}
        better = [rows[row["name"]] for row in self.report["baselines"] if row["beats_detector"]]
        best = max(better, key=lambda row: (row["kept_supported"]["estimate"], row["name"]))
        return (
            f"The baseline {best['name']} keeps {share(best['kept_supported'])} of supported "
            f"sentences at the same target, this score {share(self.test['kept_supported'])}: more, "
            "by a paired test. Either the data gives unsupported sentences away by surface "
            "features, or the score adds nothing: check both before you use it."
        )

    def not_shown_to_beat_baseline(self) -> str:
        """Say that no baseline keeps less for sure."""
        return (
            "The score has not been shown to keep more of what is supported than every baseline "
            "does at the same target (the paired intervals do not all lie in its favour). Test on "
            "more answers."
        )

    def coverage_outside_band(self) -> str:
        """Say that what is freed is not what the promise predicts."""
        freed, band = self.test["coverage"], self.test["coverage_band"]
        side = "below" if freed["count"] < band["lowest"] else "above"
        return (
            f"The threshold frees {freed['count']:,} of "
            f"{count(freed['n'], 'hallucinated test answer')}, {side} the {band['lowest']:,} to "
            f"{band['highest']:,} that chance explains. Calibration and test answers do not seem "
            "to come from the same source: check how they were split."
        )

    def undefined_scores(self) -> str:
        """Say how many sentences have no score."""
        n, policy = self.report["sentences"]["n_undefined"], self.report["undefined"]["policy"]
        fate = {"flag": "are removed", "review": "send their answers to review"}
        counted = f"{n:,}" if n else "none"
        return (
            f"The score is undefined for some sentences, {counted} of them in test answers that "
            f"count; such sentences {fate.get(policy, 'are never removed')} (policy {policy}). "
            "--undefined changes that."
        )


@dataclass(frozen=True, slots=True)
class UnitWords:
    """How a report names its classes, and what a threshold does to them.

    Attributes
    ----------
    classes : pair of str
        What the score is to tell apart: those to be caught first.
    caught, catch, catches : str
        What is wanted of hallucinated answers.
    by_score : str
        The same of the score alone, before answers are trimmed or sent to review.
    alarms, harm, flags, wrongly : str
        What faithful ones suffer, and the same in one word.
    acts, acted : str
        What is done from the threshold on.
    """

    classes: tuple[str, str]
    caught: str
    catch: str
    catches: str
    by_score: str
    alarms: str
    harm: str
    flags: str
    wrongly: str
    acts: str
    acted: str


_ANSWERS: Final = UnitWords(
    classes=("hallucinated", "faithful"),
    caught="caught",
    catch="catch",
    catches="catches",
    by_score="caught",
    alarms="false alarms",
    harm="alarms",
    flags="flags",
    wrongly="wrongly flagged",
    acts="flags",
    acted="flagged",
)
_SENTENCES: Final = UnitWords(
    classes=("unsupported", "supported"),
    caught="freed",
    catch="free",
    catches="frees",
    by_score="freed by the score alone",
    alarms="touched",
    harm="touched",
    flags="touches",
    wrongly="touched though it is faithful",
    acts="removes",
    acted="removed",
)


def by_sentence(content: Json) -> bool:
    """Return whether a report, a certificate or a guardrail is about removing sentences."""
    return "sentence" in (content.get("unit"), (content.get("promise") or {}).get("unit"))


def unit_words(content: Json) -> UnitWords:
    """Return the words for a report, a certificate or a guardrail."""
    return _SENTENCES if by_sentence(content) else _ANSWERS


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


#: What each verdict means, for a reader who has never seen one.
VERDICTS: Final = {
    "certified": "The data shows that the detector meets what was asked.",
    "rejected": "The data shows that the detector does not meet what was asked.",
    "inconclusive": "The data neither shows that the detector meets what was asked nor that it "
    "does not.",
}

#: Warnings in a few words, where there is no room for the message and the code does not say it.
_TITLES: Final = {
    "reversed_direction": "the score runs the wrong way",
    "flags_everything": "the threshold flags everything",
    "baseline_beats_detector": "a baseline beats it",
    "not_shown_to_beat_baseline": "not shown to beat every baseline",
    "near_duplicates": "near-duplicates across the split",
    "coverage_outside_band": "caught share outside its expected range",
    "paper_rank_undercovers": "the paper's rank catches too few",
    "clustered": "each group counts once",
    "assumed_independent": "answers of one group taken as independent",
    "undefined_scores": "some scores are undefined",
}

#: Advice to label asks for at most this many times the answers of a class, or so many.
MOST_TIMES: Final = 20
MOST_NEW: Final = 2_000

#: What to do where no such number of new answers settles it.
TOO_CLOSE: Final = (
    "At the rates seen no number of answers that could be labelled settles it: the requirement "
    "lies too close to what the detector does. Change the detector or the requirement."
)

#: What to do where no limit of false alarms was given.
STATE_LIMIT: Final = "Say how many false alarms you accept, e.g. --max-fpr 0.2, to get a verdict."


def title(code: str) -> str:
    """Return a warning in a few words."""
    return _TITLES.get(code, code.replace("_", " "))


def how_sure(report: Json, of_this: str) -> str:
    """Say on what level a promise holds: on average, or for one threshold, which is named."""
    guarantee = report["guarantee"]
    if guarantee not in OF_THIS_THRESHOLD:
        return f"on average over calibration draws (guarantee: {guarantee})"
    which = "each" if report["by_group"] else of_this
    if guarantee == "anytime":
        which += " and all that come of more calibration answers"
    confidence = percent(1.0 - (report["delta"] or 0.0))
    return f"with {confidence} confidence {which} (guarantee: {guarantee})"


def whatever_the_unit(report: Json) -> str:
    """Say what to do where it does not matter what is flagged; empty where it does."""
    if report["verdict"] == "certified":
        return "Freeze exactly this detector with: calibrail export RUN -o guardrail.json"
    # A report holds its reason in words.
    why, looks = report["reason"] or "", report.get("looks")
    if looks and why.startswith(looked_before(looks)):
        return (
            "Freeze this detector (calibrail export RUN -o guardrail.json) and certify it on new "
            "labelled answers alone (calibrail certify guardrail.json NEW)."
        )
    n_alike = report["data"].get("n_alike", 0)
    if n_alike and why.startswith(alike(n_alike)):
        return "Give every row its id (--id-column), or copies a common group (--group-column)."
    return ""


def next_step(report: Json) -> str:
    """Say what to do now."""
    codes = {item["code"] for item in report["warnings"]}
    if step := whatever_the_unit(report):
        return step
    if "reversed_direction" in codes:
        if report["score"]["name"] == "column":
            again = turned(report)
            return (
                "Check what a higher value of the column means (--higher), and calibrate again"
                f"{f', e.g. {again}' if again else '.'}"
            )
        return f"Use another detector for such answers; compare some: {for_several(report)}"
    if report["verdict"] == "rejected":
        return (
            "Accept more misses (--alpha) or more false alarms (--max-fpr), or try other scores on "
            f"the same split: {for_several(report)}"
        )
    if report["risks"]:
        return "Certify the guardrail on more answers that are new, or ask for less (--risk)."
    if report["max_fpr"] is None:
        return STATE_LIMIT
    caught, required = report["certificate"]["coverage"]["lower"], report["min_coverage"]
    loose = report["guarantee"] not in OF_THIS_THRESHOLD and caught < required
    if loose and report["by_group"] and required >= 1.0 - report["alpha"] - 1e-12:
        # It aims at what is required: more labels do not change that.
        return "Calibrate again with --guarantee pac, or require less with --min-coverage."
    if loose and not report["by_group"]:
        return (
            "Calibrate again with --guarantee pac, which certifies coverage by construction; or "
            "require less with --min-coverage."
        )
    once = any(item["code"] == "clustered" for item in report["warnings"])
    return label_anew(report["certificate"], once=once) or TOO_CLOSE


def label_anew(certificate: Json, *, once: bool) -> str:
    """Say how many new answers of each class would settle an inconclusive verdict, and how.

    Another look at the same answers with some more would be a second chance; new ones alone, of as
    many as both together, are not. Where a group counts ``once``, so many groups are needed. Empty
    where no number would, or one that nobody labels.
    """
    needed, sides = certificate["needed"], {"hallucinated": "coverage", "faithful": "fpr"}
    if None in needed.values() or not any(needed.values()):
        return ""
    rates = {label: certificate[side] for label, side in sides.items()}
    if any(n > max(MOST_TIMES * rates[label]["n"], MOST_NEW) for label, n in needed.items()):
        return ""
    wanted = [count(rates[label]["n"] + n, f"{label} answer") for label, n in needed.items()]
    missed = rates["hallucinated"]["estimate"] < certificate["min_coverage"]
    alarms = rates["faithful"]["estimate"] > certificate["max_fpr"]
    verdict = "rejected" if missed or alarms else "certified"
    groups = ", each of a group of its own" if once else ""
    return (
        f"Certify on about {' and '.join(wanted)} that are new{groups}: at the rates seen that "
        f"settles it as {verdict}. (Looking at these again with some more is a second chance.)"
    )


def _refusable(report: Json) -> str:
    """Name the promises that may be refused because undefined scores are what they forbid."""
    if report["undefined"]["policy"] == "pass":
        return "misses"
    if report["three_way"] and report["undefined"]["policy"] == "flag":
        return "false alarms"
    return ""


def assumptions(report: Json) -> list[str]:
    """Return what the promise and the intervals rest on."""
    policy = report["undefined"]["policy"]
    released = "passed" if policy == "pass" else f"not released (policy: {policy})"
    lines = [
        "The hallucinations to be caught come from the same source as the hallucinated "
        f"calibration examples (n = {report['n_calibration']:,}), in exchangeable order. Another "
        "model, retriever, topic or language needs its own calibration.",
        "The labels are right, and examples of one class are independent of each other"
        f"{', but for those of one group' if report['promise']['clustered'] else ''}.",
        f"Intervals hold at the {percent(report['confidence'])} level each, not all together. "
        "The verdict rests on exact bounds (Clopper-Pearson): what it says is wrong with a "
        f"probability of at most {percent(1.0 - report['certificate']['confidence'])}.",
        f"An undefined score counts as {released}.",
    ]
    if refusable := _refusable(report):
        lines.append(
            f"The promise about {refusable} is an average over all calibrations, including those "
            "that end without a threshold because too many scores are undefined. Where undefined "
            "scores are nearly as frequent as the misses allowed, the thresholds that do come out "
            "break it more often."
        )
    if report["risks"]:
        lines.insert(
            1,
            "Faithful answers come from the same source, too, and in the same proportion to "
            "hallucinated ones: precision, accuracy and abstention depend on it.",
        )
    return lines
