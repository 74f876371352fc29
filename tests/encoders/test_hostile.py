"""Files of strangers: each is refused in a sentence, or is harmless because one image is encoded at a time."""

import os
import pickle
import struct
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract.encoders import OPSET, single, small_cnn

from dpdistill.encoders.onnx_file import MOST_NODES, Graph, Node, Refused, read_graph, write_graph
from dpdistill.encoders.program import pooled
from dpdistill.encoders.protobuf import field
from dpdistill.encoders.torch_file import read_weights
from dpdistill.errors import DataError

F, I = np.float32, np.int64
X = np.random.default_rng(0).normal(size=(3, 16, 16, 3)).astype(F)


def chain(*nodes: Node, constants: dict | None = None, shape: tuple = (None, 3, None, None)) -> bytes:
    """A file whose last node makes the output y."""
    return write_graph(Graph(nodes, constants or {}, {"x": shape}, {"y": None}, OPSET))


def external() -> bytes:
    """Weights that lie in /etc/passwd."""
    location = field(13, field(1, "location") + field(2, "../../../../etc/passwd"))
    tensor = field(1, 4) + field(2, 1) + field(8, "W") + location + field(14, 1)
    return field(1, 8) + field(7, field(5, tensor)) + field(8, field(1, "") + field(2, 17))


def in_a_circle() -> bytes:
    return chain(Node("Add", ("x", "b"), ("a",)), Node("Relu", ("a",), ("b",)), Node("Relu", ("b",), ("y",)))


def own_operator() -> bytes:
    node = field(1, "x") + field(2, "y") + field(4, "Send") + field(7, "com.example")
    return field(1, 8) + field(7, field(1, node)) + field(8, field(1, "") + field(2, 17))


def branch() -> bytes:
    inner = field(1, "then_branch") + field(6, b"") + field(20, 5)
    node = field(1, "x") + field(2, "y") + field(4, "If") + field(5, inner)
    return field(1, 8) + field(7, field(1, node)) + field(8, field(1, "") + field(2, 17))


def of_nan() -> bytes:
    graph = small_cnn()
    bad = graph.constants["W1"].copy()
    bad[0, 0, 0, 0] = np.nan
    return write_graph(Graph(graph.nodes, {**graph.constants, "W1": bad}, graph.inputs, graph.outputs, OPSET))


def of_wrong_shapes() -> bytes:
    graph = small_cnn()
    constants = {**graph.constants, "D": np.ones((12, 99), F)}
    return write_graph(Graph(graph.nodes, constants, graph.inputs, graph.outputs, OPSET))


def bomb(size: int = 2**20) -> bytes:
    """A few bytes that ask for 4 TiB."""
    constants = {"shape": np.array([size, size], I), "one": np.ones((1, 1), F)}
    nodes = (
        Node("Expand", ("one", "shape"), ("z",)),
        Node("ReduceMean", ("z",), ("m",)),
        Node("Add", ("x", "m"), ("y",)),
    )
    return chain(*nodes, constants=constants)


def by_parts() -> bytes:
    """Each operation is small, and makes its output twice as long."""
    nodes = [Node("Concat", ("x", "x"), ("z0",), {"axis": 1})]
    nodes += [Node("Concat", (f"z{k}", f"z{k}"), (f"z{k + 1}",), {"axis": 1}) for k in range(40)]
    return chain(*nodes, Node("GlobalAveragePool", ("z40",), ("y",)))


REFUSED = {
    "huge": (
        lambda: chain(*(Node("Relu", ("x" if k == 0 else f"v{k}",), (f"v{k + 1}",)) for k in range(MOST_NODES + 1))),
        "^Expected at most 20000 operations",
    ),
    "cyclic": (in_a_circle, "^Expected operations in order; Add uses 'b' before it is computed"),
    "external data": (external, "^Expected all weights inside the file; 'W' lies in another one"),
    "own operator": (own_operator, "^Expected standard operators only; got 'Send' of 'com.example'"),
    "wrong shapes": (of_wrong_shapes, "^Expected inputs of Gemm that fit together; got the shapes"),
    "weights of NaN": (of_nan, "^Expected weights that are numbers; 'W1' has NaN"),
    "bomb of zeros": (bomb, "^Expected at most 67108864 numbers in a value of one image"),
    "bomb by doubling": (by_parts, "^Expected at most 67108864 numbers in a value of one image"),
    "fixed batch": (
        lambda: chain(Node("GlobalAveragePool", ("x",), ("y",)), shape=(8, 3, 16, 16)),
        "^Expected a network of one image .* its input is .8, 3, 16, 16.: export one image at a time",
    ),
    "random": (
        lambda: chain(Node("RandomNormalLike", ("x",), ("r",)), Node("Add", ("x", "r"), ("y",))),
        "^Expected operators of a fixed function of one image; got 'RandomNormalLike'",
    ),
    "random by Dropout": (
        lambda: chain(Node("Dropout", ("x", "p", "t"), ("y",)), constants={"p": F(0.5), "t": np.array(True)}),
        "^Expected Dropout for inference; this file draws random numbers",
    ),
    "control flow": (branch, "^Expected operations without control flow or sequences; got the attribute 'then_branch'"),
    "shapes from data": (
        lambda: chain(
            Node("ReduceMax", ("x",), ("m",), {"keepdims": 0}),
            Node("Cast", ("m",), ("n",), {"to": 7}),
            Node("Unsqueeze", ("n", "zero"), ("s",)),
            Node("Expand", ("x", "s"), ("y",)),
            constants={"zero": np.array([0], I)},
        ),
        "^Expected a shape that is the same for all images: a network may not decide on its data",
    ),
    "state": (
        lambda: write_graph(
            Graph((Node("Add", ("x", "h"), ("y",)),), {}, {"x": (1, 3, 16, 16), "h": (1,)}, {"y": None}, OPSET)
        ),
        "^Expected a network with one input, an image; got 2: a state is an input, too",
    ),
    "batch statistics": (
        lambda: chain(
            Node("BatchNormalization", ("x", "a", "a", "a", "a"), ("y",), {"training_mode": 1}),
            constants={"a": np.ones(3, F)},
        ),
        "^Expected batch normalisation by the file's own means",
    ),
}
"""Files by what they try, with the sentence that refuses each."""


def traced(content: bytes) -> None:
    """Reads a file and computes the shapes of its features, as a run does before it pays."""
    graph = read_graph(content)
    jax.eval_shape(lambda X: pooled(graph, X, [*graph.outputs]), jax.ShapeDtypeStruct((1, 16, 16, 3), F))


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_file_is_refused_in_a_sentence(name):
    make, sentence = REFUSED[name]
    content, start = make(), time.process_time()
    with pytest.raises(Refused, match=sentence):
        traced(content)
    assert time.process_time() - start < 20


def test_a_file_above_two_gigabytes_is_refused_before_it_is_read():
    class Huge(bytes):
        def __len__(self) -> int:
            return 2**31 + 1

    with pytest.raises(Refused, match=r"^Expected an ONNX file of at most 2 GiB; got 2\.0 GiB"):
        read_graph(Huge())


def test_a_mean_over_the_batch_sees_one_image():
    """With one image at a time, what would mix the records of a batch is a fixed function of each."""
    content = chain(
        Node("ReduceMean", ("x",), ("m",), {"axes": (0,), "keepdims": 1}),
        Node("Sub", ("x", "m"), ("d",)),
        Node("Add", ("d", "x"), ("z",)),
        Node("GlobalAveragePool", ("z",), ("y",)),
    )
    graph = read_graph(content)
    alone = pooled(graph, X, ["y"])[0]
    np.testing.assert_allclose(alone, X.mean((1, 2)), atol=1e-6)
    other = X.copy()
    other[1:] = 1e30
    again = pooled(graph, other, ["y"])[0]
    assert np.array_equal(np.asarray(alone)[0].view(np.uint32), np.asarray(again)[0].view(np.uint32))


def test_what_an_output_does_not_need_is_left_out():
    """A head with an unknown operator does no harm where the features lie before it."""
    graph = single("TopK", "x")
    graph = Graph((Node("GlobalAveragePool", ("x",), ("p",)), *graph.nodes), {}, {"x": None}, graph.outputs, OPSET)
    assert pooled(graph, jnp.asarray(X), ["p"])[0].shape == (3, 3)
    with pytest.raises(Refused, match="got 'TopK'"):
        pooled(graph, jnp.asarray(X), ["y0"])


@pytest.mark.parametrize("cut", [1, 7, 100, 500, 2000])
def test_a_cut_file_is_refused(cut):
    content = write_graph(small_cnn())
    with pytest.raises(Refused, match=r"damaged|version 7 to 25|in order|shape of a weight|as numbers"):
        read_graph(content[:-cut])


def test_bytes_at_random_are_refused_and_never_crash():
    rng, content = np.random.default_rng(5), write_graph(small_cnn())
    for _ in range(150):
        damaged = bytearray(content)
        for place in rng.integers(0, len(content), 3):
            damaged[place] = rng.integers(0, 256)
        try:
            graph = read_graph(bytes(damaged))
            jax.eval_shape(
                lambda X, graph=graph: pooled(graph, X, ["features"]), jax.ShapeDtypeStruct((1, 16, 16, 3), F)
            )
        except Refused:
            continue


def test_weights_that_claim_more_than_they_have_are_refused():
    tensor = field(1, 2**40) + field(2, 1) + field(8, "W") + field(9, b"1234")
    content = field(1, 8) + field(7, field(5, tensor)) + field(8, field(1, "") + field(2, 17))
    with pytest.raises(Refused, match=r"^Expected weights of a possible shape; 'W' has"):
        read_graph(content)
    short = field(1, 8) + field(7, field(5, field(1, 3) + field(2, 1) + field(8, "W") + field(9, b"1234")))
    with pytest.raises(Refused, match=r"^Expected as many numbers as the shape of a weight says; 'W' has other ones"):
        read_graph(short + field(8, field(1, "") + field(2, 17)))


class Bomb:
    """An object whose pickle calls a function."""

    def __reduce__(self):
        return os.system, ("touch /tmp/this-must-not-exist",)


def stream(*objects: object) -> bytes:
    return b"".join(pickle.dumps(each, protocol=2) for each in objects)


START = (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})


def test_a_pickle_that_calls_a_function_is_refused():
    with pytest.raises(DataError, match=r"found posix\.system, which is no weight"):
        read_weights(stream(*START, {"w": Bomb()}))
    assert not os.path.exists("/tmp/this-must-not-exist")


@pytest.mark.parametrize(
    "content",
    [b"", b"PK\3\4zip", stream(1, 2, 3), stream(*START, {"w": 1}, []), stream(*START, [], ["a"]), stream(*START)],
    ids=["empty", "zip", "other magic", "no tensor", "unknown storage", "short"],
)
def test_other_pickles_are_refused(content):
    with pytest.raises(DataError, match=r"^Expected a file of weights that torch\.save wrote"):
        read_weights(content)


class Pickled(pickle.Pickler):
    """Writes tensors as torch.save did before its format with zip."""

    def persistent_id(self, obj: object) -> object:
        return ("storage", FloatStorage, "0", "cpu", 6, None) if isinstance(obj, Numbers) else None


class Numbers:
    pass


class FloatStorage:
    pass


def rebuilt(*_: object) -> None: ...


class Tensor:
    def __init__(self, offset: int, shape: tuple, strides: tuple) -> None:
        self.of = (offset, shape, strides)

    def __reduce__(self):
        return rebuilt, (Numbers(), *self.of, False, {})


FloatStorage.__module__, FloatStorage.__qualname__ = "torch", "FloatStorage"
rebuilt.__module__, rebuilt.__qualname__ = "torch._utils", "_rebuild_tensor_v2"


def saved(monkeypatch, tmp_path, *, numbers: int = 6, **tensors: Tensor) -> bytes:
    import sys
    import types

    parent, child = types.ModuleType("torch"), types.ModuleType("torch._utils")
    parent.FloatStorage, child._rebuild_tensor_v2, parent._utils = FloatStorage, rebuilt, child  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", parent)
    monkeypatch.setitem(sys.modules, "torch._utils", child)
    path = tmp_path / "w.pth"
    with path.open("wb") as file:
        for each in (*START, tensors, ["0"]):
            Pickled(file, protocol=2).dump(each)
        file.write(struct.pack("<q", numbers) + np.arange(numbers, dtype="<f4").tobytes())
    return path.read_bytes()


def test_weights_are_read_in_every_order_of_axes(monkeypatch, tmp_path):
    of = {"rows": Tensor(0, (2, 3), (3, 1)), "columns": Tensor(0, (3, 2), (1, 3)), "part": Tensor(2, (1, 2), (9, 1))}
    found = read_weights(saved(monkeypatch, tmp_path, **of, one=Tensor(5, (), ())))
    assert found["rows"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found["columns"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert found["part"].tolist() == [[2, 3]]
    assert found["one"].tolist() == 5


@pytest.mark.parametrize("tensor", [Tensor(-1, (2,), (1,)), Tensor(5, (2,), (1,)), Tensor(0, (2, 2), (9, 1))])
def test_a_tensor_outside_of_its_numbers_is_refused(monkeypatch, tmp_path, tensor):
    with pytest.raises(DataError, match="a tensor lies outside of its numbers"):
        read_weights(saved(monkeypatch, tmp_path, w=tensor))


def test_a_file_that_ends_early_is_refused(monkeypatch, tmp_path):
    with pytest.raises(DataError, match="the file ends early"):
        read_weights(saved(monkeypatch, tmp_path, w=Tensor(0, (6,), (1,)))[:-4])
    with pytest.raises(DataError, match="the file ends early"):
        read_weights(saved(monkeypatch, tmp_path, numbers=5, w=Tensor(0, (5,), (1,))))
