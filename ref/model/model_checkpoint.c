#include "model_checkpoint.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "ref/call/checkpoint.h"
#include "ref/ranks/ranks.h"

enum { SAMPLES = 16, SAMPLE = 4096 };

static void add_samples(struct sha256 *h, const struct tensor *t)
{
	for (size_t i = 0; i < SAMPLES; i++) {
		size_t n = t->bytes < SAMPLE ? t->bytes : SAMPLE, at = (t->bytes - n) / (SAMPLES - 1) * i;
		sha256_add(h, (const char *)t->data + at, n);
		if (t->bytes <= SAMPLE) break;
	}
}

static bool weights(const struct model *m, char text[SHA256_TEXT], struct error *e)
{
	struct sha256 h;
	struct stat s;

	sha256_start(&h);
	for (size_t f = 0; f < m->folder.n; f++) {
		const struct tensors *file = &m->folder.file[f];
		if (stat(m->folder.path[f], &s) < 0) {
			error_set(e, E_READ, NULL, NO_OFFSET, "its size and time");
			return error_in_file(e, m->folder.path[f]);
		}
		uint64_t size = (uint64_t)s.st_size, times[2] = { (uint64_t)s.st_mtim.tv_sec, (uint64_t)s.st_mtim.tv_nsec };
		sha256_add(&h, &size, sizeof size);
		sha256_add(&h, times, sizeof times);
		for (size_t i = 0; i < file->n; i++) {
			sha256_add(&h, file->item[i].name, strlen(file->item[i].name) + 1);
			add_samples(&h, &file->item[i]);
		}
	}
	sha256_text(&h, text);
	return true;
}

static bool known(const struct model *m, struct error *e)
{
	for (size_t f = 0; f < m->folder.n; f++)
		if (!checkpoint_known(m->folder.file[f].map, m->folder.file[f].map_bytes, e)) return false;
	for (size_t l = 0; l < m->config.layers; l++)
		for (int i = 0; i < FUSED; i++)
			for (size_t k = 0; k < m->layer[l].fused[i].n; k++)
				if (!checkpoint_known(m->layer[l].fused[i].item[k].data, m->layer[l].fused[i].item[k].bytes, e)) return false;
	return true;
}

bool model_checkpoint(const struct model *m, const char *folder, const size_t *ids, size_t n, const char *arithmetic, const char *contract,
	struct error *e)
{
	struct checkpoint_of of[] = { { "model", "" }, { "tokens", "" }, { "arithmetic", "" }, { "contract", "" } };
	struct sha256 h;

	sha256_start(&h);
	sha256_add(&h, ids, n * sizeof *ids);
	sha256_text(&h, of[1].is);
	snprintf(of[2].is, sizeof of[2].is, "%s", arithmetic);
	snprintf(of[3].is, sizeof of[3].is, "%s", contract);
	return (ranks_me() > 0 || weights(m, of[0].is, e)) && checkpoint_open(folder, of, sizeof of / sizeof *of, e) && known(m, e);
}
