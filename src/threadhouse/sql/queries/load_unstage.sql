delete from {staging} where row_no = any (%(row_nos)s)
