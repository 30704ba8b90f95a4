"""How does a model that torch computes become a graph that other libraries compute alike?"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.errors import ModelError
from calibrail.models.backends import Forward, Runtime
from calibrail.models.graphs import GRAPH_FILE, TOKENIZER_FOLDER
from calibrail.models.quantised import quantised, read_graph, write_graph
from calibrail.models.sessions import GraphSession

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
