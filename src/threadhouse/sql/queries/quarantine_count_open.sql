select source, count(*) from nao.quarantined_item where resolved_at is null group by source order by source
