select (select count(*) from nao.source_touch) as touches, (select min(touched_at) from nao.source_touch) as oldest_touch_at
     , (select min(compared_at) from nao.source_watermark) as compared_at
