/* A folder of random weights. */
#include "invent.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixtures/io/random.h"

/* NORMAL: centre + deviation z. DECAY, log A: A from 1/2 to 16, as likely in each octave. STEP, the inverse softplus of dt: dt from
 * 0.001 to 0.1 likewise, as Mamba's initialisation has it. exp(g) = exp(-A dt) then forgets half in 0.4 to 1400 tokens. */
enum kind { NORMAL, DECAY, STEP };
/* The first whose name a weight's ends with. A deviation below 0 is -d / sqrt(inputs), the last axis being the inputs. */
static const struct law { const char *end; enum kind kind; double centre, deviation; } laws[] = {
	{ "linear_attn.A_log", DECAY, 0, 0 },
	{ "linear_attn.dt_bias", STEP, 0, 0 },
	{ "linear_attn.norm.weight", NORMAL, 1, 0.1 },
	{ "norm.weight", NORMAL, 0, 0.1 },              /* zero-centred: 1 + w */
	{ "embed_tokens.weight", NORMAL, 0, 0.5 },
	{ "lm_head.weight", NORMAL, 0, -3 },            /* logits that prefer some tokens */
	{ "", NORMAL, 0, -1 },
};
enum { BLOCK = 1 << 18, TENSORS = 1 << 16 };

struct plan_of_files { struct tensors all; size_t *shard_of, shards; uint64_t *stream; };

static const struct law *law_of(const char *name)
{
	const struct law *l = laws;
	size_t n = strlen(name);

	while (strlen(l->end) > n || strcmp(name + n - strlen(l->end), l->end)) l++;
	return l;
}

/* Nearly normal: the sum of four uniform numbers of 16 bits has deviation 37837.2. */
static double normal(uint64_t r)
{
	int64_t sum = (int64_t)((r & 0xffff) + (r >> 16 & 0xffff) + (r >> 32 & 0xffff) + (r >> 48)) - 131070;

	return (double)sum / 37837.2;
}

static double uniform(uint64_t r) { return (double)(r >> 11) * 0x1p-53; }

static void draw(const struct law *l, double deviation, uint64_t stream, size_t n, double *x)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t r = random_at(stream + i);
		if (l->kind == NORMAL) x[i] = l->centre + deviation * normal(r);
		else x[i] = l->kind == DECAY ? (5 * uniform(r) - 1) * log(2) : log(expm1(0.001 * pow(100, uniform(r))));
	}
}

/* ---- what there is to write ---- */
static bool add(struct plan_of_files *p, const char *prefix, const struct model_weight *w, const struct invention *v, struct error *e)
{
	struct tensor *t = &p->all.item[p->all.n];
	char name[192];

	snprintf(name, sizeof name, "%s%s", prefix, w->name);
	if (p->all.n == TENSORS) return error_set(e, E_PARAM, v->config, NO_OFFSET, "more than %d tensors", TENSORS);
	if (!shape_set(t, DT_BF16, w->rank, w->shape)) return error_set(e, E_SHAPE_OVERFLOW, name, NO_OFFSET, "too many weights");
	if (!(t->name = strdup(name))) return error_set(e, E_MEMORY, name, NO_OFFSET, "its name");
	p->stream[p->all.n] = v->seed;
	for (const char *c = name; *c; c++) p->stream[p->all.n] = random_mix(p->stream[p->all.n] ^ (unsigned char)*c);
	p->all.n++;
	return true;
}

static bool add_all(struct plan_of_files *p, const struct model_config *c, const struct invention *v, struct error *e)
{
	struct model_weight w, embedding = { "embed_tokens.weight", 2, { c->vocabulary, c->hidden } }, head = { "lm_head.weight", 2, {
		c->vocabulary, c->hidden } };

	if (!add(p, "model.", &embedding, v, e)) return false;
	for (size_t l = 0; l < c->layers; l++)
		for (int in = 0; model_op((int)c->kind[l])->in[in].name; in++)
			if (model_weight(c, l, in, &w) && !add(p, "model.", &w, v, e)) return false;
	return c->tied || add(p, "", &head, v, e);
}

static void share_out(struct plan_of_files *p, uint64_t most)
{
	uint64_t filled = 0;

	p->shards = 1;
	for (size_t i = 0; i < p->all.n; i++) {
		uint64_t bytes = p->all.item[i].bytes;
		if (filled && filled + bytes > most) p->shards++, filled = 0;
		p->shard_of[i] = p->shards - 1;
		filled += bytes;
	}
}

/* ---- writing ---- */
struct progress { const struct invention *v; uint64_t done, all; };

static bool put(int fd, const void *data, size_t n, uint64_t at)
{
	for (size_t done = 0; done < n;) {
		ssize_t k = pwrite(fd, (const char *)data + done, n - done, (off_t)(at + done));
		if (k < 0 && errno != EINTR) return false;
		if (k > 0) done += (size_t)k;
	}
	return true;
}

/* Block i of the tensor's weights. */
static bool write_block(const struct tensor *t, uint64_t stream, int fd, uint64_t at, size_t i)
{
	size_t first = i * BLOCK, n = t->count - first < BLOCK ? t->count - first : BLOCK;
	const struct law *l = law_of(t->name);
	double deviation = l->deviation < 0 ? -l->deviation / sqrt((double)t->shape[t->rank - 1]) : l->deviation;
	double *x = malloc(n * sizeof *x);
	uint16_t *out = malloc(n * sizeof *out);
	bool ok = x && out;

	if (ok) {
		draw(l, deviation, stream + first, n, x);
		dtype_store(DT_BF16, x, n, out);
		ok = put(fd, out, n * sizeof *out, at + first * sizeof *out);
	} else {
		errno = ENOMEM;
	}
	free(x);
	free(out);
	return ok;
}

static bool write_tensor(const struct tensor *t, uint64_t stream, int fd, uint64_t at, struct progress *p)
{
	size_t blocks = (t->count + BLOCK - 1) / BLOCK;
	int why = 0;

	#pragma omp parallel for schedule(dynamic)
	for (size_t i = 0; i < blocks; i++) {
		int now;
		#pragma omp atomic read
		now = why;
		if (now || write_block(t, stream, fd, at, i)) continue;
		now = errno;
		#pragma omp atomic write
		why = now;
	}
	p->done += t->count;
	if (p->v->tick) p->v->tick("Mi weights", p->done >> 20, p->all >> 20);
	errno = why;
	return !why;
}

static void shard_name(char *text, size_t size, size_t s, size_t shards)
{
	snprintf(text, size, "model-%05zu-of-%05zu.safetensors", s + 1, shards);
}

static bool write_shard(const struct plan_of_files *p, size_t first, size_t n, struct progress *progress, struct error *e)
{
	const struct tensors part = { .item = p->all.item + first, .n = n };
	char name[64];
	uint64_t at;
	int fd;

	shard_name(name, sizeof name, p->shard_of[first], p->shards);
	char *path = folder_path(progress->v->folder, name);
	if (!path) return error_set(e, E_MEMORY, name, NO_OFFSET, "its path");
	bool ok = tensors_reserve(&part, path, &fd, &at, e);
	if (ok) {
		for (size_t i = 0; i < n && ok; at += part.item[i++].bytes)
			ok = write_tensor(&part.item[i], p->stream[first + i], fd, at, progress);
		int why = errno;
		ok = close(fd) == 0 && ok;
		if (!ok) error_set(e, E_WRITE, NULL, NO_OFFSET, "%s", strerror(why ? why : errno)), error_in_file(e, path);
	}
	free(path);
	return ok;
}

static bool write_json(const json_t *j, const char *folder, const char *name, struct error *e)
{
	char *path = folder_path(folder, name), *text = json_dumps(j, JSON_INDENT(1));
	bool ok = path && text ? text_write(path, text, strlen(text), e) : error_set(e, E_MEMORY, name, NO_OFFSET, "its text");

	free(path);
	free(text);
	return ok;
}

static bool write_index(const struct plan_of_files *p, const char *folder, struct error *e)
{
	json_t *map = json_object();
	uint64_t bytes = 0;
	char name[64];

	for (size_t i = 0; i < p->all.n; i++) {
		shard_name(name, sizeof name, p->shard_of[i], p->shards);
		json_object_set_new(map, p->all.item[i].name, json_string(name));
		bytes += p->all.item[i].bytes;
	}
	json_t *index = json_pack("{s:{s:I},s:o}", "metadata", "total_size", (json_int_t)bytes, "weight_map", map);
	bool ok = write_json(index, folder, "model.safetensors.index.json", e);
	json_decref(index);
	return ok;
}

static bool write_ids(const struct model_config *c, const struct invention *v, struct error *e)
{
	struct tensors file = { 0 };
	struct tensor *t = tensors_add(&file, "input_ids", DT_I64, 1, &v->tokens);
	char *path = folder_path(v->folder, "input_ids.safetensors");

	for (size_t i = 0; t && i < v->tokens; i++)
		((int64_t *)t->data)[i] = (int64_t)(random_at(random_mix(v->seed) + i) % c->vocabulary);
	bool ok = t && path ? tensors_write(&file, path, e) : error_set(e, E_MEMORY, "input_ids", NO_OFFSET, "%zu ids", v->tokens);
	tensors_free(&file);
	free(path);
	return ok;
}

static bool write_all(struct plan_of_files *p, const struct model_config *c, const struct invention *v, struct invented *made,
	struct error *e)
{
	struct progress progress = { .v = v };

	if (!add_all(p, c, v, e)) return false;
	share_out(p, v->shard);
	for (size_t i = 0; i < p->all.n; i++) progress.all += p->all.item[i].count;
	for (size_t first = 0, n; first < p->all.n; first += n) {
		for (n = 1; first + n < p->all.n && p->shard_of[first + n] == p->shard_of[first];) n++;
		if (!write_shard(p, first, n, &progress, e)) return false;
	}
	*made = (struct invented){ p->all.n, p->shards, progress.all };
	return write_ids(c, v, e) && write_index(p, v->folder, e);
}

/* The config, with the first layers only, into the folder. */
static bool copy_config(const struct invention *v, struct model_config *c, struct error *e)
{
	json_error_t j;
	json_t *all = json_load_file(v->config, JSON_REJECT_DUPLICATES, &j), *text = json_object_get(all, "text_config");
	json_t *types = json_object_get(text ? text : all, "layer_types");

	if (!all) return error_set(e, E_FORMAT, v->config, j.position < 0 ? NO_OFFSET : (uint64_t)j.position, "line %d: %s", j.line, j.text);
	if (v->layers) json_object_set_new(text ? text : all, "num_hidden_layers", json_integer((json_int_t)v->layers));
	while (v->layers && json_array_size(types) > v->layers) json_array_remove(types, json_array_size(types) - 1);
	if (mkdir(v->folder, 0777) < 0 && errno != EEXIST) {
		json_decref(all);
		error_set(e, E_OPEN, NULL, NO_OFFSET, "%s", strerror(errno));
		return error_in_file(e, v->folder);
	}
	char *path = folder_path(v->folder, "config.json");
	bool ok = path ? write_json(all, v->folder, "config.json", e) && model_config_read(c, path, e)
		: error_set(e, E_MEMORY, v->folder, NO_OFFSET, "its path");
	free(path);
	json_decref(all);
	return ok;
}

bool invent_model(const struct invention *v, struct invented *made, struct error *e)
{
	struct model_config c;
	struct plan_of_files p = { .all.item = calloc(TENSORS, sizeof(struct tensor)), .shard_of = calloc(TENSORS, sizeof(size_t)),
		.stream = calloc(TENSORS, sizeof(uint64_t)) };

	*made = (struct invented){ 0 };
	bool ok = (p.all.item && p.shard_of && p.stream) || error_set(e, E_MEMORY, NULL, NO_OFFSET, "%d tensors", TENSORS);
	if (ok && (ok = copy_config(v, &c, e))) {
		ok = write_all(&p, &c, v, made, e);
		model_config_free(&c);
	}
	for (size_t i = 0; p.all.item && i < p.all.n; i++) free(p.all.item[i].name);
	free(p.all.item);
	free(p.shard_of);
	free(p.stream);
	return ok;
}
