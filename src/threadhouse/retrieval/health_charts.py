"""Charts of the health report as static SVG.

Belongs here: how a chart looks: marks, scales, colours by name. Altair describes a chart, Vega draws it inside this process.
Does not belong here: which figures are drawn (``retrieval.health_report``), the page around them (``health_report_page``).

Colours are the page's CSS variables, so that one drawing serves light and dark. Nothing but numbers, and labels that are made
here, gets into a drawing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    import altair as alt

WIDTH = 330
"""As wide as the card of a phone of 375 px, so that text is read there in its own size."""

HEIGHT = 128
LABEL_EVERY_DAYS = 7
"""Labelled days of four weeks; the same weekday each time, the last day always among them."""

_OPENING_TAG = re.compile(r"^\s*<svg\b[^>]*>")
_NOISE = re.compile(r' (?:aria-[a-z]+|role|class|pointer-events|display)="[^"]*"')
_EMPTY = re.compile(
    r'<path d=""[^>]*/>|<path d="M0,0h0v0h0Z"[^>]*/>|<path d="M0,0h\d+v\d+h-\d+Z"/>'
)
_FONT = re.compile(r' font-family="[^"]*"')
_SECONDS_IN = {"s": 1, "min": 60, "h": 3_600, "d": 86_400}

_LAYOUT: Final[Mapping[str, Any]] = {
    "width": WIDTH,
    "height": HEIGHT,
    "padding": {"left": 5, "right": 16, "top": 8, "bottom": 3},
    "autosize": {"type": "fit", "contains": "padding"},
    "background": "transparent",
    "config": {
        # Vega would word every mark for screen readers, and the page says it in the drawing's description.
        "aria": False,
        "view": {"stroke": None},
        "axis": {
            "labelColor": "var(--soft)",
            "labelFontSize": 11,
            "gridColor": "var(--line)",
            "domain": False,
            "ticks": False,
            "title": None,
        },
    },
}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing with what a screen reader says instead of it. ``body`` is the inside of an svg element of WIDTH by HEIGHT."""

    title: str
    description: str
    body: str


@dataclass(frozen=True, slots=True)
class Series:
    """Values by day, None where there is none. ``colour`` names a CSS variable of the page: mark, good, bad, warn or soft."""

    name: str
    colour: str
    values: tuple[float | None, ...]


def rate_chart(
    title: str,
    days: Sequence[date],
    shares: Sequence[tuple[float, float, float] | None],
    target: float | None,
) -> Chart:
    """A rate by day as a line, its interval as a band, its target as a broken line; y is from 0 to 100 %.

    Args:
        title: What the rate is called.
        days: Without gaps, oldest first.
        shares: (rate, low, high) of each day, each from 0 to 1; None ends the line: one drawn across would invent figures.
        target: The share to beat.
    """
    points: list[Mapping[str, object]] = []
    for index, run, (rate, low, high) in _runs(shares):
        band = {"run": run, "low": low, "high": high}
        dot = _needs_dot(shares, index)
        points.append({**band, "x": index, "rate": rate, "dot": dot})
        if _is_alone(shares, index):
            # A band of no width is not to be seen.
            points += [
                {**band, "x": index + side, "rate": None, "dot": False} for side in (-0.3, 0.3)
            ]
    data = {
        "points": points,
        "targets": [] if target is None else [{"target": target}],
        "ticks": _ticks(days),
    }
    known = [share[0] for share in shares if share is not None]
    said = (
        f"{len(known)} of {len(days)} days have figures, from {min(known):.1%} to {max(known):.1%}; the last is {known[-1]:.1%}."
        if known
        else f"None of {len(days)} days has figures."
    )
    if target is not None:
        said += f" The target is above {target:.0%}."
    return Chart(title, said, _draw("rate", len(days), data))


def bar_chart(title: str, days: Sequence[date], series: Sequence[Series]) -> Chart:
    """Counts by day as bars side by side, y from 0."""
    points: list[Mapping[str, object]] = []
    width = 0.8 / max(len(series), 1)
    for place, one in enumerate(series):
        left = -0.4 + place * width
        points += [
            {"x": index + left, "x2": index + left + width, "y": value, "colour": _css(one.colour)}
            for index, value in enumerate(one.values)
            if value
        ]
    return Chart(
        title,
        _said(series, _count),
        _draw("bars", len(days), {"points": points, "ticks": _ticks(days)}),
    )


def duration_chart(title: str, days: Sequence[date], series: Sequence[Series]) -> Chart:
    """Durations in seconds by day as lines with a point each, y from 0 in the unit that fits the longest."""
    longest = max(
        (value for one in series for value in one.values if value is not None), default=0.0
    )
    unit = next((name for name, size in reversed(_SECONDS_IN.items()) if longest >= size), "s")
    points = [
        {
            "x": index,
            "y": value / _SECONDS_IN[unit],
            "colour": _css(one.colour),
            "series": f"{place} {run}",
            "dot": _needs_dot(one.values, index),
        }
        for place, one in enumerate(series)
        for index, run, value in _runs(one.values)
    ]
    data = {"points": points, "ticks": _ticks(days), "units": [{"label": unit}]}
    return Chart(title, _said(series, duration_text), _draw("durations", len(days), data))


def sparkline(values: Sequence[float | None], top: float | None = None) -> str:
    """One character a value, for places that can draw nothing; a dot stands for no value.

    Args:
        values: Zero or more each.
        top: What the full height stands for; None: the largest value.

    Example:
        >>> sparkline([0.0, 0.5, None, 1.0])
        '▁▅·█'
    """
    blocks = "▁▂▃▄▅▆▇█"
    highest = top if top is not None else max((v for v in values if v is not None), default=0.0)
    scale = (len(blocks) - 1) / highest if highest > 0 else 0.0
    return "".join(
        "·" if v is None else blocks[min(round(v * scale), len(blocks) - 1)] for v in values
    )


def duration_text(seconds: float | None) -> str:
    """A duration to three figures, in the unit that fits.

    Example:
        >>> duration_text(0.25), duration_text(90), duration_text(7200), duration_text(None)
        ('0.25 s', '1.5 min', '2 h', '')
    """
    if seconds is None:
        return ""
    unit = next((name for name, size in reversed(_SECONDS_IN.items()) if seconds >= size), "s")
    return f"{seconds / _SECONDS_IN[unit]:.3g} {unit}"


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _said(series: Sequence[Series], text: Callable[[float], str]) -> str:
    parts: list[str] = []
    for one in series:
        known = [value for value in one.values if value is not None]
        most = (
            f"at most {text(max(known))} a day, last {text(known[-1])}" if known else "no figures"
        )
        parts.append(f"{one.name}: {most}")
    return "; ".join(parts) + "."


def _css(colour: str) -> str:
    return f"var(--{colour})"


def _runs(values: Sequence[T | None]) -> Iterator[tuple[int, int, T]]:
    """Index, number of the unbroken run, and value of each day that has one."""
    run = 0
    for index, value in enumerate(values):
        if value is None:
            run += 1
        else:
            yield index, run, value


def _is_alone(values: Sequence[object], index: int) -> bool:
    """Whether neither neighbour has a value, so that no line would show this one."""
    return all(
        value is None
        for value in (*values[max(index - 1, 0) : index], *values[index + 1 : index + 2])
    )


def _needs_dot(values: Sequence[object], index: int) -> bool:
    return _is_alone(values, index) or all(value is None for value in values[index + 1 :])


def _ticks(days: Sequence[date]) -> list[dict[str, object]]:
    """Labelled days, counted back from the last one; the outer labels lean inwards so that they stay in the picture."""
    places = range(len(days) - 1, -1, -LABEL_EVERY_DAYS)
    return [{"x": index, "label": f"{days[index].day} {days[index]:%b}"} for index in places]


def _draw(kind: str, day_count: int, data: Mapping[str, Sequence[Mapping[str, object]]]) -> str:
    import vl_convert

    compiled = _compiled(kind, day_count)
    filled = {
        **compiled,
        "data": [
            {**source, "values": list(data[source["name"]])} if source["name"] in data else source
            for source in compiled["data"]
        ],
    }
    # An empty list of addresses: a drawing may load nothing from anywhere.
    drawn = vl_convert.vega_to_svg(filled, allowed_base_urls=[])
    inner = _OPENING_TAG.sub("", drawn).removesuffix("</svg>")
    for noise in (_NOISE, _FONT, _EMPTY):
        inner = noise.sub("", inner)
    return inner


@cache
def _compiled(kind: str, day_count: int) -> dict[str, Any]:
    """The chart without data, as Vega: compiling costs as much as drawing, and every chart of a kind shares it."""
    import altair as alt
    import vl_convert

    x = alt.X("x:Q", scale=alt.Scale(domain=[-0.6, day_count - 0.4], nice=False), axis=None)
    layers = {"rate": _rate_layers, "bars": _bar_layers, "durations": _duration_layers}[kind](x)
    labels = _points("ticks").mark_text(baseline="top", dy=5, fontSize=11, color=_css("soft"))
    chart = alt.layer(*layers, labels.encode(x=x, y=alt.value("height"), text="label:N"))
    return vl_convert.vegalite_to_vega({**chart.to_dict(), **_LAYOUT})


def _rate_layers(x: alt.X) -> list[alt.Chart]:
    import altair as alt

    scale = alt.Scale(domain=[0, 1], nice=False)
    y = alt.Y("rate:Q", scale=scale, axis=alt.Axis(format=".0%", values=[0, 0.5, 1]))
    of_run = alt.Detail("run:N")
    band = _points("points").mark_area(color=_css("range"), opacity=1)
    target = _points("targets").mark_rule(color=_css("soft"), strokeDash=[4, 3], strokeWidth=1.5)
    line = _points("points").transform_filter("datum.rate !== null")
    dots = _points("points").transform_filter("datum.dot")
    return [
        band.encode(x=x, y=alt.Y("low:Q", scale=scale), y2="high:Q", detail=of_run),
        target.encode(y="target:Q"),
        line.mark_line(color=_css("mark"), strokeWidth=2, strokeJoin="round").encode(
            x=x, y=y, detail=of_run
        ),
        dots.mark_point(color=_css("mark"), filled=True, opacity=1, size=28).encode(x=x, y=y),
    ]


def _bar_layers(x: alt.X) -> list[alt.Chart]:
    import altair as alt

    axis = alt.Axis(tickCount=3, tickMinStep=1, format="~s")
    y = alt.Y("y:Q", scale=alt.Scale(domainMin=0), axis=axis)
    bars = _points("points").mark_bar()
    return [bars.encode(x=x, x2="x2:Q", y=y, y2=alt.datum(0), color=_own_colour())]


def _duration_layers(x: alt.X) -> list[alt.Chart]:
    import altair as alt

    axis = alt.Axis(tickCount=3, format="~r")
    y = alt.Y("y:Q", scale=alt.Scale(domainMin=0), axis=axis)
    line = _points("points").mark_line(strokeWidth=2, strokeJoin="round")
    dots = _points("points").transform_filter("datum.dot")
    unit = _points("units").mark_text(
        align="left", baseline="bottom", dy=-1, fontSize=11, color=_css("soft")
    )
    return [
        line.encode(x=x, y=y, color=_own_colour(), detail="series:N"),
        dots.mark_point(filled=True, opacity=1, size=28).encode(x=x, y=y, color=_own_colour()),
        unit.encode(x=alt.value(0), y=alt.value(0), text="label:N"),
    ]


def _points(name: str) -> alt.Chart:
    import altair as alt

    return alt.Chart(alt.NamedData(name))


def _own_colour() -> alt.Color:
    """The colour that each point brings along."""
    import altair as alt

    return alt.Color("colour:N", scale=None)
