"""Networks that are opened: torch modules, and graphs for ONNX Runtime and OpenVINO.

sentence-transformers exports by optimum, which asks for an older transformers than ours and knows
no model that is read in another way than by its class (HHEM, MiniCheck, word vectors). So models
are exported by torch itself, and a graph is used only where it computes what torch does.
"""

import hashlib
import json
import shutil
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Final, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from calibrail.errors import ModelError, keep_libraries_quiet
from calibrail.models.hardware import Forward, Runtime, leave_to_parent, n_threads, renewed
from calibrail.models.llm.transport import cache_folder
from calibrail.models.windows import Window

SCHEMA: Final = "calibrail.graph/1"
#: Files of an entry.
GRAPH_FILE: Final = "model.onnx"
TOKENIZER_FOLDER: Final = "tokenizer"
_MANIFEST: Final = "manifest.json"


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
    entry = cache_folder() / "graphs" / entry_key(made_of)
    if is_whole(entry):
        return entry
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=entry.parent, prefix=f".{entry.name}.") as beside:
            made = Path(beside) / entry.name
            made.mkdir()
            make(made)
            manifest = {"schema": SCHEMA, "made_of": dict(made_of), "files": digests_of(made)}
            text = json.dumps(manifest, indent=2, sort_keys=True)
            (made / _MANIFEST).write_text(text + "\n", encoding="utf-8")
            if not is_whole(entry):
                shutil.rmtree(entry, ignore_errors=True)
                made.rename(entry)
    except OSError as error:
        if not is_whole(entry):
            raise ModelError.on("exports_not_kept", entry=entry, error=error) from error
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


#: Arrays of shape (inputs, tokens), by name.
Inputs: TypeAlias = Mapping[str, NDArray[np.int64]]
Arrays: TypeAlias = list[NDArray[Any]]
Compute = Callable[[Inputs], Arrays]


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
    on_gpu : bool
        Whether a graphics processor computes.
    """

    on_gpu = False

    def __init__(self, folder: Path, runtime: Runtime) -> None:
        self._path, self._runtime = folder / GRAPH_FILE, runtime
        self._threads = n_threads()
        self._lock = Lock()
        self._compute: Compute | None = self._open()
        renewed(self)

    def run(self, inputs: Inputs) -> Arrays:
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
        self._threads = 1

    def _open(self) -> Compute:
        if self._runtime.backend == "openvino":
            return _openvino(self._path, self._threads)
        providers, compute = _onnx(self._path, self._runtime, self._threads)
        self.on_gpu = len(providers) > 1
        return compute


def _onnx(path: Path, runtime: Runtime, threads: int) -> tuple[list[Any], Compute]:
    """Return what onnxruntime computes on, and what computes.

    Raises
    ------
    ModelError
        If the device that is named is not there.
    """
    keep_libraries_quiet()
    import onnxruntime

    there = onnxruntime.get_available_providers()
    # As torch does it: no product is rounded to 19 bits.
    cuda = ("CUDAExecutionProvider", {"use_tf32": 0})
    if runtime.device == "cuda" and cuda[0] not in there:
        raise ModelError.on("onnx_without_cuda", names=", ".join(there))
    wanted = cuda[0] in there and runtime.device != "cpu"
    providers = [*([cuda] if wanted else []), "CPUExecutionProvider"]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    # Threads that wait by spinning take the cores from the other processes.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=providers)
    names = [item.name for item in session.get_inputs()]

    def compute(inputs: Inputs) -> Arrays:
        return cast(Arrays, session.run(None, {name: inputs[name] for name in names}))

    return providers, compute


def _openvino(path: Path, threads: int) -> Compute:
    keep_libraries_quiet()
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

    def compute(inputs: Inputs) -> Arrays:
        # A request of its own for each call: one request serves one thread.
        found = compiled.create_infer_request().infer({name: inputs[name] for name in names})
        return [np.array(found[output]) for output in outputs]

    return compute


OPSET: Final = 17
#: How far an exported value may lie from torch's, as a share of the largest one: what the tolerance
#: of scores in float32 allows. Rounding makes less than 1e-6 of it in models of up to 22 million
#: parameters, while a graph into which a length was traced misses by about 1.
AGREEMENT: Final = 1e-5
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
    import torch

    raised = (RuntimeError, TypeError, ValueError, torch.onnx.errors.OnnxExporterError)
    try:
        with _exporting, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _trace(model, path)
            _compare(model, GraphSession(folder, Runtime(runtime.backend)), name)
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
    import torch

    for batch in model.batches:
        with torch.inference_mode():
            expected = model.forward(model.module, dict(batch))
        outputs = session.run({key: tensor.numpy() for key, tensor in batch.items()})
        parts = zip(model.outputs.items(), outputs, expected, strict=True)
        for (part, axes), ours, tensor in parts:
            theirs = tensor.double().numpy()
            apart = np.inf
            if ours.shape == theirs.shape:
                # What is computed of padding counts nowhere.
                rows = batch["attention_mask"].numpy() > 0 if tuple(axes) == (0, 1) else ...
                ours, theirs = ours.astype(np.float64)[rows], theirs[rows]
                apart = float(np.abs(ours - theirs).max()) / max(1.0, float(np.abs(theirs).max()))
            if not apart <= AGREEMENT:
                raise ModelError.on("export_disagrees", name=name, part=part, apart=apart)


@dataclass(frozen=True, slots=True)
class Network:
    """An opened model with its tokenizer.

    Attributes
    ----------
    module : torch.nn.Module or GraphSession
        In evaluation mode; or what computes the model as it was exported.
    tokenizer : transformers tokenizer
        A fast one.
    model : str
        What the user called it, for messages.
    """

    module: Any
    tokenizer: Any
    model: str

    @property
    def on_gpu(self) -> bool:
        """Whether a graphics processor computes."""
        if isinstance(self.module, GraphSession):
            return self.module.on_gpu
        return bool(self.module.device.type != "cpu")

    def outputs(self, inputs: Inputs, forward: Forward) -> Sequence[Any]:
        """Return as tensors what ``forward`` makes of one batch, or what was exported of it."""
        import torch

        if isinstance(self.module, GraphSession):
            return [torch.from_numpy(part) for part in self.module.run(inputs)]
        device = self.module.device
        with torch.inference_mode():
            tensors = {name: torch.from_numpy(rows).to(device) for name, rows in inputs.items()}
            return forward(self.module, tensors)

    def first(self, windows: Sequence[Window], forward: Forward) -> Any:
        """Return the first of the tensors that ``forward`` makes of windows."""
        return self.outputs(padded(windows, self.tokenizer), forward)[0]


def padded(windows: Sequence[Window], tokenizer: Any) -> dict[str, NDArray[np.int64]]:
    """Return one batch as arrays of shape (windows, tokens), padded on the right."""
    shape = len(windows), max(len(window.ids) for window in windows)
    arrays = {
        "input_ids": np.full(shape, tokenizer.pad_token_id or 0, dtype=np.int64),
        "attention_mask": np.zeros(shape, dtype=np.int64),
    }
    if has_types := "token_type_ids" in tokenizer.model_input_names:
        arrays["token_type_ids"] = np.zeros(shape, dtype=np.int64)
    for row, window in enumerate(windows):
        n = len(window.ids)
        arrays["input_ids"][row, :n] = window.ids
        arrays["attention_mask"][row, :n] = 1
        if has_types:
            arrays["token_type_ids"][row, :n] = window.types
    return arrays
