"""Which hits an explanation may name: an explanation is a way out as well, and what leaves is checked.

Belongs here: reading the labels of hits once more, under the reader's own role. Does not belong here: the checks of packs
(stores.pack_delivery), how an explanation looks (the command line).
"""

from __future__ import annotations

from collections.abc import Sequence

from threadhouse.retrieval.audience import Labels
from threadhouse.retrieval.lanes import sight_of, unit_labels
from threadhouse.retrieval.models import (
    Collection,
    DocumentId,
    InformationUnit,
    Principal,
    ProductionDocument,
    UnitId,
)
from threadhouse.retrieval.search_hits import SearchHit
from threadhouse.stores.knowledge import KnowledgeReader
from threadhouse.stores.postgres import Database
from threadhouse.stores.reader_roles import begin_reading


def hits_in_sight(
    database: Database, hits: Sequence[SearchHit], principal: Principal
) -> tuple[SearchHit, ...]:
    """Those of some hits that the principal may see now, whatever the search that found them believed.

    Raises:
        StoreUnreachableError: Postgres does not answer.
    """
    of = {
        collection: [hit.owner_id for hit in hits if hit.collection is collection]
        for collection in (Collection.INFORMATION_UNITS, Collection.PRODUCTION_DOCUMENTS)
    }
    with database.connect() as connection:
        knowledge = KnowledgeReader(connection)
        sees = sight_of(principal, knowledge.policy())
        begin_reading(connection, principal)
        units = knowledge.visible_units([UnitId(each) for each in of[Collection.INFORMATION_UNITS]])
        seen = {
            (Collection.INFORMATION_UNITS, unit.logical_unit_id)
            for unit in units
            if isinstance(unit, InformationUnit) and sees(unit_labels(unit))
        }
        documents = knowledge.visible_documents(
            [DocumentId(each) for each in of[Collection.PRODUCTION_DOCUMENTS]]
        )
        seen |= {
            (Collection.PRODUCTION_DOCUMENTS, document.document_id)
            for document in documents
            if isinstance(document, ProductionDocument) and sees(_labels_of(document))
        }
    return tuple(hit for hit in hits if (hit.collection, hit.owner_id) in seen)


def _labels_of(document: ProductionDocument) -> Labels:
    return Labels(document.flags, document.lifecycle_stage, document.data_classification)
