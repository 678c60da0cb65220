-- Version 2 of the event contract, and what lets an extract look at the days that changed and at no others.

-- A row's transaction is how a later extract finds it: sequence numbers are handed out in another order than they are committed in.
alter table nao.retrieval_metric_event
  add column unit_address text
, add column query_key text
, add column is_recurring boolean
, add column ingest_xid xid8 not null default pg_current_xact_id();
comment on column nao.retrieval_metric_event.unit_address is 'The unit that a noisy_unit event is about, as its pack names it.';
comment on column nao.retrieval_metric_event.query_key is 'Keyed hash of lane and folded question: equal questions of a lane have equal keys.';
comment on column nao.retrieval_metric_event.is_recurring is 'Whether the lane had asked the same question before; null where nobody can tell.';
comment on column nao.retrieval_metric_event.ingest_xid is 'Transaction that wrote the row.';

create index retrieval_metric_event_xid_idx on nao.retrieval_metric_event (ingest_xid);
create index retrieval_metric_event_asked_idx on nao.retrieval_metric_event (query_id, occurred_at) where type = 'query';
create index retrieval_metric_event_key_idx on nao.retrieval_metric_event (query_key) where type = 'query' and query_key is not null;
-- What still has words that retention may remove.
create index retrieval_metric_event_words_idx on nao.retrieval_metric_event (occurred_at) where query_text is not null;

create table nao.retrieval_event_edit
( edit_xid xid8 not null default pg_current_xact_id()
, query_id uuid
, occurred_at timestamptz not null
, edited_at timestamptz not null default now()
);
create index retrieval_event_edit_xid_idx on nao.retrieval_event_edit (edit_xid);
comment on table nao.retrieval_event_edit is
  'Where events were that somebody edited or deleted, and where edits put them: their days are extracted again. Kept for a month.';

-- Retention sets threadhouse.retention: what leaves by rule leaves no trace here and reopens no day.
create function nao.note_event_edit() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $fn$
begin
  if tg_op = 'DELETE' then
    insert into nao.retrieval_event_edit (query_id, occurred_at) select distinct query_id, occurred_at from was;
  else
    insert into nao.retrieval_event_edit (query_id, occurred_at)
    select distinct query_id, occurred_at from
    ( ( select to_jsonb(w) - '{query_text,ingest_xid}'::text[], query_id, occurred_at from was w
        except all
        select to_jsonb(i) - '{query_text,ingest_xid}'::text[], query_id, occurred_at from now_is i )
      union all
      ( select to_jsonb(i) - '{query_text,ingest_xid}'::text[], query_id, occurred_at from now_is i
        except all
        select to_jsonb(w) - '{query_text,ingest_xid}'::text[], query_id, occurred_at from was w )
    ) differing (content, query_id, occurred_at);
  end if;
  return null;
end
$fn$;
create trigger note_delete after delete on nao.retrieval_metric_event referencing old table as was
  for each statement when (current_setting('threadhouse.retention', true) is distinct from 'on') execute function nao.note_event_edit();
create trigger note_update after update on nao.retrieval_metric_event referencing old table as was new table as now_is
  for each statement when (current_setting('threadhouse.retention', true) is distinct from 'on') execute function nao.note_event_edit();

-- Events of one local day: all events of the queries that were first asked in it, and those that happened in it and whose query nobody knows.
-- Without a search_path of its own, so that it is planned as a part of the statement that asks it.
create function nao.events_of_day(first_instant timestamptz, next_instant timestamptz, earliest timestamptz, latest timestamptz)
returns table (event nao.retrieval_metric_event, attributed_at timestamptz)
language sql stable as $fn$
  select e, asked.asked_at
  from
  ( select q.query_id, min(q.occurred_at) as asked_at
    from nao.retrieval_metric_event q
    where q.type = 'query' and q.query_id is not null and q.occurred_at >= first_instant and q.occurred_at < next_instant
      and not exists
          ( select from nao.retrieval_metric_event sooner
            where sooner.query_id = q.query_id and sooner.type = 'query'
              and sooner.occurred_at >= earliest and sooner.occurred_at < first_instant )
    group by q.query_id ) asked
  join nao.retrieval_metric_event e on e.query_id = asked.query_id
  where e.occurred_at >= earliest and e.occurred_at < latest
  union all
  select e, e.occurred_at
  from nao.retrieval_metric_event e
  where e.occurred_at >= first_instant and e.occurred_at < next_instant
    and not exists
        ( select from nao.retrieval_metric_event q
          where q.query_id = e.query_id and q.type = 'query' and q.occurred_at >= earliest and q.occurred_at < latest )
$fn$;

create table nao.retrieval_event_horizon
( is_only_row boolean primary key default true check (is_only_row)
, kept_from date
, lake_kept_from date
, time_zone text not null
, moved_at timestamptz not null default now()
);
comment on table nao.retrieval_event_horizon is
  'First local day that Postgres still keeps events of, and the lake. Older days are closed: what arrives for them is quarantined.';
