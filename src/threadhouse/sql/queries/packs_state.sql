select thread_id, input_revision, policy_version, space_id, code_version from nao.thread_pack_state
