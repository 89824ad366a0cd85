/* Inputs at which the formula is exact in float32, and kernels in other algebra, which are not: none may fail. The kernels are plain
 * float code of this file and share nothing with the reference. */
#include "own_capture.h"

static void passes(struct capture *c, const char *contract, const char *what, int variant)
{
	judged_as(c, contract, true, false, what, variant);
}

/* ---- attention: logits that float32 holds ---- */

enum { T = 6, H = 2, D = 16 };
enum { BASE_E, BASE_2, FOLDED, ATTENTIONS };

/* One query of D numbers on n keys; q k' is scaled by `scale`. */
static void attend(int base, bool divide, const float *q, const float *k, const float *v, size_t n, float scale, float *o, float *lse)
{
	float s[16], e[16], m = -INFINITY, l = 0, c = base == BASE_E ? scale : scale * log2e;

	for (size_t j = 0; j < n; j++) {
		s[j] = 0;
		for (size_t d = 0; d < D; d++) s[j] = fmaf(q[d], k[j * D + d], s[j]);
		m = fmaxf(m, s[j]);
	}
	float mc = m * c;
	for (size_t j = 0; j < n; j++) {
		float x = base == FOLDED ? fmaf(s[j], c, -mc) : s[j] * c - mc;
		e[j] = base == BASE_E ? expf(x) : exp2f(x);
		l += e[j];
	}
	*lse = base == BASE_E ? mc + logf(l) : ln2 * (mc + log2f(l));
	float r = 1 / l;
	for (size_t d = 0; d < D; d++) {
		float sum = 0;
		for (size_t j = 0; j < n; j++) sum = fmaf(e[j], v[j * D + d], sum);
		o[d] = divide ? sum / l : sum * r;
	}
}

/* Query t sees key t alone (window 1), or `same` equal keys each. */
static void attention(int base, bool divide, size_t keys, enum dtype type)
{
	float q[T * H * D], k[16 * D], v[16 * D], o[T * H * D], lse[H * T];
	struct capture c;

	for (size_t i = 0; i < T * H * D; i++) q[i] = (float)draw(-24, 24) / 8;
	for (size_t i = 0; i < 16 * D; i++) v[i] = (float)draw(-200, 200) / 64, k[i] = (float)draw(-24, 24) / 8;
	for (size_t j = 1; keys > 1 && j < keys; j++) memcpy(k + j * D, k, D * sizeof *k);
	for (size_t t = 0; t < T; t++)
		for (size_t h = 0; h < H; h++) {
			const float *at = keys == 1 ? k + t * D : k, *values = keys == 1 ? v + t * D : v;
			attend(base, divide, q + (t * H + h) * D, at, values, keys, 0.25f, o + (t * H + h) * D, lse + h * T + t);
		}
	begin(&c, "attention", keys == 1 ? "{\"causal\": true, \"window\": 1}" : "{}");
	put(&c, "in.q", type, SHAPE(T, H, D), q);
	put(&c, "in.k", type, SHAPE(keys == 1 ? T : keys, 1, D), k);
	put(&c, "in.v", type, SHAPE(keys == 1 ? T : keys, 1, D), v);
	put(&c, "out.o", type, SHAPE(T, H, D), o);
	put(&c, "out.lse", DT_F32, SHAPE(H, T), lse);
	passes(&c, "f32", "attention", base * 2 + divide);
}

static void attention_of_exact_logits(void **state)
{
	(void)state;
	for (int base = 0; base < ATTENTIONS; base++)
		for (size_t keys = 1; keys <= 3; keys++)
			for (int divide = 0; divide < 2; divide++) {
				dice = 1 + ((uint64_t)base + keys) % 3;
				attention(base, divide, keys, DT_F32);
				attention(base, divide, keys, DT_BF16);
			}
}

/* Noise everywhere takes no mask for a number: where a query sees its own key alone, and blocks that are hidden to it come first, nothing but the
 * value itself passes under any contract, in any form. */
static void what_a_window_hides(void **state)
{
	enum { S = 170, Q = 40 };
	static float q[Q * D], k[S * D], v[S * D], o[Q * D];
	struct capture c;

	(void)state;
	for (size_t i = 0; i < Q * D; i++) q[i] = (float)draw(-24, 24) / 8, o[i] = (float)draw(-200, 200) / 64;
	for (size_t i = 0; i < S * D; i++) k[i] = (float)draw(-24, 24) / 8, v[i] = (float)draw(-200, 200) / 64;
	for (const struct contract *with = op_find("attention")->contracts; with->name; with++) {
		begin(&c, "attention", "{\"causal\": true, \"window\": 1}");
		put(&c, "in.q", DT_BF16, SHAPE(Q, 1, D), q);
		put(&c, "in.k", DT_BF16, SHAPE(S, 1, D), k);
		put(&c, "in.v", DT_BF16, SHAPE(S, 1, D), v);
		put(&c, "out.o", DT_BF16, SHAPE(Q, 1, D), o);
		judged_as(&c, with->name, false, false, "what a window hides", (int)(with - op_find("attention")->contracts));
	}
}

/* ---- answers half way between two numbers of the output's type ---- */

/* Three equal keys: values (1 + a/128, 1 + a/128, c/256) whose mean, 1 + (2 j + 1)/256, no bf16 number is nearest to. */
static void means_half_way(void **state)
{
	static const char *const contracts[] = { "f32", "bf16_operands", "bf16_operands_split" };

	(void)state;
	for (int base = 0; base < 3 * ATTENTIONS; base++)
		for (int divide = 0; divide < 2; divide++) {
			float q[T * H * D], k[3 * D], v[3 * D], o[T * H * D], lse[H * T];
			struct capture c;
			dice = 5;
			for (size_t i = 0; i < T * H * D; i++) q[i] = (float)draw(-24, 24) / 8;
			for (size_t i = 0; i < 3 * D; i++) k[i] = i < D ? (float)draw(-24, 24) / 8 : k[i - D];
			for (size_t i = 0; i < D; i++) {
				int j = draw(0, 12), a = draw(20, 30);
				v[i] = v[D + i] = 1 + (float)a / 128;
				v[2 * D + i] = (float)(257 + 6 * j - 4 * a) / 256;
			}
			for (size_t t = 0; t < T; t++)
				for (size_t h = 0; h < H; h++) attend(base % ATTENTIONS, divide, q + (t * H + h) * D, k, v, 3, 0.25f, o + (t * H + h) * D, lse + h * T + t);
			for (size_t i = 0; i < T * H * D; i++) o[i] = up(o[i], (int)i % 3 - 1);        /* the sum's last bit is any kernel's own */
			begin(&c, "attention", "{}");
			put(&c, "in.q", DT_BF16, SHAPE(T, H, D), q);
			put(&c, "in.k", DT_BF16, SHAPE(3, 1, D), k);
			put(&c, "in.v", DT_BF16, SHAPE(3, 1, D), v);
			put(&c, "out.o", DT_BF16, SHAPE(T, H, D), o);
			put(&c, "out.lse", DT_F32, SHAPE(H, T), lse);
			passes(&c, contracts[base / ATTENTIONS], "means half way", base * 2 + divide);
		}
}

/* silu(x) is below x by x e^-x: nothing that float32 holds, but enough to decide to which side of a tie the exact answer lies. Beside an
 * element that is wrong the ties are no worse than they are. */
static void large_activations_half_way(void **state)
{
	enum { C = 24, W = 4, N = 5, WRONG = C - 1 };
	const struct judging how = { .contract = "f32", .quick = true };
	struct verdict v;
	struct error e;
	float x[N * C], w[C * W] = { 0 }, y[N * C];
	struct capture c;

	(void)state;
	for (size_t i = 0; i < C; i++) {
		w[i * W + W - 1] = w[i * W + W - 2] = 1;
		for (size_t t = 0; t < N; t++) x[t * C + i] = i == WRONG ? 0.375f : t & 1 ? 310 : 320 + 4 * (float)(i % 7);        /* sums of 630 + 4 i, half way */
		for (size_t t = 0; t < N; t++) {
			float sum = x[t * C + i] + (t ? x[(t - 1) * C + i] : 0);
			y[t * C + i] = i & 1 ? sum / (1 + expf(-sum)) : sum * (1 / (1 + exp2f(-sum * log2e)));
		}
	}
	begin(&c, "causal_conv1d", "{\"activation\": \"silu\"}");
	put(&c, "in.x", DT_BF16, SHAPE(N, C), x);
	put(&c, "in.weight", DT_BF16, SHAPE(C, W), w);
	put(&c, "out.y", DT_BF16, SHAPE(N, C), y);
	no_error(capture_bind(&c, &e) && judge(&c, &how, &v, &e), &e);
	assert_int_equal(v.outcome, PASS);
	step_up(capture_out(&c, "y"), WRONG);
	step_up(capture_out(&c, "y"), WRONG);
	no_error(judge(&c, &how, &v, &e), &e);
	assert_int_equal(v.outcome, FAIL);
	assert_int_equal(v.out[0].worst.index, WRONG);
	capture_free(&c);
}

/* ---- norms: a mean square and an eps whose sum is a power of 4 ---- */

static float inverse_root(int how, float m) { return how == 0 ? 1 / sqrtf(m) : up((float)(1 / sqrt((double)m)), how == 1 ? 1 : -2); }

static void norm(int variant, enum dtype type, bool fp8)
{
	enum { R = 4, W = 96 };
	float x[R * W], w[W], y[R * W], scale[R];
	struct capture c;

	for (size_t i = 0; i < W; i++) w[i] = (float)draw(-64, 64) / 32;
	for (size_t i = 0; i < R * W; i++) x[i] = draw(0, 1) ? 1 : -1;
	for (size_t r = 0; r < R; r++) {
		float sum = 0, most = 0, z[W];
		for (size_t i = 0; i < W; i++) sum = fmaf(x[r * W + i], x[r * W + i], sum);
		float mean = variant & 1 ? sum * (1 / (float)W) : sum / (float)W, root = inverse_root(variant / 4, mean + 3);
		for (size_t i = 0; i < W; i++) {
			z[i] = variant & 2 ? x[r * W + i] * (root * w[i]) : x[r * W + i] * root * w[i];
			most = fmaxf(most, fabsf(z[i]));
		}
		scale[r] = variant & 1 ? most * (1 / 448.0f) : most / 448;
		for (size_t i = 0; i < W; i++) y[r * W + i] = !fp8 ? z[i] : variant & 2 ? z[i] * (1 / scale[r]) : z[i] / scale[r];
	}
	begin(&c, fp8 ? "rmsnorm_fp8" : "rmsnorm", "{\"eps\": 3, \"weight_offset\": 0}");
	put(&c, "in.x", type, SHAPE(R, W), x);
	put(&c, "in.weight", type, SHAPE(W), w);
	put(&c, "out.y", fp8 ? DT_F8_E4M3 : type, SHAPE(R, W), y);
	if (fp8) put(&c, "out.scale", DT_F32, SHAPE(R), scale);
	passes(&c, "f32", fp8 ? "rmsnorm_fp8" : "rmsnorm", variant);
}

static void norms_of_exact_rows(void **state)
{
	(void)state;
	for (int variant = 0; variant < 12; variant++)
		for (int seed = 1; seed <= 3; seed++) {
			dice = (uint64_t)seed;
			norm(variant, DT_F32, false);
			norm(variant, DT_BF16, false);
			norm(variant, DT_F32, true);
			norm(variant, DT_BF16, true);
		}
}

/* A group's scale is a power of two exactly: the largest is 448 times one. */
static void group_scales_on_the_edge(void **state)
{
	enum { R = 3, G = 2, W = 64 };

	(void)state;
	for (int variant = 0; variant < 4; variant++) {
		float x[R * G * W], w[G * W], y[R * G * W], scale[R * G];
		struct capture c;
		dice = 7;
		for (size_t i = 0; i < R * G * W; i++) x[i] = draw(0, 1) ? 1 : -1;
		for (size_t i = 0; i < G * W; i++) w[i] = (float)draw(-896, 896) / 2;
		w[3] = 448, w[W + 5] = 224;
		for (size_t r = 0; r < R; r++)
			for (size_t g = 0; g < G; g++) {
				float most = 0, z[W];
				for (size_t i = 0; i < W; i++) {
					z[i] = x[(r * G + g) * W + i] * w[g * W + i] * inverse_root(0, 1.0f);
					most = fmaxf(most, fabsf(z[i]));
				}
				float s = variant & 1 ? most * (1 / 448.0f) : most / 448;
				scale[r * G + g] = s = exp2f(ceilf(log2f(s)));
				for (size_t i = 0; i < W; i++) y[(r * G + g) * W + i] = variant & 2 ? z[i] * (1 / s) : z[i] / s;
			}
		begin(&c, "rmsnorm_fp8_groups", "{\"eps\": 0, \"weight_offset\": 0, \"power_of_two\": true}");
		put(&c, "in.x", DT_BF16, SHAPE(R, G, W), x);
		put(&c, "in.weight", DT_F32, SHAPE(G, W), w);
		put(&c, "out.y", DT_F8_E4M3, SHAPE(R, G, W), y);
		put(&c, "out.scale", DT_F32, SHAPE(R, G), scale);
		passes(&c, "f32", "rmsnorm_fp8_groups", variant);
	}
}

/* ---- rope at position 0 ---- */

/* Three products for four: k = c (a + b), y = k - b (s + c), z = k + a (s - c). */
static void rope_that_stays(void **state)
{
	enum { N = 64 };

	(void)state;
	for (int variant = 0; variant < 3; variant++) {
		float x[2 * N], y[2 * N];
		struct capture c;
		dice = 3;
		for (size_t i = 0; i < 2 * N; i++) x[i] = (float)draw(-9999, 9999) / 777;
		for (size_t i = 0; i < N; i++) {
			size_t pair = i % (N / 2), at = i / (N / 2) * N + pair;
			float a = x[at], b = x[at + N / 2], co = 1, s = 0, k = co * (a + b);
			y[at] = variant == 0 ? a * co - b * s : variant == 1 ? fmaf(a, co, -(b * s)) : k - b * (s + co);
			y[at + N / 2] = variant == 0 ? b * co + a * s : variant == 1 ? fmaf(b, co, a * s) : k + a * (s - co);
		}
		begin(&c, "rope", "{\"rotary_dim\": 64, \"theta\": 10000}");
		put(&c, "in.x", DT_F32, SHAPE(1, 2, N), x);
		put(&c, "in.positions", DT_I32, SHAPE(1), (float[]){ 0 });
		put(&c, "out.y", DT_F32, SHAPE(1, 2, N), y);
		passes(&c, "f32", "rope", variant);
	}
}

/* ---- the delta rules: keys along axes, beta 1, decay 1 ---- */

enum { L = 20, K = 8, V = 4 };

/* S [K,V], one token: by the rule, or as e^g (S - k (k'S)) + k v' with factors elsewhere, or as products of q and k first. */
static void delta_token(int variant, float *S, const float *q, const float *k, const float *v, float scale, float *o)
{
	float q_k = 0;

	for (size_t i = 0; i < K; i++) q_k = fmaf(q[i], k[i], q_k);
	for (size_t j = 0; j < V; j++) {
		float seen = 0, read = 0;
		for (size_t i = 0; i < K; i++) seen = fmaf(S[i * V + j], k[i], seen);
		for (size_t i = 0; i < K; i++) read = fmaf(S[i * V + j], q[i] * scale, read);
		float u = v[j] - seen, late = 0;
		for (size_t i = 0; i < K; i++) S[i * V + j] = fmaf(k[i], u, S[i * V + j]);
		for (size_t i = 0; i < K; i++) late = fmaf(S[i * V + j], q[i], late);
		o[j] = variant ? fmaf(q_k * scale, u, read) : late * scale;
	}
}

static void delta(int variant, const char *op, bool l2, enum dtype type)
{
	float q[L * K] = { 0 }, k[L * K] = { 0 }, v[L * V], g[L * K] = { 0 }, beta[L], o[L * V], S[K * V] = { 0 };
	bool wide = strcmp(op, "gated_delta_rule");
	struct capture c;

	for (size_t t = 0; t < L; t++) {
		beta[t] = 1;
		k[t * K + (size_t)draw(0, K - 1)] = l2 ? 3 : 1;
		for (size_t i = 0; i < K; i++) q[t * K + i] = l2 ? 6 * (draw(0, 1) ? .5f : -.5f) : (float)draw(-8, 8);
		for (size_t i = 0; i < V; i++) v[t * V + i] = (float)draw(-64, 64) / 7;
	}
	for (size_t t = 0; t < L; t++) {
		float qn[K], kn[K], q2 = 0, k2 = 0;
		for (size_t i = 0; i < K; i++) q2 += q[t * K + i] * q[t * K + i], k2 += k[t * K + i] * k[t * K + i];
		for (size_t i = 0; i < K; i++) {
			float rq = inverse_root(variant / 2, q2), rk = inverse_root(variant / 2, k2);
			qn[i] = l2 ? q[t * K + i] * rq : q[t * K + i];
			kn[i] = l2 ? k[t * K + i] * rk : k[t * K + i];
		}
		delta_token(variant & 1, S, qn, kn, v + t * V, 0.3f, o + t * V);
	}
	begin(&c, op, l2 ? "{\"qk_l2norm\": true, \"l2_eps\": 0, \"scale\": 0.3}" : "{\"scale\": 0.3}");
	put(&c, "in.q", type, SHAPE(L, 1, K), q);
	put(&c, "in.k", type, SHAPE(L, 1, K), k);
	put(&c, "in.v", DT_F32, SHAPE(L, 1, V), v);
	put(&c, "in.g", DT_F32, wide ? SHAPE(L, 1, K) : SHAPE(L, 1), g);
	put(&c, "in.beta", DT_F32, SHAPE(L, 1), beta);
	put(&c, "out.o", type, SHAPE(L, 1, V), o);
	put(&c, "out.final_state", DT_F32, SHAPE(1, 1, K, V), S);
	passes(&c, "f32", op, variant);
}

static void delta_rules_along_axes(void **state)
{
	(void)state;
	for (int seed = 1; seed <= 3; seed++)
		for (int variant = 0; variant < 6; variant++)
			for (int l2 = 0; l2 < 2; l2++) {
				dice = (uint64_t)seed;
				delta(variant, "gated_delta_rule", l2, DT_F32);
				delta(variant, "kda", l2, DT_BF16);
				delta(variant, "kda", l2, DT_F32);
			}
}

/* ---- Newton and Schulz on a permutation ---- */

static void permutation(void **state)
{
	enum { N = 4 };

	(void)state;
	for (int variant = 0; variant < 6; variant++) {
		float x[N * N] = { 0 }, y[N * N];
		struct capture c;
		for (size_t i = 0; i < N; i++) x[i * N + (i + 1) % N] = 3;
		/* A permutation p over 2 has A = I/4, and a p/2 + b p/8 + c p/32 after an iteration. */
		float norm = inverse_root(variant / 2, 36.0f), p = 3 * norm;
		for (int t = 0; t < 3; t++) {
			float A = p * p, B = variant & 1 ? fmaf(0.25f * A, A, -1.5f * A) : -1.5f * A + 0.25f * (A * A);
			p = variant & 1 ? fmaf(B, p, 2.25f * p) : (2.25f + B) * p;
		}
		for (size_t i = 0; i < N * N; i++) y[i] = x[i] != 0 ? p : 0;
		begin(&c, "newton_schulz", "{\"algorithm\": \"standard\", \"eps\": 0, "
			"\"coefficients\": [[2.25,-1.5,0.25],[2.25,-1.5,0.25],[2.25,-1.5,0.25]]}");
		put(&c, "in.x", DT_F32, SHAPE(N, N), x);
		put(&c, "out.y", DT_F32, SHAPE(N, N), y);
		passes(&c, "f32", "newton_schulz", variant);
	}
}

/* ---- what must stay exact ---- */

/* The sum of two inputs has one value, to the last bit of a float. */
static void what_is_exact_in_every_algebra(void **state)
{
	enum { W = 64 };
	const struct judging how = { .contract = "f32", .quick = true };
	float x[W], r[W], none[W] = { 0 };
	struct plan p = plan_plain(&arith_f32, 24);
	struct capture c;
	struct verdict v;
	struct error e;

	(void)state;
	for (size_t i = 0; i < W; i++) x[i] = (float)draw(-512, 512) / 64, r[i] = (float)draw(-512, 512) / 64;
	begin(&c, "rmsnorm", "{\"weight_offset\": 1}");
	put(&c, "in.x", DT_F32, SHAPE(1, W), x);
	put(&c, "in.residual", DT_F32, SHAPE(1, W), r);
	put(&c, "in.weight", DT_F32, SHAPE(W), x);
	put(&c, "out.y", DT_F32, SHAPE(1, W), none);
	put(&c, "out.residual_out", DT_F32, SHAPE(1, W), none);
	no_error(capture_bind(&c, &e), &e);
	answer_by(&c, &p);
	for (int off = 0; off < 2; off++) {
		no_error(judge(&c, &how, &v, &e), &e);
		assert_int_equal(v.outcome, off ? FAIL : PASS);
		step_up(capture_out(&c, "residual_out"), 11);
	}
	capture_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(attention_of_exact_logits),
		cmocka_unit_test(what_a_window_hides),
		cmocka_unit_test(means_half_way),
		cmocka_unit_test(large_activations_half_way),
		cmocka_unit_test(norms_of_exact_rows),
		cmocka_unit_test(group_scales_on_the_edge),
		cmocka_unit_test(rope_that_stays),
		cmocka_unit_test(delta_rules_along_axes),
		cmocka_unit_test(permutation),
		cmocka_unit_test(what_is_exact_in_every_algebra),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
