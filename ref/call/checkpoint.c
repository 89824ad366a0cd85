#include "checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixtures/io/file.h"
#include "fixtures/io/folder.h"
#include "fixtures/io/random.h"
#include "ref/ranks/ranks.h"

static struct { const char *folder; struct part *known; size_t n_known, found, kept; } open_now;

bool checkpoint_is_open(void) { return open_now.folder; }
void checkpoint_figures(size_t *found, size_t *kept) { *found = open_now.found, *kept = open_now.kept; }

void checkpoint_close(void)
{
	free(open_now.known);
	memset(&open_now, 0, sizeof open_now);
}

/* ---- whose folder it is ---- */
static bool program_digest(char text[SHA256_TEXT], struct error *e)
{
	struct sha256 h;
	void *map;
	size_t n;

	if (!file_map("/proc/self/exe", &map, &n, e)) return false;
	sha256_start(&h);
	sha256_add(&h, map, n);
	sha256_text(&h, text);
	file_unmap(map, n);
	return true;
}

/* The line that begins with these n characters, to its end; NULL: none. */
static const char *line_of(const char *text, const char *line, size_t n)
{
	while (text && strncmp(text, line, n)) text = (text = strchr(text, '\n')) ? text + 1 : NULL;
	return text;
}

static bool is_same(const char *path, const char *mine, const char *there, struct error *e)
{
	for (const char *line = mine; *line; line = strchr(line, '\n') + 1) {
		size_t word = strcspn(line, " "), n = strcspn(line, "\n");
		const char *other = line_of(there, line, word + 1);
		char name[64];
		snprintf(name, sizeof name, "%.*s", (int)word, line);
		if (other && strcspn(other, "\n") == n && !strncmp(line, other, n)) continue;
		error_set(e, E_VALUE, name, NO_OFFSET, "this folder keeps another run: expected %.*s, got %.*s", (int)(n - word - 1 < 16 ? n - word - 1 : 16),
			line + word + 1, other ? (int)strcspn(other + word + 1, "\n") < 16 ? (int)strcspn(other + word + 1, "\n") : 16 : 7,
			other ? other + word + 1 : "nothing");
		return error_in_file(e, path);
	}
	return true;
}

static bool claim(const char *folder, const char *path, const char *mine, struct error *e)
{
	void *map;
	size_t n;

	if (mkdir(folder, 0777) < 0 && errno != EEXIST) {
		error_set(e, E_OPEN, NULL, NO_OFFSET, "%s", strerror(errno));
		return error_in_file(e, folder);
	}
	if (access(path, F_OK) < 0) return text_write(path, mine, strlen(mine), e);
	if (!file_map(path, &map, &n, e)) return false;
	char *there = strndup(map ? map : "", n);
	file_unmap(map, n);
	bool ok = there ? is_same(path, mine, there, e) : error_set(e, E_MEMORY, path, NO_OFFSET, "reading it");
	free(there);
	return ok;
}

bool checkpoint_open(const char *folder, const struct checkpoint_of *of, size_t n, struct error *e)
{
	char mine[4096], program[SHA256_TEXT], *path = folder_path(folder, "run.txt");
	int at;

	open_now.folder = folder;
	if (!path) return error_set(e, E_MEMORY, folder, NO_OFFSET, "its path");
	bool ok = ranks_me() > 0 || program_digest(program, e);
	if (ok && ranks_me() == 0) {
		at = snprintf(mine, sizeof mine, "program %s\n", program);
		for (size_t i = 0; i < n; i++) at += snprintf(mine + at, sizeof mine - (size_t)at, "%s %s\n", of[i].what, of[i].is);
		ok = claim(folder, path, mine, e);
	}
	free(path);
	return ok;
}

bool checkpoint_known(const void *data, size_t n, struct error *e)
{
	struct part *more = realloc(open_now.known, (open_now.n_known + 1) * sizeof *more);

	if (!more) return error_set(e, E_MEMORY, NULL, NO_OFFSET, "a checkpoint");
	open_now.known = more;
	more[open_now.n_known++] = (struct part){ data, n };
	return true;
}

/* ---- which run of which call ---- */
static void add_number(struct sha256 *h, uint64_t x) { sha256_add(h, &x, sizeof x); }
static void add_text(struct sha256 *h, const char *text) { sha256_add(h, text ? text : "", strlen(text ? text : "") + 1); }

static void add_tensor(struct sha256 *h, const struct tensor *t)
{
	add_number(h, (uint64_t)t->dtype);
	add_number(h, (uint64_t)t->rank);
	for (int i = 0; i < t->rank; i++) add_number(h, t->shape[i]);
	for (size_t i = 0; i < open_now.n_known; i++) {
		const struct part *p = &open_now.known[i];
		uintptr_t at = (uintptr_t)t->data - (uintptr_t)p->data;
		if (at >= p->n) continue;
		add_number(h, i);
		add_number(h, at);
		return;
	}
	sha256_add(h, t->data, t->bytes);
}

static void add_plan(struct sha256 *h, const struct plan *p)
{
	add_text(h, p->arith->name);
	add_number(h, (uint64_t)p->bits);
	add_number(h, (uint64_t)p->form);
	add_number(h, p->chunk);
	add_number(h, p->first_chunk);
	add_number(h, p->faults);
	sha256_add(h, p->value, sizeof p->value);
	for (int i = 0; i < MAX_SITE; i++)
		add_number(h, p->round[i].on ? 1 + (uint64_t)p->round[i].format * 16 + (uint64_t)p->round[i].rounding : 0);
	add_number(h, p->stride);
	add_number(h, p->random);
	add_text(h, p->region ? p->region->name : NULL);
	add_number(h, p->seed);
	add_number(h, p->ties);
}

static void key_of(const struct call *call, const struct plan *p, char key[SHA256_TEXT])
{
	struct sha256 h;

	sha256_start(&h);
	add_text(&h, call->op->name);
	sha256_add(&h, call->dim, sizeof call->dim);
	sha256_add(&h, call->param, sizeof call->param);
	sha256_add(&h, call->list, call->list_n * sizeof *call->list);
	sha256_add(&h, call->out_count, sizeof call->out_count);
	add_plan(&h, p);
	for (int i = 0; i < MAX_IN; i++) {
		add_number(&h, call->in[i] != NULL);
		if (call->in[i]) add_tensor(&h, call->in[i]);
	}
	sha256_text(&h, key);
}

/* ---- an answer as a file ---- */
static char *path_of(const char *key)
{
	char name[SHA256_TEXT + 16];

	snprintf(name, sizeof name, "%s.safetensors", key);
	return folder_path(open_now.folder, name);
}

static void digest_of(const struct answer *a, const size_t count[MAX_OUT], char text[SHA256_TEXT])
{
	struct sha256 h;

	sha256_start(&h);
	add_number(&h, a->work);
	for (int i = 0; i < MAX_OUT; i++) {
		if (a->hi[i]) sha256_add(&h, a->hi[i], count[i] * sizeof(double));
		if (a->lo[i]) sha256_add(&h, a->lo[i], count[i] * sizeof(double));
	}
	sha256_text(&h, text);
}

/* Into the answer's room, [count[i]] of output i; false where it is not there. */
static bool take(const struct tensors *t, const char *part, int i, size_t count, double *to)
{
	char name[16];

	snprintf(name, sizeof name, "%s.%d", part, i);
	const struct tensor *x = tensors_find(t, name);
	if (!x || x->dtype != DT_F64 || x->count != count) return false;
	memcpy(to, x->data, x->bytes);
	return true;
}

/* False where it is not there, or damaged, which is said. */
static bool read_answer(const char *path, const struct call *call, struct answer *a)
{
	struct tensors t;
	struct error e;
	char digest[SHA256_TEXT];

	if (access(path, F_OK) < 0) return false;
	bool ok = tensors_read(&t, path, &e);
	for (int i = 0; ok && i < MAX_OUT; i++) {
		if (a->hi[i]) ok = take(&t, "hi", i, call->out_count[i], a->hi[i]);
		if (ok && a->lo[i]) ok = take(&t, "lo", i, call->out_count[i], a->lo[i]);
	}
	const char *work = ok ? meta_get(&t, "work") : NULL, *sha = ok ? meta_get(&t, "sha256") : NULL;
	if (work) a->work = strtoull(work, NULL, 10);
	digest_of(a, call->out_count, digest);
	ok = ok && work && sha && !strcmp(sha, digest);
	tensors_free(&t);
	if (!ok) fprintf(stderr, "etalon: %s: damaged; what it kept is computed again\n", path);
	return ok;
}

static void to_all(struct answer *a, const struct call *call)
{
	ranks_send(0, &a->work, sizeof a->work);
	for (int i = 0; i < MAX_OUT; i++) {
		if (a->hi[i]) ranks_send(0, a->hi[i], call->out_count[i] * sizeof(double));
		if (a->lo[i]) ranks_send(0, a->lo[i], call->out_count[i] * sizeof(double));
	}
}

bool checkpoint_find(const struct call *call, const struct plan *p, struct answer *a, char key[SHA256_TEXT], bool *found, struct error *e)
{
	static uint64_t times;
	uint64_t mine[RANK_WORDS] = { 0 }, all[ranks_count()][RANK_WORDS];

	*found = false;
	if (ranks_me() == 0) {
		key_of(call, p, key);
		char *path = path_of(key);
		if (!path) return error_set(e, E_MEMORY, open_now.folder, NO_OFFSET, "a path");
		*found = read_answer(path, call, a);
		free(path);
		if (!*found) a->work = 0;
	}
	if (ranks_count() > 1) {
		mine[0] = *found;
		ranks_meet(random_mix(++times ^ (uint64_t)p->seed << 32), mine, all);
		if ((*found = all[0][0])) to_all(a, call);
	}
	if (*found) open_now.found++;
	for (int i = 0; !*found && i < MAX_OUT; i++) {
		if (a->hi[i]) memset(a->hi[i], 0, call->out_count[i] * sizeof(double));
		if (a->lo[i]) memset(a->lo[i], 0, call->out_count[i] * sizeof(double));
	}
	return true;
}

bool checkpoint_keep(const struct call *call, const struct answer *a, const char *key, struct error *e)
{
	struct tensors t = { 0 };
	struct tensor item[2 * MAX_OUT];
	char name[2 * MAX_OUT][16], work[24], digest[SHA256_TEXT];

	if (ranks_me() > 0) return true;
	t.item = item;
	for (int i = 0; i < 2 * MAX_OUT; i++) {
		double *data = i < MAX_OUT ? a->hi[i] : a->lo[i - MAX_OUT];
		if (!data) continue;
		snprintf(name[t.n], sizeof name[t.n], "%s.%d", i < MAX_OUT ? "hi" : "lo", i % MAX_OUT);
		item[t.n] = (struct tensor){ .name = name[t.n], .offset = NO_OFFSET, .data = data };
		shape_set(&item[t.n++], DT_F64, 1, &call->out_count[i % MAX_OUT]);
	}
	snprintf(work, sizeof work, "%llu", (unsigned long long)a->work);
	digest_of(a, call->out_count, digest);
	char *path = path_of(key);
	bool ok = path && meta_set(&t, "work", work) && meta_set(&t, "sha256", digest);
	if (!ok) error_set(e, E_MEMORY, open_now.folder, NO_OFFSET, "an answer for it");
	ok = ok && tensors_write(&t, path, e);
	open_now.kept += ok;
	for (size_t i = 0; i < t.n_meta; i++) free(t.meta[i].key), free(t.meta[i].value);
	free(t.meta);
	free(path);
	return ok;
}
