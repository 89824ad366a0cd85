/* A part of a gate's captures: what tells it from parts of another list, and from an older one. */
#ifndef ETALON_SHARD_H
#define ETALON_SHARD_H

#include "fixtures/io/sha256.h"
#include "gate_list.h"

/* roots, flat: what the captures were found by; options: what else decides a verdict; file: what was
 * read besides captures (formulas, the baseline). */
struct shard_how {
	size_t number, of;
	char *const *root;
	size_t roots;
	bool flat;
	const char *options;
	const char *const *file;
	size_t files;
};

/* The shard's description, a new reference, for the list of all captures. */
json_t *shard_json(const struct shard_how *how, const struct gate_list *all, struct error *e);

/* false where the file cannot be read. */
bool file_sha256(const char *path, char text[SHA256_TEXT]);

/* Are the captures in the folders, their bytes and the files those that the shard was made from?
 * path: the shard's own file, which the error names. */
bool shard_is_fresh(const json_t *shard, const json_t *captures, const char *path, struct error *e);

/* The whole that a shard's gate wrote, a new reference; NULL with *e filled where something is
 * missing, or where a record's exit code contradicts its verdict or the file's its records. */
json_t *shard_read(const char *path, struct error *e);

#endif
