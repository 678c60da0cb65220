-- What a pack that once left held, for its own lane.
select thread_id, source_revisions from nao.delivered_pack where pack_id = %(pack_id)s and lane = %(lane)s
