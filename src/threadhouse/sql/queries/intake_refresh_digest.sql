select questions_digest from nao.intake_refresh
