-- The cohesion that calls a thread overbroad, measured in the offline model's space. Units of one subject in both languages (24 articles of
-- xquad) have .896 to .927, threads of the legal code .919 and more, of the sample hub .917 and more; five subjects in both languages
-- thrown together have at most .877, two subjects .877 to .898, and whatever one language of one corpus throws together stays above .889.

insert into cong.signal_policy (policy_version, space_id, window_days, statement_days, conditions, gaps, activated_by)
select 2, space_id, window_days, statement_days
     , case when conditions ? 'scattered'
         then jsonb_set(jsonb_set(conditions, '{scattered,enter}', '0.88'), '{scattered,leave}', '0.895') else conditions end
     , gaps, 'shipped default'
from cong.signal_policy where policy_version = 1;
