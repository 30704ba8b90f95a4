"""Where does the watch of each guardrail stand, and what does it say?

``WATCH/NAME/deciding.json`` says which guardrail decides under a name; what is known of it stands
in ``WATCH/NAME/`` and the first digits of its digest, with a copy of the guardrail, so that a file
that is refused, or swapped, is never taken for what decides.
"""

import contextlib
import json
import logging
import math
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from calibrail.errors import InputError
from calibrail.serve.guardrails import Guardrails, Loaded
from calibrail.settings.option import option_of
from calibrail.settings.serving import ServeOptions
from calibrail.writing import write_atomically

#: In the folder of a watch: the guardrail, what was found, and the answers that people label.
GUARDRAIL: Final = "guardrail.json"
STATUS: Final = "status.json"
AUDIT: Final = "audit"
#: Which guardrail decides under a name.
DECIDING: Final = "deciding.json"
#: Of a status that is understood.
SCHEMA: Final = "calibrail.watch/"

_DIGEST: Final = re.compile(r"sha256:([0-9a-f]{12})[0-9a-f]{52}")
_STATES: Final = ("kept", "undecided", "broken")
_BOUNDS: Final = ("lower", "upper")

_log: Final = logging.getLogger("calibrail.serve")


def writable(root: Path) -> None:
    """Make the folder of all watches.

    Raises
    ------
    InputError
        If nothing can be written there.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root):
            pass
    except OSError as error:
        given = option_of(ServeOptions, "monitor", root)
        raise InputError(
            f"{given}: nothing can be written there: {error.strerror or error}; name a folder that "
            "this user may write to"
        ) from error


def place(root: Path, name: str, digest: str) -> Path | None:
    """Return the folder of a guardrail's watch; None where the digest is none."""
    match = _DIGEST.fullmatch(digest)
    return None if match is None else root / name / match[1]


def deciding(root: Path, name: str) -> Path | None:
    """Return the folder of the watch of what decides under a name, once its guardrail is there."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        content = json.loads((root / name / DECIDING).read_bytes())
        found = place(root, name, content["guardrail"])
        if found is not None and (found / GUARDRAIL).is_file():
            return found
    return None


def decides(root: Path, loaded: Loaded) -> None:
    """Write down that a guardrail decides, and its copy; what is there already stays.

    Raises
    ------
    OSError
        Nothing can be written there.
    """
    folder = place(root, loaded.name, loaded.digest)
    assert folder is not None
    if not (folder / GUARDRAIL).is_file():
        write_atomically(folder / GUARDRAIL, loaded.guardrail.config.to_bytes())
    said = json.dumps({"guardrail": loaded.digest}).encode() + b"\n"
    pointer = folder.parent / DECIDING
    if not (pointer.is_file() and pointer.read_bytes() == said):
        write_atomically(pointer, said)


def announced(root: Path, guardrails: Iterable[Loaded]) -> list[str]:
    """Return where each guardrail is watched, a line each."""
    return [
        f"{loaded.name} is watched in {place(root, loaded.name, loaded.digest)}"
        for loaded in guardrails
    ]


class Statuses(Collector):
    """What the watches of all guardrails say, for ``/metrics``.

    Only `read` touches the disk.

    Parameters
    ----------
    root : Path
        The folder of all watches.
    guardrails : Guardrails
        What decides.
    """

    def __init__(self, root: Path, guardrails: Guardrails) -> None:
        self._root, self._guardrails = root, guardrails
        self._known: dict[Path, tuple[tuple[int, ...], Mapping[str, Any], float]] = {}
        self._families: list[Metric] = []
        self._failed = ""
        self._publish()

    def read(self) -> None:
        """Take what the watches have written since; where that fails it is said once."""
        failed = ""
        for loaded in self._guardrails:
            try:
                decides(self._root, loaded)
                self._take(loaded)
            except Exception as error:
                # Whatever stands there: files that change are looked at in the same group.
                failed = f"the watch of {loaded.name} cannot be read or begun: {error}"
        if failed and failed != self._failed:
            _log.error("%s", failed)
        self._failed = failed
        self._publish()

    def collect(self) -> Iterator[Metric]:
        """Yield what was last read."""
        yield from self._families

    def _take(self, loaded: Loaded) -> None:
        folder = place(self._root, loaded.name, loaded.digest)
        assert folder is not None
        try:
            with (folder / STATUS).open("rb") as file:
                state = os.fstat(file.fileno())
                stamp = (state.st_ino, state.st_size, state.st_mtime_ns)
                if folder in self._known and self._known[folder][0] == stamp:
                    return
                content = json.load(file)
        except FileNotFoundError:
            self._known.pop(folder, None)
            return
        if not isinstance(content, dict) or not str(content.get("schema")).startswith(SCHEMA):
            raise ValueError(f"{folder / STATUS} is no status of a watch")
        if content.get("guardrail") == loaded.digest:
            self._known[folder] = (stamp, content, state.st_mtime)

    def _publish(self) -> None:
        """Make the metrics, so that whoever asks for them waits for nothing."""
        families = _Families()
        for loaded in self._guardrails:
            folder = place(self._root, loaded.name, loaded.digest)
            _, content, moment = self._known.get(folder, ((), {}, 0.0))  # type: ignore[arg-type]
            families.add(loaded.name, content, moment)
        self._families = families.all()


class _Families:
    """Metrics of watches, filled guardrail by guardrail; what a status lacks has no sample."""

    def __init__(self) -> None:
        by = ["guardrail"]
        bound = [*by, "bound"]
        self.rows = CounterMetricFamily(
            "calibrail_watch_rows", "Decisions that the watch has seen.", labels=by
        )
        self.alarms = CounterMetricFamily(
            "calibrail_watch_traffic_alarms", "Times that traffic has changed.", labels=by
        )
        self.gauges = {
            name: GaugeMetricFamily(f"calibrail_watch_{name}", help, labels=labels)
            for name, help, labels in (
                ("traffic_alarm", "Whether traffic has ever changed since the watch began.", by),
                ("log_e", "Evidence that traffic has changed, as a logarithm.", [*by, "feature"]),
                ("log_e_alarm", "From where on it is an alarm.", by),
                ("promise_broken", "Whether the promise was shown to be broken.", by),
                ("promise_state", "1 for the state the promise is in.", [*by, "state"]),
                ("lately_alarm", "Whether the newest labels speak against the promise.", by),
                ("coverage", "Caught share, by the ends of its confidence sequence.", bound),
                ("fpr", "False alarm rate, likewise.", bound),
                ("prevalence", "Share of hallucinations, by its bounds.", bound),
                ("labels", "Final labels that the watch has.", by),
                ("labels_pending", "Answers drawn for people that have no label yet.", by),
                ("log_whole", "Whether the decision log is whole as far as it was read.", by),
                ("updated_timestamp_seconds", "When the watch last wrote; 0 for never.", by),
            )
        }

    def all(self) -> list[Metric]:
        """Return those that have a sample."""
        families: list[Metric] = [self.rows, self.alarms, *self.gauges.values()]
        return [family for family in families if family.samples]

    def add(self, name: str, status: Mapping[str, Any], moment: float) -> None:
        """Take in what the status of one guardrail's watch says."""
        parts = {part: _part(status, part) for part in ("traffic", "promise", "prevalence", "log")}
        traffic, promise, log = (parts[part] for part in ("traffic", "promise", "log"))
        self._set("updated_timestamp_seconds", moment, name)
        if (rows := _number(status.get("n"))) is not None:
            self.rows.add_metric([name], rows)
        if isinstance(alarms := traffic.get("alarms"), list):
            n = _number(traffic.get("n_alarms"))
            self.alarms.add_metric([name], len(alarms) if n is None else n)
        self._set("traffic_alarm", traffic.get("alarm"), name)
        for feature, value in _part(traffic, "now").items():
            self._set("log_e", value, name, str(feature))
        threshold = _number(traffic.get("threshold"))
        self._set("log_e_alarm", math.log(threshold) if threshold and threshold > 0 else None, name)
        if (state := promise.get("state")) in _STATES:
            self._set("promise_broken", state == "broken", name)
            for each in _STATES:
                self._set("promise_state", state == each, name, each)
        self._set("lately_alarm", _part(promise, "lately").get("alarm"), name)
        for rate, part in (
            ("coverage", _part(promise, "coverage")),
            ("fpr", _part(promise, "fpr")),
            ("prevalence", parts["prevalence"]),
        ):
            for bound in _BOUNDS:
                self._set(rate, part.get(bound), name, bound)
        self._set("labels", promise.get("n_labels"), name)
        self._set("labels_pending", promise.get("n_pending"), name)
        self._set("log_whole", log.get("whole"), name)

    def _set(self, metric: str, value: object, *labels: str) -> None:
        if (number := _number(value)) is not None:
            self.gauges[metric].add_metric(labels, number)


def _part(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = content.get(name)
    return part if isinstance(part, dict) else {}


def _number(value: object) -> float | None:
    # Not every whole number that JSON spells is a float.
    with contextlib.suppress(OverflowError):
        return float(value) if isinstance(value, int | float) else None
    return None
