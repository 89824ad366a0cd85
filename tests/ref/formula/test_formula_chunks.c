/* Formulas with loops over chunks and sequences: against C written out by hand, in one piece and in strips. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ref/formula/formula.h"
#include "tests/helpers.h"

enum { T = 11, D = 4, N = 3 };

static const char text[] =
	"op chunked\nin x [T, D]  cuts [N+1] integer ?\nout y [T, D]  z [T, D]  s [N, D]\nwhere has(cuts) or N == 1\n"
	"each n in N, i in D, begin = cuts[n] if has(cuts) else 0, end = cuts[n + 1] if has(cuts) else T\n"
	"def half(v) = v * 0.5\n"
	"for c in chunks of T of cuts[n] by 3 | 4, S from 0\n"
	"  v = x[c, i]\n"
	"  mirrored = x[(T - 1) - c, i] if (c - begin) mod 2 == 0 else 100\n"
	"  skipped = 0 if c == begin + 1 else v\n"
	"  short = 1 if end - first(c) < size(c) else 0\n"
	"  second = element(v, 1)\n"
	"  row = element(x[c], 1)\n"
	"  odd = 0 if (c - first(c)) mod 2 == 0 else 1\n"
	"  a = half(v)\n"
	"  b = v * 2\n"
	"  quarter = b * 0.125 | a * 0.5\n"
	"  by_two = shifted(x[c], 2)\n"
	"  behind_one = sum(where(iota(c) == iota(c)' + 1, v, 0)) + sum(where(iota(c) == iota(c)' + 1, v', 0))\n"
	"  y[c, i] = S + mirrored + shifted(skipped) + element(by_two', i)'\n"
	"  z[c, i] = quarter + zeros(c) + second + short + element(row', i) + odd + behind_one\n"
	"  S = S + last(v)\n"
	"s[n, i] = S\n"
	"fault mirror: half = v * 0.25; skipped = v      # of a function and a value\n"
	"contract f32\ncontract region by 3: a bf16, b bf16\n"
	"structure by_a of region: a bf16\nstructure by_b of region: b bf16\n";

static struct formula *sound(const char *name, const char *source)
{
	struct error e;
	struct formula *f = formula_of_text(name, source, strlen(source), &e);

	if (!f) fail_msg("%s: %s", e.file, e.detail);
	return f;
}

/* x [T,D], and cuts [N+1] unless NULL */
static void make(struct capture *c, const char *op, const int *cuts)
{
	struct error e;

	*c = (struct capture){ 0 };
	assert_true(meta_set(&c->tensors, "etalon.op", op) && meta_set(&c->tensors, "etalon.params", "{}"));
	float *x = tensors_add(&c->tensors, "in.x", DT_F32, 2, (size_t[]){ T, D })->data;
	for (int i = 0; i < T * D; i++) x[i] = (float)(i * i % 23) + 0.5f;
	if (cuts) memcpy(tensors_add(&c->tensors, "in.cuts", DT_I32, 1, (size_t[]){ N + 1 })->data, cuts, (N + 1) * sizeof *cuts);
	assert_true(capture_bind(c, &e));
}

/* The formula for chunks of 3, the first one of `shorter` less, with quarter = scale x. */
static void by_hand(const float *x, const int *cuts, int shorter, double scale, double y[T][D], double z[T][D], double s[N][D])
{
	for (int n = 0; n < N; n++)
		for (int i = 0; i < D; i++) {
			double S = 0;
			for (int t = cuts[n]; t < cuts[n + 1]; t++) {
				int turn = (t - cuts[n] + shorter) / 3, first = cuts[n] + (turn ? 3 * turn - shorter : 0),
					last = cuts[n] + 3 * turn + 3 - shorter < cuts[n + 1] ? cuts[n] + 3 * turn + 3 - shorter : cuts[n + 1], size = last - first;
				double before = t > first && t - 1 != cuts[n] + 1 ? x[(t - 1) * D + i] : 0;
				double behind = t > first ? x[t * D + i] + x[(t - 1) * D + i] : 0, by_two = t > first + 1 ? x[(t - 2) * D + i] : 0;
				y[t][i] = S + ((t - cuts[n]) % 2 ? 100 : x[(T - 1 - t) * D + i]) + before + by_two;
				z[t][i] = scale * x[t * D + i] + 2 * x[(first + (size > 1)) * D + i] + (cuts[n + 1] - first < 3) + (t - first) % 2 + behind;
				if (t == first + size - 1) S += x[t * D + i];
			}
			s[n][i] = S;
		}
}

static void same(const double *a, const double *b, size_t n) { assert_memory_equal(a, b, n * sizeof *a); }

static void chunks_of_sequences(void **state)
{
	static const int cuts[][N + 1] = { { 0, 7, 7, 11 }, { 0, 1, 3, 11 }, { 0, 0, 11, 11 } };
	struct formula *f = sound("chunked.op", text);
	struct plan plan = plan_plain(&arith_f64, 0);
	struct error e;

	(void)state;
	op_add(formula_op(f));
	for (size_t k = 0; k < 3 * sizeof cuts / sizeof *cuts; k++) {
		double y[T][D], z[T][D], s[N][D];
		struct capture c;
		struct call call;
		struct answer a, part;
		plan.first_chunk = k % 3;
		make(&c, "chunked", cuts[k / 3]);
		if (!call_bind(&call, &c, false, &e)) fail_msg("%s: %s", e.file, e.detail);
		if (!ref_run(&call, &plan, &a, &e)) fail_msg("%s: %s", e.file, e.detail);
		by_hand(capture_in(&c, "x")->data, cuts[k / 3], plan.first_chunk ? 3 - (int)plan.first_chunk : 0, 0.25, y, z, s);
		same(a.hi[0], y[0], T * D), same(a.hi[1], z[0], T * D), same(a.hi[2], s[0], N * D);
		for (size_t n = 2; n <= 5; n++) {
			struct stream l = { .plan = plan };
			assert_true(answer_make(&part, call.out_count, false));
			for (size_t i = 0; i < n; i++) {
				struct strip strip = call_strip(&call, i, n);
				if (!ref_strip(&call, &l, i, n, &part, &e)) fail_msg("%s: %s", e.file, e.detail);
				for (int o = 0; o < 3; o++) same(part.hi[o], a.hi[o] + strip.first[o], strip.count[o]);
			}
			stream_end(&l);
			answer_free(&part);
		}
		answer_free(&a);
		capture_free(&c);
	}
}

/* A rounding at what only the second way reads makes it the one that is computed; a structure is a list of such. */
static void roundings_choose_the_way(void **state)
{
	struct formula *f = sound("chunked.op", text);
	const struct op *op = formula_op(f);
	const struct contract *k = &op->contracts[1];
	struct plan plan = plan_plain(&arith_f64, 0), of_a = plan;
	struct capture c;
	struct call call;
	struct answer a;
	struct error e;

	(void)state;
	assert_int_equal(contract_structures(k), 2);
	assert_string_equal(k->structures[1].name, "by_b");
	plan_structure(&of_a, k, 0);
	assert_true(of_a.round[op_site(op, "a")].on && !of_a.round[op_site(op, "b")].on && of_a.chunk == 3);
	op_add(op);
	make(&c, "chunked", (const int[]){ 0, 7, 7, 11 });
	assert_true(call_bind(&call, &c, false, &e));
	float *x = capture_in(&c, "x")->data;
	x[0] = 1 + 0x1p-9f;
	for (int way = 0; way < 2; way++) {
		assert_true(ref_run(&call, way ? &of_a : &plan, &a, &e));
		assert_true(a.hi[1][0] - 2 * x[D] == (way ? 0.25 : 0.25 * x[0]));
		answer_free(&a);
	}
	plan.faults = 1;
	assert_true(ref_run(&call, &plan, &a, &e));
	assert_true(a.hi[0][2 * D] == x[(T - 3) * D] + x[D] + x[0]);
	answer_free(&a);
	capture_free(&c);
}

/* Blocks of any size have one inverse, to the last bits of dd. */
static void inverses_in_blocks_agree(void **state)
{
	struct formula *f = sound("inverses.op", "op inverses\nin x [T, D]  cuts [C] integer ?\nout y [T, T]  z [D, T]\n"
		"A = tril(x x' * 0.01, -1)\na = inverse(I + A)\nb = inverse(I + A, 3, within)\nc = inverse(I + A, 16, alike)\n"
		"y[:, :] = maximum(abs(a - b), abs(a - c))\nz[:, :] = reshape(x, D, T)\n");
	struct plan plan = plan_plain(&arith_dd, arith_dd.precision);
	struct capture c;
	struct call call;
	struct answer a;
	struct error e;

	(void)state;
	assert_true(op_site(formula_op(f), "within") >= 0);
	op_add(formula_op(f));
	make(&c, "inverses", (const int[]){ 0, 0, 0, 0 });
	if (!call_bind(&call, &c, false, &e)) fail_msg("%s: %s", e.file, e.detail);
	for (int rounded = 0; rounded < 2; rounded++) {
		double most = 0;
		plan.round[op_site(call.op, "within")] = (struct site_rounding){ rounded, FMT_BF16, ROUND_NEAREST_EVEN };
		if (!ref_run(&call, &plan, &a, &e)) fail_msg("%s: %s", e.file, e.detail);
		for (size_t i = 0; i < T * T; i++) most = fmax(most, a.hi[0][i]);
		assert_true(rounded ? most > 1e-6 : most < 1e-24);
		for (size_t i = 0; i < T * D; i++) assert_true(a.hi[1][i] == ((const float *)capture_in(&c, "x")->data)[i]);
		answer_free(&a);
	}
	capture_free(&c);
}

/* What does not fit is refused where it stands; what is no cut point, when a call is bound. */
static void errors(void **state)
{
	static const struct { const char *line, *said; } broken[] = {
		{ "y[c, i] = element(3, 1)\n", "a column or a matrix as the first argument" }, { "y[c, i] = element(x[c, i], -1)\n", "a whole number" }, { "y[c, i] = shifted(3)\n", "a column or a matrix as the first argument" },
		{ "y[c, i] = shifted(x[c, i], 0.5)\n", "a whole number" }, { "y[c, i] = shifted(x[c, i], c)\n", "a whole number" },
		{ "y[c + 1, i] = x[c, i]\n", "where something is stored" }, { "y[c, i] = (c + 1) mod 2\n", "a number for each index of a chunk" },
		{ "y[c, i] = sum(reshape(x, 3, 5))\n", "as many elements" }, { "y[c, i] = inverse(I + x[c] x[c]', 0.5, q) x[c, i]\n", "blocks of 1 to 1024" },
		{ "y[c, i] = x[c, i] if c == 1 else x[:, i]\n", "one shape on both sides" },
	};
	char all[512];
	struct error e;

	(void)state;
	for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
		snprintf(all, sizeof all, "op f\nin x [T, D]\nout y [T, D]\neach i in D\nfor c in chunks of T by 3\n  %s", broken[i].line);
		if (formula_of_text("f.op", all, strlen(all), &e)) fail_msg("row %zu is taken", i);
		if (!strstr(e.detail, broken[i].said)) fail_msg("row %zu: %s", i, e.detail);
	}
	snprintf(all, sizeof all, "%s", "op f\nin x [T]\nout y [T]\neach t in T\ny[t] = x[t]\nstructure k of w: y bf16\n");
	assert_null(formula_of_text("f.op", all, strlen(all), &e));
	assert_non_null(strstr(e.detail, "a contract's name after 'of'"));
	struct formula *f = sound("chunked.op", text);
	struct capture c;
	struct call call;
	op_add(formula_op(f));
	make(&c, "chunked", (const int[]){ 0, 7, 6, 11 });
	assert_false(call_bind(&call, &c, false, &e));
	assert_non_null(strstr(e.detail, "not falling"));
	capture_free(&c);
}

/* From the last chunk, the short one, to the first. */
static void backwards(void **state)
{
	static const char source[] = "op reversed\nin x [T, D]\nout y [T, D]  z [T, D]\neach i in D\n"
		"for c in chunks of T by 3 backwards, S from 0\n  v = x[c, i]\n  S = S + last(v)\n  y[c, i] = S + v\n"
		"for d in chunks of 2:T by 1 backwards, R from 1\n  R = R * 0.5 + last(x[d, i])\n  z[d, i] = R\n"
		"for d in 0:2\n  z[d, i] = 0\ncontract f32\n";
	struct formula *f = sound("reversed.op", source);
	struct plan plan = plan_plain(&arith_f64, 0);
	struct capture c;
	struct call call;
	struct answer a;
	struct error e;

	(void)state;
	op_add(formula_op(f));
	make(&c, "reversed", NULL);
	assert_true(call_bind(&call, &c, false, &e) && ref_run(&call, &plan, &a, &e));
	const float *x = capture_in(&c, "x")->data;
	for (int i = 0; i < D; i++) {
		double S = 0, R = 1;
		for (int t = T - 1; t >= 0; t--) {
			if (t == T - 1 || t % 3 == 2) S += x[t * D + i];
			R = R * 0.5 + x[t * D + i];
			assert_true(a.hi[0][t * D + i] == S + x[t * D + i] && a.hi[1][t * D + i] == (t < 2 ? 0 : R));
		}
	}
	answer_free(&a);
	capture_free(&c);
}

/* What is picked by indices is picked by every kernel, however noisy its numbers: the row after, where it is of the same three; row (t + 1) / 2
 * of odd t. */
static void indices_are_the_same_in_every_algebra(void **state)
{
	static const char source[] = "op picked\nin x [T, D]\nout y [T, D]  z [T, D]\neach i in D\nfor c in chunks of T by 8\n  v = x[c, i]\n"
		"  of_three = floor((iota(c) - element(iota(c), 0)) / 3)\n  after = iota(c) + 1\n"
		"  y[c, i] = sum(where(of_three == of_three', where(after == iota(c)', v', 0), 0))\n"
		"  z[c, i] = sum(where(iota(c) == 2 * iota(c)' - 1, v', 0))\ncontract f32\n";
	struct plan plan = plan_plain(&arith_noisy_all, arith_noisy_all.precision);
	struct capture c;
	struct call call;
	struct answer a;
	struct error e;

	(void)state;
	op_add(formula_op(sound("picked.op", source)));
	make(&c, "picked", NULL);
	assert_true(call_bind(&call, &c, false, &e));
	const float *x = capture_in(&c, "x")->data;
	for (plan.seed = 1; plan.seed <= 8; plan.seed++) {
		if (!ref_run(&call, &plan, &a, &e)) fail_msg("%s: %s", e.file, e.detail);
		for (int t = 0; t < T; t++)
			for (int i = 0; i < D; i++) {
				int first = t / 8 * 8, end = first + 8 < T ? first + 8 : T, half = (t + 1) / 2;
				assert_true(a.hi[0][t * D + i] == (t + 1 < end && (t - first) % 3 < 2 ? x[(t + 1) * D + i] : 0));
				assert_true(a.hi[1][t * D + i] == (t % 2 && half >= first ? x[half * D + i] : 0));
			}
		answer_free(&a);
	}
	capture_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chunks_of_sequences), cmocka_unit_test(roundings_choose_the_way), cmocka_unit_test(inverses_in_blocks_agree),
		cmocka_unit_test(backwards), cmocka_unit_test(indices_are_the_same_in_every_algebra), cmocka_unit_test(errors)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
