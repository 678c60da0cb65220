-- A hub that people keep in Directus, read by Threadhouse: threadhouse attach --sources examples/attach/directus.sql
-- Adapt the names to your collections. Whatever has no label stays hidden: map each of your words, and let the others be null.
--
-- Which rows of a view a change concerns. Tables without such a line are compared instead (docs/attach.md).
-- changes: public.pages.id -> production_document.document_id
-- changes: public.pages.id -> information_unit.document_id
-- changes: public.sections.id -> information_unit.logical_unit_id
-- changes: public.topics.slug -> semantic_thread.thread_id
-- changes: public.topics_sections.topics_slug -> thread_membership.thread_id

create view source.production_document as
select p.id as document_id
     , p.slug as path
     , p.title
     , array(select jsonb_array_elements_text(p.tags)) as tags
     , coalesce(p.intro, '') as body
     , coalesce(p.language, 'vi') as language
     , 1 as revision
     , nao.text_hash(p.title, coalesce(p.intro, '')) as content_hash
     , case p.kind when 'regulation' then 'law' when 'handbook' then 'design' when 'report' then 'report' end as lifecycle_stage
     , 'unclassified' as data_classification
     , case p.audience when 'everybody' then 'public' when 'partners' then 'partner' when 'staff' then 'employee' end as visibility
     , case p.status when 'published' then 'published' when 'draft' then 'draft' when 'archived' then 'superseded' end as readiness
     , case p.status when 'published' then 'published' when 'draft' then 'unpublished' when 'archived' then 'withdrawn' end as publication_state
     , 'standard' as risk_class
     , case p.kind when 'regulation' then 'enacted' else 'runtime' end as authority
     , coalesce(p.date_updated, p.date_created) as updated_at
     , exists (select from public.sections s where s.page = p.id) as has_units
from public.pages p;

-- A section has no versions of its own: another text is another version.
create view source.information_unit as
select s.id as logical_unit_id
     , d.document_id
     , d.path || '#' || s.sort as canonical_address
     , 'section' as unit_kind
     , d.lifecycle_stage
     , s.sort as ordinal
     , d.visibility
     , d.readiness
     , d.publication_state
     , case when s.is_sensitive then 'high' else d.risk_class end as risk_class
     , d.authority
     , d.data_classification
     , nao.text_version(s.id::text, s.heading, s.content) as unit_version_id
     , 1 as revision
     , s.heading as title
     , s.content as body
     , nao.text_hash(s.heading, s.content) as content_hash
     , coalesce(s.date_updated, d.updated_at) as created_at
     , d.title as document_title
     , d.path
     , d.language
     , d.tags
from public.sections s
join source.production_document d on d.document_id = s.page
where s.content <> '';

create view source.semantic_thread as
select t.slug as thread_id
     , 'TOPIC/' || t.slug as canonical_address
     , t.name as title
     , array(select jsonb_array_elements_text(t.other_names)) as aliases
     , coalesce(t.purpose, '') as purpose
     , '' as description
     , array[]::text[] as labels
     , array[]::text[] as anchors
     , null::text as owner
     , null::text as visibility, null::text as readiness, null::text as publication_state, null::text as risk_class, null::text as authority
from public.topics t;

create view source.thread_membership as
select m.topics_slug as thread_id
     , m.sections_id as logical_unit_id
     , case when m.is_main then 'canonical' else 'supporting' end as role
     , 1.0::double precision as confidence
     , 'confirmed' as status
     , null::text as evidence
from public.topics_sections m
-- Directus empties these when an entry is taken off a list.
where m.topics_slug is not null and m.sections_id is not null;
