#include <stdlib.h>

#include "tests/helpers.h"

#include "compare/isolate/scenario.h"

static char *text_of(const struct scenario *s)
{
	char *text;
	size_t n;
	FILE *f = open_memstream(&text, &n);

	scenario_print(f, s);
	fclose(f);
	return text;
}

static void a_text_is_read_back(void **state)
{
	struct error e;

	(void)state;
	for (uint64_t seed = 0; seed < 20; seed++) {
		struct scenario a, b;
		assert_true(scenario_draw(&a, seed, 50, &e));
		char *text = text_of(&a);
		assert_true(scenario_parse(&b, text, &e));
		char *again = text_of(&b);
		assert_string_equal(text, again);
		assert_int_equal(a.n, b.n);
		free(text);
		free(again);
		scenario_free(&a);
		scenario_free(&b);
	}
}

/* All kinds of events, and the bounds that the header promises, counted here from the events alone. */
static void a_drawn_scenario_has_everything(void **state)
{
	struct scenario s;
	struct error e;
	int kinds[EVENT_CHECKPOINT + 1] = { 0 }, accepted[DRAFTS + 1] = { 0 }, one_token = 0;

	(void)state;
	assert_true(scenario_draw(&s, 1, 300, &e));
	for (size_t i = 0, last; i < s.n; i = last) {
		int works = 0, seen[LIVE_REQUESTS + 1];
		for (last = i; last < s.n && s.event[last].step == s.event[i].step; last++) {
			const struct event *v = &s.event[last];
			kinds[v->kind]++;
			if (last > i && v->kind != EVENT_RUN) assert_true(v->kind >= s.event[last - 1].kind || v->kind == EVENT_SPECULATE);
			if (v->kind == EVENT_SPECULATE) {
				assert_in_range(v->tokens, 1, DRAFTS);
				assert_in_range(v->accepted, 0, v->tokens);
				accepted[v->accepted]++;
			}
			if (v->kind != EVENT_RUN && v->kind != EVENT_SPECULATE) continue;
			assert_in_range(v->tokens, 1, CHUNK);
			one_token += v->tokens == 1 && v->kind == EVENT_RUN;
			for (int k = 0; k < works; k++) assert_int_not_equal(seen[k], v->request);
			assert_in_range(works, 0, LIVE_REQUESTS - 1);
			seen[works++] = v->request;
		}
		assert_in_range(s.event[i].step, 0, 299);
	}
	for (int k = 0; k <= EVENT_CHECKPOINT; k++) assert_true(kinds[k] > 0);
	for (int k = 0; k <= DRAFTS; k++) assert_true(accepted[k] > 0);
	assert_true(one_token > 100);
	scenario_free(&s);
}

static void a_stretched_one_has_longer_prefills(void **state)
{
	struct scenario s, long_one;
	struct error e;
	int longest = 0;

	(void)state;
	assert_true(scenario_draw(&s, 3, 60, &e) && scenario_draw(&long_one, 3, 60, &e));
	scenario_stretch(&long_one);
	assert_int_equal(s.n, long_one.n);
	for (size_t i = 0; i < s.n; i++) {
		bool several = s.event[i].kind == EVENT_RUN && s.event[i].tokens > 1;
		assert_int_equal(long_one.event[i].kind, s.event[i].kind);
		assert_int_equal(long_one.event[i].tokens, several ? s.event[i].tokens * STRETCH : s.event[i].tokens);
		if (long_one.event[i].tokens > longest) longest = long_one.event[i].tokens;
	}
	assert_in_range(longest, 64, CHUNK * STRETCH);
	scenario_free(&s);
	scenario_free(&long_one);
}

static void the_seed_decides(void **state)
{
	struct scenario a, b, c;
	struct error e;

	(void)state;
	assert_true(scenario_draw(&a, 7, 40, &e) && scenario_draw(&b, 7, 40, &e) && scenario_draw(&c, 8, 40, &e));
	char *p = text_of(&a), *q = text_of(&b), *r = text_of(&c);
	assert_string_equal(p, q);
	assert_string_not_equal(p, r);
	free(p);
	free(q);
	free(r);
	scenario_free(&a);
	scenario_free(&b);
	scenario_free(&c);
}

static void what_is_wrong_is_told_with_its_byte(void **state)
{
	static const struct { const char *text; uint64_t at; } wrong[] = {
		{ "r0:1 / x", 7 }, { "r0:0", 0 }, { "r0?2:3", 0 }, { "r0:1 r1:", 5 }, { "@0", 0 }, { "r0:1x", 0 }, { "r99999999999999999999:1", 0 },
		{ "r0:1 / r1 :2", 7 }, { "c0=r", 0 }, { "r-1:2", 0 }
	};

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct scenario s;
		struct error e = { 0 };
		assert_false(scenario_parse(&s, wrong[i].text, &e));
		assert_int_equal(e.code, E_USAGE);
		assert_int_equal(e.offset, wrong[i].at);
		assert_null(s.event);
	}
}

static void events_take_effect_by_kind(void **state)
{
	struct scenario s;
	struct error e;

	(void)state;
	assert_true(scenario_parse(&s, "c1=r0 r0:5 g @4 r2=c0 / / r0?3:1 r1:2 r0.", &e));
	char *text = text_of(&s);
	assert_string_equal(text, "r2=c0 @4 g r0:5 c1=r0 /  / r0. r0?3:1 r1:2");
	assert_int_equal(s.steps, 3);
	free(text);
	scenario_free(&s);
}

static void steps_that_do_nothing_any_more_go(void **state)
{
	struct scenario s, t;
	struct error e;
	const bool keep[] = { true, false, true, true, true };

	(void)state;
	assert_true(scenario_parse(&s, "@4 r0:1 / g r1:2 / r2:3", &e));
	assert_int_equal(s.n, 5);
	assert_true(scenario_select(&t, &s, keep, &e));
	char *text = text_of(&t);
	assert_string_equal(text, "g r1:2 / r2:3");
	assert_int_equal(t.steps, 2);
	free(text);
	scenario_free(&s);
	scenario_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_text_is_read_back), cmocka_unit_test(a_drawn_scenario_has_everything), cmocka_unit_test(a_stretched_one_has_longer_prefills), cmocka_unit_test(the_seed_decides),
		cmocka_unit_test(what_is_wrong_is_told_with_its_byte), cmocka_unit_test(events_take_effect_by_kind),
		cmocka_unit_test(steps_that_do_nothing_any_more_go)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
