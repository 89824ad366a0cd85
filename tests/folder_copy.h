/* Copies of a model's folder, changed where a test wants it. */
#ifndef ETALON_MODEL_FOLDER_H
#define ETALON_MODEL_FOLDER_H

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixtures/io/tensor.h"
#include "tests/helpers.h"

/* A folder of the test's own: config.json changed by `edit`, tensors copied where `rename` gives a name. */
struct copy {
	void (*edit)(json_t *config);
	const char *(*rename)(const char *name, char *text, size_t size);       /* NULL: leave out */
	int shards;                     /* 0: one file */
	const char *extra;              /* a tensor more, [2] */
	bool reshape_head;              /* the head loses a row */
	bool one_by_one;                /* experts are; and the last one's down_proj of layer 1: */
	enum { WHOLE, LEFT_OUT, OF_F32 } last;
};
static int folders;

static void write_index(const char *folder, json_t *map)
{
	json_t *index = json_pack("{s:{}, s:o}", "metadata", "weight_map", map);
	char path[256];

	snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder);
	assert_int_equal(json_dump_file(index, path, 0), 0);
	json_decref(index);
}

static void copy_tensor(struct tensors *to, const struct tensor *t, const char *name, bool shorter)
{
	size_t shape[MAX_RANK];

	memcpy(shape, t->shape, sizeof shape);
	if (shorter) shape[0]--;
	struct tensor *x = tensors_add(to, name, t->dtype, t->rank, shape);
	assert_non_null(x);
	memcpy(x->data, t->data, x->bytes);
}

/* Of t [X,parts rows,cols], parts that are 1 or 2 an expert. */
static void copy_experts(struct tensors *to, const struct tensor *t, const struct copy *k)
{
	static const char *const names[] = { "gate_proj", "up_proj", "down_proj" };
	size_t parts = strstr(t->name, "gate_up_proj") ? 2 : 1, shape[2] = { t->shape[1] / parts, t->shape[2] };
	size_t bytes = t->bytes / t->shape[0] / parts;
	char name[160];

	for (size_t x = 0; x < t->shape[0]; x++)
		for (size_t i = 0; i < parts; i++) {
			bool last = parts == 1 && x + 1 == t->shape[0] && strstr(t->name, "layers.1.");
			snprintf(name, sizeof name, "%.*s.%zu.%s.weight", (int)(strstr(t->name, "experts") - t->name + 7), t->name, x,
				names[parts == 1 ? 2 : i]);
			if (last && k->last == LEFT_OUT) continue;
			struct tensor *y = tensors_add(to, name, last && k->last == OF_F32 ? DT_F32 : t->dtype, 2, shape);
			assert_non_null(y);
			if (y->bytes == bytes) memcpy(y->data, (const char *)t->data + (x * parts + i) * bytes, bytes);
		}
}

static void write_weights(const char *from, const char *folder, const struct copy *k)
{
	struct tensors all, part[4] = { { 0 } };
	char path[256], text[256];
	json_t *map = json_object();
	int parts = k->shards ? k->shards : 1;

	snprintf(path, sizeof path, "%s/model.safetensors", from);
	assert_true(tensors_read(&all, path, NULL));
	for (size_t i = 0; i < all.n; i++) {
		const char *name = k->rename ? k->rename(all.item[i].name, text, sizeof text) : all.item[i].name;
		if (!name) continue;
		int at = (int)i % parts;
		if (k->one_by_one && strstr(name, "mlp.experts.")) {
			copy_experts(&part[at], &all.item[i], k);
			continue;
		}
		char file[64];
		snprintf(file, sizeof file, "model-%05d-of-%05d.safetensors", at + 1, parts);
		copy_tensor(&part[at], &all.item[i], name, k->reshape_head && !strcmp(name, "lm_head.weight"));
		json_object_set_new(map, name, json_string(file));
	}
	if (k->extra) assert_non_null(tensors_add(&part[0], k->extra, DT_F32, 1, (size_t[]){ 2 }));
	for (int p = 0; p < parts; p++) {
		if (k->shards) snprintf(path, sizeof path, "%s/model-%05d-of-%05d.safetensors", folder, p + 1, parts);
		else snprintf(path, sizeof path, "%s/model.safetensors", folder);
		assert_true(tensors_write(&part[p], path, NULL));
		tensors_free(&part[p]);
	}
	if (k->shards) write_index(folder, map);
	else json_decref(map);
	tensors_free(&all);
}

static const char *folder_of(const char *from, const struct copy *k)
{
	static char folder[200];
	char name[32], path[256];

	snprintf(name, sizeof name, "model%d", folders++);
	snprintf(folder, sizeof folder, "%s", scratch(name));
	assert_int_equal(mkdir(folder, 0700), 0);
	snprintf(path, sizeof path, "%s/config.json", from);
	json_t *config = json_load_file(path, 0, NULL);
	assert_non_null(config);
	if (k->edit) k->edit(config);
	snprintf(path, sizeof path, "%s/config.json", folder);
	assert_int_equal(json_dump_file(config, path, 0), 0);
	json_decref(config);
	write_weights(from, folder, k);
	return folder;
}

/* The folder and all in it. */
static void drop(const char *folder)
{
	static const char *const names[] = { "config.json", "input_ids.safetensors", "model.safetensors", "model.safetensors.index.json",
		"model-00001-of-00001.safetensors", "model-00001-of-00003.safetensors",
		"model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors" };
	char path[256];

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		snprintf(path, sizeof path, "%s/%s", folder, names[i]);
		unlink(path);
	}
	assert_int_equal(rmdir(folder), 0);
}

#endif
