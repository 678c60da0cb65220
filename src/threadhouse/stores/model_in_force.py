"""Which model the collections are asked and written with: the one that they were built with, found on this machine.

Belongs here: the space that the aliases mean, how its model is opened here, when the settings are to be refused.
Does not belong here: opening a model's files (stores.embedders), switching from one to another (stores.generations).

The collections decide. The settings name the model of a first build and a place to look; a process that was started before a
switch follows it. A model that no generation ever was of is refused, because somebody believes it to be in use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from threadhouse.retrieval.errors import EmbedderError, ModelUnavailableError, SpaceMismatchError
from threadhouse.retrieval.models import Collection, VectorSpace
from threadhouse.retrieval.ports import CandidateSearcher
from threadhouse.stores.vectors import generation_of

if TYPE_CHECKING:
    from threadhouse.stores.embedders import FastembedEmbedder
    from threadhouse.stores.settings import Settings


@dataclass(frozen=True, slots=True)
class ModelPlace:
    """How a model is opened: EMBEDDING_MODEL, or EMBEDDING_PATH, or the offline model when both are None."""

    model: str | None = None
    path: Path | None = None

    @property
    def named(self) -> str:
        """For a sentence."""
        if self.path is not None:
            return f"EMBEDDING_PATH={self.path}"
        return f"EMBEDDING_MODEL={self.model}" if self.model else "the offline model"


def space_in_force(searcher: CandidateSearcher) -> str | None:
    """The space of the collections that the aliases mean; None when nothing is published."""
    physical = searcher.aliases().get(Collection.INFORMATION_UNITS)
    return None if physical is None else generation_of(physical)[0]


def configured_place(settings: Settings) -> ModelPlace:
    """Where the settings say that the model is."""
    return ModelPlace(settings.embedding_model, settings.embedding_path)


def space_at(home: Path, place: ModelPlace) -> VectorSpace:
    """The space of a model, from its manifest; nothing is loaded.

    Raises:
        ModelUnavailableError: There is no model.
        ModelCorruptError: Its manifest cannot be read.
    """
    from threadhouse.stores.embedders import find_model, space_of

    _, manifest = find_model(home, model=place.model, path=place.path)
    return space_of(manifest)


def open_model(
    settings: Settings, place: ModelPlace, progress: Callable[[str], None] | None = None
) -> FastembedEmbedder:
    """Load the model of a place. Raises as `stores.embedders.open_embedder`."""
    from threadhouse.stores.embedders import open_embedder

    return open_embedder(
        settings.home,
        model=place.model,
        path=place.path,
        threads=settings.embedding_threads,
        progress=progress,
    )


def find_place(settings: Settings, space_id: str, recorded: Sequence[ModelPlace]) -> ModelPlace:
    """Where on this machine the model of a space is.

    Args:
        recorded: Where it was when its generation was built, perhaps on another machine.

    Raises:
        ModelUnavailableError: It is nowhere that is known here.
    """
    for place in _places(settings, recorded):
        try:
            if space_at(settings.home, place).space_id == space_id:
                return place
        except EmbedderError:
            # Not there or damaged: another place may do, and the sentence below names what is wanted.
            continue
    message = (
        f"The collections hold vectors of space {space_id}, whose model is not on this machine; fetch it "
        "(threadhouse model download NAME) or set EMBEDDING_PATH to its folder."
    )
    raise ModelUnavailableError(message)


def require_known(place: ModelPlace, configured: str, in_force: str, known: Sequence[str]) -> None:
    """Refuse settings that name a model which no generation ever was of.

    Args:
        configured: Space of the model that the settings name.
        in_force: Space of the collections.
        known: Spaces of generations that are or were there, or are being built.

    Raises:
        SpaceMismatchError: It is another model, and nobody built a generation of it.
    """
    if configured == in_force or configured in known:
        return
    message = (
        f"The collections hold vectors of space {in_force}, and {place.named} makes {configured}; correct the setting, or bring "
        "the new model in with threadhouse migrate-model build."
    )
    raise SpaceMismatchError(message)


def _places(settings: Settings, recorded: Sequence[ModelPlace]) -> Iterator[ModelPlace]:
    from threadhouse.stores.embedders import list_models

    yield configured_place(settings)
    yield from recorded
    yield ModelPlace()
    for each in list_models(settings.home):
        yield ModelPlace(model=each.name)
