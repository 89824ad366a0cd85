/* What is not read is not made. Memory: a value that is not read again gives its place to the one that is made of it, so that S <- a S is made in place. */
#include "lower.h"

/* Of 4 bytes and more each this many elements are whole cache lines. */
enum { TOGETHER = 16 };

static bool is_in(const int *list, int n, int reg)
{
	for (int i = 0; i < n; i++)
		if (list[i] == reg) return true;
	return false;
}

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

/* How often each register is read there. */
static void count(const struct ex *x, int *reads, int by)
{
	for (; x; x = x->c) {
		if (x->kind == EX_REG) reads[x->reg] += by;
		count(x->a, reads, by);
		count(x->b, reads, by);
	}
}

static void count_in(const struct step *s, int *reads, int by)
{
	for (; s; s = s->next) {
		count(s->value, reads, by);
		if (s->kind == STEP_LOOP) count_in(s->loop->body, reads, by);
	}
}

static bool stores(const struct step *s)
{
	for (; s; s = s->next)
		if (s->kind == STEP_PUT || (s->kind == STEP_LOOP && stores(s->loop->body))) return true;
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
		bool on_first = x->kind == EX_ZIP || x->kind == EX_MAP || x->kind == EX_REPLACED || x->kind == EX_AXPY || x->kind == EX_MIRRORED;
		struct ex *next = on_first ? x->a : x->kind == EX_OUTER || x->kind == EX_GEMM ? x->c : NULL;
		if (x->kind == EX_REG) return x;
		if (!next || !same_shape(next->s, x->s)) return NULL;
		x = next;
	}
	return NULL;
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

static bool begins_in(const struct step *s, int reg)
{
	for (; s; s = s->next)
		if ((s->kind == STEP_SET && !s->carried && s->reg == reg) || (s->kind == STEP_LOOP && begins_in(s->loop->body, reg))) return true;
	return false;
}

/* Do the steps s of the loop l set what a loop around it carries? */
static bool sets_other(const struct program_loop *l, const struct step *s)
{
	for (; s; s = s->next) {
		if (s->kind == STEP_SET && s->carried && !is_in(l->carry, l->n_carry, s->reg) && !begins_in(l->body, s->reg)) return true;
		if (s->kind == STEP_LOOP && sets_other(l, s->loop->body)) return true;
	}
	return false;
}

/* Does a loop store nothing, and carry what only it reads? */
static bool for_nothing(const struct program_loop *l, const int *reads, const int *carried, int n)
{
	int own[MAX_REG] = { 0 };
	bool nothing = !stores(l->body) && !sets_other(l, l->body);

	if (nothing) count_in(l->body, own, 1);
	for (int i = 0; i < l->n_carry; i++) nothing = nothing && reads[l->carry[i]] == own[l->carry[i]] && !is_in(carried, n, l->carry[i]);
	return nothing;
}

/* Definitions that nothing reads go, and then what only they read. */
static void drop_unread(struct step **body, const int *carried, int n)
{
	bool again = true;
	int reads[MAX_REG] = { 0 };

	count_in(*body, reads, 1);
	while (again) {
		again = false;
		for (struct step **s = body; *s;) {
			const struct step *x = *s;
			bool unread = x->kind == STEP_SET && !x->carried && !is_in(carried, n, x->reg) && !reads[x->reg];
			if (!unread && !(x->kind == STEP_LOOP && for_nothing(x->loop, reads, carried, n))) {
				s = &(*s)->next;
				continue;
			}
			*s = x->next;
			if (unread) count(x->value, reads, -1);
			else count_in(x->loop->body, reads, -1);
			again = true;
		}
	}
}

static void used(const struct ex *x, bool *is_used)
{
	for (; x; x = x->c) {
		if (x->kind == EX_REG || x->kind == EX_NUMBER) is_used[x->reg] = true;
		used(x->a, is_used);
		used(x->b, is_used);
	}
}

static bool is_leaf(const struct ex *x) { return !x || x->kind == EX_REG || x->kind == EX_NUMBER || (x->kind == EX_FLIP && is_leaf(x->a)); }
/* Is all that is needed for it in registers? */
static bool leaves(const struct ex *x)
{
	return x->kind == EX_LOAD || ((x->kind == EX_MAP || (x->kind == EX_ZIP && x->top) || x->kind == EX_REG) && is_leaf(x->a) && is_leaf(x->b));
}

static void used_in(struct step *s, bool *is_used)
{
	for (; s; s = s->next) {
		used(s->value, is_used);
		if (s->kind == STEP_LOOP) {
			used_in(s->loop->body, is_used);
			for (int i = 0; i < s->loop->n_carry; i++) is_used[s->loop->carry[i]] = true;
			continue;
		}
		is_used[s->reg] = true;
		s->leaves = leaves(s->value) && !s->apart;
		if (s->swap >= 0) is_used[s->swap] = true;
	}
}

void places(struct program *p)
{
	bool is_used[MAX_REG] = { 0 };

	used_in(p->step, is_used);
	p->room = 0;
	for (int i = 0; i < p->n_reg; i++) {
		p->place[i] = p->room;
		p->is_constant[i] = p->is_constant[i] && is_used[i];
		if (is_used[i]) p->room += (most(p, i) + TOGETHER - 1) / TOGETHER * TOGETHER;
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
		if (p->keep || !h || own || p->is_constant[h->reg] || !same_shape(p->reg[h->reg], p->reg[s->reg])) continue;
		if (uses(s->value, h->reg) != 1 || !set_in(body, h->reg) || live(s, h->reg, carried, n)) continue;
		s->swap = h->reg;
		h->reg = s->reg;
	}
}
