"""How a benchmark measures, and what it reports.

Belongs here: rounds, medians, peak memory of a process tree, the table on the terminal and the JSON file.
Does not belong here: what is measured (one module a benchmark).

Noise is met in three ways. Contestants take turns inside every round and the order rotates, so a busy minute of the machine
hits all of them; medians are reported and every round is kept in the JSON; the machine's load at the start stands beside them.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import psutil

from threadhouse.retrieval.models import Json

RESULTS = Path(__file__).parent / "results"
SAMPLE_MEMORY_EVERY_S = 0.1
"""Often enough to see a batch of half a second at its peak, seldom enough to cost nothing."""


class BenchSkippedError(Exception):
    """The benchmark needs something that is not here; the sentence says what."""


class BenchFailedError(Exception):
    """What was to be measured did not do what it promises, so its seconds mean nothing."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure, and what it is to be held against.

    ``peer`` is the bare tool, the other stage or the floor that the figure stands beside; ``rounds`` are the figures whose median
    ``value`` is, in the order in which they were taken.
    """

    name: str
    value: float
    unit: str
    peer: str = ""
    peer_value: float | None = None
    note: str = ""
    rounds: tuple[float, ...] = ()

    @property
    def ratio(self) -> float | None:
        """``value / peer_value``; None without a peer, or beside one that is zero."""
        return self.value / self.peer_value if self.peer_value else None

    def to_json(self) -> dict[str, Json]:
        """Everything, for a program."""
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "peer": self.peer or None,
            "peer_value": self.peer_value,
            "ratio": self.ratio,
            "note": self.note or None,
            "rounds": list(self.rounds),
        }


@dataclass(frozen=True, slots=True)
class Report:
    """What one benchmark found. ``settings`` are the options it ran with."""

    bench: str
    title: str
    settings: Mapping[str, Json]
    measures: Sequence[Measure]
    machine: Mapping[str, Json]
    taken_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def to_json(self) -> dict[str, Json]:
        """Everything, for a program."""
        return {
            "bench": self.bench,
            "title": self.title,
            "taken_at": self.taken_at.isoformat(timespec="seconds"),
            "machine": dict(self.machine),
            "settings": dict(self.settings),
            "measures": [measure.to_json() for measure in self.measures],
        }

    def write(self, folder: Path = RESULTS) -> Path:
        """Write the JSON file; a run never replaces the file of another."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.bench}-{self.taken_at:%Y%m%dT%H%M%S%f}.json"
        content = json.dumps(self.to_json(), ensure_ascii=False, indent=1)
        path.write_text(content + "\n", encoding="utf-8")
        return path

    def render(self) -> str:
        """The table for a person: aligned columns, one line a figure."""
        header = ("", "figure", "beside it", "ratio", "")
        lines = [header, *(_cells(measure) for measure in self.measures)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
        rendered = [
            "  ".join(
                cell.rjust(width) if column in {1, 3} else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        options = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        return "\n".join([f"{self.bench}: {self.title}", f"({options})", *rendered])


def _cells(measure: Measure) -> tuple[str, str, str, str, str]:
    beside = (
        f"{measure.peer} {format_number(measure.peer_value)}"
        if measure.peer_value is not None
        else measure.peer
    )
    ratio = f"{measure.ratio:.2f}x" if measure.ratio is not None else ""
    return (
        measure.name,
        f"{format_number(measure.value)} {measure.unit}".rstrip(),
        beside,
        ratio,
        measure.note,
    )


def format_number(value: float) -> str:
    """Three significant digits or all of an integer part; thousands grouped.

    Example:
        >>> [format_number(n) for n in (12345.6, 12.345, 0.01234, 7.0)]
        ['12,346', '12.3', '0.0123', '7']
    """
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def say(what: str) -> None:
    """Tell whoever waits what is being done; stdout is kept for the table."""
    print(f"  {what} ...", file=sys.stderr, flush=True)


def median(values: Sequence[float]) -> float:
    """The middle one; the mean of the middle two.

    Raises:
        BenchFailedError: There are none.
    """
    if not values:
        message = "There is no median of no rounds; run at least one."
        raise BenchFailedError(message)
    return float(statistics.median(values))


def seconds_of(work: Callable[[], object]) -> float:
    """How long one call takes. The garbage of those before it is collected first."""
    gc.collect()
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def interleave(
    rounds: int, contestants: Mapping[str, Callable[[], float]]
) -> dict[str, tuple[float, ...]]:
    """Let every contestant run once a round, in an order that rotates from round to round.

    Args:
        contestants: Each runs once and returns its own figure, mostly seconds, so that its preparation is not timed.

    Returns:
        The figures of each, in the order of the rounds.
    """
    names = list(contestants)
    figures: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        start = number % len(names)
        for name in names[start:] + names[:start]:
            figures[name].append(contestants[name]())
    return {name: tuple(taken) for name, taken in figures.items()}


@dataclass(frozen=True, slots=True)
class ProcessRun:
    """A command that ended well."""

    stdout: str
    seconds: float
    peak_mb: float


def run_process(command: Sequence[str], environment: Mapping[str, str]) -> ProcessRun:
    """Run a command to its end; measure seconds and the peak memory of it and all its children together.

    Memory is the resident set in MB (10^6 bytes), summed over the tree, so pages that two processes share count twice.

    Raises:
        BenchFailedError: It did not return 0.
    """
    started = time.perf_counter()
    with subprocess.Popen(
        command,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        peak = _PeakMemory(child.pid)
        try:
            stdout, stderr = child.communicate()
        finally:
            if child.poll() is None:  # we were interrupted, and nobody will read what it does
                child.terminate()
            seconds = time.perf_counter() - started
            peak_bytes = peak.finish()
    if child.returncode != 0:
        last = (stderr or stdout).strip().splitlines()[-5:]
        message = f"{' '.join(command[:3])} ended with {child.returncode}: " + " / ".join(last)
        raise BenchFailedError(message)
    return ProcessRun(stdout, seconds, peak_bytes / 1e6)


class _PeakMemory:
    """Watches a process tree from a thread until told to finish."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._peak_bytes = 0
        self._finished = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._finished.wait(SAMPLE_MEMORY_EVERY_S):
            self._peak_bytes = max(self._peak_bytes, self._now())

    def _now(self) -> int:
        try:
            tree = [self._process, *self._process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return 0
        total = 0
        for process in tree:
            try:
                total += process.memory_info().rss
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return total

    def finish(self) -> int:
        self._finished.set()
        self._thread.join()
        return self._peak_bytes


def describe_machine() -> dict[str, Json]:
    """What the figures depend on besides the code. Nothing that names the machine."""
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "load_1_min": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "system": platform.system(),
        "processor": platform.machine(),
    }
