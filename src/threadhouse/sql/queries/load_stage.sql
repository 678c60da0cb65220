-- A staging table with the columns of its target and none of its constraints; faults are found before anything is written.
create temporary table if not exists {staging} as
select 0::int as row_no, null::int as stated_revision, false as may_update, t.* from {target} t with no data
