/* etalon's own ops that are formulas: ref/ops/NAME.op and those of models' layers, ref/ops/layers/NAME.op, in the program as text. */
#include <string.h>

#include "formula_private.h"
#include "builtin_ops.h"

enum { OPS = sizeof builtin_ops / sizeof *builtin_ops, LAYERS = sizeof builtin_layers / sizeof *builtin_layers };

size_t formula_builtins(void) { return OPS; }

struct formula *formula_builtin(size_t i, struct error *e)
{
	return formula_of_sound_text(builtin_ops[i].path, builtin_ops[i].text, strlen(builtin_ops[i].text), e);
}

/* Is it the file of the op of that name? */
static bool is_of(const char *path, const char *name)
{
	const char *file = strrchr(path, '/') + 1;

	return strlen(file) == strlen(name) + strlen(".op") && !strncmp(file, name, strlen(name));
}

const char *formula_builtin_text(const char *name)
{
	for (size_t i = 0; i < OPS; i++)
		if (is_of(builtin_ops[i].path, name)) return builtin_ops[i].text;
	for (size_t i = 0; i < LAYERS; i++)
		if (is_of(builtin_layers[i].path, name)) return builtin_layers[i].text;
	return NULL;
}

struct formula *formula_layer(const char *name, struct error *e)
{
	size_t i = 0;

	while (i < LAYERS && !is_of(builtin_layers[i].path, name)) i++;
	if (i < LAYERS) return formula_of_sound_text(builtin_layers[i].path, builtin_layers[i].text, strlen(builtin_layers[i].text), e);
	error_set(e, E_OP, name, NO_OFFSET, "no layer");
	return NULL;
}

bool formula_builtin_check(size_t i, struct error *e)
{
	struct formula *f = formula_of_text(builtin_ops[i].path, builtin_ops[i].text, strlen(builtin_ops[i].text), e);

	formula_end(f);
	return f != NULL;
}
