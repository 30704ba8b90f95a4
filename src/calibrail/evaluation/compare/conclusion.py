"""What does a comparison show, in plain words?"""

from __future__ import annotations

from collections.abc import Sequence

from calibrail.evaluation.compare.paired import PairedTest
from calibrail.evaluation.compare.winner import Winner
from calibrail.evaluation.report import Report
from calibrail.evaluation.stats.measure import Difference
from calibrail.evaluation.stats.phrases import count, listed, percent

#: Names of a list that are said one by one.
_SAID = 6


def conclusion(reports: Sequence[tuple[str, Report]], winner: Winner) -> str:
    """Return the finding: who wins and what confirms it, or whom the data does not separate.

    Parameters
    ----------
    reports : sequence of (str, Report)
        Calibrated detectors, fewest false alarms on the test part first.
    winner : Winner
        What both halves of the test part say.
    """
    if not reports:
        return "No detector could be calibrated to this target."
    if reports[0][1].test.fpr.estimate is None:
        return "The test part has no faithful example, so false alarms cannot be compared."
    by_name = dict(reports)
    name = winner.candidate or reports[0][0]
    said = f"{name} flags {_cost(by_name[name])}"
    if not winner.choosing:
        return f"{said}. There is nothing to compare it with."
    if winner.name is None:
        return f"No winner: {_open(winner)} {said}.{_ahead(winner)}{_more(winner)}"
    open_yet = "" if winner.confirmed else ", not confirmed"
    return (
        f"{name} wins{open_yet}: it flags {_cost(by_name[name])}.{_ahead(winner)} "
        f"{_confirmed(winner)}"
    )


def p_value(value: float) -> str:
    """Return a p-value with two digits, e.g. ``p = 0.012``, or ``p < 0.001``.

    Examples
    --------
    >>> p_value(0.0123), p_value(1e-9), p_value(1.0)
    ('p = 0.012', 'p < 0.001', 'p = 1')
    """
    return "p < 0.001" if value < 0.001 else f"p = {value:.2g}"


def points(share: float) -> str:
    """Return a difference of shares in percentage points, with its sign.

    Examples
    --------
    >>> points(0.123), points(-0.04), points(0.0)
    ('+12.3', '-4', '0')
    """
    text = f"{100.0 * share:+.1f}".removesuffix(".0")
    return "0" if text in ("+0", "-0") else text


def _cost(report: Report) -> str:
    fpr = report.test.fpr
    assert fpr.estimate is not None
    return (
        f"{percent(fpr.estimate)} of faithful answers ({percent(fpr.lower)} to "
        f"{percent(fpr.upper)}) while aiming to catch {percent(report.promise.coverage)} of "
        "hallucinations"
    )


def _open(winner: Winner) -> str:
    """Say who raises fewer false alarms than the best detector, and who cannot be told apart."""
    beaten = [
        (test, test.fpr)
        for test in winner.choosing
        if test.fpr.p_adjusted <= winner.level and (test.fpr.estimate or 0.0) < 0.0
    ]
    better = {test.name for test, _ in beaten}
    rest = [t for t in winner.choosing if t.name in winner.not_separated and t.name not in better]
    others = [test.name for test in rest if not test.baseline]
    trivial = [test.name for test in rest if test.baseline]
    parts = [_few(others)] if others else []
    if trivial:
        parts.append(f"{_baselines(len(trivial))} {_few(trivial)}")
    said = []
    if beaten:
        many = len(beaten) > 1
        said.append(
            f"{_baselines(len(beaten))} {_told(beaten)} raise{'' if many else 's'} fewer false "
            f"alarms than {winner.candidate}, the best detector"
        )
    if parts:
        who = "it" if beaten else winner.candidate
        said.append(f"the data does not separate {who} from {' or '.join(parts)}")
    return f"{'; '.join(said)}."


def _baselines(number: int) -> str:
    return "the baselines" if number > 1 else "the baseline"


def _ahead(winner: Winner) -> str:
    """Say from whom the tests separate the candidate, by false alarms and by AUROC."""
    fewer = [(t, t.fpr) for t in winner.choosing if t.name in winner.ahead_of]
    better = [
        (t, t.auroc)
        for t in winner.choosing
        if t.auroc.p_adjusted <= winner.level and (t.auroc.estimate or 0.0) < 0.0
    ]
    said = []
    if fewer:
        said.append(f"raises fewer false alarms than {_told(fewer)}")
    if better:
        # One list serves both where the same are named.
        same = {test.name for test, _ in fewer} == {test.name for test, _ in better}
        said.append(f"ranks better (AUROC) than {'all of them' if same else _told(better)}")
    return f" It {', and '.join(said)}; corrected for all comparisons." if said else ""


def _told(pairs: Sequence[tuple[PairedTest, Difference]]) -> str:
    """Name detectors with their p-values, and baselines as a number where there are detectors."""
    detectors = [pair for pair in pairs if not pair[0].baseline]
    shown = (detectors or list(pairs))[:_SAID]
    names = [f"{test.name} ({p_value(found.p_adjusted)})" for test, found in shown]
    trivial = len(pairs) - len(detectors) if detectors else 0
    if trivial:
        names.append(count(trivial, "baseline"))
    if rest := len(pairs) - len(shown) - trivial:
        names.append(count(rest, "other"))
    return listed(names)


def _more(winner: Winner) -> str:
    if winner.times is None:
        return ""
    return (
        f" If the differences seen are the true ones, about {_times(winner.times)} times as many "
        "labelled answers would separate it."
    )


def _times(value: float) -> str:
    return f"{value:.1f}" if value < 3.0 else f"{value:.0f}"


def _confirmed(winner: Winner) -> str:
    """Say what the half that did not choose the winner shows."""
    told = "; ".join(
        f"{percent(winner.fpr[winner.candidate or ''].estimate or 0.0)} against "
        f"{percent(winner.fpr[test.name].estimate or 0.0)} of {test.name} "
        f"({p_value(test.fpr.p_adjusted)})"
        for test in winner.confirming
    )
    certificate = winner.certificate or {}
    verdict = f" There it is {certificate.get('verdict')}: {_lower(certificate.get('reason', ''))}"
    if winner.confirmed:
        return f"The half of the test part that did not choose it confirms that: {told}.{verdict}"
    return (
        "The half of the test part that did not choose it does not confirm that beyond chance: "
        f"{told}.{verdict}"
    )


def _few(names: Sequence[str]) -> str:
    if len(names) <= _SAID:
        return listed(list(names))
    return f"{', '.join(names[: _SAID - 1])} and {len(names) - _SAID + 1} others"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
