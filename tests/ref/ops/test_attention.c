#include <math.h>
#include <string.h>

#include "tests/witness.h"

#define OP "attention"
#define LEN(a) (sizeof(a) / sizeof *(a))

/* A call, and what it asks for in numbers of the witness's own. */
struct asked { struct sample s; bool causal; size_t window, keys, page; double scale, softcap; };

static const struct asked all[] = {
	{ { OP, "{\"causal\": true}", "in.q F32 9,4,5 ~0,2; in.k F32 150,2,5 ~0,1; in.v F32 150,2,3 ~0,1; out.lse F32 4,9" }, true, 0, 150, 1, 0, 0 },
	{ { OP, "{\"scale\": 0.7}", "in.q F32 6,6,4 ~0,1; in.k F32 70,3,4 ~0,1; in.v F32 70,3,7 ~0,1; out.lse F32 6,6" }, false, 0, 70, 1, 0.7, 0 },
	{ { OP, "{\"causal\": true, \"window\": 71}", "in.q BF16 90,2,4 ~0,1; in.k BF16 140,1,4 ~0,2; in.v BF16 140,1,4 ~0,1; out.lse F32 2,90" }, true, 71, 140, 1, 0, 0 },
	{ { OP, "{\"window\": 5}", "in.q BF16 20,2,4 ~0,1; in.k BF16 24,2,4 ~0,2; in.v BF16 24,2,4 ~0,1; out.lse F32 2,20" }, false, 5, 24, 1, 0, 0 },
	{ { OP, "{\"causal\": true, \"softcap\": 3, \"keys\": 90}", "in.q F32 8,2,4 ~0,3; in.k F32 95,1,4 ~0,2; in.v F32 95,1,1 ~0,1; out.lse F32 2,8" },
		true, 0, 90, 1, 0, 3 },
	{ { OP, "{}", "in.q F32 4,4,4 ~0,1; in.k F32 150,2,4 ~0,1; in.v F32 150,2,2 ~0,1; in.sinks F32 4 ~4,1; out.lse F32 4,4" }, false, 0, 150, 1, 0, 0 },
	{ { OP, "{\"causal\": true, \"keys\": 37, \"page\": 8}", "in.q F32 5,2,4 ~0,1; in.k F32 72,2,4 ~0,1; in.v F32 72,2,2 ~0,1; in.pages I32 1,5 =7,0,2,6,3;"
		"out.lse F32 2,5" }, true, 0, 37, 8, 0, 0 },
	{ { OP, "{\"causal\": true}", "in.q F8_E4M3 6,6,4 ~0,20; in.k F8_E4M3 80,3,4 ~0,20; in.v F8_E4M3 80,3,4 ~0,20; in.q_descale F32 3 ~0.06,0.01;"
		"in.k_descale F32 3 ~0.05,0.01; in.v_descale F32 3 ~0.04,0.01; out.lse F32 6,6" }, true, 0, 80, 1, 0, 0 },
	{ { OP, "{\"causal\": true}", "in.q F32 9,2,4 ~0,2; in.k F32 70,1,4 ~0,1; in.v F32 70,1,2 ~0,1; in.cu_seqlens I32 4 =0,5,5,9; in.cu_keys I32 4 =0,40,47,70;"
		"out.lse F32 2,9" }, true, 0, 0, 1, 0, 0 },
	{ { OP, "{\"window\": 11, \"page\": 8}", "in.q F32 9,2,4 ~0,2; in.k F32 72,1,4 ~0,1; in.v F32 72,1,2 ~0,1; in.cu_seqlens I32 3 =0,5,9; in.cu_keys I32 3 =0,37,52;"
		"in.pages I32 2,5 =7,0,2,6,3,8,1,0,0,0; out.lse F32 2,9" }, false, 11, 0, 8, 0, 0 },
	{ { OP, "{\"causal\": true}", "in.q F32 9,2,4 ~0,1; in.k F32 9,2,4 ~0,1; in.v F32 9,2,3 ~0,1; out.lse F32 2,9" }, true, 0, 9, 1, 0, 0 },
};

static double given(const struct capture *c, const char *name, size_t i, double absent)
{
	char full[32];

	snprintf(full, sizeof full, "in.%s", name);
	return capture_in(c, name) ? at(c, full, i) : absent;
}

/* The sequence of query t. */
static size_t sequence_of(const struct capture *c, size_t t)
{
	size_t n = 0;

	while (capture_in(c, "cu_seqlens") && (size_t)at(c, "in.cu_seqlens", n + 1) <= t) n++;
	return n;
}

/* o [T,Hq,Dv] and lse [Hq,T] from the definition: Σ e^s v / Σ e^s of all keys that are visible, with nothing taken off the exponents. */
static void by_definition(const struct asked *a, const struct capture *c, long double *o, long double *lse)
{
	size_t T = extent(c, "in.q", 0), H = extent(c, "in.q", 1), D = extent(c, "in.q", 2), G = extent(c, "in.k", 1), V = extent(c, "in.v", 2);

	for (size_t t = 0; t < T; t++)
		for (size_t h = 0; h < H; h++) {
			bool ragged = capture_in(c, "cu_keys");
			size_t g = h * G / H, n = sequence_of(c, t), first = ragged ? (size_t)at(c, "in.cu_keys", n) : 0;
			size_t keys = ragged ? (size_t)at(c, "in.cu_keys", n + 1) - first : a->keys, end = ragged ? (size_t)at(c, "in.cu_seqlens", n + 1) : T;
			size_t place = t + keys - end, table = capture_in(c, "pages") ? n * extent(c, "in.pages", 1) : 0;
			long double sum = capture_in(c, "sinks") ? expl(at(c, "in.sinks", h)) : 0, *out = o + (t * H + h) * V;
			long double unit = (a->scale != 0 ? a->scale : 1 / sqrtl((long double)D)) * (long double)given(c, "q_descale", g, 1) * given(c, "k_descale", g, 1);
			for (size_t d = 0; d < V; d++) out[d] = 0;
			for (size_t i = 0; i < keys; i++) {
				bool late = i > place, far = a->window && (late ? i - place : place - i) >= a->window;
				if ((a->causal && late) || far) continue;
				size_t row = capture_in(c, "pages") ? (size_t)at(c, "in.pages", table + i / a->page) * a->page + i % a->page : first + i;
				long double s = 0;
				for (size_t d = 0; d < D; d++) s += (long double)at(c, "in.q", (t * H + h) * D + d) * at(c, "in.k", (row * G + g) * D + d);
				s *= unit;
				if (a->softcap != 0) s = a->softcap * tanhl(s / a->softcap);
				long double e = expl(s);
				sum += e;
				for (size_t d = 0; d < V; d++) out[d] += e * at(c, "in.v", (row * G + g) * V + d);
			}
			for (size_t d = 0; d < V; d++) out[d] *= given(c, "v_descale", g, 1) / sum;
			lse[h * T + t] = logl(sum);
		}
}

static void close_to(const double *hi, const double *lo, const long double *x, size_t n)
{
	long double largest = 0;

	for (size_t i = 0; i < n; i++) largest = fmaxl(largest, fabsl(x[i]));
	for (size_t i = 0; i < n; i++)
		if (!(fabsl((long double)hi[i] + lo[i] - x[i]) <= 0x1p-56L * largest)) fail_msg("%zu: %.20Lg, not %.20Lg", i, (long double)hi[i] + lo[i], x[i]);
}

static void equals_the_definition(void **state)
{
	(void)state;
	for (size_t k = 0; k < LEN(all); k++) {
		static long double o[4096], lse[1024];
		struct capture c;
		struct outcome r;
		made(&c, &all[k].s, 31 + k);
		run_in(&r, &c, "dd");
		by_definition(&all[k], &c, o, lse);
		close_to(r.a.hi[0], r.a.lo[0], o, r.call.out_count[0]);
		close_to(r.a.hi[1], r.a.lo[1], lse, r.call.out_count[1]);
		outcome_free(&r);
		capture_free(&c);
	}
}

/* Whatever the form, the size of its blocks and the way that a sum is written, which a rounding (to f64) at its site chooses. */
static void forms_agree(void **state)
{
	static const size_t sizes[] = { 16, 32, 64, 128 };
	static const char *const ways[] = { "k_scaled", "p_scaled", "p_normalised" };
	const struct op *op = op_find(OP);

	(void)state;
	for (size_t k = 0; k < LEN(all); k++) {
		struct capture c;
		struct outcome plain, r;
		made(&c, &all[k].s, 3);
		run_in(&plain, &c, "dd");
		for (int form = 0; form < MAX_FORM && op->forms[form].name; form++)
			for (size_t i = 0; i < LEN(sizes); i++) {
				struct plan p = plan_in("dd");
				int site = op_site(op, ways[i % LEN(ways)]);
				p.form = form;
				p.chunk = sizes[i];
				p.round[site] = (struct site_rounding){ true, FMT_F64, ROUND_NEAREST_EVEN };
				run_plan(&r, &c, &p);
				assert_true(distance(&plain, &r) <= (site_in_form(op, site, form) ? 0x1p-48 : 0x1p-92));
				outcome_free(&r);
			}
		outcome_free(&plain);
		capture_free(&c);
	}
}

/* ---- faults and sites ---- */
static void first_descale(struct capture *c)
{
	for (size_t i = 1; i < 3; i++) {
		put(c, "in.q_descale", i, at(c, "in.q_descale", 0));
		put(c, "in.k_descale", i, at(c, "in.k_descale", 0));
		put(c, "in.v_descale", i, at(c, "in.v_descale", 0));
	}
}
static void unit_v(struct capture *c) { put_all(c, "in.v_descale", 1); }
static void unit_k(struct capture *c) { put_all(c, "in.k_descale", 1); }
static void unit_q(struct capture *c) { put_all(c, "in.q_descale", 1); }
static void no_sink(struct capture *c) { put_all(c, "in.sinks", -1e6); }
static void in_order(struct capture *c)
{
	for (size_t i = 0; i < 5; i++) put(c, "in.pages", i, (double)i);
}
/* Pages 7, 0, 2, 6, 3 of 8 rows in 72, each second one behind the one before it. */
static void in_pairs(struct capture *c)
{
	static const double page[] = { 7, 8, 2, 3, 3 };

	for (size_t i = 0; i < 5; i++) put(c, "in.pages", i, page[i]);
}
/* Query heads 0 1 2 3 4 5 read key heads 0 1 2 0 1 2 of three. */
/* Keys 0 to 6 and 0 to 22 of 70 for 40 to 46 and 47 to 69. */
static void first_keys(struct capture *c)
{
	static const char *const names[] = { "in.k", "in.v" };
	static const size_t width[] = { 4, 2 };

	for (size_t x = 0; x < 2; x++)
		for (size_t i = 70; i-- > 40;)
			for (size_t d = 0; d < width[x]; d++) put(c, names[x], i * width[x] + d, at(c, names[x], (i < 47 ? i - 40 : i - 47) * width[x] + d));
}
static void tiled(struct capture *c)
{
	static const size_t from[] = { 0, 3, 1, 4, 2, 5 };
	double old[6][4];

	for (size_t t = 0; t < 6; t++) {
		for (size_t h = 0; h < 6; h++)
			for (size_t d = 0; d < 4; d++) old[h][d] = at(c, "in.q", (t * 6 + from[h]) * 4 + d);
		for (size_t h = 0; h < 6; h++)
			for (size_t d = 0; d < 4; d++) put(c, "in.q", (t * 6 + h) * 4 + d, old[h][d]);
	}
}

/* Head h of the call with its queries in the order of `tiled` is head from[h] of the faulty one. */
static void heads_are_tiled(void **state)
{
	static const size_t from[] = { 0, 3, 1, 4, 2, 5 };
	struct plan with = plan_in("f64"), without = with;
	struct capture c;
	struct outcome faulty, right;

	(void)state;
	made(&c, &all[1].s, 4);
	plan_fault(&with, op_find(OP), op_fault(op_find(OP), "head_map_tiled"));
	run_plan(&faulty, &c, &with);
	tiled(&c);
	without.chunk = with.chunk;
	run_plan(&right, &c, &without);
	for (size_t i = 0; i < 6 * 6 * 7; i++)
		assert_true(right.a.hi[0][i] == faulty.a.hi[0][(i / 42 * 6 + from[i / 7 % 6]) * 7 + i % 7]);
	outcome_free(&faulty), outcome_free(&right);
	capture_free(&c);
}

static const struct same_as same[] = {
	{ "causal_missing", &all[0].s, "{}", NULL, NULL },
	{ "window_missing", &all[2].s, "{\"causal\": true}", NULL, NULL },
	{ "window_plus_one", &all[2].s, "{\"causal\": true, \"window\": 72}", NULL, NULL },
	{ "window_minus_one", &all[2].s, "{\"causal\": true, \"window\": 70}", NULL, NULL },
	{ "scale_missing", &all[1].s, "{\"scale\": 1}", NULL, NULL },
	{ "scale_from_dv", &all[4].s, "{\"causal\": true, \"softcap\": 3, \"keys\": 90, \"scale\": 1}", NULL, NULL },
	{ "softcap_missing", &all[4].s, "{\"causal\": true, \"keys\": 90}", NULL, NULL },
	{ "sink_missing", &all[5].s, NULL, no_sink, NULL },
	{ "q_descale_missing", &all[7].s, NULL, unit_q, NULL },
	{ "k_descale_missing", &all[7].s, NULL, unit_k, NULL },
	{ "v_descale_missing", &all[7].s, NULL, unit_v, NULL },
	{ "descale_of_first_head", &all[7].s, NULL, first_descale, NULL },
	{ "pages_in_order", &all[6].s, NULL, in_order, NULL },
	{ "page_pair_adjacent", &all[6].s, NULL, in_pairs, NULL },
	{ "keys_of_first_sequence", &all[8].s, NULL, first_keys, NULL },
};

static void faults(void **state)
{
	struct sample s[LEN(all)];

	(void)state;
	for (size_t k = 0; k < LEN(all); k++) s[k] = all[k].s;
	faults_are(same, LEN(same));
	faults_show(s, LEN(s));
}

static void sites(void **state)
{
	struct sample s[] = { all[0].s, all[7].s };

	(void)state;
	sites_show(s, LEN(s), 32);
}

static void refusals(void **state)
{
	static const struct { const char *params, *tensors, *said; } bad[] = {
		{ "{}", "in.q F32 2,3,4; in.k F32 5,2,4; in.v F32 5,2,4", "Hq a multiple of Hk" },
		{ "{\"causal\": true}", "in.q F32 6,2,4; in.k F32 5,2,4; in.v F32 5,2,4", "a key for each query" },
		{ "{\"window\": 2.5}", "in.q F32 2,2,4; in.k F32 5,2,4; in.v F32 5,2,4", "window, a whole number" },
		{ "{\"keys\": 6}", "in.q F32 2,2,4; in.k F32 5,2,4; in.v F32 5,2,4", "at most as many keys as in.k has rows" },
		{ "{\"keys\": 9, \"page\": 4}", "in.q F32 2,2,4; in.k F32 8,2,4; in.v F32 8,2,4; in.pages I32 1,2", "at most as many keys as in.pages names" },
		{ "{\"causal\": true}", "in.q F32 5,2,4; in.k F32 9,2,4; in.v F32 9,2,4; in.cu_seqlens I32 3 =0,3,5; in.cu_keys I32 3 =0,2,9", "a key for each query" },
		{ "{}", "in.q F32 5,2,4; in.k F32 9,2,4; in.v F32 9,2,4; in.cu_seqlens I32 3 =0,3,5; in.cu_keys I32 3 =0,4,10", "at most as many keys as in.k has rows" },
		{ "{}", "in.q F32 5,2,4; in.k F32 9,2,4; in.v F32 9,2,4; in.cu_seqlens I32 3 =0,3,5; in.cu_keys I32 3 =0,4,4", "a key where there are queries" },
		{ "{\"keys\": 0}", "in.q F32 2,2,4; in.k F32 5,2,4; in.v F32 5,2,4", "keys, a whole number of 1 or more" },
	};

	(void)state;
	for (size_t k = 0; k < LEN(bad); k++) {
		struct sample s = { OP, bad[k].params, bad[k].tensors };
		struct capture c;
		struct call call;
		struct error e = { 0 };
		made(&c, &s, 1);
		assert_false(call_bind(&call, &c, false, &e));
		if (e.code != E_VALUE) fail_msg("%s: %s", bad[k].said, e.detail);
		if (!strstr(e.detail, bad[k].said)) fail_msg("%s", e.detail);
		capture_free(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_the_definition), cmocka_unit_test(forms_agree), cmocka_unit_test(heads_are_tiled),
		cmocka_unit_test(faults), cmocka_unit_test(sites), cmocka_unit_test(refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
