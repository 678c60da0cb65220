insert into nao.source_watermark (view_name, watermark) values (%(view_name)s, %(watermark)s)
on conflict (view_name) do update set watermark = excluded.watermark, compared_at = clock_timestamp()
