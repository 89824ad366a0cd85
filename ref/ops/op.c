/* All ops, and those that the command line added. */
#include <stdlib.h>
#include <string.h>

#include "ref/formula/formula.h"
#include "ref/grad/grad.h"

extern const struct op op_newton_schulz, op_muon_step;

/* In the order of all lists; behind them stand the formulas of ref/ops that it does not name. */
static const struct { const struct op *op; const char *formula; } first[] = {
	{ NULL, "gated_delta_rule" }, { NULL, "rmsnorm" }, { NULL, "rope" }, { NULL, "causal_conv1d" }, { &op_newton_schulz, NULL },
	{ &op_muon_step, NULL }, { NULL, "mixed_batch" }, { NULL, "qk_norm_rope" }, { NULL, "rmsnorm_fp8" }, { NULL, "gated_product" }
};
enum { FIRST = sizeof first / sizeof *first, MAX_OP = 64 };
const struct op *ops[MAX_OP + 1];
static const struct op *backward[MAX_OP];       /* NAME.backward of those that are formulas */

static size_t place_of(const char *name)
{
	size_t i = 0;

	while (i < FIRST && (first[i].op || strcmp(first[i].formula, name))) i++;
	while (i >= FIRST && ops[i]) i++;
	return i;
}

/* Before main, and so before anything runs beside. */
__attribute__((constructor)) static void fill(void)
{
	for (size_t i = 0; i < FIRST; i++) ops[i] = first[i].op;
	for (size_t i = 0; i < formula_builtins(); i++) {
		struct error e;
		const struct formula *f = formula_builtin(i, &e);
		size_t at = f ? place_of(formula_op(f)->name) : MAX_OP;
		if (f && at < MAX_OP) {
			ops[at] = formula_op(f);
			backward[at] = grad_make(ops[at]);
			continue;
		}
		if (f) error_set(&e, E_OP, formula_op(f)->name, NO_OFFSET, "expected at most %d ops", MAX_OP);
		fputs("etalon: ", stderr);
		error_print(stderr, &e);
		putc('\n', stderr);
		exit(error_exit(&e));
	}
}

/* Besides ops[] the only state of the program: what the command line added. */
enum { MAX_ADDED = 16 };
static struct { const struct op *op[MAX_ADDED], *backward[MAX_ADDED]; size_t n; } added;

void op_add(const struct op *op)
{
	if (added.n == MAX_ADDED) return;
	added.op[added.n] = op;
	added.backward[added.n++] = grad_make(op);
}

const struct op *op_added(void) { return added.n ? added.op[added.n - 1] : NULL; }

static const struct op *named(const char *name, size_t n, bool back)
{
	for (size_t i = added.n; i-- > 0;)
		if (strlen(added.op[i]->name) == n && !strncmp(added.op[i]->name, name, n)) return back ? added.backward[i] : added.op[i];
	for (size_t i = 0; ops[i]; i++)
		if (strlen(ops[i]->name) == n && !strncmp(ops[i]->name, name, n)) return back ? backward[i] : ops[i];
	return NULL;
}

/* NAME.backward is NAME_backward too, as captures have it. */
const struct op *op_find(const char *name)
{
	static const char suffix[] = "backward";
	size_t n = strlen(name), m = sizeof suffix - 1;
	const struct op *op = named(name, n, false);
	bool back = n > m + 1 && !strcmp(name + n - m, suffix) && strchr("._", name[n - m - 1]);

	return op || !back ? op : named(name, n - m - 1, true);
}

const struct op *op_backward(const struct op *op) { return named(op->name, strlen(op->name), true); }

const struct op *op_own(const char *name)
{
	size_t i = 0;

	while (strcmp(ops[i]->name, name)) i++;
	return ops[i];
}

const struct op *op_of_iteration(void)
{
	size_t i = 0;

	while (!ops[i]->iteration) i++;
	return ops[i];
}

bool op_in_slots(const struct op *op)
{
	bool reads = false, writes = false;

	for (const struct tensor_spec *t = op->in; t->name; t++) {
		reads = reads || ((t->flags & INTEGER) && !strcmp(t->name, "read_slot"));
		writes = writes || ((t->flags & INTEGER) && !strcmp(t->name, "write_slot"));
	}
	return reads && writes && !grad_of(op);
}

const struct op *op_of_slots(void)
{
	size_t i = 0;

	while (!op_in_slots(ops[i])) i++;
	return ops[i];
}
