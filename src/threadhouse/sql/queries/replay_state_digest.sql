-- One value for everything that answers are made from. Sums of hashes, because no order is promised and none is needed.
select md5(concat_ws('/'
, (select sum(hashtextextended(concat_ws(E'\x1f', physical, owner_id, version_key, content_digest, payload_digest), 0)::numeric)
   from nao.vector_projection_in_force)
, (select sum(hashtextextended(concat_ws(E'\x1f', thread_id, input_revision), 0)::numeric) from source.semantic_thread)
, (select max(policy_version) from cong.audience_filter_policy where activated_at <= statement_timestamp())
, (select max(policy_version) from cong.retrieval_policy where activated_at <= statement_timestamp())
, %(code)s::text ))
