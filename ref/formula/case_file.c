/* A file of more cases of an op. */
#include "formula_private.h"

#include <stdlib.h>

#include "fixtures/io/file.h"

struct case_file { struct tree tree; const struct op *op; const struct test_case *cases; };

static bool read_text(struct case_file *f, const char *path, const char *text, size_t n, struct error *e)
{
	if (!formula_parse_cases(&f->tree, path, text, n, e)) return false;
	if (!(f->op = op_find(f->tree.name)))
		return formula_error(e, f->tree.path, 1, 1, "expected the name of an op, which '%s' is not; see `etalon list ops`", f->tree.name);
	if (!cases_of_tree(&f->tree, f->op, &f->cases, e)) return false;
	return (f->cases && f->cases->op) || formula_error(e, f->tree.path, 1, 1, "expected a line 'case NAME: ...'");
}

struct case_file *case_file_read(const char *path, struct error *e)
{
	struct case_file *f = calloc(1, sizeof *f);
	void *map;
	size_t n;

	if (!f) error_set(e, E_MEMORY, path, NO_OFFSET, "reading cases");
	if (!f || !file_map(path, &map, &n, e)) {
		free(f);
		return NULL;
	}
	bool read = read_text(f, path, map ? map : "", n, e);
	file_unmap(map, n);
	if (read) return f;
	case_file_free(f);
	return NULL;
}

void case_file_free(struct case_file *f)
{
	if (f) formula_free(&f->tree);
	free(f);
}

const struct op *case_file_op(const struct case_file *f) { return f->op; }
const struct test_case *case_file_cases(const struct case_file *f) { return f->cases; }
