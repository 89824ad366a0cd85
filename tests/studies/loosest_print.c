/* The study's page. */
#include <math.h>
#include <string.h>

#include "loosest.h"

static const char head[] =
"# What passes that should not\n\n"
"`make loosest` writes this page: on %s, of commit %s. The kernels are made by the reference: it\n"
"computes in float32 and rounds where a contract lets it. Three kernels of each op are judged:\n"
"one in float32, one that stores bf16 and rounds the operands of products to bf16, and one that\n"
"computes in chunks in float32. Each fault of `etalon list faults` is put into each kernel, on\n"
"the cheapest case that shows it.\n\n";

static const char faults_head[] =
"## Faults\n\n"
"*own* is the tightest contract that allows the kernel's own roundings. A **false pass** is a\n"
"fault that `auto` passes and *own* fails. *Not visible* are faults below float32's noise on all\n"
"cases that were tried.\n\n"
"| op | kernel | right kernel under auto | visible | not visible | own: fail | undecided | pass "
"| auto: fail | undecided | pass | false passes |\n"
"|---|---|---|---|---|---|---|---|---|---|---|---|\n";

static const char fault_columns[] =
"| op | kernel | case | fault | size | own | worst rule | auto | contract |\n"
"|---|---|---|---|---|---|---|---|---|\n";

static const char gains_head[] =
"\n## Gains and offsets of all outputs\n\n"
"A right kernel of each contract, all its outputs multiplied by 1.001, 1.003, 1.01 and 1.03, or\n"
"moved by as many per cent of their rms: the rules under that contract. Rows that begin with\n"
"*auto* are the three kernels above, judged by `--contract auto` with the x-ray.\n\n"
"| op | kernel | case |";

static const char largest_head[] =
"\n## The largest that pass\n\n"
"A right kernel of each contract, its first output changed: the largest relative change that the\n"
"rules pass under that contract, found by bisection between 1e-7 and 10. *gain*: of the whole\n"
"output. *row*, *column*, *element*: of one, the element whose magnitude is nearest the output's\n"
"rms, and its row and column. *noise*: each element is multiplied by 1 + that times a normal\n"
"number.\n\n| op | kernel | case |";

struct count {
	int clean[3], visible, hidden, own[3], chosen[3], false_passes;
};

static bool is_clean(const struct row *r)
{
	return !strncmp(r->what, "no fault", strlen("no fault"));
}
static bool is_false_pass(const struct row *r)
{
	return r->own_outcome == FAIL && r->chosen_outcome == PASS;
}

static void count(struct count *c, const struct row *r)
{
	if (is_clean(r)) {
		c->clean[r->chosen_outcome]++;
	} else if (r->chosen_outcome == NOT_ASKED) {
		c->hidden++;
	} else {
		c->visible++;
		c->own[r->own_outcome]++;
		c->chosen[r->chosen_outcome]++;
		c->false_passes += is_false_pass(r);
	}
}

static void count_line(const char *op, const char *kernel, const struct count *c)
{
	printf("| %s | %s | %d pass, %d fail, %d undecided | %d | %d |"
	       " %d | %d | %d | %d | %d | %d | %d |\n",
		op, kernel, c->clean[PASS], c->clean[FAIL], c->clean[UNDECIDED], c->visible,
		c->hidden, c->own[FAIL], c->own[UNDECIDED], c->own[PASS], c->chosen[FAIL],
		c->chosen[UNDECIDED], c->chosen[PASS], c->false_passes);
}

/* A fault row of the same op and kernel stands before this one. */
static bool is_repeated(const struct rows *r, int i)
{
	for (int j = 0; j < i; j++)
		if (r->row[j].table == r->row[i].table && !strcmp(r->row[j].op, r->row[i].op)
			&& !strcmp(r->row[j].kernel, r->row[i].kernel))
			return true;
	return false;
}

static void each_count(const struct rows *r, const struct op *op, struct count *all)
{
	for (int i = 0; i < r->n; i++) {
		struct count c = { .visible = 0 };
		if (r->row[i].table != FAULTS || strcmp(r->row[i].op, op->name)
			|| is_repeated(r, i))
			continue;
		for (int j = i; j < r->n; j++) {
			const struct row *x = &r->row[j];
			if (x->table != FAULTS || strcmp(x->op, op->name)
				|| strcmp(x->kernel, r->row[i].kernel))
				continue;
			count(&c, x);
			count(all, x);
		}
		count_line(op->name, r->row[i].kernel, &c);
	}
}

/* Rows that are wanted, under a heading, where there is one. */
static void rows_of_fault(
	const struct rows *r, const char *heading, bool (*wanted)(const struct row *))
{
	bool any = false;

	for (int i = 0; i < r->n; i++) {
		const struct row *x = &r->row[i];
		if (x->table != FAULTS || x->chosen_outcome == NOT_ASKED || !wanted(x)) continue;
		if (!any) printf("\n### %s\n\n%s", heading, fault_columns);
		any = true;
		printf("| %s | %s | %s | %s | %.3g | %s: %s | %.3g | %s | %s |\n", x->op, x->kernel,
			x->kase, x->what, x->size, x->own, outcome_name[x->own_outcome], x->value,
			outcome_name[x->chosen_outcome], x->chosen);
	}
}

static bool is_false_alarm(const struct row *r) { return is_clean(r) && r->chosen_outcome != PASS; }
static bool is_passed_by_own(const struct row *r)
{
	return !is_clean(r) && r->own_outcome != FAIL && r->chosen_outcome == PASS;
}
static bool is_undecided(const struct row *r)
{
	return !is_clean(r) && r->chosen_outcome == UNDECIDED;
}

static int faults_table(const struct rows *r)
{
	struct count all = { .visible = 0 };

	fputs(faults_head, stdout);
	for (size_t o = 0; ops[o]; o++) each_count(r, ops[o], &all);
	count_line("**all**", "", &all);
	printf("\nBelow, *size* is the fault's rms effect in units of float32's noise, and *worst\n"
	       "rule* the worst rule's value over its limit under *own*.\n");
	rows_of_fault(r, "False passes", is_false_pass);
	rows_of_fault(r, "Right kernels that do not pass under auto", is_false_alarm);
	rows_of_fault(r, "Faults that are undecided under auto", is_undecided);
	rows_of_fault(r, "Faults that auto and the kernel's own contract pass", is_passed_by_own);
	return all.false_passes;
}

/* ---- gains ---- */

/* In the order of fill_gains. */
static const char *const gain[] = { "gain 0.1 %", "gain 0.3 %", "gain 1 %", "gain 3 %",
	"offset 0.1 %", "offset 0.3 %", "offset 1 %", "offset 3 %" };
enum { GAIN_COLUMNS = sizeof gain / sizeof *gain };

static const char *outcome_of(const struct row *x)
{
	int outcome = !x ? NOT_ASKED : x->own_outcome;

	if (x && outcome == NOT_ASKED) outcome = x->chosen_outcome;
	return outcome == PASS ? "**pass**" : outcome == NOT_ASKED ? "" : outcome_name[outcome];
}

static const struct row *cell(const struct rows *r, const struct row *like, const char *what)
{
	struct row key = *like;

	snprintf(key.what, sizeof key.what, "%s", what);
	return row_find(r, &key);
}

/* The cell as it is, behind what it was before where that differs. */
static void changed_cell(const char *was, const char *is)
{
	if (*was && strcmp(was, is)) printf(" %s → %s |", was, is);
	else printf(" %s |", is);
}

static void gains_table(const struct rows *r, const struct rows *before)
{
	int passes[GAIN_COLUMNS] = { 0 };

	fputs(gains_head, stdout);
	for (int g = 0; g < GAIN_COLUMNS; g++) printf(" %s |", gain[g]);
	printf("\n|---|---|---|---|---|---|---|---|---|---|---|\n");
	for (size_t o = 0; ops[o]; o++)
		for (int i = 0; i < r->n; i++) {
			const struct row *x = &r->row[i];
			if (x->table != GAINS || strcmp(x->op, ops[o]->name) || is_repeated(r, i))
				continue;
			printf("| %s | %s | %s |", x->op, x->kernel, x->kase);
			for (int g = 0; g < GAIN_COLUMNS; g++) {
				const char *outcome = outcome_of(cell(r, x, gain[g]));
				passes[g] += !strcmp(outcome, "**pass**");
				changed_cell(outcome_of(cell(before, x, gain[g])), outcome);
			}
			putchar('\n');
		}
	printf("| **passes** | | |");
	for (int g = 0; g < GAIN_COLUMNS; g++) printf(" %d |", passes[g]);
	putchar('\n');
}

/* ---- the largest ---- */

static const char *const largest[] = { "gain", "row", "column", "element", "noise" };
enum { LARGEST_COLUMNS = sizeof largest / sizeof *largest };

enum { MAX_TEXT = 16 };
static const char *value_text(const struct row *x, char text[MAX_TEXT])
{
	if (!x) return "";
	if (isinf(x->value)) return "> 10";
	if (!(x->value > 0)) return "< 1e-7";
	snprintf(text, MAX_TEXT, "%.2g", x->value);
	return text;
}

static void largest_cell(const struct row *was, const struct row *is)
{
	char a[MAX_TEXT], b[MAX_TEXT];

	changed_cell(value_text(was, a), value_text(is, b));
}

static void largest_table(const struct rows *r, const struct rows *before)
{
	fputs(largest_head, stdout);
	for (int g = 0; g < LARGEST_COLUMNS; g++) printf(" %s |", largest[g]);
	printf("\n|---|---|---|---|---|---|---|---|\n");
	for (size_t o = 0; ops[o]; o++)
		for (int i = 0; i < r->n; i++) {
			const struct row *x = &r->row[i];
			if (x->table != LARGEST || strcmp(x->op, ops[o]->name) || is_repeated(r, i))
				continue;
			printf("| %s | %s | %s |", x->op, x->kernel, x->kase);
			for (int g = 0; g < LARGEST_COLUMNS; g++)
				largest_cell(cell(before, x, largest[g]), cell(r, x, largest[g]));
			putchar('\n');
		}
}

/* False passes of before, if they were measured. */
static void say_before(const struct rows *before)
{
	int n = 0;

	for (int i = 0; i < before->n; i++)
		n += before->row[i].table == FAULTS && is_false_pass(&before->row[i]);
	if (before->n) printf("There were %d before. Below, *was → is* is a change.\n", n);
}

bool print_page(struct rows *r, const struct rows *before, const char *commit, const char *date)
{
	bool more = false;

	rows_sort(r);
	printf(head, date, commit);
	int false_passes = faults_table(r);
	for (int i = 0; i < r->n; i++) more = more || r->row[i].table != FAULTS;
	printf("\n%d false passes.\n", false_passes);
	say_before(before);
	if (more) {
		gains_table(r, before);
		largest_table(r, before);
	}
	return !false_passes;
}
