/* Which indices the steps of a program need: those of what was dropped are not computed. */
#include "lower.h"

static void need(struct ix *x)
{
	if (!x || x->needed) return;
	x->needed = true;
	for (int i = 0; i < x->n; i++) need(x->arg[i]);
}

static void need_slice(const struct slice *s)
{
	for (int i = 0; s && i < s->rank; i++) need(s->axis[i].first);
}

static void need_value(const struct ex *x)
{
	for (; x; x = x->c) {
		need(x->ix);
		need_slice(x->slice);
		need_value(x->a);
		need_value(x->b);
	}
}

static void need_all(const struct step *s)
{
	for (; s; s = s->next) {
		need_value(s->value);
		need_slice(s->slice);
		if (s->kind != STEP_LOOP) continue;
		need(s->loop->first);
		need(s->loop->last);
		need(s->loop->sequence);
		need_all(s->loop->body);
	}
}

static void drop(struct ix **x)
{
	while (*x) {
		if ((*x)->needed) drop(&(*x)->body), x = &(*x)->next;
		else *x = (*x)->next;
	}
}

static void drop_all(const struct step *s)
{
	for (; s; s = s->next) {
		if (s->kind != STEP_LOOP) continue;
		drop(&s->loop->index);
		drop_all(s->loop->body);
	}
}

void only_needed(struct program *p)
{
	need_all(p->step);
	drop(&p->index);
	drop_all(p->step);
}
