/* Answers that the x-ray keeps, and what looks told: made or kept, they are the same to the bit, and a plan that differs in one bit of what an
 * answer depends on finds none. */
#include <math.h>
#include <omp.h>

#include "compare/attribute/xray_private.h"
#include "tests/kernel_model.h"

enum { MAX_STRIPS = 256 };
struct bed { struct capture c; struct call call; struct xray x; struct plan plan; struct error e; double *kept, *made; uint64_t work; };

static void begin_case(struct bed *b, const char *op, const char *name, const struct arith *a)
{
	struct test_case k = *case_find(op, name);

	no_error(case_make(&b->c, &k, 1, true, &b->e), &b->e);
	b->plan = plan_plain(a, a->precision);
	b->plan.seed = 5;
	answer_by(&b->c, &b->plan);
	no_error(call_bind(&b->call, &b->c, true, &b->e) && xray_make(&b->x, &b->call, NULL, &b->e), &b->e);
	b->x.e = &b->e;
	assert_true(b->x.strips == 1 && b->x.n > 0);
	b->kept = calloc(b->x.n, sizeof *b->kept);
	b->made = calloc(b->x.n, sizeof *b->made);
	assert_true(b->kept && b->made);
}

static void begin(struct bed *b, const struct arith *a) { begin_case(b, "rmsnorm", "zero_centred_256", a); }

static void end(struct bed *b)
{
	free(b->kept);
	free(b->made);
	xray_free(&b->x);
	capture_free(&b->c);
}

static void run(struct bed *b, double *y)
{
	struct stream l = { .plan = b->plan };

	no_error(xray_run(&b->x, &l, y), &b->e);
	stream_end(&l);
}

static bool found(struct bed *b, const struct plan *p) { return xray_kept(&b->x, p, &b->work) != NULL; }

/* The same work is counted, too: what is given up must not depend on it. */
static void a_hit_is_the_miss_to_the_bit(void **state)
{
	static const struct arith *const by[] = { &arith_f32, &arith_f64, &arith_noisy };

	(void)state;
	for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
		struct bed b = { 0 };
		struct answer direct;
		begin(&b, by[i]);
		xray_forget(&b.x);
		assert_false(found(&b, &b.plan));
		uint64_t before = b.x.work;
		run(&b, b.made);
		uint64_t made = b.x.work - before;
		assert_true(found(&b, &b.plan));
		memset(b.kept, 0, b.x.n * sizeof *b.kept);
		before = b.x.work;
		run(&b, b.kept);
		assert_true(b.x.work - before == made);
		assert_memory_equal(b.kept, b.made, b.x.n * sizeof *b.made);
		no_error(ref_run(&b.call, &b.plan, &direct, &b.e), &b.e);
		for (int o = 0; o < MAX_OUT; o++)
			if (b.call.out_count[o]) assert_memory_equal(b.kept + b.x.first[o], direct.hi[o], b.call.out_count[o] * sizeof *b.kept);
		answer_free(&direct);
		end(&b);
	}
}

/* Of a call of one piece: answers made ahead are those that are made when they are asked for, and as much work. */
static void what_is_made_ahead_is_found(void **state)
{
	enum { PLANS = 5 };
	struct bed b = { 0 };
	struct stream l[PLANS], *ahead[PLANS];

	(void)state;
	omp_set_num_threads(2);
	begin_case(&b, "newton_schulz", "odd_gram_f32", &arith_f64);
	xray_forget(&b.x);
	for (int i = 0; i < PLANS; i++) {
		l[i] = (struct stream){ .plan = b.plan };
		if (i) l[i].plan.round[i - 1] = (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
		ahead[i] = &l[i];
	}
	xray_ahead(&b.x, ahead, PLANS);
	for (int i = 0; i < PLANS; i++) {
		struct answer direct;
		b.plan = l[i].plan;
		assert_true(found(&b, &b.plan));
		run(&b, b.kept);
		no_error(ref_run(&b.call, &b.plan, &direct, &b.e), &b.e);
		assert_true(b.work == direct.work && direct.work > 0);
		for (int o = 0; o < MAX_OUT; o++)
			if (b.call.out_count[o]) assert_memory_equal(b.kept + b.x.first[o], direct.hi[o], b.call.out_count[o] * sizeof *b.kept);
		answer_free(&direct);
	}
	end(&b);
}

/* In strips of so many elements. */
static void begin_strips(struct bed *b, const struct arith *a, size_t at_hand)
{
	no_error(case_make(&b->c, case_find("gated_delta_rule", "long"), 1, true, &b->e), &b->e);
	b->plan = plan_plain(a, a->precision);
	answer_by(&b->c, &b->plan);
	no_error(call_bind(&b->call, &b->c, true, &b->e), &b->e);
	b->call.at_hand = at_hand;
	no_error(xray_make(&b->x, &b->call, NULL, &b->e), &b->e);
	b->x.e = &b->e;
}

/* Of a call of many strips: from strips that were kept a stream goes on as if it had made them, and an answer is of its own strip. */
static void strips_go_on_from_kept_ones(void **state)
{
	struct bed b = { 0 };
	double *y[MAX_STRIPS] = { NULL };
	uint64_t work[MAX_STRIPS] = { 0 };

	(void)state;
	begin_strips(&b, &arith_noisy, 1 << 12);
	const size_t n = b.x.strips;
	if (n < 3 || n > MAX_STRIPS) fail_msg("%zu strips", n);
	/* made in order, and none kept; then the first alone is, and all are asked for again */
	for (int pass = 0; pass < 2; pass++) {
		struct stream l = { .plan = b.plan };
		for (size_t s = 0; s < n; s++) {
			double *to = pass ? b.x.d : (y[s] = calloc(b.x.most, sizeof *y[s]));
			no_error(xray_refresh_strip(&b.x, s, 0), &b.e);
			if (!pass) xray_forget(&b.x);
			uint64_t before = b.x.work;
			no_error(xray_run(&b.x, &l, to), &b.e);
			if (!pass) work[s] = b.x.work - before;
			assert_true(b.x.work - before == work[s]);
			assert_memory_equal(to, y[s], b.x.n * sizeof *to);
		}
		stream_end(&l);
		xray_forget(&b.x);
		l = (struct stream){ .plan = b.plan };
		no_error(xray_refresh_strip(&b.x, 0, 0) && xray_run(&b.x, &l, b.x.d), &b.e);
		stream_end(&l);
	}
	for (size_t s = 0; s < n; s++) free(y[s]);
	end(&b);
}

/* Of a call of few strips all answers are kept, of whatever arithmetic. */
static void a_few_strips_are_kept(void **state)
{
	struct bed b = { 0 };

	(void)state;
	begin_strips(&b, &arith_f64, 1 << 14);
	if (b.x.strips < 2 || b.x.strips > 50) fail_msg("%zu strips", b.x.strips);
	for (int pass = 0; pass < 2; pass++) {
		struct stream l = { .plan = b.plan };
		for (size_t s = 0; s < b.x.strips; s++) {
			uint64_t work;
			no_error(xray_refresh_strip(&b.x, s, 0), &b.e);
			assert_true((xray_kept(&b.x, &b.plan, &work) != NULL) == (pass > 0));
			no_error(xray_run(&b.x, &l, b.x.d), &b.e);
		}
		stream_end(&l);
	}
	end(&b);
}

/* Each bit of each of these. */
static void flip_all(struct bed *b, size_t at, size_t bytes, const char *what)
{
	for (size_t bit = 0; bit < 8 * bytes; bit++) {
		struct plan p = b->plan;
		((unsigned char *)&p)[at + bit / 8] ^= (unsigned char)(1 << bit % 8);
		if (found(b, &p)) fail_msg("%s: bit %zu is not looked at", what, bit);
	}
}
#define FLIP(field) flip_all(&b, offsetof(struct plan, field), sizeof b.plan.field, #field)

static void one_bit_makes_another_plan(void **state)
{
	struct bed b = { 0 };

	(void)state;
	begin(&b, &arith_noisy);
	b.plan.value[0] = 0.3, b.plan.value[MAX_FAULT - 1] = 7;
	run(&b, b.made);
	assert_true(found(&b, &b.plan));
	FLIP(arith);
	FLIP(bits);
	FLIP(form);
	FLIP(chunk);
	FLIP(faults);
	FLIP(value);
	FLIP(stride);
	FLIP(seed);
	for (int i = 0; i < MAX_SITE; i++) {
		flip_all(&b, offsetof(struct plan, round[i].format), sizeof b.plan.round[i].format, "a site's format");
		flip_all(&b, offsetof(struct plan, round[i].rounding), sizeof b.plan.round[i].rounding, "a site's rounding");
		struct plan p = b.plan;
		p.round[i].on = !p.round[i].on;
		assert_false(found(&b, &p));
	}
	struct plan p = b.plan;
	p.random = true;
	assert_false(found(&b, &p));
	assert_true(found(&b, &b.plan));
	xray_forget(&b.x);
	assert_false(found(&b, &b.plan));
	end(&b);
}

/* Nothing is drawn in float32, so that a seed makes no other answer; at random sites it does. */
static void a_seed_counts_where_it_is_drawn_from(void **state)
{
	struct bed b = { 0 };

	(void)state;
	begin(&b, &arith_f32);
	run(&b, b.made);
	struct plan p = b.plan;
	p.seed++;
	assert_true(found(&b, &p));
	b.plan.random = p.random = true;
	run(&b, b.made);
	assert_true(found(&b, &b.plan));
	assert_false(found(&b, &p));
	end(&b);
}

static void emulate(struct bed *b, uint64_t faults)
{
	b->x.emulation = b->plan;
	b->x.emulation.faults = faults;
	no_error(xray_rebase(&b->x), &b->e);
}

static bool is_told(struct bed *b, const struct plan *p, unsigned what)
{
	return xray_told(&b->x, &(struct look){ .stream.plan = *p }, what);
}

/* Of a call of many strips, as the next pass would tell it, and with the work of that pass; around the same emulation, and no other. */
static void what_was_told_is_told_again(void **state)
{
	struct bed b = { 0 };
	struct look first[2], again[2];

	(void)state;
	begin_strips(&b, &arith_f64, 1 << 12);
	b.x.emulation = b.plan;
	no_error(xray_refresh(&b.x), &b.e);
	for (int m = 0; m < 2; m++) {
		first[m] = look_of(&b.plan);
		plan_fault(&first[m].stream.plan, b.call.op, m);
		again[m] = first[m];
	}
	uint64_t before = b.x.work;
	no_error(xray_look(&b.x, first, 2, LOOK_SIZE | LOOK_FIT), &b.e);
	uint64_t made = b.x.work - before;
	size_t runs = b.x.runs;
	before = b.x.work;
	no_error(xray_look(&b.x, again, 2, LOOK_SIZE), &b.e);
	assert_true(b.x.runs == runs && b.x.work - before <= made && b.x.work - before + 2 > made);
	assert_memory_equal(first, again, sizeof first);
	const struct plan *p = &first[0].stream.plan;
	assert_true(first[0].size > 0 && first[0].fit.determined && is_told(&b, p, LOOK_FIT));
	assert_false(is_told(&b, p, LOOK_SIZE | LOOK_VOTES) || is_told(&b, &b.plan, LOOK_SIZE));
	emulate(&b, 2);
	assert_false(is_told(&b, p, LOOK_SIZE));
	emulate(&b, 0);
	assert_true(is_told(&b, p, LOOK_SIZE));
	b.x.emulation.faults = 2;
	assert_false(is_told(&b, p, LOOK_SIZE));       /* not rebased yet */
	no_error(xray_refresh(&b.x), &b.e);
	emulate(&b, 0);
	assert_false(is_told(&b, p, LOOK_SIZE));       /* refreshed on another */
	no_error(xray_look(&b.x, again, 2, LOOK_SIZE), &b.e);
	assert_true(is_told(&b, p, LOOK_SIZE));
	b.x.refreshed = false;
	b.x.emulation.faults = 2;
	no_error(xray_refresh(&b.x), &b.e);
	emulate(&b, 0);
	assert_false(is_told(&b, p, LOOK_SIZE));       /* what is added may be another */
	end(&b);
}

/* The same of what is left around it, with its work. */
static void what_is_left_is_told_again(void **state)
{
	struct bed b = { 0 };
	double share[2][MAX_OUT];
	uint64_t work[3][2];
	bool even[3];

	(void)state;
	begin_strips(&b, &arith_f64, 1 << 12);
	b.x.emulation = b.plan;
	no_error(xray_refresh(&b.x), &b.e);
	for (int i = 0; i < 2; i++) {
		size_t runs = b.x.runs;
		work[0][i] = b.x.work;
		no_error(xray_explained(&b.x, share[i]), &b.e);
		work[1][i] = b.x.work;
		no_error(xray_is_even(&b.x, &even[i]), &b.e);
		work[2][i] = b.x.work;
		assert_true((b.x.runs > runs) == (i == 0));
	}
	assert_true(even[0] && even[1] && b.x.strips > 1);
	assert_memory_equal(share[0], share[1], sizeof share[0]);
	for (int i = 0; i < 2; i++) assert_true(work[i + 1][0] - work[i][0] == work[i + 1][1] - work[i][1]);
	emulate(&b, 2);
	const size_t runs = b.x.runs;
	no_error(xray_is_even(&b.x, &even[2]) && xray_explained(&b.x, share[1]), &b.e);
	assert_true(b.x.runs > runs && !even[2] && memcmp(share[0], share[1], sizeof share[0]));
	end(&b);
}

/* What is carried makes two strips of it: it is looked at in one, and says the same as in two, which it is in where that is asked. */
static void two_strips_are_one(void **state)
{
	enum { AT_HAND = 1 << 17, PARTS = 2 };
	double score[PARTS], left[PARTS];
	struct look look[PARTS];

	(void)state;
	for (int i = 0; i < PARTS; i++) {
		struct case_dim dims[] = { { "T", 420 }, { "N", 1 }, { "Hk", 4 }, { "Hv", 4 }, { "Dk", 128 }, { "Dv", 128 }, { 0 } };
		struct test_case k = *case_find("gated_delta_rule", "prefill");
		struct bed b = { .plan = plan_plain(&arith_f32, arith_f32.precision) };
		k.dims = dims;
		no_error(case_make(&b.c, &k, 1, true, &b.e), &b.e);
		b.plan.faults = 2;
		answer_by(&b.c, &b.plan);
		no_error(call_bind(&b.call, &b.c, true, &b.e), &b.e);
		assert_int_equal(check_strips(&b.call), 2);
		b.call.at_hand = i ? AT_HAND : 0;
		no_error(xray_make(&b.x, &b.call, NULL, &b.e), &b.e);
		b.x.e = &b.e;
		assert_int_equal(b.x.strips, i ? 2 : 1);
		b.x.emulation = plan_plain(&arith_f64, arith_f64.precision);
		look[i] = look_of(&b.x.emulation);
		plan_fault(&look[i].stream.plan, b.call.op, 1);
		no_error(xray_refresh(&b.x) && xray_look(&b.x, &look[i], 1, LOOK_SIZE | LOOK_FIT | LOOK_VOTES), &b.e);
		score[i] = b.x.score, left[i] = xray_left(&b.x);
		end(&b);
	}
	assert_true(fabs(score[1] - score[0]) <= 1e-9 * fabs(score[0]) && fabs(left[1] - left[0]) <= 1e-9 * left[0]);
	assert_true(fabs(look[1].size - look[0].size) <= 1e-9 * look[0].size && fabs(look[1].fit.value - look[0].fit.value) < 1e-9);
	assert_true(fabs(look[0].fit.value - 1) < 0.01 && look[0].votes.all == look[1].votes.all && look[0].votes.close == look[1].votes.close);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hit_is_the_miss_to_the_bit), cmocka_unit_test(what_is_made_ahead_is_found), cmocka_unit_test(strips_go_on_from_kept_ones),
		cmocka_unit_test(a_few_strips_are_kept), cmocka_unit_test(two_strips_are_one), cmocka_unit_test(one_bit_makes_another_plan), cmocka_unit_test(a_seed_counts_where_it_is_drawn_from),
		cmocka_unit_test(what_was_told_is_told_again), cmocka_unit_test(what_is_left_is_told_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
