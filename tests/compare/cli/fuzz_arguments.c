/* Fuzz target: whatever the arguments, a command ends with one of the five exit codes. The bytes are
 * the arguments, one a line. The linker's --wrap puts these functions in the place of libc's: a
 * command that would exit comes back here, nothing is written, and nothing is read but what lies in
 * this folder. */
#define _GNU_SOURCE
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include "compare/cli/cli.h"
#include "tests/fixtures/fuzz.h"

enum { MOST = 24 };

static const struct { const char *name; int (*run)(int, char **); bool parse_only;
} commands[] = {
	{ "check", cmd_check, false },
	{ "gate", cmd_gate, false },
	{ "merge", cmd_merge, false },
	{ "record", cmd_record, false },
	{ "inputs", cmd_inputs, false },
	{ "ref", cmd_ref, false },
	{ "profile", cmd_profile, false },
	{ "diff", cmd_diff, false },
	{ "logits", cmd_logits, false },
	{ "quantize", cmd_quantize, false },
	{ "invent", cmd_invent, false },
	{ "isolate", cmd_isolate, true }, /* without a file it plays for a minute */
	{ "eigen", cmd_eigen, false },
	{ "restarts", cmd_restarts, false },
	{ "audit", cmd_audit, false },
	{ "list", cmd_list, false },
};

static jmp_buf back;
static bool parse_only, running;        /* running: else the fuzzer itself exits */

/* A command that comes back from the middle frees nothing. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "detect_leaks=0"; }

/* ---- what ends a command ---- */

error_t __real_argp_parse(const struct argp *, int, char **, unsigned, int *, void *);
error_t __wrap_argp_parse(
	const struct argp *a, int argc, char **argv, unsigned flags, int *next, void *input);
void __wrap_argp_error(const struct argp_state *state, const char *format, ...);
_Noreturn void __wrap_exit(int status);
_Noreturn void __real_exit(int status);

error_t __wrap_argp_parse(
	const struct argp *a, int argc, char **argv, unsigned flags, int *next, void *input)
{
	error_t refused = __real_argp_parse(a, argc, argv, flags | ARGP_NO_EXIT, next, input);

	if (refused || parse_only) longjmp(back, 1 + EXIT_INPUT);
	return refused;
}

void __wrap_argp_error(const struct argp_state *state, const char *format, ...)
{
	char text[4096];
	va_list arguments;

	(void)state;
	va_start(arguments, format);
	require(vsnprintf(text, sizeof text, format, arguments) > 0);
	va_end(arguments);
	longjmp(back, 1 + EXIT_INPUT);
}

void __wrap_exit(int status)
{
	if (running) longjmp(back, 1 + status);
	__real_exit(status);
}

/* ---- what a command may touch ---- */

static bool is_here(const char *path)
{
	return *path != '/' && !strstr(path, "..") && !strchr(path, '~');
}

/* What the fuzzer itself writes: its corpus between commands, and the input that it stops at. */
static bool is_fuzzers(const char *path)
{
	return !running || !strncmp(path, "./crash-", 8) || !strncmp(path, "./timeout-", 10)
		|| !strncmp(path, "./slow-unit-", 12);
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
FTS *__real_fts_open(
	char *const *path, int flags, int (*compare)(const FTSENT **, const FTSENT **));
FTS *__wrap_fts_open(
	char *const *path, int flags, int (*compare)(const FTSENT **, const FTSENT **));
int __wrap_mkdir(const char *path, mode_t mode);
char *__wrap_mkdtemp(char *path);
FILE *__wrap_freopen(const char *path, const char *mode, FILE *file);
int __wrap_rename(const char *from, const char *to);
int __wrap_unlink(const char *path);
int __wrap_rmdir(const char *path);
void *__wrap_dlopen(const char *path, int flags);
pid_t __wrap_fork(void);

int __wrap_open(const char *path, int flags, ...)
{
	if (is_fuzzers(path)) return __real_open(path, flags, 0666);
	if (is_here(path) && (flags & O_ACCMODE) == O_RDONLY && !(flags & O_CREAT))
		return __real_open(path, flags);
	errno = EACCES;
	return -1;
}

FILE *__wrap_fopen(const char *path, const char *mode)
{
	if (is_fuzzers(path)) return __real_fopen(path, mode);
	if (is_here(path) && *mode == 'r' && !strchr(mode, '+')) return __real_fopen(path, mode);
	errno = EACCES;
	return NULL;
}

FTS *__wrap_fts_open(char *const *path, int flags, int (*compare)(const FTSENT **, const FTSENT **))
{
	if (is_here(*path)) return __real_fts_open(path, flags, compare);
	errno = EACCES;
	return NULL;
}

static int denied(void)
{
	errno = EACCES;
	return -1;
}

int __wrap_mkdir(const char *path, mode_t mode) { return (void)path, (void)mode, denied(); }
char *__wrap_mkdtemp(char *path) { return (void)path, denied(), NULL; }
FILE *__wrap_freopen(const char *path, const char *mode, FILE *file)
{
	return (void)path, (void)mode, (void)file, denied(), NULL;
}
int __wrap_rename(const char *from, const char *to) { return (void)from, (void)to, denied(); }
int __wrap_unlink(const char *path) { return (void)path, denied(); }
int __wrap_rmdir(const char *path) { return (void)path, denied(); }
void *__wrap_dlopen(const char *path, int flags) { return (void)path, (void)flags, denied(), NULL; }
pid_t __wrap_fork(void) { return denied(); }

/* ---- the target ---- */

/* The first line names the command. */
static int run(char *text, char *const end)
{
	char *argv[MOST + 1] = { NULL };
	int argc = 0;

	for (char *line = text; argc < MOST && line <= end; line += strlen(line) + 1)
		argv[argc++] = line;
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
		if (strcmp(argv[0], commands[i].name)) continue;
		parse_only = commands[i].parse_only;
		return commands[i].run(argc, argv);
	}
	return EXIT_INPUT;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	FILE *const errors = stderr;
	char *const text = malloc(n + 1);

	require(text != NULL);
	if (n) memcpy(text, bytes, n);
	text[n] = 0;
	for (size_t i = 0; i < n; i++)
		if (text[i] == '\n') text[i] = 0;
	running = true;
	const int came = setjmp(back), status = came ? came - 1 : run(text, text + n);
	running = false;
	require(status >= EXIT_PASS && status <= EXIT_MACHINE);
	/* cli_parse puts a stream of its own there, which a command that exits leaves. */
	if (stderr != errors) fclose(stderr);
	stderr = errors;
	free(text);
	return 0;
}
