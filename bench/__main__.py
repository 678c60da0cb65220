"""``python -m bench``: run benchmarks by name, or all of them with their quick defaults."""

from __future__ import annotations

import argparse
import ast
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from bench.measuring import (
    BenchFailedError,
    BenchSkippedError,
    Measure,
    Report,
    describe_machine,
)
from threadhouse.retrieval.models import Json

BENCHES = (
    "nightly",
    "audit",
    "publish",
    "retrieval",
    "quality",
    "latency",
    "leaks",
    "revoke",
    "sync",
    "soak",
    "access_cost",
    "growth",
    "metrics",
)
"""In the order in which all of them run."""


class Bench(Protocol):
    """What a module of this package offers; its docstring says what is compared with what."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the options; the defaults are quick."""
        ...

    def run(self, options: argparse.Namespace) -> list[Measure]:
        """Measure."""
        ...


def title_of(name: str) -> str:
    """The first sentence of a benchmark's docstring; nothing is imported for it."""
    source = Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
    docstring = ast.get_docstring(ast.parse(source)) or ""
    return docstring.splitlines()[0].rstrip(".")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for.

    Returns:
        0, also when something was skipped; 1 when a benchmark failed; argparse ends with 2 for a wrong command line.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given == ["--list"]:
        for name in BENCHES:
            print(f"{name:10} {title_of(name)}")
        return 0
    if given and not given[0].startswith("-"):
        return _run(given[0], given[1:])
    if given:
        _usage().parse_args(given)
    codes = [_run(name, []) for name in BENCHES]
    return max(codes)


def _usage() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Without a name: all benchmarks with their quick defaults. With one: it takes options, see NAME --help.",
    )
    parser.add_argument("--list", action="store_true", help="Say what there is.")
    parser.add_argument("name", nargs="?", choices=BENCHES)
    return parser


def _run(name: str, arguments: Sequence[str]) -> int:
    if name not in BENCHES:
        _usage().parse_args([name])
    module = cast("Bench", import_module(f"bench.{name}"))
    parser = argparse.ArgumentParser(prog=f"python -m bench {name}", description=title_of(name))
    module.add_arguments(parser)
    options = parser.parse_args(arguments)
    machine = describe_machine()  # before the benchmark itself loads the machine
    try:
        measures = module.run(options)
    except BenchSkippedError as skipped:
        print(f"{name}: skipped. {skipped}\n")
        return 0
    except BenchFailedError as failed:
        print(f"{name}: FAILED. {failed}\n", file=sys.stderr)
        return 1
    report = Report(name, title_of(name), settings_of(options), measures, machine)
    print(report.render())
    path = report.write()
    print(f"JSON: {path.relative_to(Path(__file__).parents[1])}\n", flush=True)
    return 0


def settings_of(options: argparse.Namespace) -> dict[str, Json]:
    """The options as they go into the report; a path by its name alone, so that no file names a place of one machine."""
    values: dict[str, Json] = {}
    for name, value in vars(options).items():
        values[name] = value.name if isinstance(value, Path) else value
    return values


if __name__ == "__main__":
    # Ended from outside, a benchmark still stops the server that it started and removes its home.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
