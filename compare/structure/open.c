/* What stays open, a choice a line: where in the formula it is, by the text that it changes, and which values do as well. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "beam.h"

static const char *const what_text[] = { [W_CHUNK] = "chunks", [W_EVERY] = "every", [W_OPERAND] = "operand", [W_NAME] = "value",
	[W_INNER] = "part", [W_DISTRIBUTED] = "product spread over the sum", [W_ORDER] = "order of products", [W_PLACE] = "place of a factor",
	[W_FUSED] = "fused multiply-add", [W_CONJUGATED] = "decay behind the inverse", [W_UNDECAYED] = "an inverse without decay", [W_EXP] = "base of exponentials", [W_SCAN] = "order of running sums",
	[W_BASE] = "blocks inverted alone", [W_STORE] = "inverse stored", [W_COLUMNS] = "order of merges", [W_HIGH] = "operands of merges",
	[W_LOW] = "operands of lower merges", [W_HALVES] = "last merge in halves", [W_PAIR] = "order of factors", [W_NARROW] = "type of a sum",
	[W_WARPS] = "warps of a sum", [W_GIVEN] = "exponent as given", [W_WIDE] = "operations more precise than float32", [W_WAY] = "last bits of a function",
	[W_SUMS] = "sums of products", [W_ONTO] = "sum goes on from the others", [W_ALONE] = "fused multiply-adds of blocks inverted alone", [W_UNSCALED] = "a product before its factor",
	[W_OVER] = "quotients", [W_ELEMENTS_F16] = "product by elements", [W_ELEMENTS_BF16] = "product by elements",
	[W_THREADS] = "threads of a sum" };

/* Of what a choice is about yes and no or numbers are all that there is to say. */
static bool is_counted(const struct key *k)
{
	switch (k->what) {
	case W_ORDER: case W_PLACE: case W_FUSED: case W_PAIR: case W_ONTO: case W_UNSCALED: case W_CONJUGATED: case W_UNDECAYED: return true;
	default: return false;
	}
}

static void say_value(const struct search *s, const struct candidate *c, const struct key *k, int key, int v, FILE *to)
{
	static const char *const base[] = { "16", "8", "32", "64", "128" }, *const store[] = { "f32", "f16", "bf16" };
	static const char *const merge[] = { "f32", "tf32_rz", "tf32", "f16", "bf16" }, *const exps[] = { "e", "2, late", "2, each sum", "2, each term" };
	static const char *const elements[] = { "no", "added in float32", "by rows", "by rows in pairs", "by columns" };
	static const char *const over[] = { "a / b", "a * (1 / b)", "a * rcp_approx(b)" };

	if (is_rounding(k)) fputs(type_names[type_of(s, c, key, v)], to);
	else if (k->what == W_CHUNK) fprintf(to, "%zu", s->chunk[c->form][v]);
	else if (k->what == W_BASE) fputs(base[v], to);
	else if (k->what == W_STORE) fputs(store[v], to);
	else if (k->what == W_HIGH || k->what == W_LOW) fputs(merge[v], to);
	else if (k->what == W_EXP) fputs(exps[v], to);
	else if (k->what == W_COLUMNS) fputs(v ? "columns" : "doubling", to);
	else if (k->what == W_WAY) fputs(v ? way_name((enum fn)(k->id >> 16 & 0xffffffff), v) : "rounded right", to);
	else if (k->what == W_NARROW && v) fprintf(to, "%s, threads of %d", type_names[narrow_sum(v)], narrow_elements(v));
	else if (k->what == W_NARROW) fputs(type_names[IN_F32], to);
	else if (k->what == W_THREADS) fputs(element_threads_said(threads_by(k), v, (char[THREADS_ROOM]){ 0 }), to);
	else if (elements_type(k->what) != IN_F32) fprintf(to, v >= BY_ROWS ? "%s, added in %s" : "%s", elements[v], type_names[elements_type(k->what)]);
	else if (k->what == W_OVER) fputs(over[v], to);
	else if (k->what == W_SUMS) fputs(sums_name(v), to);
	else if (k->what == W_SCAN) fputs(v ? "in turn" : "warps", to);
	else if (k->n == 2) fputs(v ? "yes" : "no", to);
	else fprintf(to, "way %d", v + 1);
}


static bool in_word(char c) { return isalnum((unsigned char)c) || (c && strchr("_.'", c)); }
static bool opens(char c) { return c == '(' || c == '['; }
static bool closes(char c) { return c == ')' || c == ']'; }

static bool adds(const char *at) { return (at[0] == '+' || at[0] == '-') && at[1] == ' '; }

/* A sum in the part binds less than what stands beside the part: to which side is it cut off by that? */
static int sum_cut_off(const char *line, size_t begin, size_t from, size_t end)
{
	int depth = 0, sums = 0;

	for (size_t i = from; i < end; i++) {
		depth += opens(line[i]) - closes(line[i]);
		sums += !depth && i > from && line[i - 1] == ' ' && adds(line + i);
	}
	if (!sums) return 0;
	if (from > begin + 1 && line[from - 1] == ' ' && !adds(line + from - 2)) return -1;
	return line[end] == ' ' && line[end + 1] && !adds(line + end + 1);
}

/* To which side the part line[from..end) is cut off: -1 left, 1 right, 0: it is whole. */
static int cut_off(const char *line, size_t begin, size_t from, size_t end)
{
	const size_t length = strlen(line);
	int depth = 0;

	if (from == end) return end < length && (in_word(line[end]) || opens(line[end])) ? 1 : -1;
	for (size_t i = from; i < end; i++) {
		depth += opens(line[i]) - closes(line[i]);
		if (depth < 0) return -1;
	}
	if (depth || (in_word(line[end - 1]) && in_word(line[end])) || (opens(line[end]) && in_word(line[end - 1])) || (end < length && line[end - 1] == ' ')) return 1;
	bool split = from > begin && in_word(line[from - 1]) && (in_word(line[from]) || opens(line[from]));
	return split || (from > begin && !in_word(line[from]) && !opens(line[from])) ? -1 : sum_cut_off(line, begin, from, end);
}

/* Are there brackets around all of it? */
static bool in_brackets_whole(const char *at, size_t n)
{
	int depth = 0;
	size_t i = 0;

	for (; i < n && (depth += opens(at[i]) - closes(at[i])) > 0; i++) continue;
	return n > 2 && *at == '(' && i == n - 1;
}

/* Are the parts the same but for brackets around one of them? */
static bool same_but_brackets(const char *a, size_t n, const char *b, size_t m)
{
	if (in_brackets_whole(a, n)) a++, n -= 2;
	if (in_brackets_whole(b, m)) b++, m -= 2;
	return n == m && !strncmp(a, b, n);
}

struct differing lines_differ(int n, const char *const line[])
{
	const char *named = strstr(line[0], " = ");
	const size_t length = strlen(line[0]);
	size_t begin = named ? (size_t)(named - line[0]) + 3 : 0;

	for (int i = 1; i < n; i++) begin = strncmp(line[i], line[0], begin) ? 0 : begin;
	size_t from = length, behind = length - begin;
	for (int i = 1; i < n; i++) {
		size_t k = begin, l = strlen(line[i]);
		while (k < from && line[i][k] == line[0][k]) k++;
		from = k;
		for (k = 0; k < behind && k < l - from && k < length - from && line[i][l - 1 - k] == line[0][length - 1 - k]; k++) continue;
		behind = k;
	}
	for (int side = 1; side;) {
		bool alike = n > 1;
		side = 0;
		for (int i = 0; i < n && !side; i++) {
			const size_t end = strlen(line[i]) - behind;
			side = cut_off(line[i], begin, from, end);
			alike = alike && same_but_brackets(line[0] + from, length - behind - from, line[i] + from, end - from);
		}
		if (!side && alike) side = from > begin && !opens(line[0][from - 1]) ? -1 : behind && !closes(line[0][length - behind]) ? 1 : 0;
		if (side < 0 && from == begin) side = 1;
		if (side > 0 && !behind) side = from > begin ? -1 : 0;
		if (side < 0) from--;
		if (side > 0) behind--;
	}
	return (struct differing){ from, behind };
}

/* The part of a line without brackets around all of it; of a long one both ends. */
static void say_part(const char *line, struct differing d, FILE *to)
{
	enum { LONGEST = 64, END = 28 };
	const char *at = line + d.from;
	size_t n = strlen(line) - d.behind - d.from;

	if (in_brackets_whole(at, n)) at++, n -= 2;
	if (n <= LONGEST) fprintf(to, "%.*s", (int)n, at);
	else fprintf(to, "%.*s ... %.*s", END, at, END, at + n - END);
}

/* The n texts cut into lines: the one line in which they differ, in line[], or false: it is not one. */
static bool one_line(int n, char *text[], const char *line[])
{
	bool found = false;

	for (bool more = true; more;) {
		bool differs = false;
		char *end[MAX_OPEN + 1];

		for (int i = 0; i < n; i++) {
			end[i] = text[i] + strcspn(text[i], "\n");
			if (!*end[i]) return false;
			*end[i] = 0;
			differs = differs || strcmp(text[i], text[0]) != 0;
		}
		if (differs && found) return false;
		for (int i = 0; i < n && differs; i++) line[i] = text[i];
		found = found || differs;
		more = false;
		for (int i = 0; i < n; i++) text[i] = end[i] + 1, more = more || *text[i];
	}
	return found;
}

/* The formula with value v of that choice. */
static char *text_with(struct search *s, const struct candidate *c, int key, int v)
{
	struct candidate t = *c;

	t.config.value[key] = (unsigned char)v;
	if (s->keys.at[key].kind == CHOOSE_FORM) round_nothing_new(s, c, &t, s->n_stage - 1);
	return formula_text(s, &t);
}

/* Of a rounding: text in float32 and in another type; of any other choice: with each value, the one that is taken first. How many; 0: no memory. */
static int texts_of(struct search *s, const struct candidate *c, const struct open_choice *o, char *text[])
{
	const int was = c->config.value[o->key];
	int value[MAX_OPEN + 1] = { was }, n = 0;
	bool ok = true;

	if (is_rounding(&s->keys.at[o->key])) {
		value[n++] = IN_F32;
		value[n++] = type_of(s, c, o->key, was) == IN_F32 ? o->value[0] : was;
	} else {
		for (n = 1; n <= o->n; n++) value[n] = o->value[n - 1];
	}
	for (int i = 0; i < n; i++) ok = (text[i] = text_with(s, c, o->key, value[i])) && ok;
	return ok ? n : 0;
}

/* "NAME, WHAT: bf16 or f32 (the same to the bit)", where WHAT is the text that is rounded, or what the choice is about, and in place of yes and no or of
 * a number stands the text itself. Of zeros, say, a rounding changes no text, and nothing is said. */
static bool say_choice(struct search *s, const struct candidate *c, const struct open_choice *o, FILE *to)
{
	const struct key *k = &s->keys.at[o->key];
	const char *def = k->def >= 0 ? s->graph[c->form][0].f.def_name[k->def] : "", *line[MAX_OPEN + 1];
	char *text[MAX_OPEN + 1] = { 0 }, *rest[MAX_OPEN + 1];
	const int n = texts_of(s, c, o, text);

	bool all = true;

	for (int i = 0; i < o->n; i++) all = all && o->same[i];
	if (n == 2 && is_rounding(k) && !strcmp(text[0], text[1])) return free(text[0]), free(text[1]), true;
	memcpy(rest, text, sizeof rest);
	const bool one = n && one_line(n, rest, line);
	const struct differing d = one ? lines_differ(n, line) : (struct differing){ 0 };
	const char *named = one ? strstr(line[0], " = ") : NULL;
	const bool whole = !named || (d.from == (size_t)(named - line[0]) + 3 && !d.behind);

	if (named) fprintf(to, "%.*s, ", (int)(named - line[0]), line[0]);
	else if (*def) fprintf(to, "%s, ", def);
	if (is_rounding(k) && !whole) say_part(line[0], d, to);
	else fputs(what_text[k->what], to);
	int others = 0;
	for (int i = 0; i <= o->n; i++) {
		bool by_text = is_counted(k) && !whole, said = false;
		for (int j = 0; j < i && by_text; j++) said = said || !strcmp(line[j], line[i]);
		if (said) continue;
		others += i > 0;
		fputs(i ? " or " : ": ", to);
		if (by_text) say_part(line[i], d, to);
		else say_value(s, c, k, o->key, i ? o->value[i - 1] : c->config.value[o->key], to);
		if (i && o->same[i - 1] && !all) fputs(" (the same to the bit)", to);
	}
	if (all) fprintf(to, " (%sthe same to the bit)", others > 1 ? "all " : "");
	fputc('\n', to);
	for (int i = 0; i <= MAX_OPEN; i++) free(text[i]);
	return n;
}

bool is_open(const struct open_list *open, int key)
{
	for (int i = 0; i < open->n; i++)
		if (open->at[i].key == key) return true;
	return false;
}

char *open_text(struct search *s, const struct candidate *c, const struct open_list *open)
{
	char *text = NULL;
	size_t size = 0;
	FILE *to = open_memstream(&text, &size);
	bool ok = to;

	if (ok && s->rival >= 0) fprintf(to, "form: %s or %s\n", s->call->op->forms[c->form].name, s->call->op->forms[s->rival].name);
	for (int i = 0; i < open->n && ok; i++) ok = !is_met(c, open->at[i].key) || say_choice(s, c, &open->at[i], to);
	ok = to && fclose(to) == 0 && ok;
	if (!ok) free(text), text = NULL;
	return text;
}
