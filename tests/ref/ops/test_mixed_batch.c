/* mixed_batch against histories: the witness has no pools. It follows each request through the tables as the list of
 * tokens that its memory has seen, and computes each output from the list alone, in another form of the rule. */
#include <math.h>
#include <string.h>

#include "tests/ref/ops/mixed_batch_samples.h"
#include "tests/kernel_model.h"

#define LEN(a) (sizeof(a) / sizeof *(a))
enum { MOST = 64 };

/* ---- the witness ---- */

/* From a slot as it came, or from zeros (base -1); position: of token[0] in its request. */
struct history { long base, position; size_t n, token[MOST]; };

struct sizes { size_t L, C, W, H, Hk, Hv, Dk, Dv, P; bool ring; };

static struct sizes sizes_of(const struct capture *c)
{
	struct sizes s = { extent(c, "in.x", 1), extent(c, "in.x", 2), extent(c, "in.conv_weight", 2), extent(c, "in.conv_pool", 3), 0,
		extent(c, "in.z", 2), extent(c, "in.state_pool", 3), extent(c, "in.z", 3), extent(c, "in.state_pool", 0),
		capture_string(c, "conv_layout", "ring")[0] == 'r' };

	s.Hk = (s.C - s.Hv * s.Dv) / s.Dk / 2;
	return s;
}

/* The input of a channel at entry i of the history; before it, i < 0, what the slot held. */
static double input(const struct capture *c, struct sizes s, const struct history *m, size_t l, size_t ch, long i)
{
	long column = s.ring ? (m->position + i + (long)s.W) % (long)s.W : (long)s.H + i;

	if (i >= 0) return at(c, "in.x", (m->token[i] * s.L + l) * s.C + ch);
	return m->base < 0 ? 0 : at(c, "in.conv_pool", (((size_t)m->base * s.L + l) * s.C + ch) * s.H + (size_t)column);
}

static long double silu(long double x) { return x / (1 + expl(-x)); }

static long double convolved(const struct capture *c, struct sizes s, const struct history *m, size_t l, size_t ch, long i)
{
	long double y = 0;

	for (size_t back = 0; back < s.W; back++)
		y += (long double)at(c, "in.conv_weight", (l * s.C + ch) * s.W + s.W - 1 - back) * input(c, s, m, l, ch, i - (long)back);
	return silu(y);
}

/* x [n] <- conv channels ch .. ch+n-1, divided by their length where asked. */
static void vector(const struct capture *c, struct sizes s, const struct history *m, size_t l, size_t ch, long i, bool unit,
	long double *x, size_t n)
{
	long double squares = capture_number(c, "l2_eps", 1e-6);

	for (size_t j = 0; j < n; j++) x[j] = convolved(c, s, m, l, ch + j, i), squares += x[j] * x[j];
	for (size_t j = 0; unit && j < n; j++) x[j] /= sqrtl(squares);
}

/* S [Dk,Dv] after the whole history: S <- (I - beta k k') e^g S + beta k v'; and y [Dv] of its last token. */
static void replay(const struct capture *c, struct sizes s, const struct history *m, size_t l, size_t h, long double *S,
	long double *y)
{
	size_t hk = h * s.Hk / s.Hv, head = l * s.Hv + h;
	long double q[32], k[32], v[32], left[32];

	for (size_t j = 0; j < s.Dk * s.Dv; j++)
		S[j] = m->base < 0 ? 0 : at(c, "in.state_pool", (((size_t)m->base * s.L + l) * s.Hv + h) * s.Dk * s.Dv + j);
	for (long i = 0; i < (long)m->n; i++) {
		size_t at_head = (m->token[i] * s.L + l) * s.Hv + h;
		long double sum = at(c, "in.a", at_head) + (long double)at(c, "in.dt_bias", head);
		long double decay = powl(1 + expl(sum), -expl(at(c, "in.A_log", head)));
		long double beta = 1 / (1 + expl(-at(c, "in.b", at_head))), mean = 0;
		vector(c, s, m, l, hk * s.Dk, i, true, q, s.Dk);
		vector(c, s, m, l, (s.Hk + hk) * s.Dk, i, true, k, s.Dk);
		vector(c, s, m, l, 2 * s.Hk * s.Dk + h * s.Dv, i, false, v, s.Dv);
		for (size_t d = 0; d < s.Dv; d++) {
			left[d] = y[d] = 0;
			for (size_t j = 0; j < s.Dk; j++) left[d] += k[j] * decay * S[j * s.Dv + d];
			for (size_t j = 0; j < s.Dk; j++) S[j * s.Dv + d] = decay * S[j * s.Dv + d] - beta * k[j] * left[d] + beta * k[j] * v[d];
			for (size_t j = 0; j < s.Dk; j++) y[d] += q[j] * S[j * s.Dv + d];
			y[d] *= capture_number(c, "scale", 1 / sqrt((double)s.Dk));
			mean += y[d] * y[d] / (long double)s.Dv;
		}
		for (size_t d = 0; d < s.Dv; d++)
			y[d] *= at(c, "in.norm_weight", l * s.Dv + d) * silu(at(c, "in.z", at_head * s.Dv + d))
				/ sqrtl(mean + capture_number(c, "norm_eps", 1e-6));
	}
}

static void near(double got, long double want, const char *what, size_t i)
{
	if (!(fabsl(got - want) <= 1e-14L * (1 + fabsl(want)))) fail_msg("%s[%zu] is %.17g, expected %.17Lg", what, i, got, want);
}

/* y of the history's last token. */
static void assert_output(const struct capture *c, struct sizes s, const struct history *m, const struct outcome *r)
{
	long double S[32 * 32], y[32];
	size_t t = m->token[m->n - 1];

	for (size_t i = 0; i < s.L * s.Hv; i++) {
		replay(c, s, m, i / s.Hv, i % s.Hv, S, y);
		for (size_t d = 0, o = (t * s.L * s.Hv + i) * s.Dv; d < s.Dv; d++) near(r->a.hi[0][o + d], y[d], "y", o + d);
	}
}

/* A slot in the end: what nobody wrote is as it came, to the bit. */
static void assert_slot(const struct capture *c, struct sizes s, const struct history *m, size_t slot, const struct outcome *r)
{
	long double S[32 * 32], y[32];

	for (size_t i = 0; i < s.L * s.Hv; i++) {
		size_t n = s.Dk * s.Dv, o = (slot * s.L * s.Hv + i) * n;
		replay(c, s, m, i / s.Hv, i % s.Hv, S, y);
		for (size_t j = 0; j < n; j++) near(r->a.hi[1][o + j], S[j], "state_pool", o + j);
		for (size_t j = 0; j < n && !m->n; j++) assert_true(r->a.hi[1][o + j] == (double)S[j] && r->a.lo[1][o + j] == 0);
	}
	for (size_t i = 0; i < s.L * s.C; i++)
		for (size_t back = 1; back <= s.H; back++) {
			long entry = (long)m->n - (long)back, column = s.ring ? (m->position + entry + (long)s.W) % (long)s.W : (long)(s.H - back);
			double got = r->a.hi[2][(slot * s.L * s.C + i) * s.H + (size_t)column];
			assert_true(got == input(c, s, m, i / s.C, i % s.C, entry));
		}
}

static void assert_histories(const struct capture *c)
{
	static struct history slot[32];
	struct sizes s = sizes_of(c);
	struct outcome r;

	run_in(&r, c, "mpfr:128");
	for (size_t i = 0; i < s.P; i++) slot[i] = (struct history){ .base = (long)i };
	for (size_t row = 0; row < count(c, "in.kinds"); row++) {
		long read = (long)at(c, "in.read_slot", row), position = capture_in(c, "position") ? (long)at(c, "in.position", row) : 0;
		struct history m = { .base = -1 };
		if (read >= 0) m = slot[read];
		if (!m.n) m.position = position;
		for (size_t t = (size_t)at(c, "in.cu_seqlens", row); t < (size_t)at(c, "in.cu_seqlens", row + 1); t++) {
			long write = (long)at(c, "in.write_slot", t);
			assert_true(m.n < MOST);
			m.token[m.n++] = t;
			if (at(c, "in.kinds", row) < 3) assert_output(c, s, &m, &r);
			else for (size_t d = 0, n = s.L * s.Hv * s.Dv; d < n; d++) assert_true(r.a.hi[0][t * n + d] == 0);
			if (write >= 0) slot[write] = m;
		}
	}
	for (size_t i = 0; i < s.P; i++) assert_slot(c, s, &slot[i], i, &r);
	outcome_free(&r);
}

static void equals_the_histories(void **state)
{
	static const struct sample *const samples[] = { &busy, &window_of_all, &window, &again, &grouped };
	static const char *const cases[] = { "steps_f32", "steps_bf16" };
	struct capture c;

	(void)state;
	for (size_t k = 0; k < LEN(samples); k++) {
		made(&c, samples[k], 5);
		assert_histories(&c);
		capture_free(&c);
	}
	for (size_t k = 0; k < LEN(cases); k++) {
		make_case(&c, OP, cases[k]);
		assert_histories(&c);
		capture_free(&c);
	}
}

/* ---- laws ---- */

/* Bit for bit in every arithmetic: the busy steps as they are, and with other tables that say the same. */
static void assert_same(const char *tables, const char *positions)
{
	static const char *const names[] = { "f32", "f64", "mpfr:128" };
	char text[1500];

	snprintf(text, sizeof text, "%s%s%s", TENSORS("16", "9", "3"), tables, positions);
	for (size_t k = 0; k < LEN(names); k++) {
		struct capture a, b;
		struct outcome r, o;
		made(&a, &busy, 9);
		made(&b, &(struct sample){ OP, "{}", text }, 9);
		run_in(&r, &a, names[k]);
		run_in(&o, &b, names[k]);
		assert_true(same_outcome(&r, &o));
		outcome_free(&r);
		outcome_free(&o);
		capture_free(&a);
		capture_free(&b);
	}
}

/* A row is a step of its own; a prefill of two tokens is two of one; a speculation's tokens decode from slot to slot. */
static void batches_change_nothing(void **state)
{
	(void)state;
	assert_same("in.steps I32 14 =0,1,2,3,4,5,6,7,8,9,10,11,12,13;" BUSY_ROWS, BUSY_POSITIONS);
	assert_same("in.steps I32 15 =0,1,2,3,4,5,6,7,8,9,10,11,12,13,16; in.cu_seqlens I64 17 =0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16;"
		"in.kinds I32 16 =0,0,3,1,1,1,0,0,3,1,0,2,0,0,0,0; in.read_slot I32 16 =0,1,-1,-1,2,-1,1,2,-1,2,5,0,6,6,5,3;"
		"in.write_slot I64 16 =0,1,-1,2,2,3,1,4,-1,5,5,6,7,6,5,3;", "in.position I32 16 =4,3,0,0,1,0,4,2,0,2,3,5,6,6,4,1");
}

static void sites_and_faults_show(void **state)
{
	(void)state;
	sites_show((struct sample[]){ busy, window }, 2, 0);
	faults_show((struct sample[]){ busy, window }, 2);
}

/* What is stored in the pool is rounded, what a row carries on is not: the slots in the end are the plain run's, rounded. */
static void pool_is_rounded_where_stored(void **state)
{
	static const struct sample drafts = { OP, "{}", TENSORS("4", "4", "3") "in.steps I32 2 =0,1; in.cu_seqlens I32 2 =0,4;"
		"in.kinds I32 1 =2; in.read_slot I32 1 =3; in.write_slot I32 4 =0,2,-1,1; in.position I32 1 =7" };
	struct capture c;
	struct outcome plain, rounded;
	struct plan p = plan_in("f64");

	(void)state;
	made(&c, &drafts, 3);
	run_plan(&plain, &c, &p);
	p.round[op_site(op_find(OP), "pool")] = (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
	run_plan(&rounded, &c, &p);
	for (size_t i = 0; i < 3 * 12; i++) {
		assert_true(rounded.a.hi[1][i] != plain.a.hi[1][i]);
		assert_true(rounded.a.hi[1][i] == format_round(FMT_BF16, ROUND_NEAREST_EVEN, plain.a.hi[1][i], 0));
	}
	for (size_t i = 3 * 12; i < 4 * 12; i++) assert_true(rounded.a.hi[1][i] == at(&c, "in.state_pool", i));
	for (size_t i = 0; i < 16; i++) assert_true(rounded.a.hi[0][i] == plain.a.hi[0][i]);
	outcome_free(&plain);
	outcome_free(&rounded);
	capture_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_the_histories), cmocka_unit_test(batches_change_nothing), cmocka_unit_test(sites_and_faults_show),
		cmocka_unit_test(pool_is_rounded_where_stored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
