/* Sizes and shapes in words, by the letters that the file has for them. */
#include "program.h"

#include <stdio.h>
#include <string.h>

/* The one size of the call that is n, or NULL. */
static const char *letter(const struct call *call, size_t n)
{
	const char *found = NULL;

	for (int i = 0; call->op->dims[i]; i++) {
		if (call->dim[i] != n) continue;
		if (found) return NULL;
		found = call->op->dims[i];
	}
	return found;
}

const char *size_said(const struct call *call, size_t n, char *text, size_t room)
{
	const char *name = letter(call, n);

	if (!name) snprintf(text, room, "%zu", n);
	else if (!call->capture) snprintf(text, room, "%s", name);
	else snprintf(text, room, "%s = %zu", name, n);
	return text;
}

struct said { char name[96], number[64]; bool any, all; };

static void add(struct said *s, const struct call *call, struct len a)
{
	size_t n = strlen(s->name), m = strlen(s->number);
	const char *name = a.chunk < 0 ? letter(call, a.n) : NULL, *comma = n ? ", " : "";

	snprintf(s->number + m, sizeof s->number - m, a.chunk < 0 ? "%s%zu" : "%schunk of up to %zu", comma, a.n);
	if (name) snprintf(s->name + n, sizeof s->name - n, "%s%s", comma, name);
	else snprintf(s->name + n, sizeof s->name - n, "%s", s->number + m);
	s->any = s->any || name;
	s->all = s->all && (name || a.chunk >= 0);
}

const char *shape_said(const struct call *call, struct shape s, char text[SHAPE_SAID])
{
	static const char *const ranks[] = { [SCALAR] = "a number", [COLUMN] = "a column", [ROW] = "a row", [MATRIX] = "a matrix" };
	struct said said = { .all = true };

	if (s.rank == COLUMN || s.rank == MATRIX) add(&said, call, s.rows);
	if (s.rank == ROW || s.rank == MATRIX) add(&said, call, s.cols);
	if (s.rank == SCALAR) snprintf(text, SHAPE_SAID, "%s", ranks[SCALAR]);
	else if (!said.any || (said.all && !call->capture)) snprintf(text, SHAPE_SAID, "%s [%s]", ranks[s.rank], said.name);
	else snprintf(text, SHAPE_SAID, "%s [%s] = [%s]", ranks[s.rank], said.name, said.number);
	return text;
}

const char *tensor_said(const struct call *call, const struct tensor_spec *of, char text[SHAPE_SAID])
{
	size_t shape[MAX_RANK], n = 0;
	int rank = call_shape(call, of->shape, shape);

	n += (size_t)snprintf(text, SHAPE_SAID, "%s [%s]", of->name, of->shape);
	for (int i = 0; call->capture && i < rank && n < SHAPE_SAID; i++)
		n += (size_t)snprintf(text + n, SHAPE_SAID - n, "%s%zu%s", i ? "," : " = [", shape[i], i + 1 == rank ? "]" : "");
	return text;
}
