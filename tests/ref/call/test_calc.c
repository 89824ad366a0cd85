#include <math.h>
#include <string.h>

#include "tests/witness.h"

#define LEN(a) (sizeof(a) / sizeof *(a))

static const char *const names[] = { "f32", "f32_fma", "f32_tree", "mma:hopper", "f64", "f64up", "dd", "mpfr:128", "mpfr:24", "noisy" };

static void in_every(void (*body)(calc *c))
{
	for (size_t k = 0; k < LEN(names); k++) {
		struct plan p = plan_in(names[k]);
		in_calc(&p, NULL, NULL, body);
	}
}

static void expect(calc *c, vec x, const double *y, size_t n)
{
	assert_int_equal(x.n, n);
	for (size_t i = 0; i < n; i++) {
		double v = c_value(c, c_part(c, x, i, 1));
		if (!same_double(v, y[i])) fail_msg("%s: element %zu is %g, expected %g", c->arith->name, i, v, y[i]);
	}
}

static void count_up(calc *c, vec x)
{
	for (size_t i = 0; i < x.n; i++) c_set(c, c_part(c, x, i, 1), (double)i);
}

/* ---- the arena ---- */
static void parts_of_a_matrix(calc *c)
{
	mat A = c_mat(c, 3, 4);

	expect(c, flat(A), (double[12]){ 0 }, 12);
	count_up(c, flat(A));
	expect(c, c_row(c, A, 1), (double[]){ 4, 5, 6, 7 }, 4);
	expect(c, c_part(c, c_row(c, A, 2), 1, 2), (double[]){ 9, 10 }, 2);
	expect(c, c_part(c, flat(A), 4, 8), (double[]){ 4, 5, 6, 7, 8, 9, 10, 11 }, 8);
	c_set(c, c_row(c, A, 1), -1);
	expect(c, c_row(c, A, 1), (double[]){ -1, -1, -1, -1 }, 4);
	expect(c, c_row(c, A, 0), (double[]){ 0, 1, 2, 3 }, 4);
	expect(c, c_row(c, A, 2), (double[]){ 8, 9, 10, 11 }, 4);
}

/* What was made before the mark outlives any number of rounds, each larger than the last, and what
 * is made after it is zero and meets nothing else. */
static void releases(calc *c)
{
	vec kept = c_vec(c, 5);
	size_t mark = c_mark(c);

	count_up(c, kept);
	for (size_t round = 1; round < 200; round += 7) {
		vec x = c_vec(c, round), y = c_vec(c, 50 * round), z = c_num(c);
		for (size_t i = 0; i < y.n; i++) assert_true(c_value(c, c_part(c, y, i, 1)) == 0);
		c_set(c, x, 3);
		c_set(c, y, 4);
		assert_true(c_value(c, z) == 0);
		c_set(c, z, 5);
		for (size_t i = 0; i < x.n; i++) assert_true(c_value(c, c_part(c, x, i, 1)) == 3);
		for (size_t i = 0; i < y.n; i++) assert_true(c_value(c, c_part(c, y, i, 1)) == 4);
		c_release(c, mark);
	}
	expect(c, kept, (double[]){ 0, 1, 2, 3, 4 }, 5);
}

/* The same round again and again takes no more memory. */
static void memory_is_used_again(calc *c)
{
	size_t mark = c_mark(c), blocks = 0, rounds = 0;

	for (; rounds < 2000; rounds++) {
		c_vec(c, 300);
		c_mat(c, 20, 30);
		c_release(c, mark);
	}
	for (struct block *b = c->blocks; b; b = b->next) blocks++;
	assert_true(blocks <= 2);
}

static void arena(void **state)
{
	(void)state;
	in_every(parts_of_a_matrix);
	in_every(releases);
	in_every(memory_is_used_again);
}

/* ---- in and out ---- */
enum { X, CU };
static struct call call;
static struct tensor tensors[2];
static double hi[12], lo[12];

static void load_and_store(calc *c)
{
	vec x = c_vec(c, 4), y = c_vec(c, 3);

	c_load(c, x, X, 2, 1);
	expect(c, x, (double[]){ 2, 3, 4, 5 }, 4);
	c_load(c, y, X, 1, 5);
	expect(c, y, (double[]){ 1, 6, 11 }, 3);
	for (size_t i = 0; i < 12; i++) hi[i] = lo[i] = -1;
	c_store(c, 0, 1, 1, x);
	c_store(c, 0, 2, 4, y);
	for (size_t i = 0; i < 12; i++) {
		static const double want[] = { -1, 2, 1, 4, 5, -1, 6, -1, -1, -1, 11, -1 };
		assert_true(hi[i] == want[i] && lo[i] == (want[i] == -1 ? -1 : 0));
	}
	c_store(c, 1, 0, 1, x);         /* an output that this call has not */
	assert_true(c_int(c, CU, 1) == 2 && c_int(c, CU, 2) == 9);
}

static void every_dtype(void **state)
{
	static unsigned char data[12 * 8];
	static int32_t cuts[] = { 0, 2, 9 };
	struct answer a = { .hi = { hi }, .lo = { lo } };

	(void)state;
	call = (struct call){ .dim = { 9, 7 }, .param = { 0, 0, 0.5 }, .in = { &tensors[0], &tensors[1] } };
	tensors[CU] = (struct tensor){ .dtype = DT_I32, .rank = 1, .shape = { 3 }, .count = 3, .bytes = 12, .data = cuts };
	for (enum dtype d = 0; d < DT_COUNT; d++) {
		static const double up[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 };
		tensors[X] = (struct tensor){ .dtype = d, .rank = 1, .shape = { 12 }, .count = 12, .bytes = 12 * dtype_info[d].size, .data = data };
		dtype_store(d, up, 12, data);
		/* 11 needs 4 bits; E5M2 has 3 */
		if (d == DT_F8_E5M2) continue;
		for (size_t k = 0; k < LEN(names); k++) {
			struct plan p = plan_in(names[k]);
			in_calc(&p, &call, &a, load_and_store);
		}
	}
}

/* mpfr reads as hi + lo, hi nearest: 1/3 to 2^-106. */
static void third(calc *c)
{
	num x = c_num(c), three = c_num(c);
	__float128 y;

	c_set(c, x, 1);
	c_set(c, three, 3);
	c_div(c, x, x, three);
	c_store(c, 0, 0, 1, x);
	assert_true(hi[0] == 1 / 3.0);
	y = 3 * ((__float128)hi[0] + lo[0]) - 1;
	assert_true(lo[0] != 0 && fabs((double)y) <= 0x1p-105);
}

static void low_parts(void **state)
{
	struct answer a = { .hi = { hi }, .lo = { lo } };
	struct plan p = plan_in("mpfr:128");

	(void)state;
	in_calc(&p, &call, &a, third);
}

/* ---- sites ---- */
static const double values[] = { 1, -1.00390625, 3.14159274101257324, 1e-6f, -65519, 448.5f, 0x1.01p-14f, 0x1.fep-130f, 1e30f, 0, -0.0 };

/* The format at site 0 of the plan is tried on every value, and site 1 is off. */
static void round_at_site(calc *c)
{
	const struct site_rounding *r = c->plan->round;
	vec x = c_vec(c, LEN(values)), y = c_vec(c, LEN(values));

	c->arith->load(c, x.at, values, LEN(values));
	c_copy(c, y, x);
	c_site(c, 0, x);
	c_site(c, 1, y);
	for (size_t i = 0; i < LEN(values); i++) {
		double v = c_value(c, c_part(c, y, i, 1)), w = format_round(r->format, r->rounding, v, 0);
		if (c->arith != &arith_noisy) assert_true(same_double(v, values[i]));
		/* in f32 a number of another format must still fit a float */
		if (c->arith == &arith_f32) w = (float)w;
		double found = c_value(c, c_part(c, x, i, 1));
		if (c->arith == &arith_noisy && fabs(values[i]) < 0x1p-126) continue;
		if (!same_double(found, w)) fail_msg("%s, %s: %a became %a, not %a", c->arith->name, rounding_name(r->format, r->rounding), v, found, w);
	}
}

static void sites_round_what_is_asked(void **state)
{
	(void)state;
	for (size_t k = 0; k < LEN(names); k++) {
		for (int f = 0; f < FMT_COUNT; f++) {
			struct plan p = plan_in(names[k]);
			p.round[0] = (struct site_rounding){ true, (enum format)f, ROUND_NEAREST_EVEN };
			in_calc(&p, NULL, NULL, round_at_site);
			p.round[0].rounding = ROUND_ZERO;
			in_calc(&p, NULL, NULL, round_at_site);
		}
	}
}

/* One value halfway between two bf16 numbers but for 2^-100: rounding it to double first, to
 * nearest, would lose the side that it is on. */
static void no_double_rounding(calc *c)
{
	for (int side = -1; side <= 1; side += 2) {
		num x = c_num(c), tiny = c_num(c);
		c_set(c, x, 1 + 0x1p-8);
		c_set(c, tiny, side * 0x1p-100);
		c_add(c, x, x, tiny);
		c_site(c, 0, x);
		assert_true(c_value(c, x) == (side < 0 ? 1 : 1 + 0x1p-7));
	}
}

/* A third of the way between two bf16 numbers: up in a third of 30000 draws, 5 standard errors. */
static void random_sites(calc *c)
{
	vec x = c_vec(c, 30000);
	size_t up = 0;

	c_set(c, x, 1 + 0x1p-7 * 0x5555p-16);
	c_site(c, 0, x);
	for (size_t i = 0; i < x.n; i++) {
		double v = c_value(c, c_part(c, x, i, 1));
		assert_true(v == 1 || v == 1 + 0x1p-7);
		up += v > 1;
	}
	assert_true(fabs((double)up - 10000) <= 5 * sqrt(30000 * (1 / 3.0) * (2 / 3.0)));
}

static void hard_sites(void **state)
{
	struct plan p = plan_in("mpfr:128");

	(void)state;
	p.round[0] = (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
	in_calc(&p, NULL, NULL, no_double_rounding);
	for (size_t k = 0; k < LEN(names); k++) {
		p = plan_in(names[k]);
		p.round[0] = (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
		p.random = true;
		in_calc(&p, NULL, NULL, random_sites);
	}
}

/* Tables full of roundings that are off, and random, give the plain answer's bits. */
static void sites_off_are_plain(void **state)
{
	static const struct sample s = { "rmsnorm", "{\"weight_offset\": 1}", "in.x F32 5,9 ~0,1; in.weight F32 9 ~0,1; in.residual F32 5,9 ~0,1" };
	struct capture c;

	(void)state;
	made(&c, &s, 1);
	for (size_t k = 0; k < LEN(names); k++) {
		struct plan p = plan_in(names[k]), off = p;
		struct outcome x, y;
		for (int i = 0; i < MAX_SITE; i++) off.round[i] = (struct site_rounding){ false, FMT_E4M3, ROUND_ZERO };
		off.random = true;
		run_plan(&x, &c, &p);
		run_plan(&y, &c, &off);
		assert_true(same_outcome(&x, &y));
		assert_true(x.a.work == y.a.work && x.a.work > 0);
		outcome_free(&x);
		outcome_free(&y);
	}
	capture_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arena),
		cmocka_unit_test(every_dtype),
		cmocka_unit_test(low_parts),
		cmocka_unit_test(sites_round_what_is_asked),
		cmocka_unit_test(hard_sites),
		cmocka_unit_test(sites_off_are_plain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
