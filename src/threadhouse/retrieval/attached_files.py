"""Files of views that attach somebody else's database: what they may say, before any server is asked.

Belongs here: taking a file apart into statements, reading its lines about changes, and refusing what makes no view.
Does not belong here: running it, or what its views have to show (stores.attached_sources).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# Comments, texts, quoted names and dollar-quoted bodies: nothing inside of them ends a statement. E'' may escape a quote.
_OPAQUE = re.compile(
    r"--[^\n]*|/\*.*?\*/|\b[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|(?P<tag>\$(?:[A-Za-z_]\w*)?\$).*?(?P=tag)",
    re.DOTALL,
)
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_MAKES_A_VIEW = re.compile(
    r"create\s+(?:or\s+replace\s+)?(?:recursive\s+)?view\s+(?P<schema>\"?source\"?)\s*\.",
    re.IGNORECASE,
)
_COMMENTS_ON_ONE = re.compile(r"comment\s+on\s+(?:view|column)\s+\"?source\"?\s*\.", re.IGNORECASE)
_CHANGES = re.compile(r"^[ \t]*--[ \t]*changes[ \t]*:(?P<said>.*)$", re.IGNORECASE | re.MULTILINE)
# Enough to find a statement by.
_SHOWN_CHARS = 60
_WORD = r"[A-Za-z_][A-Za-z0-9_$]*"
_SAID = re.compile(
    rf"\s*(?P<table>{_WORD}\.{_WORD})\.(?P<column>{_WORD})\s*->\s*(?P<view>{_WORD})\.(?P<id>{_WORD})\s*"
)


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """A row of ``table`` (schema.name) changes rows of ``view`` whose ``id_column`` holds the value of its ``column``."""

    line: int
    table: str
    column: str
    view: str
    id_column: str

    @property
    def arguments(self) -> tuple[str, str, str]:
        """What the trigger on the table is told."""
        return self.column, self.view, self.id_column


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """A file that may be run, as far as its text tells."""

    body: str
    changes: tuple[ChangeLine, ...]
    faults: tuple[str, ...]


def read_attached_file(body: str) -> AttachedFile:
    """Take a file apart; ``faults`` has a sentence, with its line, for each thing that may not be in it."""
    faults = [
        f"line {line}: {_start_of(text)!r} is not allowed; only views of schema source and comments on them are."
        for line, text in _statements(body)
        if not _MAKES_A_VIEW.match(text) and not _COMMENTS_ON_ONE.match(text)
    ]
    changes: list[ChangeLine] = []
    for match in _CHANGES.finditer(body):
        line = _line_of(body, match.start("said"))
        said = _SAID.fullmatch(match["said"])
        if said is None:
            faults.append(
                f"line {line}: a line about changes reads `-- changes: schema.table.column -> view.id_column`."
            )
        else:
            changes.append(
                ChangeLine(line, said["table"], said["column"], said["view"], said["id"])
            )
    if not faults and not _statements(body):
        faults.append("it makes no view.")
    return AttachedFile(body, tuple(changes), tuple(faults))


def _statements(body: str) -> list[tuple[int, str]]:
    """Line and text, without leading comments, of every statement."""
    ends: list[int] = []
    position = 0
    while position < len(body):
        opaque = _OPAQUE.match(body, position)
        if opaque:
            position = opaque.end()
            continue
        if body[position] == ";":
            ends.append(position)
        position += 1
    found: list[tuple[int, str]] = []
    start = 0
    for end in (*ends, len(body)):
        begin = _skip_blanks(body, start, end)
        if begin < end:
            found.append((_line_of(body, begin), body[begin:end]))
        start = end + 1
    return found


def _skip_blanks(body: str, start: int, end: int) -> int:
    while start < end:
        comment = _COMMENT.match(body, start, end)
        if comment:
            start = comment.end()
        elif body[start].isspace() or body[start] == "\ufeff":
            start += 1
        else:
            break
    return start


def _line_of(body: str, position: int) -> int:
    return body.count("\n", 0, position) + 1


def _start_of(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _SHOWN_CHARS else f"{words[: _SHOWN_CHARS - 3]}..."
