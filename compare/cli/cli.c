#define _GNU_SOURCE     /* fopencookie */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compare/layers/model_reading.h"

static ssize_t first_line(void *to, const char *text, size_t n)
{
	const char *end = memchr(text, '\n', n);

	fwrite(text, 1, end ? (size_t)(end - text) + 1 : n, to);
	return (ssize_t)n;
}

/* glibc's argp has an option of its own that nothing lists, --HANG: it sleeps for an hour. */
static void refuse_hang(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
		if (strncmp(argv[i], "--H", 3)) continue;
		fprintf(stderr, "%s: unrecognized option '%s'\n", argv[0], argv[i]);
		exit(EXIT_INPUT);
	}
}

/* argp follows its message with a second line, "Try `... --help'", and exits. */
void cli_parse(const struct argp *a, int argc, char **argv, void *input)
{
	refuse_hang(argc, argv);
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

static void stage(const struct watch *w, const char *name, size_t done, size_t total)
{
	(void)w;
	cli_stage(name, done, total);
}

const struct watch cli_watch = { stage, NULL };

void cli_pace(struct timespec *start, const char *now, double share, bool lines)
{
	/* Before, an estimate says nothing. */
	static const double known = 0.01;
	struct timespec t;
	char left[64] = "";
	bool terminal = isatty(STDERR_FILENO);

	clock_gettime(CLOCK_MONOTONIC, &t);
	if (!(share > 0))
		*start = t;
	if (!terminal && !lines)
		return;
	double passed = (double)(t.tv_sec - start->tv_sec) + 1e-9 * (double)(t.tv_nsec - start->tv_nsec);
	if (share >= known)
		snprintf(left, sizeof left, ", some %.0f s left", passed / share - passed);
	if (share >= 1 && terminal)
		fputs("\r\033[K", stderr);
	else
		fprintf(stderr, "%s%3.0f %% in %.0f s%s: %s%s", terminal ? "\r" : "", 100 * share, passed, left, now, terminal ? "\033[K" : "\n");
}
