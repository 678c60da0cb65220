vacuum {table}
