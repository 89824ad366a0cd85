/* Newton-Schulz iterations on X [s,l], s <= l, with coefficients (a, b, c):
 *   standard    A = XX'         B = bA + cA²          X <- BX + aX
 *   gram_naive  R = XX', Q = I  Z = aI + bR + cR²     Q <- QZ         R <- Z RZ
 *   gram        R = XX', Q = I  Z = bR + cR²          Q <- QZ + aQ    RZ <- RZ + aR, R <- Z RZ + a RZ;  answers QX */
#include <string.h>

#include "schulz.h"

enum { STALE = 8 };
struct state { const struct schulz *z; size_t s, l, t; float *X, *R, *Q, *before; };

static enum number type(const struct state *v) { return v->z->o->iterate; }

static void mirror(const struct state *v, float *P)
{
	for (size_t i = 0; v->z->o->mirrored && i < v->s; i++)
		for (size_t j = i + 1; j < v->s; j++) P[i * v->s + j] = P[j * v->s + i];
}

/* alpha A B + beta C + own I, [s,cols], all rounded once or each part by itself; A is [s,s]. */
static float *update(const struct state *v, float alpha, const float *A, const float *B, size_t cols, float beta, const float *C, float own_I)
{
	const struct iteration_options *o = v->z->o;
	size_t n = v->s * cols;
	float *P = floats(n), *left = floats_of(A, v->s * v->s);
	bool before = o->scaled_before && alpha != 1;

	for (size_t i = 0; before && i < v->s * v->s; i++) left[i] = rounded(type(v), alpha * A[i]);
	product(o->order, P, plain(left, v->s), plain(B, cols), v->s, v->s, cols, false);
	for (size_t i = 0; i < n; i++) {
		float x = before ? P[i] : alpha * (o->fused ? P[i] : rounded(type(v), P[i])), own = beta == 0 ? 0 : beta * C[i];
		float one = own_I != 0 && i / cols == i % cols ? own_I : 0;
		P[i] = o->fused ? rounded(type(v), x + own + one) : rounded(type(v), rounded(type(v), x) + rounded(type(v), own) + one);
	}
	return P;
}

/* The same of matrices [s,s] */
static float *symmetric(const struct state *v, float alpha, const float *A, const float *B, float beta, const float *C, float own_I)
{
	float *P = update(v, alpha, A, B, v->s, beta, C, own_I);

	mirror(v, P);
	return P;
}

/* R <- XX' */
static void gram(struct state *v, float *R)
{
	size_t n = v->s * v->s;

	product(v->z->o->order, R, plain(v->X, v->l), turned(v->X, v->l), v->s, v->l, v->s, false);
	round_all(type(v), R, n);
	mirror(v, R);
	if (v->z->fault == STALE_ROWS) {
		float *now = floats_of(R, n);
		size_t keep = (v->s - STALE) * v->s;
		if (v->t) memcpy(R + keep, v->before + keep, STALE * v->s * sizeof *R);
		memcpy(v->before, now, n * sizeof *now);
	}
}

static void coefficients(const struct state *v, float abc[3])
{
	size_t t = v->z->fault == COEFFICIENTS_EARLY && v->t + 1 < v->z->K ? v->t + 1 : v->t;

	memcpy(abc, v->z->abc[t], 3 * sizeof *abc);
	if (v->z->fault == B_AND_C_SWAPPED) abc[1] = v->z->abc[t][2], abc[2] = v->z->abc[t][1];
}

/* bR + cR² + own I; a's multiple of I is a term of the sum that is stored, not added to what was stored: that is a known fault */
static float *polynomial(const struct state *v, const float *R, const float abc[3], float own_I)
{
	if (v->z->fault != ELEMENTWISE_SQUARE) return symmetric(v, abc[2], R, R, abc[1], R, own_I);
	float *P = floats(v->s * v->s);
	for (size_t i = 0; i < v->s * v->s; i++)
		P[i] = rounded(type(v), abc[1] * R[i] + abc[2] * (R[i] * R[i]) + (i / v->s == i % v->s ? own_I : 0));
	return P;
}

static float own_term(const struct state *v, float a) { return v->z->fault == NO_OWN_TERM_ONCE && v->t == 1 ? 0 : a; }

static void standard(struct state *v, const float abc[3])
{
	float *A = floats(v->s * v->s);

	gram(v, A);
	float *X = update(v, 1, polynomial(v, A, abc, 0), v->X, v->l, own_term(v, abc[0]), v->X, 0);
	memcpy(v->X, X, v->s * v->l * sizeof *X);
}

static void identity(float *Q, size_t s)
{
	for (size_t i = 0; i < s * s; i++) Q[i] = i / s == i % s;
}

static void restart(struct state *v)
{
	float *X = update(v, 1, v->Q, v->X, v->l, 0, v->X, 0);

	memcpy(v->X, X, v->s * v->l * sizeof *X);
	gram(v, v->R);
	identity(v->Q, v->s);
}

static void gram_form(struct state *v, const float abc[3])
{
	size_t n = v->s * v->s;
	bool naive = v->z->algorithm == GRAM_NAIVE;
	float a = naive ? 0 : own_term(v, abc[0]);

	if (v->z->algorithm == GRAM && v->z->restarts >> v->t & 1) restart(v);
	float *Z = polynomial(v, v->R, abc, naive ? own_term(v, abc[0]) : 0);
	float *Q = symmetric(v, 1, v->Q, Z, a, v->Q, 0), *RZ = symmetric(v, 1, v->R, Z, a, v->R, 0), *R = symmetric(v, 1, Z, RZ, a, RZ, 0);
	memcpy(v->Q, Q, n * sizeof *Q);
	memcpy(v->R, R, n * sizeof *R);
}

float schulz_norm(const struct schulz *z, const float *X, size_t s, size_t l)
{
	float *x = floats_of(X, s * l), sum = 0;

	if (z->o->cast_first) round_all(z->o->iterate, x, s * l);
	if (!z->o->by_rows) sum = squares(z->o->order, x, s * l);
	for (size_t i = 0; z->o->by_rows && i < s; i++) sum += squares(z->o->order, x + i * l, l);
	return z->fault == NORM_SQUARED ? sum : sqrtf(sum);
}

static void normalise(const struct schulz *z, float *X, size_t n, float norm)
{
	float by = z->o->largest ? fmaxf(norm, z->eps) : norm + z->eps;

	if (z->o->cast_first) round_all(z->o->iterate, X, n);
	for (size_t i = 0; i < n; i++) X[i] = rounded(z->o->iterate, z->o->reciprocal ? X[i] * (1 / by) : X[i] / by);
}

void schulz_run(const struct schulz *z, float *X, size_t s, size_t l, float norm)
{
	struct state v = { z, s, l, 0, X, floats(s * s), floats(s * s), floats(s * s) };
	size_t K = z->fault == ONE_TOO_FEW ? z->K - 1 : z->K;

	normalise(z, X, s * l, norm);
	identity(v.Q, s);
	if (z->algorithm != STANDARD) gram(&v, v.R);
	for (size_t mark = floats_mark(); v.t < K; v.t++, floats_release(mark)) {
		float abc[3];
		coefficients(&v, abc);
		(z->algorithm == STANDARD ? standard : gram_form)(&v, abc);
	}
	if (z->algorithm != STANDARD) memcpy(X, update(&v, 1, v.Q, X, l, 0, X, 0), s * l * sizeof *X);
}

struct schulz schulz_of(const struct capture *c, const struct iteration_options *o, int fault)
{
	const char *name = capture_string(c, "algorithm", "");
	const json_t *list = json_object_get(c->params, "coefficients"), *restarts = json_object_get(c->params, "restarts");
	struct schulz z = { .o = o, .fault = fault,
		.algorithm = !strcmp(name, "gram") ? GRAM : !strcmp(name, "standard") ? STANDARD : GRAM_NAIVE,
		.K = json_array_size(list), .eps = (float)capture_number(c, "eps", 1e-7) };

	for (size_t t = 0; t < z.K; t++)
		for (size_t i = 0; i < 3; i++) z.abc[t][i] = (float)json_number_value(json_array_get(json_array_get(list, t), i));
	for (size_t i = 0; i < json_array_size(restarts); i++)
		z.restarts |= UINT64_C(1) << json_integer_value(json_array_get(restarts, i));
	if (!restarts && z.K > 2) z.restarts = 4;
	return z;
}

/* ---- freedoms ---- */

#define YOU "[4.0848, -6.8946, 2.927], [3.9505, -6.3029, 2.6377], [3.7418, -5.5913, 2.3037], " \
	"[2.8769, -3.1427, 1.2046], [2.8366, -3.0525, 1.2012]"
#define QUINTIC "[1.875, -1.25, 0.375]"
#define TRIPLE "[3.4445, -4.775, 2.0315]"

void schulz_params(char *text, size_t size, struct dice *d, const struct iteration_options *o, enum schulz_want want)
{
	static const char *const list[] = { YOU, QUINTIC ", " QUINTIC ", " QUINTIC ", " QUINTIC, TRIPLE ", " TRIPLE ", " TRIPLE };
	size_t kind = want == MILD_STANDARD ? 0 : pick(d, 4), which = want == VARIED_LIST ? 0 : want == ANY_LIST ? pick(d, 3) : 1;

	say(text, size, "\"algorithm\": \"%s\", \"coefficients\": [%s], \"iterate_dtype\": \"%s\"",
		(const char *[]){ "standard", "standard", "gram", "gram_naive" }[kind],
		list[which], o->iterate == BF16 ? "BF16" : o->iterate == F16 ? "F16" : "F32");
	if (kind == 2 && chance(d, 50)) say(text, size, ", \"restarts\": [%d]", chance(d, 50) ? 1 : 2);
}

void schulz_draw(struct iteration_options *o, struct dice *d, enum number iterate)
{
	*o = (struct iteration_options){ .iterate = iterate, .cast_first = iterate != F32 && chance(d, 50) };
	o->largest = chance(d, 40), o->fused = chance(d, 60), o->scaled_before = chance(d, 25), o->mirrored = chance(d, 40);
	o->by_rows = chance(d, 50), o->reciprocal = chance(d, 30);
	o->order = (enum order)pick(d, ORDERS);
}

void schulz_say(const struct iteration_options *o, char *text, size_t size)
{
	say(text, size, "iterates %s%s; x %s; %s; %s%s; sums %s", number_name[o->iterate],
		o->cast_first ? ", cast before the norm" : "",
		o->largest ? "/ max(norm, eps)" : "/ (norm + eps)",
		o->fused ? "a X + B X rounded once" : "each product, multiple and sum rounded",
		o->scaled_before ? "(c A) A" : "c (A A)", o->mirrored ? ", mirrored" : "", order_name[o->order]);
}
