#include "lex.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct lexer { const char *path, *text, *line_at; size_t at, n; int line, open; struct words *w; struct pool *p; size_t room; };

bool formula_error_list(struct error *e, const char *path, int line, int column, const char *what, va_list more)
{
	char text[256], place[512];

	vsnprintf(text, sizeof text, what, more);
	snprintf(place, sizeof place, "%s:%d:%d", path, line, column);
	error_set(e, E_FORMULA, NULL, NO_OFFSET, "%s", text);
	return error_in_file(e, place);
}

bool formula_error(struct error *e, const char *path, int line, int column, const char *what, ...)
{
	va_list more;

	va_start(more, what);
	formula_error_list(e, path, line, column, what, more);
	va_end(more);
	return false;
}

static int column_of(const struct lexer *l, size_t at) { return (int)(l->text + at - l->line_at) + 1; }

static struct word *add(struct lexer *l, enum word_kind kind, size_t at, size_t n)
{
	struct words *w = l->w;

	if (w->n == l->room) {
		struct word *more = pool_make(l->p, 2 * l->room * sizeof *more);
		if (!more) return NULL;
		memcpy(more, w->word, w->n * sizeof *more);
		w->word = more;
		l->room *= 2;
	}
	struct word *word = &w->word[w->n++];
	*word = (struct word){ kind, l->line, column_of(l, at), pool_text(l->p, l->text + at, n), 0,
		at && isspace((unsigned char)l->text[at - 1]), at, n };
	return word->text ? word : NULL;
}

/* Does a line that ends here go on in the next one? */
static bool goes_on(const struct lexer *l)
{
	const struct word *last = l->w->n ? &l->w->word[l->w->n - 1] : NULL;

	return l->open > 0 || (last && last->kind == WORD_OP && strchr(",;|=+-*/", last->text[0]) && !last->text[1]);
}

static bool end_line(struct lexer *l, size_t at, const char *comment, size_t n)
{
	struct word *word;
	bool empty = l->w->n == 0 || l->w->word[l->w->n - 1].kind == WORD_END;

	if (empty || goes_on(l)) return true;
	if (!(word = add(l, WORD_END, at, 0))) return false;
	while (n && isspace((unsigned char)comment[0])) comment++, n--;
	while (n && isspace((unsigned char)comment[n - 1])) n--;
	word->text = pool_text(l->p, comment, n);
	return word->text != NULL;
}

static size_t op_length(const char *s)
{
	static const char *const two[] = { "==", "!=", "<=", ">=", NULL };

	for (int i = 0; two[i]; i++)
		if (s[0] == two[i][0] && s[1] == '=') return 2;
	if (s[0] == '.' && s[1] == '.') return 2;
	return strchr("()[]+-*/^',:;|=?<>", s[0]) ? 1 : 0;
}

/* letters, digits and _; behind a '.' another one: what `use ... as NAME` defines is NAME.name */
static size_t name_length(const char *s)
{
	size_t n = 0;

	while (isalnum((unsigned char)s[n]) || s[n] == '_' || (n && s[n] == '.' && isalpha((unsigned char)s[n + 1]))) n++;
	return n;
}

static bool number(struct lexer *l, struct error *e)
{
	const char *s = l->text + l->at;
	size_t n = strspn(s, "0123456789.");
	char *end;

	if (s[n] == 'e' && (isdigit((unsigned char)s[n + 1]) || (strchr("+-", s[n + 1]) && isdigit((unsigned char)s[n + 2])))) {
		n += 2;
		n += strspn(s + n, "0123456789");
	}
	struct word *word = add(l, WORD_NUMBER, l->at, n);
	if (!word) return false;
	word->number = strtod(word->text, &end);
	const char *behind = s + n;
	if (strpbrk(word->text, ".e") && (*behind == 'f' || *behind == 'F') && !isalnum((unsigned char)behind[1]) && behind[1] != '_')
		return formula_error(e, l->path, l->line, column_of(l, l->at), "expected a number, which has no type: '%s' without its '%c'",
			word->text, *behind);
	if (*end) return formula_error(e, l->path, l->line, column_of(l, l->at), "expected a number, got '%s'", word->text);
	if (isinf(word->number) || (word->number == 0 && strpbrk(word->text, "123456789")))
		return formula_error(e, l->path, l->line, column_of(l, l->at), "expected a number that a double holds, got '%.40s'", word->text);
	l->at += n;
	return true;
}

static bool quoted(struct lexer *l, struct error *e)
{
	size_t n = strcspn(l->text + l->at + 1, "\"\n");

	if (l->text[l->at + 1 + n] != '"')
		return formula_error(e, l->path, l->line, column_of(l, l->at), "expected \" at the end of this text");
	if (!add(l, WORD_TEXT, l->at + 1, n)) return false;
	l->at += n + 2;
	return true;
}

/* The bytes of a character of UTF-8 that is printed, or 0. */
static size_t printed(const unsigned char *s)
{
	size_t n = *s > 0x20 && *s < 0x7f ? 1 : *s >= 0xc2 && *s < 0xe0 ? 2 : *s >= 0xe0 && *s < 0xf0 ? 3 : 0;

	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80) return 0;
	return n == 2 && *s == 0xc2 && s[1] < 0xa1 ? 0 : n;     /* controls, and the space that is none */
}

static bool strange(struct lexer *l, const char *s, struct error *e)
{
	size_t n = printed((const unsigned char *)s);

	if (!n) return formula_error(e, l->path, l->line, column_of(l, l->at), "expected a name, a number or an operator, got byte 0x%02x", (unsigned)(unsigned char)*s);
	return formula_error(e, l->path, l->line, column_of(l, l->at), "expected a name, a number or an operator%s, got '%.*s'%s", n > 1 ? " of ASCII" : "", (int)n, s,
		*s == '@' ? "; a product is A B" : "");
}

static bool next(struct lexer *l, struct error *e)
{
	const char *s = l->text + l->at;
	size_t n;

	if (*s == '\n' || *s == '#') {
		n = strcspn(s, "\n");
		if (!end_line(l, l->at, s + 1, n ? n - 1 : 0)) return false;
		l->at += n + (s[n] == '\n');
		l->line++;
		l->line_at = l->text + l->at;
		return true;
	}
	if (isspace((unsigned char)*s)) {
		l->at++;
		return true;
	}
	if (isdigit((unsigned char)*s) || (*s == '.' && isdigit((unsigned char)s[1]))) return number(l, e);
	if (*s == '"') return quoted(l, e);
	if (isalpha((unsigned char)*s) || *s == '_') {
		n = name_length(s);
		if (!add(l, WORD_NAME, l->at, n)) return false;
	} else {
		if (!(n = op_length(s)))
			return strange(l, s, e);
		l->open += *s == '(' || *s == '[';
		l->open -= *s == ')' || *s == ']';
		if (!add(l, WORD_OP, l->at, n)) return false;
	}
	l->at += n;
	return true;
}

bool formula_words(struct words *w, struct pool *p, const char *path, const char *text, size_t n, struct error *e)
{
	struct lexer l = { .path = pool_text(p, path, strlen(path)), .n = n, .line = 1, .w = w, .p = p, .room = 64 };

	*w = (struct words){ pool_make(p, l.room * sizeof *w->word), 0, l.path, NULL };
	if (n > MAX_FORMULA) {
		error_set(e, E_FORMULA, NULL, NO_OFFSET, "expected at most %d bytes, got %zu", MAX_FORMULA, n);
		return error_in_file(e, path);
	}
	if (memchr(text, 0, n)) {
		error_set(e, E_FORMULA, NULL, (uint64_t)((const char *)memchr(text, 0, n) - text), "expected text, got a zero byte");
		return error_in_file(e, path);
	}
	l.text = l.line_at = w->source = pool_text(p, text, n);
	if (!w->word || !l.text) return error_set(e, E_MEMORY, path, NO_OFFSET, "reading a formula");
	if (!strncmp(l.text, "\xef\xbb\xbf", 3)) l.at = 3;         /* the mark that some editors put first */
	while (l.at < n)
		if (!next(&l, e)) return p->failed ? error_set(e, E_MEMORY, path, NO_OFFSET, "reading a formula") : false;
	l.open = 0;
	if (!end_line(&l, l.at, "", 0) || !add(&l, WORD_STOP, l.at, 0))
		return error_set(e, E_MEMORY, path, NO_OFFSET, "reading a formula");
	return true;
}
