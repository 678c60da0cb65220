-- Events of a local day as the lake keeps them; never what was asked. Literals are filled in, because the driver takes no parameters here.
select (d.event).event_id
     , (d.event).ingest_seq
     , (d.event).event_version
     , (d.event).occurred_at
     , (d.event).ingested_at
     , d.attributed_at
     , (d.event).type
     , (d.event).query_id
     , (d.event).session_id
     , (d.event).lane
     , (d.event).thread_id
     , (d.event).resolution_path
     , (d.event).reason
     , (d.event).latency_ms
     , (d.event).unit_address
     , (d.event).query_key
     , (d.event).is_recurring
     , case when jsonb_typeof((d.event).details -> 'sufficient') = 'boolean' then ((d.event).details -> 'sufficient')::boolean end as sufficient
     , (d.event).details::text as details
from nao.events_of_day({first}, {next}, {earliest}, {latest}) d
