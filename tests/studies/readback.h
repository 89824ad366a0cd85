/* Kernel models that round a random subset of sites to random types, and what the x-ray reads of them.
 *
 * What counts. Let P be the planted emulation and floor2 the variance that float32 leaves around it. Two
 * plans differ visibly where the mean of (difference of what they store)² / floor2 is above 1. A planted
 * site is read back when it is found with its type, or when putting into P what was found at this
 * site, or nothing, makes no visible difference; likewise the form. A site found that was not planted
 * is always an error, and so is an emulation that differs visibly from P. */
#ifndef ETALON_TEST_READBACK_H
#define ETALON_TEST_READBACK_H

#include <math.h>
#include <stdlib.h>

#include "compare/attribute/profile.h"
#include "tests/kernel_model.h"

enum { READBACK_ELEMENTS = 1 << 17 };   /* cases with larger outputs are left to captures */

struct readback {
	const struct test_case *k;
	struct plan planted, found;
	size_t sites, visible;          /* planted; and those whose removal is visible */
	double left;                    /* xray_left of the found emulation */
	double behind;                  /* its score less that of the planted one, with the planted one's floor */
	double apart;                   /* their difference in floor2 */
	bool exact;
};

static inline size_t readback_below(uint64_t *random, size_t n) { return (size_t)(random_bits(random) % n); }

static inline bool readback_finite(const struct call *call)
{
	for (int i = 0; i < MAX_OUT; i++)
		for (size_t j = 0; j < call->out_count[i]; j++) {
			double x;
			dtype_load(call->out[i]->dtype, (char *)call->out[i]->data + j * dtype_info[call->out[i]->dtype].size, 1, &x);
			if (!isfinite(x)) return false;
		}
	return true;
}

/* A case whose outputs are small, and its inputs. */
static inline void readback_case(struct capture *c, struct call *call, const struct test_case **k, uint64_t *random)
{
	size_t n = 0;
	struct error e;

	while (test_cases[n].op) n++;
	for (;;) {
		*k = &test_cases[readback_below(random, n)];
		if ((*k)->large || op_find((*k)->op)->iterates) continue;     /* an iteration that runs free amplifies noise: x-ray.md */
		no_error(case_make(c, *k, random_bits(random), true, &e) && call_bind(call, c, true, &e), &e);
		size_t elements = 0;
		for (int i = 0; i < MAX_OUT; i++) elements += call->out_count[i];
		if (elements <= READBACK_ELEMENTS) return;
		capture_free(c);
	}
}

/* A form, and 0 to 4 of its sites (chunked: 0 to 6), none of them a store, each with a type. */
static inline size_t readback_plant(struct plan *p, const struct op *op, uint64_t *random)
{
	static const struct site_rounding types[] = {
		{ true, FMT_BF16, ROUND_NEAREST_EVEN }, { true, FMT_F16, ROUND_NEAREST_EVEN }, { true, FMT_TF32, ROUND_NEAREST_EVEN },
		{ true, FMT_TF32, ROUND_ZERO }, { true, FMT_BF16, ROUND_ZERO }, { true, FMT_E4M3, ROUND_NEAREST_EVEN },
	};
	int sites[MAX_SITE];
	size_t n = 0, chosen = op->forms[1].name ? readback_below(random, 4) : 0;

	*p = plan_plain(&arith_f32, arith_f32.precision);
	p->form = chosen > 0;
	p->chunk = chosen ? (size_t)8 << chosen : 0;
	for (int i = 0; op->sites[i].name; i++)
		if (site_in_form(op, i, p->form) && !op->sites[i].store) sites[n++] = i;
	size_t most = p->form ? 6 : 4, count = readback_below(random, (most < n ? most : n) + 1);
	for (size_t i = 0; i < count; i++) {
		size_t at = i + readback_below(random, n - i);
		int site = sites[at];
		sites[at] = sites[i];
		p->round[site] = types[readback_below(random, sizeof types / sizeof *types)];
	}
	return count;
}

/* The planted x-ray with another emulation: mean of (difference)² / floor2. `stored` [n]: of the planted. */
static inline double readback_apart(struct xray *x, const struct plan *p, const double *stored, struct error *e)
{
	struct stream l = { .plan = *p };
	double sum = 0, n = 0;

	assert_int_equal(x->strips, 1);
	no_error(xray_direction(x, &l), e);
	stream_end(&l);
	for (size_t j = 0; j < x->n; j++) {
		double y = stored_as(out_dtype(x->call, xray_out(x, j)), x->base[j] + x->d[j], 0);
		if (!(x->floor2[j] > 0)) continue;
		if (!isfinite(y)) return INFINITY;
		sum += (y - stored[j]) * (y - stored[j]) / x->floor2[j];
		n++;
	}
	return n > 0 ? sum / n : 0;
}

static inline bool readback_same(const struct site_rounding *a, const struct site_rounding *b)
{
	return a->on == b->on && (!a->on || (a->format == b->format && a->rounding == b->rounding));
}

/* Fills r's figures; x is settled on the planted emulation. */
static inline void readback_compare(struct readback *r, struct xray *x, struct error *e)
{
	const struct op *op = x->call->op;
	double *stored = malloc(x->n * sizeof *stored), score = x->score;
	struct plan p = r->planted;

	assert_non_null(stored);
	for (size_t j = 0; j < x->n; j++) stored[j] = stored_as(out_dtype(x->call, xray_out(x, j)), x->base[j], 0);
	r->apart = readback_apart(x, &r->found, stored, e);
	r->exact = r->apart <= 1 && !r->found.faults;
	for (int i = 0; op->sites[i].name; i++) {
		bool as_planted = readback_same(&r->planted.round[i], &r->found.round[i]);
		p = r->planted;
		p.round[i] = (struct site_rounding){ 0 };
		if (r->planted.round[i].on) r->visible += readback_apart(x, &p, stored, e) > 1;
		p.round[i] = r->found.round[i];
		if (!as_planted && (!r->planted.round[i].on || readback_apart(x, &p, stored, e) > 1)) r->exact = false;
	}
	p = r->planted;
	p.form = r->found.form;
	p.chunk = r->found.chunk;
	r->exact = r->exact && readback_apart(x, &p, stored, e) <= 1;
	x->emulation = r->found;
	no_error(xray_rebase(x), e);
	r->behind = x->score - score;
	free(stored);
}

/* The draw of this number: planted, run in float32, and read from its outputs. */
static inline void readback(struct readback *r, uint64_t number)
{
	uint64_t random = number;
	struct capture c;
	struct call call;
	struct profile p;
	struct xray x;
	struct error e;

	*r = (struct readback){ 0 };
	readback_case(&c, &call, &r->k, &random);
	do {
		r->sites = readback_plant(&r->planted, call.op, &random);
		answer_by(&c, &r->planted);
	} while (!readback_finite(&call));
	r->planted.arith = &arith_f64;
	r->planted.bits = arith_f64.precision;
	no_error(xray_make(&x, &call, NULL, &e) && emulation_search(&x, NULL) && profile_read(&p, &x), &e);
	r->left = xray_left(&x);
	r->found = p.emulation;
	r->found.arith = &arith_f64;
	r->found.bits = arith_f64.precision;
	for (int j = 0; j < p.n; j++)
		if (p.reading[j].state != ROUNDED) r->found.round[p.reading[j].site].on = false;
	x.emulation = r->planted;
	no_error(xray_refresh(&x), &e);
	readback_compare(r, &x, &e);
	xray_free(&x);
	capture_free(&c);
}

static inline void readback_sites(FILE *to, const struct op *op, const struct plan *p)
{
	fprintf(to, "%s", op->forms[p->form].name);
	if (p->chunk) fprintf(to, " %zu", p->chunk);
	for (int i = 0; op->sites[i].name; i++)
		if (p->round[i].on) fprintf(to, " %s=%s", op->sites[i].name, rounding_name(p->round[i].format, p->round[i].rounding));
	for (int m = 0; op->faults[m].name; m++)
		if (p->faults >> m & 1) fprintf(to, " %s", op->faults[m].name);
}

/* A failed draw, in two lines. */
static inline void readback_print(FILE *to, const struct readback *r, uint64_t number)
{
	const struct op *op = op_find(r->k->op);

	fprintf(to, "%llu %s %s: planted ", (unsigned long long)number, r->k->op, r->k->name);
	readback_sites(to, op, &r->planted);
	fprintf(to, "\n    found ");
	readback_sites(to, op, &r->found);
	fprintf(to, "; left %.3g, score %+.4g, apart %.3g%s\n", r->left, r->behind, r->apart, r->behind < 30 ? " (explains as well)" : "");
}

#endif
