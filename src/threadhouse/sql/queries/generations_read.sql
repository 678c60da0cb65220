select space_id, generation, state, embedding_model, embedding_path, created_at, changed_at
from nao.vector_generation
order by created_at, space_id, generation
