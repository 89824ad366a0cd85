/* The captures that a gate judges, each with its name: its path below the folder that was given.
 * Tables, records and baselines call a capture by its name. */
#ifndef ETALON_GATE_LIST_H
#define ETALON_GATE_LIST_H

#include <jansson.h>

#include "fixtures/io/error.h"

/* path: where to read it; root: what was given on the command line, and name, both without
 * characters that may not be shown; gone: a baseline has it, and no folder does. */
struct listed { char *path, *root, *name; bool gone; };
struct gate_list { struct listed *item; size_t n; };

/* Adds a capture, or all captures in a folder and, unless flat, in the folders below it: what ends
 * in .safetensors, in letters of any case, hidden or not, in the order of their names. A folder
 * without any is an error. */
bool list_add(struct gate_list *l, const char *root, bool flat, struct error *e);

/* Adds those of the baseline's captures that the list lacks, as gone. */
bool list_gone(struct gate_list *l, const json_t *captures, struct error *e);

/* An object with the names of those that are not gone as keys, a new reference. */
json_t *list_names(const struct gate_list *l);

/* Refuses two captures of one name. */
bool list_names_differ(const struct gate_list *l, struct error *e);

/* Keeps the captures of this name; an error where there is none. */
bool list_only(struct gate_list *l, const char *name, struct error *e);

/* Keeps every of-th, from the number-th on, which counts from 1. */
void list_part(struct gate_list *l, size_t number, size_t of);

void list_free(struct gate_list *l);

#endif
