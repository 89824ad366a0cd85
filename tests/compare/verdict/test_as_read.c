/* A correct kernel whose rounding no known structure of its contract has, and at which noise without it is too small: what is read of it counts. */
#include "compare/truth/yardstick.h"
#include "own_capture.h"

enum { T = 70, DK = 48, DV = 16 };
struct numbers { float q[T * DK], k[T * DK], v[T * DV], g[T], beta[T]; };

static void put_inputs(struct capture *c, const struct numbers *x, const char *params, const float *q, enum dtype of_q)
{
	begin(c, "gated_delta_rule", params);
	put(c, "in.q", of_q, SHAPE(T, 1, DK), q);
	put(c, "in.k", DT_BF16, SHAPE(T, 1, DK), x->k);
	put(c, "in.v", DT_BF16, SHAPE(T, 1, DV), x->v);
	put(c, "in.g", DT_F32, SHAPE(T, 1), x->g);
	put(c, "in.beta", DT_F32, SHAPE(T, 1), x->beta);
}

static float out_at(const struct capture *c, const char *name, size_t i)
{
	const struct tensor *t = capture_out(c, name);
	double x;

	dtype_load(t->dtype, (const char *)t->data + i * dtype_info[t->dtype].size, 1, &x);
	return (float)x;
}

/* The first token's query and key are orthogonal, but for bf16. The kernel scales q, rounds it, and is this contract's first structure from then on: the reference with that q and no scale. */
static void q_scaled_in_bf16(struct capture *c, const char *contract, const char *fault, float slip)
{
	static struct numbers x;
	float q[T * DK], o[T * DV], final_state[DK * DV], qk = 0, kk = 0;
	const struct op *op = op_find("gated_delta_rule");
	struct plan p = plan_plain(&arith_f32, 24);
	struct capture scaled;

	dice = 4;
	for (size_t i = 0; i < T * DK; i++) x.q[i] = in_type(DT_BF16, normal(0.15f)), x.k[i] = in_type(DT_BF16, normal(0.15f));
	for (size_t i = 0; i < DK; i++) qk += x.q[i] * x.k[i], kk += x.k[i] * x.k[i];
	for (size_t i = 0; i < DK; i++) x.q[i] = in_type(DT_BF16, x.q[i] - qk / kk * x.k[i]);
	for (size_t i = 0; i < T * DV; i++) x.v[i] = in_type(DT_BF16, normal(1));
	for (size_t i = 0; i < T; i++) x.g[i] = uniform(-0.1f, 0), x.beta[i] = uniform(0, 1);
	for (size_t i = 0; i < T * DK; i++) q[i] = in_type(DT_BF16, x.q[i] * (1 / sqrtf(DK)));
	put_inputs(&scaled, &x, "{\"scale\": 1}", q, DT_F32);
	for (size_t i = 0; i < T * DV; i++) o[i] = 0;
	put(&scaled, "out.o", DT_BF16, SHAPE(T, 1, DV), o);
	put(&scaled, "out.final_state", DT_F32, SHAPE(1, 1, DK, DV), o);
	plan_structure(&p, contract_of("gated_delta_rule", contract), 0);
	if (fault) plan_fault(&p, op, op_fault(op, fault));
	struct error e;
	no_error(capture_bind(&scaled, &e), &e);
	answer_by(&scaled, &p);
	put_inputs(c, &x, "{}", x.q, DT_BF16);
	for (size_t i = 0; i < T * DV; i++) o[i] = out_at(&scaled, "o", i) * (i / DV == 40 ? 1 + slip : 1);
	for (size_t i = 0; i < DK * DV; i++) final_state[i] = out_at(&scaled, "final_state", i);
	put(c, "out.o", DT_BF16, SHAPE(T, 1, DV), o);
	put(c, "out.final_state", DT_F32, SHAPE(1, 1, DK, DV), final_state);
	capture_free(&scaled);
}

static void what_is_read_counts(void **state)
{
	static const char *const contracts[] = { "bf16_operands", "auto" };
	struct capture c;

	(void)state;
	q_scaled_in_bf16(&c, "bf16_operands", NULL, 0);
	judged_as(&c, "bf16_operands", false, true, "q scaled in bf16, by rules alone", 0);
	for (int i = 0; i < 2; i++) {
		q_scaled_in_bf16(&c, "bf16_operands", NULL, 0);
		judged_as(&c, contracts[i], true, false, "q scaled in bf16", i);
	}
}

/* Not under a contract that does not allow it. */
static void what_is_forbidden_does_not_count(void **state)
{
	struct capture c;

	(void)state;
	q_scaled_in_bf16(&c, "chunk_f32", NULL, 0);
	judged_as(&c, "chunk_f32", false, false, "q scaled in bf16, all else float32", 0);
}

/* Its answer raises sigma where it is further off, but not where most rows are, or one of five. */
static void what_is_far_off_as_a_whole_does_not_count(void **state)
{
	double *read[MAX_OUT] = { NULL }, sigma[4] = { 0 };
	struct yardstick y;
	struct capture c;
	struct call call;
	struct error e;

	(void)state;
	q_scaled_in_bf16(&c, "bf16_operands", NULL, 0);
	no_error(capture_bind(&c, &e) && call_bind(&call, &c, true, &e) && yardstick_make(&y, &call, &(struct yardstick_of){ .truth = "f64" }, NULL, &e), &e);
	for (int kind = 0; kind < 4; kind++) {
		no_error(yardstick_refresh(&y, &call, 0, false, &e), &e);
		const struct expected *x = yardstick_under(&y, &call, contract_of("gated_delta_rule", "bf16_operands"), false, &e);
		assert_non_null(x);
		sigma[kind] = x->sigma[0][40 * DV];
		for (int o = 0; o < MAX_OUT && kind < 3; o++) {
			if (!call.out_count[o]) continue;
			if (!read[o]) assert_non_null(read[o] = malloc(call.out_count[o] * sizeof **read));
			for (size_t i = 0; i < call.out_count[o]; i++) {
				const size_t row = i / DV;
				const bool far = kind == 1 || (kind ? row % 5 == 0 : row == 40);
				read[o][i] = y.truth.first.hi[o][i] + (far ? 10 * x->upstream[o][i] : 0);
			}
		}
		yardstick_read(&y, read);
	}
	assert_true(sigma[1] > 5 * sigma[0]);
	assert_true(sigma[2] == sigma[0]);
	assert_true(sigma[3] == sigma[0]);
	for (int o = 0; o < MAX_OUT; o++) free(read[o]);
	yardstick_free(&y);
	capture_free(&c);
}

/* xLSTM's chunks (tests/ops/mlstm.op; answered in NumPy, float32, operands rounded to bf16): of a first token P / sum(P) is 1 where both are P as the contract rounds it,
 * and is bf16(P) / sum(P) in a kernel that rounds the product's operand alone. In 23 of 192 rows that is all the error there is. */
static void what_the_contract_has_exactly(void **state)
{
	struct capture c;
	struct error e;

	(void)state;
	op_added_from("tests/ops/mlstm.op");
	for (int quick = 0; quick < 2; quick++) {
		no_error(capture_read(&c, "fixtures/readings/mlstm.numpy_chunk.safetensors", &e), &e);
		judged_as(&c, "bf16_operands", !quick, quick, "P rounded where it is multiplied", quick);
	}
}

/* And no error beside it, and no fault. */
static void what_is_wrong_beside_it_fails(void **state)
{
	struct capture c;

	(void)state;
	q_scaled_in_bf16(&c, "bf16_operands", NULL, 0.1f);
	judged_as(&c, "bf16_operands", false, false, "a token that is 10 % too large", 0);
	q_scaled_in_bf16(&c, "bf16_operands", "read_before_update", 0);
	judged_as(&c, "bf16_operands", false, false, "a fault", 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(what_is_read_counts), cmocka_unit_test(what_is_forbidden_does_not_count),
		cmocka_unit_test(what_is_far_off_as_a_whole_does_not_count),
		cmocka_unit_test(what_the_contract_has_exactly), cmocka_unit_test(what_is_wrong_beside_it_fails) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
