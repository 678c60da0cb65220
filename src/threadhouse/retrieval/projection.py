"""What has to change so that a vector collection holds exactly what the source of truth says.

Belongs here: the comparison of wanted, published and stored, and the order in which differences are mended.
Does not belong here: reading, embedding, writing. A plan is a value; nothing in it is done yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from threadhouse.retrieval.audience import (
    HIGH_RISK_CONSENT,
    AudiencePolicy,
    Labels,
    lane_principal,
    visible,
)
from threadhouse.retrieval.errors import DeletionBrakeError, EmptySourceError
from threadhouse.retrieval.models import (
    Audience,
    Collection,
    DataClassification,
    Flags,
    Json,
    Principal,
)
from threadhouse.retrieval.payloads import digest, point_id

DEFAULT_DELETION_SHARE = 0.2
"""Share of a collection's owners that one run may delete unasked. A broken export looks like a mass deletion."""


@dataclass(frozen=True, slots=True)
class ProjectionOwner:
    """One thing a collection should hold: a unit in its live version, or a document in its live revision.

    ``payload`` is what all its chunks share; ``content_digest`` changes when its vectors would.
    """

    owner_id: str
    version_key: str
    content_digest: str
    labels: Labels
    payload: Mapping[str, Json]

    @property
    def payload_digest(self) -> str:
        return digest(dict(self.payload))


@dataclass(frozen=True, slots=True)
class ProjectionPointer:
    """What Postgres says a collection holds of one owner; readers drop hits of any other version."""

    owner_id: str
    version_key: str
    chunk_count: int
    content_digest: str
    payload_digest: str

    def point_ids(self, collection: Collection) -> tuple[UUID, ...]:
        return tuple(
            point_id(collection, self.version_key, index) for index in range(self.chunk_count)
        )


@dataclass(frozen=True, slots=True)
class ProjectionPlan:
    """Differences of one collection, in the order they are mended: access, then content, then clean-up.

    Attributes:
        collection: The collection.
        revoke: Owners whose text stands but whose labels or payload changed so that somebody loses sight of them.
        relabel: Owners whose text stands but whose payload changed otherwise.
        hide_old: Owners whose text changes and whose old points must be narrowed before the new text is embedded.
        publish: Owners to chunk, embed and write, in order.
        retire: Owners that are gone from the source.
        replace: Owners that leave this collection because another one takes over (documents that change sides, and their units).
        stray: Stored points that belong to no published version.
        unchanged: How many owners need nothing.
    """

    collection: Collection
    revoke: tuple[str, ...] = ()
    relabel: tuple[str, ...] = ()
    hide_old: tuple[str, ...] = ()
    publish: tuple[str, ...] = ()
    retire: tuple[str, ...] = ()
    replace: tuple[str, ...] = ()
    stray: tuple[UUID, ...] = ()
    unchanged: int = 0

    @property
    def is_empty(self) -> bool:
        return not (
            self.revoke
            or self.relabel
            or self.hide_old
            or self.publish
            or self.retire
            or self.replace
            or self.stray
        )


@dataclass(frozen=True, slots=True)
class RepairOrder:
    """Owners whose stored points an audit found wrong: ``rewrite`` the payloads, or ``rebuild`` everything."""

    rewrite: frozenset[str] = frozenset()
    rebuild: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ContentScope:
    """The owners that a change can have touched; a publish of this scope looks at no others.

    ``units`` are logical unit ids, ``documents`` document ids. A publish adds the units of these documents and the documents of
    these units by itself.
    """

    units: frozenset[str] = frozenset()
    documents: frozenset[str] = frozenset()


def rebuild_orders(scope: ContentScope) -> dict[Collection, RepairOrder]:
    """Everything of these owners is to be written again."""
    return {
        Collection.INFORMATION_UNITS: RepairOrder(rebuild=scope.units),
        Collection.PRODUCTION_DOCUMENTS: RepairOrder(rebuild=scope.documents),
    }


HIDDEN = Labels(flags=Flags(), lifecycle_stage=None, data_classification=None)
"""Labels that nobody may see."""


def probe_principals(policy: AudiencePolicy) -> tuple[Principal, ...]:
    """The readers a change of labels is judged by: every lane as it is, and with everything it could be permitted.

    With each permission alone as well, because two permissions together can hide what one of them lost.
    """
    probes: list[Principal] = []
    for audience in Audience:
        probes.append(lane_principal(audience))
        lane = policy.lanes.get(audience)
        grants = frozenset(lane.permission_grants) if lane else frozenset[str]()
        for permissions in (*(frozenset({grant}) for grant in sorted(grants)), grants):
            probes.extend(
                Principal(
                    subject=f"probe:{audience}",
                    audience=audience,
                    tool_permissions=permissions,
                    classifications=clearances,
                    high_risk_consents=consents,
                )
                for consents in (frozenset[str](), frozenset({HIGH_RISK_CONSENT}))
                for clearances in (
                    frozenset[str](),
                    frozenset(word.value for word in DataClassification),
                )
            )
    return tuple(probes)


def loses_and_gains(
    old: Labels, new: Labels, probes: Iterable[Principal], policy: AudiencePolicy
) -> tuple[bool, bool]:
    """Whether anybody loses, and whether anybody gains sight when labels change from ``old`` to ``new``."""
    loses = gains = False
    for probe in probes:
        before, after = visible(old, probe, policy), visible(new, probe, policy)
        loses |= before and not after
        gains |= after and not before
    return loses, gains


def interim_labels(
    old: Labels, new: Labels, probes: Iterable[Principal], policy: AudiencePolicy
) -> Labels | None:
    """Labels for the old text while the new text is being embedded; None when the old ones may stay.

    Nobody may see the old text through new labels that were given to the new text. So a change that only takes
    away is applied at once, and one that takes from some and gives to others hides the old text from everybody.
    """
    loses, gains = loses_and_gains(old, new, probes, policy)
    if not loses:
        return None
    return HIDDEN if gains else new


def plan_projection(
    collection: Collection,
    wanted: Mapping[str, ProjectionOwner],
    pointers: Mapping[str, ProjectionPointer],
    stored: Mapping[UUID, Labels],
    policy: AudiencePolicy,
    taken_over: frozenset[str] = frozenset(),
    repair: RepairOrder | None = None,
) -> ProjectionPlan:
    """Compare what should be there with what was published and with what is stored.

    Args:
        wanted: By owner id.
        pointers: By owner id; what Postgres says was published.
        stored: By point id; what the collection really holds, stray points included.
        policy: Judges which label changes take something away.
        taken_over: Owners that another collection holds from now on; their departure is no deletion.
        repair: What an audit found wrong in the collection although the pointers say it is right.
    """
    probes = probe_principals(policy)
    order = repair or RepairOrder()
    publish: list[str] = []
    revoke: list[str] = []
    relabel: list[str] = []
    hide_old: list[str] = []
    expected: set[UUID] = set()
    for owner_id, owner in wanted.items():
        pointer = pointers.get(owner_id)
        if pointer is None:
            publish.append(owner_id)
            continue
        ids = pointer.point_ids(collection)
        expected.update(ids)
        found = [stored[i] for i in ids if i in stored]
        if (
            owner_id in order.rebuild
            or pointer.content_digest != owner.content_digest
            or len(found) < len(ids)
        ):
            publish.append(owner_id)
            if any(
                interim_labels(old, owner.labels, probes, policy) is not None for old in set(found)
            ):
                hide_old.append(owner_id)
        elif (
            owner_id in order.rewrite
            or pointer.payload_digest != owner.payload_digest
            or any(old is not owner.labels and old != owner.labels for old in found)
        ):
            loses = any(loses_and_gains(old, owner.labels, probes, policy)[0] for old in set(found))
            (revoke if loses else relabel).append(owner_id)
    gone = [owner_id for owner_id in pointers if owner_id not in wanted]
    for owner_id in gone:
        expected.update(pointers[owner_id].point_ids(collection))
    changed = len(publish) + len(revoke) + len(relabel)
    return ProjectionPlan(
        collection=collection,
        revoke=tuple(revoke),
        relabel=tuple(relabel),
        hide_old=tuple(hide_old),
        publish=tuple(publish),
        retire=tuple(o for o in gone if o not in taken_over),
        replace=tuple(o for o in gone if o in taken_over),
        stray=tuple(i for i in stored if i not in expected),
        unchanged=len(wanted) - changed,
    )


def check_deletion_brake(
    plan: ProjectionPlan, published: int, allowed_share: float | None, gone: int = 0
) -> None:
    """Stop a run that would delete too much.

    Args:
        plan: What is about to happen; owners that another collection takes over are no deletions.
        published: Owners the collection holds now.
        allowed_share: 0 to 1; None allows any share.
        gone: Published owners that the source no longer names, those that this run leaves to others included: a mass deletion
            that arrives in small portions is one all the same.

    Raises:
        DeletionBrakeError: More than ``allowed_share`` of the owners would go.
    """
    if allowed_share is None or not published:
        return
    deletions = max(len(plan.retire), gone) if plan.retire else 0
    share = deletions / published
    if share > allowed_share:
        message = (
            f"This run would delete {deletions} of {published} from {plan.collection} ({share:.0%}, allowed "
            f"{allowed_share:.0%}); if that is right, run again with --allow-deletes."
        )
        raise DeletionBrakeError(message)


def check_source_is_not_empty(published: int, wanted: int) -> None:
    """Refuse to read an empty source as an order to delete; no option lifts this.

    Args:
        published: Owners that all collections hold together.
        wanted: Owners that the source names for all of them together.

    Raises:
        EmptySourceError: Nothing is wanted and something is there.
    """
    if published and not wanted:
        message = (
            f"The source is empty and {published} owners are published; that is never read as an order to delete. "
            "Check that the database is the right one."
        )
        raise EmptySourceError(message)


def check_threads_remain(published: int, threads: int, *, allow_deletes: bool) -> None:
    """Stop a run that would delete what was built of every thread, unless a person says that this is right.

    Args:
        published: Centroids or packs that are stored.
        threads: Threads that the source holds.
        allow_deletes: What ``--allow-deletes`` said.

    Raises:
        DeletionBrakeError: No thread is left and something is stored.
    """
    if published and not threads and not allow_deletes:
        message = (
            f"The source holds no thread any more and {published} centroids or packs are stored; if that is right, run "
            "again with --allow-deletes."
        )
        raise DeletionBrakeError(message)
