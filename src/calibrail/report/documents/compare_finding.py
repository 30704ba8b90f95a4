"""What does a comparison show, in a sentence: who wins, or whom the data does not separate?"""

from collections.abc import Sequence
from typing import Final

from calibrail.phrases import count, listed, percent
from calibrail.report.blocks import Json

#: Names of a list that are said one by one.
_MOST_NAMES: Final = 6


def finding(comparison: Json) -> str:
    """Return who wins and what confirms it, or whom the data does not separate.

    Parameters
    ----------
    comparison : mapping
        ``Comparison.to_dict()``.
    """
    detectors, winner = comparison["detectors"], comparison["winner"]
    if not detectors:
        return "No detector could be calibrated to this target."
    if detectors[0]["test"]["fpr"]["estimate"] is None:
        return "The test part has no faithful example, so false alarms cannot be compared."
    name = winner["candidate"] or detectors[0]["name"]
    flags = f"flags {_cost(next(item for item in detectors if item['name'] == name))}"
    tests = comparison["paired"]["against_best"]
    if not tests:
        return f"{name} {flags}. There is nothing to compare it with."
    ahead = _ahead(winner, tests)
    if winner["name"] is None:
        return f"No winner: {_undecided(winner, tests)} {name} {flags}.{ahead}{_more(winner)}"
    confirmed = _confirmed(winner, comparison["paired"]["confirming"])
    return f"{name} wins{_unconfirmed(winner)}: it {flags}.{ahead} {confirmed}"


def headline(comparison: Json) -> str:
    """Say in a few words whether somebody wins."""
    winner = comparison["winner"]
    if winner["name"] is None:
        return "No winner"
    return f"{winner['name']} wins{_unconfirmed(winner)}"


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


def worse_than(test: Json, measure: str, level: float) -> bool:
    """Return whether a test shows that the reference has more of a measure than the score."""
    difference = test[measure]
    return bool(difference["p_adjusted"] <= level and (difference["estimate"] or 0.0) < 0.0)


def _unconfirmed(winner: Json) -> str:
    return "" if winner["confirmed"] else ", not confirmed"


def _cost(detector: Json) -> str:
    fpr = detector["test"]["fpr"]
    return (
        f"{percent(fpr['estimate'])} of faithful answers ({percent(fpr['lower'])} to "
        f"{percent(fpr['upper'])}) while aiming to catch {percent(1 - detector['alpha'])} of "
        "hallucinations"
    )


def _undecided(winner: Json, tests: Sequence[Json]) -> str:
    """Say who raises fewer false alarms than the best detector, and who cannot be told apart."""
    beaten = [test for test in tests if worse_than(test, "fpr", winner["level"])]
    alike = [t for t in tests if t["name"] in winner["not_separated"] and t not in beaten]
    others = [test["name"] for test in alike if not test["baseline"]]
    trivial = [test["name"] for test in alike if test["baseline"]]
    clauses = []
    if beaten:
        clauses.append(
            f"{_baselines(len(beaten))} {_named(beaten, 'fpr')} "
            f"{'raise' if len(beaten) > 1 else 'raises'} fewer false alarms than "
            f"{winner['candidate']}, the best detector"
        )
    names = [_few(others)] if others else []
    if trivial:
        names.append(f"{_baselines(len(trivial))} {_few(trivial)}")
    if names:
        who = "it" if beaten else winner["candidate"]
        clauses.append(f"the data does not separate {who} from {' or '.join(names)}")
    return f"{'; '.join(clauses)}."


def _baselines(number: int) -> str:
    return "the baselines" if number > 1 else "the baseline"


def _ahead(winner: Json, tests: Sequence[Json]) -> str:
    """Say from whom the tests separate the candidate, by false alarms and by AUROC."""
    fewer = [test for test in tests if test["name"] in winner["ahead_of"]]
    better = [test for test in tests if worse_than(test, "auroc", winner["level"])]
    clauses = []
    if fewer:
        clauses.append(f"raises fewer false alarms than {_named(fewer, 'fpr')}")
    if better:
        # One list serves both where the same are named.
        same = {test["name"] for test in fewer} == {test["name"] for test in better}
        them = "all of them" if same else _named(better, "auroc")
        clauses.append(f"ranks better (AUROC) than {them}")
    return f" It {', and '.join(clauses)}; corrected for all comparisons." if clauses else ""


def _named(tests: Sequence[Json], measure: str) -> str:
    """Name detectors with their p-values, and baselines as a number where there are detectors."""
    detectors = [test for test in tests if not test["baseline"]]
    first = (detectors or list(tests))[:_MOST_NAMES]
    names = [f"{test['name']} ({p_value(test[measure]['p_adjusted'])})" for test in first]
    trivial = len(tests) - len(detectors) if detectors else 0
    if trivial:
        names.append(count(trivial, "baseline"))
    if rest := len(tests) - len(first) - trivial:
        names.append(count(rest, "other"))
    return listed(names)


def _more(winner: Json) -> str:
    times = winner["times"]
    if times is None:
        return ""
    return (
        f" If the differences seen are the true ones, about {times:.{1 if times < 3.0 else 0}f} "
        "times as many labelled answers would separate it."
    )


def _confirmed(winner: Json, tests: Sequence[Json]) -> str:
    """Say what the half that did not choose the winner shows."""

    def rate(name: str) -> str:
        return percent(winner["fpr"][name]["estimate"] or 0.0)

    compared = "; ".join(
        f"{rate(winner['candidate'])} against {rate(test['name'])} of {test['name']} "
        f"({p_value(test['fpr']['p_adjusted'])})"
        for test in tests
    )
    certificate = winner["certificate"] or {}
    reason = certificate.get("reason", "")
    shows = "confirms that" if winner["confirmed"] else "does not confirm that beyond chance"
    return (
        f"The half of the test part that did not choose it {shows}: {compared}. There it is "
        f"{certificate.get('verdict')}: {reason[:1].lower()}{reason[1:]}"
    )


def _few(names: Sequence[str]) -> str:
    if len(names) <= _MOST_NAMES:
        return listed(list(names))
    return f"{', '.join(names[: _MOST_NAMES - 1])} and {len(names) - _MOST_NAMES + 1} others"
