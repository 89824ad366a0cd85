/* A model of random weights: any config that the reference computes, at any size, the same on every machine. */
#ifndef ETALON_INVENT_H
#define ETALON_INVENT_H

#include "ref/model/model.h"

struct invention {
	const char *config;             /* a config.json */
	const char *folder;             /* made where it is absent */
	uint64_t seed;
	size_t layers;                  /* its first layers only; 0: all */
	size_t tokens;                  /* ids to draw */
	uint64_t shard;                 /* bytes of a shard; a larger tensor has one of its own */
	void (*tick)(const char *stage, size_t done, size_t total);     /* may be NULL; Mi of weights */
};
struct invented { size_t tensors, shards; uint64_t weights; };

/* Writes config.json, the weights in bf16 (shards and their index), and input_ids.safetensors (input_ids [tokens], I64), in
 * parallel. Hidden states stay near 1: projections are normal with deviation 1/sqrt(inputs), norms near their neutral
 * value, memories of the delta rule last from a few tokens to thousands (ref/model/invent.c has the table). The index is
 * written last: a folder whose making failed is not one. */
bool invent_model(const struct invention *v, struct invented *made, struct error *e);

#endif
