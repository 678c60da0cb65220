create temporary table if not exists {staging} as
select 0::int as row_no, null::text as canonical_address, null::text as document_id, t.* from {target} t with no data
