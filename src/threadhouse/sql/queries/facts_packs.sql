-- Stored packs as counts and flags: no title, no body, no address leaves here.
select p.thread_id, p.lane
     , p.pack ->> 'thread_id' is not distinct from p.thread_id and p.pack ->> 'lane' is not distinct from p.lane
       and p.pack ->> 'pack_id' is not distinct from p.pack_id::text as names_itself
     , exists (select from source.semantic_thread t where t.thread_id = p.thread_id) as has_thread
     , cardinality(array(select unnest(%(fields)s::text[]) except select jsonb_object_keys(p.pack))) as missing_fields
     , u.unit_count, u.units_without_source, u.repeated_units, u.units_without_text
     , (select count(*) from
         ( select o.address from jsonb_array_elements_text(p.pack -> 'recommended_reading_order') as o (address)
           except all select a from unnest(u.addresses) as a ) extra)
       + (select count(*) from
         ( select a from unnest(u.addresses) as a
           except all select o.address from jsonb_array_elements_text(p.pack -> 'recommended_reading_order') as o (address) ) lacking)
       as units_not_ordered
     , p.policy_version, cong.policy_in_force() as policy_in_force, p.build_ms
from nao.context_pack_in_force p
cross join lateral
( select count(distinct x.unit ->> 'logical_unit_id') as unit_count
       , count(*) filter (where coalesce(x.unit ->> 'canonical_address', '') = '' or x.unit ->> 'source_revision' is null) as units_without_source
       , count(*) filter (where x.is_member) - count(distinct x.unit ->> 'logical_unit_id') filter (where x.is_member) as repeated_units
       , count(*) filter (where coalesce(x.unit ->> 'body', '') !~ '\S') as units_without_text
       , array_agg(distinct x.unit ->> 'canonical_address') as addresses
  from
  ( select jsonb_array_elements(p.pack -> 'canonical_units') as unit, true as is_member
    union all select jsonb_array_elements(p.pack -> 'supporting_units'), true
    union all select jsonb_array_elements(p.pack -> 'latest_reports'), false ) x ) u
order by p.thread_id, p.lane
