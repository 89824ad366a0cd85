/* How far a long reading is: from nothing to all, and never back. */
#include "tests/helpers.h"
#include "compare/logits/logits_pace.h"
#include "tests/model_bed.h"

static struct bed bed;

static int make_bed(void **state)
{
	struct error e;

	(void)state;
	return bed_make(&bed, "moe", &e) ? 0 : -1;
}

static int free_bed(void **state)
{
	(void)state;
	bed_free(&bed);
	return 0;
}

/* The ticks of a stage in their order; the last share. */
static double walk(const struct logits_pace *p, const char *stage, size_t first, size_t total, double share)
{
	for (size_t done = first; done <= total; done++) {
		double now = logits_pace_share(p, stage, done, total);
		assert_true(now >= share && now <= 1);
		if (done > first) assert_true(now > share);
		share = now;
	}
	return share;
}

static void goes_from_nothing_to_all(void **state)
{
	size_t layers = bed.model.config.layers;

	(void)state;
	for (int with = 0; with < 2; with++) {
		struct logits_pace p = { &bed.model, bed.n, bed.n, 4, with };
		double share = 0;
		if (with) {
			assert_true(logits_pace_share(&p, "layers", 0, layers + 2) == 0);
			share = walk(&p, "layers", 0, layers + 2, 0);
			assert_true(share > 0.5 && share < 1);
		}
		share = walk(&p, "noisy runs", 0, 4, share);
		share = walk(&p, "positions", 1, bed.n, share);
		assert_true(fabs(share - 1) < 1e-12);
	}
}

/* More runs behind sigma are more work ahead. */
static void weighs_what_is_asked(void **state)
{
	struct logits_pace few = { &bed.model, bed.n, bed.n, 2, true }, many = few;

	(void)state;
	many.runs = 16;
	assert_true(logits_pace_share(&many, "layers", 3, 6) < logits_pace_share(&few, "layers", 3, 6));
}

static void says_what_is_at_work(void **state)
{
	struct logits_pace p = { &bed.model, bed.n, bed.n, 4, true };
	static const struct { const char *stage; size_t done, total; const char *text; } rows[] = {
		{ "layers", 3, 6, "layer 3 of 0 to 3, full_attention" }, { "layers", 4, 6, "head" },
		{ "layers", 5, 6, "all layers from the ids on" }, { "noisy runs", 1, 4, "noisy runs 1/4" },
	};
	char text[96];

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		assert_string_equal(logits_pace_text(&p, rows[i].stage, rows[i].done, rows[i].total, text, sizeof text), rows[i].text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(goes_from_nothing_to_all),
		cmocka_unit_test(weighs_what_is_asked),
		cmocka_unit_test(says_what_is_at_work),
	};

	return cmocka_run_group_tests(tests, make_bed, free_bed);
}
