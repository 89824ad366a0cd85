/* make pairs: two faults at once, at random, in float32 model kernels on random cases, each of them visible beside the
 * other, and both beside a right kernel. How often are both named, or faults whose answer is the pair's within float32's noise? usage: pairs [PAIRS [OP]] */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kill_matrix.h"

static const double enough = 0.8, dear = 4e5;
enum { TRIES = 1000 };

static uint64_t next(uint64_t *state, uint64_t n)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (*state >> 33) % n;
}

struct pair { const struct test_case *kase; struct model model; struct fault fault[2]; };

/* Infinite where the case is not one of the op's, or large. */
static double size_of(const struct test_case *k, const struct op *op)
{
	double size = 1;

	for (const struct case_dim *d = k->dims; d->name; d++) size *= (double)d->size;
	return strcmp(k->op, op->name) || k->large ? INFINITY : size;
}

/* Of those that are not dear, or not much dearer than the cheapest. */
static const struct test_case *random_case(const struct op *op, uint64_t *state)
{
	double most = dear * (strcmp(op->name, "gated_delta_rule") ? 1 : 20), least = INFINITY;
	size_t n = 0;

	for (; test_cases[n].op; n++) least = fmin(least, size_of(&test_cases[n], op));
	for (;;) {
		const struct test_case *k = &test_cases[next(state, n)];
		if (size_of(k, op) <= fmax(most, 4 * least)) return k;
	}
}

static struct plan plan_of(const struct pair *p, int faults)
{
	struct plan plan = model_plan(&p->model, NULL);

	for (int i = 0; i < 2; i++)
		if (faults >> i & 1) plan_fault(&plan, p->model.op, p->fault[i].fault);
	return plan;
}

/* Is each of the two seen beside the other, and both beside the right answer, which two faults may make up for? */
static bool visible(const struct pair *p, const struct call *call, bool *yes, struct error *e)
{
	*yes = true;
	for (int i = 0; i < 3 && *yes; i++) {
		struct xray x;
		double size = 0;
		if (!xray_make(&x, call, NULL, e)) return false;
		struct plan both = plan_of(p, 3);
		x.emulation = plan_of(p, i < 2 ? 1 << (1 - i) : 0);
		both.arith = x.emulation.arith = &arith_f64;
		both.bits = x.emulation.bits = arith_f64.precision;
		both.form = x.emulation.form;
		struct look look = look_of(&both);
		bool ok = xray_refresh(&x) && xray_look(&x, &look, 1, LOOK_SIZE);
		if (ok) size = look.size;
		xray_free(&x);
		if (!ok) return false;
		*yes = size >= above_noise * above_noise;
	}
	return true;
}

static bool detects(const struct verdict *v, const char *name)
{
	for (int i = 0; i < v->x.n; i++)
		if (v->x.suspect[i].state == DETECTED && !strcmp(v->x.suspect[i].name, name)) return true;
	return false;
}

/* Do the faults that are detected, all at once, give the pair's answer? */
static bool same_answer(const struct pair *p, const struct call *call, const struct verdict *v, bool *same, struct error *e)
{
	struct plan named = model_plan(&p->model, NULL), both = plan_of(p, 3);
	struct xray x;
	int n = 0;

	*same = false;
	for (int i = 0; i < v->x.n; i++) {
		const struct suspect *s = &v->x.suspect[i];
		if (s->state != DETECTED) continue;
		if (s->site >= 0) return true;
		plan_fault_at(&named, p->model.op, op_fault(p->model.op, s->name), s->value);
		n++;
	}
	if (!n) return true;
	if (!xray_make(&x, call, NULL, e)) return false;
	named.arith = both.arith = &arith_f64;
	named.bits = both.bits = arith_f64.precision;
	named.form = both.form;
	x.emulation = both;
	struct look look = look_of(&named);
	bool ok = xray_refresh(&x) && xray_look(&x, &look, 1, LOOK_SIZE);
	*same = ok && !look.overflows && look.size < above_noise;
	xray_free(&x);
	return ok;
}

/* Draws pairs until one is visible (*any), judges it, and prints what became of it; *named says whether both were. */
static bool one(const struct op *op, uint64_t *state, int n_fault, const struct fault *list, bool *any, bool *named, struct error *e)
{
	*any = false;
	for (int t = 0; t < TRIES; t++) {
		struct pair p = { random_case(op, state), { op, &op->contracts[0], 0, next(state, 2) != 0 }, { list[next(state, (uint64_t)n_fault)], list[next(state, (uint64_t)n_fault)] } };
		struct capture c;
		struct call call;
		struct verdict v;
		bool yes;
		if (!strcmp(p.fault[0].name, p.fault[1].name)) continue;
		if (!model_case(&p.model, p.kase, next(state, 1000) + 1, &c, &call, e)) return false;
		struct plan plan = plan_of(&p, 3);
		bool ok = visible(&p, &call, &yes, e);
		bool same = false;
		if (ok && yes)
			ok = model_answer(&call, &plan, e) && judge(&c, &(struct judging){ .contract = p.model.contract->name }, &v, e)
				&& same_answer(&p, &call, &v, &same, e);
		capture_free(&c);
		if (!ok) return false;
		if (!yes) continue;
		*any = true;
		bool both = detects(&v, p.fault[0].name) && detects(&v, p.fault[1].name);
		*named = both || same;
		printf("  %-18s %-30s %-30s %s:", p.kase->name, p.fault[0].name, p.fault[1].name, both ? "both" : same ? "the same" : v.outcome == FAIL ? "fails" : "MISSED");
		for (int i = 0; i < v.x.n; i++)
			if (v.x.suspect[i].state == DETECTED) printf(" %s", v.x.suspect[i].name);
		putchar('\n');
		fflush(stdout);
		return true;
	}
	return true;
}

int main(int argc, char **argv)
{
	int pairs = argc > 1 ? atoi(argv[1]) : 50;
	bool good = pairs > 0;
	int judged = 0;

	for (size_t o = 0; ops[o]; o++) {
		static struct fault list[MAX_PLANTED];
		uint64_t state = o + 1;
		int n = 0, both = 0, seen = 0, all;
		bool any = true;
		if (argc > 2 && strcmp(argv[2], ops[o]->name)) continue;
		all = faults_of(ops[o], list);
		for (int i = 0; i < all; i++)
			if (list[i].fault >= 0 && !ops[o]->faults[list[i].fault].is_rounding && ops[o]->faults[list[i].fault].form != 1) list[n++] = list[i];
		for (int i = 0; i < pairs && any; i++) {
			struct error e;
			bool named = false;
			if (!one(ops[o], &state, n, list, &any, &named, &e)) {
				error_print(stderr, &e);
				putc('\n', stderr);
				return EXIT_MACHINE;
			}
			both += named, seen += any;
		}
		if (!any) printf("%s: no visible pair in %d draws\n", ops[o]->name, TRIES);
		printf("%s: both named in %d of %d pairs\n", ops[o]->name, both, seen);
		good = good && both >= enough * seen;
		judged += seen;
	}
	return good && judged ? EXIT_PASS : EXIT_FAIL;
}
