-- Two changes at once would both take the same number; readers are not stopped.
lock table cong.audience_filter_policy in share row exclusive mode
