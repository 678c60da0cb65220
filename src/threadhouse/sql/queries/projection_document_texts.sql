select document_id as owner_id, document_id || '@' || revision as version_key, title, body
from source.production_document
where document_id = any (%(owner_ids)s)
