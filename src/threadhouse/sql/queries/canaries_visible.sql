-- What the current role sees of the canaries, by kind; no condition but their names.
select 'unit' as kind, v.logical_unit_id as mark from visible.information_unit v where v.logical_unit_id = any (%(units)s)
union all
select 'document', v.document_id from visible.production_document v where v.document_id = any (%(documents)s)
union all
select 'thread', v.thread_id from visible.semantic_thread v where v.thread_id = any (%(threads)s)
union all
select 'member', v.logical_unit_id from visible.thread_membership v where v.thread_id = any (%(threads)s)
union all
select 'gap', v.thread_id || ' ' || v.lifecycle_stage from visible.expected_artifact_missing v where v.thread_id = any (%(threads)s)
union all
select 'link', v.target_id from visible.universal_edge v where v.source_kind = 'unit' and v.source_id = %(open_unit)s
