"""ONNX / OpenVINO through sentence-transformers/optimum.

Common dynamic quantisation takes one scale for all activations of a batch, so that the value of a
text depends on what runs beside it. Here every token has a scale of its own. Only products with
weights are computed in 8 bits; what follows them (normalisation, attention, pooling) stays float32.
"""

import hashlib
import json
import os
import shutil
import tempfile
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibrail.errors import ModelError
from calibrail.models.fork_safety import leave_to_parent, renewed, waited_for
from calibrail.models.hardware import Forward, Runtime, n_threads
from calibrail.models.llm.limits import cache_folder

SCHEMA: Final = "calibrail.graph/1"
#: Files of an entry.
GRAPH_FILE: Final = "model.onnx"
TOKENIZER_FOLDER: Final = "tokenizer"
_MANIFEST: Final = "manifest.json"


def graphs_folder() -> Path:
    """Return the folder of all entries, in the user's cache folder."""
    return cache_folder() / "graphs"


def entry_key(made_of: Mapping[str, Any]) -> str:
    """Return what an entry is called: a digest of what it is made of."""
    text = json.dumps(made_of, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def kept(made_of: Mapping[str, Any], make: Callable[[Path], None]) -> Path:
    """Return the folder of an entry, all of whose files are as they were written.

    Parameters
    ----------
    made_of : mapping
        Digests, recipe and versions, as JSON; another mapping is another entry.
    make : callable
        Writes the files into an empty folder; called where there is no entry or a damaged one.

    Raises
    ------
    ModelError
        If the cache folder cannot be written.

    Notes
    -----
    An entry is made beside its place and renamed, so that it is there whole or not at all; of two
    processes that make the same one the first one's stays.
    """
    entry = graphs_folder() / entry_key(made_of)
    if is_whole(entry):
        return entry
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(dir=entry.parent, prefix=f".{entry.name}."))
    except OSError as error:
        raise ModelError(
            f"exported models are kept in {entry.parent}, which cannot be written ({error}); set "
            "XDG_CACHE_HOME to a folder that can"
        ) from error
    try:
        make(beside)
        manifest = {"schema": SCHEMA, "made_of": dict(made_of), "files": digests_of(beside)}
        text = json.dumps(manifest, indent=2, sort_keys=True)
        (beside / _MANIFEST).write_text(text + "\n", encoding="utf-8")
        beside.chmod(0o755)
        _take_place(beside, entry)
    except OSError as error:
        raise ModelError(f"cannot keep an exported model in {entry.parent}: {error}") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return entry


def digests_of(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file below a folder but the manifest, by its path there."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path != folder / _MANIFEST:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            found[path.relative_to(folder).as_posix()] = digest
    return found


def is_whole(entry: Path) -> bool:
    """Return whether an entry is there with all its files as they were written."""
    try:
        manifest = json.loads((entry / _MANIFEST).read_bytes())
        return (
            isinstance(manifest, dict)
            and manifest.get("schema") == SCHEMA
            and entry_key(manifest["made_of"]) == entry.name
            and manifest["files"] == digests_of(entry)
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _take_place(beside: Path, entry: Path) -> None:
    """Rename a new entry to its place; a damaged one goes, a whole one of another process stays."""
    for _ in range(3):
        try:
            os.rename(beside, entry)
        except OSError:
            if is_whole(entry):
                return
            damaged = Path(tempfile.mkdtemp(dir=entry.parent, prefix=".damaged."))
            # Another process may have taken it away already.
            if entry.exists():
                os.replace(entry, damaged / "entry")
            shutil.rmtree(damaged, ignore_errors=True)
        else:
            return
    raise OSError(f"{entry} is replaced by others again and again")


#: Largest 8-bit number of an activation, around `_ZERO`.
_ACTIVATION, _ZERO = 127, 128
#: Largest one of a weight: the sum of two products then stays below 2^15, which older processors
#: need (they add up pairs of products in 16 bits), so that all compute the same integers.
_WEIGHT: Final = 63
#: Bytes of weights that one file holds: ONNX files end at 2 GiB, and the graph takes some.
LARGEST: int = 2**31 - 2**27
#: Keeps a token whose activations are all 0 from being divided by 0.
_TINY: Final = 1e-12


def quantised(graph: Any) -> Any:
    """Compute the products of a graph with constant matrices in 8 bits; the graph is changed.

    Parameters
    ----------
    graph : onnx.ModelProto
        Of opset 17, with weights inside.

    Returns
    -------
    onnx.ModelProto
        The same object.

    Raises
    ------
    ModelError
        If it holds no such product.
    """
    from onnx import numpy_helper

    nodes, constants = [], _constants(graph.graph)
    added: dict[str, NDArray[Any]] = {
        "int8/step": np.array(1.0 / _ACTIVATION, dtype=np.float32),
        "int8/tiny": np.array(_TINY, dtype=np.float32),
        # Half more, since the conversion to integers cuts the fraction off.
        "int8/middle": np.array(_ZERO + 0.5, dtype=np.float32),
        "int8/zero": np.array(_ZERO, dtype=np.uint8),
    }
    known: dict[str, str] = {}
    for node in graph.graph.node:
        held = constants.get(node.input[1]) if node.op_type == "MatMul" else None
        weights = None if held is None else numpy_helper.to_array(held)
        if weights is None or weights.ndim != 2:
            nodes.append(node)
            continue
        source, matrix = node.input[0], node.input[1]
        if source not in known:
            known[source] = f"int8/{len(known)}"
            nodes += _tokens(source, known[source])
        if f"{matrix}/int8" not in added:
            added[f"{matrix}/int8"], added[f"{matrix}/scale"] = rounded(weights)
        nodes += _product(node.output[0], known[source], matrix)
    if not known:
        raise ModelError("the exported model has no product with weights to compute in int8")
    read = {name for node in nodes for name in node.input}
    initializers = [item for item in graph.graph.initializer if item.name in read]
    initializers += [numpy_helper.from_array(array, name) for name, array in added.items()]
    del graph.graph.node[:], graph.graph.initializer[:]
    graph.graph.node.extend(nodes)
    graph.graph.initializer.extend(initializers)
    return graph


def rounded(weights: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return weights as 8-bit numbers, shape (inputs, outputs), and each output's scale.

    >>> rounded(np.array([[0.25, -2.0], [1.0, 0.0]]))[0].tolist()
    [[16, -63], [63, 0]]
    """
    exact = weights.astype(np.float32)
    scales = (np.abs(exact).max(axis=0) / np.float32(_WEIGHT)).astype(np.float32)
    scales[scales == 0.0] = 1.0
    numbers = np.clip(np.rint(exact / scales), -_WEIGHT, _WEIGHT).astype(np.int8)
    return numbers, scales


def _constants(graph: Any) -> dict[str, Any]:
    """Return the tensors that are constant, by every name that they go by."""
    found = {item.name: item for item in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            values = (item.t for item in node.attribute if item.name == "value")
            found |= zip(node.output, values, strict=False)
        elif node.op_type == "Identity" and node.input[0] in found:
            found[node.output[0]] = found[node.input[0]]
    return found


def _tokens(source: str, name: str) -> list[Any]:
    """Return the nodes that turn each token's activations into 8-bit numbers and a scale."""
    from onnx import TensorProto
    from onnx.helper import make_node

    return [
        make_node("Abs", [source], [f"{name}/abs"]),
        make_node("ReduceMax", [f"{name}/abs"], [f"{name}/max"], axes=[-1], keepdims=1),
        make_node("Mul", [f"{name}/max", "int8/step"], [f"{name}/plain"]),
        make_node("Max", [f"{name}/plain", "int8/tiny"], [f"{name}/scale"]),
        make_node("Div", [source, f"{name}/scale"], [f"{name}/divided"]),
        make_node("Add", [f"{name}/divided", "int8/middle"], [f"{name}/moved"]),
        make_node("Cast", [f"{name}/moved"], [f"{name}/int8"], to=TensorProto.UINT8),
    ]


def _product(output: str, tokens: str, matrix: str) -> list[Any]:
    """Return the nodes that multiply in integers and scale the result back."""
    from onnx import TensorProto
    from onnx.helper import make_node

    integers = [f"{tokens}/int8", f"{matrix}/int8", "int8/zero"]
    return [
        make_node("MatMulInteger", integers, [f"{output}/int32"]),
        make_node("Cast", [f"{output}/int32"], [f"{output}/float"], to=TensorProto.FLOAT),
        make_node("Mul", [f"{output}/float", f"{tokens}/scale"], [f"{output}/tokens"]),
        make_node("Mul", [f"{output}/tokens", f"{matrix}/scale"], [output]),
    ]


def read_graph(path: Path) -> Any:
    """Return a graph with all its weights inside."""
    import onnx

    return onnx.load_model(str(path), load_external_data=True)


def write_graph(graph: Any, path: Path) -> None:
    """Write a graph; its weights beside it where one file cannot hold them."""
    import onnx

    large = sum(len(item.raw_data) for item in graph.graph.initializer) > LARGEST
    location = f"{path.name}.weights"
    onnx.save_model(
        graph, str(path), save_as_external_data=large, location=location if large else None
    )


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


OPSET: Final = 17
#: How far an exported value may lie from torch's, as a share of the largest one: what the tolerance
#: of scores in float32 allows. Rounding makes less than 1e-6 of it in models of up to 22 million
#: parameters, while a graph into which a length was traced misses by about 1.
AGREEMENT: Final = 1e-5
#: How far the values in int8 may lie from torch's, as a share of their length: 0.11 and less was
#: measured, and 1 is what a graph of zeros would give.
AGREEMENT_INT8: Final = 0.5

# The exporter keeps its state in globals.
_exporting = Lock()


@dataclass(frozen=True, slots=True)
class Exportable:
    """An opened model and what is asked of it.

    Attributes
    ----------
    module : torch.nn.Module
        In float32, in evaluation mode.
    tokenizer : transformers tokenizer
        Its own.
    forward : callable
        What is computed, from the module and named inputs.
    batches : sequence of mapping
        Inputs of several shapes, as tensors; the last one is traced, and all are compared.
    outputs : mapping of str to sequence of int
        Names of what ``forward`` returns, each with its axes whose length varies.
    """

    module: Any
    tokenizer: Any
    forward: Forward
    batches: Sequence[Mapping[str, Any]]
    outputs: Mapping[str, Sequence[int]]


def export(model: Exportable, folder: Path, runtime: Runtime, name: str) -> None:
    """Write a model as a graph, with its tokenizer, once it computes what torch does.

    Parameters
    ----------
    model : Exportable
        The model.
    folder : Path
        Where to.
    runtime : Runtime
        What will compute it.
    name : str
        What the user calls the model, for messages.

    Raises
    ------
    ModelError
        If it cannot be exported, or gives other values for inputs of other shapes.
    """
    path = folder / GRAPH_FILE
    model.tokenizer.save_pretrained(str(folder / TOKENIZER_FOLDER))
    with _exporting, _refusing(name):
        _trace(model, path)
        _replace(read_graph(path), path)
        _compare(model, GraphSession(folder, Runtime(runtime.backend)), name)
        if runtime.dtype == "int8":
            # Read again: where weights were written beside the graph, it holds them no more.
            _replace(quantised(read_graph(path)), path)
            _compare_int8(model, GraphSession(folder, runtime), name)


def _replace(graph: Any, path: Path) -> None:
    """Write a graph in place of whatever files hold the one before."""
    for leftover in path.parent.iterdir():
        if leftover.is_file():
            leftover.unlink()
    write_graph(graph, path)


@contextmanager
def _refusing(name: str) -> Iterator[None]:
    """Turn what the exporter raises into an error of ours."""
    import torch

    raised = (RuntimeError, TypeError, ValueError, torch.onnx.errors.OnnxExporterError)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except raised as error:
        if isinstance(error, ModelError):
            raise
        first = str(error).strip().split("\n")[0]
        raise ModelError(f"{name} cannot be exported ({first}); use backend=torch") from error


def _trace(model: Exportable, path: Path) -> None:
    import torch

    names = list(model.batches[-1])

    class Traced(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = model.module

        def forward(self, *tensors: Any) -> tuple[Any, ...]:
            return model.forward(self.module, dict(zip(names, tensors, strict=True)))

    lengths = {0: "inputs", 1: "tokens"}
    axes = {name: lengths for name in names}
    axes |= {name: {axis: lengths[axis] for axis in own} for name, own in model.outputs.items()}
    with torch.inference_mode():
        torch.onnx.export(
            Traced().eval(),
            tuple(model.batches[-1].values()),
            str(path),
            dynamo=False,
            opset_version=OPSET,
            input_names=names,
            output_names=list(model.outputs),
            dynamic_axes=axes,
        )


def _compare(model: Exportable, session: GraphSession, name: str) -> None:
    """Refuse a graph that computes something else than torch for one of the batches."""
    for part, ours, theirs in _beside(model, session, name):
        apart = float(np.abs(ours - theirs).max()) / max(1.0, float(np.abs(theirs).max()))
        if not apart <= AGREEMENT:
            raise ModelError(
                f"{name}, exported, gives other values than torch ({part}, by {apart:.2g} of "
                "the largest); use backend=torch"
            )


def _compare_int8(model: Exportable, session: GraphSession, name: str) -> None:
    """Refuse a graph whose values in int8 are not near those of torch, all batches together."""
    sums = {part: np.zeros(2) for part in model.outputs}
    for part, ours, theirs in _beside(model, session, name):
        sums[part] += (np.square(ours - theirs).sum(), np.square(theirs).sum())
    for part, (apart, whole) in sums.items():
        share = float(np.sqrt(apart / whole)) if whole else np.inf
        if not share <= AGREEMENT_INT8:
            raise ModelError(
                f"{name} in int8 gives values far from those in float32 ({part}, by {share:.2g} "
                "of their length); use dtype=float32"
            )


def _beside(
    model: Exportable, session: GraphSession, name: str
) -> Iterator[tuple[str, NDArray[np.float64], NDArray[np.float64]]]:
    """Yield what a graph and torch compute of every batch, by output, padding left out."""
    import torch

    for batch in model.batches:
        with torch.inference_mode():
            expected = model.forward(model.module, dict(batch))
        found = session.run({key: tensor.numpy() for key, tensor in batch.items()})
        for (part, axes), ours, tensor in zip(model.outputs.items(), found, expected, strict=True):
            theirs = tensor.double().numpy()
            if ours.shape != theirs.shape:
                raise ModelError(
                    f"{name}, exported, gives {part} of shape {ours.shape}, and torch of shape "
                    f"{theirs.shape}; use backend=torch"
                )
            rows = batch["attention_mask"].numpy() > 0 if tuple(axes) == (0, 1) else ...
            yield part, ours.astype(np.float64)[rows], theirs[rows]
