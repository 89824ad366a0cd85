/* The study as a page of Markdown on stdout, and as a table. */
#include <string.h>

#include "compare/verdict/verdict.h"
#include "strangers.h"

enum { LONG = 1024 };

static const char *outcome_of(const struct seen *s) { return s->outcome < 0 ? "-" : outcome_name[s->outcome]; }

/* ---- correct kernels ---- */

struct sum { int points, good, unread, by_rule, by_xray, undecided, named, rounding; double ratio[RULE_COUNT]; };

static void add(struct sum *s, const struct seen *v)
{
	s->points++;
	s->good += v->outcome == PASS && v->explained;
	s->unread += v->outcome == PASS && !v->explained;
	s->by_rule += v->outcome == FAIL && v->by_rule;
	s->by_xray += v->outcome == FAIL && !v->by_rule;
	s->undecided += v->outcome == UNDECIDED;
	s->named += v->faults > 0;
	s->rounding += v->outcome == FAIL && v->roundings > 0;
	for (int r = 0; r < RULE_COUNT; r++) s->ratio[r] = fmax(s->ratio[r], v->ratio[r]);
}

static void sum_line(const char *op, const char *class, const struct sum *s)
{
	printf("%-17s %-20s %6d %10d %12d %9d %9d %10d  |", op, class, s->points, s->good, s->unread, s->by_rule, s->by_xray,
		s->undecided);
	for (int r = 0; r < RULE_COUNT; r++) printf(" %8.3g", s->ratio[r]);
	putchar('\n');
}

static bool is_of(const struct unit *u, const struct unit *first)
{
	return !u->point.fault && u->point.family == first->point.family && !strcmp(u->point.class, first->point.class);
}

static struct sum classes(const struct unit *u, int n)
{
	struct sum all = { 0 };

	printf("```\n%-17s %-20s %6s %10s %12s %9s %9s %10s  | largest value / limit:\n", "", "", "", "pass,", "pass, un-",
		"fail by", "fail by", "");
	printf("%-17s %-20s %6s %10s %12s %9s %9s %10s  |", "op", "class", "points", "identified", "identified", "a rule",
		"x-ray", "undecided");
	for (int r = 0; r < RULE_COUNT; r++) printf(" %8s", rule_name[r]);
	putchar('\n');
	for (int i = 0; i < n; i++) {
		struct sum s = { 0 };
		int first = 0;
		if (u[i].point.fault) continue;
		while (!is_of(&u[first], &u[i])) first++;
		for (int j = i; j < n && first == i; j++)
			if (is_of(&u[j], &u[i])) add(&s, &u[j].right);
		if (first == i) sum_line(u[i].point.family->op, u[i].point.class, &s);
		add(&all, &u[i].right);
	}
	sum_line("all", "", &all);
	printf("```\n\n");
	return all;
}

static void claims(const struct seen *s)
{
	if (s->faults + s->roundings)
		printf("  named: %s (%d fault%s, %d rounding%s)\n", s->name, s->faults, s->faults == 1 ? "" : "s",
			s->roundings, s->roundings == 1 ? "" : "s");
}

static void describe(const struct unit *u)
{
	char name[64], kernel[LONG] = "", kase[LONG] = "";

	unit_name(u, name, sizeof name);
	u->point.family->say(&u->point, kernel, sizeof kernel);
	made_say(&u->point.made, kase, sizeof kase);
	printf("%s  (%s)\n  kernel: %s\n", name, kase, kernel);
}

static void failures(const struct unit *u, int n)
{
	printf("```\n");
	for (int i = 0; i < n; i++) {
		if (u[i].point.fault || u[i].right.outcome == PASS) continue;
		describe(&u[i]);
		printf("  %s under %s: %s\n", outcome_of(&u[i].right), u[i].right.contract, u[i].right.reason);
		claims(&u[i].right);
	}
	printf("```\n\n");
}

/* ---- faults ---- */

struct tally { int faults, visible, rejected, excused, missed, faint_rejected, named, rounding, wrong_name, wrong_right; };

static struct tally tally_of(const struct unit *u, int n)
{
	struct tally t = { 0 };

	for (int i = 0; i < n; i++) {
		if (!u[i].point.fault) continue;
		bool seen = unit_visible(&u[i]), failed = u[i].seen.outcome == FAIL;
		t.faults++;
		t.visible += seen;
		t.rejected += seen && failed;
		t.missed += seen && !failed && !unit_excused(&u[i]);
		t.excused += seen && !failed && unit_excused(&u[i]);
		t.faint_rejected += !seen && failed;
		t.named += u[i].seen.faults > 0;
		t.rounding += u[i].seen.roundings > 0;
		t.wrong_name += !unit_named_rightly(&u[i]);
		t.wrong_right += u[i].right.outcome != PASS;
	}
	return t;
}

static void faults(const struct unit *u, int n)
{
	printf("```\n");
	for (int i = 0; i < n; i++) {
		const struct unit *x = &u[i];
		if (!x->point.fault) continue;
		printf("%s\n  ", x->point.family->flaws[x->point.fault - 1].what);
		describe(x);
		printf("  effect: rms %.3g sigma, worst %.3g of %.3g, under %s%s%s; without it: %s\n", x->effect.rms,
			x->effect.worst, x->effect.limit,
			x->right.contract, strcmp(x->point.contract, "auto") ? ", by name" : "",
			unit_visible(x) ? "" : "; below the contract's error",
			outcome_of(&x->right));
		if (unit_excused(x))
			printf("  but rms %.3g, worst %.3g of %.3g under %s\n", x->there.rms, x->there.worst, x->there.limit,
				x->seen.contract);
		printf("  %s under %s: %s\n", outcome_of(&x->seen), x->seen.contract,
			*x->seen.where ? x->seen.where : x->seen.reason);
		claims(&x->seen);
	}
	printf("```\n\n");
}

static const char head[] =
"# Strangers\n\n"
"Correct kernels whose structure no contract lists, and kernels with a fault, most on no list. This page is\n"
"generated; the first command writes it, the second is a small version for CI. `build/strangers -w FILE OP/N` writes\n"
"a point's capture, `build/strangers -k FOLDER` holds the known kernels' points against captures of them.\n\n"
"```\nmake strangers\nmake strangers SMALL=1\n```\n\n"
"All kernels here are the study's own (`tests/strangers/`), written in float32 from the formulas with nothing of\n"
"`ref/` in them. A *correct* one is a point in a space of freedoms: of the gated delta rule in chunks conjugation,\n"
"diagonal factors, association, roundings, inverse, chunk, exponents and sums; of the other ops where roundings stand,\n"
"orders of sums, forms of functions. Points and inputs are drawn from seeds that are used nowhere else. Before\n"
"anything is judged each structure runs without its roundings and must keep the rules of a float32 contract (in chunks\n"
"of its own length). Then each is judged under `auto`: none may fail, and at most one in 50 may be undecided.\n\n"
"A *fault* is made in the simplest float32 kernel, or in a structure that is drawn or known. Its effect is what it\n"
"does to the same kernel's answer, in sigma of the contract under which the kernel is judged without it: the largest\n"
"root mean square of an output, and the element that is farthest in terms of the rule *worst*. From 2 sigma, or beyond\n"
"that rule's limit, it must be rejected; smaller ones are below the contract's error and may pass, as may one that is\n"
"so small under a looser contract that `auto` finds. None may be given another\n"
"name than its own, which few have in the op's file.\n\n"
"The known kernels' points against recorded calls: shares of the square of each output's error that they explain, and\n"
"of elements that are equal to the bit.\n\n";

static void summary(const struct sum *s, const struct tally *t)
{
	printf("## Summary\n\n%d correct kernels: %d pass (%d identified), %d fail by a rule, %d by the x-ray alone, "
		"%d undecided;\n", s->points, s->good + s->unread, s->good, s->by_rule, s->by_xray, s->undecided);
	printf("a known fault is named in %d, a rounding that is not allowed claimed in %d.\n\n", s->named, s->rounding);
	printf("%d faults, %d of them above the contract's error: %d rejected, %d missed, %d within a looser contract's rules;\n",
		t->faults, t->visible, t->rejected, t->missed, t->excused);
	printf("of the %d smaller ones %d rejected. A known fault is named in %d, a rounding in %d, wrongly in %d.\n"
		"Without its fault the kernel does not pass in %d.\n\n", t->faults - t->visible, t->faint_rejected, t->named, t->rounding,
		t->wrong_name, t->wrong_right);
}

void print_page(const struct unit *u, int n, double seconds)
{
	double cpu = 0;
	struct tally t = tally_of(u, n);

	for (int i = 0; i < n; i++) cpu += u[i].seconds;
	printf("## Correct kernels\n\n*identified*: the x-ray explains the error as far as it must.\n\n");
	struct sum s = classes(u, n);
	summary(&s, &t);
	printf("Took %.0f s, %.0f s of processor time for the verdicts.\n\n", seconds, cpu);
	if (s.good + s.unread < s.points) printf("## Correct kernels that do not pass\n\n");
	if (s.good + s.unread < s.points) failures(u, n);
	if (t.faults) printf("## Faults\n\n");
	if (t.faults) faults(u, n);
}

void print_head(void) { fputs(head, stdout); }

bool write_table(const char *path, const struct unit *u, int n)
{
	FILE *to = fopen(path, "w");

	if (!to) return false;
	fprintf(to, "point\tclass\tfault\tcontract\tgood\tright\tidentified\tby_rule\tseen\tseen_by_rule\tfaults\troundings\t"
		"name\teffect\tworst\tlimit");
	for (int r = 0; r < RULE_COUNT; r++) fprintf(to, "\t%s", rule_name[r]);
	fprintf(to, "\tseconds\tcase\tkernel\treason\twhere\n");
	for (int i = 0; i < n; i++) {
		const struct unit *x = &u[i];
		const struct seen *s = x->point.fault ? &x->seen : &x->right;
		char name[64], kernel[LONG] = "", kase[LONG] = "";
		unit_name(x, name, sizeof name);
		x->point.family->say(&x->point, kernel, sizeof kernel);
		made_say(&x->point.made, kase, sizeof kase);
		fprintf(to, "%s\t%s\t%s\t%s\t%d\t%s\t%d\t%d\t%s\t%d\t%d\t%d\t%s\t%.4g\t%.4g\t%.4g", name, x->point.class,
			x->point.fault ? x->point.family->flaws[x->point.fault - 1].what : "-",
			s->contract, unit_good(x), outcome_of(&x->right), x->right.explained, x->right.by_rule,
			outcome_of(&x->seen), x->seen.by_rule, s->faults, s->roundings,
			*s->name ? s->name : "-", x->effect.rms, x->effect.worst, x->effect.limit);
		for (int r = 0; r < RULE_COUNT; r++) fprintf(to, "\t%.4g", s->ratio[r]);
		fprintf(to, "\t%.2f\t%s\t%s\t%s\t%s\n", x->seconds, kase, kernel, s->reason, s->where);
	}
	return fclose(to) == 0;
}
