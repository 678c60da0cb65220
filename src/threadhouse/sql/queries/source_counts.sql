select (select count(*) from source.production_document) as documents
     , (select count(*) from source.information_unit) as units
     , (select count(*) from source.semantic_thread) as threads
