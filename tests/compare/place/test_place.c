/* Where hits along an axis are, in words; and what stands where something else belongs. */
#include "tests/helpers.h"

#include <math.h>

#include "compare/place/moved.h"
#include "compare/place/place.h"

enum { MOST = 4096 };

/* A number from 0 to 1, another for each i. */
static double chance(size_t i)
{
	uint64_t x = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}

/* What is said of an axis of n indices with `all` elements each, where the share hit is inside
 * or outside. */
static const char *said(size_t n, double all, bool (*in)(size_t i, size_t n), double inside,
	double outside, double cluster)
{
	static char text[128];
	static double hit[MOST];
	struct counted c = { n, hit, all, cluster, 1, false };
	struct place p;

	for (size_t i = 0; i < n; i++) hit[i] = round(all * (in(i, n) ? inside : outside));
	return place_find(&p, &c) ? place_say(&p, "T", text, sizeof text) : "nowhere";
}

static bool at_three(size_t i, size_t n) { return (void)n, i == 64 || i == 128 || i == 192; }
static bool one_to_three(size_t i, size_t n) { return (void)n, i >= 1 && i <= 3; }
static bool last_four(size_t i, size_t n) { return i + 4 >= n; }
static bool from_131(size_t i, size_t n) { return (void)n, i >= 131; }
static bool eleventh(size_t i, size_t n) { return (void)n, i % 16 == 11; }
static bool upper(size_t i, size_t n) { return i >= n / 2; }
static bool upper_but_the_end(size_t i, size_t n) { return i >= n / 2 && i + 1 < n; }
static bool lower(size_t i, size_t n) { return i < n / 2; }
static bool middle(size_t i, size_t n) { return (void)n, i >= 20 && i < 40; }
static bool first_three(size_t i, size_t n) { return (void)n, i < 3; }
static bool from_64(size_t i, size_t n) { return (void)n, i >= 64; }
static bool one(size_t i, size_t n) { return (void)n, i == 37; }

static void places_are_said_as_a_person_would(void **state)
{
	static const struct {
		size_t n;
		double all;
		bool (*in)(size_t, size_t);
		double inside, outside;
		const char *text;
	} rows[] = {
		{ 256, 64, at_three, 1, 0, "T = 64, 128 and 192" },
		{ 4, 640, one_to_three, 1, 0, "T = 1 to 3" },
		{ 128, 32, last_four, 1, 0, "the last 4 of T" },
		{ 200, 32, from_131, 0.9, 0, "T from 131 on" },
		{ 96, 32, eleventh, 1, 0, "T = 11 mod 16" },
		{ 64, 32, upper, 0.9, 0.1, "the upper half of T" },
		{ 64, 32, upper_but_the_end, 0.7, 0.01, "the upper half of T" },
		{ 64, 32, lower, 0.9, 0.1, "the lower half of T" },
		{ 64, 32, middle, 1, 0, "T = 20 to 39" },
		{ 64, 32, first_three, 1, 0, "the first 3 of T" },
		{ 64, 32, one, 0.5, 0.01, "T = 37" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		assert_string_equal(said(rows[i].n, rows[i].all, rows[i].in, rows[i].inside,
					    rows[i].outside, 1),
			rows[i].text);
}

/* 57 % of the errors of 150 tokens are from token 64 on, if they are everywhere. */
static void an_even_error_has_no_place(void **state)
{
	(void)state;
	assert_string_equal(said(150, 1024, from_64, 0.8, 0.8, 1), "nowhere");
	assert_string_equal(said(150, 1024, from_64, 0.8, 0.5, 1), "nowhere");
	assert_string_equal(said(64, 1024, upper, 0.5, 0.5, 1), "nowhere");
	assert_string_equal(said(64, 1024, upper, 1, 1, 1), "nowhere");
	assert_string_equal(said(64, 1024, upper, 0, 0, 1), "nowhere");
}

/* Whole rows of 64 are wrong, by chance: 40 of 200, without any order. */
static void what_comes_together_counts_once(void **state)
{
	static double hit[MOST];
	struct place p;
	size_t wrong = 0;

	(void)state;
	for (size_t seed = 0; seed < 200; seed++) {
		for (size_t i = 0; i < 200; i++) hit[i] = chance(seed * 977 + i) < 0.2 ? 64 : 0;
		wrong += place_find(&p, &(struct counted){ 200, hit, 64, 64, 64, false });
	}
	assert_int_equal(wrong, 0);
}

static void an_exact_set_is_described(void **state)
{
	bool in[64] = { false };
	struct place p;
	char text[128];

	(void)state;
	for (size_t i = 10; i < 30; i++) in[i] = true;
	assert_true(place_of(&p, in, 64));
	assert_string_equal(place_say(&p, "D", text, sizeof text), "D = 10 to 29");
	in[12] = false;
	assert_false(place_of(&p, in, 64));
	for (size_t i = 0; i < 64; i++) in[i] = i % 8 == 5;
	assert_true(place_of(&p, in, 64));
	assert_string_equal(place_say(&p, "D", text, sizeof text), "D = 5 mod 8");
}

/* ---- moved ---- */

enum { N = 16, LINES = 12 };

/* Index i holds what belongs at from[i]; a hundredth of rounding. */
static const char *moved(const size_t from[N])
{
	static double got[N * LINES], expected[N * LINES];
	static bool wrong[N * LINES];
	static char text[256];

	for (size_t i = 0; i < N; i++)
		for (size_t l = 0; l < LINES; l++)
			expected[i * LINES + l] = 2 * chance(i * LINES + l + 1) - 1;
	for (size_t i = 0; i < N; i++)
		for (size_t l = 0; l < LINES; l++) {
			double right = from[i] < N ? expected[from[i] * LINES + l]
						   : chance(1000 + i * LINES + l);
			got[i * LINES + l] = right * (1 + 0.01 * (chance(i + l) - 0.5));
			wrong[i * LINES + l] = from[i] != i;
		}
	return moved_find(text, sizeof text, "H", &(struct lines){ N, LINES, got, expected, wrong })
		? text
		: "";
}

static void what_belongs_elsewhere_is_said(void **state)
{
	size_t from[N];

	(void)state;
	for (size_t i = 0; i < N; i++) from[i] = i;
	assert_string_equal(moved(from), "");
	from[3] = 5, from[5] = 3;
	assert_string_equal(moved(from), "H = 3 and 5 are swapped");
	for (size_t i = 0; i < N; i++) from[i] = i > 3 ? 3 : i;
	assert_string_equal(moved(from), "H from 4 on hold what belongs at H = 3");
	for (size_t i = 0; i < N; i++) from[i] = i ? i - 1 : 0;
	assert_string_equal(moved(from), "H from 1 on hold what belongs at H - 1");
	for (size_t i = 0; i < N; i++) from[i] = i ^ 1;
	assert_string_equal(moved(from), "neighbours along H are swapped");
	for (size_t i = 0; i < N; i++) from[i] = (i + N / 2) % N;
	assert_string_equal(moved(from), "the halves of H are swapped");
	for (size_t i = 0; i < N; i++) from[i] = N - 1 - i;
	assert_string_equal(moved(from), "H runs backwards");
	for (size_t i = 0; i < N; i++) from[i] = i == 7 ? 2 : i;
	assert_string_equal(moved(from), "H = 7 holds what belongs at H = 2");
	from[9] = N; /* garbage as well */
	assert_string_equal(moved(from), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(places_are_said_as_a_person_would),
		cmocka_unit_test(an_even_error_has_no_place),
		cmocka_unit_test(what_comes_together_counts_once),
		cmocka_unit_test(an_exact_set_is_described),
		cmocka_unit_test(what_belongs_elsewhere_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
