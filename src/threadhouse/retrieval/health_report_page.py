"""The page of the health report, as a Jinja template.

Belongs here: markup and style. Autoescape is on: a value can never become markup.
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
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Retrieval health {{ figures.report_day }}, {{ figures.lane }}</title>
<style>
:root { --page:#fbfbfa; --card:#fff; --ink:#1d2126; --soft:#5c6670; --line:#dfe3e6; --mark:#1f6f8b;
  --range:#b9d8e2; --good:#1a7f4b; --bad:#b3261e; --warn:#8a5a00; }
@media (prefers-color-scheme: dark) { :root { --page:#14171a; --card:#1c2024; --ink:#e6e9ec; --soft:#9aa5af;
  --line:#333a41; --mark:#6cc0dc; --range:#2f5563; --good:#5fd295; --bad:#ff8a80; --warn:#f0bf5e; } }
* { box-sizing:border-box; }
body { margin:0; background:var(--page); color:var(--ink); font:16px/1.5 system-ui,"Segoe UI",Roboto,sans-serif; }
main { max-width:62rem; margin:0 auto; padding:1.5rem 1rem 4rem; }
h1 { font-size:1.5rem; line-height:1.25; margin:0 0 .25rem; }
h2 { font-size:1.1rem; margin:2rem 0 .5rem; }
p.note { color:var(--soft); margin:0 0 1rem; }
.card { background:var(--card); border:1px solid var(--line); border-radius:.5rem; padding:0 .9rem; }
.card.empty { padding:.6rem .9rem; color:var(--soft); }
table { width:100%; border-collapse:collapse; font-variant-numeric:tabular-nums; }
th, td { text-align:left; padding:.5rem .75rem .5rem 0; border-top:1px solid var(--line); vertical-align:middle; }
thead th { border-top:0; color:var(--soft); font-size:.8rem; font-weight:600; white-space:nowrap; }
tbody th { font-weight:500; overflow-wrap:anywhere; }
tbody th small { display:block; color:var(--soft); font-weight:400; }
td { overflow-wrap:anywhere; }
.num { white-space:nowrap; }
.soft { color:var(--soft); }
.tag { font-size:.85rem; white-space:nowrap; }
.met { color:var(--good); } .missed { color:var(--bad); } .unsure { color:var(--warn); }
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
@media (min-width: 40.01rem) {
  .rates { table-layout:fixed; } .rates td .soft { display:block; }
  .rates thead th:nth-child(1) { width:31%; } .rates thead th:nth-child(2) { width:15%; }
  .rates thead th:nth-child(3) { width:24%; } .rates thead th:nth-child(4) { width:16%; }
}
@media (max-width: 40rem) {
  main { padding:1rem .75rem 3rem; }
  thead { position:absolute; width:1px; height:1px; overflow:hidden; clip-path:inset(50%); }
  table, tbody, tr, th, td { display:block; }
  tbody tr { padding:.6rem 0; border-top:1px solid var(--line); }
  tbody tr:first-child { border-top:0; }
  tbody th, td { border:0; padding:.15rem 0; }
  td:empty { display:none; }
  td[data-label]::before { content:attr(data-label) " "; color:var(--soft); font-size:.85rem; }
}
@media print { :root { color-scheme:light; } .card { break-inside:avoid; } }
</style>
</head>
<body>
<main>
<h1>Retrieval health{% if not figures.is_for_operators %}, {{ figures.lane }}{% endif %}</h1>
<p class="note">{{ figures.report_day }}, and the {{ figures.window_days }} days that end with it. \
Local days of {{ figures.time_zone }}. In a bar, the dot is the rate, the band its 95&nbsp;% interval, the line its target.</p>
{% for lane in figures.lanes %}
<h2>Rates: {{ lane }}</h2>
<div class="card"><table class="rates">
<thead><tr><th scope="col">Rate</th><th scope="col">This day</th><th scope="col">{{ figures.window_days }} days</th>\
<th scope="col">Target</th><th scope="col">Trend</th></tr></thead>
<tbody>
{% for figure in figures.of_window if figure.lane == lane %}
<tr>
<th scope="row">{{ figure.metric }}<small>{{ figure.definition.meaning }}</small></th>
<td class="num" data-label="This day">{{ share_text(of_day.get((lane, figure.metric))) }}</td>
<td data-label="{{ figures.window_days }} days"><span class="num">{{ share_text(figure) }}</span>\
{% if figure.rate is not none %} <span class="soft num">{{ interval_text(figure) }}</span>{% endif %}{{ bar(figure) }}</td>
<td>{% if figure.target is not none %}<span class="tag {{ figure.verdict|replace(' ', '-') }}">\
{{ target_text(figure) }}</span>{% endif %}</td>
<td>{% if (lane, figure.metric) in trends %}{{ trend(trends[(lane, figure.metric)], figure.target) }}{% endif %}</td>
</tr>
{% endfor %}
</tbody></table></div>
{% else %}
<h2>Rates</h2>
<div class="card empty">No day of this window has been counted yet.</div>
{% endfor %}
{% if figures.worst_threads %}
<h2>Worst threads</h2>
<div class="card"><table>
<thead><tr><th scope="col">Thread</th><th scope="col">Worst rate</th>\
<th scope="col">{{ figures.window_days }} days</th></tr></thead>
<tbody>
{% for thread in figures.worst_threads %}
<tr><th scope="row">{{ thread.title }}<small>{{ thread.thread_id }}</small></th>
<td data-label="Worst rate">{{ thread.rate.metric }}</td>
<td data-label="{{ figures.window_days }} days"><span class="num">{{ share_text(thread.rate) }}</span> \
<span class="soft num">{{ interval_text(thread.rate) }}</span>{{ bar(thread.rate) }}</td></tr>
{% endfor %}
</tbody></table></div>
{% endif %}
{% for title, counts in sections %}
<h2>{{ title }}</h2>
{% if counts %}
<div class="card"><table>
<thead><tr><th scope="col">What</th><th scope="col">Count</th><th scope="col">Detail</th><th scope="col">Last</th></tr></thead>
<tbody>
{% for count in counts %}
<tr><th scope="row">{{ count.name }}</th><td class="num"{% if count.count is not none %} data-label="Count"{% endif %}>\
{{- count_text(count.count) }}</td>\
<td{% if count.detail %} data-label="Detail"{% endif %}>{{ count.detail }}</td>\
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
