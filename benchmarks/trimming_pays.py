"""How good must a detector be, sentence by sentence, for trimming to leave text worth showing?

``python benchmarks/trimming_pays.py`` writes ``results/trimming_pays.md`` and the figure of
docs/trimming.md, in seconds.

Scores are normal: supported sentences have mean 0, unsupported ones mean d, standard deviation 1,
so the AUROC per sentence is Phi(d / sqrt 2). A hallucinated answer has m sentences, each
unsupported with probability s, at least one; a faithful answer has m supported ones. With F the
probability that an unsupported sentence lies below a threshold, all of them are removed with
probability ((1 - s F)^m - (1 - s)^m) / (1 - (1 - s)^m). Set to 1 - alpha this gives F, and with it
the share Phi(d + Phi^-1(F)) of supported sentences that is kept: nothing is drawn. Where scores of
one answer are alike (correlation r), both are integrals over what they have in common. From n
calibration answers, the share missed by a threshold of rank k is Beta(k, n + 1 - k).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from results import light_and_dark, write
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri
from scipy.stats import beta

from calibrail.conformal import minimum_n, rank
from calibrail.options import Guarantee
from calibrail.report.figures.plot import DASHED, DOTTED, INK, QUIET, SERIES, drawing

FIGURE = Path(__file__).resolve().parents[1] / "docs" / "figures" / "trimming_pays.svg"
AUROCS = (0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99)
ALPHAS = (0.1, 0.2)
#: Share of hallucinated answers in the traffic, where shown text is summed over all of it.
BASE_RATE = 0.3
#: Calibration answers that hold an unsupported sentence.
SIZES = (20, 50, 100, 300, 1000)
CORRELATION = 0.5
Floats = NDArray[np.float64]
#: Nodes and weights of integrals over a standard normal number.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(101)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


@dataclass(frozen=True)
class Answers:
    """Hallucinated answers of ``m`` sentences, each unsupported with probability ``share``."""

    m: int
    share: float
    correlation: float = 0.0

    def freed(self, t: float, d: float) -> float:
        """Return P(all unsupported sentences reach t | there is one)."""
        below, _ = self._below(t, d)
        all_supported = (1.0 - self.share) ** self.m
        every = _mean((1.0 - self.share * below) ** self.m)
        return (every - all_supported) / (1.0 - all_supported)

    def emptied(self, t: float, d: float) -> float:
        """Return P(all sentences of a hallucinated answer reach t)."""
        low, kept = self._below(t, d)
        removed, rest = 1.0 - low, (1.0 - self.share) * (1.0 - kept)
        all_supported = (1.0 - self.share) ** self.m
        return _mean((self.share * removed + rest) ** self.m - rest**self.m) / (1.0 - all_supported)

    def flagged(self, t: float, d: float) -> float:
        """Return P(any sentence of a hallucinated answer reaches t)."""
        low, kept = self._below(t, d)
        rest = (1.0 - self.share) * kept
        all_supported = (1.0 - self.share) ** self.m
        passed = _mean((self.share * low + rest) ** self.m - rest**self.m) / (1.0 - all_supported)
        return 1.0 - passed

    def unflagged_faithful(self, t: float) -> float:
        """Return P(no sentence of a faithful answer reaches t)."""
        return _mean(self._below(t, 0.0)[1] ** self.m)

    def threshold(self, d: float, missed: float) -> float:
        """Return the threshold at which a share of hallucinated answers is not freed."""
        return _solve(lambda t: self.freed(t, d) - (1.0 - missed))

    def flag_threshold(self, d: float, missed: float) -> float:
        """Return the threshold at which a share of hallucinated answers is not flagged at all."""
        return _solve(lambda t: self.flagged(t, d) - (1.0 - missed))

    def kept(self, d: float, alpha: float) -> float:
        """Return the share of supported sentences that lies below the threshold."""
        return float(ndtr(self.threshold(d, alpha)))

    def _below(self, t: float, d: float) -> tuple[Floats, Floats]:
        """Return P(score < t) of an unsupported and a supported sentence, given the answer."""
        scale, shared = np.sqrt(1.0 - self.correlation), np.sqrt(self.correlation) * _NODES
        return ndtr((t - d - shared) / scale), ndtr((t - shared) / scale)


#: Sentences per answer, and the share of them that is unsupported in a hallucinated answer.
ANSWERS = tuple(Answers(m, share) for m in (3, 6, 12) for share in (0.1, 0.3, 0.6))


def separation(auroc: float) -> float:
    """Return the difference of the means of two normal classes with this AUROC."""
    return float(np.sqrt(2.0) * ndtri(auroc))


def needed(share_kept: float, answers: Answers, alpha: float) -> float:
    """Return the AUROC from which on this share of supported sentences is kept."""
    d = _solve(lambda d: answers.kept(d, alpha) - share_kept, 0.0, 15.0)
    return float(ndtr(d / np.sqrt(2.0)))


def shown_by_flags(answers: Answers, d: float, alpha: float) -> float:
    """Return the share of supported sentences in answers that are not flagged as a whole.

    The answers are flagged by their highest score, at the threshold that catches 1 - alpha of the
    hallucinated ones; a flagged answer shows nothing.
    """
    t = answers.flag_threshold(d, alpha)
    supported = answers.m - answers.m * answers.share / (1.0 - (1.0 - answers.share) ** answers.m)
    of_hallucinated = BASE_RATE * _supported_in_passed(answers, t, d)
    of_faithful = (1.0 - BASE_RATE) * answers.m * answers.unflagged_faithful(t)
    total = BASE_RATE * supported + (1.0 - BASE_RATE) * answers.m
    return (of_hallucinated + of_faithful) / total


def _supported_in_passed(answers: Answers, t: float, d: float) -> float:
    """Return the mean number of supported sentences in hallucinated answers that are not flagged.

    Of all such answers: E[supported; none reaches t | one is unsupported].
    """
    low, kept = answers._below(t, d)
    rest, bad = (1.0 - answers.share) * kept, answers.share * low
    passed = answers.m * rest * ((rest + bad) ** (answers.m - 1) - rest ** (answers.m - 1))
    return _mean(passed) / (1.0 - (1.0 - answers.share) ** answers.m)


def break_even(answers: Answers, alpha: float) -> float:
    """Return the AUROC from which on trimming shows more supported text than flagging."""
    d = _solve(lambda d: answers.kept(d, alpha) - shown_by_flags(answers, d, alpha), 0.0, 15.0)
    return float(ndtr(d / np.sqrt(2.0)))


def by_sentence(answers: Answers, d: float, alpha: float) -> tuple[float, float]:
    """Return what a threshold on sentences keeps, and how many hallucinated answers it fails.

    It removes 1 - alpha of the unsupported sentences, and says nothing about answers.
    """
    t = d + float(ndtri(alpha))
    return float(ndtr(t)), 1.0 - answers.freed(t, d)


def with_n(
    answers: Answers, d: float, alpha: float, n: int, guarantee: Guarantee = "marginal"
) -> float | None:
    """Return the mean share kept at a threshold from n hallucinated answers; None below its n."""
    k = rank(n, alpha, guarantee)
    if k == 0:
        return None
    missed = beta(k, n + 1 - k).ppf((np.arange(400) + 0.5) / 400)
    return float(np.mean([ndtr(answers.threshold(d, share)) for share in missed]))


def _mean(values: Floats) -> float:
    return float(np.sum(_WEIGHTS * values))


def _solve(f: Callable[[float], float], low: float = -30.0, high: float = 30.0) -> float:
    return float(brentq(f, low, high, xtol=1e-10))


def main() -> None:
    draw()
    write("trimming_pays", "When trimming pays", page(), ("numpy", "scipy"))


def page() -> list[str]:
    lines = [
        "What a detector must be able to do, sentence by sentence, so that removing every "
        "unsupported sentence with probability 1 - alpha leaves text worth showing. Normal scores "
        "of equal variance; large calibration set but for the last table. Nothing is drawn at "
        "random: all figures are integrals (see the script).",
    ]
    for alpha in ALPHAS:
        lines += ["", f"## Supported sentences kept, alpha = {alpha:g}", ""]
        lines += _table(
            ["sentences", "unsupported", *(f"AUROC {a:g}" for a in AUROCS), "half kept from"],
            [
                [
                    f"{item.m}",
                    f"{item.share:.0%}",
                    *(f"{item.kept(separation(a), alpha):.1%}" for a in AUROCS),
                    f"{needed(0.5, item, alpha):.3f}",
                ]
                for item in ANSWERS
            ],
        )
    lines += [
        "",
        "`sentences` per answer; `unsupported`: probability that a sentence of a hallucinated "
        "answer is, given that one is.",
    ]
    lines += _against_flags()
    lines += _emptied()
    lines += _sentences_alone()
    lines += _alike()
    return lines + _few()


def _against_flags() -> list[str]:
    rows = [
        [
            f"{item.m}",
            f"{item.share:.0%}",
            *(
                f"{item.kept(separation(a), 0.1):.0%} / "
                f"{shown_by_flags(item, separation(a), 0.1):.0%}"
                for a in AUROCS
            ),
            *(f"{break_even(item, alpha):.3f}" for alpha in ALPHAS),
        ]
        for item in ANSWERS
    ]
    head = ["sentences", "unsupported", *(f"{a:g}" for a in AUROCS)]
    return [
        "",
        "## Against flagging whole answers",
        "",
        f"Supported sentences shown of all in the traffic ({BASE_RATE:.0%} of the answers "
        "hallucinated), alpha = 0.1: trimmed / by showing only answers whose highest sentence "
        "score stays below a threshold that catches 90 % of the hallucinated ones. Both show no "
        "unsupported sentence of a hallucinated answer with probability 0.9. Right: the AUROC "
        "from which on trimming shows more.",
        "",
        *_table([*head, "break-even, 0.1", "break-even, 0.2"], rows),
    ]


def _emptied() -> list[str]:
    rows = []
    for item in ANSWERS:
        cells = [f"{item.m}", f"{item.share:.0%}"]
        for a in AUROCS:
            t = item.threshold(separation(a), 0.1)
            faithful = _mean((1.0 - item._below(t, 0.0)[1]) ** item.m)
            cells.append(f"{item.emptied(t, separation(a)):.0%} / {faithful:.0%}")
        rows.append(cells)
    return [
        "",
        "## Answers emptied, alpha = 0.1",
        "",
        "Answers of which nothing is left: hallucinated / faithful. A hallucinated answer may hold "
        "unsupported sentences only.",
        "",
        *_table(["sentences", "unsupported", *(f"AUROC {a:g}" for a in AUROCS)], rows),
    ]


def _sentences_alone() -> list[str]:
    rows = []
    for item in ANSWERS:
        cells = [f"{item.m}", f"{item.share:.0%}"]
        for a in (0.8, 0.9, 0.95):
            kept, left = by_sentence(item, separation(a), 0.1)
            cells += [f"{item.kept(separation(a), 0.1):.0%} / {kept:.0%}", f"{left:.0%}"]
        rows.append(cells)
    head = ["sentences", "unsupported"]
    for a in (0.8, 0.9, 0.95):
        head += [f"kept, AUROC {a:g}", "left"]
    return [
        "",
        "## What a promise about sentences is worth",
        "",
        "A threshold that removes 90 % of the unsupported SENTENCES keeps more. Kept: by the "
        "promise about answers / by the one about sentences; left: hallucinated answers that then "
        "still show at least one unsupported sentence (by the promise about answers: 10 %).",
        "",
        *_table(head, rows),
    ]


def _alike() -> list[str]:
    rows = []
    for item in ANSWERS:
        alike = Answers(item.m, item.share, CORRELATION)
        rows.append(
            [
                f"{item.m}",
                f"{item.share:.0%}",
                *(
                    f"{item.kept(separation(a), 0.1):.0%} / {alike.kept(separation(a), 0.1):.0%}"
                    for a in AUROCS
                ),
                f"{needed(0.5, item, 0.1):.3f} / {needed(0.5, alike, 0.1):.3f}",
            ]
        )
    return [
        "",
        "## Where scores within an answer are alike",
        "",
        f"Kept at alpha = 0.1 where scores are independent / have a correlation of {CORRELATION:g} "
        "within an answer. The lowest of several scores that are alike is not as low.",
        "",
        *_table(
            ["sentences", "unsupported", *(f"AUROC {a:g}" for a in AUROCS), "half kept from"], rows
        ),
    ]


def _few() -> list[str]:
    item, rows = Answers(6, 0.3), []
    for alpha in ALPHAS:
        for guarantee in ("marginal", "pac"):
            for a in (0.8, 0.9, 0.95):
                d = separation(a)
                shares = [with_n(item, d, alpha, n, guarantee) for n in SIZES]
                none = f"n >= {minimum_n(alpha, guarantee)}"
                cells = [none if share is None else f"{share:.0%}" for share in shares]
                head = [f"{alpha:g}", guarantee, f"{a:g}"]
                rows.append([*head, *cells, f"{item.kept(d, alpha):.0%}"])
    return [
        "",
        "## What few labelled answers cost",
        "",
        "Mean share kept at thresholds from n calibration answers that hold an unsupported "
        "sentence (6 sentences, 30 % unsupported); `n >= ...`: fewer give no threshold.",
        "",
        *_table(
            ["alpha", "guarantee", "AUROC", *(f"n = {n:,}" for n in SIZES), "n without end"], rows
        ),
    ]


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [
        f"| {' | '.join(head)} |",
        "|---" * len(head) + "|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def draw() -> None:
    """Draw the share kept over the AUROC, beside what flagging whole answers shows."""
    aurocs = np.linspace(0.5, 0.995, 100)
    shapes = (
        (Answers(6, 0.1), "trimmed, 10% of 6 sentences unsupported"),
        (Answers(6, 0.3), "30%"),
        (Answers(6, 0.6), "60%"),
    )
    with drawing(7.2, 4.4) as plot:
        for (item, label), colour in zip(shapes, SERIES, strict=False):
            kept = [100.0 * item.kept(separation(a), 0.1) for a in aurocs]
            plot.axes.plot(aurocs, kept, color=colour, linewidth=1.8, label=label)
            shown = [100.0 * shown_by_flags(item, separation(a), 0.1) for a in aurocs]
            plot.axes.plot(aurocs, shown, color=colour, linewidth=1.0, linestyle=DASHED)
        label = "whole answers withheld"
        plot.axes.plot([], [], color=INK, linewidth=1.0, linestyle=DASHED, label=label)
        plot.axes.axhline(50.0, color=QUIET, linewidth=0.8, linestyle=DOTTED)
        plot.axes.set(xlim=(0.5, 1.0), ylim=(0.0, 101.0))
        plot.axes.set(xlabel="AUROC per sentence", ylabel="supported sentences shown, %")
        plot.legend(2)
        svg = plot.svg(
            "Supported sentences kept by the AUROC per sentence, trimmed (full lines) and where "
            "whole answers are flagged (dashed), at alpha 0.1."
        )
    light_and_dark(svg, FIGURE)


if __name__ == "__main__":
    main()
