-- The words of a question are kept as long as its event keeps them, here as well. A title may be made of them; that of a thread stays.
update nao.thread_intake_proposal p set
  queries = kept.texts
, proposed_title = case when kept.texts = '{}' and p.status <> 'accepted' then '(words not kept)' else p.proposed_title end
from
( select q.proposal_id
       , array(select distinct e.query_text from nao.retrieval_metric_event e
               where e.query_id = any (q.query_ids) and e.type = 'query' and e.query_text is not null order by 1) as texts
  from nao.thread_intake_proposal q ) kept
where kept.proposal_id = p.proposal_id and kept.texts is distinct from p.queries
