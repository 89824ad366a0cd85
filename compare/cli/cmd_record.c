/* etalon record: runs kernels on the cases and writes a capture of each call, or the engine on a whole model. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <omp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "cli_op.h"
#include "compare/print/print.h"
#include "fixtures/cases/cases.h"
#include "fixtures/cases/left_out.h"
#include "gpu/host/backend.h"
#include "record_model.h"
#include "ref/call/op.h"

/* What a plugin's process says to the one that waits for it. at: the case that runs. */
struct word { bool done; int status; char at[256]; };

struct arguments { const char *op, *dir, *backend, *case_name; uint64_t seed; bool json, large, inputs; struct record_model model; struct word *said; };

static bool is_plugin(const char *backend) { return !strncmp(backend, "plugin:", 7); }

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case 'o': a->dir = text; return 0;
	case 'b': a->backend = text; return 0;
	case 'c': a->case_name = text; return 0;
	case 's': a->seed = cli_number(state, "--seed", text, 0, UINT64_MAX); return 0;
	case 'j': a->json = true; return 0;
	case 'l': a->large = true; return 0;
	case 'k': a->inputs = true; return 0;
	case 'm': a->model.folder = text; return 0;
	case 'i': a->model.ids = text; return 0;
	case 'd': a->model.decoded = cli_number(state, "--decode", text, 0, 1 << 20); return 0;
	case 't': a->model.time = true; return 0;
	case ARGP_KEY_ARG:
		if (a->op) return ARGP_ERR_UNKNOWN;
		a->op = text;
		return 0;
	case ARGP_KEY_END:
		if (a->model.folder) {
			if (a->op || !a->dir || !a->model.ids) argp_error(state, "expected --model DIR --ids FILE:TENSOR -o FILE");
			if (strcmp(a->backend, "cuda")) argp_error(state, "--model runs on the backend cuda");
		} else if (!a->op || !a->dir) {
			argp_error(state, "expected OP or all, and -o DIR");
		} else if (a->model.ids || a->model.time) {
			argp_error(state, "--ids and --time go with --model DIR");
		}
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* DIR and the folders above it. */
static bool make_folders(const char *dir, struct error *e)
{
	char path[PATH_MAX];
	struct stat s;

	if (strlen(dir) >= sizeof path)
		return error_set(e, E_OPEN, dir, NO_OFFSET, "the path is too long");
	strcpy(path, dir);
	for (char *p = path + 1; *p; p++)
		if (*p == '/') {
			*p = '\0';
			mkdir(path, 0777);      /* the last mkdir tells */
			*p = '/';
		}
	if (mkdir(path, 0777) < 0 && errno != EEXIST) {
		error_set(e, E_OPEN, NULL, NO_OFFSET, "%s", strerror(errno));
		return error_in_file(e, dir);
	}
	if (stat(path, &s) < 0 || !S_ISDIR(s.st_mode)) {
		error_set(e, E_OPEN, NULL, NO_OFFSET, "expected a folder");
		return error_in_file(e, dir);
	}
	return true;
}

/* Outputs were filled with NaN: one that is left was never written, or written as NaN. */
static bool all_written(const struct capture *c, struct error *e)
{
	for (size_t i = 0; i < c->tensors.n; i++) {
		const struct tensor *t = &c->tensors.item[i];
		if (strncmp(t->name, "out.", 4))
			continue;
		for (size_t k = 0; k < t->count; k++) {
			double x;
			dtype_load(t->dtype, (const char *)t->data + k * dtype_info[t->dtype].size, 1, &x);
			if (isnan(x))
				return error_set(e, E_DEVICE, t->name, NO_OFFSET, "the kernel left NaN in element %zu of %zu (case %s)",
					k, t->count, c->case_name);
		}
	}
	return true;
}

static bool record(const struct test_case *k, const struct arguments *a, const char *path, struct capture *c, struct error *e)
{
	bool ours = !is_plugin(a->backend);

	if (!case_make(c, k, a->seed, true, e) || !backend_run(a->backend, c, e) || !all_written(c, e))
		return false;
	if (ours && k->contract && !meta_set(&c->tensors, "etalon.contract", k->contract))
		return error_set(e, E_MEMORY, path, NO_OFFSET, "its metadata");
	if (ours && !a->inputs && !inputs_leave_out(&c->tensors, e))
		return false;
	return make_folders(a->dir, e) && tensors_write(&c->tensors, path, e);
}

/* What a plugin calls itself and its device is a stranger's text. */
static void said(const char *path, const struct capture *c)
{
	char producer[256], device[256];

	copy_clean(producer, sizeof producer, c->producer);
	copy_clean(device, sizeof device, c->device);
	printf("%s  %s, %s\n", path, producer, device);
}

/* One capture: a line, or an object in list. A plugin may lack an op, a type or a parameter;
 * that is said, and the other cases go on. */
static bool record_case(const struct test_case *k, const struct arguments *a, size_t *written, json_t *list, struct error *e)
{
	char path[PATH_MAX];
	struct capture c = { 0 };

	if (a->said) snprintf(a->said->at, sizeof a->said->at, "%s.%s", k->op, k->name);
	if ((size_t)snprintf(path, sizeof path, "%s/%s.%s.etalon.safetensors", a->dir, k->op, k->name) >= sizeof path)
		return error_set(e, E_OPEN, a->dir, NO_OFFSET, "the path is too long");
	bool ok = record(k, a, path, &c, e);
	bool may = strcmp(a->backend, "cuda") || (e->code == E_OP && !strcmp(a->op, "all"));
	bool skip = !ok && may && (e->code == E_OP || e->code == E_PARAM || e->code == E_DTYPE || e->code == E_DIM);
	if (ok && list)
		json_array_append_new(list, json_pack("{s:s,s:s,s:s,s:s,s:s}", "file", path, "op", k->op, "case", k->name,
			"producer", c.producer, "device", c.device));
	else if (ok)
		said(path, &c);
	else if (skip && list)
		json_array_append_new(list, json_pack("{s:n,s:s,s:s,s:s}", "file", "op", k->op, "case", k->name, "skipped", e->detail));
	else if (skip)
		printf("%s %s: skipped: %s\n", k->op, k->name, e->detail);
	*written += ok;
	capture_free(&c);
	return ok || skip;
}

static bool record_all(const struct arguments *a, json_t *list, struct error *e)
{
	size_t written = 0, found = 0;
	bool all = !strcmp(a->op, "all");

	const struct op *op = all ? NULL : op_find(a->op);
	if (!all && !op)
		return op_unknown(a->op, e);
	for (const struct test_case *k = op && op->cases ? op->cases : test_cases; k->op; k++) {
		if ((!all && strcmp(k->op, a->op)) || (a->case_name ? strcmp(k->name, a->case_name) != 0 : k->large != a->large))
			continue;
		if (all && !strcmp(a->backend, "cuda") && !gpu_source_sha256(k->op)) continue;         /* other people's kernels alone */
		found++;
		if (!record_case(k, a, &written, list, e))
			return false;
	}
	if (!found && op)
		return op_lacks(e, op, "cases", a->case_name ? a->case_name : a->op);
	if (!found)
		return error_set(e, E_UNKNOWN_NAME, a->case_name ? a->case_name : a->op, NO_OFFSET, "no such case; see `etalon list cases`");
	if (!written)
		return error_set(e, E_OP, a->op, NO_OFFSET, "%s supports none of the %zu cases", a->backend, found);
	return true;
}

/* ---- a plugin's process ---- */

static int record_here(const struct arguments *a)
{
	struct error e = { 0 };
	json_t *list = a->json ? json_array() : NULL;

	if (record_all(a, list, &e)) return a->json ? json_print(list) : EXIT_PASS;
	json_decref(list);
	return print_failure(&e);
}

_Noreturn static void be_plugins_process(struct arguments *a, struct word *said)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
	a->said = said;
	said->status = record_here(a);
	if (fflush(stdout) != 0 || ferror(stdout)) said->status = EXIT_MACHINE;
	said->done = true;
	exit(said->status);
}

/* How it ended, where it did not end by itself and say so. */
static bool ended_well(const struct word *said, int how, const char *backend, struct error *e)
{
	if (said->done && WIFEXITED(how) && WEXITSTATUS(how) == said->status) return true;
	if (WIFSIGNALED(how))
		return error_set(e, E_DEVICE, said->at, NO_OFFSET, "%s ended the process: signal %d, %s", backend, WTERMSIG(how), strsignal(WTERMSIG(how)));
	return error_set(e, E_DEVICE, said->at, NO_OFFSET, "%s ended the process: exit %d", backend, WEXITSTATUS(how));
}

/* A plugin may call exit, abort or worse, and that must not look like a recording that is complete: it runs in a process of its own. */
static int record_apart(struct arguments *a)
{
	struct word *said = mmap(NULL, sizeof *said, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct error e;
	int how;

	fflush(NULL);
	omp_pause_resource_all(omp_pause_hard);         /* threads would be missing there */
	pid_t pid = said == MAP_FAILED ? -1 : fork();
	if (pid < 0) return error_set(&e, E_MEMORY, a->backend, NO_OFFSET, "a process for the plugin: %s", strerror(errno)), print_failure(&e);
	if (pid == 0) be_plugins_process(a, said);
	while (waitpid(pid, &how, 0) < 0 && errno == EINTR) {}
	int status = ended_well(said, how, a->backend, &e) ? said->status : print_failure(&e);
	munmap(said, sizeof *said);
	return status;
}

int cmd_record(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "output", 'o', "DIR", 0, "where to write OP.CASE.etalon.safetensors; made if absent; with --model, the file", 0 },
		{ "backend", 'b', "B", 0,
			"cuda, nccl (several GPUs), cpu (mixed_batch) or plugin:LIB.so (cuda)", 0 },
		{ "case", 'c', "NAME", 0, "this case only", 0 },
		{ "large", 'l', NULL, 0, "the cases at a model's full widths instead of the small ones", 0 },
		{ "seed", 's', "N", 0, "of the random streams (1)", 0 },
		{ "keep-inputs", 'k', NULL, 0, "write the inputs too; a plugin's are always written, those of our kernels "
			"are left out, as case and seed give them back", 0 },
		{ "model", 'm', "DIR", 0, "in place of an op: runs our engine on a whole model, for `etalon logits`", 1 },
		{ "ids", 'i', "FILE:TENSOR", 0, "with --model: the tokens", 1 },
		{ "decode", 'd', "N", 0, "with --model: the last N tokens again, one at a time (10)", 1 },
		{ "time", 't', NULL, 0, "with --model: says how long prefill and decoding take", 1 },
		{ "json", 'j', NULL, 0, "an array with an object for each capture", 2 }, { 0 }
	};
	static const struct argp argp = { options, parse, "OP|all -o DIR\n--model DIR --ids FILE:TENSOR -o FILE",
		"Runs the kernels on the cases and writes a capture of each call, or the engine on a whole model.", cli_op, NULL, NULL };
	struct arguments a = { .backend = "cuda", .seed = 1, .model.decoded = 10 };

	cli_parse(&argp, argc, argv, &a);
	if (a.model.folder) {
		a.model.file = a.dir;
		a.model.json = a.json;
		return record_model(&a.model);
	}
	return is_plugin(a.backend) ? record_apart(&a) : record_here(&a);
}
