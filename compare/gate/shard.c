#include "shard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compare/print/print.h"
#include "compare/report/finding.h"

bool file_sha256(const char *path, char text[SHA256_TEXT])
{
	enum { AT_A_TIME = 1 << 16 };
	FILE *from = fopen(path, "rb");
	char *block = malloc(AT_A_TIME);
	struct sha256 h;
	size_t n;

	sha256_start(&h);
	while (from && block && (n = fread(block, 1, AT_A_TIME, from)) > 0)
		sha256_add(&h, block, n);
	bool ok = from && block && !ferror(from);
	sha256_text(&h, text);
	if (from) fclose(from);
	free(block);
	return ok;
}

static void names_digest(const struct gate_list *all, char text[SHA256_TEXT])
{
	struct sha256 h;

	sha256_start(&h);
	for (size_t i = 0; i < all->n; i++)
		if (!all->item[i].gone)
			sha256_add(&h, all->item[i].name, strlen(all->item[i].name) + 1);
	sha256_text(&h, text);
}

static json_t *files_json(const struct shard_how *how, struct error *e)
{
	json_t *files = json_array();
	char digest[SHA256_TEXT];
	bool ok = files != NULL;

	for (size_t i = 0; ok && i < how->files; i++) {
		if (!file_sha256(how->file[i], digest))
			ok = error_set(e, E_READ, how->file[i], NO_OFFSET, "%s", strerror(errno));
		else
			json_array_append_new(files,
				json_pack("{s:s, s:s}", "path", how->file[i], "sha256", digest));
	}
	if (ok) return files;
	json_decref(files);
	return NULL;
}

json_t *shard_json(const struct shard_how *how, const struct gate_list *all, struct error *e)
{
	json_t *roots = json_array(), *files = files_json(how, e);
	char digest[SHA256_TEXT];

	names_digest(all, digest);
	for (size_t i = 0; i < how->roots; i++)
		json_array_append_new(roots, json_string(how->root[i]));
	if (!files) {
		json_decref(roots);
		return NULL;
	}
	json_t *j = json_pack("{s:I, s:I, s:I, s:s, s:s, s:o, s:b, s:o}", "number",
		(json_int_t)how->number, "of", (json_int_t)how->of, "captures", (json_int_t)all->n,
		"list", digest, "options", how->options, "folders", roots, "flat", how->flat,
		"files", files);
	if (!j) error_set(e, E_MEMORY, NULL, NO_OFFSET, "a shard");
	return j;
}

/* ---- old ---- */

static bool stale(
	const json_t *shard, const char *path, const char *name, const char *what, struct error *e)
{
	long long number = json_integer_value(json_object_get(shard, "number")),
		  of = json_integer_value(json_object_get(shard, "of"));

	error_set(e, E_VALUE, NULL, NO_OFFSET,
		"stale: %.100s %s; run it again: etalon gate --shard %lld/%lld", name, what, number,
		of);
	return error_in_file(e, path);
}

static bool same_list(const json_t *shard, const char *path, struct error *e)
{
	struct gate_list all = { 0 };
	struct error why;
	char digest[SHA256_TEXT];
	const json_t *folders = json_object_get(shard, "folders");
	bool flat = json_is_true(json_object_get(shard, "flat")), ok = true;

	for (size_t i = 0; ok && i < json_array_size(folders); i++) {
		const char *folder = json_string_value(json_array_get(folders, i));
		if (!list_add(&all, folder ? folder : "", flat, &why))
			ok = stale(shard, path, why.item, "cannot be read", e);
	}
	names_digest(&all, digest);
	if (ok && strcmp(digest, json_text(shard, "list")))
		ok = stale(shard, path, "captures", "came or went since", e);
	list_free(&all);
	return ok;
}

static bool same_bytes(
	const json_t *shard, const json_t *j, const char *name, const char *path, struct error *e)
{
	const char *was = json_text(j, "sha256");
	char now[SHA256_TEXT];

	if (!file_sha256(name, now)) return stale(shard, path, name, "cannot be read", e);
	return !strcmp(now, was) || stale(shard, path, name, "has changed since", e);
}

/* Where a record could be a pass. Without a digest, what could not be read is an error, and what a
 * baseline alone has fails. */
static bool has_bytes(const json_t *record)
{
	long long exit = json_integer_value(json_object_get(record, "exit"));

	return exit == EXIT_PASS || exit == EXIT_UNDECIDED || json_object_get(record, "sha256");
}

bool shard_is_fresh(const json_t *shard, const json_t *captures, const char *path, struct error *e)
{
	const json_t *files = json_object_get(shard, "files");
	bool ok = same_list(shard, path, e);

	for (size_t i = 0; ok && i < json_array_size(files); i++) {
		const json_t *file = json_array_get(files, i);
		ok = same_bytes(shard, file, json_text(file, "path"), path, e);
	}
	for (size_t i = 0; ok && i < json_array_size(captures); i++) {
		const json_t *record = json_array_get(captures, i);
		if (has_bytes(record))
			ok = same_bytes(shard, record, json_text(record, "capture"), path, e);
	}
	return ok;
}

/* ---- whole ---- */

#define WRITTEN_BY "expected what `etalon gate --shard I/N --output FILE` writes"

static long long number_of(const json_t *j, const char *key)
{
	const json_t *x = json_object_get(j, key);

	return json_is_integer(x) ? json_integer_value(x) : -1;
}

/* The exit code of a record whose verdict says the same; else -1. */
static int exit_of(const json_t *record)
{
	static const struct { const char *verdict; int exit;
	} is[] = {
		{ "pass", EXIT_PASS },
		{ "fail", EXIT_FAIL },
		{ "undecided", EXIT_UNDECIDED },
		{ "error", EXIT_INPUT },
		{ "error", EXIT_MACHINE },
	};
	long long exit = number_of(record, "exit");
	int found = -1;

	for (size_t i = 0; i < sizeof is / sizeof *is; i++)
		if (is[i].exit == exit && !strcmp(is[i].verdict, json_text(record, "verdict")))
			found = is[i].exit;
	return found;
}

/* The part that has this number has every of-th capture. */
static size_t share(const json_t *shard)
{
	long long all = number_of(shard, "captures"), number = number_of(shard, "number"),
		  of = number_of(shard, "of");

	return all < number ? 0 : (size_t)((all - number) / of + 1);
}

static bool records_agree(const json_t *j, struct error *e)
{
	const json_t *captures = json_object_get(j, "captures");
	int worst = EXIT_PASS;
	bool unsure = true;

	for (size_t i = 0; i < json_array_size(captures); i++) {
		const json_t *record = json_array_get(captures, i);
		int exit = exit_of(record);
		const char *name = json_text(record, "capture");
		if (!*name)
			return error_set(e, E_FORMAT, NULL, NO_OFFSET,
				"record %zu has no capture; " WRITTEN_BY, i + 1);
		if (exit < 0)
			return error_set(e, E_VALUE, name, NO_OFFSET,
				"verdict '%.20s' contradicts exit code %lld; " WRITTEN_BY,
				json_text(record, "verdict"), number_of(record, "exit"));
		if (exit == EXIT_UNDECIDED)
			unsure = unsure && json_is_true(json_object_get(record, "warning"));
		worst = worse_exit(worst, exit);
	}
	if (worst == EXIT_UNDECIDED && unsure) worst = EXIT_PASS;
	return number_of(j, "exit") == worst
		|| error_set(e, E_VALUE, NULL, NO_OFFSET,
			"exit code %lld contradicts the records, whose worst is %d; " WRITTEN_BY,
			number_of(j, "exit"), worst);
}

static bool is_whole(const json_t *j, struct error *e)
{
	const json_t *shard = json_object_get(j, "shard"),
		     *captures = json_object_get(j, "captures");
	long long number = number_of(shard, "number"), of = number_of(shard, "of");

	if (!json_is_array(captures) || number < 1 || number > of || of > 100000
		|| number_of(shard, "captures") < 1)
		return error_set(e, E_FORMAT, NULL, NO_OFFSET, WRITTEN_BY);
	if (number_of(j, "version") != JSON_VERSION)
		return error_set(e, E_FORMAT, NULL, NO_OFFSET,
			"written by another version of etalon; run it again: etalon gate --shard "
			"%lld/%lld",
			number, of);
	if (json_array_size(captures) != share(shard))
		return error_set(e, E_VALUE, NULL, NO_OFFSET,
			"%zu captures, expected %zu; run it again: etalon gate --shard %lld/%lld",
			json_array_size(captures), share(shard), number, of);
	return records_agree(j, e);
}

json_t *shard_read(const char *path, struct error *e)
{
	json_error_t why;
	json_t *j = json_load_file(path, JSON_REJECT_DUPLICATES, &why);

	if (!j && why.line < 0)
		return error_set(e, E_OPEN, path, NO_OFFSET, "%s", strerror(errno)), NULL;
	if (!j)
		return error_set(e, E_FORMAT, path, NO_OFFSET, WRITTEN_BY ": line %d: %s", why.line,
			       why.text),
		       NULL;
	if (is_whole(j, e)) return j;
	error_in_file(e, path);
	json_decref(j);
	return NULL;
}
