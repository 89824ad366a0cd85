/* newton_schulz, free-running: y orthogonalises x, on the transpose where it is tall. */
#include "schulz.h"

static const struct flaw flaws[] = {
	[B_AND_C_SWAPPED - 1] = { "b and c are swapped", DRAWN, NULL, NULL },
	[COEFFICIENTS_EARLY - 1] = { "each iteration takes the next one's coefficients", SIMPLE, "f32", "coefficients_late" },
	[NOT_TURNED_BACK - 1] = { "a tall matrix is not turned back", DRAWN, NULL, NULL },
	[NO_OWN_TERM_ONCE - 1] = { "the second iteration leaves a X out", DRAWN, NULL, NULL },
	[NORM_SQUARED - 1] = { "x is divided by the square of its norm", SIMPLE, "f32", NULL },
	[ELEMENTWISE_SQUARE - 1] = { "A∘A for A²", SIMPLE, "lower_f32", NULL },
	[STALE_ROWS - 1] = { "the last 8 rows of XX' are those of the iteration before", DRAWN, NULL, NULL },
	[NORM_OF_FIRST - 1] = { "all matrices of a batch are divided by the first one's norm", SIMPLE, "f32", NULL },
	[ONE_TOO_FEW - 1] = { "the last iteration is not made", DRAWN, NULL, "iterations_wrong" },
	{ 0 }
};

static void run(const struct point *p, struct capture *c)
{
	const struct tensor *t = capture_in(c, "x");
	size_t B = t->rank == 3 ? t->shape[0] : 1, N = t->shape[t->rank - 2], M = t->shape[t->rank - 1], s = N < M ? N : M,
		l = N < M ? M : N;
	struct schulz z = schulz_of(c, &p->o.ns, p->fault);
	const float *x = input(c, "x");
	float *y = floats(B * N * M), *X = floats(N * M), norm = 0;

	for (size_t b = 0; b < B; b++) {
		for (size_t i = 0; i < N * M; i++) X[N > M ? i % M * N + i / M : i] = x[b * N * M + i];
		if (b == 0 || p->fault != NORM_OF_FIRST) norm = schulz_norm(&z, X, s, l);
		schulz_run(&z, X, s, l, norm);
		for (size_t i = 0; i < N * M; i++)
			y[b * N * M + i] = X[N > M && p->fault != NOT_TURNED_BACK ? i % M * N + i / M : i];
	}
	output(c, "y", y);
}

static void draw_case(struct point *p, struct dice *d)
{
	struct made *m = &p->made;
	int f = p->fault;
	bool tall = f == NOT_TURNED_BACK || chance(d, 30), batch = f == NORM_OF_FIRST || chance(d, 15);
	size_t s = between(d, 12, 40), l = s + between(d, f == NOT_TURNED_BACK ? 4 : 0, 48);
	const char *shape = batch ? "B,N,M" : "N,M";
	enum dtype type = p->o.ns.iterate == F32 || chance(d, 50) ? DT_F32 : p->o.ns.iterate == F16 ? DT_F16 : DT_BF16;
	char text[400] = "";

	*m = (struct made){ .note = "" };
	schulz_params(text, sizeof text, d, &p->o.ns, f == STALE_ROWS || f == NO_OWN_TERM_ONCE ? MILD_STANDARD
		: f == COEFFICIENTS_EARLY ? VARIED_LIST : f ? MILD_LIST : ANY_LIST);
	made_params(m, "{%s}", text);
	if (batch) made_dim(m, "B", 3);
	made_dim(m, "N", tall ? l : s);
	made_dim(m, "M", tall ? s : l);
	made_in(m, "x", shape, type, DRAW_NORMAL, 0, chance(d, 50) ? 1 : 0.02);
	made_out(m, "y", shape, type);
}

static void draw(struct point *p, struct dice *d)
{
	size_t kind = p->number > 0 ? (size_t)p->number % 3 : pick(d, 3);

	schulz_draw(&p->o.ns, d, (enum number[]){ F32, F16, BF16 }[kind]);
	p->class = (const char *[]){ "f32", "iterates in f16", "iterates in bf16" }[kind];
	draw_case(p, d);
}

static void simple(struct point *p) { p->o.ns = (struct iteration_options){ .fused = true }; }

static void exact(struct point *p)
{
	p->o.ns.iterate = F32;
}

static void suit(struct point *p) { draw_case(p, &(struct dice){ p->seed ^ 1 }); }
static void say_options(const struct point *p, char *text, size_t size) { schulz_say(&p->o.ns, text, size); }

static const char *const f32[] = { "f32", "lower_f32", NULL };
const struct family newton_schulz_family = {
	.op = "newton_schulz", .f32 = f32, .points = 28, .small = 2, .flaws = flaws, .draw = draw, .simple = simple, .suit = suit,
	.exact = exact,
	.say = say_options, .run = run
};
