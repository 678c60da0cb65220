-- The role that statements are run as now; 'none' is the login itself.
select current_setting('role')
