/* All ops, and those that the command line added. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/io/surroundings.h"
#include "ref/formula/formula.h"
#include "ref/grad/grad.h"

/* In the order of all lists; behind them stand the formulas of ref/ops that it does not name. */
static const char *const first[] = {
	"gated_delta_rule", "rmsnorm", "rope", "causal_conv1d", "newton_schulz", "muon_step", "mixed_batch", "qk_norm_rope", "rmsnorm_fp8",
	"gated_product"
};
enum { FIRST = sizeof first / sizeof *first, MAX_OP = 64 };
const struct op *ops[MAX_OP + 1];
static const struct op *backward[MAX_OP];       /* NAME.backward of those that are formulas */

static size_t place_of(const char *name)
{
	size_t i = 0;

	while (i < FIRST && strcmp(first[i], name)) i++;
	while (i >= FIRST && ops[i]) i++;
	return i;
}

static void stop(const struct error *e)
{
	fputs("etalon: ", stderr);
	error_print(stderr, e);
	putc('\n', stderr);
	exit(error_exit(e));
}

static void fill_cases(void)
{
	struct error e;

	for (size_t i = 0; ops[i]; i++)
		if (ops[i]->cases && !cases_add(ops[i]->cases, &e)) stop(&e);
}

/* Before main, and so before anything runs beside. */
__attribute__((constructor)) static void fill(void)
{
	struct surroundings host;

	surroundings_begin(&host);      /* the host of a library may have set a locale that writes 0,5 */
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
		stop(&e);
	}
	fill_cases();
	surroundings_end(&host);
}

/* Besides ops[] the only state of the program: what the command line or a caller added, the last first. They stay. */
struct added { const struct op *op, *backward; struct added *next; };
static _Atomic(struct added *) added;

bool op_add(const struct op *op)
{
	struct added *a = malloc(sizeof *a);

	if (!a) return false;
	*a = (struct added){ op, grad_make(op), atomic_load(&added) };
	while (!atomic_compare_exchange_weak(&added, &a->next, a)) {}
	return true;
}

const struct op *op_added(size_t i)
{
	const struct added *a = atomic_load(&added);

	while (a && i--) a = a->next;
	return a ? a->op : NULL;
}

static const struct op *named(const char *name, size_t n, bool back)
{
	for (const struct added *a = atomic_load(&added); a; a = a->next)
		if (strlen(a->op->name) == n && !strncmp(a->op->name, name, n)) return back ? a->backward : a->op;
	for (size_t i = 0; ops[i]; i++)
		if (strlen(ops[i]->name) == n && !strncmp(ops[i]->name, name, n)) return back ? backward[i] : ops[i];
	return NULL;
}

/* NAME.backward is NAME_backward too, as captures have it: how long NAME is, or 0. */
static size_t forward_length(const char *name)
{
	static const char suffix[] = "backward";
	size_t n = strlen(name), m = sizeof suffix - 1;

	return n > m + 1 && !strcmp(name + n - m, suffix) && strchr("._", name[n - m - 1]) ? n - m - 1 : 0;
}

const struct op *op_find(const char *name)
{
	const size_t n = forward_length(name);
	const struct op *op = named(name, strlen(name), false);

	return op || !n ? op : named(name, n, true);
}

bool op_unknown(const char *name, struct error *e)
{
	const struct op *forward = named(name, forward_length(name), false);
	char why[GRAD_SAID];

	if (!forward || !grad_lacks(forward, why, sizeof why)) return error_set(e, E_OP, name, NO_OFFSET, "see `etalon list ops`; --op FILE names the formula of one's own");
	return error_set(e, E_OP, name, NO_OFFSET, "%s has no backward pass here: %s", forward->name, why);
}

const struct op *op_backward(const struct op *op) { return named(op->name, strlen(op->name), true); }

const struct op *op_of_iteration(void)
{
	size_t i = 0;

	while (!op_is_iteration(ops[i])) i++;
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
