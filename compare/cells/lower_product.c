/* Products of matrices, diagonals and numbers: spread over a sum or not, multiplied in some order, each factor on some operand or result. */
#include "chain.h"

#include "fixtures/io/random.h"
#include "ref/arith/arith.h"

/* All trees over [i, j); how many. */
static int trees(int i, int j, struct way *out)
{
	int n = 0;

	if (j - i == 1) {
		out[0].n = 1;
		out[0].node[0].first = out[0].node[0].last = i;
		out[0].node[0].left = out[0].node[0].right = -1;
		return 1;
	}
	for (int m = j - 1; m > i; m--) {
		struct way a[MAX_TREES], b[MAX_TREES];
		int na = trees(i, m, a), nb = trees(m, j, b);
		for (int p = 0; p < na; p++) {
			for (int q = 0; q < nb && n < MAX_TREES; q++, n++) {
				struct way *t = &out[n];
				*t = a[p];
				for (int k = 0; k < b[q].n; k++) {
					t->node[t->n] = b[q].node[k];
					if (b[q].node[k].left >= 0) t->node[t->n].left += a[p].n, t->node[t->n].right += a[p].n;
					t->n++;
				}
				t->node[t->n].first = i;
				t->node[t->n].last = j - 1;
				t->node[t->n].left = a[p].n - 1;
				t->node[t->n].right = t->n - 1;
				t->n++;
			}
		}
	}
	return n;
}

/* The product that x is, under masks and factors that go with each element; NULL: none that a factor could move into. */
static const struct sym *inner_product(const struct sym *x)
{
	while (x) {
		if (x->kind == SYM_PRODUCT) return x;
		if (is_ex(x, EX_TRIL)) x = x->arg[0];
		else if (x->kind == SYM_TIMES && x->s.rank == MATRIX) {
			const struct sym *p = NULL;
			for (int i = 0; i < x->n && !p; i++)
				if (x->arg[i]->kind == SYM_PRODUCT) p = x->arg[i];
			return p;
		} else return NULL;
	}
	return NULL;
}

static bool of_a_vector(const struct chain *c)
{
	bool vector = false;

	for (int i = 0; i < c->n_dense; i++) vector = vector || c->dense[i].x->s.rank != MATRIX;
	return vector;
}

static bool is_matrix(const struct chain *c, int node) { return c->t.node[node].left < 0 && c->dense[c->t.node[node].first].x->s.rank == MATRIX; }

/* A number is on the result of a product with a vector, as it is written, or on the vector: no kernel multiplies a matrix by it instead. */
static int places_by_a_vector(const struct chain *c, struct place *to)
{
	int n = 0;

	for (int i = c->t.n; i-- > 0;)
		if (!is_matrix(c, i)) to[n++] = (struct place){ i, false, false };
	return n;
}

static int places(const struct chain *c, const struct factor *f, struct place *to)
{
	int n = 0;

	if (f->e.role == NUMBER && of_a_vector(c)) return places_by_a_vector(c, to);
	for (int i = 0; i < c->t.n; i++)
		if (f->e.role == NUMBER || c->t.node[i].first == f->gap) to[n++] = (struct place){ i, false, false };
	for (int i = 0; i < c->t.n && f->e.role == DIAGONAL; i++)
		if (c->t.node[i].last == f->gap - 1) to[n++] = (struct place){ i, true, false };
	for (int i = 0; i < c->t.n; i++) {
		int k = c->t.node[i].first;
		if (c->t.node[i].left >= 0 || !inner_product(c->dense[k].x)) continue;
		if (f->e.role == NUMBER || k == f->gap) to[n++] = (struct place){ i, false, true };
		if (f->e.role == DIAGONAL && k == f->gap - 1) to[n++] = (struct place){ i, true, true };
	}
	return n;
}

/* x with a factor put into the product that it holds: on the left, or on the right. */
static struct sym with_inside(struct lowering_run *l, const struct sym *x, const struct factor *f)
{
	struct sym y = *x;
	int extra = 0;

	(void)l;
	if (x->kind == SYM_PRODUCT) {
		y.arg = pool_make(&l->pool, (size_t)(x->n + 1) * sizeof *y.arg);
		y.role = pool_make(&l->pool, (size_t)(x->n + 1) * sizeof *y.role);
		if (!y.arg || !y.role) return *x;
		extra = f->place.columns ? 0 : 1;
		for (int i = 0; i < x->n; i++) y.arg[i + extra] = x->arg[i], y.role[i + extra] = x->role[i];
		y.arg[extra ? 0 : x->n] = f->e.x;
		y.role[extra ? 0 : x->n] = f->e.role;
		y.n = x->n + 1;
		return y;
	}
	y.arg = pool_make(&l->pool, (size_t)x->n * sizeof *y.arg);
	struct sym *into = pool_make(&l->pool, sizeof *into);
	if (!y.arg || !into) return *x;
	bool put = false;
	for (int i = 0; i < x->n; i++) {
		y.arg[i] = x->arg[i];
		if (put || !inner_product(x->arg[i]) || (x->kind == SYM_TIMES && x->arg[i]->kind != SYM_PRODUCT)) continue;
		*into = with_inside(l, x->arg[i], f);
		y.arg[i] = into;
		put = true;
	}
	return y;
}

static struct val scaled(struct lowering_run *l, struct val v, const struct factor *f, struct shape s, struct val d)
{
	struct val a = low_single(l, v);
	struct shape line = { f->place.columns ? ROW : COLUMN, f->place.columns ? (struct len){ 1, -1 } : f->e.x->s.rows,
		f->place.columns ? f->e.x->s.rows : (struct len){ 1, -1 } };

	if (f->e.role == NUMBER) {
		struct val y = low_zip(l, OP_MUL, a, d, s, " * ");
		y.text = said(l, "%s * %s", in_brackets(l, d), in_brackets(l, a));
		return y;
	}
	if (f->place.columns) {
		struct cell c = cell_of(CELL_OP, d.cell, -1, line.rows, line.cols);
		c.p[0] = (int)EX_FLIP;
		c.exact = true;
		c.grid = cell_at(l, d)->grid;
		d.cell = low_cell(l, &c, "", true).cell;
	}
	struct val y = low_zip(l, OP_MUL, a, d, s, "");
	y.text = f->place.columns ? said(l, "%s diag(%s)", in_brackets(l, a), d.text) : said(l, "diag(%s) %s", d.text, in_brackets(l, a));
	return y;
}

static struct shape node_shape(const struct chain *c, int n)
{
	struct len rows = c->dense[c->t.node[n].first].x->s.rows, cols = c->dense[c->t.node[n].last].x->s.cols;

	return (struct shape){ MATRIX, rows, cols };
}

static struct val node(struct lowering_run *l, struct chain *c, int n, bool top);

static struct val gemm(struct lowering_run *l, struct chain *c, int n)
{
	struct val a = node(l, c, c->t.node[n].left, false), b = node(l, c, c->t.node[n].right, false);
	struct shape s = node_shape(c, n);
	struct cell g = cell_of(CELL_GEMM, a.cell, b.cell, s.rows, s.cols);
	int *side[] = { &g.arg[0], &g.arg[1] };

	if (a.cell < 0 || b.cell < 0) return (struct val){ -1, "", true };
	for (int i = 0; i < 2; i++) {
		const struct cell *x = &l->h->cells->at[*side[i]];
		if (x->op != CELL_OP || x->ex || x->p[0] != (int)EX_TRANS) continue;
		g.p[i] = 1;
		*side[i] = x->arg[0];
	}
	bool narrow = true, half = false;
	for (int i = 0; i < 2; i++) {
		const struct cell *x = &l->h->cells->at[*side[i]];
		narrow = narrow && (x->grid == IN_BF16 || x->grid == IN_F16 || (x->op == CELL_ROUND && x->p[0] != IN_F32));
		half = half || x->grid == IN_F16;
	}
	l->to->wide += !narrow;
	l->to->half += half;
	g.exact = true;
	if (low_by_element(l, &g, c->about, c->t.node[n].first * 16 + c->t.node[n].last)) return low_cell(l, &g, said_by_element(l, &g, a, b), true);
	g.p[2] = choose_sums(l);
	g.grid = g.p[2] ? IN_F32 : AS_IT_IS;
	return low_cell(l, &g, said(l, "%s @ %s", in_brackets(l, a), in_brackets(l, b)), false);
}

static struct val leaf(struct lowering_run *l, struct chain *c, int n)
{
	const struct sym *x = c->dense[c->t.node[n].first].x;
	struct sym with;
	bool touched = false;

	for (int i = 0; i < c->n_factor; i++) {
		const struct factor *f = &c->factor[i];
		touched = touched || (f->place.node == n && !f->place.inside);
		if (f->place.node != n || !f->place.inside) continue;
		with = with_inside(l, x, f);
		struct sym *kept = pool_make(&l->pool, sizeof *kept);
		if (!kept) return (struct val){ -1, "", true };
		*kept = with;
		x = kept;
	}
	return low_single(l, low_sym(l, x, !touched));
}

static struct val node(struct lowering_run *l, struct chain *c, int n, bool top)
{
	bool is_leaf = c->t.node[n].left < 0;
	struct val v = is_leaf ? leaf(l, c, n) : low_unscaled(l, c, n, gemm(l, c, n));

	for (int i = 0; i < c->n_factor && v.cell >= 0; i++) {
		const struct factor *f = &c->factor[i];
		if (f->place.node != n || f->place.inside) continue;
		struct val d = low_single(l, low_sym(l, f->e.x, false));
		if (d.cell < 0) return d;
		v = scaled(l, v, f, node_shape(c, n), d);
	}
	if (top || v.cell < 0) return v;
	int range = c->t.node[n].first * 16 + c->t.node[n].last;
	struct sym named = is_leaf ? low_leaf_named(l, c, n) : (struct sym){ .site = -1 };
	return low_site(l, low_single(l, v), c->about, W_OPERAND, range, CHOOSE_OPERAND, is_leaf ? &named : NULL);
}

/* (a + b) C -> a C + b C */
static struct val spread(struct lowering_run *l, const struct entry *e, int n, int at, int about, struct shape s)
{
	const struct sym *sum = e[at].x;
	struct val p[MAX_TERMS];

	for (int j = 0; j < sum->n; j++) {
		const struct sym *t = sum->arg[j];
		struct entry part[MAX_FACTORS];
		int k = 0;
		for (int i = 0; i < n && k < MAX_FACTORS; i++) {
			if (i != at) part[k++] = e[i];
			else if (t->kind != SYM_PRODUCT) part[k++] = (struct entry){ sum->arg[j], DENSE };
			else for (int m = 0; m < t->n && k < MAX_FACTORS; m++) part[k++] = (struct entry){ t->arg[m], t->role[m] };
		}
		p[j] = low_product(l, part, k, about + j + 1, s);
		p[j] = low_site(l, p[j], about + j + 1, W_INNER, 1, CHOOSE_INNER, NULL);
		if (p[j].cell < 0) return p[j];
	}
	return low_added(l, sum, p, sum->n, about, s);
}

static struct val numbers_only(struct lowering_run *l, const struct entry *e, int n, struct shape s)
{
	struct val v = { -1, "", true };

	for (int i = 0; i < n; i++) {
		struct val d = low_single(l, low_sym(l, e[i].x, false));
		v = i ? low_zip(l, OP_MUL, v, d, s, " * ") : d;
	}
	return v;
}

static const struct sym *unnamed(const struct sym *x) { return x->kind == SYM_NAME ? x->arg[0] : x; }

/* Of the diagonals of e [n] behind e[0], an inverse (I + A e^(g_i - g_j))^-1, the one that is e^g; 0: none, or no inverse. */
static int decay_behind(const struct entry *e, int n)
{
	const struct sym *x = unnamed(e[0].x);
	const struct sym *decay = e[0].role == DENSE && e[0].x->kind == SYM_NAME && is_ex(x, EX_INVERSE) ? low_conjugating(x->arg[0]) : NULL;

	for (int i = 1; i < n && decay && e[i].role != DENSE; i++) {
		const struct sym *d = unnamed(e[i].x);
		if (e[i].role == DIAGONAL && d->kind == SYM_EXP && d->arg[0] == unnamed(decay)->arg[0]->arg[0]) return i;
	}
	return 0;
}

/* (I + A e^(g_i - g_j))^-1 diag(e^g) = diag(e^g) (I + A)^-1, where that is chosen. */
static void take_decays_out(struct lowering_run *l, struct entry *e, int n, int about)
{
	for (int i = 0; i < n; i++) {
		const int at = decay_behind(&e[i], n - i);
		if (!at || !choose(l, about, W_UNDECAYED, i, 2, CHOOSE_FORM)) continue;
		struct sym *bare = pool_make(&l->pool, sizeof *bare);
		if (!bare) return;
		const struct entry decay = e[i + at];
		*bare = *e[i].x;
		bare->kind = SYM_UNDECAYED;
		memmove(&e[i + 2], &e[i + 1], (size_t)(at - 1) * sizeof *e);
		e[i++] = decay;
		e[i] = (struct entry){ bare, DENSE };
	}
}

/* 12 bits of it */
static int mixed(int id) { return (int)(random_mix((uint64_t)(unsigned)id) & 0xfff); }

struct val low_product(struct lowering_run *l, const struct entry *e, int n, int about, struct shape s)
{
	struct chain c = { .about = about };
	struct way t[MAX_TREES];

	for (int i = 0; i < n && about % 16 == 0; i++) {
		bool sum = e[i].role == DENSE && e[i].x->kind == SYM_SUM && e[i].x->n > 1 && e[i].x->n < 15 && n > 1;
		if (sum && choose(l, about, W_DISTRIBUTED, i, 2, CHOOSE_FORM)) return spread(l, e, n, i, about, s);
	}
	struct entry own[MAX_FACTORS];
	memcpy(own, e, (size_t)n * sizeof *own);
	take_decays_out(l, own, n, about);
	e = own;
	for (int i = 0; i < n; i++) {
		if (e[i].role == DENSE && c.n_dense == MAX_DENSE) return (struct val){ -1, "", true };
		if (e[i].role == DENSE) c.dense[c.n_dense++] = e[i];
		else c.factor[c.n_factor++] = (struct factor){ .e = e[i], .gap = c.n_dense };
	}
	if (!c.n_dense) return numbers_only(l, e, n, s);
	int ways = trees(0, c.n_dense, t), taken = choose(l, about, W_ORDER, 0, ways, CHOOSE_FORM);
	c.t = t[taken];
	for (int i = 0; i < c.n_factor; i++) {
		struct place p[3 * MAX_TREE];
		int k = places(&c, &c.factor[i], p);
		if (!k) return (struct val){ -1, "", true };
		c.factor[i].place = p[choose(l, about, W_PLACE, mixed(c.factor[i].e.x->id) << 4 | taken, k, CHOOSE_FORM)];
		l->to->on_operands += c.t.node[c.factor[i].place.node].left < 0;
	}
	return node(l, &c, c.t.n - 1, true);
}
