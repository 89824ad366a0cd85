/* Where a call's first tokens, which see one block of keys, are explained in any form, later ones tell forms apart. */
#include "planted.h"

/* A causal call of as many keys as tokens, as a kernel answers it that goes block by block of 128 from the first on. */
static void by_blocks(void)
{
	static const struct case_dim dims[] = { { "T", 190 }, { "S", 190 }, { "Hq", 2 }, { "Hk", 1 }, { "D", 64 }, { "Dv", 64 }, { NULL, 0 } };
	struct plan p = plan_plain(&arith_f32, 24);
	struct test_case many = *case_find("attention", "causal");
	struct error e;

	many.dims = dims;
	no_error(case_make(&capture, &many, 3, true, &e), &e);
	plan_structure(&p, contract_of("attention", "bf16_operands_ascending"), 0);
	answer_by(&capture, &p);
}

static void later_tokens_tell_forms_apart(void **state)
{
	(void)state;
	by_blocks();
	struct structure_reading r = read_within(2.5e9);
	if (!r.identified || strcmp(r.form, "ascending") != 0 || r.chunk != 128)
		fail_msg("form %s, chunks of %zu, %.6f explained, in %.3g operations", r.form, r.chunk, r.out[0].explained, r.work);
	structure_free(&r);
	capture_free(&capture);
}

/* The sink joins when all keys are summed: a form of its own where there is a sink, and none to search where there is none. */
static void a_sink_that_joins_last(void **state)
{
	const int last_joins = op_form(op_find("attention"), "ascending_sink_last");
	struct candidate x;
	struct error e;

	(void)state;
	assert_true(last_joins > 0);
	no_error(case_make(&capture, case_find("attention", "sinks"), 3, true, &e), &e);
	ended(planted_in(last_joins, &x));
	struct structure_reading r = read_within(6e9);
	if (!r.identified || strcmp(r.form, "ascending_sink_last") != 0)
		fail_msg("form %s, %.6f explained, in %.3g operations", r.form, r.out[0].explained, r.work);
	structure_free(&r);
	capture_free(&capture);
	struct search *s = case_answered("attention", "causal");
	assert_false(s->graph[last_joins][0].made);
	assert_true(s->graph[last_joins - 1][0].made);
	ended(s);
	capture_free(&capture);
}

/* A norm that adds in float32, stores the sum in bf16 and reads that again for y alone: its squares are of what it added. */
static void squares_of_what_was_not_stored(void **state)
{
	struct candidate x = { .form = 0 };
	struct lowered l;
	int key = -1;

	(void)state;
	struct search *s = case_answered("rmsnorm", "residual");
	assert_true(lower_in(s, graph_of(s, &x), &x, NULL, &l));
	for (int i = 0; i < l.met.n; i++) {
		const struct key *k = &s->keys.at[l.met.key[i]];
		if (k->what == W_NAME && k->def >= 0 && !strcmp(s->graph[0][0].f.def_name[k->def], "total")) key = l.met.key[i];
	}
	assert_true(key >= 0);
	x.config.value[key] = IN_BF16;
	s = answered_by(s, &x);
	ended(s);
	struct structure_reading r = read_within(how.work);
	if (!r.identified || !strstr(r.text, "bf16(x + residual)") || !strstr(r.text, "(x + residual) * (x + residual)"))
		fail_msg("%.6f explained: %s", r.out[0].explained, r.text);
	structure_free(&r);
	capture_free(&capture);
}

/* The choice of an inverse without decay, which x meets where U - W S is two products: spread so. */
static int met_undecayed(struct search *s, struct candidate *x)
{
	int key = -1;

	for (int again = 0; again < 2; again++) {
		try(s, x, s->n_stage - 1);
		for (int i = 0; i < x->met.n; i++) {
			enum what what = s->keys.at[x->met.key[i]].what;
			if (what == W_UNDECAYED) key = x->met.key[i];
			if (what == W_DISTRIBUTED) x->config.value[x->met.key[i]] = 1;
		}
	}
	assert_true(key >= 0);
	return key;
}

/* W by an inverse that knows no decay, its rows decayed then, beside U by one that does: the same but for float32's noise, and told where operands are bf16. */
static void an_inverse_without_decay(void **state)
{
	struct candidate x = { .form = 1 }, z;
	double *y[2][MAX_OUT] = { { NULL } }, most = 0, apart = 0;

	(void)state;
	struct search *s = case_answered("gated_delta_rule", "g_beta_given");
	const int key = met_undecayed(s, &x);
	z = x;
	z.config.value[key] = 1;
	assert_true(answers_make(s, y[0]) && answers_make(s, y[1]) && answered_in(s, graph_of(s, &x), &x, y[0]) && answered_in(s, graph_of(s, &z), &z, y[1]));
	for (size_t i = 0; i < call.out_count[0]; i++) most = fmax(most, fabs(y[0][0][i])), apart = fmax(apart, fabs(y[0][0][i] - y[1][0][i]));
	assert_true(apart > 0 && apart < 1e-5 * most);
	for (int i = 0; i < 2 * MAX_OUT; i++) free(y[i / MAX_OUT][i % MAX_OUT]);
	z = operands_in_bf16(s, 1);
	z.config.value[met_undecayed(s, &z)] = 1;
	s = answered_by(s, &z);
	x = operands_in_bf16(s, 1);
	const int told = met_undecayed(s, &x);
	z = x;
	z.config.value[told] = 1;
	try(s, &x, s->n_stage - 1);
	try(s, &z, s->n_stage - 1);
	assert_true(z.cost < 0.01 * x.cost);
	ended(s);
	capture_free(&capture);
}

/* 256 + 1 is 256 in bf16, 256 + 2 is not: of a tensor core's row of 16 the second tile of 8 is added up before it meets the first; what one
 * thread of 8 has is added in turn. */
static void a_row_of_a_tensor_core(void **state)
{
	double far[16] = { [0] = 256, [8] = 1, [10] = 1 }, near[16] = { [0] = 256, [2] = 1, [3] = 1 }, y;
	const struct cell pairs = { .grid = IN_BF16, .p = { 4, 2 } }, eights = { .grid = IN_BF16, .p = { 4, 8 } }, half = { .grid = IN_F16, .p = { 4, 8 } };
	const struct block to = { .at = &y, .rows = 1, .cols = 1 };

	(void)state;
	sum_narrow(&pairs, to, (struct block){ .at = far, .rows = 16, .cols = 1 });
	assert_true(y == 258);
	sum_narrow(&pairs, to, (struct block){ .at = near, .rows = 16, .cols = 1 });
	assert_true(y == 258);
	sum_narrow(&eights, to, (struct block){ .at = near, .rows = 16, .cols = 1 });
	assert_true(y == 256);
	sum_narrow(&half, to, (struct block){ .at = near, .rows = 16, .cols = 1 });
	assert_true(y == 258);
}

/* Of one query on 300 keys: blocks of 16 keys, and of p, which is bf16, a sum in bf16 in the order in which tensor cores leave a row. */
static void a_decode_call_has_blocks_of_keys(void **state)
{
	const int form = op_form(op_find("attention"), "ascending");
	int set = 0;

	(void)state;
	struct search *s = case_answered("attention", "decode");
	struct candidate x = operands_in_bf16(s, form);
	try(s, &x, s->n_stage - 1);
	for (int v = 0; v < s->n_chunk[form]; v++)
		if (s->chunk[form][v] == 16) x.config.value[s->chunk_key[form]] = (unsigned char)v, set++;
	for (int i = 0; i < x.met.n; i++)
		if (s->keys.at[x.met.key[i]].what == W_NARROW) x.config.value[x.met.key[i]] = 3, set++;
	assert_int_equal(set, 2);
	s = answered_by(s, &x);
	ended(s);
	struct structure_reading r = read_within(6e9);
	if (!r.identified || r.chunk != 16 || !strstr(r.text, "sum[in bf16: 4 warps, threads of 2](bf16(e))"))
		fail_msg("form %s, chunks of %zu, %.6f explained: %s", r.form, r.chunk, r.out[0].explained, r.text);
	structure_free(&r);
	capture_free(&capture);
}

/* Conch's paged attention takes 16 keys of a page, eight pages a part; scores, maxima, sums and outputs, a part's too, are in q's type, as its source says. */
static void parts_of_the_keys_have_blocks(void **state)
{
	static const char *const says[] = { "s = bf16(rsqrt(64) * (k @ q))", "r = bf16(exp(top - block_top))", "part_a = bf16(part_a * r + bf16(v' @ e))",
		"part_lse = bf16(top + bf16(log(part_sum)))", "z = bf16(exp(part_lse - highest))", "bf16(bf16(part_a / part_sum) * z)" };
	struct error e;

	(void)state;
	no_error(capture_read(&capture, "fixtures/readings/attention.conch_paged.safetensors", &e), &e);
	struct structure_reading r = read_within(how.work);
	assert_true(r.identified && r.out[0].explained > 0.9999);
	assert_string_equal(r.form, "in_parts");
	assert_int_equal(r.chunk, 16);
	for (size_t i = 0; i < sizeof says / sizeof *says; i++)
		if (!strstr(r.text, says[i])) fail_msg("no %s in %s", says[i], r.text);
	structure_free(&r);
	capture_free(&capture);
}

/* Of few queries alone. */
static void parts_are_of_decode_calls(void **state)
{
	static const char *const names[] = { "decode", "causal" };
	const int form = op_form(op_find("attention"), "in_parts");

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct search *s = case_answered("attention", names[i]);
		assert_int_equal(s->graph[form][0].made, i == 0);
		ended(s);
		capture_free(&capture);
	}
}

/* What each query loads of keys and values is not kept: 190 x 2 queries, two blocks of 128 keys, 64 numbers each, are 25 MB. */
static void blocks_of_keys_are_not_kept(void **state)
{
	(void)state;
	by_blocks();
	struct search *s = begun();
	const int last = s->n_stage - 1;
	for (int form = 0; form < s->n_form; form++) {
		if (!s->graph[form][0].made) continue;
		struct candidate c = operands_in_bf16(s, form);
		try(s, &c, last);
		const struct evaluator *v = &graph_of(s, &c)->view[0][last].v;
		assert_true(v->n_kept > 0 && v->bytes < (size_t)12 << 20);
	}
	ended(s);
	capture_free(&capture);
}

/* A value that was kept for one turn, before o was rounded, is an output where it is not: 4300 tokens x 256 are more than is kept inside. */
static void what_becomes_an_output_is_kept(void **state)
{
	static const struct case_dim dims[] = { { "T", 4300 }, { "Hk", 1 }, { "Hv", 1 }, { "Dk", 4 }, { "Dv", 256 }, { "N", 1 }, { NULL, 0 } };
	const struct case_tensor in[] = { { "q", "T,Hk,Dk", DT_BF16, DRAW_NORMAL, 0, 1 }, { "k", "T,Hk,Dk", DT_BF16, DRAW_NORMAL, 0, 0.3 },
		{ "v", "T,Hv,Dv", DT_BF16, DRAW_NORMAL, 0, 1 }, { "g", "T,Hv", DT_F32, DRAW_UNIFORM, -0.3, -0.01 }, { "beta", "T,Hv", DT_F32, DRAW_UNIFORM, 0.1, 0.9 },
		{ NULL, NULL, DT_F32, DRAW_NORMAL, 0, 0 } };
	const struct case_tensor out[] = { { "o", "T,Hv,Dv", DT_BF16, DRAW_NORMAL, 0, 0 }, { "final_state", "N,Hv,Dk,Dv", DT_F32, DRAW_NORMAL, 0, 0 },
		{ NULL, NULL, DT_F32, DRAW_NORMAL, 0, 0 } };
	const struct test_case k = { .op = "gated_delta_rule", .name = "long", .params = "{}", .in = in, .out = out, .dims = dims };
	struct candidate c = { .form = 1 };
	struct lowered l;
	struct error e;
	int key = -1;

	(void)state;
	no_error(case_make(&capture, &k, 3, true, &e), &e);
	struct search *s = answered_plainly();
	const int last = s->n_stage - 1;
	assert_true(lower_in(s, graph_of(s, &c), &c, NULL, &l));
	for (int i = 0; i < l.met.n; i++) {
		if (s->keys.at[l.met.key[i]].what == W_OPERAND) c.config.value[l.met.key[i]] = IN_BF16;
		if (s->keys.at[l.met.key[i]].what == W_NAME && l.met.site[i] == op_site(call.op, "o")) key = l.met.key[i];
	}
	assert_true(key >= 0);
	c.config.value[key] = IN_BF16;
	try(s, &c, last);
	struct candidate d = c;
	d.config.value[key] = IN_F32;
	try(s, &d, last);
	struct view *v = view_of(s, graph_of(s, &d), last);
	evaluator_clear(&v->v);
	memset(s->seen, 0, SEEN * sizeof *s->seen);
	struct candidate afresh = d;
	try(s, &afresh, last);
	assert_true(d.cost < c.cost * 1.5 && d.cost == afresh.cost);
	ended(s);
	capture_free(&capture);
}

/* Kernels that go token by token are read so, whether or not a chunk's algebra explains them too, and transformers' chunks are not. states: what must be
 * explained of the states' error, which is float32's noise. */
static void the_simpler_form(void **state)
{
	static const struct { const char *file, *form, *open; double states; } kernels[] = {
		{ "gated_delta_rule.decode.recurrent", "sequential", "form: sequential or chunk\n", 0.9 },     /* a token a sequence */
		{ "gated_delta_rule.g_beta_given.etalon", "sequential", NULL, 0.8 },
		{ "gdn2.fla_recurrent", "sequential", "form: sequential or chunk\n", -1 },             /* after a step or two */
		{ "kda.heads.etalon", "sequential", NULL, 0.3 },                /* an element of o flips */
		{ "gated_delta_rule.prefill.hf_chunk", "chunk", NULL, 0.2 } };
	struct error e;

	(void)state;
	for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
		char path[128];
		snprintf(path, sizeof path, "fixtures/captures/%s.safetensors", kernels[i].file);
		no_error(capture_read(&capture, path, &e), &e);
		struct structure_reading r = read_within(6e9);
		const char *open = r.open ? r.open : "";
		const bool said = kernels[i].open ? strstr(open, kernels[i].open) != NULL : !strstr(open, "form: ");
		if (!r.identified || strcmp(r.form, kernels[i].form) != 0 || r.out[1].explained < kernels[i].states || !said)
			fail_msg("%s: form %s, states %.6f explained, in %.3g operations; %s", path, r.form, r.out[1].explained, r.work, open);
		structure_free(&r);
		capture_free(&capture);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(later_tokens_tell_forms_apart), cmocka_unit_test(a_sink_that_joins_last), cmocka_unit_test(squares_of_what_was_not_stored),
		cmocka_unit_test(an_inverse_without_decay), cmocka_unit_test(a_decode_call_has_blocks_of_keys), cmocka_unit_test(parts_of_the_keys_have_blocks), cmocka_unit_test(parts_are_of_decode_calls),
		cmocka_unit_test(a_row_of_a_tensor_core), cmocka_unit_test(blocks_of_keys_are_not_kept),
		cmocka_unit_test(what_becomes_an_output_is_kept), cmocka_unit_test(the_simpler_form) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
