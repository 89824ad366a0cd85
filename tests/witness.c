#include "tests/witness.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* ---- captures ---- */
static double normal(uint64_t *s)
{
	double u = ((double)(random_bits(s) >> 11) + 0.5) * 0x1p-53, v = (double)(random_bits(s) >> 11) * 0x1p-53;

	return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

static void fill(struct tensor *t, const char *how, uint64_t seed)
{
	const char *p = how + 1;
	size_t size = dtype_info[t->dtype].size;

	for (const char *s = t->name; *s; s++) seed = seed * 31 + (unsigned char)*s;
	for (size_t i = 0; i < t->count && *how; i++) {
		char *end;
		double a = strtod(p, &end), x = *how == '=' ? a : a + strtod(end + 1, NULL) * normal(&seed);
		dtype_store(t->dtype, &x, 1, (char *)t->data + i * size);
		if (*how == '=') p = *end == ',' ? end + 1 : how + 1;
	}
}

void made(struct capture *c, const struct sample *s, uint64_t seed)
{
	char *text = strdup(s->tensors), *save = NULL;
	struct error e;

	memset(c, 0, sizeof *c);
	assert_true(meta_set(&c->tensors, "etalon.op", s->op) && meta_set(&c->tensors, "etalon.params", s->params));
	assert_true(capture_bind(c, &e));
	for (char *one = strtok_r(text, ";", &save); one; one = strtok_r(NULL, ";", &save)) {
		char name[64], dtype[16], shape[64], how[256] = "";
		size_t size[MAX_RANK];
		enum dtype d;
		int rank = 0;
		assert_true(sscanf(one, " %63s %15s %63s %255s", name, dtype, shape, how) >= 3);
		assert_true(dtype_by_name(dtype, &d));
		for (char *p = shape; p && *p != '.'; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
			size[rank++] = (size_t)strtoull(p, NULL, 10);
		struct tensor *t = tensors_add(&c->tensors, name, d, rank, size);
		assert_non_null(t);
		fill(t, how, seed);
	}
	free(text);
}

static struct tensor *found(const struct capture *c, const char *name)
{
	struct tensor *t = tensors_find(&c->tensors, name);

	if (!t) fail_msg("the test's capture has no %s", name);
	return t;
}

double at(const struct capture *c, const char *name, size_t i)
{
	const struct tensor *t = found(c, name);
	double x;

	assert_true(i < t->count);
	dtype_load(t->dtype, (const char *)t->data + i * dtype_info[t->dtype].size, 1, &x);
	return x;
}

void put(struct capture *c, const char *name, size_t i, double x)
{
	struct tensor *t = found(c, name);

	assert_true(i < t->count);
	dtype_store(t->dtype, &x, 1, (char *)t->data + i * dtype_info[t->dtype].size);
}

size_t count(const struct capture *c, const char *name) { return found(c, name)->count; }
size_t extent(const struct capture *c, const char *name, int axis) { return found(c, name)->shape[axis]; }

void put_all(struct capture *c, const char *name, double x)
{
	for (size_t i = 0; i < count(c, name); i++) put(c, name, i, x);
}

span tokens(const struct capture *c, size_t n, size_t T)
{
	if (!capture_in(c, "cu_seqlens")) return (span){ 0, T };
	return (span){ (size_t)at(c, "in.cu_seqlens", n), (size_t)at(c, "in.cu_seqlens", n + 1) };
}

/* ---- runs ---- */

/* Samples are too small for threads to pay. */
__attribute__((constructor)) static void one_thread(void) { omp_set_num_threads(1); }

struct plan plan_in(const char *spec)
{
	const struct arith *a;
	int bits;

	assert_true(arith_by_name(spec, &a, &bits));
	return plan_plain(a, bits);
}

void run_plan(struct outcome *r, const struct capture *c, const struct plan *p)
{
	struct error e;

	memset(r, 0, sizeof *r);
	if (!call_bind(&r->call, c, false, &e) || !ref_run(&r->call, p, &r->a, &e)) {
		error_print(stderr, &e);
		fail();
	}
}

void run_in(struct outcome *r, const struct capture *c, const char *arith)
{
	struct plan p = plan_in(arith);

	run_plan(r, c, &p);
}

void outcome_free(struct outcome *r) { answer_free(&r->a); }

bool same_outcome(const struct outcome *a, const struct outcome *b)
{
	for (int i = 0; i < MAX_OUT; i++) {
		assert_int_equal(a->call.out_count[i], b->call.out_count[i]);
		for (size_t j = 0; j < a->call.out_count[i]; j++) {
			if (!same_double(a->a.hi[i][j], b->a.hi[i][j])) return false;
			if (a->a.lo[i] && !same_double(a->a.lo[i][j], b->a.lo[i][j])) return false;
		}
	}
	return true;
}

static double low(const struct answer *a, int i, size_t j) { return a->lo[i] ? a->lo[i][j] : 0; }

double distance_of(const struct outcome *a, const struct outcome *b, int i)
{
	double scale = 0, worst = 0;

	assert_int_equal(a->call.out_count[i], b->call.out_count[i]);
	for (size_t j = 0; j < a->call.out_count[i]; j++) {
		double x = a->a.hi[i][j], y = b->a.hi[i][j], d = fabs(x - y + (low(&a->a, i, j) - low(&b->a, i, j)));
		if (isfinite(x) && fabs(x) > scale) scale = fabs(x);
		if (same_double(x, y) && same_double(low(&a->a, i, j), low(&b->a, i, j))) continue;
		if (!(d <= worst)) worst = isnan(d) ? (double)INFINITY : d;
	}
	return worst > 0 ? worst / scale : 0;
}

double distance(const struct outcome *a, const struct outcome *b)
{
	double worst = 0;

	for (int i = 0; i < MAX_OUT; i++) worst = fmax(worst, distance_of(a, b, i));
	return worst;
}

/* An upper bound of |ball - (hi + lo)|. */
static double off_ball(arb_srcptr ball, double hi, double lo)
{
	arb_t d, x;
	arf_t bound;

	arb_init(d);
	arb_init(x);
	arf_init(bound);
	arb_set_d(x, hi);
	arb_sub(d, ball, x, BALL);
	arb_set_d(x, lo);
	arb_sub(d, d, x, BALL);
	arb_get_abs_ubound_arf(bound, d, 64);
	double off = arf_get_d(bound, ARF_RND_UP);
	arb_clear(d);
	arb_clear(x);
	arf_clear(bound);
	return off;
}

void assert_balls(const struct outcome *r, int i, arb_srcptr ball, size_t n, size_t width)
{
	assert_int_equal(r->call.out_count[i], n);
	assert_non_null(r->a.lo[i]);
	for (size_t row = 0; row < n; row += width) {
		double scale = 0;
		for (size_t j = row; j < row + width; j++) scale = fmax(scale, fabs(r->a.hi[i][j]));
		for (size_t j = row; j < row + width; j++) {
			double off = off_ball(ball + j, r->a.hi[i][j], r->a.lo[i][j]);
			if (!(off <= 0x1p-105 * scale))
				fail_msg("%s %zu: %.17g, off by %.3g of the row's largest value %g", r->call.op->out[i].name, j,
					r->a.hi[i][j], off / scale, scale);
		}
	}
}

/* ---- one calc by hand ---- */
void in_calc(const struct plan *p, const struct call *call, struct answer *a, void (*body)(calc *c))
{
	struct strip all = { .along = { 0, SIZE_MAX }, .count = { SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX } };
	calc *c = calloc(1, sizeof *c);

	assert_non_null(c);
	*c = (calc){ .arith = p->arith, .bits = p->bits, .call = call, .plan = p, .answer = a, .strip = &all, .noise = random_at(p->seed) };
	c->element = p->arith->size(c);
	assert_int_equal(setjmp(c->no_memory), 0);
	if (p->arith->enter) p->arith->enter(c);
	body(c);
	if (p->arith->leave) p->arith->leave(c);
	for (struct block *b = c->blocks, *next; b; b = next) {
		next = b->next;
		free(b);
	}
	free(c->buffer);
	free(c);
}
