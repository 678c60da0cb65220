-- A new proposal, or what a known one is now. It only ever grows; a decision is undone only when it is said so.
insert into nao.thread_intake_proposal as p
( proposal_id, lane, cause_key, proposed_title, language, candidate_units, question_keys, query_ids, question_count, session_count, cohesion
, first_seen_at, last_seen_at )
values
( %(proposal_id)s, %(lane)s, %(cause_key)s, %(proposed_title)s, %(language)s, %(candidate_units)s, %(question_keys)s, %(query_ids)s
, cardinality(%(query_ids)s::uuid[]), %(session_count)s, %(cohesion)s, %(first_seen_at)s, %(last_seen_at)s )
on conflict (proposal_id) do update set
  proposed_title = case when p.status = 'accepted' then p.proposed_title else excluded.proposed_title end
, language = excluded.language
, candidate_units = case when p.status = 'accepted' then p.candidate_units else excluded.candidate_units end
, question_keys = array(select unnest(p.question_keys) union select unnest(excluded.question_keys) order by 1)
, query_ids = array(select unnest(p.query_ids) union select unnest(excluded.query_ids) order by 1)
, question_count = (select count(*) from (select unnest(p.query_ids) union select unnest(excluded.query_ids)) u)
, session_count = greatest(p.session_count, excluded.session_count)
, cohesion = excluded.cohesion
, first_seen_at = least(p.first_seen_at, excluded.first_seen_at)
, last_seen_at = greatest(p.last_seen_at, excluded.last_seen_at)
, updated_at = clock_timestamp()
, status = case when %(is_open_again)s then 'open' else p.status end
, decided_at = case when %(is_open_again)s then null else p.decided_at end
