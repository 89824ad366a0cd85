/* A search of the call that `capture` holds, and of a kernel with operands in bf16. */
#ifndef ETALON_TEST_PLANTED_H
#define ETALON_TEST_PLANTED_H

#include "tests/studies/readback.h"

static struct capture capture;
static struct call call;

static const struct structure_search how = { .work = 3e9 };

static struct search *begun(void)
{
	struct search *s = calloc(1, sizeof *s);
	struct error e;
	const char *why;

	assert_non_null(s);
	no_error(call_bind(&call, &capture, true, &e) && search_make(s, &call, &how, &why, &e), &e);
	assert_null(why);
	return s;
}

/* The structure of the capture's call. */
static inline struct structure_reading read_within(double work)
{
	struct structure_reading r;
	struct error e;
	const char *why;

	no_error(call_bind(&call, &capture, true, &e) && structure_read(&r, &call, &(struct structure_search){ .work = work }, &why, &e), &e);
	assert_null(why);
	return r;
}

static void ended(struct search *s)
{
	search_free(s);
	free(s);
}

static struct candidate operands_in_bf16(struct search *s, int form)
{
	struct candidate x = { .form = form };

	x.config.value[key_find(&s->keys, key_id(form, CHOOSE_OPERAND, W_EVERY, 0), CHOOSE_DEFAULT, W_EVERY, 4, -1)] = 1;
	return x;
}

/* The call's outputs become what that one answers; a search of them, in place of s. */
static inline struct search *answered_by(struct search *s, const struct candidate *x)
{
	readback_store(s, x);
	ended(s);
	return begun();
}

/* The same, of what the reference answers in float32. */
static inline struct search *answered_plainly(void)
{
	struct plan plain = plan_plain(&arith_f32, 24);

	answer_by(&capture, &plain);
	return begun();
}

/* The same, of a case of an op. */
static inline struct search *case_answered(const char *op, const char *name)
{
	struct error e;

	no_error(case_make(&capture, case_find(op, name), 3, true, &e), &e);
	return answered_plainly();
}

/* The search of a call whose outputs are such a kernel's in that form; its structure. `capture` gets those outputs. */
static inline struct search *planted_in(int form, struct candidate *x)
{
	struct search *s = answered_plainly();
	*x = operands_in_bf16(s, form);
	s = answered_by(s, x);
	*x = operands_in_bf16(s, form);
	return s;
}

#endif
