delete from nao.source_touch returning view_name, id
