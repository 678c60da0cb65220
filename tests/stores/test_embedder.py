"""The embedder: everything fastembed leaves to its caller is done, and what is no vector is refused."""

from __future__ import annotations

import os
import shutil
import tempfile
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadhouse.retrieval.errors import (
    ConfigurationError,
    EmbedderError,
    EmptyTextError,
    ModelCorruptError,
    ModelUnavailableError,
)
from threadhouse.retrieval.ports import Embedder
from threadhouse.retrieval.text import prepare_text
from threadhouse.retrieval.vector_space import identify_space
from threadhouse.stores.embedders import (
    BATCH_TEXTS,
    BATCH_TOKENS,
    FastembedEmbedder,
    download_model,
    list_models,
    open_embedder,
    plan_batches,
)
from threadhouse.stores.model_build import (
    MANIFEST,
    ModelManifest,
    built_model_directory,
    hash_file,
    read_manifest,
)

SENTENCE = "Hợp đồng lao động phải được giao kết bằng văn bản. "
LONG = "".join(f"Điều {n}. {SENTENCE}\n" for n in range(90))


def test_it_is_an_embedder(embedder: FastembedEmbedder) -> None:
    port: Embedder = embedder
    assert port.space.dim == 384


def test_vectors_know_their_space_and_role_and_have_length_one(embedder: FastembedEmbedder) -> None:
    passages, query = embedder.embed_passages(["một", "hai"]), embedder.embed_query("một")
    assert (passages.role, query.role) == ("passage", "query")
    assert passages.space_id == query.space_id == embedder.space.space_id
    assert (passages.data.shape, query.data.shape) == ((2, 384), (1, 384))
    assert passages.data.dtype == np.float32
    assert np.linalg.norm(passages.data, axis=1) == pytest.approx(1, abs=1e-5)


def test_prefixes_are_added_here(embedder: FastembedEmbedder) -> None:
    bare = list(embedder.bare_model.embed(["query: Hà Nội", "passage: Hà Nội"]))
    assert np.array_equal(embedder.embed_query("Hà Nội").data[0], bare[0])
    assert np.array_equal(embedder.embed_passages(["Hà Nội"]).data[0], bare[1])


def test_a_question_finds_its_answer_across_languages(embedder: FastembedEmbedder) -> None:
    answers = [
        "Hà Nội là thủ đô của Việt Nam",
        "Everest is the highest mountain",
        "Python là một ngôn ngữ lập trình",
    ]
    passages = embedder.embed_passages(answers).data
    questions = ["thủ đô nước ta ở đâu?", "núi cao nhất thế giới", "programming language"]
    found = [int((embedder.embed_query(text).data @ passages.T).argmax()) for text in questions]
    assert found == [0, 1, 2]


@pytest.fixture(scope="module")
def single_thread_embedder(embedder: FastembedEmbedder, model_home: Path) -> FastembedEmbedder:
    """The same model, opened a second time in this process, on one thread."""
    return open_embedder(model_home, threads=1)


def test_the_same_model_opens_twice_in_one_process(
    embedder: FastembedEmbedder, single_thread_embedder: FastembedEmbedder
) -> None:
    assert single_thread_embedder.space == embedder.space


def test_opening_a_model_leaves_nothing_outside_the_home(
    model_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FASTEMBED_CACHE_PATH", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    open_embedder(model_home, threads=1)
    assert list(tmp_path.iterdir()) == []


def test_a_vector_depends_neither_on_its_batch_nor_on_threads(
    embedder: FastembedEmbedder, single_thread_embedder: FastembedEmbedder
) -> None:
    texts = [SENTENCE * count for count in (1, 12, 2, 30, 5)]
    together = embedder.embed_passages(texts).data
    alone = np.concatenate([single_thread_embedder.embed_passages([text]).data for text in texts])
    assert np.array_equal(together, alone)


def test_composed_and_decomposed_text_have_one_vector(embedder: FastembedEmbedder) -> None:
    forms = [unicodedata.normalize(form, "Cộng hòa Xã hội") for form in ("NFC", "NFD")]
    first, second = embedder.embed_passages(forms).data
    assert np.array_equal(first, second)


@pytest.mark.parametrize(
    "text", ["hỏng \ud800 x", "nul\x00 y", "<s> hi </s>", "🙂", "ﷺ" * 200, "a" * 5000, "\u0301x"]
)
def test_odd_text_gets_a_vector(embedder: FastembedEmbedder, text: str) -> None:
    assert np.isfinite(embedder.embed_passages([text]).data).all()


@pytest.mark.parametrize("text", ["", " \n\x00", "\u200b", "\ufeff \u00ad\u200b", "\ud800"])
def test_a_text_without_anything_to_read_is_refused_with_its_position(
    embedder: FastembedEmbedder, text: str
) -> None:
    with pytest.raises(EmptyTextError, match="position 1"):
        embedder.embed_passages(["có chữ", text])


def test_an_empty_question_is_refused(embedder: FastembedEmbedder) -> None:
    with pytest.raises(EmptyTextError):
        embedder.embed_query("  ")


def test_no_texts_give_no_vectors(embedder: FastembedEmbedder) -> None:
    assert embedder.embed_passages([]).data.shape == (0, 384)
    assert embedder.embed_long_passages([]).data.shape == (0, 384)


def test_a_text_beyond_the_limit_is_flagged(embedder: FastembedEmbedder) -> None:
    vectors = embedder.embed_passages(["từ " * 2000, "ngắn"])
    assert vectors.truncated.tolist() == [True, False]


def test_a_text_exactly_at_the_limit_is_not_flagged(embedder: FastembedEmbedder) -> None:
    overhead = embedder.count_tokens([""])[0]
    fits, exceeds = "từ " * (512 - overhead), "từ " * (513 - overhead)
    assert embedder.count_tokens([fits, exceeds]) == [512, 513]
    assert embedder.embed_passages([fits, exceeds]).truncated.tolist() == [False, True]


def test_tokens_are_counted_beyond_the_limit(embedder: FastembedEmbedder) -> None:
    assert embedder.count_tokens(["từ " * 2000])[0] > 2000
    # The trap this avoids: fastembed's own count stops where the model does.
    assert embedder.bare_model.token_count(["từ " * 2000]) == 512


def test_counting_leaves_the_limit_in_place(embedder: FastembedEmbedder) -> None:
    """One tokenizer does both: counting lifts its limit for a moment."""
    embedder.count_tokens(["từ " * 2000])
    assert embedder.embed_passages(["từ " * 2000]).truncated.tolist() == [True]


def test_counting_and_embedding_at_once_disturb_each_other_in_no_way(
    embedder: FastembedEmbedder,
) -> None:
    texts = ["từ " * 600, "ngắn"]
    expected_counts, expected_data = (
        embedder.count_tokens(texts),
        embedder.embed_passages(texts).data,
    )
    with ThreadPoolExecutor(4) as pool:
        counts = [pool.submit(embedder.count_tokens, texts) for _ in range(20)]
        vectors = [pool.submit(embedder.embed_passages, texts) for _ in range(3)]
        assert all(count.result() == expected_counts for count in counts)
        assert all(np.array_equal(vector.result().data, expected_data) for vector in vectors)


@pytest.mark.parametrize("text", ["<s>", "xin <mask> chào", "</s><pad><unk>"])
def test_special_tokens_in_a_text_are_read_as_text(embedder: FastembedEmbedder, text: str) -> None:
    (ids,) = embedder.token_ids([text], "passage")
    assert not {0, 1, 2, 3, 250001} & set(ids[1:-1])
    assert _ids_that_reach_the_model(embedder, f"passage: {text}") == ids


def _ids_that_reach_the_model(embedder: FastembedEmbedder, text: str) -> list[int]:
    inner: Any = embedder.bare_model.model
    return inner.tokenizer.encode(text).ids


# Long texts.


def test_a_short_text_gets_the_same_vector_by_both_ways(
    embedder: FastembedEmbedder,
) -> None:
    long_way, usual_way = (
        embedder.embed_long_passages([SENTENCE]),
        embedder.embed_passages([SENTENCE]),
    )
    assert np.array_equal(long_way.data, usual_way.data)


def test_a_long_text_is_the_mean_of_its_windows_by_tokens(embedder: FastembedEmbedder) -> None:
    windows = embedder.split_into_windows(LONG)
    assert len(windows) > 2
    overhead = embedder.count_tokens([""])[0]
    weights = np.array(embedder.count_tokens(windows)) - overhead
    mean = weights @ embedder.embed_passages(windows).data
    vectors = embedder.embed_long_passages(["ngắn", LONG])
    assert vectors.data[1] == pytest.approx(mean / np.linalg.norm(mean), abs=1e-5)
    assert vectors.truncated.tolist() == [False, False]


@pytest.mark.parametrize(
    "text", [LONG, "<mask> " * 700, "a" * 9000, "ﷺ" * 900, "từ\u200b" * 1500, "e" + "\u0302" * 3000]
)
def test_windows_stay_within_the_limit_and_lose_no_character(
    embedder: FastembedEmbedder, text: str
) -> None:
    windows = embedder.split_into_windows(text)
    assert max(embedder.count_tokens(windows)) <= embedder.space.max_tokens
    assert "".join("".join(windows).split()) == "".join(prepare_text(text).split())


def test_the_end_of_a_long_text_counts(embedder: FastembedEmbedder) -> None:
    start = SENTENCE * 45
    ends = [start + "Python is a programming language. " * 20, start + SENTENCE * 15]
    cut, whole = embedder.embed_passages(ends).data, embedder.embed_long_passages(ends).data
    assert np.array_equal(cut[0], cut[1])
    assert float(whole[0] @ whole[1]) < 0.999


# Batches.


@given(st.lists(st.integers(1, 512), max_size=200))
def test_batches_hold_every_text_once_within_both_bounds(token_counts: list[int]) -> None:
    batches = plan_batches(token_counts)
    assert sorted(position for batch in batches for position in batch) == list(
        range(len(token_counts))
    )
    for batch in batches:
        assert len(batch) <= BATCH_TEXTS
        assert max(token_counts[position] for position in batch) * len(batch) <= BATCH_TOKENS


def test_a_text_larger_than_a_batch_goes_alone() -> None:
    assert plan_batches([3000, 10]) == [[1], [0]]


# Other models. A tiny ONNX graph stands in for somebody's own: token id times a row of numbers.


def _write_model(directory: Path, tokenizer_of: Path, row: list[float], **changes: object) -> Path:
    from onnx import TensorProto, helper, numpy_helper

    directory.mkdir()
    graph = helper.make_graph(
        [
            helper.make_node("Cast", ["input_ids"], ["numbers"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["numbers", "last"], ["column"]),
            helper.make_node("Mul", ["column", "row"], ["last_hidden_state"]),
        ],
        "tiny",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])
            for name in ("input_ids", "attention_mask")
        ],
        [
            helper.make_tensor_value_info(
                "last_hidden_state", TensorProto.FLOAT, ["batch", "sequence", 2]
            )
        ],
        [
            numpy_helper.from_array(np.array([2], np.int64), "last"),
            numpy_helper.from_array(np.array(row, np.float32), "row"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    (directory / "model.onnx").write_bytes(model.SerializeToString())
    for name in ("tokenizer.json", "tokenizer_config.json", "config.json"):
        shutil.copy2(tokenizer_of / name, directory / name)
    files = {path.name: hash_file(path) for path in directory.iterdir()}
    manifest = ModelManifest(
        name="Tiny Model",
        model="test/tiny",
        weights_sha256=files["model.onnx"],
        tokenizer_sha256=files["tokenizer.json"],
        dim=2,
        max_tokens=512,
        pooling="MEAN",
        query_prefix="",
        passage_prefix="",
        files=files,
    )
    (directory / MANIFEST).write_text(_json(replace(manifest, **changes)))
    return directory


def _json(manifest: ModelManifest) -> str:
    import json

    return json.dumps(asdict(manifest))


def test_a_local_model_opens_beside_the_default_one_in_a_space_of_its_own(
    embedder: FastembedEmbedder, model_home: Path, tmp_path: Path
) -> None:
    path = _write_model(tmp_path / "tiny", built_model_directory(model_home), [3.0, 4.0])
    tiny = open_embedder(tmp_path, path=path, threads=1)
    assert tiny.embed_passages(["một"]).data[0] == pytest.approx([0.6, 0.8])
    assert tiny.space.space_id.startswith("tiny-model-2-")
    assert tiny.space.space_id != embedder.space.space_id


def test_added_special_tokens_of_another_model_are_read_as_text(
    model_home: Path, tmp_path: Path
) -> None:
    from tokenizers import Tokenizer

    built = built_model_directory(model_home)
    source = tmp_path / "source"
    source.mkdir()
    tokenizer = Tokenizer.from_file(str(built / "tokenizer.json"))
    tokenizer.add_special_tokens(["[STOP]"])
    tokenizer.save(str(source / "tokenizer.json"))
    for name in ("tokenizer_config.json", "config.json"):
        shutil.copy2(built / name, source / name)
    tiny = open_embedder(
        tmp_path, path=_write_model(tmp_path / "tiny", source, [3.0, 4.0]), threads=1
    )
    special = tokenizer.token_to_id("[STOP]")
    assert special not in tiny.token_ids(["xin [STOP] chào"], "passage")[0]
    assert special not in _ids_that_reach_the_model(tiny, "xin [STOP] chào")


@pytest.mark.parametrize("row", [[0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0]])
@pytest.mark.filterwarnings(
    "ignore:invalid value encountered:RuntimeWarning"
)  # fastembed divides inf by inf
def test_a_vector_without_a_direction_is_refused(
    model_home: Path, tmp_path: Path, row: list[float]
) -> None:
    path = _write_model(tmp_path / "tiny", built_model_directory(model_home), row)
    broken = open_embedder(tmp_path, path=path, threads=1)
    with pytest.raises(EmbedderError, match="length 1"):
        broken.embed_passages(["một"])


def test_a_vector_of_another_dimension_than_promised_is_refused(
    model_home: Path, tmp_path: Path
) -> None:
    path = _write_model(tmp_path / "tiny", built_model_directory(model_home), [3.0, 4.0], dim=3)
    with pytest.raises(EmbedderError, match="3 dimensions"):
        open_embedder(tmp_path, path=path, threads=1).embed_query("một")


def test_a_manifest_with_another_token_limit_is_refused(model_home: Path, tmp_path: Path) -> None:
    path = _write_model(
        tmp_path / "tiny", built_model_directory(model_home), [3.0, 4.0], max_tokens=8192
    )
    with pytest.raises(ModelCorruptError, match="cuts at 512"):
        open_embedder(tmp_path, path=path, threads=1)


def test_a_manifest_with_an_unknown_pooling_is_refused(model_home: Path, tmp_path: Path) -> None:
    path = _write_model(
        tmp_path / "tiny", built_model_directory(model_home), [3.0, 4.0], pooling="MAX"
    )
    with pytest.raises(ModelCorruptError, match="MEAN"):
        open_embedder(tmp_path, path=path, threads=1)


def test_a_file_that_is_no_onnx_model_is_refused(model_home: Path, tmp_path: Path) -> None:
    path = _write_model(tmp_path / "tiny", built_model_directory(model_home), [3.0, 4.0])
    (path / "model.onnx").write_bytes(b"not a model")
    manifest = read_manifest(path)
    files = manifest.files | {"model.onnx": hash_file(path / "model.onnx")}
    with pytest.raises(ModelCorruptError, match="cannot be loaded"):
        FastembedEmbedder(path, replace(manifest, files=files))


def test_a_local_model_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailableError):
        open_embedder(tmp_path, path=tmp_path / "nowhere")


def test_a_model_and_a_path_at_once_are_a_contradiction(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="unset one"):
        open_embedder(tmp_path, model="intfloat/multilingual-e5-large", path=tmp_path)


def test_a_hub_model_is_never_fetched_by_opening_it(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailableError, match="threadhouse model download"):
        open_embedder(tmp_path, model="intfloat/multilingual-e5-large")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_hub_model_is_refused_before_any_download(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no model"):
        download_model(tmp_path, "nobody/nothing")


def test_a_hub_model_with_unknown_prefixes_is_refused_before_any_download(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="prefixes"):
        download_model(tmp_path, "mixedbread-ai/mxbai-embed-large-v1")


def test_a_downloaded_model_is_recorded_and_opens_offline(
    embedder: FastembedEmbedder,
    model_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The hub's cache is laid out by hand, as after a finished download, so that nothing is fetched."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    name = "intfloat/multilingual-e5-small"
    cache = tmp_path / "models" / "downloaded" / "models--intfloat--multilingual-e5-small"
    snapshot = cache / "snapshots" / ("a" * 40)
    (snapshot / "onnx").mkdir(parents=True)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("a" * 40)
    built = built_model_directory(model_home)
    for file in ("tokenizer.json", "tokenizer_config.json", "config.json"):
        shutil.copy2(built / file, snapshot / file)
    _link_or_copy(built / "model.onnx", snapshot / "onnx" / "model.onnx")

    download_model(tmp_path, name)
    opened = open_embedder(tmp_path, model=name, threads=2)

    assert np.array_equal(opened.embed_query("x").data, embedder.embed_query("x").data)
    assert opened.space.space_id != embedder.space.space_id
    assert [model.name for model in list_models(tmp_path)] == [name]


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


# The identity of a space.


@pytest.mark.parametrize(
    "change",
    [
        {"model": "another"},
        {"weights_sha256": "0" * 64},
        {"tokenizer_sha256": "0" * 64},
        {"max_tokens": 256},
        {"pooling": "CLS"},
        {"query_prefix": ""},
        {"passage_prefix": "passage:"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_changes_a_vector_changes_the_space(
    embedder: FastembedEmbedder, change: dict[str, object]
) -> None:
    other = identify_space(replace(embedder.space, **change))
    assert other.space_id != embedder.space.space_id


def test_the_space_id_is_stable_and_fit_for_a_file_name(embedder: FastembedEmbedder) -> None:
    """Pinned: a changed id makes every installation embed everything anew, which must never happen by accident."""
    assert embedder.space.space_id == "me5-small-q4-384-3fbd7fa203"
