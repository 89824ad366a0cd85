/* etalon gate: many captures, one verdict. */
#define _GNU_SOURCE              /* asprintf */
#include <dirent.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "cli_op.h"
#include "compare/report/baseline.h"
#include "find.h"
#include "fixtures/io/sha256.h"
#include "gate_output.h"

struct arguments {
	struct judging how;
	struct gate_output to;
	const char *baseline;
	json_t *old;                    /* what it says; NULL: --update-baseline makes it */
	char **path;
	size_t n;
	bool update;
	size_t shard, shards;           /* number `shard` of `shards`, from 1; 0: all */
};
struct paths { char **item; size_t n; };

static bool add(struct paths *p, const char *folder, const char *name)
{
	char **item = realloc(p->item, (p->n + 1) * sizeof *item);

	if (!item) return false;
	p->item = item;
	if (asprintf(&item[p->n], "%s%s%s", folder, *folder && folder[strlen(folder) - 1] != '/' ? "/" : "", name) < 0) return false;
	p->n++;
	return true;
}

static int is_capture(const struct dirent *d)
{
	static const char end[] = ".safetensors";
	size_t n = strlen(d->d_name), m = sizeof end - 1;

	return d->d_name[0] != '.' && n > m && !strcmp(d->d_name + n - m, end);
}

/* A file is itself; a folder is its *.safetensors, sorted. A folder without any is an error. */
static bool collect(struct paths *p, const char *path, struct error *e)
{
	struct dirent **list = NULL;
	struct stat s;
	bool ok = true;

	if (stat(path, &s)) return error_set(e, E_OPEN, path, NO_OFFSET, "expected a folder of captures or a capture: %m");
	if (!S_ISDIR(s.st_mode)) return add(p, "", path) || error_set(e, E_MEMORY, path, NO_OFFSET, "a list of captures");
	int n = scandir(path, &list, is_capture, alphasort);
	if (n < 0) return error_set(e, E_READ, path, NO_OFFSET, "%m");
	if (n == 0) ok = error_set(e, E_EMPTY, path, NO_OFFSET, "expected *.safetensors");
	for (int i = 0; i < n; i++) {
		if (ok && !add(p, path, list[i]->d_name)) ok = error_set(e, E_MEMORY, path, NO_OFFSET, "a list of captures");
		free(list[i]);
	}
	free(list);
	return ok;
}

/* The baseline's word on the findings, or, to update it, theirs in it. */
static bool ratchet(const struct arguments *a, struct finding *f, size_t n, int *status, struct error *e)
{
	bool ok = !a->update || baseline_write(a->baseline, a->old, f, n, e);

	if (ok && !a->update) baseline_compare(a->old, f, n);
	for (size_t i = 0; i < n; i++) *status = worse_exit(*status, finding_exit(&f[i]));
	return ok;
}

struct size { size_t i; off_t bytes; };

static int larger_first(const void *a, const void *b)
{
	const struct size *x = a, *y = b;

	return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes) : (x->i > y->i) - (x->i < y->i);
}

/* Two captures at a time, each by half of the threads: what one does alone, the other fills. The largest first, that none of them is
 * the last, beside which nothing is left to be done. */
static void find_all(const struct paths *p, const struct arguments *a, struct finding *f, struct size *order, int *status)
{
	int threads = omp_get_max_threads(), lanes = threads > 1 ? 2 : 1;
	struct stat s;
	size_t done = 0;

	for (size_t i = 0; i < p->n; i++) order[i] = (struct size){ i, stat(p->item[i], &s) ? 0 : s.st_size };
	qsort(order, p->n, sizeof *order, larger_first);

	omp_set_max_active_levels(2);
	omp_set_num_threads(threads / lanes);
	cli_stage("gate", 0, p->n);
	#pragma omp parallel for num_threads(lanes) schedule(dynamic, 1)
	for (size_t k = 0; k < p->n; k++) {
		size_t i = order[k].i;
		int one = find(p->item[i], &a->how, &f[i]);
		#pragma omp critical(gate)
		{
			*status = worse_exit(*status, one);
			cli_stage("gate", ++done, p->n);
		}
	}
	omp_set_num_threads(threads);
}

/* Of all captures those of the shard, every N-th; what tells shards of one list from others'. */
static json_t *choose(struct paths *p, const struct arguments *a)
{
	size_t all = p->n, kept = 0;
	struct sha256 h;
	char digest[SHA256_TEXT];

	sha256_start(&h);
	for (size_t i = 0; i < all; i++) {
		const char *slash = strrchr(p->item[i], '/'), *name = slash ? slash + 1 : p->item[i];
		sha256_add(&h, name, strlen(name) + 1);
		if (i % a->shards == a->shard - 1) p->item[kept++] = p->item[i];
		else free(p->item[i]);
	}
	p->n = kept;
	sha256_text(&h, digest);
	return json_pack("{s:I, s:I, s:I, s:s}", "number", (json_int_t)a->shard, "of", (json_int_t)a->shards, "captures", (json_int_t)all, "list", digest);
}

static json_t *records(const struct finding *f, size_t n)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < n; i++) json_array_append_new(rows, report_json(&f[i]));
	return rows;
}

static int judge_all(struct paths *p, const struct arguments *a)
{
	json_t *shard = a->shards ? choose(p, a) : NULL;
	struct finding *f = calloc(p->n ? p->n : 1, sizeof *f);
	struct size *order = calloc(p->n ? p->n : 1, sizeof *order);
	struct error e = { 0 };
	int status = EXIT_PASS;

	if (!f || !order) {
		free(f);
		free(order);
		error_set(&e, E_MEMORY, NULL, NO_OFFSET, "%zu captures", p->n);
		return print_failure(&e);
	}
	find_all(p, a, f, order, &status);
	free(order);
	bool ok = !a->baseline || ratchet(a, f, p->n, &status, &e);
	if (ok) status = gate_output(records(f, p->n), shard, status, &a->to);
	else json_decref(shard);
	free(f);
	return ok ? status : worse_exit(status, print_failure(&e));
}

static void parse_shard(struct arguments *a, char *text, struct argp_state *state)
{
	char more;

	if (sscanf(text, "%zu/%zu%c", &a->shard, &a->shards, &more) != 2 || !a->shard || a->shard > a->shards || a->shards > 100000)
		argp_error(state, "--shard: expected I/N, I from 1 to N, got '%s'", text);
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[1] = &a->how;
		state->child_inputs[2] = &a->to;
		return 0;
	case 's': parse_shard(a, text, state); return 0;
	case 'b': a->baseline = text; return 0;
	case 'B': a->update = true; return 0;
	case ARGP_KEY_END:
		if (a->update && !a->baseline) argp_error(state, "--update-baseline needs --baseline FILE");
		return 0;
	case ARGP_KEY_ARGS:
		a->path = state->argv + state->next;
		a->n = (size_t)(state->argc - state->next);
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

int cmd_gate(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "baseline", 'b', "FILE", 0, "fail what got worse than in FILE: a larger error, a site that was not rounded", 0 },
		{ "update-baseline", 'B', NULL, 0, "write the figures of this run into the baseline", 0 },
		{ "shard", 's', "I/N", 0, "the I-th of N parts of the captures; see `etalon merge`", 0 }, { 0 }
	};
	static const struct argp_child children[] = { { &cli_op_argp, 0, NULL, 0 }, { &find_argp, 0, NULL, 0 }, { &gate_output_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = { options, parse, "[DIR|CAPTURE...]", "Many captures, one verdict. DIR is fixtures/captures unless given.", children, NULL, NULL };
	char *standard[] = { "fixtures/captures" };
	struct arguments a = { .path = standard, .n = 1, .how.explained = OWN_EXPLAINED };
	struct paths p = { 0 };
	struct error e = { 0 };
	bool ok = true;

	cli_parse(&argp, argc, argv, &a);
	if (a.baseline && !(a.update && access(a.baseline, F_OK) != 0)) ok = (a.old = baseline_read(a.baseline, &e)) != NULL;
	for (size_t i = 0; ok && i < a.n; i++) ok = collect(&p, a.path[i], &e);
	int status = ok ? judge_all(&p, &a) : print_failure(&e);
	for (size_t i = 0; i < p.n; i++) free(p.item[i]);
	free(p.item);
	json_decref(a.old);
	return status;
}
