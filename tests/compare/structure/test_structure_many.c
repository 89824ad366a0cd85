/* Calls of many heads: some are looked at, all count. Cells that give the same numbers stand for each other, and nothing is lost by it. */
#include "planted.h"

/* The search of a call of 96 heads whose outputs are those of a kernel with bf16 operands, in chunks of 64. */
static struct search *planted(struct candidate *x)
{
	static const struct case_dim dims[] = { { "T", 160 }, { "N", 1 }, { "Hk", 1 }, { "Hv", 96 }, { "Dk", 16 }, { "Dv", 32 }, { 0 } };
	struct test_case many = *case_find("gated_delta_rule", "g_beta_given");
	struct error e;

	many.dims = dims;
	no_error(case_make(&capture, &many, 3, true, &e), &e);
	return planted_in(1, x);
}

static size_t seen(struct search *s, const struct candidate *x)
{
	struct score score[MAX_OUT];
	double n = 0;

	assert_true(measured(s, x, score, NULL));
	for (int o = 0; o < MAX_OUT; o++)
		for (int k = 0; k < MAX_STAGE; k++) n += score[o].count[k];
	return (size_t)n;
}

static void some_heads_are_looked_at(void **state)
{
	const size_t head = 160 * 32 + 16 * 32;
	struct candidate x;

	(void)state;
	struct search *s = planted(&x);
	const int last = s->n_stage - 1;
	assert_int_equal(s->step[last], 2);
	try(s, &x, last);
	assert_true(x.cost < 1e-9);
	assert_int_equal(seen(s, &x), 48 * head);
	assert_false(look_at_all(s, &x));
	assert_int_equal(s->step[last], 2);
	look_at(s, 1);
	assert_int_equal(seen(s, &x), 96 * head);
	ended(s);
	capture_free(&capture);
}

/* Not the same ones of each sequence: of two heads, the first and then the second. */
static void heads_of_sequences_take_turns(void **state)
{
	struct stage_turns t;
	struct error e;

	(void)state;
	no_error(case_make(&capture, case_find("gated_delta_rule", "prefill_ragged"), 3, true, &e), &e);
	struct plan plain = plan_plain(&arith_f32, 24);
	answer_by(&capture, &plain);
	struct search *s = begun();
	struct form_symbols *f = &s->graph[1][0].f;
	assert_true(turns_make(&t, f, 96, 2));
	assert_int_equal(t.n[0], 2);
	assert_int_equal(t.of[0][0].piece, 0);
	assert_int_equal(t.of[0][1].piece, 3);
	turns_free(&t, f);
	ended(s);
	capture_free(&capture);
}

/* Those that were not looked at are otherwise. */
static void what_the_others_show_is_looked_at(void **state)
{
	const struct structure_search none = { .work = 1 };
	struct candidate x;

	(void)state;
	ended(planted(&x));
	uint16_t *o = call.out[0]->data;
	for (size_t i = 0; i < call.out_count[0]; i++)
		if (i / 32 % 96 % 2) o[i] ^= 1;
	struct search *s = begun();
	s->how = &none;
	s->budget = 1;
	x = operands_in_bf16(s, 1);
	try(s, &x, s->n_stage - 1);
	assert_true(x.cost < 1e-9);
	assert_true(look_at_all(s, &x));
	assert_int_equal(s->step[s->n_stage - 1], 1);
	assert_true(x.cost > 0.01);
	ended(s);
	capture_free(&capture);
}

static bool same_values(const struct evaluator *v, const struct value *a, const struct value *b, int in)
{
	for (int t = 0; t < v->turns.n[in]; t++)
		if (memcmp(value_in(v, a, in, t), value_in(v, b, in, t), a->n * sizeof *a->at)) return false;
	return true;
}

/* Of every other value of every choice, as it is and with cells that stand for others. */
static void the_same_numbers_stand_for_each_other(void **state)
{
	struct candidate x;
	struct lowered base, l, m;
	int alike = 0, all = 0;

	(void)state;
	struct search *s = planted(&x);
	struct graph *g = graph_of(s, &x);
	struct view *v = view_of(s, g, 3);      /* the first 64 tokens: one chunk, in which no value is longer than its turn */
	try(s, &x, 3);
	assert_true(lower_in(s, g, &x, NULL, &base) && same_lowered(&v->v, &base, v->wanted));
	for (int i = 0; i < x.met.n; i++)
		for (int value = 0; value < s->keys.at[x.met.key[i]].n && s->keys.at[x.met.key[i]].what != W_CHUNK; value++) {
			struct candidate t = x;
			t.config.value[x.met.key[i]] = (unsigned char)value;
			assert_true(lower_in(s, g, &t, NULL, &l));
			m = l;
			assert_true(same_lowered(&v->v, &m, v->wanted) && evaluate(&v->v, &m, v->wanted) && evaluate(&v->v, &l, v->wanted));
			for (int p = 0; p < g->f.n_put; p++)
				if (v->wanted[p]) assert_true(same_values(&v->v, put_value(&v->v, &l, l.put[p]), put_value(&v->v, &m, m.put[p]), g->f.put[p].in));
			all++;
			alike += l.put[0] != m.put[0] && m.put[0] == base.put[0];
		}
	print_message("%d of %d alike\n", alike, all);
	assert_true(alike >= 3);
	ended(s);
	capture_free(&capture);
}

/* An operand in float32, as that kernel has none, is clearly worse in few heads already; of itself, nothing is. */
static void a_glance_tells_what_is_far_off(void **state)
{
	struct candidate x;
	struct beside b;
	struct list one = { .n = 1 };
	int far = 0;

	(void)state;
	struct search *s = planted(&x);
	const int last = s->n_stage - 1;
	assert_int_equal(glance(s), s->n_stage);
	try(s, &x, last);
	assert_true(beside_make(s, &b));
	assert_false(far_off(s, &b, &x, &x));
	for (int i = 0; i < x.met.n; i++) {
		struct candidate t = x;
		if (s->keys.at[x.met.key[i]].kind != CHOOSE_OPERAND) continue;
		t.config.value[x.met.key[i]] = IN_F32;
		try(s, &t, last);
		if (t.cost < 0.5) continue;
		assert_true(far_off(s, &b, &x, &t));
		far++;
		one.key[0] = x.met.key[i];
		struct candidate back = t;
		steepest(s, &back, last, &one);
		assert_true(back.cost < 1e-9);
		back = x;
		steepest(s, &back, last, &one);
		assert_true(back.cost < 1e-9);
	}
	assert_true(far >= 2);
	beside_free(&b);
	ended(s);
	capture_free(&capture);
}

/* A loop that is run for another's sake, with values there that lead to it no more, has all that it reads made before. */
static void what_a_loop_reads_is_made_first(void **state)
{
	struct readback r;

	(void)state;
	assert_true(readback_from(&r, 737 * RANDOM_STEP, "mamba3_mimo", 24e9, false,
		NULL)); /* with ranks in chunks */
	assert_true(r.back);
	readback_free(&r);
}

static bool has_a_name(const struct structure_rounding *r, const void *with)
{
	(void)with;
	return r->site >= 0 || r->arranged;
}

/* A rounding at no site of the op's, that is not allowed and changes nothing: the structure without it is taken. */
static void what_explains_as_well_without_is_taken(void **state)
{
	const struct structure_search legal = { .work = 1e12, .allows = has_a_name };
	double effect[MAX_SITE], *more[MAX_SITE][MAX_OUT] = { { NULL } };
	struct candidate x;
	int at = -1;

	(void)state;
	struct search *s = planted(&x);
	const int last = s->n_stage - 1;
	s->how = &legal;
	s->budget = legal.work;
	try(s, &x, last);
	struct candidate t = x;
	for (int i = 0; i < x.met.n && at < 0; i++) {
		int key = x.met.key[i];
		struct structure_rounding r;
		if (!is_rounding(&s->keys.at[key]) || rounding_at(s, &x, key, x.config.value[key], &r) || !rounding_at(s, &x, key, IN_BF16, &r) || has_a_name(&r, NULL)) continue;
		t = x;
		t.config.value[key] = IN_BF16;
		try(s, &t, last);
		if (t.cost < 1e-9) at = key;
	}
	assert_true(at >= 0);
	needed_roundings(s, &t, effect, more);
	assert_int_equal(type_of(s, &t, at, t.config.value[at]), IN_F32);
	assert_true(t.cost < 1e-9);
	for (int site = 0; site < MAX_SITE; site++) assert_true(effect[site] == 0);
	ended(s);
	capture_free(&capture);
}

/* Of a call with as many keys as queries the first queries see all keys. */
static void as_many_keys_as_tokens(void **state)
{
	const struct case_dim dims[] = { { "T", 96 }, { "S", 96 }, { "Hq", 4 }, { "Hk", 2 }, { "D", 32 }, { "Dv", 48 }, { 0 } };
	struct test_case k = *case_find("attention", "full");
	struct candidate x;
	struct error e;

	(void)state;
	k.dims = dims;
	no_error(case_make(&capture, &k, 1, true, &e), &e);
	struct search *s = planted_in(1, &x);
	for (int at = 0; at < s->n_stage; at++) {
		try(s, &x, at);
		print_message("of %zu tokens: %g\n", s->stage[at], x.cost);
		assert_true(x.cost < 1e-9);
	}
	ended(s);
	capture_free(&capture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_many_keys_as_tokens),
		cmocka_unit_test(some_heads_are_looked_at),
		cmocka_unit_test(heads_of_sequences_take_turns),
		cmocka_unit_test(what_the_others_show_is_looked_at),
		cmocka_unit_test(the_same_numbers_stand_for_each_other),
		cmocka_unit_test(a_glance_tells_what_is_far_off),
		cmocka_unit_test(what_a_loop_reads_is_made_first),
		cmocka_unit_test(what_explains_as_well_without_is_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
