create role {role} nologin noinherit
