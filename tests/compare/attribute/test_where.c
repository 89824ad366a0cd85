/* What is said of the place of an error, on right outputs of the reference of which a part is
 * changed. */
#include <math.h>
#include <string.h>

#include "compare/attribute/suspects.h"
#include "fixtures/cases/cases.h"
#include "tests/kernel_model.h"

/* Shapes: rope [16,4,256]; newton_schulz [40,56]. Element i of y. */
typedef double change(struct tensor *y, size_t i);

static size_t token(size_t i) { return i / 1024; }
static size_t head(size_t i) { return i / 256 % 4; }
static double off(double x) { return 1.25 * x + 0.5; }

static double heads_0(struct tensor *y, size_t i) { return head(i) ? 0 : get(y, i); }
static double all_0(struct tensor *y, size_t i) { return (void)y, (void)i, 0; }
static double token_nan(struct tensor *y, size_t i) { return token(i) == 3 ? NAN : get(y, i); }
static double from_11(struct tensor *y, size_t i)
{
	return token(i) >= 11 ? off(get(y, i)) : get(y, i);
}
static double last_4(struct tensor *y, size_t i)
{
	return i % 256 >= 252 ? off(get(y, i)) : get(y, i);
}
static double three(struct tensor *y, size_t i)
{
	return token(i) % 4 == 2 && token(i) > 2 ? off(get(y, i)) : get(y, i);
}
static double head_2_late(struct tensor *y, size_t i)
{
	return head(i) == 2 && token(i) >= 11 ? off(get(y, i)) : get(y, i);
}
/* All is rounded to bf16 in another way, and heads 1 to 3 are another's numbers. */
static double head_0_nearly(struct tensor *y, size_t i)
{
	double x = get(y, i);

	return head(i) ? off(get(y, i ^ 1)) : x * (1 + 0x1p-7);
}
static double everywhere(struct tensor *y, size_t i) { return off(get(y, i)); }
static double one(struct tensor *y, size_t i)
{
	return i == 2 * 1024 + 256 + 7 ? off(get(y, i)) : get(y, i);
}
static double shifted(struct tensor *y, size_t i)
{
	return token(i) ? get(y, i - 1024) : get(y, i);
}
static double repeated(struct tensor *y, size_t i) { return get(y, i - 256 * head(i)); }
static double swapped(struct tensor *y, size_t i)
{
	return head(i) == 1 ? get(y, i + 256) : head(i) == 2 ? get(y, i - 256) : get(y, i);
}
static double halves(struct tensor *y, size_t i)
{
	return get(y, i % 256 < 128 ? i + 128 : i - 128);
}
static double column_11(struct tensor *y, size_t i)
{
	return i % y->shape[1] % 16 == 11 ? off(get(y, i)) : get(y, i);
}
/* A third of all elements, by chance. */
static double scattered(struct tensor *y, size_t i)
{
	uint64_t state = i + 1;

	return random_bits(&state) % 3 ? get(y, i) : off(get(y, i));
}
/* Half of all rows, by chance: their elements are wrong together. */
static double rows(struct tensor *y, size_t i)
{
	uint64_t state = i / 256 + 5;

	return random_bits(&state) % 2 ? get(y, i) : off(get(y, i));
}

static void right(struct capture *c, const char *op, const char *kase)
{
	const struct plan p = plan_plain(&arith_f32, arith_f32.precision);

	make_case(c, op, kase);
	answer_by(c, &p);
}

static const char *where(const char *op, const char *kase, change *f)
{
	static char text[256];
	struct capture c, before;
	struct call call;
	struct error e;
	struct xray x;

	right(&c, op, kase);
	right(&before, op, kase);
	struct tensor *y = capture_out(&c, "y");
	for (size_t i = 0; i < y->count; i++) set(y, i, f(capture_out(&before, "y"), i));
	assert_true(call_bind(&call, &c, true, &e));
	no_error(xray_make(&x, &call, NULL, &e), &e);
	x.emulation = plan_plain(&arith_f64, arith_f64.precision);
	x.e = &e;
	no_error(xray_refresh(&x) && where_left(&x, text, sizeof text), &e);
	xray_free(&x);
	capture_free(&c);
	capture_free(&before);
	return text;
}

static void a_place_is_said_as_a_person_would(void **state)
{
	static const struct {
		const char *op, *kase;
		change *f;
		const char *text;
	} list[] = {
		{ "rope", "partial", heads_0, "100 % of it in y, which is 0 at H = 1 to 3" },
		{ "rope", "partial", all_0, "100 % of it in y, which is 0 throughout" },
		{ "rope", "partial", token_nan, "100 % of it in y, which is NaN at T = 3" },
		{ "rope", "partial", from_11, "100 % of it in y, at the last 5 of T" },
		{ "rope", "partial", last_4, "100 % of it in y, at the last 4 of D" },
		{ "rope", "partial", three, "100 % of it in y, at T = 6, 10 and 14" },
		{ "rope", "partial", head_2_late, "100 % of it in y, at the last 5 of T, H = 2" },
		{ "rope", "partial", head_0_nearly, "100 % of it in y, at H = 1 to 3, where " },
		{ "rope", "partial", everywhere, "100 % of it in y, spread over it" },
		{ "rope", "partial", scattered, "100 % of it in y, spread over it" },
		{ "rope", "partial", rows, "100 % of it in y, spread over it" },
		{ "rope", "partial", one, "100 % of it in y, at T = 2, H = 1, D = 7" },
		{ "rope", "partial", shifted,
			"100 % of it in y, where T from 1 on hold what belongs at T - 1" },
		{ "rope", "partial", repeated,
			"100 % of it in y, where H = 1 to 3 hold what belongs at H = 0" },
		{ "rope", "partial", swapped, "100 % of it in y, where H = 1 and 2 are swapped" },
		{ "rope", "partial", halves,
			"100 % of it in y, where the halves of D are swapped" },
		{ "newton_schulz", "naive_f32", column_11, " of it in y, at M = 11 mod 16" },
	};
	int bad = 0;

	(void)state;
	for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
		const char *said = where(list[i].op, list[i].kase, list[i].f);
		if (strstr(said, list[i].text)) continue;
		print_error("'%s', expected '%s'\n", said, list[i].text);
		bad++;
	}
	assert_int_equal(bad, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_place_is_said_as_a_person_would) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
