-- Numbers of thread resolution as shipped, fitted by `threadhouse.retrieval.calibration` on public questions (xquad in both languages, within
-- and across them and without marks, in pools of 10 to 48 threads; headings and cross-references of the Vietnamese legal code) and on the
-- questions of the sample hub, with questions of one set put to the hub of another as ones that no thread answers. All were asked in the
-- offline model's space, whose row is the second; the first serves every other space until somebody calibrates it there. Both take the
-- scale of cosines from the hits of each question: a fixed scale for the space had a log-loss .446 against .452, but lost .11 of the right
-- first threads in the small sample hub.

insert into cong.retrieval_policy
( policy_version, space_id, coefficients, scales, ranking, single_threshold, match_threshold, candidate_floor, candidate_limit, fitted_on, activated_by )
values
( 1, ''
, '{"same:intercept": -9.729, "same:dense": 1.018, "same:dense_mass": 0.376, "same:bm25_accented": 1.182, "same:bm25_folded": 0.845
  , "same:bm25_names": 0.464, "same:score": 4.54, "same:lead": 0.548, "same:centroid": 0.15, "cross:intercept": -6.608
  , "cross:dense": 0.297, "cross:dense_mass": 0.68, "cross:bm25_names": 0.699, "cross:score": 7.43, "cross:lead": 0.47
  , "cross:centroid": 0.47, "unmarked:intercept": -4.025, "unmarked:bm25_accented": 0.035, "unmarked:bm25_folded": 2.257, "unmarked:bm25_names": 1.736
  , "unmarked:lead": 3.823, "unmarked:centroid": 0.117, "label": 2.049, "keyword": 1.174, "authority": 1.6
  , "explicit": 12.0}'
, '{}'
, '{"recency": 0.15, "authority": 0.15, "health": 0.25, "coverage": 0.1, "recency_half_life_days": 180.0, "health_parts": {"healthy": 1.0, "stale": 0.4, "overbroad": 0.4, "too_narrow": 0.6, "noisy_retrieval": 0.3, "weak": 0.0}}'
, 0.56, 0.52, 0.02, 5
, '{"queries": 2528, "hit_at_1": 0.9256, "hit_at_3": 0.9632, "single_precision": 0.9512, "single_recall": 0.8339, "missing_precision": 0.8334, "missing_recall": 0.7592, "missing_auroc": 0.9599, "calibration_error": 0.0302, "log_loss": 0.4519}', 'shipped default' ),
( 1, 'me5-small-q4-384-3fbd7fa203'
, '{"same:intercept": -9.729, "same:dense": 1.018, "same:dense_mass": 0.376, "same:bm25_accented": 1.182, "same:bm25_folded": 0.845
  , "same:bm25_names": 0.464, "same:score": 4.54, "same:lead": 0.548, "same:centroid": 0.15, "cross:intercept": -6.608
  , "cross:dense": 0.297, "cross:dense_mass": 0.68, "cross:bm25_names": 0.699, "cross:score": 7.43, "cross:lead": 0.47
  , "cross:centroid": 0.47, "unmarked:intercept": -4.025, "unmarked:bm25_accented": 0.035, "unmarked:bm25_folded": 2.257, "unmarked:bm25_names": 1.736
  , "unmarked:lead": 3.823, "unmarked:centroid": 0.117, "label": 2.049, "keyword": 1.174, "authority": 1.6
  , "explicit": 12.0}'
, '{}'
, '{"recency": 0.15, "authority": 0.15, "health": 0.25, "coverage": 0.1, "recency_half_life_days": 180.0, "health_parts": {"healthy": 1.0, "stale": 0.4, "overbroad": 0.4, "too_narrow": 0.6, "noisy_retrieval": 0.3, "weak": 0.0}}'
, 0.56, 0.52, 0.02, 5
, '{"queries": 2528, "hit_at_1": 0.9256, "hit_at_3": 0.9632, "single_precision": 0.9512, "single_recall": 0.8339, "missing_precision": 0.8334, "missing_recall": 0.7592, "missing_auroc": 0.9599, "calibration_error": 0.0302, "log_loss": 0.4519}', 'shipped default' );

-- Seven regular expressions a call: where there is an index, use it, however small the table.
alter function nao.reference_key(text) cost 20000;
alter function nao.phrase_key(text) cost 20000;
