/* Rows of logits and token ids out of tensor files. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "logits.h"

static const char *row(const struct logit_source *s, size_t i)
{
	return (const char *)s->tensor->data + i * s->vocabulary * dtype_info[s->type].size;
}

/* The whole pages before row `first` were read. */
static const void *tensor_rows(struct logit_source *s, size_t first, size_t n, struct error *e)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)row(s, 0), to = (uintptr_t)row(s, first);

	(void)n, (void)e;
	from = (from + page - 1) / page * page;
	to = to / page * page;
	if (from < to && s->tensor->offset != NO_OFFSET) madvise((void *)from, to - from, MADV_DONTNEED);
	return row(s, first);
}

bool source_of_tensor(struct logit_source *s, const struct tensor *t, const char *name, struct error *e)
{
	int batch = t->rank == 3 && t->shape[0] == 1;
	char shape[128];

	if (!dtype_info[t->dtype].is_float)
		return error_set(e, E_DTYPE, t->name, NO_OFFSET, "logits are of a float type, not %s", dtype_info[t->dtype].name);
	if (t->rank != 2 + batch)
		return error_set(e, E_RANK, t->name, NO_OFFSET, "expected logits [T,V], found %s", shape_text(t, shape, sizeof shape));
	*s = (struct logit_source){ .name = name, .positions = t->shape[batch], .vocabulary = t->shape[batch + 1], .type = t->dtype,
		.rows = tensor_rows, .tensor = t };
	if (s->positions == 0)
		return error_set(e, E_EMPTY, t->name, NO_OFFSET, "no positions: %s", shape_text(t, shape, sizeof shape));
	if (s->vocabulary < 2)
		return error_set(e, E_DIM, t->name, NO_OFFSET, "%s: one token alone is certain whatever its logit",
			shape_text(t, shape, sizeof shape));
	return true;
}

/* The part of place behind the file's name, or NULL: the longest name that is a file. */
static const char *split(const char *place, char *path, size_t size)
{
	const char *colon = strrchr(place, ':');

	snprintf(path, size, "%s", place);
	if (!colon || access(place, F_OK) == 0) return NULL;
	snprintf(path, size, "%.*s", (int)(colon - place), place);
	return colon + 1;
}

const struct tensor *tensor_at(struct tensors *file, const char *place, struct error *e)
{
	char path[4096];
	const char *name = split(place, path, sizeof path);

	if (!tensors_read(file, path, e)) return NULL;
	if (file->map_bytes) madvise(file->map, file->map_bytes, MADV_SEQUENTIAL);
	const struct tensor *t = name ? tensors_find(file, name) : file->n == 1 ? &file->item[0] : NULL;
	if (t) return t;
	if (name) error_set(e, E_MISSING, name, NO_OFFSET, "no tensor of this name among %zu", file->n);
	else error_set(e, E_USAGE, place, NO_OFFSET, "%zu tensors: name one, as FILE:TENSOR", file->n);
	error_in_file(e, path);
	tensors_free(file);
	return NULL;
}

size_t *ids_of_tensor(const struct tensor *t, size_t T, size_t V, struct error *e)
{
	int batch = t->rank == 2 && t->shape[0] == 1;
	char shape[128];

	if (t->dtype != DT_I32 && t->dtype != DT_I64) {
		error_set(e, E_DTYPE, t->name, NO_OFFSET, "token ids are I32 or I64, not %s", dtype_info[t->dtype].name);
		return NULL;
	}
	if (t->rank != 1 + batch || t->count != T) {
		error_set(e, E_DIM, t->name, NO_OFFSET, "expected an id for each of %zu positions, found %s", T, shape_text(t, shape,
			sizeof shape));
		return NULL;
	}
	size_t *ids = malloc(T * sizeof *ids);
	if (!ids) error_set(e, E_MEMORY, t->name, NO_OFFSET, "%zu token ids", T);
	for (size_t i = 0; ids && i < T; i++) {
		double id;      /* below 2^53, or too large anyway */
		dtype_load(t->dtype, (const char *)t->data + i * dtype_info[t->dtype].size, 1, &id);
		ids[i] = id >= 0 && id < (double)V ? (size_t)id : V;
		if (ids[i] < V) continue;
		error_set(e, E_VALUE, t->name, NO_OFFSET, "id %.0f at %zu is not in the vocabulary of %zu", id, i, V);
		free(ids);
		return NULL;
	}
	return ids;
}
