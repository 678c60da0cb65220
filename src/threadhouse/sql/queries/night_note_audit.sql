insert into nao.projection_audit (collection, points, owners, findings)
values (%(collection)s, %(points)s, %(owners)s, %(findings)s)
