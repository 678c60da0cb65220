-- A revoke that still waits for its packs stays.
select w.ctid from nao.revocation_wait w where w.vectors_agreed_at < %(before)s and w.packs_agreed_at is not null
