/* A search's budget is of work: what it finds, and where it ends, depends neither on threads nor on any clock. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "compare/structure/search.h"
#include "tests/kernel_model.h"

static int asked;       /* how often a clock was */

/* In place of libc's, for all of this program. */
int clock_gettime(clockid_t which, struct timespec *t)
{
	asked++;
	return (int)syscall(SYS_clock_gettime, which, t);
}

static struct structure_reading reading(const char *path, const struct structure_search *how)
{
	struct structure_reading r;
	struct capture c;
	struct call call;
	struct error e;
	const char *why;

	no_error(capture_read(&c, path, &e) && call_bind(&call, &c, true, &e) && structure_read(&r, &call, how, &why, &e), &e);
	assert_null(why);
	capture_free(&c);
	return r;
}

static void are_alike(const struct structure_reading *a, const struct structure_reading *b)
{
	assert_int_equal(a->tries, b->tries);
	assert_true(a->work == b->work);
	assert_int_equal(a->stopped, b->stopped);
	assert_string_equal(a->text ? a->text : "", b->text ? b->text : "");
	assert_string_equal(a->open ? a->open : "", b->open ? b->open : "");
	for (int o = 0; o < MAX_OUT; o++) assert_true(a->out[o].explained == b->out[o].explained);
}

/* One that is ended by its budget, one that is not; the largest products of the first are worth all cores. The last is in one piece: its
 * candidates are computed side by side. */
static void it_ends_alike(void **state)
{
	static const struct { const char *path; double work; bool stopped; } call[] = {
		{ "fixtures/captures/gated_delta_rule.flashinfer_normal.safetensors", 5e8, true },
		{ "fixtures/captures/causal_conv1d.fla_triton.safetensors", 1e10, false },
		{ "fixtures/captures/muon_step.gram_muon_wide_1.safetensors", 1e9, true },
	};

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct structure_reading r[2];
		const struct structure_search how = { .work = call[i].work };
		for (int threads = 1; threads <= 2; threads++) {
			omp_set_num_threads(threads);
			asked = 0;
			r[threads - 1] = reading(call[i].path, &how);
			assert_int_equal(asked, 0);
		}
		are_alike(&r[0], &r[1]);
		assert_int_equal(r[0].stopped, call[i].stopped);
		/* by no more than what is done between two looks, and what is read in the end */
		assert_true(r[0].work > 0 && (!call[i].stopped || r[0].work < 2 * call[i].work));
		for (int k = 0; k < 2; k++) structure_free(&r[k]);
	}
}

/* What is computed is paid for, so many steps for an element of the outputs; what is kept is not: the second time only what is looked at. */
static void is_what_is_computed(const char *path, double steps)
{
	struct search *s = calloc(1, sizeof *s);
	const struct candidate bare = { 0 };
	const struct structure_search how = { .work = 1e10 };
	struct score score[MAX_OUT];
	struct capture c;
	struct call call;
	struct error e;
	const char *why;
	double work[3] = { 0 }, n = 0;

	assert_non_null(s);
	no_error(capture_read(&c, path, &e) && call_bind(&call, &c, true, &e), &e);
	no_error(search_make(s, &call, &how, &why, &e), &e);
	for (int k = 0; k < s->n_stage; k++)
		if (s->graph[0][0].view[0][k].made) evaluator_clear(&s->graph[0][0].view[0][k].v), s->graph[0][0].view[0][k].v.work = 0;
	s->work = 0;
	for (int i = 0; i < 3; i++) {
		assert_true(measured(s, &bare, score, NULL));
		work[i] = s->work;
	}
	for (int o = 0; o < MAX_OUT; o++) n += (double)call.out_count[o];
	assert_true(n > 0 && work[2] > work[1] && work[0] > work[2] - work[1] + steps * n);
	search_free(s);
	free(s);
	capture_free(&c);
}

/* Without a loop that carries anything, and with one, in which a state decays, is rounded and is added to. */
static void work_is_what_is_computed(void **state)
{
	(void)state;
	is_what_is_computed("fixtures/captures/rmsnorm.residual.etalon.safetensors", 2);
	is_what_is_computed("fixtures/captures/gated_delta_rule.decode.etalon.safetensors", 4);
}

/* The error of a call that breaks the rules is seldom one of roundings: where nothing shortens it, of one output, its search is given up, but that of
 * a call that keeps them is not, and neither is one that gets on. */
static void what_is_hopeless_is_given_up(void **state)
{
	struct structure_search how = { .work = 5e9, .lawless = true };
	struct structure_reading r[3];
	struct capture c;
	struct call call;
	struct error e;
	const char *why;

	(void)state;
	r[0] = reading("fixtures/captures/attention.fa4.safetensors", &how);
	no_error(capture_read(&c, "fixtures/captures/attention.fa4.safetensors", &e), &e);
	struct tensor *o = capture_out(&c, "o");
	for (size_t i = 0; i < o->count; i += 3) {
		char *at = (char *)o->data + i * dtype_info[o->dtype].size;
		double v;
		dtype_load(o->dtype, at, 1, &v);
		v *= 1.02;
		dtype_store(o->dtype, &v, 1, at);
	}
	for (int i = 1; i < 3; i++, how.lawless = false)
		no_error(call_bind(&call, &c, true, &e) && structure_read(&r[i], &call, &how, &why, &e), &e);
	capture_free(&c);
	assert_true(r[0].identified && !r[0].stopped && !r[0].given_up && r[0].work > 0.15 * how.work);
	assert_true(!r[1].identified && r[1].given_up && !r[1].stopped && r[1].work < 0.2 * how.work);
	assert_true(!r[2].identified && r[2].work > 0.5 * how.work);
	for (int i = 0; i < 3; i++) structure_free(&r[i]);
}

static bool glances_at_fewer(const char *path)
{
	static struct search s;
	struct capture c;
	struct call call;
	struct error e;
	const char *why;
	const struct structure_search how = { .work = 1e9 };

	no_error(capture_read(&c, path, &e) && call_bind(&call, &c, true, &e) && search_make(&s, &call, &how, &why, &e), &e);
	assert_null(why);
	const bool fewer = glance(&s) != s.n_stage - 1;
	search_free(&s);
	capture_free(&c);
	return fewer;
}

/* Three pieces take two cores hardly longer than one takes one of them. */
static void one_piece_of_three_is_no_glance(void **state)
{
	(void)state;
	assert_false(glances_at_fewer("fixtures/captures/gated_delta_rule.prefill.hf_chunk.safetensors"));
	assert_true(glances_at_fewer("fixtures/captures/gated_delta_rule.flashqla_256_model.safetensors"));
}

/* Two hundredths are left of TurboMind's first 8 tokens, and 16 are explained. Before those were asked at once the search took 25 billion operations. */
static void little_that_is_left_is_told_by_the_next_tokens(void **state)
{
	const struct structure_search how = { .work = 36e9 };

	(void)state;
	struct structure_reading r = reading("fixtures/readings/gated_delta_rule.turbomind_model.safetensors", &how);
	if (!r.identified || r.work > 1.2e10 || fmin(r.out[0].explained, r.out[1].explained) < 0.9999) fail_msg("%.6f explained, in %.3g operations", r.out[0].explained, r.work);
	structure_free(&r);
}

/* A budget of seconds is a user's wish. */
static void seconds_are_kept_where_asked_for(void **state)
{
	const struct structure_search how = { .work = 1e18, .seconds = 0.05 };

	(void)state;
	asked = 0;
	struct structure_reading r = reading("fixtures/captures/gated_delta_rule.flashinfer_normal.safetensors", &how);
	assert_true(r.stopped && asked > 0);
	structure_free(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(it_ends_alike), cmocka_unit_test(work_is_what_is_computed), cmocka_unit_test(what_is_hopeless_is_given_up), cmocka_unit_test(one_piece_of_three_is_no_glance),
		cmocka_unit_test(little_that_is_left_is_told_by_the_next_tokens), cmocka_unit_test(seconds_are_kept_where_asked_for) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
