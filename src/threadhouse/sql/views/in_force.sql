-- What belongs to the generation of vectors that is in force, for figures and checks. Readers do not need it: they name the collection
-- that the alias means. Before the first generation is written down, everything that is there is in force.

create or replace view nao.vector_projection_in_force as
select p.*
from nao.vector_projection p
left join nao.vector_generation g on g.state = 'in_force'
where g.space_id is null or p.physical = p.collection || '__' || g.space_id || '__g' || g.generation;

create or replace view nao.context_pack_in_force as
select c.*
from nao.thread_context_pack_cache c
where c.space_id = coalesce((select g.space_id from nao.vector_generation g where g.state = 'in_force'), c.space_id);

create or replace view nao.pack_state_in_force as
select s.*
from nao.thread_pack_state s
where s.space_id = coalesce((select g.space_id from nao.vector_generation g where g.state = 'in_force'), s.space_id);

-- Documents whose units are there and do not show. A publish plans with what is wanted; everybody else sees what is.
create or replace view nao.document_in_legacy as
select s.document_id
from nao.document_side s
where case current_setting('threadhouse.sides', true) when 'wanted' then s.wanted else s.side end = 'legacy';

create or replace view nao.held_unit as
select u.logical_unit_id, u.document_id
from nao.document_in_legacy h
join public.tac_logical_unit u using (document_id);
