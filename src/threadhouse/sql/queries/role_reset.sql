-- Back to the role that logged in, inside a transaction that goes on.
set local role none
