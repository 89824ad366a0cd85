/* Pictures of a page: tables and a script in a folder of their own, and gnuplot run there. */
#define _GNU_SOURCE     /* posix_spawn_file_actions_addchdir_np */
#include "logits_pictures.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixtures/io/file.h"

extern char **environ;

static const char script[] =
#include "logits_gp.h"
	;
static const char *const files[] = { "positions.tsv", "histogram.tsv", "logits.gp", "kl.svg", "errors.svg", "histogram.svg",
	"log" };

static void positions(FILE *to, const struct logit_report *r)
{
	for (size_t t = 0; t < r->positions; t++) {
		const struct logit_position *p = &r->position[t];
		int flip = p->flip == NO_FLIP ? 0 : p->flip == FLIP_BEYOND || p->flip == FLIP_UNKNOWN ? 2 : 1;
		fprintf(to, "%zu\t%.9g\t%.9g\t%.9g\t%.9g\t%.9g\t%d\n", t, p->kl, p->kl_back, p->rms, p->max, p->sigma, flip);
	}
}

/* From the first bin that holds something to the last; what is smaller than all bins is drawn half an octave below. */
static void histogram(FILE *to, const struct logit_report *r)
{
	for (size_t i = 0; i < LOGIT_BINS; i++) {
		double from = i ? logit_bin_from(i) : logit_bin_from(1) / 1.5, end = i + 1 < LOGIT_BINS ? logit_bin_from(i + 1) : 1.5 * from;
		if (r->histogram[i]) fprintf(to, "%.9g\t%.9g\t%zu\n", from, end, r->histogram[i]);
	}
}

static void just_script(FILE *to, const struct logit_report *r)
{
	(void)r;
	fputs(script, to);
}

static bool write_in(const char *folder, const char *name, void (*what)(FILE *, const struct logit_report *),
	const struct logit_report *r,
	struct error *e)
{
	char path[4096];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *to = fopen(path, "we");
	if (to) what(to, r);
	bool bad = !to || ferror(to);
	if (to && fclose(to)) bad = true;
	return !bad || error_set(e, E_WRITE, path, NO_OFFSET, "%s", strerror(errno));
}

static bool gnuplot(const char *folder, struct error *e)
{
	char *const arguments[] = { (char[]){ "gnuplot" }, (char[]){ "logits.gp" }, NULL };
	posix_spawn_file_actions_t actions;
	pid_t pid;
	int status;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addchdir_np(&actions, folder);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "log", O_WRONLY | O_CREAT, 0600);
	posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
	int failed = posix_spawnp(&pid, "gnuplot", &actions, NULL, arguments, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (failed) return error_set(e, E_NO_BACKEND, "gnuplot", NO_OFFSET, "it draws the page's pictures: %s", strerror(failed));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
	return (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		|| error_set(e, E_NO_BACKEND, "gnuplot", NO_OFFSET, "it draws the page's pictures, and failed (status %d)", status);
}

/* The <svg> element of a file. */
static char *svg_of(const char *folder, const char *name, struct error *e)
{
	char path[4096], *text = NULL;
	void *map;
	size_t n;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	if (!file_map(path, &map, &n, e)) return NULL;
	const char *from = n ? memmem(map, n, "<svg", 4) : NULL;
	if (from) text = strndup(from, n - (size_t)(from - (const char *)map));
	if (!from || !text) error_set(e, from ? E_MEMORY : E_FORMAT, name, NO_OFFSET, "a picture by gnuplot");
	file_unmap(map, n);
	return text;
}

static void remove_all(const char *folder)
{
	char path[4096];

	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		snprintf(path, sizeof path, "%s/%s", folder, files[i]);
		unlink(path);
	}
	rmdir(folder);
}

bool pictures_draw(struct pictures *p, const struct logit_report *r, struct error *e)
{
	const char *root = getenv("TMPDIR");
	char folder[2048];

	*p = (struct pictures){ 0 };
	snprintf(folder, sizeof folder, "%s/etalon.XXXXXX", root && *root ? root : "/tmp");
	if (!mkdtemp(folder)) return error_set(e, E_WRITE, folder, NO_OFFSET, "%s", strerror(errno));
	bool ok = write_in(folder, files[0], positions, r, e) && write_in(folder, files[1], histogram, r, e)
		&& write_in(folder, files[2], just_script, r, e) && gnuplot(folder, e)
		&& (p->kl = svg_of(folder, files[3], e)) && (p->errors = svg_of(folder, files[4], e)) && (p->histogram = svg_of(folder,
		files[5], e));
	remove_all(folder);
	if (!ok) pictures_free(p);
	return ok;
}

void pictures_free(struct pictures *p)
{
	free(p->kl);
	free(p->errors);
	free(p->histogram);
	*p = (struct pictures){ 0 };
}
