-- How far a consumer has come; no row when it never began, or when another server counted (a restored dump).
select c.position::text
from nao.change_consumer c
join pg_control_system() s on c.cluster = s.system_identifier::text
where c.consumer = %(consumer)s
