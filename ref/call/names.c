/* What an op has, by name. */
#include <string.h>

#include "op.h"

/* The tables' entries all begin with their name. */
#define FIND(table, name) \
	for (int i = 0; (table)[i].name; i++) \
		if (!strcmp((table)[i].name, name)) return i; \
	return -1

const char *op_option(const struct op *op, char text[OP_OPTION])
{
	static const char begin[] = " --op '", quote[] = "'\\''";
	size_t n = sizeof begin - 1;

	text[0] = 0;
	if (!op->file) return text;
	memcpy(text, begin, n);
	for (const char *s = op->file; *s && n + sizeof quote < OP_OPTION; s++) {
		size_t wide = *s == '\'' ? sizeof quote - 1 : 1;
		memcpy(text + n, wide > 1 ? quote : s, wide);
		n += wide;
	}
	memcpy(text + n, "'", 2);
	return text;
}

bool op_lacks(struct error *e, const struct op *op, const char *list, const char *name)
{
	char option[OP_OPTION];

	return error_set(e, E_UNKNOWN_NAME, name, NO_OFFSET, "see `etalon list %s %s%s`", list, op->name, op_option(op, option));
}

int op_site(const struct op *op, const char *name) { FIND(op->sites, name); }
int op_fault(const struct op *op, const char *name) { FIND(op->faults, name); }
int op_contract(const struct op *op, const char *name) { FIND(op->contracts, name); }

int op_form(const struct op *op, const char *name)
{
	for (int i = 0; i < MAX_FORM && op->forms[i].name; i++)
		if (!strcmp(op->forms[i].name, name)) return i;
	return -1;
}

bool site_in_all(const struct op *op, int site)
{
	bool all = true;

	for (int i = 0; i < MAX_FORM && op->forms[i].name; i++) all = all && site_in_form(op, site, i);
	return all;
}

int site_first_form(const struct op *op, int site)
{
	int form = 0;

	while (!site_in_form(op, site, form)) form++;
	return form;
}

int op_size(const struct op *op, const char *name)
{
	for (int i = 0; op->dims[i]; i++)
		if (!strcmp(op->dims[i], name)) return i;
	return -1;
}

const struct test_case *op_case(const struct op *op, const char *name)
{
	if (!op->cases) return case_find(op->name, name);
	for (const struct test_case *k = op->cases; k->op; k++)
		if (!strcmp(k->name, name)) return k;
	return NULL;
}
