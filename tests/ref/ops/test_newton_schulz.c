#include <arb_mat.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ref/ops/newton_schulz_samples.h"

static const struct sample standard = { OP, WITH("standard", ""), "in.x F32 5,7 ~0,1; out.X F64 5,5,7" };
static const struct sample tall = { OP, WITH("standard", ", \"eps\": 0.5"), "in.x F32 6,4 ~0,1" };
static const struct sample naive = { OP, WITH("gram_naive", ""), "in.x F32 7,5 ~0,1; " TRACED("5", "7") };
static const struct sample gram = { OP, WITH("gram", ", \"restarts\": []"), "in.x F32 5,7 ~0,1; " TRACED("5", "7") };
static const struct sample restarted = { OP, WITH("gram", ", \"restarts\": [1, 3]"), "in.x F32 5,7 ~0,1" };
static const struct sample by_default = { OP, WITH("gram", ""), "in.x F32 32,40 ~0,1; " TRACED("32", "40") };
static const struct sample square = { OP, WITH("gram", ""), "in.x F64 6,6 ~0,1" };
static const struct sample one = { OP, WITH("standard", ""), "in.x F32 1,1 =-3" };
static const struct sample batch = { OP, WITH("gram", ""), "in.x F32 3,6,4 ~0,1" };
static const struct sample tiny = { OP, WITH("standard", ""), "in.x F32 6,5 ~0,1e-8" };
/* Divided by max(‖X‖, eps): once by the norm, once by eps. */
static const struct sample by_norm = { OP, WITH("standard", ", \"eps\": 0.5, \"eps_kind\": \"max\""), "in.x F32 6,5 ~0,1" };
static const struct sample by_eps = { OP, WITH("gram", ", \"eps_kind\": \"max\""), "in.x F32 4,6 ~0,1e-9" };

/* ---- the witness: X <- aX + bX(X'X) + cX(X'X)² of the matrix as it is, whichever way is longer ---- */
static void step(arb_mat_t X, const struct capture *c, size_t t)
{
	json_t *abc = json_array_get(json_object_get(c->params, "coefficients"), t);
	slong n = arb_mat_nrows(X), m = arb_mat_ncols(X);
	arb_mat_t G, B, Y;
	arb_t a;

	arb_init(a);
	arb_mat_init(G, m, m);
	arb_mat_init(B, m, n);
	arb_mat_init(Y, n, m);
	arb_mat_transpose(B, X);
	arb_mat_mul(G, B, X, BALL);
	arb_mat_set(Y, X);
	arb_set_d(a, json_number_value(json_array_get(abc, 0)));
	arb_mat_scalar_mul_arb(X, X, a, BALL);
	for (size_t i = 1; i < 3; i++) {
		arb_mat_mul(Y, Y, G, BALL);
		arb_set_d(a, json_number_value(json_array_get(abc, i)));
		arb_mat_scalar_addmul_arb(X, Y, a, BALL);
	}
	arb_clear(a);
	arb_mat_clear(G);
	arb_mat_clear(B);
	arb_mat_clear(Y);
}

static void normalised(arb_mat_t X, const struct capture *c, size_t first)
{
	arb_t s, t;

	arb_init(s);
	arb_init(t);
	for (slong i = 0; i < arb_mat_nrows(X) * arb_mat_ncols(X); i++) {
		arb_ptr x = arb_mat_entry(X, i / arb_mat_ncols(X), i % arb_mat_ncols(X));
		arb_set_d(x, at(c, "in.x", first + (size_t)i));
		arb_addmul(s, x, x, BALL);
	}
	arb_sqrt(s, s, BALL);
	arb_set_d(t, capture_number(c, "eps", 1e-7));
	if (capture_string(c, "eps_kind", "sum")[0] == 'm') arb_max(s, s, t, BALL);
	else arb_add(s, s, t, BALL);
	arb_mat_scalar_div_arb(X, X, s, BALL);
	arb_clear(s);
	arb_clear(t);
}

/* Entry t of the witness's X, worked on as s x l, onto `to`; of R its Gram matrix. */
static void entries(arb_mat_t X, size_t t, arb_ptr toX, arb_ptr toR)
{
	slong n = arb_mat_nrows(X), m = arb_mat_ncols(X), s = n < m ? n : m, l = n < m ? m : n;
	arb_mat_t W, V, R;

	arb_mat_init(W, s, l);
	arb_mat_init(V, l, s);
	arb_mat_init(R, s, s);
	if (n <= m) arb_mat_set(W, X);
	else arb_mat_transpose(W, X);
	arb_mat_transpose(V, W);
	arb_mat_mul(R, W, V, BALL);
	for (slong i = 0; i < s * l; i++) arb_set(toX + (slong)t * s * l + i, arb_mat_entry(W, i / l, i % l));
	for (slong i = 0; i < s * s; i++) arb_set(toR + (slong)t * s * s + i, arb_mat_entry(R, i / s, i % s));
	arb_mat_clear(W);
	arb_mat_clear(V);
	arb_mat_clear(R);
}

static void equals_the_polynomials(void **state)
{
	static const struct sample *const samples[] = { &standard, &tall, &naive, &gram, &restarted, &square, &one, &tiny, &by_norm, &by_eps };

	(void)state;
	for (size_t k = 0; k < LEN(samples); k++) {
		struct capture c;
		struct outcome r;
		made(&c, samples[k], 11 + k);
		run_in(&r, &c, "mpfr:128");
		size_t n = extent(&c, "in.x", 0), m = extent(&c, "in.x", 1), s = n < m ? n : m;
		arb_ptr X = _arb_vec_init((slong)((K + 1) * n * m)), R = _arb_vec_init((slong)((K + 1) * s * s)), y = _arb_vec_init((slong)(n * m));
		arb_mat_t x;
		arb_mat_init(x, (slong)n, (slong)m);
		normalised(x, &c, 0);
		for (size_t t = 0; t <= K; t++) {
			entries(x, t, X, R);
			if (t < K) step(x, &c, t);
		}
		for (slong i = 0; i < (slong)(n * m); i++) arb_set(y + i, arb_mat_entry(x, i / (slong)m, i % (slong)m));
		assert_balls(&r, OUT_Y, y, n * m, m);
		if (samples[k] == &standard) assert_balls(&r, OUT_X, X, (K + 1) * n * m, m);
		if (r.call.out_count[OUT_R]) assert_balls(&r, OUT_R, R, (K + 1) * s * s, s);
		arb_mat_clear(x);
		_arb_vec_clear(X, (slong)((K + 1) * n * m));
		_arb_vec_clear(R, (slong)((K + 1) * s * s));
		_arb_vec_clear(y, (slong)(n * m));
		outcome_free(&r);
		capture_free(&c);
	}
	flint_cleanup();
}

/* Of a diagonal x, each eigenvalue on its own: z = a + br + cr², r <- rz², q <- qz; a restart x <- qx, r <- x², q <- 1. */
static void equals_the_scalars(void **state)
{
	static const double abc[K][3] = { { 3.5, -4.75, 2 }, { 3.25, -4.5, 1.875 }, { 2.5, -2.75, 1.0625 }, { 1.875, -1.25, 0.375 } };
	static const struct sample diagonal[] = {
		{ OP, WITH("gram_naive", ""), "in.x F64 3,3 =8,0,0,0,4,0,0,0,1; " TRACED("3", "3") },
		{ OP, WITH("gram", ", \"restarts\": []"), "in.x F64 3,3 =8,0,0,0,4,0,0,0,1; " TRACED("3", "3") },
		{ OP, WITH("gram", ""), "in.x F64 3,3 =8,0,0,0,4,0,0,0,1; " TRACED("3", "3") },
		{ OP, WITH("gram", ", \"restarts\": [1, 2, 3]"), "in.x F64 3,3 =8,0,0,0,4,0,0,0,1; " TRACED("3", "3") } };
	static const char restarts[LEN(diagonal)][K] = { { 0 }, { 0 }, { 0, 0, 1 }, { 0, 1, 1, 1 } };

	(void)state;
	for (size_t k = 0; k < LEN(diagonal); k++) {
		struct capture c;
		struct outcome o;
		made(&c, &diagonal[k], 1);
		run_in(&o, &c, "mpfr:128");
		for (size_t i = 0; i < 3; i++) {
			double x = (i == 0 ? 8 : i == 1 ? 4 : 1) / (9 + 1e-7), r = x * x, q = 1;
			for (size_t t = 0; t <= K; t++) {
				size_t d = t * 9 + i * 4;
				assert_true(fabs(o.a.hi[OUT_X][d] - x) < 1e-14 && fabs(o.a.hi[OUT_R][d] - r) < 1e-14 * r && fabs(o.a.hi[OUT_Q][d] - q) < 1e-14 * q);
				if (t == K) break;
				if (restarts[k][t]) x *= q, r = x * x, q = 1;
				double z = abc[t][0] + abc[t][1] * r + abc[t][2] * r * r;
				r *= z * z, q *= z;
			}
			assert_true(fabs(o.a.hi[OUT_Y][i * 4] - q * x) < 1e-14);
			assert_true(o.a.hi[OUT_Y][i * 3 + (i + 1) % 3] == 0 || i == 2);
		}
		outcome_free(&o);
		capture_free(&c);
	}
}

/* ---- laws ---- */

/* Rows and columns turned by rotations of 3, 4 and 5, exact on 25 times whole numbers: y(UXV) = U y(X) V. */
static void turn_rows(double *x, size_t n, size_t m)
{
	for (size_t i = 0; i + 1 < n; i += 2)
		for (size_t j = 0; j < m; j++) {
			double a = x[i * m + j], b = x[(i + 1) * m + j];
			x[i * m + j] = (3 * a - 4 * b) / 5;
			x[(i + 1) * m + j] = (4 * a + 3 * b) / 5;
		}
}

static void turns_with_its_input(void **state)
{
	static const struct sample *const samples[] = { &standard, &tall, &naive, &gram, &restarted, &square };

	(void)state;
	for (size_t k = 0; k < LEN(samples); k++) {
		struct capture a, b;
		struct outcome x, y;
		made(&a, samples[k], 5);
		made(&b, samples[k], 5);
		size_t n = extent(&a, "in.x", 0), m = extent(&a, "in.x", 1);
		double *v = malloc(n * m * sizeof *v);
		for (size_t i = 0; i < n * m; i++) v[i] = 5 * (double)(i * i * 7 % 23) - 50, put(&a, "in.x", i, v[i]);
		turn_rows(v, n, m);
		for (size_t i = 0; i < n * m; i++) put(&b, "in.x", i, v[i]);
		run_in(&x, &a, "mpfr:128");
		run_in(&y, &b, "mpfr:128");
		turn_rows(x.a.hi[OUT_Y], n, m);
		for (size_t i = 0; i < n * m; i++) assert_true(fabs(x.a.hi[OUT_Y][i] - y.a.hi[OUT_Y][i]) < 1e-14);
		free(v);
		outcome_free(&x);
		outcome_free(&y);
		capture_free(&a);
		capture_free(&b);
	}
}

static const char *const names[] = { "f32", "f64", "mpfr:128" };

/* A matrix and its transpose are one calculation, to the bit. */
static void transposes(void **state)
{
	static const struct sample there = { OP, WITH("gram", ""), "in.x F32 6,4 ~0,1" }, back = { OP, WITH("gram", ""), "in.x F32 4,6" };

	(void)state;
	for (size_t k = 0; k < LEN(names); k++) {
		struct capture a, b;
		struct outcome x, y;
		made(&a, &there, 2);
		made(&b, &back, 2);
		for (size_t i = 0; i < 24; i++) put(&b, "in.x", i, at(&a, "in.x", i % 6 * 4 + i / 6));
		run_in(&x, &a, names[k]);
		run_in(&y, &b, names[k]);
		for (size_t i = 0; i < 24; i++) assert_true(y.a.hi[OUT_Y][i] == x.a.hi[OUT_Y][i % 6 * 4 + i / 6]);
		outcome_free(&x);
		outcome_free(&y);
		capture_free(&a);
		capture_free(&b);
	}
}

static void matrices_of_a_batch_are_independent(void **state)
{
	static const struct sample alone = { OP, WITH("gram", ""), "in.x F32 6,4" };

	(void)state;
	for (size_t k = 0; k < LEN(names); k++) {
		struct capture a, b;
		struct outcome x, y;
		made(&a, &batch, 3);
		made(&b, &alone, 3);
		run_in(&x, &a, names[k]);
		for (size_t i = 0; i < 3; i++) {
			for (size_t j = 0; j < 24; j++) put(&b, "in.x", j, at(&a, "in.x", i * 24 + j));
			run_in(&y, &b, names[k]);
			assert_memory_equal(x.a.hi[OUT_Y] + i * 24, y.a.hi[OUT_Y], 24 * sizeof(double));
			outcome_free(&y);
		}
		outcome_free(&x);
		capture_free(&a);
		capture_free(&b);
	}
}

/* ---- faults and sites ---- */
static const struct sample faulty[] = { { OP, WITH("gram", ", \"restarts\": [2]"), "in.x F32 32,40 ~0,1; " TRACED("32", "40") },
	{ OP, WITH("standard", ""), "in.x F32 6,5 ~0,1e-8" } };

static void each_fault_shows(void **state)
{
	(void)state;
	faults_show(faulty, LEN(faulty));
}

static void faults_are_what_they_say(void **state)
{
	static const struct sample wide_eps = { OP, WITH("standard", ", \"eps\": 0.5"), "in.x F32 6,5 ~0,1" };
	static const struct same_as same[] = {
		{ "eps_swamps_small_input", &wide_eps, WITH("standard", ", \"eps\": 0"), NULL, NULL },
		{ "last_coefficients_reused", &gram, "{\"algorithm\": \"gram\", \"restarts\": [], \"coefficients\": "
			"[[3.5, -4.75, 2], [3.25, -4.5, 1.875], [2.5, -2.75, 1.0625], [2.5, -2.75, 1.0625]]}", NULL, NULL },
		{ "restart_missing", &by_default, WITH("gram", ", \"restarts\": []"), NULL, NULL },
		{ "restart_one_late", &by_default, WITH("gram", ", \"restarts\": [3]"), NULL, NULL },
	};

	(void)state;
	faults_are(same, LEN(same));
}

static void each_site_shows(void **state)
{
	(void)state;
	sites_show((struct sample[]){ by_default, standard }, 2, 0);
}

static void sites_are_what_they_say(void **state)
{
	static const struct rounded_as rows[] = { { "input", &tall, "in.x" }, { "y", &tall, "out.y" } };

	(void)state;
	sites_are(rows, LEN(rows));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_the_polynomials), cmocka_unit_test(equals_the_scalars), cmocka_unit_test(turns_with_its_input),
		cmocka_unit_test(transposes), cmocka_unit_test(matrices_of_a_batch_are_independent),
		cmocka_unit_test(each_fault_shows), cmocka_unit_test(faults_are_what_they_say), cmocka_unit_test(each_site_shows),
		cmocka_unit_test(sites_are_what_they_say),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
