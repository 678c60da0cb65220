"""The page of the health report in a real browser: in light and in dark, on a desk and on a phone, without a network.

Method: headless Chromium over its debugging protocol, once for the module. Where there is no Chromium the tests are skipped;
`.ci/run` installs it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

from threadhouse.retrieval.health_figures import (
    CountFigure,
    GapDayFigure,
    GapFigure,
    HealthFigures,
    NightFigure,
    RateFigure,
    ReplayFigure,
    ShareFigure,
    TrendFigure,
    WaitFigure,
)
from threadhouse.retrieval.health_report import COLOURS, render_html
from threadhouse.retrieval.metrics import RATES

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
PATIENCE_S = 60
PHONE, DESK = 375, 1280
LAST = date(2026, 11, 30)
DAYS = tuple(LAST - timedelta(days=ago) for ago in reversed(range(28)))
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


def full_figures() -> HealthFigures:
    """A report in which every section has something, with names as long as they get and no place to break them."""
    rates = tuple(
        RateFigure(
            rate.name, lane, 7, 10, 0.7, 0.4, 0.9, rate.target, requires_instrumentation=False
        )
        for lane in ("overall", "customer")
        for rate in RATES
    )
    share = ShareFigure(7, 10, 0.7, 0.4, 0.9)
    days = tuple(None if number % 5 == 0 else share for number in range(len(DAYS)))
    endless = "x" * 200
    counts = (CountFigure(endless, 1_234_567, endless, datetime(2026, 11, 30, tzinfo=UTC)),)
    return HealthFigures(
        report_day=LAST,
        window_days=len(DAYS),
        lane="overall",
        time_zone="Asia/Ho_Chi_Minh",
        days=DAYS,
        of_day=rates,
        of_window=rates,
        trends=tuple(
            TrendFigure(rate.name, lane, days) for lane in ("overall", "customer") for rate in RATES
        ),
        gaps=(
            GapFigure("search_gap", 12, 3_456, 1, 2, 30, 40, datetime(2026, 11, 30, tzinfo=UTC)),
        ),
        gap_days=tuple(GapDayFigure(day, 3, 2) for day in DAYS),
        thread_health=counts,
        packs=counts,
        replay=ReplayFigure(datetime(2026, 11, 30, tzinfo=UTC), 50, 4, 40, 2, "passed"),
        security_events=counts,
        freshness=counts,
        waits=(
            *(WaitFigure(day, 3, 60.0, 3_600.0, 90.0, 4_000.0, 0) for day in DAYS),
            WaitFigure(None, 84, 60.0, 3_600.0, 90.0, 4_000.0, 0),
        ),
        projections=counts,
        audits=counts,
        data_checks=counts,
        nights=tuple(NightFigure(day, 61.5, 1_000_000, 7, 2_000_000) for day in DAYS),
        quarantine=counts,
        last_runs=counts,
    )


@dataclass
class Tab:
    """One tab, driven over the debugging protocol; ``seen`` are the events that it sent."""

    socket: ClientConnection
    session: str
    seen: list[Mapping[str, Any]] = field(default_factory=list)
    _number: int = 0

    def call(self, method: str, **parameters: object) -> Mapping[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.socket.send(json.dumps(message))
        while True:
            answer = json.loads(self.socket.recv(timeout=PATIENCE_S))
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self.seen.append(answer)

    def open(self, page: Path, *, width: int, scheme: str) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=800,
            deviceScaleFactor=1,
            mobile=width == PHONE,
        )
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.call(f"{domain}.enable")
        self.seen.clear()
        self.call("Page.navigate", url=page.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.seen):
            self.seen.append(json.loads(self.socket.recv(timeout=PATIENCE_S)))
        self.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")

    def evaluate(self, expression: str) -> Any:  # noqa: ANN401 - whatever the page answers
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Generator[ClientConnection, None, None]:
    profile = tmp_path_factory.mktemp("chromium")
    process = subprocess.Popen(
        [
            *(
                str(CHROMIUM),
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
            ),
            *("--no-first-run", "--disable-background-networking", "--remote-debugging-port=0"),
            f"--user-data-dir={profile}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        address = profile / "DevToolsActivePort"
        deadline = time.monotonic() + PATIENCE_S
        while not (address.exists() and len(address.read_text().split()) == 2):
            assert process.poll() is None, "Chromium ended before it listened."
            assert time.monotonic() < deadline, "Chromium did not start to listen."
            time.sleep(0.05)
        port, path = address.read_text().split()
        with connect(f"ws://127.0.0.1:{port}{path}", max_size=None, proxy=None) as socket:
            yield socket
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def tab(browser: ClientConnection) -> Generator[Tab, None, None]:
    control = Tab(browser, "")
    target = control.call("Target.createTarget", url="about:blank")["targetId"]
    attached = control.call("Target.attachToTarget", targetId=target, flatten=True)
    yield Tab(browser, attached["sessionId"])
    control.call("Target.closeTarget", targetId=target)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("report") / "overall.html"
    file.write_text(render_html(full_figures()), encoding="utf-8")
    return file


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_the_page_fits_and_asks_for_nothing(tab: Tab, page: Path, width: int, scheme: str) -> None:
    tab.open(page, width=width, scheme=scheme)
    wide = tab.evaluate(
        "[...document.querySelectorAll('body *')].filter(each => !each.closest('thead')"
        " && each.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5)"
        ".map(each => each.outerHTML.slice(0, 80))"
    )
    assert wide == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    asked = [
        e["params"]["request"]["url"]
        for e in tab.seen
        if e["method"] == "Network.requestWillBeSent"
    ]
    assert asked == [page.as_uri()]
    complaints = {"Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"}
    assert [event for event in tab.seen if event["method"] in complaints] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_and_drawings_take_the_colours_of_the_scheme(
    tab: Tab, page: Path, scheme: str
) -> None:
    tab.open(page, width=DESK, scheme=scheme)
    shown = tab.evaluate(
        "({page: getComputedStyle(document.body).backgroundColor,"
        " line: getComputedStyle(document.querySelector('.chart path[stroke=\"var(--mark)\"]')).stroke,"
        " label: getComputedStyle(document.querySelector('.chart text')).fill})"
    )
    wanted = {"page": "page", "line": "mark", "label": "soft"}
    assert shown == {name: _rgb(COLOURS[scheme][colour]) for name, colour in wanted.items()}


def test_charts_can_be_read_on_a_phone(tab: Tab, page: Path) -> None:
    tab.open(page, width=PHONE, scheme="light")
    smallest = tab.evaluate(
        "Math.min(...[...document.querySelectorAll('.chart text')].map(each => each.getBoundingClientRect().height))"
    )
    assert smallest >= 10


def _rgb(colour: str) -> str:
    return f"rgb({int(colour[1:3], 16)}, {int(colour[3:5], 16)}, {int(colour[5:7], 16)})"
