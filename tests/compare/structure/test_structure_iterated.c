/* Iterations that run free: a rounding that flips is amplified, so that their first turns are read first. */
#include "compare/structure/beam.h"
#include "planted.h"

/* A kernel with operands in bf16, of a matrix of 48 x 33 in `turns` iterations; its structure. */
static struct search *planted(size_t turns, struct candidate *x)
{
	const struct case_dim dims[] = { { "N", 48 }, { "M", 33 }, { "S", 33 }, { "L", 48 }, { "K", turns }, { 0 } };
	struct test_case few = *case_find("newton_schulz", "tall_standard_f32");
	struct error e;

	few.dims = dims;
	no_error(case_make(&capture, &few, 3, true, &e), &e);
	json_t *list = json_array();
	for (size_t i = 0; i < turns; i++) json_array_append_new(list, json_pack("[f, f, f]", 3.4445, -4.775, 2.0315));
	json_object_set_new(capture.params, "coefficients", list);
	return planted_in(0, x);
}

/* With as many turns rounded as there are, all is as the kernel's; with fewer the rest of them is exact. */
static void turns_are_rounded_one_after_the_other(void **state)
{
	(void)state;
	for (size_t turns = 1; turns <= 2; turns++) {
		struct candidate x;
		struct search *s = planted(turns, &x);
		assert_int_equal(s->n_stage, 4);
		for (int k = 0; k < s->n_stage; k++) {
			assert_int_equal(s->rounded[k], k < 3 ? k + 1 : 0);
			try(s, &x, k);
			if (k < 3 && (size_t)k + 1 < turns) assert_true(x.energy > 0.01 && x.energy < 10);
			else assert_true(x.cost < 1e-9);
		}
		ended(s);
		capture_free(&capture);
	}
}

static void forget(struct search *s)
{
	for (int k = 0; k < LANES * MAX_STAGE; k++) view_free(&s->graph[0][0].view[k / MAX_STAGE][k % MAX_STAGE]);
	memset(s->seen, 0, SEEN * sizeof *s->seen);
}

/* Two candidates cost side by side what each costs alone, and less work than one after the other; what is known is not computed again. */
static void two_cost_what_each_costs_alone(void **state)
{
	struct candidate x;

	(void)state;
	struct search *s = planted(2, &x);
	const int last = s->n_stage - 1;
	struct candidate one[6], two[6];
	int n = 0;
	try(s, &x, last);
	for (int i = 0; i < x.met.n && n < 6; i++) {
		if (!is_rounding(&s->keys.at[x.met.key[i]])) continue;
		one[n] = x;
		one[n++].config.value[x.met.key[i]] = IN_BF16 - x.config.value[x.met.key[i]] / IN_BF16;
	}
	assert_int_equal(n, 6);
	memcpy(two, one, sizeof two);
	for (int i = 0; i < n; i += 2) {
		double work[3] = { s->work };
		forget(s);
		assert_true(try_two(s, &two[i], &two[i + 1], last));
		work[0] = s->work - work[0];
		for (int j = 0; j < 2; j++) {
			forget(s);
			work[1 + j] = s->work;
			try(s, &one[i + j], last);
			work[1 + j] = s->work - work[1 + j];
			assert_true(one[i + j].cost == two[i + j].cost && one[i + j].met.n == two[i + j].met.n && one[i + j].cost > 0);
			for (int k = 0; k < i + j; k++) assert_true(one[k].cost != one[i + j].cost);
		}
		assert_true(work[0] < 0.8 * (work[1] + work[2]) && work[0] > 0.9 * fmax(work[1], work[2]));
	}
	memset(s->seen, 0, SEEN * sizeof *s->seen);
	try(s, &one[0], last);
	const size_t tries = s->tries;
	assert_true(try_two(s, &two[0], &two[1], last) && s->tries == tries + 1);
	assert_true(try_two(s, &two[0], &two[0], last) && s->tries == tries + 1);
	assert_true(one[0].cost == two[0].cost && one[1].cost == two[1].cost);
	ended(s);
	capture_free(&capture);
}

/* A kernel on tensor cores, each of whose products goes on from the other terms of its sum, or none. */
static struct candidate on_tensor_cores(struct search *s, bool goes_on)
{
	struct candidate x = operands_in_bf16(s, 0);

	for (int go = 0; go < 3; go++) {
		try(s, &x, s->n_stage - 1);
		for (int i = 0; i < x.met.n; i++)
			if (s->keys.at[x.met.key[i]].kind == CHOOSE_SUMS) x.config.value[x.met.key[i]] = s->keys.at[x.met.key[i]].what == W_SUMS || goes_on;
	}
	assert_true(key_about(s, &x, W_ONTO) >= 0);
	return x;
}

static void a_product_goes_on_from_other_terms_in_exact_turns_too(void **state)
{
	struct candidate x;

	(void)state;
	struct search *s = planted(2, &x);
	x = on_tensor_cores(s, true);
	s = answered_by(s, &x);
	x = on_tensor_cores(s, true);
	assert_true(x.cost < 1e-9);
	struct score score[MAX_OUT];
	assert_true(measured_at(s, &x, 0, score, NULL));
	assert_true(score[0].left[0] > 0.01 * score[0].base[0] && score[0].left[0] < 10 * score[0].base[0]);
	ended(s);
	capture_free(&capture);
}

/* What is left of the recorded error without the part along the candidate's, and how the two go together (-1 … 1). */
static double across(struct search *s, const struct candidate *x, double *together)
{
	double *y[MAX_OUT] = { 0 }, e2 = 0, d2 = 0, ed = 0;

	assert_true(answers_make(s, y) && answered_in(s, graph_of(s, x), x, y));
	store_type(call.out[0]->dtype, y[0], call.out_count[0]);
	for (size_t i = 0; i < call.out_count[0]; i++) {
		double w = (double)s->weight[0][i], exact = (double)(float)s->truth.hi[0][i];
		double e = ((double)s->recorded[0][i] - exact) * w, d = (y[0][i] - exact) * w;
		e2 += e * e, d2 += d * d, ed += e * d;
	}
	for (int o = 0; o < MAX_OUT; o++) free(y[o]);
	*together = d2 > 0 ? ed / sqrt(e2 * d2) : 0;
	return *together > 0 ? 1 - *together * *together : 1;
}

/* A candidate that lacks a rounding goes the kernel's way before it comes near: of its energy what lies along the kernel's error is none. */
static void what_goes_along_the_error_counts(void **state)
{
	struct candidate x;
	int along = 0, against = 0;

	(void)state;
	struct search *s = planted(5, &x);
	const int last = s->n_stage - 1;
	try(s, &x, last);
	const struct met met = x.met;
	for (int i = 0; i < met.n; i++) {
		struct candidate t = x, alone = { 0 };
		struct score score[MAX_OUT];
		double together;
		if (s->keys.at[met.key[i]].kind != CHOOSE_OPERAND) continue;
		t.config.value[met.key[i]] = IN_F16;
		alone.config.value[met.key[i]] = IN_BF16;
		struct candidate *both[] = { &t, &alone };
		for (int k = 0; k < 2; k++) {
			try(s, both[k], last);
			assert_float_equal(both[k]->energy, across(s, both[k], &together), 1e-5);
			assert_true(measured(s, both[k], score, NULL));
			along += together > 0.3 && score[0].left[0] > 1.05 * both[k]->energy * score[0].base[0];
			against += together < -1e-2;
		}
	}
	print_message("%d along, %d against\n", along, against);
	assert_true(along > 0 && against > 0);
	ended(s);
	capture_free(&capture);
}

/* A kernel in the other form, on tensor cores; what explains little without both is found from one that has neither. */
static void a_form_and_sums_are_found_together(void **state)
{
	struct candidate x;
	struct beams b;

	(void)state;
	struct search *s = planted(5, &x);
	x = on_tensor_cores(s, false);
	x = in_form(s, &x, 1, s->n_stage - 1);
	s = answered_by(s, &x);
	const int last = s->n_stage - 1;
	struct candidate none = operands_in_bf16(s, 0), form = in_form(s, &none, 1, last), sums = on_tensor_cores(s, false);
	try(s, &none, last);
	assert_true(fmin(none.energy, fmin(form.energy, sums.energy)) > 0.1);
	assert_true(beams_make(s, &b));
	add_to_both(&none, &b);
	forms_and_sums(s, &b, last);
	print_message("%g with the form, %g with sums; found: %g\n", form.energy, sums.energy, b.by[0].at[0].energy);
	assert_int_equal(b.by[0].at[0].form, 1);
	assert_true(b.by[0].at[0].energy < 1e-9);
	beams_free(&b);
	ended(s);
	capture_free(&capture);
}

/* Where operations are not rounded, none is in bf16. */
static void a_sum_is_narrow_only_where_operations_are_rounded(void **state)
{
	struct candidate x = { 0 };

	(void)state;
	model_case(&capture, "rmsnorm", "zero_centred_256", "f32");
	struct search *s = begun();
	try(s, &x, s->n_stage - 1);
	assert_true(key_about(s, &x, W_NARROW) >= 0 && key_about(s, &x, W_WIDE) >= 0);
	x.config.value[key_about(s, &x, W_WIDE)] = 1;
	try(s, &x, s->n_stage - 1);
	assert_int_equal(key_about(s, &x, W_NARROW), -1);
	ended(s);
	capture_free(&capture);
}

/* Rows that are no tokens are all there at each stage: they count once. */
static void the_same_elements_count_once(void **state)
{
	struct candidate none = { 0 };

	(void)state;
	model_case(&capture, "muon_step", "mean_f32", "f32");
	struct search *s = begun();
	for (int k = 0; k < s->n_stage; k++) {
		try(s, &none, k);
		assert_true(none.energy < 1.01);
	}
	ended(s);
	capture_free(&capture);
}

/* known, where not NULL: what another call told, and then what this one tells, `at` freed by the caller. */
static void reads(const char *name, double work, double least, struct structure_choices *known)
{
	const struct structure_search search = { .work = work, .known = known && known->n ? known : NULL };
	struct structure_reading r;
	struct error e;
	const char *why;
	char path[256];

	snprintf(path, sizeof path, "fixtures/captures/%s.safetensors", name);
	no_error(capture_read(&capture, path, &e) && call_bind(&call, &capture, true, &e), &e);
	no_error(structure_read(&r, &call, &search, &why, &e), &e);
	assert_null(why);
	print_message("%s: %.6f in %.2f G operations\n%s", name, r.out[0].explained, r.work * 1e-9, r.text);
	assert_true(r.identified);
	assert_true(r.out[0].explained >= least);
	if (known) structure_hand_on(&r, known);
	structure_free(&r);
	capture_free(&capture);
}

/* x0 is the normalised input in float16, which nothing but the iteration reads. */
static void what_an_iteration_begins_with_is_rounded(void **state)
{
	(void)state;
	reads("newton_schulz.graded_f16.etalon", 6e9, 0.999, NULL);
}

/* Five turns of a public kernel in float16 on tensor cores, whose sums flip roundings. */
static void a_public_iteration_is_read_to_the_bit(void **state)
{
	(void)state;
	reads("newton_schulz.tall.standard_polar_express", 24e9, 0.9999, NULL);
}

/* A quotient is a product with a reciprocal: of 16,384 elements four would round otherwise in the first turn, and most of them in the fifth. */
static void a_quotient_is_a_product_with_a_reciprocal(void **state)
{
	struct structure_choices known = { 0 };

	(void)state;
	reads("newton_schulz.square_1", 24e9, 0.99999, &known);
	reads("newton_schulz.square.standard_polar_express", 8e9, 0.99999, &known);
	free(known.at);
}

/* A restart begins with X, R and Q as the turn has them: they are not rounded once more. */
static void what_a_loop_in_a_loop_begins_with_is_rounded_nowhere(void **state)
{
	struct candidate x = { 0 };
	int as_they_are = 0;

	(void)state;
	model_case(&capture, "newton_schulz", "tall_gram_f16", "f16");
	struct search *s = begun();
	const struct form_symbols *f = &graph_of(s, &x)->f;
	try(s, &x, s->n_stage - 1);
	for (int i = 0; i < f->n_carry; i++) {
		if (f->carry[i].first->kind != SYM_CARRY) continue;
		as_they_are++;
		for (int k = 0; k < x.met.n; k++) assert_true(s->keys.at[x.met.key[k]].id != key_id(0, f->carry[i].first->id, W_NAME, 1));
	}
	assert_int_equal(as_they_are, 3);
	ended(s);
	capture_free(&capture);
}

/* A kernel that rounds here and there: what a choice is about says to what. */
static struct candidate spotted(struct search *s, int form)
{
	struct candidate x = operands_in_bf16(s, form);

	for (int go = 0; go < 8; go++) {
		struct candidate u = x;
		try(s, &u, s->n_stage - 1);
		for (int i = 0; i < u.met.n; i++) {
			const struct key *k = &s->keys.at[u.met.key[i]];
			if (k->kind == CHOOSE_OPERAND || k->kind == CHOOSE_NAME) x.config.value[u.met.key[i]] = (unsigned char)((k->id >> 16 ^ k->id) % 3);
		}
	}
	try(s, &x, s->n_stage - 1);
	return x;
}

/* Two forms of which one mirrors a triangle have all else alike: what was found in one is looked at in the other. */
static void what_is_alike_in_another_form_is_kept(void **state)
{
	struct candidate x;
	int differ = 0;

	(void)state;
	struct search *s = planted(5, &x);
	x = spotted(s, 0);
	x = in_form(s, &x, 1, s->n_stage - 1);
	s = answered_by(s, &x);
	const int last = s->n_stage - 1;
	x = spotted(s, 0);
	struct candidate own = in_form(s, &x, 0, last);
	for (int i = 0; i < x.met.n; i++) assert_int_equal(own.config.value[x.met.key[i]], x.config.value[x.met.key[i]]);
	x = in_form(s, &x, 1, last);
	assert_true(x.cost < 1e-9);
	struct candidate y = in_form(s, &x, 0, last), z = in_form(s, &y, 1, last), bare = { .form = 1 };
	try(s, &bare, last);
	for (int i = 0; i < x.met.n; i++) differ += x.config.value[x.met.key[i]] != bare.config.value[x.met.key[i]];
	assert_true(differ > 5);
	assert_int_equal(y.form, 0);
	assert_true(bare.cost > 0.1);
	assert_true(z.cost < 1e-9);
	ended(s);
	capture_free(&capture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_loop_in_a_loop_begins_with_is_rounded_nowhere),
		cmocka_unit_test(turns_are_rounded_one_after_the_other), cmocka_unit_test(two_cost_what_each_costs_alone),
		cmocka_unit_test(a_product_goes_on_from_other_terms_in_exact_turns_too),
		cmocka_unit_test(what_goes_along_the_error_counts),
		cmocka_unit_test(a_form_and_sums_are_found_together),
		cmocka_unit_test(what_is_alike_in_another_form_is_kept),
		cmocka_unit_test(a_sum_is_narrow_only_where_operations_are_rounded),
		cmocka_unit_test(the_same_elements_count_once),
		cmocka_unit_test(what_an_iteration_begins_with_is_rounded),
		cmocka_unit_test(a_public_iteration_is_read_to_the_bit),
		cmocka_unit_test(a_quotient_is_a_product_with_a_reciprocal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
