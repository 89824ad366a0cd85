/* Figures of logits against plain loops. */
#include "tests/compare/logits/logits_made.h"

static size_t first_of(const double *x)
{
	size_t best = 0;

	for (size_t v = 1; v < V; v++) best = x[v] > x[best] ? v : best;
	return best;
}

static size_t rank_of(const double *x, size_t token)
{
	size_t rank = 1;

	for (size_t v = 0; v < V; v++) rank += x[v] > x[token] || (x[v] == x[token] && v < token);
	return rank;
}

static long double nll(const double *x, size_t id)
{
	long double sum = 0;

	for (size_t v = 0; v < V; v++) sum += expl(x[v] - x[id]);
	return logl(sum);
}

static long double divergence(const double *x, const double *y)
{
	long double kl = 0;

	for (size_t v = 0; v < V; v++) kl += expl(-nll(x, v)) * (nll(y, v) - nll(x, v));
	return kl;
}

static void near(double found, long double expected, double relative)
{
	if (!(fabsl(found - expected) <= relative * (1e-3L + fabsl(expected)))) fail_msg("%.17g, expected %.17Lg", found, expected);
}

/* That share q of x [T] is at most p, and not for anything smaller in x. */
static void is_percentile(double p, const double *x, double q)
{
	size_t at_most = 0, below = 0;

	for (size_t t = 0; t < T; t++) at_most += x[t] <= p, below += x[t] < p;
	assert_true((double)at_most >= q * T - 1e-6 && (double)below < q * T - 1e-6);
}

static void figures_are_those_of_loops(void **state)
{
	static double x[T * V], y[T * V], kl[T];
	static size_t ids[T];
	long double sum_kl = 0, squares = 0, d_sum = 0, d_squares = 0;
	struct made a, b;
	struct logit_report r;
	struct error e;
	uint64_t seed = 11;
	size_t agree = 0;
	double common = 0;

	(void)state;
	draw(x, T * V, 3, &seed);
	for (size_t i = 0; i < T * V; i++) y[i] = x[i] + 0.3 * normal(&seed);
	for (size_t t = 0; t < T; t++) ids[t] = random_bits(&seed) % V;
	make(&a, DT_F64, x, T);
	make(&b, DT_BF16, y, T);
	no_error(logits_compare(&r, &(struct logit_comparison){ .reference = &a.s, .got = &b.s, .ids = ids, .top = TOP }, &e), &e);
	for (size_t t = 0; t < T; t++) {
		const double *p = x + t * V, *q = y + t * V;
		const struct logit_position *at = &r.position[t];
		size_t mine = first_of(p), theirs = first_of(q), both = 0;
		kl[t] = at->kl;
		near(at->kl, divergence(p, q), 1e-12);
		near(at->kl_back, divergence(q, p), 1e-12);
		sum_kl += divergence(p, q);
		agree += mine == theirs;
		for (size_t v = 0; v < V; v++) squares += (q[v] - p[v]) * (q[v] - p[v]), both += rank_of(p, v) <= TOP && rank_of(q, v) <= TOP;
		assert_int_equal(at->common, both);
		common += (double)both / T;
		assert_true((mine != theirs) == (at->flip != NO_FLIP));
		for (size_t k = 0; k < TOP; k++) assert_true(rank_of(p, at->top_reference[k].token) == k + 1 && rank_of(q,
			at->top_got[k].token) == k + 1);
		if (mine != theirs) {
			assert_true(at->margin_reference == p[mine] - p[theirs] && at->margin_got == q[theirs] - q[mine]);
			assert_true(at->rank_reference == rank_of(p, theirs) && at->rank_got == rank_of(q, mine));
			assert_int_equal(at->flip, FLIP_UNKNOWN);
		}
		if (t + 1 == T) continue;
		long double d = nll(q, ids[t + 1]) - nll(p, ids[t + 1]);
		d_sum += d, d_squares += d * d;
		near(at->nll_got, nll(q, ids[t + 1]), 1e-12);
	}
	assert_true(agree > T / 2 && agree < T && r.agree == agree && r.targets == T - 1);
	near(r.common, common, 1e-12);
	near(r.kl.mean, sum_kl / T, 1e-12);
	is_percentile(r.kl.p50, kl, 0.5), is_percentile(r.kl.p90, kl, 0.9), is_percentile(r.kl.p99, kl, 0.99), is_percentile(r.kl.p999,
		kl, 0.999);
	assert_true(kl[r.kl.at] == r.kl.max);
	for (size_t t = 0; t < T; t++) assert_true(kl[t] <= r.kl.max);
	near(r.rms_all, sqrtl(squares / (T * V)), 1e-12);
	long double n = T - 1, mean = d_sum / n;
	near(r.nll_difference, mean, 1e-12);
	near(r.nll_error, sqrtl((d_squares - n * mean * mean) / (n - 1) / n), 1e-9);
	assert_int_equal(r.outcome, UNDECIDED);
	logits_free(&r);
	free(a.t.data);
	free(b.t.data);
}

/* [T] or [1,T] of either integer type, each below the vocabulary. */
static void ids_are_below_the_vocabulary(void **state)
{
	static const int32_t ids[] = { 0, 631, 5 };
	struct tensors all = { 0 };
	struct error e;

	(void)state;
	for (int rank = 1; rank <= 2; rank++) {
		struct tensor *t = tensors_add(&all, rank == 1 ? "ids" : "batch", DT_I32, rank, rank == 1 ? (size_t[]){ 3 } : (size_t[]){ 1, 3 });
		int32_t *x = t->data;
		memcpy(x, ids, sizeof ids);
		size_t *read = ids_of_tensor(t, 3, 632, &e);
		assert_true(read && read[0] == 0 && read[1] == 631 && read[2] == 5);
		free(read);
		for (x[1] = 632; x[1]; x[1] = x[1] > 0 ? -1 : 0) {
			assert_null(ids_of_tensor(t, 3, 632, &e));
			assert_error_at(&e, E_VALUE, NO_OFFSET, "ids");
		}
		assert_null(ids_of_tensor(t, 2, 632, &e));
		assert_error_at(&e, E_DIM, NO_OFFSET, "ids");
	}
	assert_null(ids_of_tensor(tensors_add(&all, "floats", DT_F32, 1, (size_t[]){ 3 }), 3, 632, &e));
	assert_error_at(&e, E_DTYPE, NO_OFFSET, "floats");
	assert_null(ids_of_tensor(tensors_add(&all, "square", DT_I64, 2, (size_t[]){ 2, 2 }), 4, 632, &e));
	assert_error_at(&e, E_DIM, NO_OFFSET, "square");
	tensors_free(&all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(figures_are_those_of_loops),
		cmocka_unit_test(ids_are_below_the_vocabulary),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
