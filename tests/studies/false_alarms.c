/* How often a correct kernel fails: float32 model kernels that round just what a contract allows, over all cases,
 * contracts and SEEDS seeds. Arguments: SEEDS (5: 1 to 5; or FIRST-LAST), then names of ops or of contracts, to leave the others out,
 * and `rules`, to leave the x-ray out. Prints, for each op and contract, the calls, those skipped because their records cannot hold
 * what is iterated on, those whose structure was identified, the false alarms, and how near each rule came to the limit. A contract's
 * known structures take turns, seed by seed, and so do the ways to sum: in order, fused, by a warp's tree. */
#include <stdlib.h>
#include <string.h>

#include "compare/verdict/verdict.h"
#include "fixtures/cases/cases.h"

struct tally { size_t calls, skipped, alarms, undecided, identified; double nearest[RULE_COUNT]; };

/* Fills c's outputs as a kernel would that computes in float32 and rounds where k allows. */
static bool model(struct capture *c, const struct contract *k, uint64_t seed, struct error *e)
{
	struct call call;
	struct answer a;
	static const struct arith *const sums[] = { &arith_f32, &arith_f32_fma, &arith_f32_tree };
	struct plan p = plan_plain(sums[seed % 3], 24);

	plan_structure(&p, k, (int)(seed % (uint64_t)contract_structures(k)));
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
	t->identified += v->examined && v->x.identified;
	for (int i = 0; i < v->n_out; i++)
		for (int r = 0; r < RULE_COUNT; r++) {
			double x = v->out[i].rule[r].value / v->out[i].rule[r].limit;
			if (x > t->nearest[r]) t->nearest[r] = x;
		}
	if (v->outcome != PASS)
		fprintf(stderr, "%s %s seed %llu under %s: %s\n", k->op, k->name, (unsigned long long)seed, v->contract->name, v->reason[0]);
}

static bool quick;

static bool one(const struct test_case *k, const struct contract *contract, uint64_t seed, struct tally *t)
{
	struct judging how = { .contract = contract->name, .quick = quick };
	struct capture c;
	struct verdict v;
	struct error e;
	struct call call;
	bool ok = case_make(&c, k, seed, true, &e) && call_bind(&call, &c, false, &e);
	bool narrow = ok && trace_too_narrow(&call, contract) >= 0;

	t->skipped += narrow;
	ok = ok && (narrow || (model(&c, contract, seed, &e) && judge(&c, &how, &v, &e)));
	if (ok && !narrow) count(t, &v, k, seed);
	if (!ok) error_print(stderr, &e), putc('\n', stderr);
	capture_free(&c);
	return ok;
}

/* Is either name among those asked for, or nothing of its kind? */
static bool wanted(char **names, const struct op *op, const struct contract *k)
{
	bool ops_named = false, named = false, op_named = false, contracts_named = false;

	for (; *names; names++) {
		if (!strcmp(*names, "rules")) continue;
		bool is_op = op_find(*names) != NULL;
		ops_named = ops_named || is_op;
		contracts_named = contracts_named || !is_op;
		op_named = op_named || !strcmp(*names, op->name);
		named = named || !strcmp(*names, k->name);
	}
	return (!ops_named || op_named) && (!contracts_named || named);
}

int main(int argc, char **argv)
{
	const char *to = argc > 1 ? strchr(argv[1], '-') : NULL;
	uint64_t first = to ? strtoull(argv[1], NULL, 10) : 1, last = to ? strtoull(to + 1, NULL, 10) : argc > 1 ? strtoull(argv[1], NULL, 10) : 5;
	size_t calls = 0, alarms = 0;

	for (int i = 2; i < argc; i++) quick = quick || !strcmp(argv[i], "rules");
	printf("%-18s %-14s %6s %7s %10s %7s %10s   largest value / limit:", "op", "contract", "calls", "skipped", "identified", "alarms", "undecided");
	for (int r = 0; r < RULE_COUNT; r++) printf(" %7s", rule_name[r]);
	putchar('\n');
	for (size_t o = 0; ops[o]; o++)
		for (const struct contract *k = ops[o]->contracts; k->name; k++) {
			struct tally t = { 0 };
			if (argc > 2 && !wanted(argv + 2, ops[o], k)) continue;
			for (const struct test_case *tc = test_cases; tc->op; tc++)
				for (uint64_t s = first; s <= last && op_find(tc->op) == ops[o] && !tc->large; s++)
					if (!one(tc, k, s, &t)) return EXIT_INPUT;
			printf("%-18s %-14s %6zu %7zu %10zu %7zu %10zu %23s", ops[o]->name, k->name, t.calls, t.skipped, t.identified, t.alarms, t.undecided, "");
			for (int r = 0; r < RULE_COUNT; r++) printf(" %7.3f", t.nearest[r]);
			putchar('\n');
			fflush(stdout);
			calls += t.calls;
			alarms += t.alarms + t.undecided;
		}
	printf("%zu clean calls, %zu false alarms\n", calls, alarms);
	return calls && !alarms ? EXIT_PASS : EXIT_FAIL;
}
