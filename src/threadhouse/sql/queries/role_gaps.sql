select gap, meaning from cong.role_gaps()
