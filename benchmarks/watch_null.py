"""Does a watch keep its promises where nothing changes? 10,000 streams of 10^4 rows a setting.

``python benchmarks/watch_null.py [RUNS]`` runs the settings of the validity grid that are about a
watch by themselves, and writes ``results/watch_null.md``; exits with 1 if any lies outside its
limits.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator

from results import write
from validity.check import KINDS, Check, Setting, failures
from validity.monitoring import (
    clustered,
    one_feature,
    promise_active,
    promise_late,
    promise_uniform,
    several_features,
)
from validity.page import ERROR, RUNS, summary

_ALPHA = 0.1
#: Promises about the traffic, with the sizes of their references; about labels, with one of how
#: many runs is done.
_TRAFFIC = ((one_feature, 100), (one_feature, 600), (several_features, 100))
_LABELS: tuple[tuple[Callable[[Setting], Iterator[Check]], int], ...] = (
    (promise_uniform, 1),
    (promise_active, 1),
    (promise_late, 10),
)


def main() -> int:
    runs, started = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS, time.process_time()
    checks = [
        check
        for run, n in _TRAFFIC
        for kind in KINDS
        for check in run(Setting(kind, n, _ALPHA, runs))
    ]
    for run, each in _LABELS:
        checks += run(Setting(KINDS[0], 100, _ALPHA, max(1, runs // each)))
    others = list(clustered(Setting(KINDS[0], 600, _ALPHA, max(1, runs // 10))))
    error = ERROR / len(checks)
    failed = failures(checks, ERROR)
    lines = [
        f"{len(checks)} settings, {len(checks) - len(failed)} hold; "
        f"{time.process_time() - started:.0f} s of one core. Streams of 10,000 rows after a "
        "reference of n; promises about labels: 1,000 drawn answers, looked at after each. A "
        "probability is the highest that is promised; limits are those within which the rate lies "
        "but for chance. `mean run length`: how often the first alarm comes before a row that is "
        "drawn at random.",
        "",
        "| promise | design | scores | settings | runs | at | promised | failed | probability "
        "| limits | holds |",
        "|---" * 11 + "|",
        *(
            f"| {check.what} {summary(check.design or '-', check.kind, [check], error)}"
            for check in checks
        ),
        "",
        "What is not promised: answers that depend on each other.",
        "",
        "| what | design | runs | rate |",
        "|---|---|---|---|",
        *(
            f"| {item.what} | {item.design} | {item.runs:,} | {item.failed / item.runs:.3f} |"
            for item in others
        ),
    ]
    if runs < RUNS:
        print("\n".join(lines))
    else:
        write(
            "watch_null", "False alarms of a watch where nothing changes", lines, ("numpy", "scipy")
        )
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
