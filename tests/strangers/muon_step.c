/* muon_step: V <- mu V + G; U = G + mu V or V; W <- W - lr wd W - lr s O(U), a block of rows at a time. */
#include <string.h>

#include "schulz.h"

enum {
	MOMENTUM_OF_SUM = SCHULZ_FAULTS, BUFFER_DECAYS, LOWER_HALF_ADDED, DECAY_BY_DIVISION, BLOCKS_A_ROW_EARLY, FIFTH_MISSING,
	UPDATE_FOR_BUFFER
};
#define AT(fault) [(fault) - SCHULZ_FAULTS]
static const struct flaw flaws[] = {
	AT(MOMENTUM_OF_SUM) = { "V <- mu (V + G)", DRAWN, NULL, NULL },
	AT(BUFFER_DECAYS) = { "the buffer decays as the weight does", SIMPLE, "f32", NULL },
	AT(LOWER_HALF_ADDED) = { "the step is added to the lower half of the rows", DRAWN, NULL, NULL },
	AT(DECAY_BY_DIVISION) = { "W / (1 + lr wd) for W (1 - lr wd)", SIMPLE, "f32", NULL },
	AT(BLOCKS_A_ROW_EARLY) = { "the first block of rows is one too short, the next one longer", SIMPLE, NULL, NULL },
	AT(FIFTH_MISSING) = { "sqrt(max(n,m)) without its 0.2", DRAWN, NULL, NULL },
	AT(UPDATE_FOR_BUFFER) = { "U is handed on for V", SIMPLE, NULL, NULL },
	{ 0 }
};

struct step {
	const struct point *p;
	struct schulz z;
	size_t N, M;
	float lr, mu, wd;
	bool nesterov, spectral;
	const float *W, *G, *V;
	float *w, *v;
};

static int fault_of(const struct step *k) { return k->p->fault ? k->p->fault + SCHULZ_FAULTS - 1 : 0; }

/* V and U of element i. */
static float momentum(const struct step *k, size_t i)
{
	float keep = fault_of(k) == BUFFER_DECAYS ? 1 - k->lr * k->wd : 1, v = k->mu * k->V[i] * keep + k->G[i];

	if (fault_of(k) == MOMENTUM_OF_SUM) v = k->mu * (k->V[i] + k->G[i]);
	float u = k->nesterov ? k->G[i] + k->mu * v : v;
	k->v[i] = fault_of(k) == UPDATE_FOR_BUFFER ? u : v;
	return u;
}

/* s = 0.2 sqrt(max(n,m)) or sqrt(max(1,n/m)) */
static float scale(const struct step *k, size_t n)
{
	float rows = (float)n, cols = (float)k->M;

	if (k->spectral) return sqrtf(fmaxf(1, rows / cols));
	return (fault_of(k) == FIFTH_MISSING ? 1 : 0.2f) * sqrtf(fmaxf(rows, cols));
}

static void block(const struct step *k, size_t first, size_t n, size_t rows)
{
	size_t M = k->M, mark = floats_mark();
	bool tall = n > M;
	float *X = floats(n * M), s = scale(k, rows);

	for (size_t i = 0; i < n * M; i++) X[tall ? i % M * n + i / M : i] = momentum(k, first * M + i);
	schulz_run(&k->z, X, tall ? M : n, tall ? n : M, schulz_norm(&k->z, X, tall ? M : n, tall ? n : M));
	for (size_t i = 0; i < n * M; i++) {
		float w = k->W[first * M + i], o = X[tall ? i % M * n + i / M : i], by = k->lr * s;
		if (fault_of(k) == LOWER_HALF_ADDED && (first + i / M) * 2 >= k->N) by = -by;
		w = fault_of(k) == DECAY_BY_DIVISION ? w / (1 + k->lr * k->wd) : w * (1 - k->lr * k->wd);
		k->w[first * M + i] = w - by * o;
	}
	floats_release(mark);
}

static void run(const struct point *p, struct capture *c)
{
	const json_t *split = json_object_get(c->params, "split");
	struct step k = { p, schulz_of(c, &p->o.ns, 0), dim_of(c, "weight", 0), dim_of(c, "weight", 1),
		(float)capture_number(c, "lr", 0),
		(float)capture_number(c, "momentum", 0), (float)capture_number(c, "weight_decay", 0),
		capture_bool(c, "nesterov", true),
		capture_string(c, "scale", "")[0] == 's', input(c, "weight"), input(c, "grad"), input(c, "momentum"), NULL,
		NULL };
	size_t first = 0, blocks = json_array_size(split);

	k.w = floats(k.N * k.M), k.v = floats(k.N * k.M);
	for (size_t b = 0; b < blocks; b++) {
		size_t n = (size_t)json_integer_value(json_array_get(split, b)), rows = n;
		if (fault_of(&k) == BLOCKS_A_ROW_EARLY) rows = b == 0 ? n - 1 : b == 1 ? n + 1 : n;
		block(&k, first, rows, n);
		first += rows;
	}
	if (!blocks) block(&k, 0, k.N, k.N);
	output(c, "weight", k.w);
	output(c, "momentum", k.v);
}

static void draw_case(struct point *p, struct dice *d)
{
	struct made *m = &p->made;
	size_t N = 4 * between(d, 6, 14), M = between(d, 20, 56);
	bool split = p->fault + SCHULZ_FAULTS - 1 == BLOCKS_A_ROW_EARLY,
		spectral = p->fault + SCHULZ_FAULTS - 1 != FIFTH_MISSING && chance(d, 50);
	char text[400] = "";

	*m = (struct made){ .note = "" };
	schulz_params(text, sizeof text, d, &p->o.ns, ANY_LIST);
	if (split) say(text, sizeof text, ", \"split\": [%zu, %zu, %zu]", N / 2, N / 4, N / 4);
	made_params(m, "{%s, \"lr\": 0.05, \"momentum\": 0.9, \"weight_decay\": 0.2, \"scale\": \"%s\", \"nesterov\": %s}", text,
		spectral ? "sqrt(max(1,n/m))" : "0.2*sqrt(max(n,m))", chance(d, 70) || p->fault ? "true" : "false");
	made_dim(m, "N", N);
	made_dim(m, "M", M);
	made_in(m, "weight", "N,M", DT_F32, DRAW_NORMAL, 0, 0.05);
	made_in(m, "grad", "N,M", DT_F32, DRAW_NORMAL, 0, 2e-3);
	made_in(m, "momentum", "N,M", DT_F32, DRAW_NORMAL, 0, 4e-3);
	made_out(m, "weight", "N,M", DT_F32);
	made_out(m, "momentum", "N,M", DT_F32);
}

static void draw(struct point *p, struct dice *d)
{
	size_t kind = p->number > 0 ? (size_t)p->number % 3 : pick(d, 3);

	schulz_draw(&p->o.ns, d, (enum number[]){ F32, F16, BF16 }[kind]);
	p->class = (const char *[]){ "f32", "iterates in f16", "iterates in bf16" }[kind];
	draw_case(p, d);
}

static void simple(struct point *p) { p->o.ns = (struct iteration_options){ .fused = true }; }
static void exact(struct point *p) { p->o.ns.iterate = F32; }
static void suit(struct point *p) { draw_case(p, &(struct dice){ p->seed ^ 1 }); }
static void say_options(const struct point *p, char *text, size_t size) { schulz_say(&p->o.ns, text, size); }

static const char *const f32[] = { "f32", "lower_f32", NULL };
const struct family muon_family = {
	.op = "muon_step", .f32 = f32, .points = 6, .small = 1, .flaws = flaws, .draw = draw, .simple = simple, .suit = suit,
	.exact = exact,
	.say = say_options, .run = run
};
