/* What a formula may do with tables: branches, rows that only a run knows, numbers of ranges, another op's statements. Against the same
 * in plain C, on tests/ops/slots.op. */
#include <math.h>
#include <string.h>

#include "ref/formula/formula.h"
#include "tests/kernel_model.h"

enum { T = 6, P = 4, H = 2, D = 5, WIDE = H + 4 };
static const int reads[T] = { 0, 1, 1, 3, 1, 0 }, writes[T] = { 1, 1, 2, -1, 0, 3 };

static struct formula *slots(void)
{
	struct error e;
	struct formula *f = formula_read("tests/ops/slots.op", &e);

	if (!f) fail_msg("%s: %s", e.file, e.detail);
	return f;
}

static int count_of(int t) { int n = 0; for (int i = 0; i < t; i++) n += reads[i] == reads[t]; return n; }
static int writer_of(int t) { int at = t - 1; while (at >= 0 && writes[at] != reads[t]) at--; return at; }
static int reader_of(int t) { int at = writer_of(t) + 1; while (at < t && reads[at] != reads[t]) at++; return at; }
static int mixed_of(int t) { int n = 0; for (int i = 0; i < t; i++) n = writes[i] >= 0 ? (3 * n + writes[i]) % 101 : n; return n; }

/* mean: of the squares, else their sum; own: a token reads where it writes; bf16: the mean square is rounded. */
static void plain(const struct capture *c, bool mean, bool own, bool bf16, double y[T][WIDE], double pool[P][H][D])
{
	for (int i = 0; i < P * H * D; i++) pool[i / (H * D)][i / D % H][i % D] = get(capture_in(c, "table"), (size_t)i);
	for (int t = 0; t < T; t++) {
		double made[H][D];
		int slot = own && writes[t] >= 0 ? writes[t] : reads[t];
		for (int h = 0; h < H; h++) {
			double m = 0;
			for (int j = 0; j < D; j++) m += pool[slot][h][j] * pool[slot][h][j];
			if (mean) m /= D;
			if (bf16) format_round_all(FMT_BF16, ROUND_NEAREST_EVEN, &m, 1);
			y[t][h] = 0;
			for (int j = 0; j < D; j++) {
				double w = get(capture_in(c, "weight"), (size_t)j), x = get(capture_in(c, "x"), (size_t)(t * D + j));
				y[t][h] += made[h][j] = pool[slot][h][j] / sqrt(m + 1e-6) * w + x;
			}
		}
		if (writes[t] >= 0) memcpy(pool[writes[t]], made, sizeof made);
		y[t][H] = count_of(t), y[t][H + 1] = writer_of(t), y[t][H + 2] = reader_of(t), y[t][H + 3] = mixed_of(t);
	}
}

static void agrees(const struct capture *c, struct plan p, bool mean, bool own, bool bf16)
{
	double y[T][WIDE], pool[P][H][D];
	struct call call;
	struct answer a;
	struct error e;

	plain(c, mean, own, bf16, y, pool);
	no_error(call_bind(&call, c, false, &e), &e);
	no_error(ref_run(&call, &p, &a, &e), &e);
	for (int i = 0; i < T * WIDE; i++) assert_true(fabs(a.hi[0][i] - y[i / WIDE][i % WIDE]) < 1e-13);
	for (int i = 0; i < P * H * D; i++) assert_true(fabs(a.hi[1][i] - pool[i / (H * D)][i / D % H][i % D]) < 1e-13);
	answer_free(&a);
}

static void made(struct capture *c)
{
	struct error e;

	no_error(case_make(c, op_case(op_find("slots"), "plain"), 3, false, &e), &e);
}

static void it_is_what_plain_c_makes(void **state)
{
	struct plan p = plan_plain(&arith_dd, arith_dd.precision);
	struct capture c;

	(void)state;
	made(&c);
	const struct op *op = op_find("slots");
	agrees(&c, p, true, false, false);
	plan_fault(&p, op, op_fault(op, "squares_summed"));
	agrees(&c, p, false, false, false);
	p = plan_plain(&arith_dd, arith_dd.precision);
	plan_fault(&p, op, op_fault(op, "read_from_writer"));
	agrees(&c, p, true, true, false);
	p = plan_plain(&arith_dd, arith_dd.precision);
	p.round[op_site(op, "mean_square")] = (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
	agrees(&c, p, true, false, true);
	capture_free(&c);
}

static void a_wrong_element_has_its_place(void **state)
{
	struct capture c;
	struct call call;
	struct error e;

	(void)state;
	made(&c);
	set((struct tensor *)(uintptr_t)capture_in(&c, "write"), 4, 4);
	assert_false(call_bind(&call, &c, false, &e));
	assert_int_equal(e.code, E_VALUE);
	assert_string_equal(e.item, "in.write");
	assert_non_null(strstr(e.detail, "-1 .. P-1; element 4 is 4"));
	capture_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(it_is_what_plain_c_makes), cmocka_unit_test(a_wrong_element_has_its_place) };
	struct formula *f = slots();

	op_add(formula_op(f));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
