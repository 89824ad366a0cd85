/* Loops, and statements under a condition: what each carries, before a turn and after the last. */
#include "symbols_read.h"

/* Registers that the loop's body gives another value, of those that have one: what it carries, and what loops around it do. */
static int changed(const struct reader *r, const struct step *s, int *reg, int n)
{
	for (; s; s = s->next) {
		if (s->kind == STEP_LOOP) n = changed(r, s->loop->body, reg, n);
		if (s->kind != STEP_SET || !s->carried || !r->reg[s->reg] || n == MAX_CARRY) continue;
		int i = 0;
		while (i < n && reg[i] != s->reg) i++;
		if (i == n) reg[n++] = s->reg;
	}
	return n;
}

/* What a register is called that the loop carries. */
static const char *carried_as(const struct step *s, int reg)
{
	const char *name = NULL;

	for (; s && !name; s = s->next) {
		if (s->kind == STEP_LOOP) name = carried_as(s->loop->body, reg);
		else if (s->kind == STEP_SET && s->reg == reg && s->at->kind == NODE_NAME) name = s->at->name;
	}
	return name;
}

static bool carries(struct reader *r, const struct step *s, struct sym_loop *to, const int *reg, int n)
{
	struct form_symbols *f = r->f;

	for (int i = 0; i < n; i++) {
		struct sym *x = sym_make(f, SYM_CARRY, f->program->reg[reg[i]], 0);
		if (!x) return false;
		const char *name = carried_as(s->loop->body, reg[i]);
		x->reg = to->carry + i;
		x->name = name ? name : "S";
		f->carry[x->reg] = (struct sym_carry){ reg[i], f->now_in, r->reg[reg[i]], NULL, x->name };
		r->carry_of[reg[i]] = x->reg;
		r->reg[reg[i]] = x;
	}
	return true;
}

/* Is it the form's loop, rather than what was found before? inside: in another one. */
static bool is_the_loop(const struct form_symbols *f, const struct program_loop *l, bool inside)
{
	if (!f->loop || over_tokens(f->loop)) return !f->loop;
	return inside ? f->loop->chunk < 0 && l->chunk >= 0 : over_tokens(l);
}

bool read_loop(struct reader *r, const struct step *s)
{
	struct form_symbols *f = r->f;
	int reg[MAX_CARRY], was[MAX_CARRY], n = 0, up = f->now_in;

	for (int i = 0; i < s->loop->n_carry; i++)
		if (r->reg[s->loop->carry[i]]) reg[n++] = s->loop->carry[i];    /* no first value: nothing reads it */
	n = changed(r, s->loop->body, reg, n);
	if (f->n_in == MAX_LOOP || f->n_carry + n > MAX_CARRY) {
		f->missing = "more loops than are told apart";
		return false;
	}
	struct sym_loop *to = &f->in[f->n_in];
	*to = (struct sym_loop){ s->loop, up, f->in[up].level + 1, f->n_carry, n };
	if (!up && n) f->iterated = (int)(to - f->in);
	if (is_the_loop(f, s->loop, up)) f->loop = s->loop;
	f->now_in = f->n_in++;
	f->n_carry += n;
	for (int i = 0; i < n; i++) was[i] = r->carry_of[reg[i]];
	if (!carries(r, s, to, reg, n) || !read_steps(r, s->loop->body)) return false;
	f->now_in = up;
	for (int i = 0; i < n; i++) {
		struct sym *x = sym_make(f, SYM_FINAL, f->program->reg[reg[i]], 0);
		if (!x) return false;
		f->carry[to->carry + i].next = r->reg[reg[i]];
		x->reg = to->carry + i;
		x->name = r->reg[reg[i]]->name ? r->reg[reg[i]]->name : "S";
		r->reg[reg[i]] = x;
		r->carry_of[reg[i]] = was[i];
	}
	return true;
}

int in_level(const struct form_symbols *f, int in, int level)
{
	while (f->in[in].level > level) in = f->in[in].up;
	return in;
}
