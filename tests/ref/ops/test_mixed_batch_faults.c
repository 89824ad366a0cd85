/* The faults of mixed_batch are plain runs over other tables; and tables that cannot be are refused. */
#include <string.h>

#include "tests/ref/ops/mixed_batch_samples.h"

#define LEN(a) (sizeof(a) / sizeof *(a))

/* ---- what each fault is ---- */
struct entry { const char *tensor; size_t i; double x; };

static void put_entries(struct capture *c, const struct entry *list, size_t n)
{
	for (size_t k = 0; k < n; k++) put(c, list[k].tensor, list[k].i, list[k].x);
}

#define EDIT(name, ...) static void name(struct capture *c) \
	{ static const struct entry list[] = { __VA_ARGS__ }; put_entries(c, list, LEN(list)); }
#define READ(row, slot) { "in.read_slot", row, slot }
#define WRITE(token, slot) { "in.write_slot", token, slot }
#define KIND(row, kind) { "in.kinds", row, kind }

EDIT(first_row_pads, KIND(0, 3), READ(0, -1), WRITE(0, -1))
EDIT(fresh_rows_read, READ(3, 2), READ(4, 3))
EDIT(one_token_reads, READ(4, 3))
EDIT(decodes_write_nowhere, WRITE(0, -1), WRITE(1, -1), WRITE(6, -1), WRITE(7, -1), WRITE(13, -1), WRITE(14, -1),
	WRITE(15, -1))
EDIT(slots_of_the_first_step, READ(5, 0), WRITE(6, 0), READ(6, 1), WRITE(7, 1), READ(10, 0), WRITE(13, 0), READ(11, 1), WRITE(14, 1),
	READ(12, -1), WRITE(15, -1))
EDIT(checkpoint_is_written, WRITE(7, 2), WRITE(10, 2), READ(11, 2), WRITE(14, 2))
EDIT(checkpoint_is_later, READ(8, 4))
EDIT(second_draft, READ(10, 7))
EDIT(forks_write, WRITE(7, 5), WRITE(8, 5), READ(7, 5), WRITE(9, 5), WRITE(15, 5), WRITE(17, 5),
	WRITE(18, 0), READ(16, 5), WRITE(19, 5), READ(17, 5))
EDIT(forks_are_later, READ(6, 6), READ(12, 6), READ(15, 3))
EDIT(next_drafts, READ(1, 1), READ(3, 4), READ(9, 8))
EDIT(prefills_write_first, WRITE(4, 0), WRITE(5, 0))

/* Rows are steps of their own, so that slots may be what no sound step has. */
#define ALONE TENSORS("16", "9", "3") "in.steps I32 14 =0,1,2,3,4,5,6,7,8,9,10,11,12,13;" BUSY_ROWS BUSY_POSITIONS
/* Each step's rows are one, cut where a padding row stands between them and handed on through slot 8. */
#define ONE_SEQUENCE TENSORS("16", "9", "3") "in.steps I32 8 =0,1,2,3,4,5,6,7; in.cu_seqlens I64 8 =0,2,3,6,8,9,13,16;" \
	"in.kinds I32 7 =1,3,1,1,3,1,1; in.read_slot I32 7 =0,-1,8,1,-1,2,6;" \
	"in.write_slot I64 16 =-1,8,-1,-1,-1,0,-1,1,-1,-1,-1,-1,5,-1,-1,6; in.position I32 7 =4,0,6,4,0,2,6"

static void each_is_another_table(void **state)
{
	static const struct same_as list[] = {
		{ "slot_zero_means_pad", &busy, NULL, first_row_pads, NULL },
		{ "slot_not_zeroed_on_reuse", &busy, NULL, fresh_rows_read, NULL },
		{ "one_token_prefill_taken_for_decode", &busy, NULL, one_token_reads, NULL },
		{ "state_written_to_a_copy", &busy, NULL, decodes_write_nowhere, NULL },
		{ "stale_slot_table_in_graph", &busy, NULL, slots_of_the_first_step, NULL },
		{ "checkpoint_shared_not_copied", &busy, NULL, checkpoint_is_written, ALONE },
		{ "checkpoint_at_wrong_boundary", &busy, NULL, checkpoint_is_later, NULL },
		{ "accepted_row_off_by_one", &busy, NULL, second_draft, ALONE },
		{ "checkpoint_shared_not_copied", &again, NULL, forks_write, NULL },
		{ "checkpoint_at_wrong_boundary", &again, NULL, forks_are_later, NULL },
		{ "accepted_row_off_by_one", &again, NULL, next_drafts, NULL },
		{ "prefill_overwrites_decode_slot", &busy, NULL, prefills_write_first, ALONE },
	};

	(void)state;
	faults_are(list, LEN(list));
}

static void a_step_is_one_sequence(void **state)
{
	static const struct sample one = { OP, "{}", ONE_SEQUENCE };
	struct plan p = plan_in("mpfr:128");
	struct capture a, b;
	struct outcome plain, faulty;

	(void)state;
	made(&a, &busy, 7);
	made(&b, &one, 7);
	run_plan(&plain, &b, &p);
	plan_fault(&p, op_find(OP), op_fault(op_find(OP), "all_tokens_use_first_slot"));
	run_plan(&faulty, &a, &p);
	assert_true(distance_of(&plain, &faulty, 0) <= 0x1p-100);
	for (int i = 1; i < 3; i++)
		for (size_t j = 0, n = faulty.call.out_count[i] / 9; j < 8 * n; j++) assert_true(faulty.a.hi[i][j] == plain.a.hi[i][j]);
	outcome_free(&plain);
	outcome_free(&faulty);
	capture_free(&a);
	capture_free(&b);
}

/* Two rows that run at once from slots as they were are two steps, of which the first writes a slot that the second does
 * not read. slot[i] of the faulty run is to hold what slot[i] of the plain one does. */
#define TWO_ROWS(steps, kinds, read, write) { OP, "{}", TENSORS("2", "3", "3") "in.steps I32 " steps "; in.cu_seqlens I32 3 =0,1,2;" \
	"in.kinds I32 2 =" kinds "; in.read_slot I32 2 =" read "; in.write_slot I32 2 =" write "; in.position I32 2 =4,6" }
static const struct at_once { const char *fault; struct sample beside, apart; size_t slots, faulty[2], plain[2]; } at_once[] = {
	{ "pad_minus_one_hits_slot_zero", TWO_ROWS("2 =0,2", "0,3", "0,-1", "0,-1"), TWO_ROWS("3 =0,1,2", "0,0", "0,0", "1,0"), 1, { 0 }, { 0 } },
	{ "read_slot_is_not_write_slot", TWO_ROWS("2 =0,2", "0,0", "0,2", "0,2"), TWO_ROWS("3 =0,1,2", "0,0", "0,2", "1,0"), 2, { 0, 2 }, { 0, 1 } },
};

static void rows_run_at_once(void **state)
{
	(void)state;
	for (size_t k = 0; k < LEN(at_once); k++) {
		const struct at_once *o = &at_once[k];
		struct plan p = plan_in("f64");
		struct capture a, b;
		struct outcome plain, faulty;
		made(&a, &o->beside, 7);
		made(&b, &o->apart, 7);
		run_plan(&plain, &b, &p);
		plan_fault(&p, op_find(OP), op_fault(op_find(OP), o->fault));
		run_plan(&faulty, &a, &p);
		assert_true(distance_of(&plain, &faulty, 0) == 0);
		for (int i = 1; i < 3; i++)
			for (size_t s = 0, n = faulty.call.out_count[i] / 3; s < o->slots; s++)
				for (size_t j = 0; j < n; j++)
					assert_true(faulty.a.hi[i][o->faulty[s] * n + j] == plain.a.hi[i][o->plain[s] * n + j]);
		outcome_free(&plain);
		outcome_free(&faulty);
		capture_free(&a);
		capture_free(&b);
	}
}

/* Where two rows decode, inputs at the other's slot are the plain run on the pool with the two slots' inputs exchanged;
 * they are exchanged again in the end. */
static void inputs_are_the_neighbours(void **state)
{
	static const struct sample two = { OP, "{}", TENSORS("2", "3", "3") "in.steps I32 2 =0,2; in.cu_seqlens I32 3 =0,1,2;"
		"in.kinds I32 2 =0,0; in.read_slot I32 2 =2,0; in.write_slot I32 2 =2,0; in.position I32 2 =4,6" };
	struct plan p = plan_in("f64");
	struct capture a, b;
	struct outcome plain, faulty;

	(void)state;
	made(&a, &two, 7);
	made(&b, &two, 7);
	for (size_t j = 0; j < 30; j++) {
		put(&b, "in.conv_pool", j, at(&a, "in.conv_pool", 60 + j));
		put(&b, "in.conv_pool", 60 + j, at(&a, "in.conv_pool", j));
	}
	run_plan(&plain, &b, &p);
	plan_fault(&p, op_find(OP), op_fault(op_find(OP), "conv_and_state_slots_differ"));
	run_plan(&faulty, &a, &p);
	assert_true(distance_of(&plain, &faulty, 0) == 0 && distance_of(&plain, &faulty, 1) == 0);
	for (size_t j = 0; j < 30; j++)
		assert_true(faulty.a.hi[2][j] == plain.a.hi[2][60 + j] && faulty.a.hi[2][60 + j] == plain.a.hi[2][j]);
	outcome_free(&plain);
	outcome_free(&faulty);
	capture_free(&a);
	capture_free(&b);
}

/* ---- what is refused ---- */
static const struct { struct entry bad; const char *at; size_t i, bytes; const char *says; } refused[] = {
	{ { "in.steps", 1, 0 }, "in.steps", 1, 4, "no empty part" },
	{ { "in.steps", 4, 12 }, "in.steps", 4, 4, "from 0 to R" },
	{ { "in.cu_seqlens", 3, 2 }, "in.cu_seqlens", 3, 8, "no empty part" },
	{ { "in.cu_seqlens", 1, -1 }, "in.cu_seqlens", 1, 8, "no empty part" },
	{ { "in.kinds", 4, 4 }, "in.kinds", 4, 4, "0 .. 3" },
	{ { "in.kinds", 4, -1 }, "in.kinds", 4, 4, "0 .. 3" },
	{ { "in.kinds", 3, 0 }, "in.kinds", 3, 4, "one token" },
	{ { "in.kinds", 8, 3 }, "in.kinds", 8, 4, "one token" },
	{ { "in.read_slot", 12, 9 }, "in.read_slot", 12, 4, "-1 .. P-1" },
	{ { "in.read_slot", 12, -2 }, "in.read_slot", 12, 4, "-1 .. P-1" },
	{ { "in.read_slot", 7, 8 }, "in.read_slot", 7, 4, "which pads" },
	{ { "in.write_slot", 8, 8 }, "in.write_slot", 8, 8, "which pads" },
	{ { "in.write_slot", 15, 9 }, "in.write_slot", 15, 8, "-1 .. P-1" },
	{ { "in.write_slot", 0, -2 }, "in.write_slot", 0, 8, "-1 .. P-1" },
	{ { "in.write_slot", 5, 2 }, "in.write_slot", 5, 8, "no other token of the same step writes" },
	{ { "in.write_slot", 12, 6 }, "in.write_slot", 12, 8, "no other token of the same step writes" },
	{ { "in.write_slot", 4, 1 }, "in.write_slot", 4, 8, "no other token of the same step writes" },
	{ { "in.write_slot", 6, 2 }, "in.write_slot", 6, 8, "no other row of the same step reads" },
	{ { "in.read_slot", 6, 1 }, "in.write_slot", 6, 8, "no other row of the same step reads" },
	{ { "in.position", 3, -1 }, "in.position", 3, 4, "0 or more" },
};

static void bad_tables_are_refused(void **state)
{
	struct capture c;
	struct call call;
	struct error e;

	(void)state;
	for (size_t k = 0; k < LEN(refused); k++) {
		made(&c, &busy, 1);
		assert_true(call_bind(&call, &c, false, &e));
		put_entries(&c, &refused[k].bad, 1);
		tensors_find(&c.tensors, refused[k].at)->offset = 1000;
		if (call_bind(&call, &c, false, &e)) fail_msg("%s[%zu] = %g passes", refused[k].bad.tensor, refused[k].bad.i, refused[k].bad.x);
		assert_int_equal(e.code, E_VALUE);
		assert_string_equal(e.item, refused[k].at);
		assert_int_equal(e.offset, 1000 + refused[k].i * refused[k].bytes);
		if (!strstr(e.detail, refused[k].says)) fail_msg("%s", e.detail);
		capture_free(&c);
	}
}

/* Ten channels of two value heads of 2: one key head of 3. */
static void bad_sizes_are_refused(void **state)
{
	static const struct { struct sample s; enum error_code code; const char *item; } rows[] = {
		{ { OP, "{}", TENSORS("16", "9", "2") BUSY_TABLES BUSY_POSITIONS }, E_VALUE, OP },
		{ { OP, "{\"conv_layout\": \"window\"}", TENSORS("16", "9", "1") BUSY_TABLES BUSY_POSITIONS }, E_VALUE, OP },
		{ { OP, "{\"conv_layout\": \"window\"}", TENSORS("16", "9", "4") BUSY_TABLES BUSY_POSITIONS }, E_VALUE, OP },
		{ { OP, "{}", TENSORS("16", "9", "3") BUSY_TABLES }, E_VALUE, OP },
		{ { OP, "{}", TENSORS("16", "9", "3") BUSY_POSITIONS }, E_MISSING, "in.steps" },
	};
	static const char one_row[] = "in.a F32 1,1,2; in.b F32 1,1,2; in.conv_weight F32 1,%1$d,1; in.A_log F32 1,2; in.dt_bias F32 1,2;"
		"in.x F32 1,1,%1$d; in.z F32 1,1,2,2; in.norm_weight F32 1,2; in.state_pool F32 1,1,2,3,2; in.conv_pool F32 1,1,%1$d,1;"
		"in.steps I32 2 =0,1; in.cu_seqlens I32 2 =0,1; in.kinds I32 1; in.read_slot I32 1; in.write_slot I32 1; in.position I32 1";
	struct capture c;
	struct call call;
	struct error e;

	(void)state;
	for (size_t k = 0; k < LEN(rows); k++) {
		made(&c, &rows[k].s, 1);
		assert_false(call_bind(&call, &c, false, &e));
		assert_int_equal(e.code, rows[k].code);
		assert_string_equal(e.item, rows[k].item);
		capture_free(&c);
	}
	for (int C = 1; C <= 28; C++) {         /* Hk = 1 and Hk = 2 divide Hv = 2; 3 (C = 22) and 4 (C = 28) do not */
		char text[900];
		snprintf(text, sizeof text, one_row, C);
		made(&c, &(struct sample){ OP, "{}", text }, 1);
		assert_int_equal(call_bind(&call, &c, false, &e), C == 10 || C == 16);
		if (C != 10 && C != 16) assert_int_equal(e.code, E_VALUE);
		capture_free(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_is_another_table), cmocka_unit_test(a_step_is_one_sequence), cmocka_unit_test(inputs_are_the_neighbours),
		cmocka_unit_test(rows_run_at_once),
		cmocka_unit_test(bad_tables_are_refused), cmocka_unit_test(bad_sizes_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
