"""The project's own files, as the architecture tests read them.

Belongs here: finding, reading and parsing files of this checkout. Does not belong here: rules about them.
"""

from __future__ import annotations

import ast
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "threadhouse"


@dataclass(frozen=True)
class SourceModule:
    """One Python file of the package, parsed."""

    path: Path
    tree: ast.Module

    @property
    def name(self) -> str:
        """Path below the package, as a failure message should show it."""
        return self.path.relative_to(PACKAGE).as_posix()

    def imports_at_module_level(self) -> set[str]:
        """Top-level packages that importing this module imports."""
        found: set[str] = set()
        for node in self.tree.body:
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.split(".")[0])
        return found


@cache
def source_modules() -> tuple[SourceModule, ...]:
    """Every module of the package, in a stable order."""
    return tuple(
        SourceModule(path, ast.parse(path.read_text(encoding="utf-8"), str(path)))
        for path in sorted(PACKAGE.rglob("*.py"))
    )


@cache
def tracked_files() -> tuple[Path, ...]:
    """What git tracks in this checkout; empty outside a git checkout."""
    listing = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=False
    )
    names = listing.stdout.decode().split("\0") if listing.returncode == 0 else []
    return tuple(ROOT / name for name in names if name and (ROOT / name).is_file())
