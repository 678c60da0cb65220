-- Numbers of thread resolution, version 2: search has changed since version 1 was fitted, and threads that are gone had only been taken
-- out of what search had found, which made a missing thread look easier to notice than it is. Fitted by
-- `threadhouse.retrieval.calibration` on what `RetrievalService.observe` saw of public questions (xquad in hubs of one language, of both
-- and of articles in one of the two; the Vietnamese legal code; sentences that cite a PEP) and of the sample hub. For xquad in one
-- language every second question, and every fifth of the threads really left out of the hub in turn; two of the five for the legal code,
-- none for the others. Whether any thread answers has numbers of its own now; in the offline model's space (the second row) how near the
-- nearest unit is counts, the first row serves every other space. A hub that was calibrated by its own people keeps its numbers.

insert into cong.retrieval_policy
( policy_version, space_id, coefficients, scales, ranking, single_threshold, match_threshold, candidate_floor, candidate_limit, fitted_on, activated_by )
select *
from ( values
  ( 2, ''
    , '{"same:intercept": -6.04, "same:dense": 0.692, "same:dense_mass": 0.697, "same:bm25_accented": 0.047
    , "same:bm25_folded": 2.002, "same:bm25_names": 0.958, "same:score": 0.669, "same:lead": 4.594, "same:centroid": 0.169
    , "cross:intercept": -6.266, "cross:dense_mass": 0.674, "cross:bm25_names": 0.275, "cross:score": 8.004
    , "cross:lead": 1.807, "cross:centroid": 0.415, "unmarked:intercept": -3.605, "unmarked:bm25_accented": 0.266
    , "unmarked:bm25_folded": 1.86, "unmarked:bm25_names": 1.431, "unmarked:lead": 8.985, "unmarked:centroid": 0.334
    , "label": 1.795, "keyword": 0.982, "authority": 2.248, "explicit": 12.0, "same:match_intercept": 0.213
    , "same:match_slope": 0.961, "cross:match_intercept": 0.134, "cross:match_slope": 0.731
    , "unmarked:match_intercept": -0.734, "unmarked:match_slope": 1.902}'::jsonb
    , '{}'::jsonb
    , '{"recency": 0.15, "authority": 0.15, "health": 0.25, "coverage": 0.1, "recency_half_life_days": 180.0, "health_parts": {"healthy": 1.0, "stale": 0.4, "overbroad": 0.4, "too_narrow": 0.6, "noisy_retrieval": 0.3, "weak": 0.0}}'::jsonb
    , 0.51, 0.46, 0.02, 5
    , '{"queries": 7067, "hit_at_1": 0.9287, "hit_at_3": 0.9656, "single_precision": 0.9516, "single_recall": 0.8745, "missing_precision": 0.753, "missing_recall": 0.4842, "missing_auroc": 0.9187, "calibration_error": 0.0152, "log_loss": 0.459}'::jsonb, 'shipped default' ),
  ( 2, 'me5-small-q4-384-3fbd7fa203'
    , '{"same:intercept": -6.04, "same:dense": 0.692, "same:dense_mass": 0.697, "same:bm25_accented": 0.047
    , "same:bm25_folded": 2.002, "same:bm25_names": 0.958, "same:score": 0.669, "same:lead": 4.594, "same:centroid": 0.169
    , "cross:intercept": -6.266, "cross:dense_mass": 0.674, "cross:bm25_names": 0.275, "cross:score": 8.004
    , "cross:lead": 1.807, "cross:centroid": 0.415, "unmarked:intercept": -3.605, "unmarked:bm25_accented": 0.266
    , "unmarked:bm25_folded": 1.86, "unmarked:bm25_names": 1.431, "unmarked:lead": 8.985, "unmarked:centroid": 0.334
    , "label": 1.795, "keyword": 0.982, "authority": 2.248, "explicit": 12.0, "same:match_intercept": -5.01
    , "same:match_slope": 0.842, "same:match_cosine": 6.91, "cross:match_intercept": -32.292, "cross:match_slope": 0.547
    , "cross:match_cosine": 47.424, "unmarked:match_intercept": -0.843, "unmarked:match_slope": 1.898
    , "unmarked:match_cosine": 0.268}'::jsonb
    , '{}'::jsonb
    , '{"recency": 0.15, "authority": 0.15, "health": 0.25, "coverage": 0.1, "recency_half_life_days": 180.0, "health_parts": {"healthy": 1.0, "stale": 0.4, "overbroad": 0.4, "too_narrow": 0.6, "noisy_retrieval": 0.3, "weak": 0.0}}'::jsonb
    , 0.51, 0.46, 0.02, 5
    , '{"queries": 7067, "hit_at_1": 0.9287, "hit_at_3": 0.9656, "single_precision": 0.9516, "single_recall": 0.8745, "missing_precision": 0.753, "missing_recall": 0.4842, "missing_auroc": 0.9187, "calibration_error": 0.0152, "log_loss": 0.459}'::jsonb, 'shipped default' )
) as shipped
where not exists (select from cong.retrieval_policy where policy_version > 1);
