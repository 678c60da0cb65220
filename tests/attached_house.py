"""Somebody else's database: a hub that people keep in Directus, with its own tables, types and words.

Belongs here: its tables and rows. Does not belong here: the views that attach it (examples/attach/directus.sql).
"""

from __future__ import annotations

from pathlib import Path

from psycopg import Connection
from psycopg.rows import TupleRow

SOURCES = Path(__file__).parents[1] / "examples" / "attach" / "directus.sql"
_TABLES = """
create type public.page_status as enum ('draft', 'published', 'archived');
create table public.pages
( id uuid primary key default gen_random_uuid(), status public.page_status not null default 'draft'
, kind varchar(20), audience varchar(20), slug varchar(255) not null unique
, title varchar(255) not null, intro text, language varchar(8)
, tags jsonb not null default '[]', date_created timestamptz not null default now(), date_updated timestamptz );
create table public.sections
( id serial primary key, page uuid references public.pages on delete cascade, sort integer not null, heading varchar(255) not null
, content text not null, is_sensitive boolean not null default false, date_updated timestamptz );
create table public.topics
( slug varchar(64) primary key, name varchar(255) not null, other_names jsonb not null default '[]', purpose text );
create table public.topics_sections
( id serial primary key, topics_slug varchar(64) references public.topics on delete cascade on update cascade
, sections_id integer references public.sections on delete cascade, is_main boolean not null default false );
create table public.directus_users (id uuid primary key default gen_random_uuid(), email text not null);
"""
_PAGES = (
    ("hoan-tien", "published", "regulation", "everybody", "Quy chế hoàn tiền"),
    ("so-tay", "published", "handbook", "staff", "Sổ tay vận hành"),
    ("du-thao", "draft", "regulation", "everybody", "Dự thảo quy chế"),
)
_SECTIONS = 4
_TEXT = "Khách hàng được hoàn tiền trong bảy ngày kể từ ngày nhận hàng. " * 6


def make_directus(connection: Connection[TupleRow]) -> None:
    """Its tables; three pages, twelve sections, two topics."""
    connection.execute(_TABLES)
    for slug, status, kind, audience, title in _PAGES:
        connection.execute(
            "insert into public.pages (slug, status, kind, audience, title, tags) values (%s, %s, %s, %s, %s, '[\"tiền\"]')",
            (slug, status, kind, audience, title),
        )
        for number in range(1, _SECTIONS + 1):
            connection.execute(
                "insert into public.sections (page, sort, heading, content)"
                " select id, %s, %s, %s from public.pages where slug = %s",
                (number, f"Mục {number}", f"{title}, mục {number}. {_TEXT}", slug),
            )
    connection.execute(
        "insert into public.topics (slug, name, purpose)"
        " values ('hoan-tien', 'Hoàn tiền', 'Khi nào trả lại tiền'), ('noi-bo', 'Nội bộ', null)"
    )
    connection.execute(
        "insert into public.topics_sections (topics_slug, sections_id, is_main)"
        " select case p.slug when 'so-tay' then 'noi-bo' else 'hoan-tien' end, s.id, s.sort = 1"
        " from public.sections s join public.pages p on p.id = s.page"
    )
