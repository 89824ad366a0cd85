/* What a plugin is lent, and what it may have done with it. */
#include <stdlib.h>
#include <string.h>

#include "gpu/host/plugin_memory.h"

/* LEAST: of what is watched before and behind a tensor; a kernel that counts wrongly writes a row or a tile too much. ALIGN: as
 * device memory is aligned. */
enum { LEAST = 1 << 16, ALIGN = 256 };

/* As much as the tensor has: so far away is what a wrong head or sequence, one beyond the last, would have. */
static size_t reach(const struct tensor *t)
{
	return ((t->bytes > LEAST ? t->bytes : LEAST) + ALIGN - 1) / ALIGN * ALIGN;
}

/* No byte of a number that kernels write often, and not the same everywhere. */
static unsigned char mark(size_t i) { return (unsigned char)(0xA5 ^ i * 37); }

static void guard(char *memory, size_t n)
{
	for (size_t i = 0; i < n; i++) memory[i] = (char)mark(i);
}

/* The first byte of a guard of n that is another, or n. */
static size_t changed(const char *memory, size_t n)
{
	size_t i = 0;

	while (i < n && memory[i] == (char)mark(i)) i++;
	return i;
}

static bool lend(struct lent *l, struct etalon_tensor *to, const struct tensor *t)
{
	const size_t far = reach(t), room = (2 * far + t->bytes + ALIGN - 1) / ALIGN * ALIGN;

	if (!(l->memory = aligned_alloc(ALIGN, room))) return false;
	guard(l->memory, far);
	if (t->bytes) memcpy(l->memory + far, t->data, t->bytes);
	guard(l->memory + far + t->bytes, far);
	memcpy(l->shape, t->shape, sizeof l->shape);
	*to = (struct etalon_tensor){ t->name, dtype_info[t->dtype].name, t->rank, l->shape, l->memory + far };
	return true;
}

bool loan_make(struct loan *l, const struct capture *c, struct error *e)
{
	const size_t n = c->tensors.n;

	*l = (struct loan){ n, calloc(n + 1, sizeof *l->tensor), calloc(n + 1, sizeof *l->lent) };
	bool ok = l->tensor && l->lent;
	for (size_t i = 0; ok && i < n; i++) ok = lend(&l->lent[i], &l->tensor[i], &c->tensors.item[i]);
	if (ok) return true;
	loan_free(l);
	return error_set(e, E_MEMORY, c->op, NO_OFFSET, "copies of the tensors for a plugin");
}

/* The bytes beside t are as they were. */
static bool stayed_within(const struct lent *l, const struct tensor *t, const char *library, struct error *e)
{
	const size_t far = reach(t), before = changed(l->memory, far), after = changed(l->memory + far + t->bytes, far);

	if (before < far)
		return error_set(e, E_DEVICE, t->name, NO_OFFSET, "%s wrote up to %zu bytes before it", library, far - before);
	return after == far || error_set(e, E_DEVICE, t->name, NO_OFFSET, "%s wrote %zu bytes behind the %zu that it has", library, after, t->bytes);
}

static bool kept_input(const struct lent *l, const struct tensor *t, const char *library, struct error *e)
{
	const char *now = l->memory + reach(t), *was = t->data;
	size_t i = 0;

	while (i < t->bytes && now[i] == was[i]) i++;
	return i == t->bytes || error_set(e, E_DEVICE, t->name, NO_OFFSET,
		"%s changed element %zu of this input; a kernel that works in place needs a copy of its own", library, i / dtype_info[t->dtype].size);
}

bool loan_take_back(const struct loan *l, struct capture *c, const char *library, struct error *e)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct tensor *t = &c->tensors.item[i];
		const bool output = !strncmp(t->name, "out.", 4);
		if (!stayed_within(&l->lent[i], t, library, e) || !(output || kept_input(&l->lent[i], t, library, e))) return false;
		if (output && t->bytes) memcpy(t->data, l->lent[i].memory + reach(t), t->bytes);
	}
	return true;
}

void loan_free(struct loan *l)
{
	for (size_t i = 0; l->lent && i < l->n; i++) free(l->lent[i].memory);
	free(l->lent);
	free(l->tensor);
	*l = (struct loan){ 0 };
}
