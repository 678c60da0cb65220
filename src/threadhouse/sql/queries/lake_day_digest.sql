-- What a local day holds, in three numbers: any insert, edit, delete or move of an event changes one of them. The sum makes order irrelevant.
select count(*) as event_count
     , max((d.event).ingest_seq) as max_ingest_seq
     , sum(hash_record_extended(row
         ( (d.event).event_id, (d.event).event_version, (d.event).occurred_at, (d.event).ingested_at, (d.event).type, (d.event).query_id
         , (d.event).session_id, (d.event).lane, (d.event).thread_id, (d.event).resolution_path, (d.event).reason, (d.event).latency_ms
         , (d.event).unit_address, (d.event).query_key, (d.event).is_recurring, (d.event).details, d.attributed_at
         ), 0))::text as content_hash
from nao.events_of_day(%(first)s, %(next)s, %(earliest)s, %(latest)s) d
