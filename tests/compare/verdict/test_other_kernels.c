/* Kernels of attention, ssd, kda and fp8 norms in structures that no table has: correct ones must pass and be given no name, under the
 * contract that they fulfil; ones with a fault that no table has must fail. make strangers has more, of other ops. */
#include "own_capture.h"

/* What operands of products are rounded to: FULL, nothing. */
enum number { FULL, TF32, HALF, BF };
static float rounded(enum number n, float x)
{
	union { float f; uint32_t u; } v = { x };

	if (n == TF32) v.u = (v.u + 0xfff + (v.u >> 13 & 1)) & 0xffffe000;
	return n == HALF ? in_type(DT_F16, x) : n == BF ? in_type(DT_BF16, x) : v.f;
}

/* ---- attention: keys in parts, each by blocks with a running maximum; base 2; parts joined by their lse in base 2 ---- */

enum { AT = 10, AS = 70, AH = 4, AD = 32 };
struct attention { enum number p; size_t parts, block; bool forwards, own_scale; int fault; };
enum { LAST_PART_LOST = 1, MAXIMUM_OF_BLOCK_BEFORE, ONE_KEY_TWICE, HEAD_WITHOUT_RESCALE };

static void attend(const struct attention *a, size_t head, size_t seen, const float *q, const float *k, const float *v, float *o, float *lse)
{
	float top = -INFINITY, total = 0, scale = 1 / sqrtf(AD) * log2e, out[AD] = { 0 };
	size_t each = (AS + a->parts - 1) / a->parts;

	for (size_t p = 0; p < a->parts - (a->fault == LAST_PART_LOST); p++) {
		size_t from = p * each, to = from + each < seen ? from + each : seen, blocks = to > from ? (to - from + a->block - 1) / a->block : 0;
		float m = -INFINITY, l = 0, acc[AD] = { 0 };
		for (size_t i = 0; i < blocks; i++) {
			size_t b = a->forwards ? i : blocks - 1 - i, first = from + b * a->block, last = first + a->block < to ? first + a->block : to;
			float s[AS], high = m;
			for (size_t j = first; j < last; j++) {
				s[j] = 0;
				for (size_t d = 0; d < AD; d++) s[j] = fmaf(a->own_scale ? rounded(a->p, q[d]) : q[d], k[j * AD + d], s[j]);
				high = fmaxf(high, s[j]);
			}
			float w = m == -INFINITY ? 0 : exp2f((m - high) * scale);
			if (a->fault == HEAD_WITHOUT_RESCALE && head == 2) w = m == -INFINITY ? 0 : 1;
			l *= w;
			for (size_t d = 0; d < AD; d++) acc[d] *= w;
			for (size_t j = first; j < last; j++) {
				float e = exp2f(fmaf(s[j], scale, -high * scale));
				if (a->fault == ONE_KEY_TWICE && j == 37) e += e;
				l += e;
				for (size_t d = 0; d < AD; d++) acc[d] = fmaf(rounded(a->p, e), v[j * AD + d], acc[d]);
			}
			m = a->fault == MAXIMUM_OF_BLOCK_BEFORE && i == 1 ? m : high;
		}
		if (!blocks) continue;
		float part = m * scale + log2f(l), both = fmaxf(top, part), w = top == -INFINITY ? 0 : exp2f(top - both), z = exp2f(part - both), r = 1 / l;
		for (size_t d = 0; d < AD; d++) out[d] = out[d] * w + z * (acc[d] * r);
		total = total * w + z, top = both;
	}
	for (size_t d = 0; d < AD; d++) o[d] = out[d] / total;
	*lse = ln2 * (top + log2f(total));
}

static void attention(const struct attention *a, const char *contract, enum dtype type, int variant)
{
	static float q[AT * AH * AD], k[2 * AS * AD], v[2 * AS * AD], o[AT * AH * AD], lse[AH * AT], kk[AS * 2 * AD], vv[AS * 2 * AD];
	struct capture c;

	for (size_t i = 0; i < AT * AH * AD; i++) q[i] = in_type(type, normal(2));
	for (size_t i = 0; i < 2 * AS * AD; i++) k[i] = in_type(type, normal(1)), v[i] = in_type(type, normal(1));
	for (size_t j = 0; j < AS; j++)
		for (size_t h = 0; h < 2; h++)
			memcpy(kk + (j * 2 + h) * AD, k + (h * AS + j) * AD, AD * sizeof *k), memcpy(vv + (j * 2 + h) * AD, v + (h * AS + j) * AD, AD * sizeof *v);
	for (size_t t = 0; t < AT; t++)
		for (size_t h = 0; h < AH; h++) {
			size_t at = t * AH + h;
			attend(a, h, AS - AT + t + 1, q + at * AD, k + h / 2 * AS * AD, v + h / 2 * AS * AD, o + at * AD, lse + h * AT + t);
		}
	begin(&c, "attention", "{\"causal\": true}");
	put(&c, "in.q", type, SHAPE(AT, AH, AD), q);
	put(&c, "in.k", type, SHAPE(AS, 2, AD), kk);
	put(&c, "in.v", type, SHAPE(AS, 2, AD), vv);
	put(&c, "out.o", type, SHAPE(AT, AH, AD), o);
	put(&c, "out.lse", DT_F32, SHAPE(AH, AT), lse);
	judged_as(&c, contract, !a->fault, variant % 8 != 0, "attention", variant);
}

static void attention_in_parts(void **state)
{
	static const size_t blocks[] = { 7, 16, 48 };

	(void)state;
	for (int i = 0; i < 12; i++) {
		struct attention a = { (const enum number[]){ FULL, BF, HALF }[i % 3], 1 + (size_t)i / 3, blocks[(i + i / 3) % 3], i % 2, false, 0 };
		dice = 100 + (uint64_t)i;
		attention(&a, a.p == FULL ? "f32" : a.parts > 1 ? "bf16_operands_split" : "bf16_operands", a.p == FULL && i % 2 ? DT_F32 : DT_BF16, i);
	}
	for (int fault = 1; fault <= HEAD_WITHOUT_RESCALE; fault++)
		for (int i = 0; i < 2; i++) {
			struct attention a = { i ? BF : FULL, fault == LAST_PART_LOST ? 3 : 1, 16, true, false, fault };
			dice = 200 + (uint64_t)fault;
			attention(&a, i ? "auto" : "f32", DT_BF16, -fault);
		}
}

/* ---- ssd: in chunks, decays in base 2 ---- */

enum { ST = 75, SH = 2, SP = 8, SM = 16 };
struct ssd { enum number operands; size_t chunk; int d_on; bool gated; int fault; };    /* d on: 0 x, 1 B, 2 scores */
enum { TOKEN_41_TWICE = 1, SKIP_OF_NEXT_HEAD, TAIL_DECAY_SHORT, CHANNEL_5_UNGATED, STATE_ROW_LATE };

static void ssd_head(const struct ssd *s, size_t h, const float *x, const float *dt, float A, float D, const float *B, const float *C, const float *z,
	float *S, float *y)
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
	static float x[ST * SH * SP], z[ST * SH * SP], y[ST * SH * SP], dt[ST * SH], B[ST * SM], C[ST * SM], S[SH * SP * SM], S0[SH * SP * SM];
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

enum { KT = 52, KD = 16, KV = 8 };
struct kda { enum number operands; size_t chunk; bool anchored; int fault; };
enum { BETA_OF_TOKEN_BEFORE = 1, CHANNEL_3_NO_DECAY, DIAGONAL_DECAYED, SOLVE_STOPS_EARLY, SCALE_BY_DV };

static void kda_run(const struct kda *o, const float *q, const float *k, const float *v, const float *g, const float *beta, float *S, float *out)
{
	static float G[64][KD], A[64][64], P[64][64], U[64][KV], kn[64][KD], qn[64][KD];
	enum number r = o->operands;

	for (size_t first = 0; first < KT; first += o->chunk) {
		size_t n = first + o->chunk < KT ? o->chunk : KT - first;
		for (size_t i = 0; i < n; i++) {
			float q2 = 1e-6f, k2 = 1e-6f;
			for (size_t d = 0; d < KD; d++) {
				size_t at = (first + i) * KD + d;
				q2 = fmaf(q[at], q[at], q2), k2 = fmaf(k[at], k[at], k2);
				float step = o->fault == CHANNEL_3_NO_DECAY && d == 3 ? 0 : g[at] * log2e;
				G[i][d] = (i ? G[i - 1][d] : 0) + step;
			}
			for (size_t d = 0; d < KD; d++) {
				size_t at = (first + i) * KD + d;
				qn[i][d] = q[at] / sqrtf(q2) * (o->fault == SCALE_BY_DV ? 1 / sqrtf(KV) : 1 / sqrtf(KD)), kn[i][d] = k[at] / sqrtf(k2);
			}
		}
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
	struct capture c;

	for (size_t i = 0; i < KT * KD; i++) q[i] = in_type(DT_BF16, normal(1)), k[i] = in_type(DT_BF16, normal(1)), g[i] = -uniform(0.002f, 0.6f);
	for (size_t i = 0; i < KT * KV; i++) v[i] = in_type(DT_BF16, normal(1));
	for (size_t i = 0; i < KT; i++) beta[i] = uniform(0.05f, 0.95f);
	for (size_t i = 0; i < KD * KV; i++) S0[i] = S[i] = normal(0.3f);
	kda_run(o, q, k, v, g, beta, S, out);
	begin(&c, "kda", "{\"qk_l2norm\": true, \"l2_eps\": 1e-6}");
	put(&c, "in.q", DT_BF16, SHAPE(KT, 1, KD), q);
	put(&c, "in.k", DT_BF16, SHAPE(KT, 1, KD), k);
	put(&c, "in.v", DT_BF16, SHAPE(KT, 1, KV), v);
	put(&c, "in.g", DT_F32, SHAPE(KT, 1, KD), g);
	put(&c, "in.beta", DT_F32, SHAPE(KT, 1), beta);
	put(&c, "in.initial_state", DT_F32, SHAPE(1, 1, KD, KV), S0);
	put(&c, "out.o", o->operands == FULL ? DT_F32 : DT_BF16, SHAPE(KT, 1, KV), out);
	put(&c, "out.final_state", DT_F32, SHAPE(1, 1, KD, KV), S);
	judged_as(&c, contract, !o->fault, variant % 8 != 0, "kda", variant);
}

static void kda_in_chunks(void **state)
{
	static const size_t chunks[] = { 16, 32, 20, 52 };

	(void)state;
	for (int i = 0; i < 16; i++) {
		struct kda o = { (const enum number[]){ FULL, BF, TF32, HALF }[i % 4], chunks[i / 4], i / 4 < 2 && i % 2, 0 };
		dice = 500 + (uint64_t)i;
		kda(&o, o.operands == FULL ? "chunk_f32" : "bf16_operands", i);
	}
	for (int fault = 1; fault <= SCALE_BY_DV; fault++)
		for (int i = 0; i < 2; i++) {
			struct kda o = { i ? BF : FULL, 32, false, fault };
			dice = 600 + (uint64_t)fault;
			kda(&o, i ? "auto" : "chunk_f32", -fault);
		}
}

/* ---- fp8 in groups ---- */

enum { FR = 6, FG = 3, FW = 40 };
enum { HALF_GROUP = 1, WEIGHT_OF_NEXT_GROUP, SCALE_OF_ROW_ABOVE, TRUNCATED };

static void groups(int variant, bool power, int fault)
{
	static float x[FR * FG * FW], w[FG * FW], y[FR * FG * FW], scale[FR * FG];
	struct capture c;

	for (size_t i = 0; i < FR * FG * FW; i++) x[i] = in_type(DT_BF16, normal(1));
	for (size_t i = 0; i < FG * FW; i++) w[i] = in_type(DT_BF16, 1 + normal(0.2f));
	for (size_t r = 0; r < FR; r++) {
		float mean = 0, square = 0;     /* Welford's, of x; the mean square from both */
		for (size_t i = 0; i < FG * FW; i++) {
			float v = x[r * FG * FW + i], d = v - mean;
			mean += d / (float)(i + 1), square = fmaf(d, v - mean, square);
		}
		float root = 1 / sqrtf(square / (FG * FW) + mean * mean + 1e-6f);
		for (size_t g = 0; g < FG; g++) {
			float z[FW], most = 0;
			for (size_t i = 0; i < FW; i++) {
				size_t weight = fault == WEIGHT_OF_NEXT_GROUP ? (g + 1) % FG * FW + i : g * FW + i;
				z[i] = variant & 1 ? x[(r * FG + g) * FW + i] * (root * w[weight]) : x[(r * FG + g) * FW + i] * root * w[weight];
				if (!(fault == HALF_GROUP && i >= FW / 2)) most = fmaxf(most, fabsf(z[i]));
			}
			float s = variant & 2 ? most * (1 / 448.0f) : most / 448;
			if (power) {
				int e;
				float m = frexpf(s, &e);
				s = ldexpf(1, m > 0.5f ? e : e - 1);
			}
			scale[r * FG + g] = fault == SCALE_OF_ROW_ABOVE && r ? scale[(r - 1) * FG + g] : s;
			for (size_t i = 0; i < FW; i++) {
				float t = variant & 4 ? z[i] * (1 / s) : z[i] / s, near = in_type(DT_F8_E4M3, fmaxf(-448, fminf(448, t)));
				y[(r * FG + g) * FW + i] = fault == TRUNCATED && fabsf(near) > fabsf(t) ? near * 0.93f : near;
			}
		}
	}
	begin(&c, "rmsnorm_fp8_groups", power ? "{\"eps\": 1e-6, \"weight_offset\": 0, \"power_of_two\": true}" : "{\"eps\": 1e-6, \"weight_offset\": 0}");
	put(&c, "in.x", DT_BF16, SHAPE(FR, FG, FW), x);
	put(&c, "in.weight", DT_BF16, SHAPE(FG, FW), w);
	put(&c, "out.y", DT_F8_E4M3, SHAPE(FR, FG, FW), y);
	put(&c, "out.scale", DT_F32, SHAPE(FR, FG), scale);
	judged_as(&c, fault ? "auto" : "f32", !fault, variant % 8 != 0, "rmsnorm_fp8_groups", fault ? -fault : variant);
}

static void norms_to_fp8(void **state)
{
	(void)state;
	for (int i = 0; i < 16; i++) {
		dice = 700 + (uint64_t)i;
		groups(i % 8, i / 8, 0);
	}
	for (int fault = 1; fault <= TRUNCATED; fault++) {
		dice = 800 + (uint64_t)fault;
		groups(0, false, fault);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(attention_in_parts),
		cmocka_unit_test(ssd_in_chunks),
		cmocka_unit_test(kda_in_chunks),
		cmocka_unit_test(norms_to_fp8),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
