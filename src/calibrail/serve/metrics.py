"""Prometheus.

Where several processes serve, each counts into files of its own (``PROMETHEUS_MULTIPROC_DIR``,
which must be set before this is imported), and whichever is asked adds all of them up.
"""

import errno
import functools
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, Any, Concatenate, Final, ParamSpec

import numpy as np
import prometheus_client
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from calibrail.errors import tables_beside
from calibrail.guardrail.decision import Decision
from calibrail.serve.guardrails import Loaded

#: Variable with the folder in which processes count together.
TOGETHER: Final = "PROMETHEUS_MULTIPROC_DIR"
#: Of what /metrics answers.
MEDIA_TYPE: Final = prometheus_client.CONTENT_TYPE_LATEST

#: What there is to count, by its name without the prefix.
DEFINED: Final = tables_beside(__file__, "metrics.toml")
_QUANTILES: Final = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)

#: Why a request was refused, by its status, or the problem's name where that does not tell.
_REASONS: Final[Mapping[str, str]] = DEFINED["reasons"]

#: Whether anything is left of an answer, by what became of it.
_LEFT: Final = {"trimmed": "something", "emptied": "nothing"}

_P = ParamSpec("_P")
_log: Final = logging.getLogger("calibrail.serve")


def _harmless(
    count: "Callable[Concatenate[Metrics, _P], None]",
) -> "Callable[Concatenate[Metrics, _P], None]":
    """Count, but say only once where that fails: no decision waits for it, or is lost by it."""

    @functools.wraps(count)
    def counted(self: "Metrics", /, *args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            count(self, *args, **kwargs)
        except Exception as error:
            if not self.failed:
                self.failed = True
                _log.error("what /metrics counts is not complete any more: %r", error)

    return counted


def _take_room(file: IO[bytes], size: int) -> None:
    """Have the disk set room aside for a file, where its system can do so."""
    try:
        os.posix_fallocate(file.fileno(), 0, size)
    except (AttributeError, OSError) as error:
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise


class _RoomTaken(MmapedDict):
    """A file of counts for which the disk has set room aside: it is written as memory.

    Where a full disk had none, the system would end the process instead of raising an error.
    """

    def __init__(self, filename: str) -> None:
        if not os.path.exists(filename):
            # What has no room yet is no file of counts, which others would read.
            with open(f"{filename}.new", "wb") as file:
                _take_room(file, 2**16)
            os.rename(file.name, filename)
        super().__init__(filename)  # type: ignore[no-untyped-call]

    def _init_value(self, key: str) -> None:
        # Beside the key stand its length, what fills its last 8 bytes, and two numbers.
        if self._used + len(key.encode()) + 28 > self._capacity:
            _take_room(self._f, 2 * self._capacity)
        super()._init_value(key)  # type: ignore[no-untyped-call]


class Metrics:
    """Counts of one process; only making it, and `expect`, may fail.

    Parameters
    ----------
    ready : callable
        Tells whether the service would decide now.

    Attributes
    ----------
    failed : bool
        Whether something could not be counted.
    """

    def __init__(self, ready: Callable[[], bool]) -> None:
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.failed = False
        self._registry = prometheus_client.CollectorRegistry()
        together = TOGETHER in os.environ
        into = None if together else self._registry
        prometheus_client.values.MmapedDict = _RoomTaken  # type: ignore[attr-defined, assignment]
        self._is_ready = ready
        self._metrics = {name: _made(name, item, into) for name, item in DEFINED["service"].items()}
        #: Scores of each guardrail, in buckets that suit it.
        self._scores: dict[str, prometheus_client.Histogram] = {}
        self._edges: dict[str, tuple[float, ...]] = {}
        if together:
            MultiProcessCollector(self._registry)  # type: ignore[no-untyped-call]
        else:
            self._registry.register(_Scores(self._scores))

    def show(self, collector: Collector) -> None:
        """Give with the counts what is counted elsewhere, the same in every process."""
        self._registry.register(collector)

    def text(self) -> bytes:
        """Return what Prometheus reads."""
        self.look()
        return prometheus_client.generate_latest(self._registry)

    @_harmless
    def look(self) -> None:
        """Take whether the service would decide now."""
        self._metrics["ready"].set(float(self._is_ready()))

    def expect(self, loaded: Loaded) -> None:
        """Count from zero what may happen to a guardrail's answers, so that a first time shows."""
        name = loaded.name
        for metric, item in DEFINED["service"].items():
            for value in item.get("first", ()):
                self._metrics[metric].labels(name, value)
        for metric in ("stream_sentences", "stream_sentence_seconds", "undefined"):
            self._metrics[metric].labels(name)
        for reason in ("bad", *_REASONS.values()):
            self._metrics["rejected"].labels(reason)
        if loaded.guardrail.unit == "sentence":
            self._metrics["removed_sentences"].labels(name)
            for left in _LEFT.values():
                self._metrics["trimmed"].labels(name, left)
        headline, signature = loaded.guardrail.config.headline, loaded.guardrail.signature
        ends = np.inf if signature is None else signature.expires_at
        self._metrics["guardrail_expires_timestamp_seconds"].labels(name).set(ends)
        self._metrics["guardrail_info"].labels(name, loaded.digest, headline.verdict).set(1.0)
        for rate, figure in (("coverage", headline.coverage), ("fpr", headline.fpr)):
            for bound in ("lower", "upper"):
                gauge = self._metrics[f"guardrail_{rate}"].labels(name, bound)
                gauge.set(np.nan if (end := figure.get(bound)) is None else end)
        if (edges := _buckets(loaded)) != self._edges.get(name):
            self._edges[name] = edges
            self._scores[name] = prometheus_client.Histogram(
                "calibrail_score", "Scores of answers.", ["guardrail"], registry=None, buckets=edges
            )

    @_harmless
    def took_over(self, before: Loaded, now: Loaded) -> None:
        """Count what another guardrail decides in the place of one."""
        verdict = before.guardrail.config.headline.verdict
        self._metrics["guardrail_info"].labels(before.name, before.digest, verdict).set(0.0)
        self.expect(now)

    @_harmless
    def decided(self, loaded: Loaded, decisions: Iterable[Decision]) -> None:
        """Count decisions that are given."""
        name = loaded.name
        for decision in decisions:
            self._metrics["decisions"].labels(name, decision.outcome).inc()
            if (left := _LEFT.get(decision.result)) is not None:
                self._metrics["removed_sentences"].labels(name).inc(len(decision.removed or ()))
                self._metrics["trimmed"].labels(name, left).inc()
            if decision.score is not None:
                self._scores[name].labels(name).observe(decision.score)
            elif decision.failed:
                kind = "timeout" if decision.cause.timeout else "detector"
                kind = "unfinished" if decision.unfinished else kind
                self._metrics["failures"].labels(name, kind).inc()
            elif decision.cause.code != "seen_before":
                self._metrics["undefined"].labels(name).inc()

    @_harmless
    def count(self, metric: str, *labels: str, by: float = 1) -> None:
        """Count what happened, by the name and the labels that ``metrics.toml`` gives it."""
        found = self._metrics[metric]
        (found.labels(*labels) if labels else found).inc(by)

    @_harmless
    def observe(self, metric: str, value: float, *labels: str) -> None:
        """Take one value of those that a histogram shows."""
        self._metrics[metric].labels(*labels).observe(value)

    @_harmless
    def requested(self, route: str, status: int, seconds: float, problem: str = "") -> None:
        """Count a request that was answered, and the name of the problem that its answer is."""
        self.count("requests", route, str(status))
        self.observe("request_seconds", seconds, route)
        if 400 <= status < 500:
            self.refused(status, problem)

    @_harmless
    def refused(self, status: int, problem: str = "") -> None:
        """Count a request that was refused with a status."""
        reason = _REASONS.get(problem) or _REASONS.get(str(status), "bad")
        self._metrics["rejected"].labels(reason).inc()

    @_harmless
    def waiting(self, depth: int) -> None:
        """Take how many answers wait or are scored."""
        self._metrics["queue_depth"].set(depth)


class _Scores(Collector):
    """One histogram of all guardrails' scores, each in buckets of its own."""

    def __init__(self, scores: dict[str, prometheus_client.Histogram]) -> None:
        self._scores = scores

    def collect(self) -> Iterator[prometheus_client.Metric]:
        """Yield the histogram."""
        families = [metric for item in tuple(self._scores.values()) for metric in item.collect()]
        if families:
            first, *others = families
            for other in others:
                first.samples += other.samples
            yield first


def _made(
    name: str, item: Mapping[str, Any], registry: prometheus_client.CollectorRegistry | None
) -> Any:
    """Return the metric that a definition describes."""
    given: dict[str, Any] = {"labelnames": item.get("labels", ()), "registry": registry}
    named = (f"calibrail_{name}", item["help"])
    if "buckets" in item:
        given["buckets"] = DEFINED["buckets"][item["buckets"]]
        return prometheus_client.Histogram(*named, **given)
    if "merged" in item:
        return prometheus_client.Gauge(*named, **given, multiprocess_mode=item["merged"])
    return prometheus_client.Counter(*named, **given)


def _buckets(loaded: Loaded) -> tuple[float, ...]:
    """Return the calibration scores' quantiles and the thresholds, in order."""
    rule = loaded.guardrail.rule
    scores = np.array(rule.calibration.scores, dtype=np.float64)
    scores = scores[np.isfinite(scores)]
    edges = [] if len(scores) == 0 else list(np.quantile(scores, _QUANTILES))
    edges += [rule.calibration.threshold, rule.chosen, rule.flag_above]
    finite = {float(edge) for edge in edges if edge is not None and np.isfinite(edge)}
    return tuple(sorted(finite)) or (0.0,)
