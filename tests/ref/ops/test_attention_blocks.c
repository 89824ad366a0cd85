/* Attention block by block, as public kernels go, in double: against the forms of ref/ops/attention.op. */
#include <math.h>
#include <string.h>

#include "tests/witness.h"

#define OP "attention"

static double in_bf16(double x)
{
	format_round_all(FMT_BF16, ROUND_NEAREST_EVEN, &x, 1);
	return x;
}

/* As FlashAttention's kernels go: blocks from the last to the first, e^(s - m) rounded with the maximum so far, the sum of what is not
 * rounded; queries that see them all, in double. */
static void blocks_go_backwards(void **state)
{
	static const struct sample s = { OP, "{}", "in.q F32 7,1,4 ~0,2; in.k F32 75,1,4 ~0,1; in.v F32 75,1,2 ~0,1" };
	struct plan p = plan_in("f64");
	struct capture c;
	struct outcome r;

	(void)state;
	made(&c, &s, 12);
	p.form = 1;
	p.chunk = 32;
	p.round[op_site(op_find(OP), "p")] = (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
	run_plan(&r, &c, &p);
	for (size_t t = 0; t < 7; t++) {
		double m = -INFINITY, l = 0, o[2] = { 0, 0 }, score[75];
		for (size_t i = 0; i < 75; i++) {
			score[i] = 0;
			for (size_t d = 0; d < 4; d++) score[i] += 0.5 * at(&c, "in.q", t * 4 + d) * at(&c, "in.k", i * 4 + d);
		}
		for (size_t b = 3; b-- > 0;) {
			size_t end = b == 2 ? 75 : 32 * (b + 1);
			double n = m;
			for (size_t i = 32 * b; i < end; i++) n = fmax(n, score[i]);
			l *= exp(m - n), o[0] *= exp(m - n), o[1] *= exp(m - n);
			for (size_t i = 32 * b; i < end; i++) {
				double e = exp(score[i] - n), rounded = in_bf16(e);
				l += e;
				for (size_t d = 0; d < 2; d++) o[d] += rounded * at(&c, "in.v", i * 2 + d);
			}
			m = n;
		}
		for (size_t d = 0; d < 2; d++) assert_true(fabs(r.a.hi[0][t * 2 + d] - o[d] / l) <= 1e-14);
	}
	outcome_free(&r);
	capture_free(&c);
}

static int form_of(const char *name)
{
	int form = 0;

	while (strcmp(op_find(OP)->forms[form].name, name) != 0) form++;
	return form;
}

/* Of query t, blocks of 16 from the first on, p rounded as an operand: as flash-attention's Triton kernel goes, whose e^(s - m) is taken against
 * the log of the sum so far where a block's maximum is less, and as AITER's and SGLang's, which divide by the sum so far before they round. */
static void block_by_block(const struct capture *c, size_t t, bool divides, double o[2])
{
	double m = -INFINITY, l = 0, score[75];

	o[0] = o[1] = 0;
	for (size_t i = 0; i < 75; i++) {
		score[i] = 0;
		for (size_t d = 0; d < 4; d++) score[i] += 0.5 * at(c, "in.q", t * 4 + d) * at(c, "in.k", i * 4 + d);
	}
	for (size_t b = 0; b < 75; b += 16) {
		size_t end = b + 16 < 75 ? b + 16 : 75;
		double top = -INFINITY, sum = 0, p[16];
		for (size_t i = b; i < end; i++) top = fmax(top, score[i]);
		double n = fmax(divides ? m : m + log(l), top), from = divides ? top : n, w = b ? exp(m - n) : 0, z = exp(from - n);
		for (size_t i = b; i < end; i++) p[i - b] = exp(score[i] - from), sum += p[i - b];
		double grown = w * l + z * sum, kept = divides ? w * l / grown : w;
		for (size_t d = 0; d < 2; d++) {
			o[d] *= kept;
			for (size_t i = b; i < end; i++) o[d] += in_bf16(divides ? z / grown * p[i - b] : p[i - b]) * at(c, "in.v", i * 2 + d);
		}
		l = grown;
		m = n;
	}
	for (size_t d = 0; d < 2 && !divides; d++) o[d] /= l;
}

static void blocks_go_forwards(void **state)
{
	static const struct sample s = { OP, "{}", "in.q F32 7,1,4 ~0,2; in.k F32 75,1,4 ~0,1; in.v F32 75,1,2 ~0,1" };
	static const char *const forms[] = { "by_log_sum", "normalised" };
	struct capture c;

	(void)state;
	made(&c, &s, 13);
	for (int divides = 0; divides < 2; divides++) {
		struct plan p = plan_in("f64");
		struct outcome r;
		p.form = form_of(forms[divides]);
		p.chunk = 16;
		p.round[op_site(op_find(OP), "p")] = (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
		run_plan(&r, &c, &p);
		for (size_t t = 0; t < 7; t++) {
			double o[2];
			block_by_block(&c, t, divides, o);
			for (size_t d = 0; d < 2; d++) assert_true(fabs(r.a.hi[0][t * 2 + d] - o[d]) <= 1e-14);
		}
		outcome_free(&r);
	}
	capture_free(&c);
}

/* As FlashAttention-4's FP8 kernel of #2716 goes: blocks of 16 from the last to the first, a maximum that is kept until it grows by more
 * than 2^4, 256 times e^(s - m) no larger than 448, the sum of what is not; and, with 2^8 and nothing cut, the form itself. */
static void old_maxima_saturate(void **state)
{
	static const struct sample s = { OP, "{}", "in.q F32 5,1,4 ~0,6; in.k F32 75,1,4 ~0,1; in.v F32 75,1,2 ~0,1" };
	const struct op *op = op_find(OP);
	double cut = 0;

	(void)state;
	for (int fault = 0; fault < 2; fault++) {
		struct plan p = plan_in("f64");
		struct capture c;
		struct outcome r;
		made(&c, &s, 12);
		if (fault) plan_fault(&p, op, op_fault(op, "p_clamped"));
		for (p.form = 0; strcmp(op->forms[p.form].name, "lazy"); p.form++) {}
		p.chunk = 16;
		run_plan(&r, &c, &p);
		for (size_t t = 0; t < 5; t++) {
			double m = -INFINITY, l = 0, o[2] = { 0, 0 };
			for (size_t b = 5; b-- > 0;) {
				double score[16], top = m;
				size_t n = b == 4 ? 11 : 16;
				for (size_t i = 0; i < n; i++) {
					score[i] = 0;
					for (size_t d = 0; d < 4; d++) score[i] += 0.5 * at(&c, "in.q", t * 4 + d) * at(&c, "in.k", (16 * b + i) * 4 + d);
					top = fmax(top, score[i]);
				}
				if ((top - m) / log(2) <= (fault ? 4 : 8)) top = m;
				l *= exp(m - top), o[0] *= exp(m - top), o[1] *= exp(m - top);
				for (size_t i = 0; i < n; i++) {
					double e = exp(score[i] - top), held = fault ? fmin(256 * e, 448) / 256 : e;
					cut += e > held;
					l += e;
					for (size_t d = 0; d < 2; d++) o[d] += held * at(&c, "in.v", (16 * b + i) * 2 + d);
				}
				m = top;
			}
			for (size_t d = 0; d < 2; d++) assert_true(fabs(r.a.hi[0][t * 2 + d] - o[d] / l) <= 1e-13);
		}
		outcome_free(&r);
		capture_free(&c);
	}
	assert_true(cut > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_go_backwards), cmocka_unit_test(blocks_go_forwards), cmocka_unit_test(old_maxima_saturate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
