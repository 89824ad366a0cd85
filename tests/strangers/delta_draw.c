/* Structures and cases of the gated delta rule. */
#include <string.h>

#include "delta.h"

/* Not the kernel's, but a switch of its case's. */
enum want { GATED = 1, RAW_GATE = 2, FROM_B = 4, STATE = 8, TWO_BY_TWO = 16, NORMED = 32, LONG = 64, KEYS_ALIKE = 128 };

static enum place either(struct dice *d, int operand) { return chance(d, operand) ? ON_OPERAND : ON_RESULT; }

/* A result: mostly kept in float32. */
static enum number result(struct dice *d, int bf16, int f16)
{
	size_t x = pick(d, 100);

	return x < (size_t)bf16 ? BF16 : x < (size_t)(bf16 + f16) ? F16 : F32;
}

static enum number wide_operand(struct dice *d, int f32)
{
	return chance(d, f32) ? F32 : (enum number[]){ TF32, TF32_CUT, TF32_CUT, F16 }[pick(d, 4)];
}

static void draw_roundings(struct delta *o, struct dice *d)
{
	enum number type = (enum number[]){ BF16, F16, TF32, TF32_CUT }[chance(d, 82) ? 0 : 1 + pick(d, 3)];

	for (int i = 0; i < DELTA_RESULTS; i++) o->at[i] = chance(d, 12) ? (enum number)pick(d, NUMBERS) : type;
	o->at[Q_LOADED] = o->q_norm == ON_LOAD || o->scale == ON_LOAD ? result(d, 50, 5) : F32;
	o->at[K_LOADED] = o->k_norm == ON_LOAD ? result(d, 55, 5) : F32;
	o->at[A_GIVEN] = wide_operand(d, 85);
	o->at[T_STORED] = result(d, 30, 15);
	o->at[U_GIVEN] = result(d, 40, 5);
	o->at[SUBTRAHEND] = result(d, 25, 5);
	o->at[N_GIVEN] = result(d, 25, 5);
	o->at[SCORES] = result(d, 20, 3);
	o->at[QS_GIVEN] = result(d, 8, 2);
}

void delta_options(struct delta *o, struct dice *d)
{
	*o = (struct delta){ .chunk = ONE_OF(d, 16, 32, 64, 64, 64, 128, 256) };
	o->after = chance(d, 40), o->wy = chance(d, 45);
	o->q_norm = (enum place[]){ ON_LOAD, ON_LOAD, ON_RESULT, AT_END }[pick(d, 4)];
	o->scale = (enum place[]){ ON_LOAD, ON_RESULT, AT_END }[pick(d, 3)];
	o->k_norm = chance(d, 60) ? ON_LOAD : ON_RESULT;
	o->k_gram = either(d, 40), o->k_state = either(d, 40), o->k_scores = either(d, 40), o->k_update = either(d, 40);
	o->beta_gram = either(d, 35), o->beta_v = either(d, 50), o->beta_k = either(d, 50);
	o->decay_k = either(d, 50), o->decay_q = either(d, 35), o->decay_end = either(d, 35);
	o->again = chance(d, 25);
	draw_roundings(o, d);
	o->inverse.base = ONE_OF(d, 8, 16, 16, 32);
	o->inverse.columns = chance(d, 40), o->inverse.split = chance(d, 30);
	o->inverse.operand = wide_operand(d, 30);
	o->inverse.below = chance(d, 60) ? o->inverse.operand : wide_operand(d, 50);
	o->inverse.store = chance(d, 80) ? F32 : F16;
	o->unit = (enum base_of)pick(d, 4), o->warp_scan = chance(d, 40);
	o->more_o = chance(d, 50), o->more_S = chance(d, 70);
	o->gram = (enum order)pick(d, ORDERS), o->state = (enum order)pick(d, ORDERS), o->merge = (enum order)pick(d, ORDERS);
}

static void exact(struct point *p)
{
	struct delta *o = &p->o.delta;

	for (int i = 0; i < DELTA_SITES; i++) o->at[i] = F32;
	o->inverse.operand = o->inverse.below = o->inverse.store = F32;
}

static void tokens(struct delta *o, struct dice *d)
{
	*o = (struct delta){ .q_norm = chance(d, 60) ? ON_LOAD : AT_END };
	o->k_norm = chance(d, 60) ? ON_LOAD : ON_RESULT;
	o->scale = chance(d, 50) ? ON_LOAD : AT_END;
	o->decay_k = chance(d, 50) ? ON_LOAD : ON_RESULT;
	o->unit = chance(d, 50) ? NATURAL : LOG2_LATE;
	o->gram = (enum order)pick(d, ORDERS), o->state = (enum order)pick(d, ORDERS);
}

/* As far as their outputs tell: design.md's table, and what a search found in captures of them. */
void delta_known(struct delta *o, int which)
{
	static const char *const name[] = { "FLA", "FlashQLA", "FlashInfer" };

	*o = (struct delta){ .known = name[which], .chunk = 64, .wy = which == FLA, .after = which == FLASHQLA, .more_S = true,
		.scale = which == FLA ? AT_END : ON_RESULT, .beta_gram = ON_RESULT,
		.beta_v = which == FLA ? ON_OPERAND : ON_RESULT,
		.beta_k = ON_OPERAND, .decay_k = which == FLA ? ON_OPERAND : ON_RESULT, .decay_q = ON_RESULT,
		.decay_end = ON_RESULT,
		.again = which == FLASHINFER, .unit = (enum base_of[]){ LOG2_AFTER, LOG2_LATE, LOG2_FIRST }[which],
		.warp_scan = which == FLASHQLA,
		.inverse = { .base = which == FLASHINFER ? 8 : 16, .columns = which == FLA, .split = which == FLASHINFER,
			.operand = which == FLASHINFER ? F16 : TF32_CUT, .below = (enum number[]){ TF32_CUT, F32, F16 }[which],
			.store = which == FLASHINFER ? F16 : F32 },
		.gram = BLOCKS, .state = BLOCKS, .merge = BLOCKS };
	for (int i = 0; i < DELTA_RESULTS; i++) o->at[i] = BF16;
	o->at[Q_LOADED] = o->at[K_LOADED] = BF16;
	if (which == FLA) o->at[U_GIVEN] = o->at[T_STORED] = BF16;
	if (which == FLASHQLA) o->at[T_STORED] = BF16;
	if (which == FLASHINFER) o->at[SUBTRAHEND] = o->at[N_GIVEN] = BF16;
}

static void known(struct point *p) { delta_known(&p->o.delta, FLA); }
static void simple(struct point *p) { p->o.delta = (struct delta){ .chunk = 0 }; }

/* ---- cases ---- */

static void draw_gates(struct made *m, struct dice *d, int wants, enum dtype type, bool gated)
{
	double low = (double[]){ 0.001, 0.05, 0.05, 0.2 }[pick(d, 4)], high = (double[]){ 0.1, 2, 16, 8 }[pick(d, 4)],
		bias = -1 - (double)pick(d, 5);
	bool given = gated && !(wants & RAW_GATE) && chance(d, 35), beta = !(wants & FROM_B) && chance(d, given ? 80 : 10);
	bool slow = wants & KEYS_ALIKE;
	double least = (double[]){ -0.02, -0.1, -0.5, -2 }[pick(d, 4)];

	if (wants)
		low = slow ? 0.01 : 0.2, high = slow ? 0.1 : 1.5, bias = -1.5, least = slow ? -0.01 : -0.3;
	if (given) made_in(m, "g", "T,Hv", DT_F32, DRAW_UNIFORM, least, 0);
	else if (gated) {
		made_in(m, "a", "T,Hv", type, DRAW_NORMAL, 0, 1);
		made_in(m, "A_log", "Hv", DT_F32, DRAW_LOG_UNIFORM, low, high);
		made_in(m, "dt_bias", "Hv", DT_F32, DRAW_NORMAL, bias, 1);
	}
	if (beta) made_in(m, "beta", "T,Hv", DT_F32, DRAW_UNIFORM, 0, 1);
	else made_in(m, "b", "T,Hv", type, DRAW_NORMAL, 0, 1);
	m->note = !gated ? "no decay" : given ? "g given" : "";
}

static void draw_sizes(struct made *m, struct dice *d, const struct delta *o, int wants)
{
	bool wide = !wants && chance(d, 6), far = !wants && o->chunk == 256 && chance(d, 50);
	size_t Hk = wide || far ? 1 : between(d, 1, 2), ratio = between(d, 1, 2),
		T = wide ? between(d, 40, 80) : far ? between(d, 260, 330) : between(d, 40, 200);
	size_t Dk = wide ? 128 : far ? ONE_OF(d, 16, 32) : ONE_OF(d, 16, 24, 32, 48, 64),
		Dv = wide ? 128 : far ? 16 : ONE_OF(d, 16, 24, 32, 48, 64);

	if (wants & TWO_BY_TWO) Hk = ratio = 2;
	if (wants & LONG) T = between(d, 130, 150), Hk = 1;
	if (wants && Dk > 24) Dk = 24;
	if ((wants || Hk * ratio == 4) && Dv > 24) Dv = 24;
	made_dim(m, "T", T);
	made_dim(m, "N", !wants && chance(d, 20) ? between(d, 2, 3) : 1);
	made_dim(m, "Hk", Hk);
	made_dim(m, "Hv", Hk * ratio);
	made_dim(m, "Dk", wants & KEYS_ALIKE ? 32 : Dk);
	made_dim(m, "Dv", Dv);
}

static void draw_case(struct point *p, struct dice *d, int wants, bool narrow)
{
	struct made *m = &p->made;
	enum dtype type = narrow || chance(d, 60) ? DT_BF16 : DT_F32;

	*m = (struct made){ .note = "" };
	draw_sizes(m, d, &p->o.delta, wants);
	bool normed = wants & NORMED || chance(d, 75), gated = wants & GATED || chance(d, 90);
	double size = normed ? 1 : 1 / sqrt((double)made_size(m, "Dk"));
	made_params(m, "{\"qk_l2norm\": %s, \"gated\": %s}", normed ? "true" : "false", gated ? "true" : "false");
	made_in(m, "q", "T,Hk,Dk", type, DRAW_NORMAL, 0, size);
	made_in(m, "k", "T,Hk,Dk", type, DRAW_NORMAL, wants & KEYS_ALIKE ? (p->fault == SHORT_SERIES ? 0.4 : 0.7) * size : 0,
		size);
	made_in(m, "v", "T,Hv,Dv", type, DRAW_NORMAL, 0, 1);
	draw_gates(m, d, wants, type, gated);
	if (wants & STATE || chance(d, 60)) made_in(m, "initial_state", "N,Hv,Dk,Dv", DT_F32, DRAW_NORMAL, 0, 0.3);
	if (made_size(m, "N") > 1) made_sequences(m, "cu_seqlens", d, made_size(m, "T"), made_size(m, "N"));
	made_out(m, "o", "T,Hv,Dv", chance(d, 70) ? DT_BF16 : DT_F32);
	made_out(m, "final_state", "N,Hv,Dk,Dv", DT_F32);
}

enum { OF_KNOWN = 2, OF_TOKENS = 12, OF_F32 = 12 };     /* points of these classes; the others are drawn */

static void draw(struct point *p, struct dice *d)
{
	int n = p->number - 1;

	p->class = "in chunks, drawn";
	delta_options(&p->o.delta, d);
	if (n >= 0 && n < OF_KNOWN * KNOWN_KERNELS) {
		delta_known(&p->o.delta, n / OF_KNOWN);
		p->class = p->o.delta.known;
	} else if (n >= 0 && (n -= OF_KNOWN * KNOWN_KERNELS) < OF_TOKENS) {
		tokens(&p->o.delta, d);
		p->class = "token by token, f32";
	} else if (n >= 0 && (n -= OF_TOKENS) < OF_F32) {
		exact(p);
		p->class = "in chunks, f32";
	}
	draw_case(p, d, 0, p->o.delta.chunk && strcmp(p->class, "in chunks, f32") != 0);
}

/* ---- faults ---- */

const struct flaw delta_flaws[] = {
	[MASK_A_TOKEN_LATE - 1] = { "scores decay from the token before the query's", DRAWN, NULL, NULL },
	[BETA_OF_COLUMN - 1] = { "the Gram matrix takes the column's beta for the row's", DRAWN, NULL, NULL },
	[SHORT_SERIES - 1] = { "blocks are inverted as I - A + A² - A³", DRAWN, NULL, NULL },
	[NEIGHBOURS_ONLY - 1] = { "blocks of the inverse merge with their neighbours only", KNOWN, "bf16_operands", NULL },
	[OWN_DECAY_TWICE - 1] = { "on its way into the state a token's value decays by the token's own decay too", DRAWN, NULL, NULL },
	[STATE_A_CHUNK_OLD - 1] = { "retrieval reads the state of a chunk before", KNOWN, "bf16_operands", NULL },
	[NATURAL_END - 1] = { "the state decays by e^G, G in units of ln 2", DRAWN, NULL, NULL },
	[NO_DECAY_IN_TILE - 1] = { "from the second tile of 8 values on the state is read without its decay", DRAWN, NULL, NULL },
	[SCALED_TWICE_FROM_STATE - 1] = { "what is read from the state is scaled twice", DRAWN, NULL, NULL },
	[KEY_BY_QUERY_NORM - 1] = { "k is divided by q's norm", SIMPLE, NULL, NULL },
	[FIRST_HEADS_STATE - 1] = { "each head starts from the first head's state", SIMPLE, "f32", NULL },
	[HARD_SIGMOID - 1] = { "beta = clamp(b/6 + 1/2)", SIMPLE, "f32", NULL },
	[RATE_NOT_EXPONENT - 1] = { "|A_log| for exp(A_log)", SIMPLE, NULL, NULL },
	[GATES_TILED - 1] = { "value heads' gates in the order of tiled heads", SIMPLE, NULL, NULL },
	[ROW_OF_INVERSE_EARLY - 1] = { "each eighth row of the inverse is the row after it", DRAWN, NULL, NULL },
	{ 0 }
};

void delta_suit(struct point *p)
{
	static const int wants[] = {
		[MASK_A_TOKEN_LATE] = GATED | LONG, [BETA_OF_COLUMN] = GATED | LONG, [SHORT_SERIES] = LONG | KEYS_ALIKE,
		[NEIGHBOURS_ONLY] = LONG | KEYS_ALIKE | NORMED,
		[OWN_DECAY_TWICE] = GATED | LONG, [STATE_A_CHUNK_OLD] = GATED | LONG | NORMED,
		[NATURAL_END] = GATED | LONG | STATE, [NO_DECAY_IN_TILE] = GATED | LONG | STATE,
		[SCALED_TWICE_FROM_STATE] = LONG | STATE, [KEY_BY_QUERY_NORM] = NORMED | LONG,
		[FIRST_HEADS_STATE] = STATE | TWO_BY_TWO, [HARD_SIGMOID] = FROM_B | LONG,
		[RATE_NOT_EXPONENT] = GATED | RAW_GATE | LONG, [GATES_TILED] = GATED | RAW_GATE | FROM_B | TWO_BY_TWO,
		[ROW_OF_INVERSE_EARLY] = LONG
	};
	struct delta *o = &p->o.delta;

	if (o->chunk > 64) o->chunk = 64;
	if (p->fault == SHORT_SERIES && o->inverse.base < 16) o->inverse.base = 16;
	if (p->fault == SHORT_SERIES && o->chunk < 32) o->chunk = 32;
	if (p->fault == NATURAL_END && (o->unit == NATURAL || o->unit == LOG2_LATE)) o->unit = LOG2_AFTER;
	if (p->fault == NO_DECAY_IN_TILE) o->decay_q = ON_RESULT;
	draw_case(p, &(struct dice){ p->seed ^ 1 }, wants[p->fault], o->chunk > 0);
}

static const char *const f32[] = { "chunk_f32", "f32", NULL };
const struct family delta_family = {
	.op = "gated_delta_rule", .f32 = f32, .points = 120, .small = 3, .flaws = delta_flaws, .draw = draw, .simple = simple,
	.known = known,
	.suit = delta_suit, .exact = exact, .say = delta_say, .run = delta_run
};
