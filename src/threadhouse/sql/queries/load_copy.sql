copy {staging} ({columns}) from stdin
