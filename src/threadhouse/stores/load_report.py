"""What a load did, for a program and for a person.

Belongs here: counts, what was refused or skipped, the two renderings. Does not belong here: doing it (stores.loading).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from threadhouse.retrieval.models import Json
from threadhouse.retrieval.sources import Fault, LoadTable
from threadhouse.stores.source_files import SkippedFile

_SHOWN_FAULTS = 20


@dataclass(slots=True)
class TableCounts:
    """What became of the rows of one table. ``new_versions`` counts texts, everything else rows."""

    read: int = 0
    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    new_versions: int = 0
    quarantined: int = 0
    filtered: int = 0
    repeated: int = 0

    def add(self, other: TableCounts) -> None:
        """Add the counts of another batch."""
        for part in fields(self):
            setattr(self, part.name, getattr(self, part.name) + getattr(other, part.name))


@dataclass(slots=True)
class LoadReport:
    """What a load did."""

    source: str
    tables: dict[str, TableCounts] = field(default_factory=dict[str, TableCounts])
    quarantined: list[Fault] = field(default_factory=list[Fault])
    skipped: list[SkippedFile] = field(default_factory=list[SkippedFile])
    notes: list[str] = field(default_factory=list[str])
    resolved: int = 0

    def of(self, table: LoadTable) -> TableCounts:
        """The counts of a table, zeros when nothing of it was read."""
        return self.tables.setdefault(table, TableCounts())

    @property
    def write_count(self) -> int:
        """Rows and versions written to the users' tables."""
        return sum(
            counts.inserted + counts.updated + counts.new_versions
            for counts in self.tables.values()
        )

    def to_json(self) -> dict[str, Json]:
        """The report as a JSON object."""
        return {
            "source": self.source,
            "tables": {
                name: {part.name: getattr(counts, part.name) for part in fields(counts)}
                for name, counts in self.tables.items()
            },
            "quarantined": [
                {
                    "item": fault.item_key,
                    "file": fault.origin.file,
                    "line": fault.origin.line,
                    "field": fault.field,
                    "reason": fault.reason,
                }
                for fault in self.quarantined
            ],
            "skipped": [{"file": file.file, "reason": file.reason} for file in self.skipped],
            "notes": list[Json](self.notes),
            "resolved": self.resolved,
        }

    def render(self) -> str:
        """The report for a person: a table of counts, then what was refused and why."""
        columns = (
            "read",
            "inserted",
            "updated",
            "unchanged",
            "new_versions",
            "quarantined",
            "filtered",
            "repeated",
        )
        lines = [
            f"Loaded {self.source}",
            f"{'':28}" + "".join(f"{name.replace('_', ' '):>14}" for name in columns),
        ]
        lines += [
            f"{table:28}" + "".join(f"{getattr(self.tables[table], name):>14,}" for name in columns)
            for table in LoadTable
            if table in self.tables
        ]
        if self.quarantined:
            lines.append(f"Quarantined, {len(self.quarantined):,} in all:")
            lines += [f"  {fault}" for fault in self.quarantined[:_SHOWN_FAULTS]]
            if len(self.quarantined) > _SHOWN_FAULTS:
                lines.append(
                    "  … all of them are in nao.quarantined_item and in the JSON form of this report"
                )
        if self.skipped:
            lines.append(f"Skipped files, {len(self.skipped):,}:")
            lines += [f"  {file.file}: {file.reason}" for file in self.skipped]
        if self.resolved:
            lines.append(f"Resolved since the last load: {self.resolved:,} quarantined items.")
        lines += self.notes
        return "\n".join(lines)
