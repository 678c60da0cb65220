"""The page of the health report, as a Jinja template.

Belongs here: markup and style. Autoescape is on: no value becomes markup; only our own drawings are put in as they are.
Does not belong here: figures, wording of figures (``retrieval.health_report``).
"""

from __future__ import annotations

from typing import Final

PAGE: Final = """\
{% macro trend(rates, target) %}
<svg class="trend" viewBox="-2 -2 124 32" role="img" aria-label="Trend over {{ rates|length }} days">
<line class="base" x1="0" y1="28" x2="120" y2="28"/>
{% if target is not none %}
<line class="target" x1="0" y1="{{ 28 * (1 - target) }}" x2="120" y2="{{ 28 * (1 - target) }}"/>
{% endif %}
{% for run in sparkline(rates) %}
{% if run|length > 1 %}
<polyline points="{% for x, y in run %}{{ x }},{{ y }} {% endfor %}"/>
{% endif %}
<circle cx="{{ run[-1][0] }}" cy="{{ run[-1][1] }}" r="2"/>
{% endfor %}
</svg>
{% endmacro %}
{% macro bar(figure) %}
{% if figure.rate is not none %}
<span class="bar" aria-hidden="true"><span class="span" style="left:{{ (figure.low * 100)|round(1) }}%;\
width:{{ ((figure.high - figure.low) * 100)|round(1) }}%"></span>\
<span class="dot" style="left:{{ (figure.rate * 100)|round(1) }}%"></span>
{% if figure.target is not none %}
<span class="goal" style="left:{{ (figure.target * 100)|round(1) }}%"></span>
{% endif %}
</span>
{% endif %}
{% endmacro %}
{% macro charts(blocks, prefix) %}
<div class="charts">
{% for block in blocks %}
{% set id = prefix ~ loop.index %}
<figure class="card">
<figcaption><b>{{ block.chart.title }}</b><small>{{ block.note }}</small>
{% if block.legend %}
<span class="legend">{% for colour, name in block.legend %}<span class="key"><i style="background:var(--{{ colour }})"></i>\
{{ name }}</span> {% endfor %}</span>
{% endif %}
</figcaption>
<svg class="chart" viewBox="0 0 {{ chart_width }} {{ chart_height }}" role="img" aria-labelledby="{{ id }}t {{ id }}d">
<title id="{{ id }}t">{{ block.chart.title }}</title><desc id="{{ id }}d">{{ block.chart.description }}</desc>
{{ block.chart.body|safe }}
</svg>
<details><summary>Numbers</summary><table class="numbers">
<thead><tr>{% for name in block.heading %}<th scope="col">{{ name }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in block.rows %}
<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}
</tbody></table></details>
</figure>
{% endfor %}
</div>
{% endmacro %}
{% macro rates(lane) %}
<div class="card"><table class="rates wide">
<thead><tr><th scope="col">Rate</th><th scope="col">This day</th><th scope="col">{{ figures.window_days }} days</th>\
<th scope="col">Target</th><th scope="col">Earlier half to later half</th><th scope="col">Trend</th></tr></thead>
<tbody>
{% for figure in figures.of_window if figure.lane == lane %}
{% set change = changes.get((lane, figure.metric)) %}
<tr>
<th scope="row">{{ figure.metric }}<small>{{ figure.definition.meaning }}</small></th>
<td data-label="This day">{{ share_text(of_day.get((lane, figure.metric))) }}</td>
<td data-label="{{ figures.window_days }} days"><span class="num">{{ share_text(figure) }}</span>\
{% if figure.rate is not none %} <span class="soft num">{{ interval_text(figure) }}</span>{% endif %}{{ bar(figure) }}</td>
<td>{% if figure.target is not none %}<span class="tag {{ figure.verdict|replace(' ', '-') }}">\
{{ target_text(figure) }}</span>{% endif %}</td>
<td{% if change_text(change) %} data-label="Halves"{% endif %}>{% if change_text(change) %}\
<span class="tag {{ change.verdict|replace(' ', '-') }}">{{ change_text(change) }}</span>{% endif %}</td>
<td>{% if (lane, figure.metric) in trends %}{{ trend(trends[(lane, figure.metric)], figure.target) }}{% endif %}</td>
</tr>
{% endfor %}
</tbody></table></div>
{% endmacro %}
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Retrieval health {{ figures.report_day }}, {{ figures.lane }}</title>
<style>
{% macro variables(scheme) %}{% for name, value in colours[scheme].items() %}--{{ name }}:{{ value }};{% endfor %}{% endmacro %}
:root { {{ variables('light') }} }
@media (prefers-color-scheme: dark) { :root { {{ variables('dark') }} } }
* { box-sizing:border-box; }
body { margin:0; background:var(--page); color:var(--ink); font:16px/1.5 system-ui,"Segoe UI",Roboto,sans-serif; }
main { max-width:70rem; margin:0 auto; padding:1.5rem 1rem 4rem; }
h1 { font-size:1.5rem; line-height:1.25; margin:0 0 .25rem; }
h2 { font-size:1.1rem; margin:2rem 0 .5rem; }
p.note { color:var(--soft); margin:0 0 1rem; }
.card { background:var(--card); border:1px solid var(--line); border-radius:.5rem; padding:0 .9rem; }
.card.empty { padding:.6rem .9rem; color:var(--soft); }
.tiles { display:grid; grid-template-columns:repeat(auto-fill,minmax(10rem,1fr)); gap:.6rem; list-style:none;
  margin:0; padding:0; }
.tiles li { padding:.6rem .9rem; overflow-wrap:anywhere; }
.tiles b { display:block; font-size:1.35rem; line-height:1.3; }
.tiles small { color:var(--soft); display:block; }
.charts { display:grid; grid-template-columns:repeat(auto-fill,minmax(min(19rem,100%),1fr)); gap:.6rem; margin-top:.6rem; }
figure { margin:0; padding:.6rem .5rem !important; min-width:0; }
figcaption { padding:0 .3rem .2rem; font-size:.9rem; overflow-wrap:anywhere; }
figcaption small { display:block; color:var(--soft); }
.legend { display:block; font-size:.8rem; } .key { white-space:nowrap; margin-right:.6rem; }
.key i { display:inline-block; width:.7rem; height:.7rem; border-radius:.15rem; margin-right:.3rem; }
.chart { display:block; width:100%; height:auto; font-family:system-ui,"Segoe UI",Roboto,sans-serif; }
summary { cursor:pointer; color:var(--soft); font-size:.85rem; padding:.2rem .3rem; }
details.lane { margin-top:1rem; }
details.lane > summary { color:var(--ink); font-size:1.05rem; font-weight:600; padding:.3rem 0; }
table { width:100%; border-collapse:collapse; font-variant-numeric:tabular-nums; }
th, td { text-align:left; padding:.5rem .75rem .5rem 0; border-top:1px solid var(--line); vertical-align:middle; }
thead th { border-top:0; color:var(--soft); font-size:.8rem; font-weight:600; }
tbody th { font-weight:500; overflow-wrap:anywhere; }
tbody th small { display:block; color:var(--soft); font-weight:400; }
td { overflow-wrap:anywhere; }
.numbers { font-size:.8rem; } .numbers th, .numbers td { padding:.15rem .4rem .15rem 0; }
.num { white-space:nowrap; }
.soft { color:var(--soft); }
.tag { font-size:.85rem; }
.met, .better, .good b { color:var(--good); } .missed, .worse, .bad b { color:var(--bad); }
.unsure, .warn b { color:var(--warn); }
.unclear { color:var(--soft); }
.bar { position:relative; display:block; height:.4rem; min-width:6rem; margin-top:.3rem; background:var(--line);
  border-radius:.2rem; }
.bar > span { position:absolute; display:block; }
.bar .span { top:0; bottom:0; background:var(--range); border-radius:.2rem; }
.bar .dot { top:-.15rem; width:.7rem; height:.7rem; margin-left:-.35rem; border-radius:50%; background:var(--mark); }
.bar .goal { top:-.3rem; bottom:-.3rem; width:2px; margin-left:-1px; background:var(--ink); }
.trend { width:7.5rem; height:2rem; display:block; overflow:visible; }
.trend polyline { fill:none; stroke:var(--mark); stroke-width:1.5; stroke-linejoin:round; }
.trend circle { fill:var(--mark); }
.trend .base { stroke:var(--line); } .trend .target { stroke:var(--soft); stroke-dasharray:3 3; }
@media (min-width: 48.01rem) {
  .rates { table-layout:fixed; } .rates td .soft { display:block; }
  .rates thead th:nth-child(1) { width:27%; } .rates thead th:nth-child(2) { width:14%; }
  .rates thead th:nth-child(3) { width:19%; } .rates thead th:nth-child(4) { width:12%; }
  .rates thead th:nth-child(5) { width:14%; }
}
@media (max-width: 48rem) {
  main { padding:1rem .75rem 3rem; }
  .wide thead { position:absolute; width:1px; height:1px; overflow:hidden; clip-path:inset(50%); }
  .wide, .wide tbody, .wide tr, .wide th, .wide td { display:block; }
  .wide tbody tr { padding:.6rem 0; border-top:1px solid var(--line); }
  .wide tbody tr:first-child { border-top:0; }
  .wide tbody th, .wide td { border:0; padding:.15rem 0; }
  .wide td:empty { display:none; }
  .wide td[data-label]::before { content:attr(data-label) " "; color:var(--soft); font-size:.85rem; }
}
@media print { :root { color-scheme:light; } .card { break-inside:avoid; } }
</style>
</head>
<body>
<main>
<h1>Retrieval health{% if not figures.is_for_operators %}, {{ figures.lane }}{% endif %}</h1>
<p class="note">{{ figures.report_day }}, and the {{ figures.window_days }} days that end with it. \
Local days of {{ figures.time_zone }}. In a bar, the dot is the rate, the band its 95&nbsp;% interval, the line its target; \
in a chart by day, the broken line.</p>
<ul class="tiles">
{% for tile in tiles %}
<li class="card {{ tile.mood }}">{{ tile.name }}<b>{{ tile.value }}</b><small>{{ tile.detail }}</small></li>
{% endfor %}
</ul>
{% if figures.lanes %}
<h2>Rates: {{ figures.lane }}</h2>
{{ rates(figures.lane) }}
{{ charts(rate_charts, "r") }}
{% for lane in figures.lanes if lane != figures.lane %}
<details class="lane"><summary>Rates: {{ lane }}</summary>
{{ rates(lane) }}
</details>
{% endfor %}
{% else %}
<h2>Rates</h2>
<div class="card empty">No day of this window has been counted yet.</div>
{% endif %}
{% if other_charts %}
<h2>By day</h2>
{{ charts(other_charts, "o") }}
{% endif %}
{% for title, counts in sections %}
<h2>{{ title }}</h2>
{% if counts %}
<div class="card"><table class="wide">
<thead><tr><th scope="col">What</th><th scope="col">Count</th><th scope="col">Detail</th><th scope="col">Last</th></tr></thead>
<tbody>
{% for count in counts %}
<tr><th scope="row">{{ count.name }}</th><td class="num"{% if count.count is not none %} data-label="Count"{% endif %}>\
{{- count_text(count.count) }}</td>\
<td>{{ count.detail }}</td>\
<td class="num"{% if count.last_at %} data-label="Last"{% endif %}>{{ moment_text(count.last_at) }}</td></tr>
{% endfor %}
</tbody></table></div>
{% else %}
<div class="card empty">None.</div>
{% endif %}
{% endfor %}
</main>
</body>
</html>
"""
