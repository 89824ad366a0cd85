/* Kernels of attention and of norms to fp8 in structures that no table has: correct ones must pass and be given no name, under the
 * contract that they fulfil; ones with a fault that no table has must fail. make strangers has more, of other ops. */
#include "own_capture.h"

/* ---- attention: keys in parts, each by blocks with a running maximum; base 2; parts joined by their lse in base 2 ---- */

enum { AT = 128, KEYS = 300, AH = 4, AD = 64 };
/* size: of q; cores: q k' is added as Hopper's tensor cores add */
struct attention { enum number p; size_t parts, block; bool forwards; int fault; float size; size_t keys, tokens; bool cores; };
enum { LAST_PART_LOST = 1, MAXIMUM_OF_BLOCK_BEFORE, ONE_KEY_TWICE, HEAD_WITHOUT_RESCALE, COARSE_RECIPROCAL };

/* Sixteen products at a time with what was there, cut to 25 bits below the largest exponent, and their sum to a float's 24 (Fasi, Higham,
 * Mikaitis and Pranesh 2021; arXiv 2511.10909). */
static float on_cores(const float *a, const float *b)
{
	double sum = 0;

	for (size_t d = 0; d < AD; d += 16) {
		int e = sum == 0 ? -1000 : ilogb(sum), f;
		for (size_t i = d; i < d + 16; i++)
			if (a[i] != 0 && b[i] != 0 && (f = ilogbf(a[i]) + ilogbf(b[i])) > e) e = f;
		double cut = trunc(ldexp(sum, 25 - e));
		for (size_t i = d; i < d + 16; i++) cut += trunc(ldexp((double)a[i] * (double)b[i], 25 - e));
		sum = ldexp(cut, e - 25);
		if (sum != 0) sum = ldexp(trunc(ldexp(sum, 23 - ilogb(sum))), ilogb(sum) - 23);
	}
	return (float)sum;
}

static void attend(const struct attention *a, size_t head, size_t seen, const float *q, const float *k, const float *v, float *o,
	float *lse)
{
	float top = -INFINITY, total = 0, scale = 1 / sqrtf(AD) * log2e, out[AD] = { 0 };
	size_t each = (a->keys + a->parts - 1) / a->parts;

	for (size_t p = 0; p < a->parts - (a->fault == LAST_PART_LOST); p++) {
		size_t from = p * each, to = from + each < seen ? from + each : seen;
		size_t blocks = to > from ? (to - from + a->block - 1) / a->block : 0;
		float m = -INFINITY, l = 0, acc[AD] = { 0 };
		for (size_t i = 0; i < blocks; i++) {
			size_t b = a->forwards ? i : blocks - 1 - i, first = from + b * a->block;
			size_t last = first + a->block < to ? first + a->block : to;
			float s[KEYS], high = m;
			for (size_t j = first; j < last; j++) {
				s[j] = 0;
				for (size_t d = 0; d < AD && !a->cores; d++) s[j] = fmaf(q[d], k[j * AD + d], s[j]);
				if (a->cores) s[j] = on_cores(q, k + j * AD);
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
		float part = m * scale + log2f(l), both = fmaxf(top, part), r = (a->fault == COARSE_RECIPROCAL ? 1 + 0x1p-11f : 1) / l;
		float w = top == -INFINITY ? 0 : exp2f(top - both), z = exp2f(part - both);
		for (size_t d = 0; d < AD; d++) out[d] = out[d] * w + z * (acc[d] * r);
		total = total * w + z, top = both;
	}
	for (size_t d = 0; d < AD; d++) o[d] = out[d] / total;
	*lse = ln2 * (top + log2f(total));
}

static void attention(const struct attention *a, const char *contract, enum dtype type, int variant)
{
	static float q[AT * AH * AD], k[2 * KEYS * AD], v[2 * KEYS * AD], o[AT * AH * AD], lse[AH * AT], kk[KEYS * 2 * AD], vv[KEYS * 2 * AD];
	const size_t S = a->keys, T = a->tokens;
	struct capture c;

	for (size_t i = 0; i < T * AH * AD; i++) q[i] = in_type(type, normal(a->size));
	for (size_t i = 0; i < 2 * S * AD; i++) k[i] = in_type(type, normal(1)), v[i] = in_type(type, normal(1));
	for (size_t j = 0; j < S; j++)
		for (size_t h = 0; h < 2; h++) {
			memcpy(kk + (j * 2 + h) * AD, k + (h * S + j) * AD, AD * sizeof *k);
			memcpy(vv + (j * 2 + h) * AD, v + (h * S + j) * AD, AD * sizeof *v);
		}
	for (size_t t = 0; t < T; t++)
		for (size_t h = 0; h < AH; h++) {
			size_t at = t * AH + h;
			attend(a, h, S - T + t + 1, q + at * AD, k + h / 2 * S * AD, v + h / 2 * S * AD, o + at * AD, lse + h * T + t);
		}
	begin(&c, "attention", "{\"causal\": true}");
	put(&c, "in.q", type, SHAPE(T, AH, AD), q);
	put(&c, "in.k", type, SHAPE(S, 2, AD), kk);
	put(&c, "in.v", type, SHAPE(S, 2, AD), vv);
	put(&c, "out.o", type, SHAPE(T, AH, AD), o);
	put(&c, "out.lse", DT_F32, SHAPE(AH, T), lse);
	judged_as(&c, contract, !a->fault, variant % 8 != 0, "attention", variant);
}

static void attention_in_parts(void **state)
{
	static const size_t blocks[] = { 7, 16, 48 };

	(void)state;
	for (int i = 0; i < 12; i++) {
		struct attention a = { (const enum number[]){ FULL, BF, HALF }[i % 3], 1 + (size_t)i / 3, blocks[(i + i / 3) % 3], i % 2, 0, 2, 70, 10, false };
		dice = 100 + (uint64_t)i;
		const char *contract = a.p == FULL ? "f32" : a.parts > 1 ? "bf16_operands_split" : "bf16_operands";
		attention(&a, contract, a.p == FULL && i % 2 ? DT_F32 : DT_BF16, i);
	}
	for (int fault = 1; fault <= HEAD_WITHOUT_RESCALE; fault++)
		for (int i = 0; i < 2; i++) {
			struct attention a = { i ? BF : FULL, fault == LAST_PART_LOST ? 3 : 1, 16, true, fault, 2, 70, 10, false };
			dice = 200 + (uint64_t)fault;
			attention(&a, i ? "auto" : "f32", DT_BF16, -fault);
		}
}

/* Where logits are large a few keys have all the weight, and it matters which block came first: torch's cuDNN and efficient kernels. */
static void attention_of_large_logits(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		struct attention a = { BF, 1, 128, true, 0, (const float[]){ 10, 100 }[i % 2], KEYS, 10, false };
		dice = 300 + (uint64_t)i;
		attention(&a, i == 3 ? "auto" : "bf16_operands_ascending", DT_BF16, i + 1);
	}
}

/* What a tensor core cuts off is not float32's rounding: it moves all logits towards 0, and lse with them. */
static void attention_on_tensor_cores(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct attention a = { BF, 1, 128, i, 0, 30, KEYS, AT, true };
		dice = 400 + (uint64_t)i;
		attention(&a, i ? "bf16_operands_ascending" : "bf16_operands", DT_BF16, 8 * (i + 1));
	}
}

/* e^(s - m) as 2^(s c - m c), which is not 1 at the maximum where m c is rounded first: the sum l takes it as it is, the product with v rounded
 * to bf16, that is as 1. FlashAttention-2 and -3 and Triton's kernels do so. The larger the logits, the further o is off by it; a reciprocal
 * of 11 bits is off by more. */
static void attention_whose_largest_exponential_is_not_1(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++) {
		struct attention a = { BF, 1, 128, false, i < 4 ? 0 : COARSE_RECIPROCAL, (const float[]){ 100, 1000, 100, 1000, 300 }[i], 70, 10, false };
		dice = 500 + (uint64_t)i;
		attention(&a, "bf16_operands", i != 3 ? DT_F32 : DT_BF16, i + 1);
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
	begin(&c, "rmsnorm_fp8_groups", power ? "{\"weight_offset\": 0, \"power_of_two\": true}" : "{\"weight_offset\": 0}");
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
		cmocka_unit_test(attention_in_parts), cmocka_unit_test(attention_of_large_logits), cmocka_unit_test(attention_on_tensor_cores),
		cmocka_unit_test(attention_whose_largest_exponential_is_not_1), cmocka_unit_test(norms_to_fp8),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
