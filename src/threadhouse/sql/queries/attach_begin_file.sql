-- A statement that ends the transaction is refused inside of this, which a file sent as it is could do.
do $do$
begin
  execute current_setting('threadhouse.attached_file');
end
$do$
