/* Faults that nobody has listed. Each tests/compare/attribute/test_invented_OP.c holds a kernel of its own, written in
 * float32 from the op's formula with nothing of ref/ in it, and ten faults that it can make. The
 * kernel passes; with any one of them it fails, and the verdict says where. */
#ifndef ETALON_TEST_INVENTED_H
#define ETALON_TEST_INVENTED_H

#include <math.h>

#include "compare/verdict/verdict.h"
#include "tests/kernel_model.h"

enum { INVENTED = 10, RIGHT = 0 };      /* faults are numbered from 1 */

struct invention {
	const char *name;       /* what the kernel does wrong */
	const char *kase;
	const char *contract;   /* under which it is judged; NULL: the op's tightest */
	const char *where;      /* in what the verdict says of the place; where several are true, with | between */
};

struct inventions {
	const char *op;
	const struct test_case *own;            /* cases of the test; ends with a NULL op; may be NULL */
	const struct invention *list;           /* [INVENTED + 1], the first for RIGHT and not used */
	/* Fills the outputs; `rounds`: as a kernel of that contract does, if it is not NULL. */
	void (*kernel)(struct capture *c, int fault, const char *rounds);
};

/* ---- what kernels are made of ---- */

/* Memory of one kernel's run. */
static float arena[1 << 21];
static size_t arena_used;

static inline float *floats(size_t n)
{
	float *x = arena + arena_used;

	assert_true((arena_used += n) <= sizeof arena / sizeof *arena);
	for (size_t i = 0; i < n; i++) x[i] = 0;
	return x;
}

/* The tensor's elements, or NULL where the capture has none of that name. */
static inline float *input(const struct capture *c, const char *name)
{
	struct tensor *t = capture_in(c, name);
	float *x = t ? floats(t->count) : NULL;

	for (size_t i = 0; t && i < t->count; i++) x[i] = (float)get(t, i);
	return x;
}

static inline void output(struct capture *c, const char *name, const float *y)
{
	struct tensor *t = capture_out(c, name);

	for (size_t i = 0; t && i < t->count; i++) set(t, i, (double)y[i]);
}

/* Σ x y as a warp adds: 32 lanes, then a tree. */
static inline float warp_dot(const float *x, const float *y, size_t n)
{
	float lane[32] = { 0 };

	for (size_t i = 0; i < n; i++) lane[i % 32] += x[i] * y[i];
	for (size_t half = 16; half; half /= 2)
		for (size_t i = 0; i < half; i++) lane[i] += lane[i + half];
	return lane[0];
}

static inline float sigmoid(float x) { return 1 / (1 + expf(-x)); }

/* To nearest even, by adding half an ulp to the bits. */
static inline float bf16(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof bits);
	bits = (bits + 0x7fff + (bits >> 16 & 1)) & UINT32_C(0xffff0000);
	memcpy(&x, &bits, sizeof bits);
	return x;
}

/* ---- what is asked of them ---- */

static inline void run_kernel(struct capture *c, const struct inventions *all, const struct invention *m, int fault)
{
	const struct test_case *k = all->own;
	struct error e;

	while (k && k->op && strcmp(k->name, m->kase)) k++;
	if (!k || !k->op) k = case_find(all->op, m->kase);
	assert_non_null(k);
	no_error(case_make(c, k, 1, true, &e), &e);
	arena_used = 0;
	all->kernel(c, fault, m->contract);
}

static inline struct verdict verdict_of(const struct capture *c, const char *contract)
{
	struct verdict v;
	struct error e;

	no_error(judge(c, &(struct judging){ .contract = contract }, &v, &e), &e);
	return v;
}

static inline bool was_changed(const struct verdict *v, int i, size_t at, struct capture *right, struct capture *wrong)
{
	const char *name = v->op->out[i].name;

	return !same_double(get(capture_out(right, name), at), get(capture_out(wrong, name), at));
}

static inline bool says(const char *said, const char *alternatives)
{
	char text[256];
	bool found = false;

	snprintf(text, sizeof text, "%s", alternatives);
	for (char *save, *one = strtok_r(text, "|", &save); one; one = strtok_r(NULL, "|", &save)) found = found || strstr(said, one);
	return found;
}

/* What is wrong with the verdict: it must fail, name nobody but a fault that `where` has, say where, and blame no element that the fault
 * left as it was. Empty if nothing is. */
static inline const char *complaint(const struct invention *m, const struct verdict *v, struct capture *right, struct capture *wrong)
{
	static char text[512];
	const char *said = v->x.identified ? v->reason[0] : v->x.where;

	text[0] = 0;
	if (v->outcome != FAIL) return outcome_name[v->outcome];
	for (int i = 0; i < v->x.n; i++)
		if (v->x.suspect[i].state == DETECTED && !strstr(m->where, v->x.suspect[i].name)) snprintf(text, sizeof text, "taken for %s", v->x.suspect[i].name);
	if (!says(said, m->where)) snprintf(text, sizeof text, "said to be '%s', expected '%s'", said, m->where);
	for (int i = 0; i < v->n_out; i++) {
		const struct output_verdict *o = &v->out[i];
		if (o->rule[RULE_WORST].value > o->rule[RULE_WORST].limit && !was_changed(v, o->out, o->worst.index, right, wrong))
			snprintf(text, sizeof text, "the worst element %s of %s is right", o->worst_at, v->op->out[o->out].name);
		if (o->rule[RULE_EXCESS].value > o->rule[RULE_EXCESS].limit && !was_changed(v, o->out, o->beyond.index, right, wrong))
			snprintf(text, sizeof text, "element %s of %s is right", o->beyond_at, v->op->out[o->out].name);
	}
	return text;
}

static inline bool same_call(const struct invention *a, const struct invention *b)
{
	return !strcmp(a->kase, b->kase) && !a->contract == !b->contract && (!a->contract || !strcmp(a->contract, b->contract));
}

/* The right kernel on every case that a fault is shown on. */
static inline void the_right_one_passes(const struct inventions *all)
{
	for (int i = 1; i <= INVENTED; i++) {
		const struct invention *m = &all->list[i];
		struct capture c;
		int before = 1;
		while (!same_call(&all->list[before], m)) before++;
		if (before < i) continue;
		run_kernel(&c, all, m, RIGHT);
		struct verdict v = verdict_of(&c, m->contract);
		if (v.outcome != PASS || v.x.count[DETECTED]) fail_msg("the right kernel on %s: %s", m->kase, v.n_reason ? v.reason[0] : "detected");
		capture_free(&c);
	}
}

static inline void each_wrong_one_fails(const struct inventions *all)
{
	int bad = 0;

	for (int i = 1; i <= INVENTED; i++) {
		const struct invention *m = &all->list[i];
		struct capture right, wrong;
		run_kernel(&right, all, m, RIGHT);
		run_kernel(&wrong, all, m, i);
		struct verdict v = verdict_of(&wrong, m->contract);
		const char *text = complaint(m, &v, &right, &wrong);
		if (*text) print_error("%s, on %s: %s\n", m->name, m->kase, text), bad++;
		capture_free(&right);
		capture_free(&wrong);
	}
	assert_int_equal(bad, 0);
}

static inline void the_kernel_passes(void **state) { the_right_one_passes(*state); }
static inline void each_fault_fails_and_is_located(void **state) { each_wrong_one_fails(*state); }

static inline int run_inventions(const struct inventions *all)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate(the_kernel_passes, (void *)(uintptr_t)all),
		cmocka_unit_test_prestate(each_fault_fails_and_is_located, (void *)(uintptr_t)all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
