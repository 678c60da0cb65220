select space_id, generation from nao.vector_generation where state = 'in_force'
