/* etalon gate: many captures, one verdict. */
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "cli_op.h"
#include "compare/api/etalon.h"
#include "compare/gate/gate_list.h"
#include "compare/gate/gate_output.h"
#include "compare/gate/shard.h"
#include "compare/report/baseline.h"
#include "fixtures/io/file.h"
#include "find.h"

struct arguments {
	struct judging how;
	struct gate_output to;
	struct op_files op;
	const char *baseline, *only;
	char shown[4096];               /* the baseline's path, as reports have it */
	json_t *old; /* the baseline's captures; NULL: --update-baseline makes it */
	char **path;
	size_t n;
	bool update, prune, partial, flat;
	size_t shard, shards;           /* number `shard` of `shards`, from 1; 0: all */
};

/* What is known of the captures of this run: a finding, and a shard's digest, for each listed. */
struct gated { struct gate_list list; struct finding *f; char (*digest)[SHA256_TEXT]; };

/* ---- the baseline ---- */

/* Entries of captures that this run lacks are named, since a gate without --update-baseline fails
 * them. */
static void say_kept(const struct arguments *a, const json_t *now, const json_t *names)
{
	const char *name;
	json_t *entry;

	json_object_foreach((json_t *)(uintptr_t)now, name, entry) {
		if (json_object_get(names, name)) continue;
		fprintf(stderr, "etalon: %s: keeps the entry of '", a->shown);
		put_clean(stderr, name);
		fputs("', which this run lacks; --prune removes it\n", stderr);
	}
}

static void say_left_out(const struct arguments *a, const struct gated *j)
{
	size_t n = 0;

	for (size_t i = 0; i < j->list.n; i++)
		n += !j->f[i].judged || j->f[i].verdict.outcome != PASS;
	if (n)
		fprintf(stderr,
			"etalon: %s: %zu of %zu captures did not pass, and their entries stay as "
			"they were\n",
			a->baseline, n, j->list.n);
}

/* The baseline's word on the findings, or, to update it, theirs in it. */
static bool ratchet(const struct arguments *a, const struct gated *j, const json_t *names,
	int *status, struct error *e)
{
	if (!a->update) baseline_compare(a->old, a->shown, j->f, j->list.n);
	else {
		json_t *now =
			baseline_update(a->baseline, a->prune ? names : NULL, j->f, j->list.n, e);
		if (!now) return false;
		say_left_out(a, j);
		if (!a->only && !a->partial) say_kept(a, now, names);
		json_decref(now);
	}
	for (size_t i = 0; i < j->list.n; i++)
		*status = worse_exit(
			*status, j->list.item[i].gone ? EXIT_FAIL : finding_exit(&j->f[i]));
	return true;
}

/* ---- judging ---- */

struct size { size_t i; off_t bytes; };

static int larger_first(const void *a, const void *b)
{
	const struct size *x = a, *y = b;

	return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes) : (x->i > y->i) - (x->i < y->i);
}

/* Two captures at a time, each by half of the threads: what one does alone, the other fills. The largest first, that none of them is
 * the last, beside which nothing is left to be done. */
static void find_all(const struct arguments *a, struct gated *j, struct size *order, int *status)
{
	int threads = omp_get_max_threads(), lanes = threads > 1 ? 2 : 1;
	struct stat s;
	size_t n = j->list.n, done = 0;

	for (size_t i = 0; i < n; i++)
		order[i] = (struct size){ i, stat(j->list.item[i].path, &s) ? 0 : s.st_size };
	qsort(order, n, sizeof *order, larger_first);

	omp_set_max_active_levels(2);
	omp_set_num_threads(threads / lanes);
	cli_stage("gate", 0, n);
	#pragma omp parallel for num_threads(lanes) schedule(dynamic, 1)
	for (size_t k = 0; k < n; k++) {
		size_t i = order[k].i;
		const struct listed *x = &j->list.item[i];
		if (x->gone) continue;
		/* Before it is judged: what changes meanwhile has another digest than the merge finds. */
		if (a->shards && !file_sha256(x->path, j->digest[i])) *j->digest[i] = 0;
		int one = find(x->path, &a->how, &j->f[i]);
		j->f[i].name = x->name;
		j->f[i].root = x->root;
		#pragma omp critical(gate)
		{
			*status = worse_exit(*status, one);
			cli_stage("gate", ++done, n);
		}
	}
	omp_set_num_threads(threads);
}

static json_t *records(const struct arguments *a, const struct gated *j)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < j->list.n; i++) {
		json_t *row = j->list.item[i].gone
			? baseline_gone(a->old, a->shown, j->list.item[i].name, a->path, a->n)
			: report_json(&j->f[i]);
		if (*j->digest[i]) json_object_set_new(row, "sha256", json_string(j->digest[i]));
		json_array_append_new(rows, row);
	}
	return rows;
}

static char *options_of(const struct arguments *a)
{
	char *text = NULL;
	size_t n;
	FILE *to = open_memstream(&text, &n);

	if (!to) return NULL;
	fprintf(to, "etalon %s", ETALON_VERSION);
	find_options(to, &a->how);
	return fclose(to) == 0 ? text : (free(text), NULL);
}

/* What else than captures decides a verdict: parts that differ in it are not parts of one gate. */
static json_t *describe(const struct arguments *a, const struct gate_list *all, struct error *e)
{
	const char *file[MAX_OP_FILES + 1];
	size_t files = 0;
	char *options = options_of(a);

	if (!options) return error_set(e, E_MEMORY, NULL, NO_OFFSET, "a shard"), NULL;
	for (; files < a->op.n; files++) file[files] = a->op.path[files];
	if (a->baseline && !a->update) file[files++] = a->baseline;
	const struct shard_how how = { a->shard, a->shards, a->path, a->n, a->flat, options, file,
		files };
	json_t *j = shard_json(&how, all, e);
	free(options);
	return j;
}

static int judge_all(struct arguments *a, struct gated *j)
{
	struct error e = { 0 };
	json_t *names = list_names(&j->list), *shard = NULL;
	int status = EXIT_PASS;

	if (a->shards && !(shard = describe(a, &j->list, &e))) {
		json_decref(names);
		return print_failure(&e);
	}
	if (a->shards) list_part(&j->list, a->shard, a->shards);
	size_t n = j->list.n ? j->list.n : 1;
	struct size *order = calloc(n, sizeof *order);
	j->f = calloc(n, sizeof *j->f);
	j->digest = calloc(n, sizeof *j->digest);
	bool ok = (j->f && order && j->digest)
		|| error_set(&e, E_MEMORY, NULL, NO_OFFSET, "%zu captures", j->list.n);
	if (ok) find_all(a, j, order, &status);
	free(order);
	ok = ok && (!a->baseline || ratchet(a, j, names, &status, &e));
	if (ok) status = gate_output(records(a, j), shard, status, &a->to);
	else json_decref(shard);
	json_decref(names);
	return ok ? status : worse_exit(status, print_failure(&e));
}

/* What is to be judged, and what the baseline has beside it. */
static bool collect(struct arguments *a, struct gate_list *l, struct error *e)
{
	bool ok = true;

	for (size_t i = 0; ok && i < a->n; i++) ok = list_add(l, a->path[i], a->flat, e);
	if (ok && a->baseline) ok = list_names_differ(l, e);
	if (ok && a->old && !a->update && !a->partial) ok = list_gone(l, a->old, e);
	return ok && (!a->only || list_only(l, a->only, e));
}

/* ---- the command ---- */

static void parse_shard(struct arguments *a, char *text, struct argp_state *state)
{
	char more;

	if (sscanf(text, "%zu/%zu%c", &a->shard, &a->shards, &more) != 2 || !a->shard || a->shard > a->shards || a->shards > 100000)
		argp_error(state, "--shard: expected I/N, I from 1 to N, got '%s'", text);
}

enum { FLAT = 256 + 16, ONLY, PRUNE, PARTIAL };  /* no letters; gate_output has others */

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->op;
		state->child_inputs[1] = &a->how;
		state->child_inputs[2] = &a->to;
		return 0;
	case 's': parse_shard(a, text, state); return 0;
	case 'b':
		a->baseline = text;
		copy_clean(a->shown, sizeof a->shown, text);
		return 0;
	case 'B': a->update = true; return 0;
	case FLAT: a->flat = true; return 0;
	case ONLY: a->only = text; return 0;
	case PRUNE: a->prune = true; return 0;
	case PARTIAL: a->partial = true; return 0;
	case ARGP_KEY_END:
		if (a->update && !a->baseline) argp_error(state, "--update-baseline needs --baseline FILE");
		else if (a->prune && !a->update)
			argp_error(state, "--prune needs --update-baseline");
		else if (a->prune && (a->only || a->partial))
			argp_error(state,
				"--prune removes what a whole run lacks; --only and --partial are "
				"no whole run");
		else if (a->only && a->shards)
			argp_error(state, "--only takes one capture, and --shard cuts all of them");
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
		{ "baseline", 'b', "FILE", 0,
			"fail what got worse than in FILE: a larger error, a site that was not "
			"rounded",
			0 },
		{ "update-baseline", 'B', NULL, 0,
			"write the figures of this run into the baseline", 0 },
		{ "prune", PRUNE, NULL, 0,
			"with --update-baseline: remove the entries of captures that are gone", 0 },
		{ "partial", PARTIAL, NULL, 0,
			"captures of the baseline may be missing, as some were left out on purpose",
			0 },
		{ "flat", FLAT, NULL, 0, "leave out the folders below DIR", 0 },
		{ "only", ONLY, "PATH", 0, "the capture of this path below DIR alone", 0 },
		{ "shard", 's', "I/N", 0, "the I-th of N parts of the captures; see `etalon merge`",
			0 },
		{ 0 }
	};
	static const struct argp_child children[] = { { &cli_op_argp, 0, NULL, 0 }, { &find_argp, 0, NULL, 0 }, { &gate_output_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = { options, parse, "[DIR|CAPTURE...]",
		"Many captures, one verdict: of DIR each *.safetensors, in folders below it too. "
		"DIR is fixtures/captures unless given.",
		children, NULL, NULL };
	char *standard[] = { "fixtures/captures" };
	struct arguments a = { .path = standard, .n = 1, .how.explained = OWN_EXPLAINED };
	struct gated j = { 0 };
	struct error e = { 0 };
	bool ok = true;

	cli_parse(&argp, argc, argv, &a);
	file_read_all();        /* one that is cut off meanwhile does not take the others' verdicts with it */
	if (a.baseline && !(a.update && access(a.baseline, F_OK) != 0)) ok = (a.old = baseline_read(a.baseline, &e)) != NULL;
	ok = ok && collect(&a, &j.list, &e);
	int status = ok ? judge_all(&a, &j) : print_failure(&e);
	list_free(&j.list);
	free(j.f);
	free(j.digest);
	json_decref(a.old);
	return status;
}
