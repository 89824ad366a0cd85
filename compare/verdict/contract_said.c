/* The contract that whoever judges names for the calls of an op. */
#include <string.h>

#include "verdict.h"

#define ONE_EACH "expected NAME once and OP=NAME once for an op, with commas between them"

/* The op's own name of it, or "auto"; NULL with *e filled where the op has no such contract. */
static const char *name_for(const struct op *op, const char *text, struct error *e)
{
	int k = op_contract(op, text);

	if (!strcmp(text, "auto")) return "auto";
	if (k < 0) op_lacks(e, op, "contracts", text);
	return k < 0 ? NULL : op->contracts[k].name;
}

/* A part for one op, which may be another one: it is read all the same, so that a wrong name is said. */
static bool take_own(
	char *part, char *equals, const struct op *op, const char **own, struct error *e)
{
	const struct op *of;
	const char *name;

	*equals = 0;
	if (!(of = op_find(part))) return op_unknown(part, e);
	if (!(name = name_for(of, equals + 1, e))) return false;
	if (of != op) return true;
	if (*own) return error_set(e, E_DUPLICATE, part, NO_OFFSET, ONE_EACH);
	*own = name;
	return true;
}

bool contract_said(const char *said, const struct op *op, const char **name, struct error *e)
{
	char *text = strdup(said), *rest = text, *part, *others = NULL, *equals;
	const char *own = NULL;
	bool ok = text || error_set(e, E_MEMORY, NULL, NO_OFFSET, "a contract's name");

	while (ok && (part = strsep(&rest, ","))) {
		if ((equals = strchr(part, '='))) ok = take_own(part, equals, op, &own, e);
		else if (others) ok = error_set(e, E_DUPLICATE, part, NO_OFFSET, ONE_EACH);
		else others = part;
	}
	*name = own ? own : ok && others ? name_for(op, others, e) : NULL;
	ok = ok && (*name || !others);
	free(text);
	return ok;
}
