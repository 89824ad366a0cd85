#define _GNU_SOURCE     /* vasprintf */
#include "print.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int print_failure(const struct error *e)
{
	fflush(stdout);
	fputs("etalon: ", stderr);
	error_print(stderr, e);
	putc('\n', stderr);
	return error_exit(e);
}

int print_failure_of(const char *path, struct error *e)
{
	if (!e->file[0]) error_in_file(e, path);
	return print_failure(e);
}

static int out_of_memory(void)
{
	struct error e;

	error_set(&e, E_MEMORY, NULL, NO_OFFSET, "while making the output");
	return print_failure(&e);
}

static json_t *with_version(json_t *object)
{
	json_t *to = json_pack("{s:i}", "version", JSON_VERSION);

	if (!to || json_object_update(to, object)) {
		json_decref(to);
		to = NULL;
	}
	return to;
}

json_t *json_versioned(json_t *j)
{
	json_t *to = json_is_object(j) ? with_version(j)
		: json_is_array(j)     ? json_array()
				       : NULL,
	       *item;
	size_t i;

	json_array_foreach(j, i, item) if (to) json_array_append_new(
		to, json_is_object(item) ? with_version(item) : json_incref(item));
	json_decref(j);
	return to;
}

int json_print(json_t *j)
{
	j = json_versioned(j);
	if (!j)
		return out_of_memory();
	int status = json_dumpf(j, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
	json_decref(j);
	if (status < 0 && !ferror(stdout))      /* what could not be written the caller of all commands says */
		return out_of_memory();
	putchar('\n');
	return EXIT_PASS;
}

json_t *json_figure(double x)
{
	if (isfinite(x))
		return json_real(x);
	return json_string(isnan(x) ? "NaN" : x > 0 ? "inf" : "-inf");
}

const char *number_text(double x, char text[RATIO])
{
	if (isfinite(x)) snprintf(text, RATIO, "%.9g", x);
	else snprintf(text, RATIO, "%s", isnan(x) ? "NaN" : x > 0 ? "infinite" : "-infinite");
	return text;
}

const char *ratio_text(double x, int digits, char text[RATIO])
{
	if (!isfinite(x)) return number_text(x, text);
	if (fabs(x) > 1e6) snprintf(text, RATIO, "over a million");
	else if (fabs(x) < 1000) snprintf(text, RATIO, "%.*g", digits, x);
	else snprintf(text, RATIO, "%.0f", x);
	return text;
}

json_t *json_shape(const struct tensor *t)
{
	json_t *shape = json_array();

	for (int i = 0; i < t->rank; i++)
		json_array_append_new(shape, json_integer((json_int_t)t->shape[i]));
	return shape;
}

const char *json_text(const json_t *j, const char *key)
{
	const char *text = json_string_value(json_object_get(j, key));

	return text ? text : "";
}

/* ---- texts of strangers ---- */

/* Does the character break a line, or turn or hide the text around it (Unicode's bidirectional
 * controls, its separators, what has no width)? */
static bool moves_text(uint32_t code)
{
	return code == 0x61c || (code >= 0x200b && code <= 0x200f)
		|| (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f)
		|| code == 0xfeff;
}

/* Bytes of the character of UTF-8 at p that may be shown: no control character, surrogate or
 * noncharacter, no longer form than need be (RFC 3629); else 0. */
static size_t character(const unsigned char *p)
{
	static const uint32_t least[] = { 0, ' ', 0xa0, 0x800, 0x10000 };
	size_t n = *p < 0x80 ? 1 : *p >> 5 == 6 ? 2 : *p >> 4 == 14 ? 3 : *p >> 3 == 30 ? 4 : 0;
	uint32_t code = n < 2 ? *p : *p & (0x7fu >> n);

	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80) return 0;
		code = code << 6 | (p[i] & 0x3f);
	}
	if (code < least[n] || code == 127 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) || (code & 0xfffe) == 0xfffe) return 0;
	if (moves_text(code)) return 0;
	return n;
}

void make_clean(char *text)
{
	for (size_t n; *text; text += n ? n : 1)
		if (!(n = character((unsigned char *)text))) *text = '?';
}

void copy_clean(char *to, size_t size, const char *from)
{
	snprintf(to, size, "%s", from);
	make_clean(to);
}

void put_clean(FILE *to, const char *text)
{
	for (size_t n; *text; text += n ? n : 1) {
		n = character((const unsigned char *)text);
		fprintf(to, "%.*s", (int)(n ? n : 1), n ? text : "?");
	}
}

/* ---- tables ---- */

void table_add(struct table *t, const char *format, ...)
{
	va_list arguments;
	char *text = NULL, **more = realloc(t->cell, (t->n + 1) * sizeof *more);

	if (more)
		t->cell = more;
	va_start(arguments, format);
	if (!more || vasprintf(&text, format, arguments) < 0)
		t->no_memory = true;
	else {
		make_clean(text);
		t->cell[t->n++] = text;
	}
	va_end(arguments);
}

/* Characters, not bytes: those of UTF-8 that do not continue another. */
static size_t width(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += ((unsigned char)*text & 0xC0) != 0x80;
	return n;
}

static void put_cell(const char *text, size_t wide, bool right, bool last)
{
	int gap = (int)(wide - width(text));

	if (right)
		printf("%*s%s%s", gap, "", text, last ? "\n" : "  ");
	else
		printf("%s%*s", text, last ? 0 : gap + 2, "");
	if (last && !right)
		putchar('\n');
}

int table_print(struct table *t)
{
	bool no_memory = t->no_memory;

	for (size_t row = 0; !no_memory && row <= t->n / t->columns; row++)
		for (size_t c = 0; c < t->columns; c++) {
			bool right = t->heading[c][0] == '>';
			const char *name = t->heading[c] + right;
			size_t wide = width(name);
			for (size_t i = c; i < t->n; i += t->columns)
				wide = width(t->cell[i]) > wide ? width(t->cell[i]) : wide;
			put_cell(row ? t->cell[(row - 1) * t->columns + c] : name, wide, right, c + 1 == t->columns);
		}
	for (size_t i = 0; i < t->n; i++)
		free(t->cell[i]);
	free(t->cell);
	return no_memory ? out_of_memory() : EXIT_PASS;
}
