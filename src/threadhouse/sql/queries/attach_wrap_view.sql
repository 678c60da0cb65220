-- The attached rows, and our own beside them: canaries and what is loaded stay visible.
create or replace view {view} as
select {columns} from {attached} as a
union all
{own}
