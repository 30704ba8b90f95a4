"""What follows from a comparison, and what do its claims rest on?"""

from calibrail.phrases import count, listed, percent
from calibrail.report.blocks import Json
from calibrail.report.documents.compare_finding import worse_than
from calibrail.report.documents.compare_scores import confidence_percent
from calibrail.report.phrases import plain


def next_step(comparison: Json) -> str:
    """Say what to do now."""
    winner, detectors = comparison["winner"], comparison["detectors"]
    if not detectors:
        return "Label more hallucinated answers, or tolerate more misses (--alpha)."
    if winner["candidate"] is None:
        return "Add faithful and hallucinated answers to the test part."
    if winner["name"] is not None:
        return _use(winner)
    alike = [winner["candidate"], *winner["not_separated"]]
    chosen = [plain(item["name"]) for item in detectors if item["name"] in alike]
    if len(chosen) > 1:
        few = [*chosen[:5], count(len(chosen) - 5, "other")] if len(chosen) > 5 else chosen
        return (
            f"Label more answers, or choose among {listed(few)} by what they cost; certify the one "
            "you choose on data that this comparison did not see (calibrail certify)."
        )
    tests = comparison["paired"]["against_best"]
    if any(worse_than(test, "fpr", winner["level"]) for test in tests):
        return (
            "Check whether the data gives the answer away by surface features (calibrail doctor); "
            "if it does not, find a better detector."
        )
    return (
        "Label more answers, or find a better detector: none was shown to raise fewer false alarms "
        "than every baseline."
    )


def _use(winner: Json) -> str:
    """Say what to do with a winner."""
    if not winner["confirmed"]:
        return (
            "Label more answers before you rely on the lead: the half of the test part that did "
            "not choose does not show it at these thresholds."
        )
    if winner["certificate"]["verdict"] == "certified":
        return (
            f"Calibrate {plain(winner['name'])} alone with calibrail calibrate (data, split and "
            "target as here), and freeze it with calibrail export."
        )
    if winner["certificate"]["max_fpr"] is None:
        return "Say how many false alarms you accept, e.g. --max-fpr 0.2, to get a verdict."
    return "Label more answers to settle the verdict, or ask for less (--min-coverage)."


def assumptions(comparison: Json) -> list[str]:
    """Return what the claims rest on."""
    confidence = confidence_percent(comparison) if comparison["detectors"] else "the stated"
    tests = comparison["paired"]["against_best"]
    lines = [
        "All answers come from the same source, in exchangeable order; answers of different groups "
        "are independent of each other, and the labels are right.",
        "The winner is decided by one test, false alarms at the same coverage: calibration and "
        "test answers are drawn again by whole groups, every threshold is set anew in each draw, "
        "and the spread gives Student's t. AUROC is the second test; McNemar's takes the "
        "thresholds as they are and confirms on answers that did not choose.",
        "p-values are corrected (Holm) among the detectors and among the baselines; where several "
        "are equally good, a winner is named in at most "
        f"{percent(comparison['winner']['level'])} of all such comparisons.",
        f"Intervals hold at {confidence} each, not all together, and a detector's own verdict "
        "holds for one that was named in advance. Thresholds of the tables at matched coverage "
        "were set on the test answers: they describe, and promise nothing.",
    ]
    if any("obuchowski" in test["auroc"]["method"] for test in tests):
        lines.append(
            "Answers share groups here, so every test counts groups: AUROC by Obuchowski's "
            "variance in place of DeLong's, McNemar by turning whole groups. The Wilson and DeLong "
            "intervals of single detectors take answers as independent."
        )
    return lines
