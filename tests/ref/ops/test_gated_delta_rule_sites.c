/* Both forms of the gated delta rule once more, in plain loops over doubles, with every site and
 * most faults: which intermediate a site is, and what a fault computes. */
#include <math.h>
#include <string.h>

#include "tests/ref/ops/gated_delta_rule_samples.h"

enum { T = 102, HV = 2, DK = 3, DV = 4, CHUNK = 64, BLOCK = 16 };

static const struct sample hand = { OP, "{\"qk_l2norm\": true, \"l2_eps\": 0.01}",
	"in.q F32 102,1,3 ~0,0.1; in.k F32 102,1,3 ~0,0.1; in.v F32 102,2,4 ~0,1; in.a F32 102,2 ~0,2; in.b F32 102,2 ~0,2;"
	"in.A_log F32 2 ~-2,0.5; in.dt_bias F32 2 ~0.5,1; in.initial_state F32 1,2,3,4 ~0,1" };

static int site, fault;       /* what is rounded, and the wrong turn; -1: none */
static double o[T][HV][DV], S[HV][DK][DV];

static double at_site(int s, double x) { return s == site ? format_round(FMT_BF16, ROUND_NEAREST_EVEN, x, 0) : x; }

/* ---- what a token reads ---- */
struct token { double q[DK], k[DK], v[DV], g, beta, given[DK], factor; };        /* k = factor given */

/* x, and what it was multiplied by */
static double norm(const struct capture *c, const char *name, int s, int missing, size_t t, double *x)
{
	double sum = 0, eps = 0.01, root;

	for (size_t i = 0; i < DK; i++) {
		x[i] = at(c, name, t * DK + i);
		sum += x[i] * x[i];
	}
	if (fault == missing) return 1;
	switch (fault) {
	case L2_EPS_OUTSIDE: root = sqrt(sum) + eps; break;
	case L2_CLAMPED: root = sqrt(sum > eps ? sum : eps); break;
	case L2_MEAN: root = sqrt(sum / DK + eps); break;
	default: root = sqrt(sum + eps);
	}
	for (size_t i = 0; i < DK; i++) x[i] = at_site(s, x[i] / root);
	return 1 / root;
}

static double decay_of(const struct capture *c, double a, size_t h)
{
	double x = a + at_site(SITE_DT_BIAS, at(c, "in.dt_bias", h));

	x = fault == SOFTPLUS_IS_RELU ? (x > 0 ? x : 0) : log1p(exp(x));
	return at_site(SITE_G, -exp(at_site(SITE_A_LOG, at(c, "in.A_log", h))) * x);
}

static struct token token(const struct capture *c, size_t t, size_t h)
{
	struct token x;
	double b = at(c, "in.b", t * HV + h);

	norm(c, "in.q", SITE_Q, L2_MISSING_Q, t, x.q);
	x.factor = norm(c, "in.k", SITE_K, L2_MISSING_K, t, x.k);
	for (size_t i = 0; i < DK; i++) x.given[i] = at(c, "in.k", t * DK + i);
	for (size_t j = 0; j < DV; j++) x.v[j] = at(c, "in.v", (t * HV + h) * DV + j);
	x.g = decay_of(c, at(c, "in.a", t * HV + h), h);
	x.beta = at_site(SITE_BETA, fault == BETA_IS_TANH ? tanh(b) : 1 / (1 + exp(-b)));
	return x;
}

/* ---- token by token ---- */
static void token_step(const struct token *x, size_t t, size_t h)
{
	for (size_t j = 0; j < DV; j++) {
		double early = 0, late = 0, before = 0, after = 0;
		for (size_t i = 0; i < DK; i++) {
			early += S[h][i][j] * x->k[i];
			S[h][i][j] *= exp(x->g);
			late += S[h][i][j] * x->k[i];
			before += S[h][i][j] * x->q[i];
		}
		double held = fault == RETRIEVE_BEFORE_DECAY ? early : fault == NO_ERROR_TERM ? 0 : fault == ERROR_TWICE ? 2 * late : late;
		double u = at_site(SITE_U, x->beta * (x->v[j] - held));
		for (size_t i = 0; i < DK; i++) {
			S[h][i][j] = at_site(SITE_STATE, S[h][i][j] + x->k[i] * u);
			after += S[h][i][j] * x->q[i];
		}
		o[t][h][j] = at_site(SITE_O, (fault == READ_BEFORE_UPDATE ? before : after) / sqrt(DK));
	}
}

static void sequential(const struct capture *c, size_t h)
{
	for (size_t t = 0; t < T; t++) {
		struct token x = token(c, t, h);
		token_step(&x, t, h);
	}
	for (size_t t = T; fault == PADS_ADVANCE_STATE && t % 64; t++)
		for (size_t i = 0; i < DK * DV; i++) S[h][i / DV][i % DV] *= exp(decay_of(c, 0, h));
}

/* ---- in chunks ---- */

/* Y = (I + A)^-1 of rows and columns [b, b + n), column by column */
static void invert(double A[CHUNK][CHUNK], double Y[CHUNK][CHUNK], size_t b, size_t n)
{
	for (size_t j = b; j < b + n; j++) {
		for (size_t i = b; i < b + n; i++) {
			Y[i][j] = i == j;
			for (size_t p = b; p < i; p++) Y[i][j] -= A[i][p] * Y[p][j];
		}
	}
}

/* A product of operands rounded at the merge's site: Σ_p L_ip R_pj, p in [p0, p1) */
static double merged(double L[CHUNK][CHUNK], double R[CHUNK][CHUNK], size_t i, size_t j, size_t p0, size_t p1)
{
	double y = 0;

	for (size_t p = p0; p < p1; p++) y += at_site(SITE_INVERSE_MERGE, L[i][p]) * at_site(SITE_INVERSE_MERGE, R[p][j]);
	return y;
}

/* Blocks of 16: Y_rs = -(Y_rr A_rs) Y_ss for neighbours, else -Y_rr (Σ_{s<=p<r} A_rp Y_ps). */
static void inverse(double A[CHUNK][CHUNK], double Y[CHUNK][CHUNK], size_t L)
{
	static double X[CHUNK][CHUNK];

	memset(Y, 0, sizeof(double[CHUNK][CHUNK]));
	for (size_t r = 0; r < L; r += BLOCK) {
		size_t end = r + BLOCK < L ? r + BLOCK : L;
		invert(A, Y, r, end - r);
		for (size_t s = 0; s < r; s += BLOCK) {
			bool next = s + BLOCK == r;
			for (size_t i = r; i < end; i++)
				for (size_t j = s; j < s + BLOCK; j++) X[i][j] = next ? merged(Y, A, i, j, r, end) : merged(A, Y, i, j, s, r);
			for (size_t i = r; i < end; i++)
				for (size_t j = s; j < s + BLOCK; j++) Y[i][j] = -(next ? merged(X, Y, i, j, s, r) : merged(Y, X, i, j, r, end));
		}
	}
	for (size_t i = 0; i < L * CHUNK; i++) Y[i / CHUNK][i % CHUNK] = at_site(SITE_INVERSE, Y[i / CHUNK][i % CHUNK]);
}

static double inner(const double *a, const double *b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

/* V [L,DV] = Y (beta v) - Y (beta e^G k) S */
static void new_values(const struct token *x, const double *G, size_t L, double Sop[DK][DV], double V[CHUNK][DV])
{
	double A[CHUNK][CHUNK] = { { 0 } }, Y[CHUNK][CHUNK];
	bool late = fault == CHUNK_W_FROM_DECAYED_GRAM;

	for (size_t i = 0; i < L; i++)
		for (size_t j = 0; j < i; j++) A[i][j] = at_site(SITE_GRAM, x[i].beta * exp(G[i] - G[j]) * inner(x[i].k, x[j].k));
	inverse(A, Y, L);
	for (size_t i = 0; i < L; i++) {
		double w[DK] = { 0 };
		for (size_t p = 0; p <= i; p++)
			for (size_t d = 0; d < DK; d++) {
				double f = x[p].beta * exp(G[late ? i : p]);
				w[d] += site == SITE_INVERSE_BETA_K ? at_site(site, Y[i][p] * f * x[p].factor) * x[p].given[d]
					: Y[i][p] * at_site(SITE_BETA_K, f * x[p].k[d]);
			}
		for (size_t d = 0; d < DK; d++) w[d] = at_site(SITE_W, w[d]);
		for (size_t j = 0; j < DV; j++) {
			double u = 0;
			for (size_t p = 0; p <= i; p++)
				u += site == SITE_INVERSE_BETA ? at_site(site, Y[i][p] * x[p].beta) * x[p].v[j]
					: Y[i][p] * at_site(SITE_BETA_V, x[p].beta * x[p].v[j]);
			V[i][j] = at_site(SITE_U, u);
			for (size_t d = 0; d < DK; d++) V[i][j] -= w[d] * Sop[d][j];
		}
	}
}

static size_t slot;     /* of chunk_end_decay_wrong_slot */

static void chunk(const struct capture *c, size_t t0, size_t L, size_t h)
{
	struct token x[CHUNK];
	double G[CHUNK], V[CHUNK][DV], Sop[DK][DV], sum = 0;
	double plain = fault == CHUNK_MASK_WITHOUT_DECAY ? 0 : 1, kept = fault == CHUNK_END_DECAY_LOST_ON_TAIL && L < CHUNK ? 0 : 1;
	size_t end = fault == CHUNK_END_DECAY_WRONG_SLOT && slot < L ? slot : L - 1;

	if (t0 && fault == CHUNK_STATE_NOT_CARRIED) memset(S[h], 0, sizeof S[h]);
	for (size_t i = 0; i < L; i++) {
		x[i] = token(c, t0 + i, h);
		G[i] = at_site(SITE_G_SUM, sum += x[i].g);
	}
	for (size_t i = 0; i < DK * DV; i++) Sop[i / DV][i % DV] = at_site(SITE_STATE_OPERAND, S[h][i / DV][i % DV]);
	new_values(x, G, L, Sop, V);
	for (size_t j = 0; j < DV; j++) {
		for (size_t i = 0; i < L; i++) {
			double y = 0;
			for (size_t d = 0; d < DK; d++) y += exp(G[i]) * x[i].q[d] * Sop[d][j];
			for (size_t p = 0; p <= i; p++)
				y += at_site(SITE_ATTENTION, exp(plain * (G[i] - G[p])) * inner(x[i].q, x[p].k)) * at_site(SITE_V_NEW, V[p][j]);
			o[t0 + i][h][j] = at_site(SITE_O, y / sqrt(DK));
		}
		for (size_t d = 0; d < DK; d++) {
			double s = exp(kept * G[end]) * S[h][d][j];
			for (size_t i = 0; i < L; i++) {
				double v = exp(G[end] - G[i]) * V[i][j];
				s += site == SITE_V_NEW_DECAYED_K ? x[i].given[d] * at_site(site, x[i].factor * v)
					: x[i].k[d] * at_site(SITE_V_NEW_DECAYED, v);
			}
			S[h][d][j] = at_site(SITE_STATE, s);
		}
	}
}

/* ---- comparisons ---- */

/* By hand against f64: 102 tokens of about 30 operations are far below 2^-40 of the largest value. */
static void compare(const struct capture *c, int form, const char *what)
{
	struct plan p = plan_in("f64");
	struct outcome r;
	double apart = 0;

	p.form = form;
	p.chunk = form ? CHUNK : 0;
	if (site >= 0) p.round[site] = (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
	p.faults = fault < 0 ? 0 : UINT64_C(1) << fault;
	if (fault >= 0) p.value[fault] = (double)slot;
	run_plan(&r, c, &p);
	for (size_t h = 0; h < HV; h++) {
		for (size_t i = 0; i < DK * DV; i++) S[h][i / DV][i % DV] = at(c, "in.initial_state", h * DK * DV + i);
		if (form == FORM_SEQUENTIAL) sequential(c, h);
		for (size_t t = 0; t < T && form == FORM_CHUNK; t += CHUNK) chunk(c, t, T - t < CHUNK ? T - t : CHUNK, h);
	}
	for (size_t i = 0; i < T * HV * DV; i++) apart = fmax(apart, fabs(r.a.hi[OUT_O][i] - ((double *)o)[i]));
	for (size_t i = 0; i < HV * DK * DV; i++) {
		size_t from = fault == STATE_TRANSPOSED_OUT ? i / 12 * 12 + i % 3 * 4 + i % 12 / 3 : i;
		apart = fmax(apart, fabs(r.a.hi[OUT_STATE][i] - at_site(SITE_FINAL_STATE, ((double *)S)[from])));
	}
	if (!(apart <= 0x1p-40)) fail_msg("%s, form %d: off by %g", what, form, apart);
	outcome_free(&r);
}

static void every_site(void **state)
{
	const struct site_spec *sites = op_find(OP)->sites;
	struct capture c;

	(void)state;
	made(&c, &hand, 3);
	fault = -1;
	for (site = -1; site < 0 || sites[site].name; site++)
		for (int form = FORM_SEQUENTIAL; form <= FORM_CHUNK; form++)
			if (site < 0 || sites[site].forms >> form & 1) compare(&c, form, site < 0 ? "no site" : sites[site].name);
	capture_free(&c);
}

static void faults_by_hand(void **state)
{
	static const int made_here[] = {
		RETRIEVE_BEFORE_DECAY, READ_BEFORE_UPDATE, NO_ERROR_TERM, ERROR_TWICE, SOFTPLUS_IS_RELU, BETA_IS_TANH, L2_EPS_OUTSIDE,
		L2_CLAMPED, L2_MEAN, L2_MISSING_Q, L2_MISSING_K, STATE_TRANSPOSED_OUT, PADS_ADVANCE_STATE,
		CHUNK_END_DECAY_WRONG_SLOT, CHUNK_END_DECAY_WRONG_SLOT, CHUNK_END_DECAY_WRONG_SLOT, CHUNK_END_DECAY_LOST_ON_TAIL,
		CHUNK_STATE_NOT_CARRIED, CHUNK_MASK_WITHOUT_DECAY, CHUNK_W_FROM_DECAYED_GRAM,
	};
	static const size_t slots[] = { 61, 54, 58 };
	struct capture c;

	(void)state;
	made(&c, &hand, 3);
	site = -1;
	for (size_t i = 0; i < LEN(made_here); i++) {
		fault = made_here[i];
		slot = slots[i % LEN(slots)];
		compare(&c, op_find(OP)->faults[fault].form == FORM_CHUNK ? FORM_CHUNK : FORM_SEQUENTIAL, op_find(OP)->faults[fault].name);
	}
	capture_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_site),
		cmocka_unit_test(faults_by_hand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
