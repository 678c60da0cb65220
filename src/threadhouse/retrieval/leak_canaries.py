"""Leak canaries: texts that exist only to be hidden, and what every reader must and must not see of them.

Belongs here: which canaries there are, how they are labelled, what a reader sees of them, the verdict on what came out.
Does not belong here: planting them, running a path (stores.leak_probe, serving.leak_probe), who is told.

There is one unit for every combination of the five flags, a missing one included, and one document for every way in which one
or two labels differ from what everybody sees. For each of these ways there is a stale unit or document as well: its vector says
what was true before it was hidden.

Every canary carries a mark that occurs nowhere else, in its id, its address, its title and its text; so whatever comes out of a
path, in whatever field, is found by looking for marks. A path has to give exactly what a reader may see: one more is a leak, one
less means that the probe would also have passed by finding nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from itertools import chain, combinations, product
from typing import Any, TypeVar
from uuid import UUID, uuid5

from threadhouse.retrieval.audience import (
    FILTERED_FIELDS,
    HIGH_RISK_CONSENT,
    AudiencePolicy,
    Labels,
    allowed_values,
    lane_principal,
)
from threadhouse.retrieval.lanes import flags_leave_open, sight_of
from threadhouse.retrieval.models import (
    Audience,
    Authority,
    DataClassification,
    Flags,
    LifecycleStage,
    MembershipRole,
    MembershipStatus,
    Principal,
    PublicationState,
    Readiness,
    RiskClass,
    Visibility,
)

CANARY_WORD = "leakcanary"
"""In the text of every canary that is not stale, so that one question can ask for all of them."""

STALE_WORD = "stalecanary"
"""In the text of every stale one: as far as vectors know everybody sees them, and they would crowd out all others."""

CANARY_NAMESPACE = UUID("5b6f3f0e-9c1b-5b0a-8f6e-0f3e1c7a2d44")
"""Namespace of the version ids of canaries."""

_NAMED = 10
"""Marks that a report names; the rest is a number."""

_MARK = re.compile(r"cnry[0-9a-f]{8}[a-z][0-9]{4}")

STALE_FLOCKS = 5
"""Of stale canaries: about 40 units and as many documents each."""

RACES = 2 * len(Audience)
"""More than there are readers, since each withdraws rights of its own; see `probed_readers`."""

DIVISIONS = (1, 2, 4, 8, 16)
"""Into so many flocks the canaries that are not stale can be divided. Who sees few of them is asked about all at once."""

TURNS = 8
"""Of the units of all combinations one in eight is searched for at a time, so that eight nights ask the engine for all of them.

Postgres is asked for all of them every night, and the engine for everything that differs from the open labels in one or two."""

UNITS_OF_A_HOLDER = 16
"""About as many as documents have. Of thousands in one, the planner read all before it found that another document has none."""

LINKED_DOCUMENTS = 16
"""One document in so many is at the end of a link each night, others the next."""

VISIBLE_IN_A_FLOCK = 50
"""Canaries that one question may have to bring back: fewer than a search fetches, so that one that leaks is fetched too."""

OPEN = Labels(
    Flags(
        Visibility.PUBLIC,
        Readiness.PUBLISHED,
        PublicationState.PUBLISHED,
        RiskClass.LOW,
        Authority.ENACTED,
    ),
    LifecycleStage.LAW,
    DataClassification.UNCLASSIFIED,
)
"""Labels of what everybody sees under the shipped policy."""

_Word = TypeVar("_Word", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Flock:
    """What one question asks for: one of so many equal parts of the fresh canaries, or of the stale ones."""

    parts: int
    number: int
    is_stale: bool = False


@dataclass(frozen=True, slots=True)
class CanaryUnit:
    """One unit.

    ``own`` are its own flags, ``labels`` those that count after what its holder adds, ``published`` what its vector says.
    """

    mark: str
    number: int
    holder: CanaryHolder
    thread: str
    own: Flags
    labels: Labels
    published: Labels
    role: MembershipRole
    status: MembershipStatus
    is_stale: bool

    @property
    def version_id(self) -> UUID:
        """Its live version."""
        return uuid5(CANARY_NAMESPACE, self.mark)


@dataclass(frozen=True, slots=True)
class CanaryHolder:
    """A document that only holds units."""

    mark: str
    flags: Flags


@dataclass(frozen=True, slots=True)
class CanaryDocument:
    """A document without units; ``published`` is what its vector says."""

    mark: str
    number: int
    labels: Labels
    published: Labels
    is_stale: bool


@dataclass(frozen=True, slots=True)
class CanaryThread:
    """A thread; its mark is also in its title, purpose and alias."""

    mark: str
    flags: Flags = field(default_factory=Flags)


@dataclass(frozen=True, slots=True)
class CanaryGap:
    """An artefact that a thread is said to lack."""

    mark: str
    thread: str
    stage: LifecycleStage


@dataclass(frozen=True, slots=True)
class CanaryLink:
    """An edge from the one unit that everybody sees to something else."""

    kind: str
    target: str


@dataclass(frozen=True, slots=True)
class CanaryRace:
    """What a reader must no longer get when a right is withdrawn while its answer is on the way.

    Everything but ``hidden`` is seen by everybody at first, and each reader has some of it to lose.

    Attributes:
        thread: Holds all the units.
        kept: A unit that stays, so that there still is a pack.
        hidden: A unit that nobody can be allowed to see.
        built: Units; each is hidden in its turn, after a pack that holds it was read and before it leaves.
        found: Units that are hidden like that in a search.
        documents: The same.
    """

    thread: str
    kept: str
    hidden: str
    built: tuple[str, ...]
    found: tuple[str, ...]
    documents: tuple[str, ...]

    def flocks_of(self, mark: str) -> tuple[Flock, ...]:
        """For each reader, a question of its own finds what it loses in a search."""
        return tuple(
            flock
            for flock, *marks in zip(RACING, self.found, self.documents, strict=True)
            if mark in marks
        )


@dataclass(frozen=True, slots=True)
class CanaryHouse:
    """Everything that is planted.

    Attributes:
        units: By mark.
        members: Units of each thread; the open unit belongs to many.
        open_unit: The unit that everybody sees; links start from it.
        hub: The thread whose pack shows all links.
        race: A thread in which a right is withdrawn while it is being read.
        searched: Units and documents that have vectors.
    """

    nonce: str
    units: Mapping[str, CanaryUnit]
    holders: tuple[CanaryHolder, ...]
    documents: Mapping[str, CanaryDocument]
    threads: Mapping[str, CanaryThread]
    members: Mapping[str, tuple[str, ...]]
    gaps: tuple[CanaryGap, ...]
    links: tuple[CanaryLink, ...]
    open_unit: str
    hub: str
    race: CanaryRace
    searched: frozenset[str]

    def flocks_of(self, canary: CanaryUnit | CanaryDocument) -> tuple[Flock, ...]:
        """Every flock that a canary belongs to: one of each division, or one of the stale ones; in a race another one."""
        if canary.is_stale:
            return (Flock(STALE_FLOCKS, canary.number % STALE_FLOCKS, is_stale=True),)
        divided = tuple(Flock(parts, canary.number % parts) for parts in DIVISIONS)
        return divided + self.race.flocks_of(canary.mark)


STALE = tuple(Flock(STALE_FLOCKS, number, is_stale=True) for number in range(STALE_FLOCKS))
FRESH = tuple(Flock(parts, number) for parts in DIVISIONS for number in range(parts))
RACING = tuple(Flock(0, number) for number in range(RACES))


@dataclass(frozen=True, slots=True)
class CanarySight:
    """What one reader sees of a house, by mark.

    Attributes:
        published: Units and documents that the reader would see if vectors had the last word.
        holders: Documents whose title comes along with a unit.
        packs: Of each thread that the reader sees, every mark that its pack shows.
        links: Far ends that the pack of the hub shows.
        allowed: All of it together: no other mark may come out anywhere.
    """

    units: frozenset[str]
    documents: frozenset[str]
    published: frozenset[str]
    holders: frozenset[str]
    threads: frozenset[str]
    packs: Mapping[str, frozenset[str]]
    links: frozenset[str]
    allowed: frozenset[str]

    @property
    def content(self) -> frozenset[str]:
        """Units and documents."""
        return self.units | self.documents


@dataclass(frozen=True, slots=True)
class PathOutcome:
    """What came out of one path for one reader.

    Attributes:
        planted: Canaries that the path could have shown.
        must_see: How many the reader has to see.
        seen: How many came out.
        leaked: Marks (or ids) that came out and are hidden from the reader.
        missed: Marks that the reader sees and that did not come out.
    """

    reader: str
    path: str
    planted: int
    must_see: int
    seen: int
    leaked: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Nothing leaked and nothing was missed."""
        return not self.leaked and not self.missed

    def in_words(self) -> str:
        """What is wrong, with the first marks by name."""
        words = [
            f"{word} {', '.join(marks[:_NAMED])}"
            + (f" and {len(marks) - _NAMED:,} more" if len(marks) > _NAMED else "")
            for word, marks in (("leaked", self.leaked), ("missed", self.missed))
            if marks
        ]
        return f"{self.path} as {self.reader}: {'; '.join(words)}"


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """What one probe found.

    Attributes:
        outcomes: One for each path and reader.
        remarks: What could not be probed here, and why; and what was found before it was asked once more.
    """

    outcomes: tuple[PathOutcome, ...]
    seconds: float
    remarks: tuple[str, ...] = ()

    @property
    def faults(self) -> tuple[PathOutcome, ...]:
        """Outcomes that are not sound."""
        return tuple(each for each in self.outcomes if not each.is_sound)

    @property
    def only_missed(self) -> bool:
        """Whether something was not shown and nothing leaked."""
        return bool(self.faults) and not any(each.leaked for each in self.faults)

    @property
    def is_sound(self) -> bool:
        """Whether everything came out as it must, and something did come out."""
        return not self.faults and any(each.seen for each in self.outcomes)

    def table(self) -> str:
        """Markdown: one row for each path, one column for each reader, as seen of planted; what is wrong below."""
        rows = table_of(self.outcomes)
        readers = list(dict.fromkeys(row.reader for row in rows))
        cells = {(row.path, row.reader): _cell(row) for row in rows}
        lines = [["path", "planted", *readers], ["---"] * (len(readers) + 2)]
        for path in dict.fromkeys(row.path for row in rows):
            planted = max(row.planted for row in rows if row.path == path)
            lines.append([path, f"{planted:,}", *(cells.get((path, r), "") for r in readers)])
        text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        return "\n".join(
            [
                text,
                *(
                    f"- {line}"
                    for line in (*(each.in_words() for each in self.faults), *self.remarks)
                ),
            ]
        )


def _cell(row: PathOutcome) -> str:
    wrong = "".join(
        f", {count} {word}"
        for word, count in (("LEAKED", len(row.leaked)), ("MISSED", len(row.missed)))
        if count
    )
    return f"{row.seen:,} of {row.must_see:,}{wrong}"


def probed_readers(policy: AudiencePolicy) -> dict[str, Principal]:
    """Every lane as it is, and for each lane that grants something the reader who holds all that can be held."""
    readers: dict[str, Principal] = {}
    for audience in Audience:
        readers[audience] = lane_principal(audience)
        lane = policy.lanes.get(audience)
        if lane is not None and lane.permission_grants:
            readers[f"{audience}+"] = replace(
                lane_principal(audience),
                subject=f"probe:{audience}",
                tool_permissions=frozenset(lane.permission_grants),
                classifications=frozenset(DataClassification),
                high_risk_consents=frozenset({HIGH_RISK_CONSENT}),
            )
    return readers


def plan_canaries(nonce: str, turn: int = 0) -> CanaryHouse:
    """The whole house.

    Args:
        nonce: Eight hexadecimal digits; two probes at a time, or a text that quotes an old one, must not meet.
        turn: Which of the units of all combinations have vectors, and which links there are; another number each night.
    """
    planner = _Planner(nonce)
    planner.plant_combinations(turn)
    planner.plant_open_twins()
    planner.plant_near_misses()
    planner.plant_inheriting_units()
    planner.plant_closed_threads()
    planner.plant_race()
    planner.plant_links(turn)
    return planner.house()


def fresh_flocks(house: CanaryHouse, published: frozenset[str]) -> tuple[Flock, ...]:
    """The fewest flocks that ask for everything fresh and still leave room for what leaks.

    Args:
        published: What the reader sees as far as vectors know.
    """
    found = [
        (type(canary), house.flocks_of(canary))
        for canary in (*house.units.values(), *house.documents.values())
        if not canary.is_stale and canary.mark in published and canary.mark in house.searched
    ]
    sizes = Counter((kind, flock) for kind, flocks in found for flock in flocks)
    crowded = {flock.parts for (_, flock), size in sizes.items() if size > VISIBLE_IN_A_FLOCK}
    parts = min(set(DIVISIONS) - crowded, default=DIVISIONS[-1])
    return tuple(flock for flock in FRESH if flock.parts == parts)


def sight_of_canaries(
    house: CanaryHouse, principal: Principal, policy: AudiencePolicy
) -> CanarySight:
    """What ``principal`` sees of a house, told by `visible` alone."""
    sees = sight_of(principal, policy)
    units = frozenset(mark for mark, unit in house.units.items() if sees(unit.labels))
    documents = frozenset(mark for mark, each in house.documents.items() if sees(each.labels))
    published = frozenset(
        each.mark
        for each in (*house.units.values(), *house.documents.values())
        if sees(each.published)
    )
    threads = frozenset(
        mark
        for mark, thread in house.threads.items()
        if flags_leave_open(thread.flags, principal, policy)
        and any(
            member in units and house.units[member].status is not MembershipStatus.REJECTED
            for member in house.members[mark]
        )
    )
    links = frozenset(
        link.target
        for link in house.links
        if link.target in {"unit": units, "document": documents, "thread": threads}[link.kind]
    )
    stages = allowed_values(principal, policy)["lifecycle_stage"]
    packs = {
        thread: _marks_of_pack(house, thread, units, stages)
        | (links if house.open_unit in house.members[thread] else frozenset[str]())
        # Every other thread is at the far end of a link from the open unit.
        | ({house.open_unit} & units)
        for thread in threads
    }
    holders = frozenset(house.units[mark].holder.mark for mark in units)
    allowed = frozenset[str]().union(units, documents, threads, links, holders, *packs.values())
    return CanarySight(units, documents, published, holders, threads, packs, links, allowed)


def failed_probe(path: str, planted: int, reason: str) -> PathOutcome:
    """The outcome of a probe that did not come to its end."""
    return PathOutcome("every reader", path, planted, planted, 0, missed=(reason,))


def judge(
    reader: str,
    path: str,
    planted: int,
    seen: Iterable[str],
    *,
    allowed: frozenset[str],
    must_see: frozenset[str],
) -> PathOutcome:
    """Hold what came out of a path against what the reader may and must see of it."""
    found = frozenset(seen)
    return PathOutcome(
        reader,
        path,
        planted,
        len(must_see),
        len(found),
        tuple(sorted(found - allowed)),
        tuple(sorted(must_see - found)),
    )


def flock_word(house: CanaryHouse, flock: Flock) -> str:
    """A word in the text of every canary of a flock, and of no other."""
    kind = "stale" if flock.is_stale else "fresh"
    return f"{kind}{house.nonce}{flock.parts}x{flock.number}"


def canary_title(mark: str) -> str:
    """What a canary is called."""
    return f"Leak canary {mark}"


def canary_body(house: CanaryHouse, canary: CanaryUnit | CanaryDocument) -> str:
    """The text of a canary. Words with marks, so that the accented form of a search differs from the folded one."""
    return f"{_words_of(house, house.flocks_of(canary))} {canary.mark}."


def question_for(house: CanaryHouse, flock: Flock) -> str:
    """What finds every canary of a flock, in every list of a search."""
    return _words_of(house, [flock])


def _words_of(house: CanaryHouse, flocks: Sequence[Flock]) -> str:
    word = STALE_WORD if flocks[0].is_stale else CANARY_WORD
    return f"{word} {' '.join(flock_word(house, flock) for flock in flocks)} hoàng yến"


def marks_in(text: str) -> frozenset[str]:
    """Every mark of a canary that a text holds.

    Example:
        >>> sorted(marks_in("a cnry0123abcdu0001, b"))
        ['cnry0123abcdu0001']
    """
    return frozenset(_MARK.findall(text))


def table_of(outcomes: Iterable[PathOutcome]) -> list[PathOutcome]:
    """One row for each (path, reader), in the order of first appearance; several outcomes of one pair are added up."""
    rows: dict[tuple[str, str], PathOutcome] = {}
    for each in outcomes:
        known = rows.get((each.path, each.reader))
        rows[each.path, each.reader] = each if known is None else _added(known, each)
    return list(rows.values())


def _added(one: PathOutcome, other: PathOutcome) -> PathOutcome:
    return PathOutcome(
        one.reader,
        one.path,
        one.planted + other.planted,
        one.must_see + other.must_see,
        one.seen + other.seen,
        tuple(sorted({*one.leaked, *other.leaked})),
        tuple(sorted({*one.missed, *other.missed})),
    )


def _marks_of_pack(
    house: CanaryHouse, thread: str, units: frozenset[str], stages: frozenset[str]
) -> frozenset[str]:
    # A rejected unit that the reader sees is named under left_out, without its document.
    shown = [mark for mark in house.members[thread] if mark in units]
    kept = [m for m in shown if house.units[m].status is not MembershipStatus.REJECTED]
    return frozenset(
        chain(
            [thread],
            shown,
            (house.units[mark].holder.mark for mark in kept),
            (gap.mark for gap in house.gaps if gap.thread == thread and gap.stage in stages),
        )
    )


class _Planner:
    """Collects a house, one kind of canary after the other."""

    def __init__(self, nonce: str) -> None:
        if not re.fullmatch("[0-9a-f]{8}", nonce):
            message = f"A nonce has eight hexadecimal digits, not {nonce!r}."
            raise ValueError(message)
        self._nonce = nonce
        self._units: dict[str, CanaryUnit] = {}
        self._holders: dict[str, CanaryHolder] = {}
        self._documents: dict[str, CanaryDocument] = {}
        self._threads: dict[str, CanaryThread] = {}
        self._members: dict[str, list[str]] = {}
        self._gaps: list[CanaryGap] = []
        self._links: list[CanaryLink] = []
        self._counts = Counter[tuple[str, bool]]()
        self._left_open: set[Flags] = set()
        self._unsearched: set[str] = set()
        self._by_place: dict[tuple[str, bool, int], CanaryHolder] = {}
        self._by_cluster: dict[tuple[Visibility | None, Readiness | None], str] = {}
        self._stale = self._thread().mark
        self._hub = self._thread().mark
        self._open_unit = self._unit(OPEN, self._hub)
        self._race = CanaryRace("", "", "", (), (), ())

    def house(self) -> CanaryHouse:
        return CanaryHouse(
            nonce=self._nonce,
            units=self._units,
            holders=tuple(self._holders.values()),
            documents=self._documents,
            threads=self._threads,
            members={thread: tuple(marks) for thread, marks in self._members.items()},
            gaps=tuple(self._gaps),
            links=tuple(self._links),
            open_unit=self._open_unit,
            hub=self._hub,
            race=self._race,
            searched=frozenset({*self._units, *self._documents} - self._unsearched),
        )

    def plant_combinations(self, turn: int) -> None:
        """All combinations of the five flags. Stage and classification go round so that every two values of two fields meet."""
        stages, classes = tuple(LifecycleStage), tuple(DataClassification)
        scales = [_with_none(scale) for scale in _FLAG_WORDS]
        for place in product(*(range(len(scale)) for scale in scales)):
            flags = Flags(*(scale[at] for scale, at in zip(scales, place, strict=True)))  # pyright: ignore[reportArgumentType]
            secrecy = classes[(place[3] + 2 * place[4] + place[0] // 2) % len(classes)]
            labels = Labels(flags, stages[sum(place) % len(stages)], secrecy)
            if (
                labels.lifecycle_stage != LifecycleStage.INCIDENT
                and secrecy == OPEN.data_classification
            ):
                self._left_open.add(flags)
            status = _STATUSES[(place[1] + place[2] + place[4]) % len(_STATUSES)]
            self._unit(
                labels,
                self._cluster(flags),
                status=status,
                is_searched=(len(self._units) + turn) % TURNS == 0,
            )

    def plant_open_twins(self) -> None:
        """Where the five flags alone would let a lane in, one canary that stage and classification leave open as well."""
        for flags in (
            Flags(*words)
            for words in product(
                (Visibility.PUBLIC, Visibility.PARTNER, Visibility.EMPLOYEE, Visibility.INTERNAL),
                (Readiness.APPROVED, Readiness.PUBLISHED),
                (PublicationState.UNPUBLISHED, PublicationState.PUBLISHED),
                (RiskClass.LOW, RiskClass.STANDARD),
                Authority,
            )
        ):
            labels = replace(OPEN, flags=flags)
            self._document(labels)
            if flags not in self._left_open:
                self._unit(labels, self._cluster(flags))

    def plant_near_misses(self) -> None:
        """Everything that differs from the open labels in one or two of them: fresh documents, and stale units and documents.

        A rule that forgets one label lets the first kind out, one that takes two labels for alternatives the second. Of stale
        ones, those that differ in two places are a unit or a document by turns: what they hold against each other is one rule.
        """
        for number, labels in enumerate(_near_misses()):
            self._document(labels)
            is_single = sum(labels.value(name) != OPEN.value(name) for name in FILTERED_FIELDS) == 1
            can_be_unit = (
                labels.lifecycle_stage is not None and labels.data_classification is not None
            )
            if can_be_unit and (is_single or number % 2):
                self._unit(labels, self._stale, is_stale=True)
            if not can_be_unit or is_single or not number % 2:
                self._document(labels, is_stale=True)

    def plant_inheriting_units(self) -> None:
        """A unit that lacks one flag and takes it from its document, for each flag."""
        for each in fields(Flags):
            own = replace(OPEN.flags, **{each.name: None})
            self._unit(OPEN, self._hub, own=own)

    def plant_closed_threads(self) -> None:
        """For each value of each flag a thread that has it, over a unit that everybody sees and that no link starts from."""
        other = self._unit(OPEN, self._hub)
        for each, scale in zip(fields(Flags), _FLAG_WORDS, strict=True):
            for word in scale:
                change: dict[str, Any] = {each.name: word}
                thread = self._thread(Flags(**change))
                self._members[thread.mark].append(other)

    def plant_race(self) -> None:
        """A thread that everybody sees, what is withdrawn from it in turn, and what nobody may see of it."""
        thread = self._thread().mark
        secret = replace(OPEN, data_classification=DataClassification.SECRET)
        self._race = CanaryRace(
            thread,
            kept=self._unit(OPEN, thread, is_searched=False),
            hidden=self._unit(secret, thread, is_searched=False),
            built=tuple(self._unit(OPEN, thread, is_searched=False) for _ in range(RACES)),
            found=tuple(self._unit(OPEN, thread) for _ in range(RACES)),
            documents=tuple(self._document(OPEN) for _ in range(RACES)),
        )

    def plant_links(self, turn: int) -> None:
        """Edges from the open unit: to every thread, and each night to others of the published units and of the documents."""
        units = [
            mark
            for mark, unit in self._units.items()
            if unit.labels.flags.readiness is Readiness.PUBLISHED and mark != self._open_unit
        ]
        units = units[turn % TURNS :: TURNS]
        documents = list(self._documents)[turn % LINKED_DOCUMENTS :: LINKED_DOCUMENTS]
        self._links += [CanaryLink("unit", mark) for mark in units]
        self._links += [CanaryLink("document", mark) for mark in documents]
        self._links += [CanaryLink("thread", mark) for mark in self._threads if mark != self._hub]

    def _next(self, kind: str, is_stale: bool) -> int:
        """Units and documents are counted on their own: a question brings back so many of each."""
        self._counts[kind, is_stale] += 1
        return self._counts[kind, is_stale]

    def _mark(self, kind: str, number: int) -> str:
        return f"cnry{self._nonce}{kind}{number:04}"

    def _holder(self, thread: str, labels: Labels) -> CanaryHolder:
        """A document for units of a thread. Its flags must not widen a unit's, and one that is missing everywhere must hide."""
        is_whole = all(getattr(labels.flags, each.name) is not None for each in fields(Flags))
        place = (thread, is_whole, len(self._members[thread]) // UNITS_OF_A_HOLDER)
        known = self._by_place.get(place)
        if known is None:
            mark = self._mark("h", len(self._holders))
            known = self._holders[mark] = CanaryHolder(mark, OPEN.flags if is_whole else Flags())
            self._by_place[place] = known
        return known

    def _cluster(self, flags: Flags) -> str:
        """One thread for each visibility, so that some are hidden as a whole; of what is public, one for each readiness."""
        is_public = flags.visibility is Visibility.PUBLIC
        place = (flags.visibility, flags.readiness if is_public else None)
        if place not in self._by_cluster:
            self._by_cluster[place] = self._thread().mark
        return self._by_cluster[place]

    def _thread(self, flags: Flags | None = None) -> CanaryThread:
        number = len(self._threads)
        thread = CanaryThread(self._mark("t", number), flags or Flags())
        self._threads[thread.mark] = thread
        self._members[thread.mark] = []
        self._gaps += [
            CanaryGap(self._mark("g", number * 10 + rank), thread.mark, stage)
            for rank, stage in enumerate(LifecycleStage)
        ]
        return thread

    def _unit(
        self,
        labels: Labels,
        thread: str,
        *,
        own: Flags | None = None,
        is_stale: bool = False,
        is_searched: bool = True,
        status: MembershipStatus = MembershipStatus.CONFIRMED,
    ) -> str:
        number = len(self._units)
        unit = CanaryUnit(
            mark=self._mark("u", number),
            # Only what is searched for is divided into flocks.
            number=self._next("u", is_stale) if is_searched else 0,
            holder=self._holder(thread, labels),
            thread=thread,
            own=own or labels.flags,
            labels=labels,
            published=OPEN if is_stale else labels,
            role=_ROLES[number % len(_ROLES)],
            status=status,
            is_stale=is_stale,
        )
        self._units[unit.mark] = unit
        if not is_searched:
            self._unsearched.add(unit.mark)
        self._members[thread].append(unit.mark)
        return unit.mark

    def _document(self, labels: Labels, *, is_stale: bool = False) -> str:
        document = CanaryDocument(
            self._mark("d", len(self._documents)),
            self._next("d", is_stale),
            labels,
            OPEN if is_stale else labels,
            is_stale,
        )
        self._documents[document.mark] = document
        return document.mark


def _near_misses() -> Iterator[Labels]:
    """Labels that differ from the open ones in exactly one or two places."""
    scales: dict[str, tuple[object, ...]] = {
        **{
            each.name: _with_none(words)
            for each, words in zip(fields(Flags), _FLAG_WORDS, strict=True)
        },
        "lifecycle_stage": _with_none(LifecycleStage),
        "data_classification": tuple(DataClassification),
    }
    changes = [
        (name, word) for name, words in scales.items() for word in words if word != OPEN.value(name)
    ]
    for one, other in combinations([None, *changes], 2):
        if other is not None and (one is None or one[0] != other[0]):
            yield _with_labels([other] if one is None else [one, other])


def _with_labels(changes: Iterable[tuple[str, object]]) -> Labels:
    labels = OPEN
    for name, word in changes:
        change: dict[str, Any] = {name: word}
        if name in Flags.__dataclass_fields__:
            labels = replace(labels, flags=replace(labels.flags, **change))
        else:
            labels = replace(labels, **change)
    return labels


_FLAG_WORDS: tuple[type[StrEnum], ...] = (
    Visibility,
    Readiness,
    PublicationState,
    RiskClass,
    Authority,
)
_ROLES = tuple(MembershipRole)
_STATUSES = (
    MembershipStatus.CONFIRMED,
    MembershipStatus.PROPOSED,
    MembershipStatus.NEEDS_HUMAN,
    MembershipStatus.CONFIRMED,
    MembershipStatus.REJECTED,
)


def _with_none(words: type[_Word]) -> tuple[_Word | None, ...]:
    return (*words, None)
