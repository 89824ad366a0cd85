/* etalon's own ops that are formulas: ref/ops/NAME.op, in the program as text. */
#include <string.h>

#include "formula_private.h"
#include "builtin_ops.h"

size_t formula_builtins(void) { return sizeof builtin / sizeof *builtin; }

struct formula *formula_builtin(size_t i, struct error *e)
{
	return formula_of_sound_text(builtin[i].path, builtin[i].text, strlen(builtin[i].text), e);
}

const char *formula_builtin_text(const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < formula_builtins(); i++) {
		const char *file = strrchr(builtin[i].path, '/') + 1;
		if (strlen(file) == n + strlen(".op") && !strncmp(file, name, n)) return builtin[i].text;
	}
	return NULL;
}

bool formula_builtin_check(size_t i, struct error *e)
{
	struct formula *f = formula_of_text(builtin[i].path, builtin[i].text, strlen(builtin[i].text), e);

	formula_end(f);
	return f != NULL;
}
