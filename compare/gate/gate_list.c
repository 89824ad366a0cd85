#include "gate_list.h"

#include <errno.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "compare/print/print.h"

static void item_free(struct listed *x)
{
	free(x->path);
	free(x->root);
	free(x->name);
}

static bool add(
	struct gate_list *l, const char *path, const char *root, const char *name, bool gone)
{
	struct listed *item = realloc(l->item, (l->n + 1) * sizeof *item);

	if (!item) return false;
	l->item = item;
	item[l->n] = (struct listed){ strdup(path), strdup(root), strdup(name), gone };
	struct listed *x = &item[l->n++];
	if (!x->path || !x->root || !x->name) return false;
	make_clean(x->name);
	make_clean(x->root);
	return true;
}

static bool no_memory(const char *path, struct error *e)
{
	return error_set(e, E_MEMORY, path, NO_OFFSET, "a list of captures");
}

static bool is_capture(const char *name)
{
	static const char end[] = ".safetensors";
	size_t n = strlen(name), m = sizeof end - 1;

	return n >= m && !strcasecmp(name + n - m, end);
}

/* One entry of a folder's tree. A link to a folder above it was read there. */
static bool take(
	struct gate_list *l, FTS *tree, FTSENT *f, const char *root, bool flat, struct error *e)
{
	const char *name = f->fts_path + strlen(root);

	switch (f->fts_info) {
	case FTS_D:
		if (flat && f->fts_level > 0) fts_set(tree, f, FTS_SKIP);
		return true;
	case FTS_DP:
	case FTS_DC: return true;
	case FTS_DNR:
	case FTS_ERR:
	case FTS_NS:
		return error_set(e, E_READ, f->fts_path, NO_OFFSET, "%s", strerror(f->fts_errno));
	default: break;
	}
	if (!is_capture(f->fts_name)) return true;
	while (*name == '/') name++;
	return add(l, f->fts_path, root, f->fts_level ? name : f->fts_name, false)
		|| no_memory(root, e);
}

static int by_name(const void *a, const void *b)
{
	const struct listed *x = a, *y = b;

	return strcmp(x->name, y->name);
}

/* A file is itself, whatever its name's end. */
static bool add_file(struct gate_list *l, const char *path, struct error *e)
{
	const char *slash = strrchr(path, '/');

	return add(l, path, path, slash ? slash + 1 : path, false) || no_memory(path, e);
}

bool list_add(struct gate_list *l, const char *root, bool flat, struct error *e)
{
	char *start = strdup(root), *roots[] = { start, NULL };
	FTS *tree = start ? fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, NULL) : NULL;
	size_t before = l->n;
	FTSENT *f = NULL;
	bool ok = tree || no_memory(root, e);

	if (ok && !(f = fts_read(tree)))
		ok = error_set(e, E_READ, root, NO_OFFSET, "%s", strerror(errno));
	bool folder = ok && (f->fts_info == FTS_D || f->fts_info == FTS_DNR);
	if (ok && f->fts_info == FTS_NS)
		ok = error_set(e, E_OPEN, root, NO_OFFSET,
			"expected a folder of captures or a capture: %s", strerror(f->fts_errno));
	else if (ok && !folder) ok = add_file(l, root, e);
	while (ok && folder && f) {
		ok = take(l, tree, f, root, flat, e);
		errno = 0;
		if (ok && !(f = fts_read(tree)) && errno)
			ok = error_set(e, E_READ, root, NO_OFFSET, "%s", strerror(errno));
	}
	if (ok && folder && l->n == before)
		ok = error_set(e, E_EMPTY, root, NO_OFFSET, "expected *.safetensors%s",
			flat ? "; --flat leaves out the folders below it"
			     : " in it or in a folder below it");
	if (tree) fts_close(tree);
	free(start);
	if (ok && l->n > before) qsort(l->item + before, l->n - before, sizeof *l->item, by_name);
	return ok;
}

static bool has(const struct gate_list *l, const char *name)
{
	bool found = false;

	for (size_t i = 0; i < l->n && !found; i++) found = !strcmp(l->item[i].name, name);
	return found;
}

bool list_gone(struct gate_list *l, const json_t *captures, struct error *e)
{
	const char *name;
	json_t *entry;
	bool ok = true;

	json_object_foreach((json_t *)(uintptr_t)captures, name, entry)
		if (ok && !has(l, name)) ok = add(l, name, name, name, true) || no_memory(name, e);
	return ok;
}

json_t *list_names(const struct gate_list *l)
{
	json_t *names = json_object();

	for (size_t i = 0; i < l->n; i++)
		if (!l->item[i].gone) json_object_set_new(names, l->item[i].name, json_true());
	return names;
}

bool list_names_differ(const struct gate_list *l, struct error *e)
{
	for (size_t i = 0; i < l->n; i++)
		for (size_t k = i + 1; k < l->n; k++)
			if (!strcmp(l->item[i].name, l->item[k].name))
				return error_set(e, E_DUPLICATE, l->item[i].name, NO_OFFSET,
					"'%s' and '%s' would share the baseline's entry; name the "
					"folder above both",
					l->item[i].path, l->item[k].path);
	return true;
}

/* Keeps every of-th from the number-th on, of those that have the name; NULL: of all. */
static void keep(struct gate_list *l, const char *name, size_t number, size_t of)
{
	size_t kept = 0;

	for (size_t i = 0; i < l->n; i++) {
		struct listed *x = &l->item[i];
		if (i % of == number - 1 && (!name || !strcmp(x->name, name))) l->item[kept++] = *x;
		else item_free(x);
	}
	l->n = kept;
}

bool list_only(struct gate_list *l, const char *name, struct error *e)
{
	keep(l, name, 1, 1);
	return l->n
		|| error_set(e, E_MISSING, name, NO_OFFSET,
			"--only: no capture has this path below the folders named");
}

void list_part(struct gate_list *l, size_t number, size_t of) { keep(l, NULL, number, of); }

void list_free(struct gate_list *l)
{
	for (size_t i = 0; i < l->n; i++) item_free(&l->item[i]);
	free(l->item);
	*l = (struct gate_list){ 0 };
}
