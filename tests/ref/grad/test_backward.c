/* Derivatives against central finite differences of the formula itself, in MPFR with 128 bits. Of Σ d_k out_k at x + h e, the six values at
 * ±h, ±2h, ±3h give the derivative to h^6/140 times the seventh one (Fornberg 1988, table 1): 2^-91 at h = 2^-14; answers are read to
 * 2^-106, which is 2^-92 of a difference. */
#include <mpfr.h>

#include "tests/ref/grad/backward_calls.h"

#define STEP 0x1p-16
#define CLOSE 1e-20
enum { SAMPLES = 7 };

static struct plan plan_of(const char *arith, int form, size_t chunk)
{
	struct plan p = plan_in(arith);

	p.form = form;
	p.chunk = chunk;
	p.first_chunk = chunk ? chunk - 1 : 0;
	return p;
}

/* to += factor Σ d_k out_k */
static void add_outputs(mpfr_t to, const struct call *call, const struct capture *given, const struct plan *p, double factor)
{
	struct answer a;
	struct error e;
	mpfr_t one;

	if (!ref_run(call, p, &a, &e)) fail_msg("%s: %s", e.file, e.detail);
	mpfr_init2(one, 256);
	for (int i = 0; call->op->out[i].name; i++) {
		char name[64];
		snprintf(name, sizeof name, "in.d%s", call->op->out[i].name);
		if (!tensors_find(&given->tensors, name)) continue;
		for (size_t k = 0; k < call->out_count[i]; k++) {
			mpfr_set_d(one, a.hi[i][k], MPFR_RNDN);
			mpfr_add_d(one, one, a.lo[i][k], MPFR_RNDN);
			mpfr_mul_d(one, one, at(given, name, k) * factor, MPFR_RNDN);
			mpfr_add(to, to, one, MPFR_RNDN);
		}
	}
	mpfr_clear(one);
	answer_free(&a);
}

static double difference(struct capture *c, const struct call *call, const struct capture *given, const struct plan *p, const char *name, size_t k,
	double hi, double lo)
{
	static const double weight[] = { 0, 45, -9, 1 };
	double x = at(c, name, k);
	mpfr_t sum;

	mpfr_init2(sum, 256);
	mpfr_set_zero(sum, 1);
	for (int i = -3; i <= 3; i++) {
		if (!i) continue;
		put(c, name, k, x + i * STEP);
		add_outputs(sum, call, given, p, i < 0 ? -weight[-i] : weight[i]);
	}
	put(c, name, k, x);
	mpfr_div_d(sum, sum, 60 * STEP, MPFR_RNDN);
	mpfr_sub_d(sum, sum, hi, MPFR_RNDN);
	mpfr_sub_d(sum, sum, lo, MPFR_RNDN);
	double apart = fabs(mpfr_get_d(sum, MPFR_RNDN));
	mpfr_clear(sum);
	return apart;
}

/* The largest distance of the gradients from finite differences, over the gradient of each input's rms; -1: `where` forbids the call. */
static double compared(const struct shown *s, const char *text, int form, size_t chunk, const char *fault)
{
	char back[64];
	struct capture forward, backward;
	struct call call;
	struct outcome r;
	struct plan dd = plan_of("dd", form, chunk), wide = plan_of("mpfr:128", form, chunk);
	struct error e;
	double worst = -1;

	snprintf(back, sizeof back, "%s.backward", s->op);
	make(&forward, s->op, s->params, text);
	make(&backward, back, s->params, text);
	if (call_bind(&call, &forward, false, &e)) {
		if (fault) plan_fault(&dd, op_find(back), op_fault(op_find(back), fault)), plan_fault(&wide, call.op, op_fault(call.op, fault));
		run_plan(&r, &backward, &dd);
		worst = 0;
		for (int i = 0; r.call.op->out[i].name; i++) {
			char name[64];
			double rms = 0;
			size_t n = r.call.out_count[i];
			snprintf(name, sizeof name, "in.%s", r.call.op->out[i].name + 1);
			for (size_t k = 0; k < n; k++) rms += r.a.hi[i][k] * r.a.hi[i][k] / (double)n;
			for (size_t k = 0; k < n; k += (n + SAMPLES - 1) / SAMPLES) {
				double d = difference(&forward, &call, &backward, &wide, name, k, r.a.hi[i][k], r.a.lo[i][k]) / (rms > 0 ? sqrt(rms) : 1);
				if (!(d <= CLOSE)) print_message("%s %s [%zu]: %g of %g\n", back, name, k, d, sqrt(rms));
				worst = fmax(worst, isnan(d) ? (double)INFINITY : d);
			}
		}
		outcome_free(&r);
	}
	capture_free(&forward);
	capture_free(&backward);
	return worst;
}

static void they_are_the_limits_of_differences(void **state)
{
	(void)state;
	for (size_t i = 0; i < CALLS; i++) {
		const struct shown *s = &calls[i];
		const struct form *form = op_find(s->op)->forms;
		int sets = 0, n = 0;
		double worst = 0;
		while (n < 4 && s->optional[n]) n++;
		for (unsigned set = 0; set < 1u << n; set++) {
			char text[TEXT];
			bool given = text_of(text, s, set);
			for (int f = 0; given && f < MAX_FORM && form[f].name; f++) {
				double d = compared(s, text, f, form[f].chunked ? 4 : 0, NULL);
				sets += d >= 0 && !f;
				worst = fmax(worst, d);
			}
		}
		print_message("%s %s: %d sets, %.2g\n", s->op, s->params, sets, worst);
		assert_int_equal(sets, s->sets);
		assert_true(worst <= CLOSE);
	}
}

/* A fault that is no rounding makes another formula, whose gradients these are. */
static void so_they_are_of_faults(void **state)
{
	(void)state;
	for (size_t i = 0; i < CALLS; i++) {
		const struct shown *s = &calls[i];
		char name[64], text[TEXT];
		snprintf(name, sizeof name, "%s.backward", s->op);
		text_of(text, s, s->usual);
		if (i && !strcmp(s->op, calls[i - 1].op)) continue;
		for (const struct fault_spec *m = op_find(name)->faults; m->name; m++) {
			double d = m->is_rounding ? 0 : compared(s, text, m->form < 0 ? 0 : m->form, 0, m->name);
			if (!(d >= 0 && d <= CLOSE)) fail_msg("%s %s: %g", name, m->name, d);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(they_are_the_limits_of_differences), cmocka_unit_test(so_they_are_of_faults)
	};

	return cmocka_run_group_tests(tests, load, NULL);
}
