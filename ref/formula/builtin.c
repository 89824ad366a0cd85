/* etalon's own ops that are formulas: ref/ops/NAME.op, in the program as text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formula_private.h"
#include "builtin_ops.h"

size_t formula_builtins(void) { return sizeof builtin / sizeof *builtin; }

struct formula *formula_builtin(size_t i, struct error *e)
{
	return formula_of_sound_text(builtin[i].path, builtin[i].text, strlen(builtin[i].text), e);
}

bool formula_builtin_cases(const struct op *op, const struct test_case **cases, struct error *e)
{
	static struct tree trees[sizeof builtin_cases / sizeof *builtin_cases];         /* which own what their cases are made of */
	char path[128];

	*cases = NULL;
	snprintf(path, sizeof path, "ref/ops/%s.cases", op->name);
	for (size_t i = 0; builtin_cases[i].path; i++)
		if (!strcmp(builtin_cases[i].path, path))
			return formula_parse_cases(&trees[i], path, builtin_cases[i].text, strlen(builtin_cases[i].text), e)
				&& cases_of_tree(&trees[i], op, cases, e);
	return true;
}

bool formula_builtin_check(size_t i, struct error *e)
{
	struct formula *f = formula_of_text(builtin[i].path, builtin[i].text, strlen(builtin[i].text), e);

	formula_end(f);
	return f != NULL;
}
