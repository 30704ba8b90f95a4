"""What computes scores on this machine, as far as it can change their last digits?"""

import os
import platform
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

#: Distributions whose version is recorded, since they can change a score.
RECORDED: Final = (
    "calibrail",
    "numpy",
    "scipy",
    "scikit-learn",
    "nupunkt",
    "tokenizers",
    "torch",
    "transformers",
    "sentence-transformers",
)


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
    for name in RECORDED:
        with suppress(PackageNotFoundError):
            versions.append((name, version(name)))
    return tuple(versions)
