/* How often a correct kernel fails: float32 model kernels that round just what a contract allows,
 * over all cases, contracts (or the one named by the second argument) and SEEDS seeds (argument, 5). Prints, for each op and contract, the
 * calls, the false alarms, and how near each rule, and what the x-ray left unexplained, came to the
 * limit. */
#include <stdlib.h>
#include <string.h>

#include "compare/verdict.h"
#include "fixtures/cases.h"

struct tally { size_t calls, alarms, undecided; double nearest[RULE_COUNT], left; };

/* Fills c's outputs as a kernel would that computes in float32 and rounds where k allows. */
static bool model(struct capture *c, const struct contract *k, struct error *e)
{
	struct call call;
	struct answer a;
	struct plan p = plan_plain(&arith_f32, 24);

	plan_contract(&p, k);
	if (!call_bind(&call, c, false, e) || !ref_run(&call, &p, &a, e)) return false;
	for (int i = 0; i < MAX_OUT; i++)
		if (call.out_count[i]) dtype_store(call.out[i]->dtype, a.hi[i], call.out_count[i], call.out[i]->data);
	answer_free(&a);
	return true;
}

static void count(struct tally *t, const struct verdict *v, const struct test_case *k, uint64_t seed)
{
	t->calls++;
	t->alarms += v->outcome == FAIL;
	t->undecided += v->outcome == UNDECIDED;
	if (v->examined && v->x.left > t->left) t->left = v->x.left;
	for (int i = 0; i < v->n_out; i++)
		for (int r = 0; r < RULE_COUNT; r++) {
			double x = v->out[i].rule[r].value / v->out[i].rule[r].limit;
			if (x > t->nearest[r]) t->nearest[r] = x;
		}
	if (v->outcome != PASS)
		fprintf(stderr, "%s %s seed %llu under %s: %s\n", k->op, k->name, (unsigned long long)seed, v->contract->name, v->reason[0]);
}

static bool one(const struct test_case *k, const struct contract *contract, uint64_t seed, struct tally *t)
{
	struct judging how = { .contract = contract->name };
	struct capture c;
	struct verdict v;
	struct error e;
	bool ok = case_make(&c, k, seed, true, &e);

	ok = ok && model(&c, contract, &e) && judge(&c, &how, &v, &e);
	if (ok) count(t, &v, k, seed);
	else error_print(stderr, &e), putc('\n', stderr);
	capture_free(&c);
	return ok;
}

int main(int argc, char **argv)
{
	uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 5;
	size_t calls = 0, alarms = 0;

	printf("%-18s %-14s %6s %7s %10s   largest value / limit:", "op", "contract", "calls", "alarms", "undecided");
	for (int r = 0; r < RULE_COUNT; r++) printf(" %7s", rule_name[r]);
	printf(" %7s\n", "left");
	for (size_t o = 0; ops[o]; o++)
		for (const struct contract *k = ops[o]->contracts; k->name; k++) {
			struct tally t = { 0 };
			if (argc > 2 && strcmp(argv[2], k->name)) continue;
			for (const struct test_case *tc = test_cases; tc->op; tc++)
				for (uint64_t s = 1; s <= seeds && op_find(tc->op) == ops[o] && !tc->large; s++)
					if (!one(tc, k, s, &t)) return EXIT_INPUT;
			printf("%-18s %-14s %6zu %7zu %10zu %23s", ops[o]->name, k->name, t.calls, t.alarms, t.undecided, "");
			for (int r = 0; r < RULE_COUNT; r++) printf(" %7.3f", t.nearest[r]);
			printf(" %7.3f\n", t.left / 2);
			fflush(stdout);
			calls += t.calls;
			alarms += t.alarms + t.undecided;
		}
	printf("%zu clean calls, %zu false alarms\n", calls, alarms);
	return calls && !alarms ? EXIT_PASS : EXIT_FAIL;
}
