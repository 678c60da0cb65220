"""Judging facts with Great Expectations, keeping the outcome, and Data Docs for people.

Belongs here: which parts of a product are due, one run over their facts, the pages below ``data_docs/`` of the home.
Does not belong here: facts (``stores.data_facts``), what must be true (``retrieval.data_expectations``).

Great Expectations takes seconds to import, so it is imported when something is due and at no other time. It is told to report
to nobody, and its pages lose what they would load from elsewhere.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, cast

from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from threadhouse.retrieval.data_expectations import (
    EXPECTATIONS_VERSION,
    SUITES,
    Suite,
    SuiteName,
    suite_of,
)
from threadhouse.retrieval.models import Json
from threadhouse.stores import queries
from threadhouse.stores.data_facts import Fact, ProductStores, read_facts, read_states

SHOWN_ROWS: Final = 20
"""Rows that a broken expectation names, by their grain: a screen."""

DOCS_FOLDER: Final = "data_docs"


@dataclass(frozen=True, slots=True)
class BrokenExpectation:
    """An expectation that does not hold: how often, and where, as facts of the grain."""

    kind: str
    subject: str
    meaning: str
    count: int
    where: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """What is broken, for a person."""
        places = f": {'; '.join(self.where)}" if self.where else ""
        return f"{self.meaning} ({self.subject}), broken {self.count:,} times{places}"


@dataclass(frozen=True, slots=True)
class SuiteVerdict:
    """What is known of a product. ``parts`` were judged just now; without any, the outcome is that of ``judged_at``."""

    suite: SuiteName
    expectations: int
    broken: tuple[BrokenExpectation, ...]
    parts: int
    rows: int
    seconds: float
    judged_at: datetime | None
    docs: Path | None

    @property
    def passed(self) -> bool:
        """Whether every expectation holds; a product that is not there breaks none."""
        return not self.broken


def judge_suite(stores: ProductStores, home: Path, name: SuiteName) -> SuiteVerdict:
    """Judge what has changed of a product since it was last found sound; what was found broken is judged again.

    Nothing due costs a look at the states and no import.
    """
    started = time.monotonic()
    suite = suite_of(name)
    states = read_states(stores, name)
    passed = _passed_states(stores, name)
    due = [part for part, key in states.items() if passed.get(part) != key]
    facts = read_facts(stores, name, due) if due else []
    if not facts:
        judged_at = _judged_at(stores, name)
        docs = home / DOCS_FOLDER / "index.html"
        return SuiteVerdict(
            suite=name,
            expectations=len(suite.expectations),
            broken=(),
            parts=0,
            rows=0,
            seconds=time.monotonic() - started,
            judged_at=judged_at,
            docs=docs if docs.is_file() else None,
        )
    outcome = run_suite(suite, facts)
    broken = _broken(suite, outcome)
    seconds = time.monotonic() - started
    judged_at = _keep(stores, suite, {part: states[part] for part in due}, outcome, broken, seconds)
    docs = build_docs(stores, home)
    return SuiteVerdict(
        suite=name,
        expectations=len(suite.expectations),
        broken=broken,
        parts=len(due),
        rows=len(facts),
        seconds=time.monotonic() - started,
        judged_at=judged_at,
        docs=docs,
    )


def run_suite(suite: Suite, facts: Sequence[Mapping[str, Fact]]) -> dict[str, Any]:
    """What Great Expectations says of these facts, as its own JSON."""
    context = _context()
    import great_expectations as gx
    import pandas as pd  # pyright: ignore[reportMissingTypeStubs]

    frame = pd.DataFrame(list(facts))
    source = context.data_sources.add_pandas("facts")
    batch = source.add_dataframe_asset(suite.name.value).add_batch_definition_whole_dataframe("all")
    definition: Any = gx.ValidationDefinition(
        name=suite.name.value, data=batch, suite=context.suites.add(_gx_suite(suite))
    )
    result = context.validation_definitions.add(definition).run(
        batch_parameters={"dataframe": frame},
        result_format={
            "result_format": "SUMMARY",
            "partial_unexpected_count": SHOWN_ROWS,
            "unexpected_index_column_names": list(suite.grain),
        },
    )
    return cast("dict[str, Any]", result.to_json_dict())


def build_docs(stores: ProductStores, home: Path) -> Path:
    """Write the pages about the newest outcome of every suite anew, aside and then at once; returns the first page."""
    target = home / DOCS_FOLDER
    aside = home / f".{DOCS_FOLDER}.aside"
    shutil.rmtree(aside, ignore_errors=True)
    context = _context(aside)
    from great_expectations.core import expectation_validation_result as gx_results
    from great_expectations.data_context.types import resource_identifiers as ids

    for suite in SUITES:
        context.suites.add(_gx_suite(suite))
    for name, kept in _latest(stores).items():
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
    _swap(aside, target)
    return target / "index.html"


def _context(docs: Path | None = None) -> Any:  # noqa: ANN401 - a type whose import takes seconds
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
    return gx.get_context(mode="ephemeral", project_config=config)


def _gx_suite(suite: Suite) -> Any:  # noqa: ANN401 - a type whose import takes seconds
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


def _broken(suite: Suite, outcome: Mapping[str, Any]) -> tuple[BrokenExpectation, ...]:
    """Expectations that do not hold, or that could not be judged at all."""
    found: list[BrokenExpectation] = []
    by_parameters = {(e.kind, _plain(e.parameters)): e for e in suite.expectations}
    for result in outcome["results"]:
        if result["success"]:
            continue
        config = result["expectation_config"]
        known = by_parameters.get((config["type"], _plain(config["kwargs"])))
        places: list[dict[str, Any]] = result["result"].get("partial_unexpected_index_list") or []
        found.append(
            BrokenExpectation(
                kind=config["type"],
                subject=known.subject if known else "",
                meaning=str(config.get("notes") or config["type"]),
                count=int(result["result"].get("unexpected_count") or 0),
                where=tuple(
                    ", ".join(f"{name} {value}" for name, value in place.items())
                    for place in places
                ),
            )
        )
    return tuple(found)


def _plain(parameters: Mapping[str, Any]) -> str:
    """Parameters as one comparable line, whatever kind of number they were read as."""
    return repr(
        sorted(
            (name, float(value) if type(value) is int else value)
            for name, value in parameters.items()
            if name != "batch_id"
        )
    )


def _passed_states(stores: ProductStores, name: SuiteName) -> dict[str, str]:
    """Under which key each part was last found sound."""
    parameters = {"suite": name, "suite_version": EXPECTATIONS_VERSION}
    passed: dict[str, str] = {}
    with stores.database.connect() as connection:
        for (parts,) in connection.execute(queries.load("data_validation_passed"), parameters):
            passed = {**parts, **passed}
    return passed


def _latest(stores: ProductStores) -> dict[str, dict[str, Any]]:
    """The newest outcome of each suite."""
    with (
        stores.database.connect() as connection,
        connection.cursor(row_factory=dict_row) as cursor,
    ):
        rows = cursor.execute(
            queries.load("data_validation_latest"), {"suite_version": EXPECTATIONS_VERSION}
        )
        return {row["suite"]: {**row["results"], "judged_at": row["validated_at"]} for row in rows}


def _judged_at(stores: ProductStores, name: SuiteName) -> datetime | None:
    return cast("datetime | None", _latest(stores).get(name, {}).get("judged_at"))


def _keep(
    stores: ProductStores,
    suite: Suite,
    parts: Mapping[str, str],
    outcome: Mapping[str, Any],
    broken: Sequence[BrokenExpectation],
    seconds: float,
) -> datetime:
    results: dict[str, Json] = {"parts": dict(parts), "validation": dict(outcome)}
    key = hashlib.sha256(repr(sorted(parts.items())).encode()).hexdigest()
    with stores.database.connect() as connection:
        row = connection.execute(
            queries.load("data_validation_write"),
            {
                "suite": suite.name,
                "suite_version": EXPECTATIONS_VERSION,
                "input_key": key,
                "expectations": len(suite.expectations),
                "failed": len(broken),
                "seconds": seconds,
                "results": Jsonb(results),
            },
        ).fetchone()
    return cast("tuple[datetime]", row)[0]


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
table { border-collapse: collapse; width: 100%; } th, td { border: 1px solid; border-color: #8886; padding: .3rem .5rem;
  text-align: left; vertical-align: top; }
nav, ul { padding-left: 1rem; } h1, h2, h3, h4 { line-height: 1.25; }
button, .ge-walkthrough-modal, .modal, .footer, footer { display: none; }
</style>
</head>"""


def _offline(page: str) -> str:
    """A page that loads nothing and leads nowhere else: without scripts, pictures, style sheets and far links."""
    for taken in (_SCRIPTS, _LOADED, _FAR_LINKS, _IMPORTS):
        page = taken.sub("", page)
    return page.replace("</head>", _STYLE, 1)


def _swap(aside: Path, target: Path) -> None:
    """Put a folder in the place of another; a reader meets one or the other, or for a moment none."""
    old = target.with_name(f".{target.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    aside.rename(target)
    shutil.rmtree(old, ignore_errors=True)
