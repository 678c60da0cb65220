select view_name, watermark from nao.source_watermark
