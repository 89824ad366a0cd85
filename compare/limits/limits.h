/* Every constant that decides a verdict, an identified structure or a name: its reason stands beside its value, in limits.c. */
#ifndef ETALON_LIMITS_H
#define ETALON_LIMITS_H

#include <stddef.h>

/* rules */
extern const double alpha, slack, harmless_bias, harmless_gain, foreign_least, foreign_few, foreign_share, foreign_deviations, clear_share, truth_share, sample_share, least_error, loose, algebra_reach;
extern const size_t widest_chunk;
/* a layer of a model */
extern const double layer_limit, layer_row_limit, layer_constant_agrees, rows_alike, engines_own_contract, plain_leaves;
/* a structure is identified */
extern const double explained_enough, explained_plenty, few_flips, saturated, float32s_size, float32s_share, coarsest, sums_in_order, most_of_noise;
/* a name is earned */
extern const double certain, likely, above_noise, worth_keeping, off_one, flips_off_one, errors_off_one, well_known, another_number, most_of_left, else_finite, least_votes, most_votes;
/* where an error is */
extern const double place_wrong, place_share, place_grade, place_chance, place_denser, place_clean, place_full,
	place_plain, place_nearly, place_worth, moved_share, isolated_share, isolated_size;
/* a choice of structure, or a fault beside it, is better than another */
extern const double sign_test, no_worse, much_louder, fault_shrinks;
/* a search's budget */
extern const double structure_work, structure_work_profile, hopeless_soon, left_soon, hopeless_late, left_late;
extern const size_t structure_sees, structure_sees_last, structure_sees_states, structure_glances;
extern const double far_at_a_glance;

#endif
