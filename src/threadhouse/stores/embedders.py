"""Text to vectors with an ONNX model on this machine, through fastembed.

Belongs here: choosing and opening a model, prefixes, batches, windows over long texts, the checks on what comes out.
Does not belong here: making the default model's files (stores.model_build), remembering vectors (stores.embedding_cache),
text preparation (retrieval.text).

What fastembed leaves to its caller, and this module does: it adds no prefixes, cuts at the model's limit without a word, caps
its token count at that limit, takes literal ``<s>`` in a text for the special token, puts 256 texts of any length into one batch
(8 GB at 400 tokens each), checks no file it loads, and gives an empty text a vector like any other.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from threadhouse.retrieval.errors import (
    ConfigurationError,
    EmbedderError,
    EmptyTextError,
    ModelCorruptError,
    ModelUnavailableError,
)
from threadhouse.retrieval.models import Vectors, VectorSpace
from threadhouse.retrieval.text import (
    grapheme_borders,
    hash_text,
    is_blank,
    last_border_before,
    prepare_text,
)
from threadhouse.retrieval.vector_space import identify_space
from threadhouse.stores.model_build import (
    MANIFEST,
    ModelManifest,
    build_model,
    built_model_directory,
    hash_file,
    models_directory,
    read_manifest,
    verify_files,
)

if TYPE_CHECKING:
    from fastembed import TextEmbedding
    from tokenizers import Tokenizer

Role = Literal["query", "passage"]

BATCH_TOKENS = 2048
"""Padded tokens a batch may have. Memory grows with it; above it, speed on a processor no longer does: 0.8 GB in all here."""
BATCH_TEXTS = 32
"""Texts a batch may have, however short they are."""
COUNT_TEXTS = 64
"""Texts that are tokenised at once for counting."""
LONG_GROUP_TEXTS = 8
"""Long texts that are finished together: few, so that a killed run loses seconds, enough to fill batches with their windows."""
WINDOW_RULE = "windows-1"
"""How a long text is cut and its windows averaged. Part of a long text's key in the embedding cache."""

_UNIT_TOLERANCE = 1e-3
_REGISTRY_LOCK = threading.Lock()

_PREFIXES: dict[str, tuple[str, str]] = {
    "intfloat/multilingual-e5-large": ("query: ", "passage: "),
    "intfloat/multilingual-e5-small": ("query: ", "passage: "),
    "qwen/qwen3-embedding-0.6b": (
        "Instruct: Given a question, retrieve passages that answer it\nQuery:",
        "",
    ),
    "qwen/qwen3-embedding-0.6b-q": (
        "Instruct: Given a question, retrieve passages that answer it\nQuery:",
        "",
    ),
    "google/embeddinggemma-300m": (
        "task: search result | query: ",
        "title: none | text: ",
    ),
}
"""Query and passage prefix of the multilingual models that need one, as their authors trained them; lower-case names."""

_E5_SMALL = "intfloat/multilingual-e5-small"  # in no list of fastembed's, but worth offering in full precision


@dataclass(frozen=True, slots=True)
class EmbeddedBatch:
    """Vectors of some of the texts of a call; ``positions`` says which, row by row."""

    positions: tuple[int, ...]
    data: NDArray[np.float32]
    truncated: NDArray[np.bool_]


def plan_batches(
    token_counts: Sequence[int],
    *,
    batch_tokens: int = BATCH_TOKENS,
    batch_texts: int = BATCH_TEXTS,
) -> list[list[int]]:
    """Positions grouped into batches, shortest first, so that little is padding.

    Every text of a batch is padded to its longest; ``longest * texts`` stays within ``batch_tokens``, unless one text alone
    exceeds it.

    Example:
        >>> plan_batches([5, 90, 7], batch_tokens=100)
        [[0, 2], [1]]
    """
    batches: list[list[int]] = []
    for position in sorted(range(len(token_counts)), key=token_counts.__getitem__):
        current = batches[-1] if batches else []
        padded = token_counts[position] * (len(current) + 1)
        if current and len(current) < batch_texts and padded <= batch_tokens:
            current.append(position)
        else:
            batches.append([position])
    return batches


class FastembedEmbedder:
    """A model directory, loaded. Implements `threadhouse.retrieval.ports.Embedder`.

    The same text gives the same bits alone, in any batch and on any number of threads with the default model.
    ``bare_model`` is fastembed's own object, for comparisons; what it returns has passed none of the checks here.
    """

    def __init__(
        self,
        directory: Path,
        manifest: ModelManifest,
        *,
        threads: int | None = None,
        registered_name: str | None = None,
    ) -> None:
        """Check the files and load the model.

        Args:
            directory: Where the model's files are.
            manifest: What they are supposed to be.
            threads: Cores to compute on; None takes all.
            registered_name: fastembed's own name for the model, when it has one: it then knows how to pool.

        Raises:
            ModelUnavailableError: A file is missing.
            ModelCorruptError: A file is not what the manifest says, or cannot be loaded as a model.
        """
        verify_files(directory, manifest)
        self.directory = directory
        self.manifest = manifest
        self._space = space_of(manifest)
        self._prefixes: dict[Role, str] = {
            "query": manifest.query_prefix,
            "passage": manifest.passage_prefix,
        }
        self._normalise_here = registered_name is not None
        self.bare_model: TextEmbedding = _load_model(
            registered_name or _register(self._space, manifest), directory, threads
        )
        _refuse_other_limit(self.bare_model, manifest)
        self._tokenizer = _tokenizer_of(self.bare_model)
        # The tokenizer is switched between counting and embedding, so only one thread at a time may use it.
        self._lock = threading.Lock()
        query_overhead, passage_overhead = self._encode(list(self._prefixes.values()))
        self._overhead: dict[Role, int] = {
            "query": len(query_overhead),
            "passage": len(passage_overhead),
        }

    @property
    def space(self) -> VectorSpace:
        """The space of every vector this embedder returns."""
        return self._space

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Embed texts to be found; one beyond the model's limit is cut there and flagged as truncated.

        Raises:
            EmptyTextError: A text is empty after preparation, or consists of what the model cannot see.
            EmbedderError: The model returned something that is no unit vector.
        """
        return self._collect("passage", len(texts), self.iter_passages(texts))

    def embed_long_passages(self, texts: Sequence[str]) -> Vectors:
        """Embed texts of any length without cutting anything off.

        A text within the model's limit gets the vector `embed_passages` gives. A longer one is split on sentence and paragraph
        borders into windows within the limit; its vector is their mean, weighted by tokens, at length 1.

        Raises:
            EmptyTextError: As for `embed_passages`.
            EmbedderError: As for `embed_passages`.
        """
        return self._collect("passage", len(texts), self.iter_long_passages(texts))

    def embed_query(self, text: str) -> Vectors:
        """Embed one question; shape (1, dim).

        Raises:
            EmptyTextError: The question is empty after preparation.
            EmbedderError: As for `embed_passages`.
        """
        return self._collect("query", 1, self._iter_batches([text], "query"))

    def iter_passages(self, texts: Sequence[str]) -> Iterator[EmbeddedBatch]:
        """`embed_passages`, batch by batch as they are done, shortest texts first."""
        return self._iter_batches(texts, "passage")

    def iter_long_passages(self, texts: Sequence[str]) -> Iterator[EmbeddedBatch]:
        """`embed_long_passages`, some texts at a time as they are done, shortest first."""
        prepared, counts = self._prepare(texts, "passage")
        order = sorted(range(len(counts)), key=counts.__getitem__)
        fitting = [position for position in order if counts[position] <= self.space.max_tokens]
        for batch in self._iter_prepared(
            [prepared[p] for p in fitting], [counts[p] for p in fitting], "passage"
        ):
            positions = tuple(fitting[position] for position in batch.positions)
            yield EmbeddedBatch(positions, batch.data, batch.truncated)
        too_long = order[len(fitting) :]
        for start in range(0, len(too_long), LONG_GROUP_TEXTS):
            group = too_long[start : start + LONG_GROUP_TEXTS]
            data = self._embed_windows([prepared[position] for position in group])
            yield EmbeddedBatch(tuple(group), data, np.zeros(len(group), np.bool_))

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text as a passage, prefix and special tokens included, never capped."""
        return self._count([prepare_text(text) for text in texts], "passage")

    def token_ids(self, texts: Sequence[str], role: Role) -> list[list[int]]:
        """The model's input for each text, prefix and special tokens included, never capped."""
        return self._encode([self._prefixes[role] + prepare_text(text) for text in texts])

    def split_into_windows(self, text: str) -> list[str]:
        """The pieces that `embed_long_passages` embeds: each within the model's limit, together all words of the text."""
        from semantic_text_splitter import TextSplitter

        prepared = prepare_text(text)
        overhead = self._overhead["passage"]
        # A callback instead of the splitter's own use of the tokenizer: that one would count a literal "<mask>" as one token.
        splitter = TextSplitter.from_callback(
            lambda piece: max(self._count([piece], "passage")[0] - overhead, 0),
            self.space.max_tokens - overhead,
        )
        windows: list[str] = []
        for chunk in splitter.chunks(prepared):
            windows += self._halve_until_it_fits(chunk)
        return windows

    def _halve_until_it_fits(self, piece: str) -> list[str]:
        # Mostly the piece itself. The splitter expects a longer text never to have fewer tokens; a unigram model breaks that
        # promise, and on text without spaces a piece came out 9 % too long.
        if len(piece) == 1 or self._count([piece], "passage")[0] <= self.space.max_tokens:
            return [piece]
        middle = len(piece) // 2
        cut = last_border_before(grapheme_borders(piece), middle) or middle
        return self._halve_until_it_fits(piece[:cut]) + self._halve_until_it_fits(piece[cut:])

    def _embed_windows(self, prepared: Sequence[str]) -> NDArray[np.float32]:
        windows: list[str] = []
        owners: list[int] = []
        for owner, text in enumerate(prepared):
            pieces = self.split_into_windows(text)
            windows += pieces
            owners += [owner] * len(pieces)
        counts = self._count(windows, "passage")
        content = np.array(counts) - self._overhead["passage"]
        seen = [position for position, tokens in enumerate(content) if tokens > 0]
        sums = np.zeros((len(prepared), self.space.dim), np.float32)
        batches = self._iter_prepared(
            [windows[p] for p in seen], [counts[p] for p in seen], "passage"
        )
        for batch in batches:
            if batch.truncated.any():
                raise EmbedderError(
                    "A window of a long text exceeds the model's limit; please report the text."
                )
            for row, position in zip(batch.data, batch.positions, strict=True):
                window = seen[position]
                sums[owners[window]] += row * float(content[window])
        return self._checked(sums, normalise=True)

    def _iter_batches(self, texts: Sequence[str], role: Role) -> Iterator[EmbeddedBatch]:
        prepared, counts = self._prepare(texts, role)
        yield from self._iter_prepared(prepared, counts, role)

    def _prepare(self, texts: Sequence[str], role: Role) -> tuple[list[str], list[int]]:
        prepared = [prepare_text(text) for text in texts]
        counts = self._count(prepared, role)
        # Some texts are visible but nothing to the model: its tokenizer drops U+FFFD, for one.
        empty = [
            position
            for position, (text, count) in enumerate(zip(prepared, counts, strict=True))
            if is_blank(text) or count <= self._overhead[role]
        ]
        if empty:
            raise EmptyTextError(
                f"{len(empty)} of {len(texts)} texts hold nothing that can be embedded, first at position {empty[0]}; "
                "leave such texts out."
            )
        return prepared, counts

    def _iter_prepared(
        self, prepared: Sequence[str], counts: Sequence[int], role: Role
    ) -> Iterator[EmbeddedBatch]:
        limit = self.space.max_tokens
        for positions in plan_batches([min(count, limit) for count in counts]):
            batch = [self._prefixes[role] + prepared[position] for position in positions]
            with self._lock:
                rows = list(self.bare_model.embed(batch, batch_size=len(batch)))
            data = self._checked(np.stack(rows), normalise=self._normalise_here)
            truncated = np.array([counts[position] > limit for position in positions], np.bool_)
            yield EmbeddedBatch(tuple(positions), data, truncated)

    def _count(self, prepared: Sequence[str], role: Role) -> list[int]:
        prefix = self._prefixes[role]
        counts: list[int] = []
        # A slice at a time: what the tokenizer returns for a text is many times the text's size.
        for start in range(0, len(prepared), COUNT_TEXTS):
            texts = [prefix + text for text in prepared[start : start + COUNT_TEXTS]]
            counts += [len(ids) for ids in self._encode(texts)]
        return counts

    def _encode(self, texts: list[str]) -> list[list[int]]:
        with self._lock, _uncapped(self._tokenizer) as tokenizer:
            return [encoding.ids for encoding in tokenizer.encode_batch_fast(texts)]

    def _checked(self, rows: NDArray[Any], *, normalise: bool) -> NDArray[np.float32]:
        """Unit rows. Models that fastembed pools by rules of its own may return longer ones: scaled. Others: refused."""
        data = rows.astype(np.float32)
        lengths = np.linalg.norm(data, axis=1)
        usable = np.isfinite(lengths) & (lengths > _UNIT_TOLERANCE)
        if not normalise:
            usable &= np.abs(lengths - 1) <= _UNIT_TOLERANCE
        if data.shape[1] != self.space.dim or not usable.all():
            raise EmbedderError(
                f"{self.space.model} returned a vector that is not of length 1 and {self.space.dim} dimensions; "
                "run `threadhouse model check`."
            )
        return data / lengths[:, None] if normalise else data

    def _collect(self, role: Role, count: int, batches: Iterator[EmbeddedBatch]) -> Vectors:
        data = np.zeros((count, self.space.dim), np.float32)
        truncated = np.zeros(count, np.bool_)
        for batch in batches:
            data[list(batch.positions)] = batch.data
            truncated[list(batch.positions)] = batch.truncated
        return Vectors(self.space.space_id, role, data, truncated)


def open_embedder(
    home: Path,
    *,
    model: str | None = None,
    path: Path | None = None,
    threads: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> FastembedEmbedder:
    """The embedder that the settings name. Nothing is ever downloaded here, and no model stands in for another.

    Args:
        home: The project's home.
        model: Name of a fastembed model that `download_model` fetched before.
        path: A local model directory with a manifest.
        threads: Cores to compute on; None takes all.
        progress: Told when the default model is being built, which happens on first need.

    Raises:
        ConfigurationError: Both a model and a path are given.
        ModelUnavailableError: The model is not on this machine, or cannot be built.
        ModelCorruptError: Its files are not the ones its manifest names.
    """
    if model is not None and path is not None:
        raise ConfigurationError(
            "EMBEDDING_MODEL and EMBEDDING_PATH are both set; unset one of them."
        )
    if model is not None:
        directory, manifest = _read_record(home, model)
        _offer_e5_small()
        return FastembedEmbedder(directory, manifest, threads=threads, registered_name=model)
    directory = path if path is not None else build_model(home, progress=progress)
    return FastembedEmbedder(directory, read_manifest(directory), threads=threads)


def find_model(
    home: Path, *, model: str | None = None, path: Path | None = None
) -> tuple[Path, ModelManifest]:
    """Directory and manifest of the model that the settings name. Loads nothing and builds nothing.

    Raises:
        ConfigurationError: Both a model and a path are given.
        ModelUnavailableError: The model is not on this machine.
        ModelCorruptError: Its manifest cannot be read.
    """
    if model is not None and path is not None:
        raise ConfigurationError(
            "EMBEDDING_MODEL and EMBEDDING_PATH are both set; unset one of them."
        )
    if model is not None:
        return _read_record(home, model)
    directory = path if path is not None else built_model_directory(home)
    return directory, read_manifest(directory)


def space_of(manifest: ModelManifest) -> VectorSpace:
    """The space of every vector that this model makes."""
    return identify_space(
        VectorSpace(
            name=manifest.name,
            model=manifest.model,
            weights_sha256=manifest.weights_sha256,
            tokenizer_sha256=manifest.tokenizer_sha256,
            dim=manifest.dim,
            max_tokens=manifest.max_tokens,
            pooling=manifest.pooling,
            query_prefix=manifest.query_prefix,
            passage_prefix=manifest.passage_prefix,
            space_id="",
        )
    )


def check_model(
    home: Path,
    *,
    model: str | None = None,
    path: Path | None = None,
    threads: int | None = None,
) -> float | None:
    """Open the model, which checks its files, and compare the default one with the golden values.

    Returns:
        The largest difference to a golden value, or None for a model that has none.

    Raises:
        ModelCorruptError: A file or a value is wrong.
        ModelUnavailableError: The model is not there; a check builds nothing.
    """
    if model is None and path is None:
        path = built_model_directory(home)
    embedder = open_embedder(home, model=model, path=path, threads=threads)
    golden = read_golden()
    return verify_golden(embedder, golden) if embedder.space.model == golden.model else None


@dataclass(frozen=True, slots=True)
class GoldenText:
    """One text and what the model makes of it."""

    role: Role
    text: str
    token_ids: list[int]
    first_components: list[float]


@dataclass(frozen=True, slots=True)
class Golden:
    """Known-good results of one model. ``cosines`` is pairwise, in the order of ``texts``."""

    model: str
    tolerance: float
    texts: list[GoldenText]
    cosines: list[list[float]]


def read_golden() -> Golden:
    """The golden values that ship with the package."""
    content = json.loads(Path(__file__).with_name("golden_embeddings.json").read_bytes())
    texts = [GoldenText(**text) for text in content["texts"]]
    return Golden(content["model"], content["tolerance"], texts, content["cosines"])


def verify_golden(embedder: FastembedEmbedder, golden: Golden) -> float:
    """The largest difference between what the embedder returns and the golden values.

    Raises:
        ModelCorruptError: Token ids differ, or a number differs by more than the tolerance.
    """
    rows: list[NDArray[np.float32]] = []
    for text in golden.texts:
        if embedder.token_ids([text.text], text.role) != [text.token_ids]:
            raise ModelCorruptError(
                f"The tokenizer of {embedder.directory} splits {text.text!r} differently than the model expects; "
                "remove the directory and run `threadhouse model build`."
            )
        is_query = text.role == "query"
        vectors = (
            embedder.embed_query(text.text) if is_query else embedder.embed_passages([text.text])
        )
        rows.append(vectors.data[0])
    data = np.stack(rows)
    first = np.array([text.first_components for text in golden.texts])
    difference = max(
        float(np.abs(data[:, : first.shape[1]] - first).max()),
        float(np.abs(data @ data.T - np.array(golden.cosines)).max()),
    )
    if difference > golden.tolerance:
        raise ModelCorruptError(
            f"Vectors of {embedder.directory} differ from the golden values by {difference:.4f}, more than {golden.tolerance}; "
            "remove the directory and run `threadhouse model build`."
        )
    return difference


@dataclass(frozen=True, slots=True)
class ModelOnDisk:
    """A model that this home holds."""

    name: str
    directory: Path
    space_model: str
    dim: int
    size_bytes: int


def list_models(home: Path) -> list[ModelOnDisk]:
    """Every built or downloaded model of this home, by name; reads manifests only."""
    found: list[ModelOnDisk] = []
    built = built_model_directory(home)
    if (built / MANIFEST).is_file():
        found.append(_describe(built.name, built, read_manifest(built)))
    for record in sorted(_records_directory(home).glob("*.json")):
        directory, manifest = _parse_record(home, record)
        found.append(_describe(manifest.model, directory, manifest))
    return found


def download_model(home: Path, model: str, progress: Callable[[str], None] | None = None) -> Path:
    """Fetch a fastembed model from its hub into the home; record the hash of every file. Only this function uses the network.

    Raises:
        ConfigurationError: fastembed has no such model, or its prefixes are not known here.
        ModelUnavailableError: The hub did not answer, or answered with something else.
    """
    from fastembed import TextEmbedding

    _offer_e5_small()
    description = _describe_supported(model)
    query_prefix, passage_prefix = _prefixes_of(model, description)
    if progress:
        progress(f"Downloading {model} ({description['size_in_GB']} GB)")
    try:
        loaded = TextEmbedding(
            model,
            cache_dir=str(models_directory(home) / "downloaded"),
            providers=["CPUExecutionProvider"],
        )
    except (ValueError, OSError) as error:
        raise ModelUnavailableError(
            f"{model} could not be downloaded ({error}); check the network, or put its files into a folder and set "
            "EMBEDDING_PATH."
        ) from error
    inner: Any = loaded.model
    directory = Path(inner._model_dir)  # noqa: SLF001  # fastembed has no public name for where it put the files
    files = {
        path.relative_to(directory).as_posix(): hash_file(path)
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }
    weights = [
        files[name] for name in (description["model_file"], *description["additional_files"])
    ]
    manifest = ModelManifest(
        name=model.split("/")[-1],
        model=model,
        weights_sha256=weights[0] if len(weights) == 1 else hash_text(" ".join(weights)),
        tokenizer_sha256=files["tokenizer.json"],
        dim=description["dim"],
        max_tokens=_truncation_limit(loaded),
        pooling=type(inner).__name__,
        query_prefix=query_prefix,
        passage_prefix=passage_prefix,
        files=files,
        model_file=description["model_file"],
    )
    record = _record_path(home, model)
    record.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "directory": str(directory.resolve().relative_to(models_directory(home).resolve())),
        "manifest": asdict(manifest),
    }
    record.write_text(json.dumps(content, indent=1, sort_keys=True), encoding="utf-8")
    return directory


def _load_model(name: str, directory: Path, threads: int | None) -> TextEmbedding:
    from fastembed import TextEmbedding

    # onnxruntime raises classes that only this untyped module names, with no common base of their own.
    raised: Any = import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    load_errors: tuple[type[Exception], ...] = (
        ValueError,
        raised.Fail,
        raised.InvalidArgument,
        raised.InvalidGraph,
        raised.InvalidProtobuf,
        raised.NoSuchFile,
    )
    try:
        model = TextEmbedding(
            name,
            specific_model_path=str(directory),
            # Else fastembed makes an empty folder among the temporary files.
            cache_dir=str(directory),
            threads=threads,
            providers=["CPUExecutionProvider"],
            local_files_only=True,
        )
    except load_errors as error:
        raise ModelCorruptError(
            f"The files in {directory} cannot be loaded as a model; replace them ({error})."
        ) from error
    # Otherwise "<s>" or "<mask>" in somebody's text would steer the model instead of being read. (A unigram vocabulary that
    # holds them as pieces still matches them; the default model's is built without.)
    _tokenizer_of(model).encode_special_tokens = True
    return model


def _tokenizer_of(model: TextEmbedding) -> Tokenizer:
    return cast("Tokenizer", cast("Any", model.model).tokenizer)


def _truncation_limit(model: TextEmbedding) -> int:
    """Where fastembed cuts; it always sets a limit, from the model's own files."""
    truncation = cast("dict[str, Any]", cast("Any", _tokenizer_of(model)).truncation)
    return int(truncation["max_length"])


def _refuse_other_limit(model: TextEmbedding, manifest: ModelManifest) -> None:
    limit = _truncation_limit(model)
    if limit != manifest.max_tokens:
        raise ModelCorruptError(
            f"The manifest of {manifest.name} promises {manifest.max_tokens} tokens, but its tokenizer cuts at {limit}; "
            "correct max_tokens in the manifest."
        )


def _register(space: VectorSpace, manifest: ModelManifest) -> str:
    """Tell fastembed about a directory model, once a process: it refuses the same name a second time."""
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    name = f"threadhouse/{space.space_id}/{manifest.model_file}"
    if manifest.pooling not in PoolingType.__members__:
        raise ModelCorruptError(
            f"The manifest of {manifest.name} asks for pooling {manifest.pooling!r}; it must be one of "
            f"{', '.join(PoolingType.__members__)}."
        )
    with _REGISTRY_LOCK:
        if not _is_registered(name):
            TextEmbedding.add_custom_model(
                model=name,
                pooling=PoolingType[manifest.pooling],
                normalization=True,
                sources=ModelSource(hf=name),  # required by fastembed, never contacted
                dim=space.dim,
                model_file=manifest.model_file,
            )
    return name


def _offer_e5_small() -> None:
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    with _REGISTRY_LOCK:
        if not _is_registered(_E5_SMALL):
            TextEmbedding.add_custom_model(
                model=_E5_SMALL,
                pooling=PoolingType.MEAN,
                normalization=True,
                sources=ModelSource(hf=_E5_SMALL),
                dim=384,
                model_file="onnx/model.onnx",
                description="Multilingual, 512 input tokens, prefixes for queries/documents: necessary",
                license="mit",
                size_in_gb=0.47,
            )


def _is_registered(name: str) -> bool:
    from fastembed import TextEmbedding

    known = TextEmbedding.list_supported_models()
    return any(str(entry["model"]).lower() == name.lower() for entry in known)


def _describe_supported(model: str) -> dict[str, Any]:
    from fastembed import TextEmbedding

    for entry in TextEmbedding.list_supported_models():
        if str(entry["model"]).lower() == model.lower():
            return entry
    raise ConfigurationError(
        f"fastembed has no model {model!r}; choose one of its list, such as {_E5_SMALL}, or set EMBEDDING_PATH."
    )


def _prefixes_of(model: str, description: dict[str, Any]) -> tuple[str, str]:
    if model.lower() in _PREFIXES:
        return _PREFIXES[model.lower()]
    # fastembed writes "not necessary" or "not so necessary" into its descriptions; everything else means that they matter.
    words = str(description["description"])
    if "not necessary" in words or "not so necessary" in words:
        return "", ""
    raise ConfigurationError(
        f"{model} needs prefixes that are not known here; put its files into a folder with a manifest that names them, "
        "and set EMBEDDING_PATH."
    )


@contextmanager
def _uncapped(tokenizer: Tokenizer) -> Generator[Tokenizer, None, None]:
    """The tokenizer without its truncation and padding, for as long as the block lasts.

    A second tokenizer would be simpler and cost 280 MB: its vocabulary of 250,000 pieces is half of this model's memory.
    """
    settings = cast("Any", tokenizer)  # its stub types the settings as plain dicts
    truncation = cast("dict[str, Any] | None", settings.truncation)
    padding = cast("dict[str, Any] | None", settings.padding)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    try:
        yield tokenizer
    finally:
        if truncation is not None:
            settings.enable_truncation(**truncation)
        if padding is not None:
            settings.enable_padding(**padding)


def _records_directory(home: Path) -> Path:
    return models_directory(home) / "records"


def _record_path(home: Path, model: str) -> Path:
    return _records_directory(home) / f"{model.lower().replace('/', '--')}.json"


def _read_record(home: Path, model: str) -> tuple[Path, ModelManifest]:
    path = _record_path(home, model)
    if not path.is_file():
        raise ModelUnavailableError(
            f"EMBEDDING_MODEL={model} is not on this machine; run `threadhouse model download {model}` once."
        )
    return _parse_record(home, path)


def _parse_record(home: Path, path: Path) -> tuple[Path, ModelManifest]:
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
        return models_directory(home) / content["directory"], ModelManifest(**content["manifest"])
    except (ValueError, TypeError, KeyError) as error:
        raise ModelCorruptError(
            f"{path} cannot be read ({error}); remove it and run `threadhouse model download` again."
        ) from error


def _describe(name: str, directory: Path, manifest: ModelManifest) -> ModelOnDisk:
    size = sum(
        (directory / file).stat().st_size for file in manifest.files if (directory / file).is_file()
    )
    return ModelOnDisk(name, directory, manifest.model, manifest.dim, size)
