-- See what the connection sees that exported the snapshot.
set transaction snapshot {snapshot}
