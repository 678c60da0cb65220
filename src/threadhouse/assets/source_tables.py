"""The users' tables that everything is built from.

Belongs here: specs of tables that Threadhouse reads and does not own. Does not belong here: anything it computes.
"""

import dagster as dg

from threadhouse.assets.automation import OWNERS

_DESCRIPTIONS = {
    "production_document": "Documents of the knowledge hub with their five flags; the text of legacy chunks.",
    "tac_logical_unit": "Information units: address, kind, lifecycle stage, flags and which version is live.",
    "tac_unit_version": "Immutable versions of units: revision, title, text.",
    "semantic_thread": "Threads that group units by subject, with aliases, labels and anchors.",
    "thread_membership": "Which unit belongs to which thread, in which role, how surely, and who confirmed it.",
    "expected_artifact_missing": "Stations of a thread's lifecycle chain that have nothing yet.",
    "universal_edge": "Links between units, documents and threads; an end may dangle.",
    "retrieval_metric_event": "What happened to every query: one row an event, written by the query path.",
}


def source_key(table: str) -> dg.AssetKey:
    """Key of one source table."""
    return dg.AssetKey(["directus", table])


CONTENT_TABLES = [
    source_key(t) for t in ("production_document", "tac_logical_unit", "tac_unit_version")
]
THREAD_TABLES = [
    source_key(t)
    for t in (
        "semantic_thread",
        "thread_membership",
        "expected_artifact_missing",
        "universal_edge",
    )
]
EVENT_TABLES = [source_key("retrieval_metric_event")]

source_tables = [
    dg.AssetSpec(
        source_key(table),
        description=description,
        group_name="source",
        kinds={"postgres"},
        owners=OWNERS,
    )
    for table, description in _DESCRIPTIONS.items()
]
