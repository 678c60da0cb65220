-- Two calibrations at once would both copy the same version and one of them would lose its row.
lock table cong.retrieval_policy in share row exclusive mode
