/* Kernels of ssd and kda in structures that no table has: correct ones must pass and be given no name, under the
 * contract that they fulfil; ones with a fault that no table has must fail. make strangers has more, of other ops. */
#include "own_capture.h"

/* ---- ssd: in chunks, decays in base 2 ---- */

enum { ST = 75, SH = 2, SP = 8, SM = 16 };
struct ssd { enum number operands; size_t chunk; int d_on; bool gated; int fault; };    /* d on: 0 x, 1 B, 2 scores */
enum { TOKEN_41_TWICE = 1, SKIP_OF_NEXT_HEAD, TAIL_DECAY_SHORT, CHANNEL_5_UNGATED, STATE_ROW_LATE };

static void ssd_head(const struct ssd *s, size_t h, const float *x, const float *dt, float A, float D, const float *B, const float *C,
	const float *z, float *S, float *y)
{
	float a2 = A * log2e;

	for (size_t first = 0; first < ST; first += s->chunk) {
		size_t n = first + s->chunk < ST ? s->chunk : ST - first;
		float G[128], sum = 0, d[128];
		for (size_t i = 0; i < n; i++) {
			float raw = dt[(first + i) * SH + h];
			d[i] = raw > 20 ? raw : log1pf(expf(raw));
			sum += a2 * d[i], G[i] = sum;
			if (s->fault == TOKEN_41_TWICE && first + i == 41) d[i] += d[i];
		}
		for (size_t i = 0; i < n; i++)
			for (size_t p = 0; p < SP; p++) {
				float r = 0, inner = 0;
				for (size_t m = 0; m < SM; m++)
					inner = fmaf(rounded(s->operands, S[p * SM + m]), rounded(s->operands, C[(first + i) * SM + m]), inner);
				for (size_t j = 0; j <= i; j++) {
					float score = 0, X = x[((first + j) * SH + h) * SP + p];
					for (size_t m = 0; m < SM; m++)
						score = fmaf(rounded(s->operands, C[(first + i) * SM + m]), rounded(s->operands, B[(first + j) * SM + m]), score);
					score *= exp2f(G[i] - G[j]);
					if (s->d_on == 0) X = d[j] * X;
					else score *= d[j];
					r = fmaf(rounded(s->operands, score), rounded(s->operands, X), r);
				}
				r += exp2f(G[i]) * inner;
				size_t at = ((first + i) * SH + h) * SP + p;
				r = fmaf(D, x[at], r);
				if (s->gated && !(s->fault == CHANNEL_5_UNGATED && p == 5)) r *= z[at] / (1 + exp2f(-z[at] * log2e));
				y[at] = r;
			}
		float end = s->fault == TAIL_DECAY_SHORT && n < s->chunk && n > 1 ? G[n - 2] : G[n - 1];
		for (size_t p = 0; p < SP; p++)
			for (size_t m = 0; m < SM; m++) {
				float add = 0;
				for (size_t j = 0; j < n; j++) {
					float w = exp2f(end - G[j]) * d[j], X = x[((first + j) * SH + h) * SP + p], b = B[(first + j) * SM + m];
					if (s->fault == STATE_ROW_LATE && p == 3 && j + 1 == n) continue;
					add = s->d_on == 0 ? fmaf(rounded(s->operands, w * X), rounded(s->operands, b), add)
						: fmaf(rounded(s->operands, X), rounded(s->operands, w * b), add);
				}
				S[p * SM + m] = exp2f(end) * S[p * SM + m] + add;
			}
	}
}

static void ssd(const struct ssd *s, const char *contract, int variant)
{
	static float x[ST * SH * SP], z[ST * SH * SP], y[ST * SH * SP], dt[ST * SH], B[ST * SM], C[ST * SM];
	static float S[SH * SP * SM], S0[SH * SP * SM];
	float A[SH] = { -1.5f, -6 }, D[SH] = { 0.7f, -0.4f };
	struct capture c;

	for (size_t i = 0; i < ST * SH * SP; i++) x[i] = in_type(DT_BF16, normal(1)), z[i] = in_type(DT_BF16, normal(1));
	for (size_t i = 0; i < ST * SH; i++) dt[i] = in_type(DT_BF16, normal(1) - 3);
	for (size_t i = 0; i < ST * SM; i++) B[i] = in_type(DT_BF16, normal(1)), C[i] = in_type(DT_BF16, normal(1));
	for (size_t i = 0; i < SH * SP * SM; i++) S0[i] = S[i] = normal(0.3f);
	for (size_t h = 0; h < SH; h++)
		ssd_head(s, h, x, dt, A[h], D[s->fault == SKIP_OF_NEXT_HEAD ? 1 - h : h], B, C, z, S + h * SP * SM, y);
	begin(&c, "ssd", "{\"dt_softplus\": true}");
	put(&c, "in.x", DT_BF16, SHAPE(ST, SH, SP), x);
	put(&c, "in.dt", DT_BF16, SHAPE(ST, SH), dt);
	put(&c, "in.A", DT_F32, SHAPE(SH), A);
	put(&c, "in.D", DT_F32, SHAPE(SH), D);
	put(&c, "in.B", DT_BF16, SHAPE(ST, 1, SM), B);
	put(&c, "in.C", DT_BF16, SHAPE(ST, 1, SM), C);
	if (s->gated) put(&c, "in.z", DT_BF16, SHAPE(ST, SH, SP), z);
	put(&c, "in.initial_state", DT_F32, SHAPE(1, SH, SP, SM), S0);
	put(&c, "out.y", s->operands == FULL ? DT_F32 : DT_BF16, SHAPE(ST, SH, SP), y);
	put(&c, "out.final_state", DT_F32, SHAPE(1, SH, SP, SM), S);
	judged_as(&c, contract, !s->fault, variant % 8 != 0, "ssd", variant);
}

static void ssd_in_chunks(void **state)
{
	static const size_t chunks[] = { 16, 32, 75, 24 };

	(void)state;
	for (int i = 0; i < 16; i++) {
		struct ssd s = { (const enum number[]){ FULL, BF, TF32, HALF }[i % 4], chunks[i / 4], i % 3, i % 2, 0 };
		dice = 300 + (uint64_t)i;
		ssd(&s, s.operands == FULL ? "chunk_f32" : s.operands == TF32 ? "tf32_operands" : "bf16_operands", i);
	}
	for (int fault = 1; fault <= STATE_ROW_LATE; fault++)
		for (int i = 0; i < 2; i++) {
			struct ssd s = { i ? BF : FULL, 32, 0, true, fault };
			dice = 400 + (uint64_t)fault;
			ssd(&s, i ? "auto" : "chunk_f32", -fault);
		}
}

/* ---- kda: WY in chunks, decays in base 2, each exponent the difference itself or from the chunk's first row ---- */
/* A solve that stops 12 tokens back leaves out less than the noise of bf16 operands; 6 are more. */

enum { KT = 336, KD = 16, KV = 8 };
/* scanned: decays, as a block of threads adds them; strong: those of tokens 224 to before `weak` are so many times larger, and all others a tenth */
struct kda { enum number operands; size_t chunk; bool anchored; int fault; size_t tokens; bool scanned; float strong; size_t weak; };
enum { BETA_OF_TOKEN_BEFORE = 1, CHANNEL_3_NO_DECAY, DIAGONAL_DECAYED, SOLVE_STOPS_EARLY, SCALE_BY_DV };

static void kda_run(const struct kda *o, const float *q, const float *k, const float *v, const float *g, const float *beta, float *S,
	float *out)
{
	static float G[KT][KD], A[KT][KT], P[KT][KT], U[KT][KV], kn[KT][KD], qn[KT][KD];
	enum number r = o->operands;

	for (size_t first = 0; first < o->tokens; first += o->chunk) {
		size_t n = first + o->chunk < o->tokens ? o->chunk : o->tokens - first;
		for (size_t i = 0; i < n; i++) {
			float q2 = 1e-6f, k2 = 1e-6f;
			for (size_t d = 0; d < KD; d++) {
				size_t at = (first + i) * KD + d;
				q2 = fmaf(q[at], q[at], q2), k2 = fmaf(k[at], k[at], k2);
				float step = o->fault == CHANNEL_3_NO_DECAY && d == 3 ? 0 : g[at] * log2e;
				G[i][d] = (i && !o->scanned ? G[i - 1][d] : 0) + step;
			}
			for (size_t d = 0; d < KD; d++) {
				size_t at = (first + i) * KD + d;
				qn[i][d] = q[at] / sqrtf(q2) / sqrtf(o->fault == SCALE_BY_DV ? KV : KD), kn[i][d] = k[at] / sqrtf(k2);
			}
		}
		for (size_t apart = 1; apart < n && o->scanned; apart += apart)
			for (size_t i = n - 1; i >= apart; i--)
				for (size_t d = 0; d < KD; d++) G[i][d] += G[i - apart][d];
		for (size_t i = 0; i < n; i++)
			for (size_t j = 0; j <= i; j++) {
				float a = 0, p = 0;
				for (size_t d = 0; d < KD; d++) {
					float e = exp2f(G[i][d] - G[j][d]), left = exp2f(G[i][d] - G[0][d]), right = exp2f(G[0][d] - G[j][d]);
					if (o->anchored) {
						a = fmaf(rounded(r, kn[i][d] * left), rounded(r, kn[j][d] * right), a);
						p = fmaf(rounded(r, qn[i][d] * left), rounded(r, kn[j][d] * right), p);
					} else a = fmaf(kn[i][d] * e, kn[j][d], a), p = fmaf(qn[i][d] * e, kn[j][d], p);
				}
				A[i][j] = a, P[i][j] = o->fault == DIAGONAL_DECAYED && i == j ? p * exp2f(G[i][0] - (i ? G[i - 1][0] : 0)) : p;
			}
		for (size_t i = 0; i < n; i++)
			for (size_t c = 0; c < KV; c++) {
				size_t from = o->fault == BETA_OF_TOKEN_BEFORE && i == 0 && first ? first - 1 : first + i;
				float u = v[(first + i) * KV + c], held = 0;
				for (size_t d = 0; d < KD; d++) held = fmaf(rounded(r, kn[i][d] * exp2f(G[i][d])), rounded(r, S[d * KV + c]), held);
				u -= held;
				for (size_t j = o->fault == SOLVE_STOPS_EARLY && i > 6 ? i - 6 : 0; j < i; j++) u -= A[i][j] * U[j][c];
				U[i][c] = beta[from] * u;
			}
		for (size_t i = 0; i < n; i++)
			for (size_t c = 0; c < KV; c++) {
				float y = 0;
				for (size_t d = 0; d < KD; d++) y = fmaf(rounded(r, qn[i][d] * exp2f(G[i][d])), rounded(r, S[d * KV + c]), y);
				for (size_t j = 0; j <= i; j++) y = fmaf(rounded(r, P[i][j]), rounded(r, U[j][c]), y);
				out[(first + i) * KV + c] = y;
			}
		for (size_t d = 0; d < KD; d++)
			for (size_t c = 0; c < KV; c++) {
				float add = 0;
				for (size_t j = 0; j < n; j++) add = fmaf(rounded(r, kn[j][d] * exp2f(G[n - 1][d] - G[j][d])), rounded(r, U[j][c]), add);
				S[d * KV + c] = fmaf(exp2f(G[n - 1][d]), S[d * KV + c], add);
			}
	}
}

static void kda(const struct kda *o, const char *contract, int variant)
{
	static float q[KT * KD], k[KT * KD], v[KT * KV], g[KT * KD], beta[KT], out[KT * KV], S[KD * KV], S0[KD * KV];
	const size_t T = o->tokens;
	struct capture c;

	for (size_t i = 0; i < T * KD; i++) q[i] = in_type(DT_BF16, normal(1)), k[i] = in_type(DT_BF16, normal(1));
	for (size_t i = 0; i < T * KD; i++)
		g[i] = -uniform(0.002f, 0.6f) * (o->strong == 0 ? 1 : i / KD >= 224 && i / KD < o->weak ? o->strong : 0.1f);
	for (size_t i = 0; i < T * KV; i++) v[i] = in_type(DT_BF16, normal(1));
	for (size_t i = 0; i < T; i++) beta[i] = uniform(0.05f, 0.95f);
	for (size_t i = 0; i < KD * KV; i++) S0[i] = S[i] = normal(0.3f);
	kda_run(o, q, k, v, g, beta, S, out);
	begin(&c, "kda", "{\"qk_l2norm\": true, \"l2_eps\": 1e-6}");
	put(&c, "in.q", DT_BF16, SHAPE(T, 1, KD), q);
	put(&c, "in.k", DT_BF16, SHAPE(T, 1, KD), k);
	put(&c, "in.v", DT_BF16, SHAPE(T, 1, KV), v);
	put(&c, "in.g", DT_F32, SHAPE(T, 1, KD), g);
	put(&c, "in.beta", DT_F32, SHAPE(T, 1), beta);
	put(&c, "in.initial_state", DT_F32, SHAPE(1, 1, KD, KV), S0);
	put(&c, "out.o", o->operands == FULL ? DT_F32 : DT_BF16, SHAPE(T, 1, KV), out);
	put(&c, "out.final_state", DT_F32, SHAPE(1, 1, KD, KV), S);
	judged_as(&c, contract, !o->fault, variant % 8 != 0, "kda", variant);
}

static void kda_in_chunks(void **state)
{
	static const size_t chunks[] = { 16, 32, 20, 52 };

	(void)state;
	for (int i = 0; i < 16; i++) {
		struct kda o = { (const enum number[]){ FULL, BF, TF32, HALF }[i % 4], chunks[i / 4], i / 4 < 2 && i % 2, 0, 52, false, 0, 0 };
		dice = 500 + (uint64_t)i;
		kda(&o, o.operands == FULL ? "chunk_f32" : "bf16_operands", i);
	}
	for (int fault = 1; fault <= SCALE_BY_DV; fault++)
		for (int i = 0; i < 2; i++) {
			struct kda o = { i ? BF : FULL, 32, false, fault, 52, false, 0, 0 };
			dice = 600 + (uint64_t)fault;
			kda(&o, i ? "auto" : "chunk_f32", -fault);
		}
}

/* The contract's usual chunk is 64: its state has sums over 6 tokens in it, this kernel's over 70. */
static void kda_in_one_chunk(void **state)
{
	(void)state;
	for (int i = 0; i < 12; i++) {
		struct kda o = { FULL, 70, false, 0, 70, true, 0, 0 };
		dice = 700 + (uint64_t)i;
		kda(&o, "chunk_f32", i % 4 ? 8 * i + 1 : 8 * i);         /* names take longest */
	}
}

/* Chunks of 16, 64, 128 and 256 begin at token 256: nothing is summed in them there before tokens that decay little. In chunks of 48 (240 to
 * 287) strong decays are, and G is off by what they are. */
static void kda_behind_strong_decays(void **state)
{
	static const size_t chunks[] = { 48, 96, 112 }, weak[] = { 256, 256, 240 };

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct kda o = { FULL, chunks[i], false, 0, KT, i % 2, 10, weak[i] };
		dice = 800 + (uint64_t)i;
		kda(&o, "chunk_f32", 8 * i + 1);
	}
}

/* gdn2 in chunks of 80 by the formula itself, strong decays up to token 191: no element breaks a rule, but a hundredth of all together does. */
static void few_behind_strong_decays(void **state)
{
	enum { T = 208 };
	static float g[T * KD], x[T * KD];
	struct plan p = plan_plain(&arith_f32, 24);
	struct capture c;
	struct error e;

	(void)state;
	dice = 90011;
	for (size_t i = 0; i < T * KD; i++) g[i] = (i / KD < 192 ? -5 : -1) * uniform(0.002f, 0.6f);
	begin(&c, "gdn2", "{}");
	for (int in = 0; in < 3; in++) {
		for (size_t i = 0; i < T * (in < 2 ? KD : KV); i++) x[i] = in_type(DT_BF16, normal(in < 2 ? 0.25f : 1));
		put(&c, (const char *const[]){ "in.q", "in.k", "in.v" }[in], DT_BF16, SHAPE(T, 1, in < 2 ? KD : KV), x);
	}
	for (int in = 0; in < 2; in++) {
		for (size_t i = 0; i < T * KD; i++) x[i] = in_type(DT_BF16, uniform(0.05f, 0.95f));
		put(&c, in ? "in.b" : "in.w", DT_BF16, SHAPE(T, 1, in ? KD : KV), x);
	}
	put(&c, "in.g", DT_F32, SHAPE(T, 1, KD), g);
	memset(x, 0, sizeof x);
	put(&c, "out.o", DT_F32, SHAPE(T, 1, KV), x);
	put(&c, "out.final_state", DT_F32, SHAPE(1, 1, KD, KV), x);
	no_error(capture_bind(&c, &e), &e);
	plan_contract(&p, contract_of("gdn2", "chunk_f32"));
	p.chunk = 80;
	answer_by(&c, &p);
	judged_as(&c, "chunk_f32", true, true, "gdn2", 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ssd_in_chunks),
		cmocka_unit_test(kda_in_chunks),
		cmocka_unit_test(kda_in_one_chunk),
		cmocka_unit_test(kda_behind_strong_decays),
		cmocka_unit_test(few_behind_strong_decays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
