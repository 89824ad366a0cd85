/* Loops in the graph of a form: in each other, beside each other, under conditions, backwards. */
#include <math.h>
#include <stdlib.h>

#include "compare/structure/search.h"
#include "tests/kernel_model.h"

static const char *const read_ops[] = { "attention", "conv_ssd_norm", "gdn2", "kda", "mamba3", "mamba3_mimo", "mixed_batch", "muon_step", "newton_schulz", NULL };

/* What a search begins with, of a small case that the reference answered in float64 with these faults. */
static struct search *begun(struct capture *c, struct call *call, const struct test_case *of, uint64_t faults, const char **why)
{
	struct search *s = calloc(1, sizeof *s);
	struct plan plain = plan_plain(&arith_f64, 53);
	struct error e;

	assert_non_null(s);
	no_error(case_make(c, of, 1, true, &e), &e);
	answer_by(c, &plain);
	no_error(call_bind(call, c, true, &e) && search_make(s, call, &(struct structure_search){ .work = 5e9, .faults = faults }, why, &e), &e);
	return s;
}

static void ended(struct search *s, struct capture *c)
{
	search_free(s);
	free(s);
	capture_free(c);
}

/* What is not read of a case is said: the forms that are read gave what the reference gives. */
static bool is_read(const struct test_case *t, const char *fault, const char *why)
{
	bool known = !why || !strcmp(why, "a call of this size") || !strcmp(why, "an output that is not finite");

	if (!known) print_error("%s, %s, fault %s: %s\n", t->op, t->name, fault ? fault : "none", why);
	assert_true(known);
	return !why;
}

static void forms_are_the_references(void **state)
{
	(void)state;
	for (int i = 0; read_ops[i]; i++) {
		int n = 0;
		for (const struct test_case *t = test_cases; t->op; t++) {
			struct capture c;
			struct call call;
			const char *why;
			if (t->large || strcmp(t->op, read_ops[i])) continue;
			struct search *s = begun(&c, &call, t, 0, &why);
			n += is_read(t, NULL, why);
			ended(s, &c);
		}
		print_message("%s: %d cases\n", read_ops[i], n);
		assert_true(n > 0);
	}
}

static const struct test_case *first_case(const char *op)
{
	const struct test_case *t = test_cases;

	while (strcmp(t->op, op)) t++;
	return t;
}

/* KDA's blocks of 16 are told by indices alone: no kernel rounds those. */
static void what_is_compared_by_index_has_no_choices(void **state)
{
	struct capture c;
	struct call call;
	const char *why;
	struct search *s = begun(&c, &call, first_case("kda"), 0, &why);
	struct candidate x = { .form = 1 };
	int others = 0;

	(void)state;
	assert_null(why);
	try(s, &x, s->n_stage - 1);
	for (int i = 0; i < x.met.n; i++) {
		int def = s->keys.at[x.met.key[i]].def;
		assert_true(def < 0 || strcmp(s->graph[1][0].f.def_name[def], "block"));
		others += def >= 0;
	}
	assert_true(others > 0);
	ended(s, &c);
}

/* What x answers, and a choice of that kind other than `but`, or -1. */
static int answers(struct search *s, struct candidate *x, int but, double *y[MAX_OUT])
{
	int key = -1;

	try(s, x, s->n_stage - 1);
	for (int i = 0; i < x->met.n; i++)
		if (s->keys.at[x->met.key[i]].what == W_UNSCALED && x->met.key[i] != but) key = x->met.key[i];
	for (int i = 0; i < MAX_OUT; i++) y[i] = NULL;
	assert_true(answers_make(s, y) && answered_in(s, graph_of(s, x), x, y));
	return key;
}

static void answers_free(double *y[MAX_OUT])
{
	for (int i = 0; i < MAX_OUT; i++) free(y[i]);
}

/* W = -1/8 (Q X), as weights of 0 become: Q X is stored in float16, read in bf16, and then multiplied. */
static void what_a_factor_comes_onto_is_rounded_twice_before(void **state)
{
	double *y[MAX_OUT], *z[MAX_OUT];
	struct candidate x = { .form = 0 };
	struct plan plain = plan_plain(&arith_f64, 53);
	struct search *s = calloc(1, sizeof *s);
	struct capture c;
	struct call call;
	struct error e;
	const char *why;

	(void)state;
	assert_non_null(s);
	no_error(case_make(&c, case_find("muon_step", "mild_gram_f16"), 1, true, &e), &e);
	const struct tensor *w = capture_in(&c, "weight");
	memset(w->data, 0, w->bytes);
	assert_int_equal(json_object_update_new(c.params, json_pack("{s:[[f,f,f]], s:f, s:f, s:s}", "coefficients", 3.4445, -4.775, 2.0315,
		"lr", 0.125, "weight_decay", 0., "scale", "sqrt(max(1,n/m))")), 0);
	answer_by(&c, &plain);
	no_error(call_bind(&call, &c, true, &e) && search_make(s, &call, &(struct structure_search){ .work = 5e9 }, &why, &e), &e);
	assert_null(why);
	int first = answers(s, &x, -1, y), factor = -1;
	for (int i = 0; i < x.met.n; i++)
		if (s->keys.at[x.met.key[i]].what == W_PLACE && s->keys.at[x.met.key[i]].def < 0) factor = x.met.key[i];       /* of what is stored */
	assert_true(first < 0 && factor >= 0);
	answers_free(y);
	x.config.value[factor] = (unsigned char)(s->keys.at[factor].n - 1);
	first = answers(s, &x, -1, y);
	assert_true(first >= 0);
	x.config.value[first] = IN_F16;
	int second = answers(s, &x, first, z);
	assert_true(second >= 0);
	answers_free(z);
	x.config.value[second] = IN_BF16;
	answers(s, &x, first, z);
	size_t twice = 0;
	for (size_t i = 0; i < call.out_count[0]; i++) {
		double product = -8 * y[0][i], stored_twice = stored(DT_BF16, stored(DT_F16, product));
		assert_true(z[0][i] == stored_twice / -8);
		twice += stored_twice != stored(DT_BF16, product);
	}
	assert_true(twice > 0);
	assert_memory_equal(y[1], z[1], call.out_count[1] * sizeof *y[1]);
	answers_free(y), answers_free(z);
	ended(s, &c);
}

/* How far the search's own truth is from `a`, as its weights have it. */
static double apart(const struct search *s, const struct answer *a)
{
	double most = 0;

	for (int o = 0; o < MAX_OUT; o++)
		for (size_t i = 0; i < s->call->out_count[o]; i++) {
			double d = fabs(a->hi[o][i] - s->truth.hi[o][i]) * (double)s->weight[o][i];
			most = d > most || !isfinite(d) ? (isfinite(d) ? d : INFINITY) : most;
		}
	return most;
}

/* The formula with a fault is the reference with that fault, and the one without it is not: what stands between would find a graph wrong
 * that is. */
static void a_fault_is_told(void **state)
{
	(void)state;
	for (int i = 0; read_ops[i]; i++) {
		const struct op *op = op_find(read_ops[i]);
		const struct test_case *t = first_case(read_ops[i]);
		int told = 0;
		for (int f = 0; f < MAX_FAULT && op->faults[f].name; f++) {
			struct capture c;
			struct call call;
			struct error e;
			struct answer a;
			const char *why;
			struct plan p = plan_plain(&arith_f64, 53);
			if (op->faults[f].is_rounding) continue;
			plan_fault(&p, op, f);
			if (op->faults[f].form >= 0) p.form = op->faults[f].form;
			p.chunk = op->forms[p.form].chunked ? DEFAULT_CHUNK : 0;
			struct search *s = begun(&c, &call, t, UINT64_C(1) << f, &why);
			is_read(t, op->faults[f].name, why);
			ended(s, &c);
			s = begun(&c, &call, t, 0, &why);
			no_error(ref_run(&call, &p, &a, &e), &e);
			double d = why ? 0 : apart(s, &a);
			if (d > 1e-3 && isfinite(d)) {
				struct answer truth = s->truth;
				call.anchored = false;  /* else what differs between forms is asked of the reference */
				s->truth = a;
				view_free(&s->graph[p.form][0].view[0][s->n_stage - 1]);
				if (exact_agrees(s, p.form)) print_error("%s: %s is not told\n", op->name, op->faults[f].name);
				assert_false(exact_agrees(s, p.form));
				s->truth = truth;
				told++;
			}
			answer_free(&a);
			ended(s, &c);
		}
		print_message("%s: %d faults\n", read_ops[i], told);
		assert_true(told >= 3);
	}
}

/* Reads the capture; how many operations its search took. */
static double recorded(const char *file, const char *form, size_t chunk, const char *has, double least)
{
	struct capture c;
	struct call call;
	struct error e;
	struct structure_reading r;
	const char *why;
	char path[256];

	snprintf(path, sizeof path, "fixtures/captures/%s.safetensors", file);
	no_error(capture_read(&c, path, &e) && call_bind(&call, &c, true, &e), &e);
	no_error(structure_read(&r, &call, &(struct structure_search){ .work = 30e9 }, &why, &e), &e);
	assert_null(why);
	if (!r.identified || !(r.out[0].explained >= least)) print_error("%s, %.6f: %s", file, r.out[0].explained, r.text);
	assert_true(r.identified && r.out[0].explained >= least);
	if (form) assert_string_equal(r.form, form);
	if (chunk) assert_int_equal(r.chunk, chunk);
	if (has && !strstr(r.text, has)) print_error("%s: %s", file, r.text);
	if (has) assert_non_null(strstr(r.text, has));
	const double work = r.work;
	structure_free(&r);
	capture_free(&c);
	return work;
}

/* FlashAttention-4's blocks are of 128 keys, as its source has them; its exponentials are rounded to bf16 for their product, its sums not. */
static void kernels_of_libraries(void **state)
{
	(void)state;
	recorded("attention.fa4", NULL, 128, "v' @ bf16(e)", 0.9999);
	recorded("attention.torch_flash", NULL, 128, "v' @ bf16(e)", 0.999);
	recorded("attention.torch_math", NULL, 0, NULL, 0.9999);
	recorded("kda.fla_recurrent_150", NULL, 0, NULL, 0.97);
}

/* FlexAttention's o is explained in one form; what is left is in the logarithms of its sums, which are float32's noise from the first. */
static void noise_keeps_no_search_going(void **state)
{
	(void)state;
	const double work = recorded("attention.torch_flex", "split", 64, "bf16(e)", 0.9999);
	print_message("%.2f G operations\n", work * 1e-9);
	assert_true(work < 3.5e9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_compared_by_index_has_no_choices),
		cmocka_unit_test(what_a_factor_comes_onto_is_rounded_twice_before),
		cmocka_unit_test(forms_are_the_references), cmocka_unit_test(a_fault_is_told), cmocka_unit_test(kernels_of_libraries),
		cmocka_unit_test(noise_keeps_no_search_going),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
