/* Pieces that hold values for those behind them, pieces that are chunks, the largest elements, and what an op takes over of one that it
 * uses: against C written out by hand, and against the ops themselves. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "ref/formula/formula.h"
#include "ref/grad/grad.h"
#include "tests/ref/formula/broken.h"

enum { T = 13, E = 5, F = 6, X = 9 };

static struct formula *sound(const char *name, const char *source)
{
	struct error e;
	struct formula *f = formula_of_text(name, source, strlen(source), &e);

	if (!f) fail_msg("%s: %s", e.file, e.detail);
	return f;
}

static const double *fill(struct capture *c, const char *name, int rank, const size_t *shape)
{
	struct tensor *t = tensors_add(&c->tensors, name, DT_F64, rank, shape);
	double *x = t->data;

	for (size_t i = 0; i < t->count; i++) x[i] = sin((double)(i * i % 101) + (double)strlen(name)) + 0.01;
	return x;
}

static void bind(struct call *call, struct capture *c)
{
	struct error e;

	if (!capture_bind(c, &e) || !call_bind(call, c, false, &e)) fail_msg("%s", e.detail);
}

/* y of the k largest, the first among equals; twice: the last of them for the first one too. */
static void by_hand(const double *x, const double *router, const double *experts, int k, bool twice, double y[T][F])
{
	for (int t = 0; t < T; t++) {
		double s[X], e[X], sum = 0;
		int best[X] = { 0 };
		for (int i = 0; i < X; i++) {
			s[i] = 0;
			for (int d = 0; d < E; d++) s[i] += x[t * E + d] * router[i * E + d];
		}
		for (int i = 0; i < k; i++) {
			best[i] = -1;
			for (int j = 0; j < X; j++) {
				bool taken = false;
				for (int n = 0; n < i; n++) taken = taken || best[n] == j;
				if (!taken && (best[i] < 0 || s[j] > s[best[i]])) best[i] = j;
			}
		}
		if (twice) best[0] = best[k - 1];
		double most = -INFINITY;
		for (int i = 0; i < k; i++) most = fmax(most, s[best[i]]);
		for (int i = 0; i < k; i++) sum += e[i] = exp(s[best[i]] - most);
		for (int f = 0; f < F; f++) {
			y[t][f] = 0;
			for (int i = 0; i < k; i++)
				for (int d = 0; d < E; d++) y[t][f] += e[i] / sum * x[t * E + d] * experts[(best[i] * F + f) * E + d];
		}
	}
}

static void near(const struct answer *a, double want[T][F], double most)
{
	for (int i = 0; i < T * F; i++)
		if (!(fabs(a->hi[0][i] - want[i / F][i % F]) <= most)) fail_msg("element %d: %.17g, want %.17g", i, a->hi[0][i], want[i / F][i % F]);
}

/* tests/ops/routed.op with three experts for a token */
static void routed_call(struct call *call, struct capture *c)
{
	struct error e;

	if (!op_find("routed")) {
		struct formula *f = formula_read("tests/ops/routed.op", &e);
		if (!f) fail_msg("%s: %s", e.file, e.detail);
		op_add(formula_op(f));
	}
	assert_true(meta_set(&c->tensors, "etalon.op", "routed") && meta_set(&c->tensors, "etalon.params", "{\"k\": 3}"));
	fill(c, "in.x", 2, (size_t[]){ T, E });
	fill(c, "in.router", 2, (size_t[]){ X, E });
	fill(c, "in.experts", 3, (size_t[]){ X, F, E });
	bind(call, c);
}

/* In all arithmetics that are wide or f64, with any number of threads, and with every piece where a sample of them is asked for. */
static void experts_take_their_tokens(void **state)
{
	static const char *const names[] = { "f64", "dd", "mpfr:80" };
	struct error e;
	struct capture c = { 0 };
	struct call call;
	double want[T][F];

	(void)state;
	routed_call(&call, &c);
	for (int twice = 0; twice < 2; twice++)
		for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
			const struct arith *arith;
			struct answer a, b;
			int bits;
			assert_true(arith_by_name(names[i], &arith, &bits));
			struct plan p = plan_plain(arith, bits);
			if (twice) plan_fault(&p, call.op, op_fault(call.op, "last_expert_twice"));
			by_hand(tensors_find(&c.tensors, "in.x")->data, tensors_find(&c.tensors, "in.router")->data, tensors_find(&c.tensors, "in.experts")->data,
				3, twice, want);
			assert_true(ref_run(&call, &p, &a, &e));
			near(&a, want, 1e-14 * 50);
			p.stride = 5;
			omp_set_num_threads(3);
			assert_true(ref_run(&call, &p, &b, &e));
			omp_set_num_threads(1);
			assert_memory_equal(a.hi[0], b.hi[0], T * F * sizeof(double));
			answer_free(&a);
			answer_free(&b);
		}
	assert_null(op_find("routed.backward"));
	capture_free(&c);
}

static size_t totals[16], n_totals;

static void ticked(const char *stage, size_t done, size_t total)
{
	(void)stage;
	if (done == 1 && n_totals < 16) totals[n_totals++] = total;
}

/* How many pieces run beside each other: of X = 9 in chunks of 4; T = 13; 13 of T beside X, which read what is held since; 39 slots; X; T. */
static void pieces_wait_for_what_they_read(void **state)
{
	static const size_t want[] = { 3, 13, 13 + 9, 39, 9, 13 };
	struct plan p = plan_plain(&arith_f64, 53);
	struct capture c = { 0 };
	struct call call;
	struct answer a;
	struct error e;

	(void)state;
	routed_call(&call, &c);
	p.tick = ticked;
	n_totals = 0;
	assert_true(ref_run(&call, &p, &a, &e));
	assert_int_equal(n_totals, sizeof want / sizeof *want);
	assert_memory_equal(totals, want, sizeof want);
	answer_free(&a);
	capture_free(&c);
}

/* The largest first, of equals the first; NaN is none, and where no number is left it is element 0. */
static void the_largest_are_found(void **state)
{
	static const char text[] = "op largest\nin x [R, D]\nout y [R, D]\neach r in R\ny[r] = top(x[r], D)\n";
	static const double x[2][4] = { { 1, 3, 3, -2 }, { (double)NAN, 2, 5, 5 } }, want[2][4] = { { 1, 2, 0, 3 }, { 2, 3, 1, 0 } };
	struct formula *f = sound("largest.op", text);
	struct plan p = plan_plain(&arith_f64, 53);
	struct capture c = { 0 };
	struct call call;
	struct answer a;
	struct error e;

	(void)state;
	assert_true(meta_set(&c.tensors, "etalon.op", "largest") && meta_set(&c.tensors, "etalon.params", "{}"));
	op_add(formula_op(f));
	memcpy(tensors_add(&c.tensors, "in.x", DT_F64, 2, (size_t[]){ 2, 4 })->data, x, sizeof x);
	bind(&call, &c);
	assert_true(ref_run(&call, &p, &a, &e));
	assert_memory_equal(a.hi[0], want, sizeof want);
	answer_free(&a);
	capture_free(&c);
}

/* Sites and faults of a used op, under the names of those that use it, do there what they do in the op. */
static void sites_and_faults_are_taken_over(void **state)
{
	static const char text[] =
		"op two\nin x [R, D]  w [D]\nout y [R, D]  z [R, D]\nparam eps = 1e-6\neach r in R\n"
		"use rmsnorm as a: x = x[r], weight = w, weight_offset = 1, eps = eps\nuse rmsnorm as b: x = a.y, weight = w, weight_offset = 1, eps = eps\n"
		"y[r] = a.y\nz[r] = b.y\n"
		"site z\nsites of a: xhat, y    # first norm\nsites of b, a: scale\n"
		"faults of a: cast_before_weight, eps_wrong, offset_twice       # first norm\nfault own: y[r] = a.xhat\n";
	struct formula *f = sound("two.op", text);
	const struct op *op = formula_op(f), *norm = op_find("rmsnorm");
	struct capture c = { 0 }, one = { 0 };
	struct call call, alone;
	struct error e;

	(void)state;
	assert_true(op_site(op, "a.xhat") == 1 && op_site(op, "b.scale") == 3 && op_site(op, "a.scale") < 0);
	assert_string_equal(op->sites[1].what, "first norm: the normed x, before its weight");
	/* those that only round stand last */
	assert_true(op_fault(op, "own") == 0 && op_fault(op, "a.eps_wrong") == 1 && op_fault(op, "a.offset_twice") == 2);
	assert_true(op_fault(op, "a.cast_before_weight") == 3 && op->faults[3].is_rounding && op->faults[3].site == 1);
	assert_true(meta_set(&c.tensors, "etalon.op", "two") && meta_set(&c.tensors, "etalon.params", "{}"));
	assert_true(meta_set(&one.tensors, "etalon.op", "rmsnorm") && meta_set(&one.tensors, "etalon.params", "{\"eps\": 1e-6, \"weight_offset\": 1}"));
	op_add(op);
	fill(&c, "in.x", 2, (size_t[]){ T, E });
	fill(&c, "in.w", 1, (size_t[]){ E });
	memcpy(tensors_add(&one.tensors, "in.x", DT_F64, 2, (size_t[]){ T, E })->data, tensors_find(&c.tensors, "in.x")->data, T * E * sizeof(double));
	memcpy(tensors_add(&one.tensors, "in.weight", DT_F64, 1, (size_t[]){ E })->data, tensors_find(&c.tensors, "in.w")->data, E * sizeof(double));
	bind(&call, &c);
	bind(&alone, &one);
	static const char *const names[] = { "cast_before_weight", "eps_wrong(1e-8)", "eps_wrong(1e-5)", "offset_twice" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct plan p = plan_plain(&arith_dd, 106), q = p;
		struct answer a, b;
		char whole[64];
		double value;
		snprintf(whole, sizeof whole, "a.%s", names[i]);
		int fault = fault_named(op, whole, &value);
		plan_fault_at(&p, op, fault, value);
		plan_fault_at(&q, norm, fault_named(norm, names[i], &value), value);
		assert_true(fault >= 0 && ref_run(&call, &p, &a, &e) && ref_run(&alone, &q, &b, &e));
		assert_memory_equal(a.hi[0], b.hi[0], T * E * sizeof(double));
		assert_memory_equal(a.lo[0], b.lo[0], T * E * sizeof(double));
		answer_free(&a);
		answer_free(&b);
	}
	capture_free(&c);
	capture_free(&one);
}

/* `use OP` alone: that op's pieces read what is held under their inputs' names. */
static void pieces_of_another_op(void **state)
{
	static const char text[] =
		"op doubled\nin given [T, C]  weight [C, W]\nout y [T, C]  final_state [N, C, W-1] ?\nheld x [T, C]\nparam activation = none | silu\n"
		"form tokens\neach t in T\nx[t] = given[t] * 2\nuse causal_conv1d\n";
	struct formula *f = sound("doubled.op", text);
	struct capture c = { 0 };
	struct call call;
	struct answer a;
	struct error e;
	struct plan p = plan_plain(&arith_f64, 53);

	(void)state;
	assert_true(op_fault(formula_op(f), "taps_reversed") >= 0);
	assert_true(meta_set(&c.tensors, "etalon.op", "doubled") && meta_set(&c.tensors, "etalon.params", "{}"));
	op_add(formula_op(f));
	const double *x = fill(&c, "in.given", 2, (size_t[]){ T, E }), *w = fill(&c, "in.weight", 2, (size_t[]){ E, 3 });
	bind(&call, &c);
	assert_true(ref_run(&call, &p, &a, &e));
	for (int t = 0; t < T; t++)
		for (int i = 0; i < E; i++) {
			double sum = 0;
			for (int k = 0; k < 3 && k <= t; k++) sum += 2 * x[(t - k) * E + i] * w[i * 3 + 2 - k];
			assert_true(fabs(a.hi[0][t * E + i] - sum) < 1e-14);
		}
	answer_free(&a);
	capture_free(&c);
}

#define OP "op f\nin x [T, D]\nout y [T, D]\nheld h [T, D]\n"
static const struct broken broken[] = {
	{ OP "form f\neach t in T\ny[t] = h[t]\n", ":7:8", "that pieces above store 'h'" },
	{ OP "form f\neach t in T\nh[t] = x[t]\ny[t] = h[t]\n", ":8:8", "that pieces above store 'h'" },
	{ "op f\nin x [T, D]\nheld x [T, D]\nout y [T, D]\n", ":3:6", "a name of its own" },
	{ OP "form f\neach c in chunks of D by 0\nh[:, c] = x[:, c]\n", ":6:26", "a chunk's size" },
	{ OP "form f\neach c in chunks by 4\nh[:, c] = x[:, c]\n", ":6:18", "'of'" },
	{ OP "sites of n: xhat\nform f\neach t in T\nh[t] = x[t]\neach t in T\ny[t] = h[t]\n", ":5:7", "the name of a use, not 'n'" },
	{ OP "sites of n: nothing\nform f\neach t in T\nuse rmsnorm as n: x = x[t], weight = x[0], weight_offset = 0\ny[t] = n.y\n", ":8:5",
		"a site that the op lists, not nothing" },
	{ OP "faults of n: nothing\nform f\neach t in T\nuse rmsnorm as n: x = x[t], weight = x[0], weight_offset = 0\ny[t] = n.y\n", ":8:5",
		"a fault of the op's first form, not nothing" },
	{ OP "form f\neach t in T\nh[t] = x[t]\nuse rmsnorm\n", ":8:1", "pieces of the op's own" },
	{ OP "form f\neach t in T\nh[t] = x[t]\nuse causal_conv1d\n", ":8:1", "the parameter 'activation'" },
	{ OP "form f\neach t in T\nh[t] = x[t]\nuse nothing\n", ":8:1", "nothing is named nothing" },
	{ OP "form f\neach t in T\ny[t] = top(x[t], D + 1)\n", ":7:8", "at most as many" },
};

static void errors_have_a_place(void **state)
{
	(void)state;
	assert_broken(broken, sizeof broken / sizeof *broken);
}

/* What is held and not stored, or stored twice, makes no answer. */
static void all_is_held_once(void **state)
{
	static const char *const texts[] = {
		"op half\nin x [T, D]\nout y [T, D]\nheld h [T, D]\nform f\neach t in T\nif t > 0\n  h[t] = x[t]\neach t in T\ny[t] = h[t]\n",
		"op both\nin x [T, D]\nout y [T, D]\nheld h [T, D]\nform f\neach t in T\nh[t] = x[t]\nh[0] = x[t]\neach t in T\ny[t] = h[t]\n"
	};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct formula *f = sound("f.op", texts[i]);
		struct plan p = plan_plain(&arith_f64, 53);
		struct capture c = { 0 };
		struct call call;
		struct answer a;
		struct error e;
		assert_true(meta_set(&c.tensors, "etalon.op", i ? "both" : "half") && meta_set(&c.tensors, "etalon.params", "{}"));
		op_add(formula_op(f));
		fill(&c, "in.x", 2, (size_t[]){ T, E });
		bind(&call, &c);
		assert_false(ref_run(&call, &p, &a, &e));
		assert_non_null(strstr(e.detail, "each element of h is stored once"));
		capture_free(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(experts_take_their_tokens), cmocka_unit_test(pieces_wait_for_what_they_read), cmocka_unit_test(the_largest_are_found),
		cmocka_unit_test(sites_and_faults_are_taken_over),
		cmocka_unit_test(pieces_of_another_op), cmocka_unit_test(errors_have_a_place), cmocka_unit_test(all_is_held_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
