/* Tensors of a call: copied into it, and seen in it. */
#include <stdlib.h>
#include <string.h>

#include "api.h"

_Static_assert((int)ETALON_MAX_RANK == (int)MAX_RANK, "as a file's");

/* The part of x at `from` of axes a and on, row by row, to *to, which moves on. */
static void gather(const struct etalon_tensor *x, size_t size, int a, const char *from, char **to)
{
	if (a == x->rank) {
		memcpy(*to, from, size);
		*to += size;
		return;
	}
	if (a == x->rank - 1 && x->strides[a] == 1) {
		memcpy(*to, from, x->shape[a] * size);
		*to += x->shape[a] * size;
		return;
	}
	for (size_t i = 0; i < x->shape[a]; i++) gather(x, size, a + 1, from + (ptrdiff_t)i * x->strides[a] * (ptrdiff_t)size, to);
}

static void fill(struct tensor *to, const struct etalon_tensor *x)
{
	char *at = to->data;

	if (to->bytes && x->strides) gather(x, dtype_info[to->dtype].size, 0, x->data, &at);
	else if (to->bytes) memcpy(to->data, x->data, to->bytes);
}

/* The tensor takes the place of an older one of its name. It is filled before that goes: it may be filled from it. */
static bool put(struct tensors *t, const struct etalon_tensor *x, enum dtype d)
{
	const struct tensor *old = tensors_find(t, x->name);
	const size_t at = old ? (size_t)(old - t->item) : 0;
	struct tensor *made = tensors_add(t, x->name, d, x->rank, x->shape);

	if (!made) return false;
	fill(made, x);
	if (!old) return true;
	struct tensor was = t->item[at];        /* the list may have moved */
	t->item[at] = *made;
	t->n--;
	free(was.name);
	free(was.data);
	return true;
}

static bool is_sound(const struct etalon_tensor *x, enum dtype *d, struct error *e)
{
	size_t n = 1;

	if (!x->name || (strncmp(x->name, "in.", 3) && strncmp(x->name, "out.", 4)))
		return error_set(e, E_NAME, x->name ? x->name : "", NO_OFFSET, "expected in.NAME or out.NAME");
	if (!x->dtype || !dtype_by_name(x->dtype, d))
		return error_set(e, E_DTYPE, x->name, NO_OFFSET, "'%s'; expected F64, F32, F16, BF16, F8_E4M3, F8_E5M2, I32, I64 or U8",
			x->dtype ? x->dtype : "");
	if (x->rank < 0 || x->rank > MAX_RANK)
		return error_set(e, E_RANK, x->name, NO_OFFSET, "%d; expected 0 to %d", x->rank, MAX_RANK);
	for (int i = 0; i < x->rank; i++) n *= x->shape[i] != 0;
	return !n || x->data || error_set(e, E_MISSING, x->name, NO_OFFSET, "its data is NULL");
}

bool etalon_call_set(etalon_call *call, const struct etalon_tensor *x, struct etalon_error *error)
{
	struct error e;
	enum dtype d;

	if (!call || api_has_failed(call, error)) return false;
	if (api_is_null(x, "the tensor", &e) || !is_sound(x, &d, &e)) return api_call_error(call, error, &e);
	return put(&call->capture.tensors, x, d)
		|| (error_set(&e, E_MEMORY, x->name, NO_OFFSET, "a tensor of this shape"), api_call_error(call, error, &e));
}

bool etalon_call_get(const etalon_call *call, size_t i, struct etalon_tensor *x)
{
	if (!call || !x || i >= call->capture.tensors.n) return false;
	const struct tensor *t = &call->capture.tensors.item[i];
	*x = (struct etalon_tensor){ t->name, dtype_info[t->dtype].name, t->rank, { 0 }, NULL, t->data };
	memcpy(x->shape, t->shape, sizeof x->shape);
	return true;
}
