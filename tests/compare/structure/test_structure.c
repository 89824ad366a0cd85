/* Structures read back: of kernels that the reference emulates, of random structures, of kernels with an error that no structure has. */
#include "compare/attribute/suspects.h"
#include "tests/studies/readback.h"

static struct structure_reading read_capture(struct capture *c, double work)
{
	struct structure_reading r;
	struct call call;
	struct error e;
	const char *why;

	no_error(call_bind(&call, c, true, &e) && structure_read(&r, &call, &(struct structure_search){ .work = work }, &why, &e), &e);
	assert_null(why);
	return r;
}

static void explained(const struct structure_reading *r, double least)
{
	assert_true(r->identified);
	for (int o = 0; o < MAX_OUT; o++)
		if (r->out[o].elements && !(r->out[o].explained >= least)) {
			print_error("output %d: %.6f explained\n%s", o, r->out[o].explained, r->text);
			fail();
		}
}

static const struct test_case norm = {
	.op = "rmsnorm", .name = "read", .params = "{\"eps\": 1e-6, \"weight_offset\": 0}",
	.dims = (const struct case_dim[]){ { "R", 24 }, { "D", 512 }, { 0 } },
	.in = (const struct case_tensor[]){ { "x", "R,D", DT_BF16, DRAW_NORMAL, 0, 1 }, { "weight", "D", DT_BF16, DRAW_NORMAL, 1, 0.2 }, { 0 } },
	.out = (const struct case_tensor[]){ { "y", "R,D", DT_BF16, DRAW_NORMAL, 0, 0 }, { 0 } },
};

static const struct test_case delta = {
	.op = "gated_delta_rule", .name = "read", .params = "{\"qk_l2norm\": true}",
	.dims = (const struct case_dim[]){ { "T", 150 }, { "Hk", 1 }, { "Hv", 2 }, { "Dk", 64 }, { "Dv", 64 }, { "N", 1 }, { 0 } },
	.in = (const struct case_tensor[]){ { "q", "T,Hk,Dk", DT_BF16, DRAW_NORMAL, 0, 1 }, { "k", "T,Hk,Dk", DT_BF16, DRAW_NORMAL, 0, 1 },
		{ "v", "T,Hv,Dv", DT_BF16, DRAW_NORMAL, 0, 1 }, { "g", "T,Hv", DT_F32, DRAW_UNIFORM, -0.3, -0.01 }, { "beta", "T,Hv", DT_F32, DRAW_UNIFORM, 0.1, 0.9 },
		{ "initial_state", "N,Hv,Dk,Dv", DT_F32, DRAW_NORMAL, 0, 0.3 }, { 0 } },
	.out = (const struct case_tensor[]){ { "o", "T,Hv,Dv", DT_BF16, DRAW_NORMAL, 0, 0 }, { "final_state", "N,Hv,Dk,Dv", DT_F32, DRAW_NORMAL, 0, 0 }, { 0 } },
};

/* The reference's own emulation, in float32 and with roundings at its sites, is no part of the search. */
static void the_references_roundings(void **state)
{
	static const struct { const char *site, *has; } known[] = {
		{ "xhat", "bf16(x * rsqrt(" }, { "inverse_root", "bf16(rsqrt(" }, { "weighted", "y = " }, { NULL, NULL }
	};

	(void)state;
	for (int i = 0; known[i].site; i++) {
		struct plan p = plan_plain(&arith_f32, 24);
		struct capture c;
		struct error e;
		no_error(case_make(&c, &norm, 3, true, &e), &e);
		p.round[op_site(op_find("rmsnorm"), known[i].site)] = (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
		answer_by(&c, &p);
		struct structure_reading r = read_capture(&c, 10e9);
		if (!r.identified || !strstr(r.text, known[i].has)) print_error("%s, %.5f explained: %s", known[i].site, r.out[0].explained, r.text);
		explained(&r, 0.999);
		assert_non_null(strstr(r.text, known[i].has));
		structure_free(&r);
		capture_free(&c);
	}
}

/* Every choice of how sums are added: all products as `sums`, each going on from what it is added to. */
static void plant_sums(struct search *s, struct graph *g, struct candidate *x, int sums)
{
	struct lowered l;

	for (int pass = 0; pass < 2; pass++) {
		assert_true(lower_in(s, g, x, NULL, &l));
		for (int i = 0; i < l.met.n; i++) {
			const struct key *k = &s->keys.at[l.met.key[i]];
			if (k->kind == CHOOSE_SUMS) x->config.value[l.met.key[i]] = (unsigned char)(k->what == W_SUMS ? sums : sums > 0);
		}
	}
}

/* Makes the outputs of c those of a structure drawn by lot, with bf16 operands and sums added so, that has these faults, and rounds to that
 * type at that site (NULL: as it is drawn). */
static void plant(struct capture *c, int form, uint64_t seed, uint64_t faults, const char *site, enum type at_site, int sums)
{
	struct search *s = calloc(1, sizeof *s);
	struct candidate x = { .form = form };
	struct call call;
	struct error e;
	const char *why;
	struct plan plain = plan_plain(&arith_f32, 24);

	assert_non_null(s);
	answer_by(c, &plain);
	no_error(call_bind(&call, c, true, &e) && search_make(s, &call, &(struct structure_search){ .work = 20e9, .faults = faults }, &why, &e), &e);
	assert_null(why);
	struct graph *g = &s->graph[form][0];
	struct lowered l;
	int k = key_find(&s->keys, key_id(form, CHOOSE_OPERAND, W_EVERY, 0), CHOOSE_DEFAULT, W_EVERY, 4, -1);
	x.config.value[k] = 1;
	for (int i = 0; i < 4; i++) {
		assert_true(lower(&(struct lowering){ &g->f, &g->cells, &s->keys, &x.config, form, false, NULL }, &l));
		for (int m = 0; m < 3 && l.met.n; m++) {
			const struct key *y = &s->keys.at[k = l.met.key[random_next(&seed) % (uint64_t)l.met.n]];
			if (y->kind == CHOOSE_FORM) x.config.value[k] = (unsigned char)(random_next(&seed) % (uint64_t)y->n);
			else if (y->kind != CHOOSE_DEFAULT && y->kind != CHOOSE_SUMS) x.config.value[k] = (unsigned char)(1 + random_next(&seed) % 2);
		}
	}
	for (int i = 0; i < l.met.n && site; i++)
		if (is_rounding(&s->keys.at[l.met.key[i]]) && l.met.site[i] == op_site(call.op, site)) x.config.value[l.met.key[i]] = (unsigned char)at_site;
	plant_sums(s, g, &x, sums);
	readback_store(s, &x);
	search_free(s);
	free(s);
}

static void random_structures_come_back(void **state)
{
	int n = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 4; seed++) {
		struct capture c;
		struct error e;
		no_error(case_make(&c, &delta, seed, true, &e), &e);
		plant(&c, 1, seed, 0, NULL, IN_F32, 0);
		struct structure_reading r = read_capture(&c, 20e9);
		bool all = r.identified;
		for (int o = 0; o < 2; o++) {
			all = all && r.out[o].explained > 0.999;
			assert_true(!r.identified || r.out[o].explained >= 0.99 || r.out[o].noise);
		}
		print_message("seed %zu: o %.4f, state %.4f\n", (size_t)seed, r.out[0].explained, r.out[1].explained);
		n += all;
		structure_free(&r);
		capture_free(&c);
	}
	assert_int_equal(n, 4);
}

/* How tensor cores add is found where a kernel's sums are added so, and is not said where they are exact. */
static void sums_are_read(void **state)
{
	(void)state;
	for (int sums = 0; sums_name(sums) && sums < 3; sums++) {
		struct capture c;
		struct error e;
		char line[64];
		no_error(case_make(&c, &delta, 8, true, &e), &e);
		plant(&c, 1, 8, 0, NULL, IN_F32, sums);
		struct structure_reading r = read_capture(&c, 20e9);
		snprintf(line, sizeof line, "# A @ B: sums as %s\n", sums_name(sums));
		if (!strstr(r.text, line) != !sums) print_error("%s: o %.5f equal, state %.5f\n%s", sums_name(sums), r.out[0].equal, r.out[1].equal, r.text);
		explained(&r, 0.999);
		assert_true(sums ? strstr(r.text, line) && r.out[1].equal > 0.9 : !strstr(r.text, "sums as"));
		structure_free(&r);
		capture_free(&c);
	}
}

/* Nobody's rules hold with it. */
static bool no_rule(const struct rules_say *r, const struct plan *p, bool *yes, struct error *e)
{
	(void)r, (void)p, (void)e;
	*yes = false;
	return true;
}

static const struct suspect *detected(const struct examination *x)
{
	for (int i = 0; i < x->n; i++)
		if (x->suspect[i].state == DETECTED && x->suspect[i].site < 0) return &x->suspect[i];
	return NULL;
}

/* An examination reads a structure that no contract lists, says nothing against it, and names a fault that is made beside it. */
static void faults_are_judged_around_it(void **state)
{
	const struct op *op = op_find("gated_delta_rule");
	const struct contract *k = &op->contracts[op_contract(op, "bf16_operands")];
	const int fault = op_fault(op, "read_before_update");

	(void)state;
	for (int made = 0; made < 2; made++) {
		static struct examination x;
		struct capture c;
		struct call call;
		struct error e;
		no_error(case_make(&c, &delta, 2, true, &e), &e);
		plant(&c, 1, 2, made ? UINT64_C(1) << fault : 0, NULL, IN_F32, 0);
		no_error(call_bind(&call, &c, true, &e), &e);
		no_error(examine(&x, &(struct rules_say){ !made, no_rule, &call, k, k, k, NULL, false }, &e), &e);
		const struct suspect *s = detected(&x);
		if (!x.identified) print_error("%d: %s\n", made, x.where);
		assert_true(x.identified && x.structure.taken && strstr(x.structure.formula, "@ bf16("));
		assert_true(made ? s && !strcmp(s->name, "read_before_update") : !s);
		capture_free(&c);
	}
}

/* A structure that no contract lists, and in it a rounding that the contract forbids: that is detected; where it is not made, nothing is. */
static void forbidden_roundings_are_claimed(void **state)
{
	const struct op *op = op_find("gated_delta_rule");
	const struct contract *k = &op->contracts[op_contract(op, "bf16_operands")];

	(void)state;
	for (uint64_t seed = 2; seed <= 3; seed++) {
		for (int made = 0; made < 2; made++) {
			static struct examination x;
			struct capture c;
			struct call call;
			struct error e;
			int n = 0, right = 0;
			no_error(case_make(&c, &delta, seed, true, &e), &e);
			plant(&c, 1, seed, 0, "state", made ? IN_BF16 : IN_F32, 0);
			no_error(call_bind(&call, &c, true, &e), &e);
			no_error(examine(&x, &(struct rules_say){ true, no_rule, &call, k, k, k, NULL, false }, &e), &e);
			for (int i = 0; i < x.n; i++) {
				if (x.suspect[i].state != DETECTED) continue;
				n++;
				right += x.suspect[i].site == op_site(op, "state") && x.suspect[i].format == FMT_BF16;
			}
			if (!x.structure.taken || n != made || right != made)
				print_error("seed %d, made %d: taken %d, %d named, %d right\n%s", (int)seed, made, x.structure.taken, n, right, x.structure.formula);
			assert_true(x.identified && n == made && right == made);
			capture_free(&c);
		}
	}
}

/* An error that is no rounding's: nothing is claimed, in text or in JSON. */
static void nothing_is_claimed_of_what_is_not_explained(void **state)
{
	struct capture c;
	struct error e;
	struct plan p = plan_plain(&arith_f32, 24);
	double y[64];
	uint64_t seed = 5;

	(void)state;
	no_error(case_make(&c, &norm, 4, true, &e), &e);
	answer_by(&c, &p);
	struct tensor *t = capture_out(&c, "y");
	for (size_t i = 0; i < t->count; i += 64) {
		char *at = (char *)t->data + i * 2;
		dtype_load(t->dtype, at, 64, y);
		for (int j = 0; j < 64; j++) y[j] *= 1 + 0.02 * ((double)(random_next(&seed) >> 11) * 0x1p-53 - 0.5);
		dtype_store(t->dtype, y, 64, at);
	}
	struct structure_reading r = read_capture(&c, 5e9);
	assert_false(r.identified);
	struct call call;
	no_error(call_bind(&call, &c, true, &e), &e);
	json_t *j = structure_json(&r, &call);
	assert_int_equal(json_array_size(json_object_get(j, "formula")), 0);
	json_decref(j);
	char *text = NULL;
	size_t size = 0;
	FILE *to = open_memstream(&text, &size);
	structure_print(&r, &call, to);
	fclose(to);
	assert_null(strstr(text, "bf16("));
	free(text);
	structure_free(&r);
	capture_free(&c);
}

/* equal: share of each output's elements; line: of the formula's and of what stays open, or NULL */
static void recorded(const char *file, double least, double equal, const char *const line[3])
{
	struct capture c;
	struct error e;
	char path[256];

	snprintf(path, sizeof path, "fixtures/captures/%s.safetensors", file);
	no_error(capture_read(&c, path, &e), &e);
	struct structure_reading r = read_capture(&c, 30e9);
	explained(&r, least);
	for (int o = 0; o < MAX_OUT; o++)
		if (r.out[o].elements && !(r.out[o].equal >= equal)) {
			print_error("%s, output %d: %.6f equal\n%s", file, o, r.out[o].equal, r.text);
			fail();
		}
	for (int i = 0; line && i < 3; i++)
		if (!strstr(r.text, line[i]) && !strstr(r.open, line[i])) {
			print_error("%s: \"%s\" is not in\n%s%s", file, line[i], r.text, r.open);
			fail();
		}
	structure_free(&r);
	capture_free(&c);
}

static void kernels_of_libraries(void **state)
{
	(void)state;
	recorded("rope.liger", 0.9999, 1, NULL);
	recorded("rmsnorm.liger_none_896", 0.9999, 1, NULL);
	recorded("causal_conv1d.fla_triton", 0.9999, 1, NULL);
	/* tensor cores' sums decide near ties, and the last bits of the state: with exact sums 54 % of FlashQLA's are equal */
	recorded("gated_delta_rule.flashinfer_normal", 0.999, 0.98, NULL);
	recorded("gated_delta_rule.flashqla_192_normal", 0.9999, 0.999, NULL);
	/* what recorded it made g with PyTorch, -A_log.exp() * softplus(a + dt_bias); the kernel scales the running sum, and both terms of o */
	static const char *const scaled[] = { "G = cumsum(-(log1p_expf(a + dt_bias) * expf(A_log)))", "E = ex2_approx(log2(e) * G - (log2(e) * G)')",
		"product spread over the sum: no or yes (the same to the bit)" };
	recorded("gated_delta_rule.prefill.chunk", 0.999, 0.998, scaled);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_references_roundings), cmocka_unit_test(nothing_is_claimed_of_what_is_not_explained),
		cmocka_unit_test(random_structures_come_back), cmocka_unit_test(sums_are_read), cmocka_unit_test(faults_are_judged_around_it),
		cmocka_unit_test(forbidden_roundings_are_claimed), cmocka_unit_test(kernels_of_libraries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
