#define _GNU_SOURCE     /* vasprintf, fopencookie */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static ssize_t first_line(void *to, const char *text, size_t n)
{
	const char *end = memchr(text, '\n', n);

	fwrite(text, 1, end ? (size_t)(end - text) + 1 : n, to);
	return (ssize_t)n;
}

/* argp follows its message with a second line, "Try `... --help'", and exits. */
void cli_parse(const struct argp *a, int argc, char **argv, void *input)
{
	FILE *all = stderr, *one = fopencookie(all, "w", (cookie_io_functions_t){ .write = first_line });

	argp_err_exit_status = EXIT_INPUT;
	if (one)
		stderr = one;
	argp_parse(a, argc, argv, 0, NULL, input);
	stderr = all;
	if (one)
		fclose(one);
}

uint64_t cli_number(struct argp_state *state, const char *option, const char *text, uint64_t least, uint64_t most)
{
	char *end;

	errno = 0;
	unsigned long long x = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || x < least || x > most)
		argp_error(state, "%s: expected a whole number from %llu to %llu, got '%s'", option,
		           (unsigned long long)least, (unsigned long long)most, text);
	return x;
}

int cli_fail(const struct error *e)
{
	fflush(stdout);
	fputs("etalon: ", stderr);
	error_print(stderr, e);
	putc('\n', stderr);
	return error_exit(e);
}

static int out_of_memory(void)
{
	struct error e;

	error_set(&e, E_MEMORY, NULL, NO_OFFSET, "while making the output");
	return cli_fail(&e);
}

int cli_json(json_t *j)
{
	if (!j)
		return out_of_memory();
	int status = json_dumpf(j, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
	json_decref(j);
	if (status < 0)
		return out_of_memory();
	putchar('\n');
	return EXIT_PASS;
}

json_t *cli_json_number(double x)
{
	if (isfinite(x))
		return json_real(x);
	return json_string(isnan(x) ? "NaN" : x > 0 ? "inf" : "-inf");
}

json_t *cli_json_shape(const struct tensor *t)
{
	json_t *shape = json_array();

	for (int i = 0; i < t->rank; i++)
		json_array_append_new(shape, json_integer((json_int_t)t->shape[i]));
	return shape;
}

void cli_stage(const char *stage, size_t done, size_t total)
{
	static int terminal = -1;
	static struct timespec last, start;
	static const char *current;
	struct timespec now;

	if (terminal < 0)
		terminal = isatty(STDERR_FILENO);
	if (!terminal)
		return;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (current != stage || !done)
		start = now;
	current = stage;
	if (done < total && (double)(now.tv_sec - last.tv_sec) + 1e-9 * (double)(now.tv_nsec - last.tv_nsec) < 0.1)
		return;
	last = now;
	double left = done ? (double)(now.tv_sec - start.tv_sec) * (double)(total - done) / (double)done : 0;
	if (done < total && left >= 5)
		fprintf(stderr, "\r%s %zu/%zu, %.0f s left\033[K", stage, done, total, left);
	else if (done < total)
		fprintf(stderr, "\r%s %zu/%zu\033[K", stage, done, total);
	else
		fputs("\r\033[K", stderr);
}

void cli_pace(const char *now, double share, bool lines)
{
	/* Before, an estimate says nothing. */
	static const double known = 0.01;
	static struct timespec start;
	struct timespec t;
	char left[64] = "";
	bool terminal = isatty(STDERR_FILENO);

	clock_gettime(CLOCK_MONOTONIC, &t);
	if (!(share > 0))
		start = t;
	if (!terminal && !lines)
		return;
	double passed = (double)(t.tv_sec - start.tv_sec) + 1e-9 * (double)(t.tv_nsec - start.tv_nsec);
	if (share >= known)
		snprintf(left, sizeof left, ", some %.0f s left", passed / share - passed);
	if (share >= 1 && terminal)
		fputs("\r\033[K", stderr);
	else
		fprintf(stderr, "%s%3.0f %% in %.0f s%s: %s%s", terminal ? "\r" : "", 100 * share, passed, left, now, terminal ? "\033[K" : "\n");
}

void cli_tick(size_t done, size_t total) { cli_stage("reference", done, total); }

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
	else
		t->cell[t->n++] = text;
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
