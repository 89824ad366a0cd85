/* Which memory every slot holds, as the scenario means it. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "isolate_private.h"

void memory_free(struct memory *m)
{
	free(m->token);
	*m = (struct memory){ .slot = -1 };
}

bool memory_push(struct memory *m, uint64_t token)
{
	if (m->n == m->room) {
		size_t room = m->room ? 2 * m->room : 32;
		uint64_t *more = realloc(m->token, room * sizeof *more);
		if (!more) return false;
		m->token = more;
		m->room = room;
	}
	m->token[m->n++] = token;
	return true;
}

bool memory_copy(struct memory *to, const struct memory *from)
{
	*to = (struct memory){ .slot = from->slot, .n = from->n, .room = from->n + 1, .token = malloc((from->n + 1) * sizeof *to->token) };
	if (to->token && from->n) memcpy(to->token, from->token, from->n * sizeof *to->token);
	return to->token != NULL;
}

/* At most one holder or checkpoint an event. */
bool model_make(struct model *m, const struct scenario *s, size_t slots)
{
	*m = (struct model){ .slots = slots, .uses = calloc(slots + BEYOND, sizeof *m->uses),
		.holder = calloc(s->n + 1, sizeof *m->holder), .kept = calloc(s->n + 1, sizeof *m->kept) };
	return m->uses && m->holder && m->kept;
}

void model_free(struct model *m)
{
	for (size_t i = 0; m->holder && i < m->holders; i++) memory_free(&m->holder[i].memory);
	for (size_t i = 0; m->kept && i < m->checkpoints; i++) memory_free(&m->kept[i].memory);
	free(m->uses);
	free(m->holder);
	free(m->kept);
}

/* A dropped one has the id -1. */
struct holder *model_find(struct model *m, int id)
{
	for (size_t i = 0; i < m->holders; i++)
		if (m->holder[i].id == id) return &m->holder[i];
	return NULL;
}

struct kept *model_find_kept(struct model *m, int id)
{
	for (size_t i = 0; i < m->checkpoints; i++)
		if (m->kept[i].id == id) return &m->kept[i];
	return NULL;
}

struct holder *model_add(struct model *m, int id)
{
	struct holder *h = model_find(m, -1);

	if (!h) h = &m->holder[m->holders++];
	*h = (struct holder){ .id = id, .handle = -1, .memory.slot = -1 };
	return h;
}

struct kept *model_keep(struct model *m, int id, const struct holder *h)
{
	struct kept *k = model_find_kept(m, -1), new = { .id = id, .handle = -1 };

	if (!memory_copy(&new.memory, &h->memory)) return NULL;
	if (!k) k = &m->kept[m->checkpoints++];
	*k = new;
	m->uses[k->memory.slot]++;
	return k;
}

void model_let_go(struct model *m, int slot) { if (slot >= 0) m->uses[slot]--; }

void model_drop(struct model *m, struct holder *h)
{
	model_let_go(m, h->memory.slot);
	memory_free(&h->memory);
	h->id = -1;
}

void model_forget(struct model *m, struct kept *k)
{
	model_let_go(m, k->memory.slot);
	memory_free(&k->memory);
	k->id = -1;
}

int model_beyond(struct model *m)
{
	for (size_t i = m->slots; i < m->slots + BEYOND; i++)
		if (!m->uses[i]++) return (int)i;
		else m->uses[i]--;
	return -1;
}

const char *model_owner(const struct model *m, int slot, char *text, size_t size)
{
	snprintf(text, size, "nobody");
	for (size_t i = 0; i < m->holders; i++)
		if (m->holder[i].id >= 0 && m->holder[i].memory.slot == slot) snprintf(text, size, "request %d", m->holder[i].id);
	for (size_t i = 0; i < m->checkpoints; i++)
		if (m->kept[i].id >= 0 && m->kept[i].memory.slot == slot) snprintf(text, size, "checkpoint %d", m->kept[i].id);
	return text;
}

void breach(struct play *p, const char *law, int step, int request, int slot, int layer, const char *format, ...)
{
	va_list args;

	if (p->breach.law) return;
	p->breach = (struct breach){ .law = law, .step = step, .request = request, .slot = slot, .layer = layer };
	va_start(args, format);
	vsnprintf(p->breach.what, sizeof p->breach.what, format, args);
	va_end(args);
}
