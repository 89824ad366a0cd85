/* The file of a baseline: read strictly, and written by one at a time. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "baseline.h"

#define ANEW "; to write it anew, delete it and run `etalon gate` with --update-baseline"

static bool are_all(const json_t *values, bool (*is)(const json_t *))
{
	const char *key;
	json_t *x;
	size_t i;
	bool all = true;

	json_object_foreach((json_t *)(uintptr_t)values, key, x) all = all && is(x);
	json_array_foreach(values, i, x) all = all && is(x);
	return all;
}

static bool is_text(const json_t *x) { return json_is_string(x); }
static bool is_figure(const json_t *x) { return json_is_number(x) && json_number_value(x) >= 0; }

/* Does an entry hold what baseline_entry writes? */
static bool is_entry(const json_t *x)
{
	const json_t *rms = json_object_get(x, "rms"), *rounds = json_object_get(x, "rounds");

	return json_is_string(json_object_get(x, "op"))
		&& json_is_string(json_object_get(x, "call"))
		&& json_is_string(json_object_get(x, "contract")) && json_is_object(rms)
		&& are_all(rms, is_figure) && (json_is_null(rounds) || json_is_array(rounds))
		&& are_all(rounds, is_text);
}

static bool is_sound(const json_t *j, struct error *e)
{
	const json_t *version = json_object_get(j, "version"),
		     *captures = json_object_get(j, "captures");
	const char *name;
	json_t *entry;

	if (!json_is_object(j))
		return error_set(e, E_FORMAT, "", NO_OFFSET,
			"expected a JSON object, as --update-baseline writes it");
	if (!version)
		return error_set(e, E_FORMAT, "", NO_OFFSET,
			"expected a baseline of version %d, got one of version 1" ANEW,
			BASELINE_VERSION);
	if (!json_is_integer(version) || json_integer_value(version) != BASELINE_VERSION) {
		char *text = json_dumps(version, JSON_ENCODE_ANY | JSON_COMPACT);
		error_set(e, E_FORMAT, "version", NO_OFFSET,
			"expected a baseline of version %d, got %.40s" ANEW, BASELINE_VERSION,
			text ? text : "");
		free(text);
		return false;
	}
	if (!json_is_object(captures))
		return error_set(e, E_FORMAT, "captures", NO_OFFSET, "expected an object" ANEW);
	json_object_foreach((json_t *)(uintptr_t)captures, name, entry) {
		if (is_entry(entry)) continue;
		return error_set(e, E_FORMAT, name, NO_OFFSET,
			"expected an entry with op, call, contract, rms and rounds, as "
			"--update-baseline writes it" ANEW);
	}
	return true;
}

/* The captures of what was parsed, which it releases; NULL: it was not, and why. */
static json_t *captures_of(json_t *j, const json_error_t *why, const char *path, struct error *e)
{
	json_t *captures = NULL;

	if (!j)
		error_set(e, E_HEADER_JSON, "",
			why->position < 0 ? NO_OFFSET : (uint64_t)why->position,
			"line %d, column %d: %s", why->line, why->column, why->text);
	else if (is_sound(j, e)) captures = json_incref(json_object_get(j, "captures"));
	json_decref(j);
	if (!captures) error_in_file(e, path);
	return captures;
}

json_t *baseline_parse(const char *text, size_t n, const char *path, struct error *e)
{
	json_error_t why;
	json_t *j = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);

	return captures_of(j, &why, path, e);
}

json_t *baseline_read(const char *path, struct error *e)
{
	json_error_t why;
	json_t *j = json_load_file(path, JSON_REJECT_DUPLICATES, &why);

	if (j || why.line >= 0) return captures_of(j, &why, path, e);
	error_set(e, E_OPEN, "", NO_OFFSET, "%s; --update-baseline makes one", strerror(errno));
	error_in_file(e, path);
	return NULL;
}

/* The file, which an update makes where there is none, held by this process alone. Who replaced it
 * meanwhile left another file in its place. */
static int locked(const char *path, struct error *e)
{
	struct stat held, now;

	for (;;) {
		int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
		if (file < 0 || flock(file, LOCK_EX)) {
			error_set(e, E_OPEN, "", NO_OFFSET,
				"expected a baseline that can be written: %s", strerror(errno));
			error_in_file(e, path);
			if (file >= 0) close(file);
			return -1;
		}
		if (!fstat(file, &held) && !stat(path, &now) && held.st_ino == now.st_ino
			&& held.st_dev == now.st_dev)
			return file;
		close(file);
	}
}

static void drop_all_but(json_t *captures, const json_t *only)
{
	const char *name;
	json_t *entry;
	void *next;

	json_object_foreach_safe(captures, next, name, entry)
		if (!json_object_get(only, name)) json_object_del(captures, name);
}

static bool written(const char *path, json_t *captures, struct error *e)
{
	json_t *whole = json_pack("{s:i, s:O}", "version", BASELINE_VERSION, "captures", captures);
	char *text = whole
		? json_dumps(whole, JSON_INDENT(1) | JSON_SORT_KEYS | JSON_REAL_PRECISION(6))
		: NULL;
	bool ok = text ? text_write(path, text, strlen(text), e)
		       : error_set(e, E_MEMORY, path, NO_OFFSET, "a baseline");

	free(text);
	json_decref(whole);
	return ok;
}

json_t *baseline_update(
	const char *path, const json_t *only, const struct finding *f, size_t n, struct error *e)
{
	int file = locked(path, e);
	struct stat s;

	if (file < 0) return NULL;
	const bool made = !fstat(file, &s) && !s.st_size;       /* by locked() */
	json_t *captures = made ? json_object() : baseline_read(path, e);
	for (size_t i = 0; captures && i < n; i++)
		if (f[i].judged && f[i].verdict.outcome == PASS)
			json_object_set_new(captures, f[i].name, baseline_entry(&f[i]));
	if (captures && only) drop_all_but(captures, only);
	bool ok = captures && written(path, captures, e);
	if (!ok && made) unlink(path);
	close(file);
	if (ok) return captures;
	json_decref(captures);
	return NULL;
}
