"""Data Docs: pages about what Great Expectations found, for people.

Belongs here: opening Great Expectations so that it keeps nothing and tells nobody, the pages below ``data_docs/`` of the home.
Does not belong here: judging, and what is kept of it (``stores.data_validation``).

Its pages are made to be read beside a network: they would load scripts, styles and pictures. Ours load nothing.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from threadhouse.retrieval.data_expectations import SUITES, Suite

if TYPE_CHECKING:
    from great_expectations import ExpectationSuite

DOCS_FOLDER: Final = "data_docs"


def build_docs(home: Path, outcomes: Mapping[str, Mapping[str, Any]]) -> Path:
    """Write the pages anew, aside and then at once; returns the first page.

    Args:
        home: They lie in ``data_docs/`` below it.
        outcomes: The newest of each suite, by name: rows of ``nao.data_validation`` with ``validation``, which is Great
            Expectations' own JSON.
    """
    target = home / DOCS_FOLDER
    aside = home / f".{DOCS_FOLDER}.aside"
    shutil.rmtree(aside, ignore_errors=True)
    context = open_context(aside)
    from great_expectations.core import expectation_validation_result as gx_results
    from great_expectations.data_context.types import resource_identifiers as ids

    for suite in SUITES:
        context.suites.add(as_gx_suite(suite))
    for name, kept in outcomes.items():
        schema: Any = gx_results.expectationSuiteValidationResultSchema
        result = schema.load(kept["validation"])
        context.validation_results_store.set(
            ids.ValidationResultIdentifier(
                expectation_suite_identifier=ids.ExpectationSuiteIdentifier(name=name),
                run_id=result.meta["run_id"],
                batch_identifier=name,
            ),
            result,
        )
    context.build_data_docs(site_names=[DOCS_FOLDER])
    for page in aside.rglob("*.html"):
        page.write_text(_offline(page.read_text(encoding="utf-8")), encoding="utf-8")
    shutil.rmtree(aside / "static", ignore_errors=True)
    (aside / "index.html").write_text(_index(aside, outcomes), encoding="utf-8")
    _swap(aside, target)
    return target / "index.html"


def open_context(docs: Path | None = None) -> Any:  # noqa: ANN401 - its type leaves types of its methods unknown
    """A context that keeps everything in memory, and pages in ``docs``."""
    # Read while it is imported. Without it, a first call of every run goes to the makers' server.
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations as gx
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    sites: dict[str, Any] = {}
    if docs is not None:
        sites[DOCS_FOLDER] = {
            "class_name": "SiteBuilder",
            "show_how_to_buttons": False,
            "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
            "store_backend": {
                "class_name": "TupleFilesystemStoreBackend",
                "base_directory": str(docs),
            },
        }
    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(),
        data_docs_sites=sites,
        analytics_enabled=False,
        progress_bars=ProgressBarsConfig(globally=False),
    )
    library: Any = gx
    return library.get_context(mode="ephemeral", project_config=config)


def as_gx_suite(suite: Suite) -> ExpectationSuite:
    """A suite as Great Expectations wants it."""
    import great_expectations as gx
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    return gx.ExpectationSuite(
        name=suite.name.value,
        notes=suite.about,
        expectations=[
            ExpectationConfiguration(
                type=each.kind, kwargs=dict(each.parameters), notes=each.meaning
            ).to_domain_obj()
            for each in suite.expectations
        ],
    )


_SCRIPTS: Final = re.compile(r"<script\b.*?</script\s*>", re.DOTALL | re.IGNORECASE)
_LOADED: Final = re.compile(r"<(?:link|img|iframe|source)\b[^>]*>", re.IGNORECASE)
_FAR_LINKS: Final = re.compile(r'\s(?:href|src)="(?:https?:)?//[^"]*"', re.IGNORECASE)
_IMPORTS: Final = re.compile(r"@import[^;]*;|@font-face\s*\{[^}]*\}", re.IGNORECASE)
_STYLE: Final = """<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, "Segoe UI", Roboto, sans-serif; max-width: 70rem; margin: 0 auto; padding: 1rem;
  overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; }
th, td { border: 1px solid #8886; padding: .3rem .5rem; text-align: left; vertical-align: top; }
nav, ul, ol { padding-left: 1rem; } h1, h2, h3, h4 { line-height: 1.25; } nav { height: auto !important; }
.fa-check-circle::before { content: "holds"; } .fa-times::before { content: "broken"; }
.fa-exclamation-triangle::before { content: "not judged"; }
.text-success { color: light-dark(#1a7f4b, #5fd295); } .text-danger { color: light-dark(#b3261e, #ff8a80); }
[style*="color:red"] { color: inherit !important; }
button, .modal, footer, .sticky > .card, a[data-toggle="collapse"] { display: none; }
</style>
</head>"""


def _offline(page: str) -> str:
    """A page that loads nothing and leads nowhere else: without scripts, pictures, style sheets and far links."""
    for taken in (_SCRIPTS, _LOADED, _FAR_LINKS, _IMPORTS):
        page = taken.sub("", page)
    return page.replace("</head>", _STYLE, 1)


def _index(folder: Path, outcomes: Mapping[str, Mapping[str, Any]]) -> str:
    """The first page; the one that Great Expectations makes lists nothing without its scripts."""
    rows: list[str] = []
    for suite in SUITES:
        name = suite.name.value
        kept = outcomes.get(name)
        pages = sorted((folder / "validations" / name).rglob("*.html"))
        mark = "text-danger" if kept and kept["failed"] else "text-success"
        said = f"{kept['failed']} of {kept['expectations']} broken" if kept else "not judged yet"
        if pages:
            said = f'<a class="{mark}" href="{pages[-1].relative_to(folder).as_posix()}">{said}</a>'
        when = f"{kept['validated_at']:%Y-%m-%d %H:%M %Z}" if kept else ""
        rows.append(
            f'<tr><th scope="row"><a href="expectations/{name}.html">{name}</a></th>'
            f"<td>{escape(suite.about)}</td><td>{said}</td><td>{when}</td></tr>"
        )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>Data docs</title>\n'
        f"{_STYLE}\n<body>\n<h1>What must be true of the data</h1>\n<table>\n<thead><tr><th>Suite</th><th>About</th>"
        f"<th>Outcome</th><th>Judged</th></tr></thead>\n<tbody>\n{chr(10).join(rows)}\n</tbody>\n</table>\n</body>\n</html>\n"
    )


def _swap(aside: Path, target: Path) -> None:
    """Put a folder in the place of another; a reader meets one or the other, or for a moment none."""
    old = target.with_name(f".{target.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    aside.rename(target)
    shutil.rmtree(old, ignore_errors=True)
