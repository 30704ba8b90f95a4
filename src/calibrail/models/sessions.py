"""How is an exported model computed by onnxruntime or OpenVINO, on all cores and after a fork?"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibrail.errors import ModelError
from calibrail.models.backends import Runtime, n_threads
from calibrail.models.forks import leave_to_parent, renewed, waited_for
from calibrail.models.graphs import GRAPH_FILE

Item = TypeVar("Item")
Result = TypeVar("Result")
Arrays = list[NDArray[Any]]
Compute = Callable[[Mapping[str, NDArray[np.int64]]], Arrays]


class GraphSession:
    """An exported model, ready to compute; for any thread.

    Parameters
    ----------
    folder : Path
        Holds the graph.
    runtime : Runtime
        What computes it.

    Attributes
    ----------
    n_workers : int
        How many batches are best computed at once: as many as there are threads in int8, where
        each input runs by itself, else one.
    on_gpu : bool
        Whether a graphics processor computes.
    """

    on_gpu = False

    def __init__(self, folder: Path, runtime: Runtime) -> None:
        self._path, self._runtime = folder / GRAPH_FILE, runtime
        self.n_workers = n_threads() if runtime.alone else 1
        self._threads = n_threads()
        self._lock = Lock()
        self._compute: Compute | None = self._open()
        renewed(self)

    def run(self, inputs: Mapping[str, NDArray[np.int64]]) -> Arrays:
        """Return the graph's outputs for one batch, in their order.

        Parameters
        ----------
        inputs : mapping
            Arrays of shape (inputs, tokens), int64; what the graph does not read is left out.
        """
        compute = self._compute
        if compute is None:
            with self._lock:
                compute = self._compute = self._compute or self._open()
        return compute(inputs)

    def renew_after_fork(self) -> None:
        """Open the graph again when it is needed: its threads are the parent's."""
        leave_to_parent(self._compute)
        self._compute, self._lock = None, Lock()
        # Where each core has a worker, one thread of its own is enough.
        self.n_workers = self._threads = 1

    def _open(self) -> Compute:
        if self._runtime.backend == "openvino":
            return _openvino(self._path, self._threads)
        library = _onnxruntime()
        providers = _providers(self._runtime, library.get_available_providers())
        self.on_gpu = len(providers) > 1
        return _onnx(library, self._path, providers, self._threads)


def _onnxruntime() -> Any:
    """Return the library, which is to send nothing anywhere.

    Its wheels report models, devices and run times to their makers from version 1.29 on, unless
    the environment says otherwise before they are imported.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    return onnxruntime


def _onnx(onnxruntime: Any, path: Path, providers: list[Any], threads: int) -> Compute:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    # Threads that wait by spinning take the cores from the other processes.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=providers)
    names = [item.name for item in session.get_inputs()]

    def compute(inputs: Mapping[str, NDArray[np.int64]]) -> Arrays:
        outputs: Arrays = session.run(None, {name: inputs[name] for name in names})
        return outputs

    return compute


def _providers(runtime: Runtime, there: list[str]) -> list[Any]:
    """Return what onnxruntime computes on.

    Raises
    ------
    ModelError
        If the device that is named is not there.
    """
    # As torch does it: no product is rounded to 19 bits.
    cuda = ("CUDAExecutionProvider", {"use_tf32": 0})
    has_cuda = cuda[0] in there
    if runtime.device == "cuda" and not has_cuda:
        raise ModelError(
            "device=cuda is not there: this onnxruntime computes on "
            f"{', '.join(there)}; pip install onnxruntime-gpu in its place, or leave device out"
        )
    wanted = has_cuda and runtime.device != "cpu" and runtime.dtype != "int8"
    return [*([cuda] if wanted else []), "CPUExecutionProvider"]


def _openvino(path: Path, threads: int) -> Compute:
    import openvino

    core = openvino.Core()
    compiled = core.compile_model(
        core.read_model(str(path)),
        "CPU",
        {
            # Else OpenVINO computes in bfloat16 where the processor can.
            "INFERENCE_PRECISION_HINT": "f32",
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": "1",
            # Several processes would all be bound to the same cores.
            "ENABLE_CPU_PINNING": False,
        },
    )
    names = [item.get_any_name() for item in compiled.inputs]
    outputs = list(compiled.outputs)

    def compute(inputs: Mapping[str, NDArray[np.int64]]) -> Arrays:
        # A request of its own for each call: one request serves one thread.
        found = compiled.create_infer_request().infer({name: inputs[name] for name in names})
        return [np.array(found[output]) for output in outputs]

    return compute


def ahead(
    work: Callable[[Item], Result], items: Iterable[Item], n_workers: int
) -> Iterator[Result]:
    """Yield the result of each item in their order, a few being computed ahead at the same time."""
    if n_workers < 2:
        yield from map(work, items)
        return
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(n_workers, initializer=waited_for) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > 2 * n_workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
