"""What does a report about removing sentences warn about that others say otherwise?"""

from calibrail.phrases import count, percent
from calibrail.report.blocks import Json
from calibrail.report.phrases import share
from calibrail.scale import Scale


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
