/* Verdicts on outputs that hold indices: what correct kernels may name where scores nearly tie, and what none does. */
#include <math.h>
#include <stdlib.h>

#include "ref/formula/formula.h"
#include "tests/judged.h"

static const char text[] =
	"op picks\nin x [T, E]\nout index [T, K] integer  many [T] integer\nlet K = 8\neach t in T\ns = sigmoid(x[t])\nindex[t] = top(s, K)\n"
	"many[t] = floor(sum(x[t]))\ncontract bf16: s bf16\ndraw x = f32 normal(0, 1)\ncase plain: T = 96, E = 64\n";

enum { T = 96, E = 64, K = 8, APART = 3 };      /* a row whose scores are far apart */
static struct capture c;
static bool moves[T * K];

/* What correct kernels name, from the reference's runs. */
static int begin(void **state)
{
	struct yardstick y;
	struct call call;
	struct error e;

	(void)state;
	no_error(case_make(&c, op_case(formula_op(op_added_of("picks.op", text)), "plain"), 1, true, &e) && capture_bind(&c, &e), &e);
	struct plan exact = plan_plain(&arith_f64, arith_f64.precision);
	for (size_t i = 0; i < E; i++) ((float *)capture_in(&c, "x")->data)[APART * E + i] = 2 - (float)i;
	answer_by(&c, &exact);
	no_error(call_bind(&call, &c, true, &e)
			&& yardstick_make(&y, &call, &(struct yardstick_of){ .truth = "f64" }, NULL, &e) && yardstick_refresh(&y, &call, 0, false, &e), &e);
	const struct expected *x = yardstick_under(&y, &call, call.op->contracts, true, &e);
	assert_non_null(x);
	assert_true(call.op->out[0].flags & NAMES && !(call.op->out[1].flags & NAMES));
	for (size_t i = 0; i < T * K; i++) moves[i] = x->sigma[0][i] > 0;
	yardstick_free(&y);
	return 0;
}

static int end(void **state)
{
	(void)state;
	capture_free(&c);
	return 0;
}

static int32_t *index_of(size_t i) { return (int32_t *)capture_out(&c, "index")->data + i; }

/* The nth element that a rounding may move, but the first of its row. */
static size_t moving(int nth)
{
	for (size_t i = 0; i < T * K; i++)
		if (i % K && moves[i] && !nth--) return i;
	fail_msg("too few elements that a rounding moves");
	return 0;
}

/* The one of the row that so many are larger than. */
static int32_t ranked(size_t row, size_t larger)
{
	const float *x = (const float *)capture_in(&c, "x")->data + row * E;

	for (int32_t e = 0; e < E; e++) {
		size_t n = 0;
		for (size_t k = 0; k < E; k++) n += x[k] > x[e];
		if (n == larger) return e;
	}
	return -1;
}

/* With so many that move named so: less than nothing, beyond all, the first of the row again, or one that the row ranks last. */
enum wrong { LESS, BEYOND, AGAIN, LAST };
static struct verdict with(enum wrong what, int n)
{
	int32_t was[T * K];

	memcpy(was, index_of(0), sizeof was);
	for (int k = 0; k < n; k++) {
		const size_t i = moving(k);
		*index_of(i) = what == LESS ? -1 : what == BEYOND ? T : what == AGAIN ? *index_of(i / K * K) : ranked(i / K, E - 1 - i % K);
	}
	struct verdict v = judged(&c, "bf16", true);
	memcpy(index_of(0), was, sizeof was);
	return v;
}

static void no_kernel_names_what_is_not_there(void **state)
{
	(void)state;
	assert_int_equal(with(LESS, 0).outcome, PASS);
	for (enum wrong what = LESS; what <= AGAIN; what++) {
		struct verdict v = with(what, 1);
		assert_int_equal(v.outcome, FAIL);
		assert_int_equal(v.n_reason, 1);
		assert_non_null(strstr(v.reason[0], what == AGAIN ? "out.index: an index stands twice in 1 of 96 rows" : "out.index: 1 of 768 indices are beyond all"));
	}
}

/* Where scores tie a kernel may name what none of the runs does, but not in each row. */
static void what_no_run_names_in_a_row(void **state)
{
	(void)state;
	assert_int_equal(with(LAST, 1).outcome, PASS);
	struct verdict v = with(LAST, 20);
	assert_int_equal(v.outcome, FAIL);
	assert_true(v.out[0].names && v.out[0].moving > 20 && v.out[0].moving < T * K);
	if (!strstr(v.reason[0], "indices are none that the truth or a noisy run names there")) fail_msg("%s", v.reason[0]);
}

static void where_nothing_moves_all_are_equal(void **state)
{
	int32_t *at = index_of(APART * K + 5), was = *at;

	(void)state;
	*at = 40;
	struct verdict v = judged(&c, "bf16", true);
	*at = was;
	assert_int_equal(v.outcome, FAIL);
	assert_int_equal(v.out[0].unmoved, 1);
	assert_non_null(strstr(v.reason[0], "at most 0 may be; first, [3,5] is 40, expected 5"));
}

/* The k best of n by scores in bf16, of equals the first (or the last) from `from` on. */
static void rank_in_bf16(int32_t *index, size_t k, const float *x, size_t n, size_t from, bool last)
{
	float s[512];

	assert_true(n <= 512);
	for (size_t i = 0; i < n; i++) s[i] = (float)format_round(FMT_BF16, ROUND_NEAREST_EVEN, 1 / (1 + exp(-(double)x[i])), 0);
	while (k--) {
		int32_t best = -1;
		for (size_t i = 0; i < n; i++) {
			const int32_t at = (int32_t)((i + from) % n);
			if (s[at] >= 0 && (best < 0 || s[at] > s[best] || (last && s[at] == s[best]))) best = at;
		}
		*index++ = best;
		s[best] = -1;
	}
}

/* Neighbours in rank that nearly tie, the other way round, and bf16 scores ranked as they come: whatever a kernel makes of ties. */
static void ties_go_either_way(void **state)
{
	int32_t was[T * K];
	const float *x = capture_in(&c, "x")->data;

	(void)state;
	memcpy(was, index_of(0), sizeof was);
	for (int later = 0; later < 2; later++) {
		for (size_t t = 0; t < T; t++) rank_in_bf16(index_of(t * K), K, x + t * E, E, 0, later);
		struct verdict v = judged(&c, "bf16", true);
		if (v.outcome != PASS) fail_msg("%s", v.reason[0]);
		assert_true(v.out[0].bit_equal < T * K);
	}
	memcpy(index_of(0), was, sizeof was);
}

/* Scores that saturate: of hundreds that tie a kernel takes the first, the last, or any. */
static void hundreds_tie(void **state)
{
	enum { ROWS = 64, MANY = 512 };
	static const char wide[] = "op wide\nin x [T, E]\nout index [T, K] integer\nlet K = 2\neach t in T\ns = sigmoid(x[t])\nindex[t] = top(s, K)\ncontract bf16: s bf16\n"
		"draw x = f32 normal(0, 8)\ncase plain: T = 64, E = 512\n";
	struct plan exact = plan_plain(&arith_f64, arith_f64.precision);
	struct capture w;
	struct error e;

	(void)state;
	no_error(case_make(&w, op_case(formula_op(op_added_of("wide.op", wide)), "plain"), 1, true, &e) && capture_bind(&w, &e), &e);
	answer_by(&w, &exact);
	float *x = capture_in(&w, "x")->data;
	int32_t *index = capture_out(&w, "index")->data;
	for (int way = 0; way < 3; way++) {
		for (size_t t = 0; t < ROWS; t++) rank_in_bf16(index + t * 2, 2, x + t * MANY, MANY, way < 2 ? 0 : t * 37 % MANY, way == 1);
		struct verdict v = judged(&w, "bf16", true);
		if (v.outcome != PASS) fail_msg("way %d: %s", way, v.reason[0]);
	}
	capture_free(&w);
}

static void members_are_of_their_row(void **state)
{
	const double run[] = { 3, 5, 7, 9, 1, 3 }, other[] = { 5, 3, 7, 9, 1, -1 }, twice[] = { 3, 3 };
	struct members m = { 0 };

	(void)state;
	assert_true(members_begin(&m, 6, 3, 8));
	assert_true(m.least == 0 && m.greatest == 7);
	members_add(&m, run);
	assert_true(m.least == 0 && m.greatest == 9);
	members_add(&m, other);
	assert_true(members_has(&m, 0, 5) && !members_has(&m, 1, 5) && members_has(&m, 1, 3) && members_has(&m, 1, -1));
	assert_true(m.least == -1 && m.greatest == 9 && !m.repeats && !m.failed);
	assert_true(m.moves[0] && m.moves[1] && !m.moves[2] && m.moves[5]);
	assert_true(members_missed(&m) == 1);           /* 3 and -1 of the second row, of two runs */
	assert_int_equal(members_repeat(twice, 2), 1);
	assert_int_equal(members_repeat(run, 3), 3);
	members_add(&m, (const double[]){ 3, 5, 3, 9, 1, 3 });
	assert_true(m.repeats);
	assert_true(members_begin(&m, 2 * (LONGEST_ROW + 1), LONGEST_ROW + 1, 1));
	assert_true(members_has(&m, 1, 5));
	members_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(members_are_of_their_row), cmocka_unit_test(no_kernel_names_what_is_not_there),
		cmocka_unit_test(what_no_run_names_in_a_row), cmocka_unit_test(where_nothing_moves_all_are_equal), cmocka_unit_test(ties_go_either_way), cmocka_unit_test(hundreds_tie) };

	return cmocka_run_group_tests(tests, begin, end);
}
