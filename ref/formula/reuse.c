/* What is not read is not made. Memory: a value that is not read again gives its place to the one that is made of it, so that S <- a S is made in place. */
#include "lower.h"

static int uses(const struct ex *x, int reg)
{
	return x ? (x->kind == EX_REG && x->reg == reg) + uses(x->a, reg) + uses(x->b, reg) + uses(x->c, reg) : 0;
}

static bool read_in(const struct step *s, int reg)
{
	for (; s; s = s->next)
		if (uses(s->value, reg) || (s->kind == STEP_LOOP && read_in(s->loop->body, reg))) return true;
	return false;
}

static bool set_in(const struct step *s, int reg)
{
	for (; s; s = s->next)
		if ((s->kind == STEP_SET && s->reg == reg) || (s->kind == STEP_LOOP && set_in(s->loop->body, reg))) return true;
	return false;
}

/* The operand that the result may be made on top of, all the way down: of the same shape at each step. */
static struct ex *head(struct ex *x)
{
	while (x) {
		struct ex *next = x->kind == EX_ZIP || x->kind == EX_MAP ? x->a : x->kind == EX_OUTER || x->kind == EX_GEMM ? x->c : NULL;
		if (x->kind == EX_REG) return x;
		if (!next || !same_shape(next->s, x->s)) return NULL;
		x = next;
	}
	return NULL;
}

static bool is_in(const int *list, int n, int reg)
{
	for (int i = 0; i < n; i++)
		if (list[i] == reg) return true;
	return false;
}

/* Is reg's value needed after s? Before it is set again, in this body; at its end, where it is carried. */
static bool live(const struct step *s, int reg, const int *carried, int n)
{
	for (s = s->next; s; s = s->next) {
		if (uses(s->value, reg) || (s->kind == STEP_LOOP && (read_in(s->loop->body, reg) || set_in(s->loop->body, reg)))) return true;
		if (s->kind == STEP_SET && s->reg == reg) return false;
	}
	return is_in(carried, n, reg);
}

/* Definitions that nothing reads go, and then what only they read. */
static void drop_unread(struct step **body, const int *carried, int n)
{
	bool again = true;

	while (again) {
		again = false;
		for (struct step **s = body; *s;) {
			const struct step *x = *s;
			if (x->kind != STEP_SET || x->carried || is_in(carried, n, x->reg) || read_in(*body, x->reg)) {
				s = &(*s)->next;
				continue;
			}
			*s = x->next;
			again = true;
		}
	}
}

void reuse(struct program *p, struct step **from, const int *carried, int n)
{
	drop_unread(from, carried, n);
	struct step *body = *from;
	for (struct step *s = body; s; s = s->next) {
		struct ex *h = s->kind == STEP_SET ? head(s->value) : NULL;
		int own = s->kind == STEP_SET ? uses(s->value, s->reg) : 0;
		if (own) s->apart = p->keep || !(own == 1 && h && h->reg == s->reg);
		if (p->keep || !h || own || s->value->kind == EX_REG || p->is_constant[h->reg] || !same_shape(p->reg[h->reg], p->reg[s->reg])) continue;
		if (uses(s->value, h->reg) != 1 || !set_in(body, h->reg) || live(s, h->reg, carried, n)) continue;
		s->swap = h->reg;
		h->reg = s->reg;
	}
}
