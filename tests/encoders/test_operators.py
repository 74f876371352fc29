"""Graphs as functions in JAX, compared with ONNX Runtime and with numbers worked out by hand."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from contract.encoders import single, small_cnn, small_vit

from dpdistill.encoders.onnx_file import Graph, Refused, read_graph, read_tensor, write_graph
from dpdistill.encoders.program import OPERATORS, activations, pooled
from dpdistill.encoders.protobuf import field

F, I = np.float32, np.int64
RNG = np.random.default_rng(0)
W = {
    name: RNG.normal(size=shape).astype(F)
    for name, shape in {"3": (6, 3, 3, 3), "1": (4, 3, 1, 1), "d": (6, 1, 5, 3)}.items()
}
V = RNG.uniform(0.5, 1.5, (4, 3)).astype(F)

CASES: dict[str, Graph] = {
    "conv": single("Conv", "x", W["3"], V.ravel()[:6], pads=(1, 0, 2, 1), strides=(2, 1)),
    "conv dilated": single("Conv", "x", W["3"], dilations=(2, 2), pads=(2, 2, 2, 2)),
    "conv same lower": single("Conv", "x", W["3"], auto_pad="SAME_LOWER", strides=(2, 2)),
    "conv valid": single("Conv", "x", W["3"], auto_pad="VALID"),
    "conv of a pixel": single("Conv", "x", W["1"], strides=(2, 2)),
    "conv by channel, doubled": single("Conv", "x", W["d"], group=3, auto_pad="SAME_UPPER", strides=(2, 2)),
    "conv by channel": single("Conv", "x", W["d"][:3], V[0], group=3, pads=(2, 1, 2, 1), dilations=(1, 2)),
    "max pool": single("MaxPool", "x", kernel_shape=(3, 2), strides=(2, 2), pads=(1, 0, 1, 1)),
    "max pool, ceil": single("MaxPool", "x", kernel_shape=(3, 3), strides=(2, 2), ceil_mode=1),
    "average pool": single("AveragePool", "x", kernel_shape=(3, 2), strides=(2, 2), pads=(1, 0, 1, 1)),
    "average pool with pad": single("AveragePool", "x", kernel_shape=(3, 3), pads=(1, 1, 1, 1), count_include_pad=1),
    "average pool, ceil": single("AveragePool", "x", kernel_shape=(3, 3), strides=(2, 2), ceil_mode=1),
    "global mean": single("GlobalAveragePool", "x"),
    "global max": single("GlobalMaxPool", "x"),
    "batch norm": single("BatchNormalization", "x", *V, epsilon=1e-2),
    "instance norm": single("InstanceNormalization", "x", *V[:2]),
    "layer norm": single("LayerNormalization", "x", V.ravel()[:9], V.ravel()[3:12], axis=-1),
    "layer norm of two axes": single("LayerNormalization", "x", RNG.normal(size=(8, 9)).astype(F), axis=2),
    "softmax": single("Softmax", "x", axis=1),
    "softmax, earlier": single("Softmax", "x", axis=2, opset=11),
    "clip": single("Clip", "x", F(-0.5), F(0.7)),
    "clip above": single("Clip", "x", None, F(0.7)),
    "clip, earlier": single("Clip", "x", min=-0.5, max=0.7, opset=10),
    "gelu": single("Gelu", "x", opset=20),
    "gelu by tanh": single("Gelu", "x", approximate="tanh", opset=20),
    "hard sigmoid": single("HardSigmoid", "x", alpha=0.3, beta=0.4),
    "hard swish": single("HardSwish", "x"),
    "leaky relu": single("LeakyRelu", "x", alpha=0.1),
    "elu": single("Elu", "x", alpha=0.5),
    "group norm": single("GroupNormalization", "x", *V.ravel()[:6].reshape(2, 3), num_groups=3, opset=21),
    "dropout": single("Dropout", "x"),
    **{
        op.lower(): single(op, "x")
        for op in ("Relu", "Sigmoid", "Tanh", "Erf", "Softplus", "Neg", "Abs", "Exp", "Floor")
    },
    "mish": single("Mish", "x", opset=18),
    "mean": single("ReduceMean", "x", axes=(2, 3), keepdims=1),
    "mean of rows": single("ReduceMean", "x", axes=(-1,), keepdims=0),
    "sum": single("ReduceSum", "x", np.array([1], I), keepdims=1),
    "max": single("ReduceMax", "x", axes=(1,), keepdims=0),
    "min": single("ReduceMin", "x", axes=(2,)),
    "prod": single("ReduceProd", "x", axes=(3,)),
    "length": single("ReduceL2", "x", axes=(1,)),
    "add a channel each": single("Add", "x", V[0].reshape(3, 1, 1)),
    "sub columns": single("Sub", V.ravel()[:9], "x"),
    "mul": single("Mul", "x", "x"),
    "div": single("Div", "x", F(3)),
    "pow": single("Pow", "x", F(2)),
    "mod": single("Mod", "x", F(0.3), fmod=1),
    "max of two": single("Max", "x", F(0.1)),
    "min of three": single("Min", "x", F(0.4), V[0].reshape(3, 1, 1)),
    "sum of two": single("Sum", "x", "x"),
    "reshape": single("Reshape", "x", np.array([0, -1, 4], I)),
    "flatten": single("Flatten", "x", axis=2),
    "transpose": single("Transpose", "x", perm=(0, 2, 3, 1)),
    "transpose, reversed": single("Transpose", "x"),
    "concat": single("Concat", "x", "x", axis=1),
    "concat of columns": single("Concat", "x", "x", axis=-1),
    "unsqueeze": single("Unsqueeze", "x", np.array([0, -1], I)),
    "squeeze": single("Squeeze", "x", np.array([0], I)),
    "expand": single("Expand", "x", np.array([2, 1, 1, 1], I)),
    "tile": single("Tile", "x", np.array([1, 2, 1, 3], I)),
    "slice": single(
        "Slice", "x", np.array([1, -1], I), np.array([100, -9], I), np.array([2, 3], I), np.array([2, -2], I)
    ),
    "slice to the start": single(
        "Slice", "x", np.array([-1], I), np.array([-(2**62)], I), np.array([3], I), np.array([-1], I)
    ),
    "split": single("Split", "x", np.array([1, 2], I), axis=1, outputs=2),
    "split evenly": single("Split", "x", axis=3, outputs=3),
    "gather": single("Gather", "x", np.array([2, -1], I), axis=1),
    "gather one": single("Gather", "x", np.array(1, I), axis=2),
    "pad": single("Pad", "x", np.array([0, 0, 1, 2, 0, 0, 3, 0], I), F(0.5)),
    "pad by reflection": single("Pad", "x", np.array([0, 0, 1, 2, 0, 0, 3, 0], I), mode="reflect"),
    "matmul": single("MatMul", "x", RNG.normal(size=(9, 5)).astype(F)),
    "matmul from the left": single("MatMul", RNG.normal(size=(4, 8)).astype(F), "x"),
    "where": single("Where", np.arange(9) % 2 == 0, "x", F(1)),
    "network of convolutions": small_cnn(),
    "network of attention": small_vit(),
}
"""Graphs by what they do; in each the image has the shape (1, 3, 8, 9), or that of the network."""
MADE_OF_CONSTANTS = {
    *("Constant", "ConstantOfShape", "Shape", "Size", "Cast", "Range", "Identity", "Gemm", "Sqrt", "Reciprocal", "Log"),
    *("Ceil", "Equal", "Greater", "Less", "And", "Or", "Not"),
}
"""Operators that the tests below have."""


def image_of(graph: Graph, seed: int = 1) -> np.ndarray:
    (shape,) = graph.inputs.values()
    sides = [16 if size is None else size for size in (shape or ())[2:]]
    return np.random.default_rng(seed).normal(size=(1, *sides, 3)).astype(F)


def test_every_operator_has_a_case():
    nodes = {node.op for graph in CASES.values() for node in graph.nodes}
    assert {*OPERATORS} - nodes - MADE_OF_CONSTANTS == set()


@pytest.mark.parametrize("name", CASES)
def test_an_operator_is_that_of_onnx_runtime(name):
    runtime = pytest.importorskip("onnxruntime")
    graph = CASES[name]
    graph = read_graph(write_graph(graph))
    X, options = image_of(graph), runtime.SessionOptions()
    options.log_severity_level = 4
    session = runtime.InferenceSession(write_graph(graph), options, providers=["CPUExecutionProvider"])
    expected = session.run(None, {next(iter(graph.inputs)): X.transpose(0, 3, 1, 2)})
    found = jax.jit(lambda X: activations(graph, X, [*graph.outputs]))(X)
    for mine, other in zip(found, expected, strict=True):
        assert mine.shape == other.shape
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-4)


def of_constants(op: str, *inputs: np.ndarray, **held: object) -> np.ndarray:
    return np.asarray(OPERATORS[op]({"opset": 17, "outputs": 1, **held}, *inputs))


def test_constants_are_computed_once_by_numpy():
    two = np.array([2.0, 4.0], F)
    for op, expected, inputs, held in (
        ("Constant", [2.0, 4.0], (), {"value": two}),
        ("Constant", [3], (), {"value_ints": (3,)}),
        ("ConstantOfShape", [[7, 7]], (np.array([1, 2], I),), {"value": np.array([7], I)}),
        ("Shape", [2], (two,), {}),
        ("Size", 2, (two,), {}),
        ("Cast", [2, 4], (two,), {"to": 7}),
        ("Range", [1, 4, 7], (np.array(1, I), np.array(9, I), np.array(3, I)), {}),
        ("Identity", [2.0, 4.0], (two,), {}),
        ("Sqrt", [2.0**0.5, 2.0], (two,), {}),
        ("Reciprocal", [0.5, 0.25], (two,), {}),
        ("Ceil", [2.0, 4.0], (two - F(0.5),), {}),
        ("Log", [np.log(F(2)), np.log(F(4))], (two,), {}),
        ("Div", [3, 1], (np.array([7, 3], I), np.array(2, I)), {}),
        ("Equal", [True, False], (two, np.array(2, F)), {}),
        ("Greater", [False, True], (two, np.array(2, F)), {}),
        ("Less", [True, False], (two, np.array(3, F)), {}),
        ("And", [True, False], (two > 1, two < 3), {}),
        ("Or", [True, True], (two > 1, two < 3), {}),
        ("Not", [False, True], (two < 3,), {}),
    ):
        found = OPERATORS[op]({"opset": 17, "outputs": 1, **held}, *inputs)
        assert isinstance(found, np.ndarray | np.generic), op
        np.testing.assert_array_equal(found, np.array(expected, np.asarray(found).dtype), op)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, ml_dtypes.bfloat16])
def test_weights_of_another_width_are_computed_in_float32(dtype):
    graph = small_cnn()
    constants = {name: W.astype(dtype) for name, W in graph.constants.items()}
    other = read_graph(write_graph(Graph(graph.nodes, constants, graph.inputs, graph.outputs, graph.opset)))
    assert {W.dtype for W in other.constants.values()} == {np.dtype(F)}
    X = image_of(graph)
    (found,), (expected,) = pooled(other, X, ["features"]), pooled(graph, X, ["features"])
    assert found.dtype == F
    np.testing.assert_allclose(found, expected, atol=0.05)


def test_numbers_in_lists_of_their_own_are_read():
    """Writers may put the numbers of a weight into typed fields instead of raw bytes."""
    start = field(1, 2) + field(8, "W")
    for kind, held, expected in (
        (1, field(4, np.array([1.5, -2], "<f4").tobytes()), [1.5, -2]),
        (11, field(10, np.array([1.5, -2], "<f8").tobytes()), [1.5, -2]),
        (7, field(7, 5) + field(7, -3), [5, -3]),
        (6, field(5, b"\x05" + b"\xfd" + b"\xff" * 8 + b"\x01"), [5, -3]),
        (10, field(5, 0x3E00) + field(5, 0xC000), [1.5, -2]),
        (9, field(5, 1) + field(5, 0), [True, False]),
    ):
        name, array = read_tensor(memoryview(start + field(2, kind) + held))
        assert (name, array.tolist()) == ("W", expected), kind


def test_gemm_by_hand():
    A, B, c = jnp.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [5.0, 6.0]], F), np.array([1.0, 1.0], F)
    assert of_constants("Gemm", A, B, c, transB=1, alpha=0.5, beta=2.0).tolist() == [[7.5, 10.5]]
    assert of_constants("Gemm", A, B).tolist() == [[13.0, 16.0]]


def test_many_images_are_encoded_as_one_by_one():
    graph = small_cnn()
    X = np.random.default_rng(2).normal(size=(5, 16, 16, 3)).astype(F)
    together = jnp.concatenate(pooled(graph, X, ["block", "features"]), 1)
    alone = jnp.concatenate([jnp.concatenate(pooled(graph, x[None], ["block", "features"]), 1) for x in X])
    assert together.shape == (5, 28)
    np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-6)


def test_gradients_by_pixels_are_differences():
    graph, X = small_vit(), image_of(small_vit())
    direction = np.random.default_rng(3).normal(size=X.shape).astype(F)

    @jax.jit
    def loss(X):
        return jnp.sum(jnp.square(activations(graph, X, ["features"])[0]))

    slope = float(np.sum(np.asarray(jax.jit(jax.grad(loss))(X)) * direction))
    step = 1e-2
    difference = float(loss(X + step * direction) - loss(X - step * direction)) / (2 * step)
    assert slope == pytest.approx(difference, rel=2e-2)
    assert abs(slope) > 1e-2


def test_maps_and_tokens_are_pooled_to_their_means():
    graph = small_vit()
    X = image_of(graph)
    tokens, patches = activations(graph, X, ["x2", "patches"])
    means = pooled(graph, X, ["x2", "patches", "features"])
    np.testing.assert_allclose(means[0], tokens.mean(1), rtol=1e-6)
    np.testing.assert_allclose(means[1], patches.mean((2, 3)), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(means[2], tokens[:, 0], rtol=1e-6)


def test_an_output_that_is_no_vector_is_refused():
    graph = small_vit()
    with pytest.raises(Refused, match=r"computes, such as features; got \['scale'\]"):
        pooled(graph, image_of(graph), ["scale"])
    with pytest.raises(
        Refused, match=r"^Expected 'by' as vectors, tokens or maps of an image; got the shape \(3, 1, 2,"
    ):
        pooled(graph, image_of(graph), ["by"])
