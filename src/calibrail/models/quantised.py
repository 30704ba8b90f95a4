"""How does a graph compute with 8-bit numbers, so that no text changes another one's value?

Common dynamic quantisation takes one scale for all activations of a batch, so that the value of a
text depends on what runs beside it. Here every token has a scale of its own. Only products with
weights are computed in 8 bits; what follows them (normalisation, attention, pooling) stays float32.
"""

from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.errors import ModelError

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
