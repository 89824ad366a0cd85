/* Reads a capture and judges it. */
#include "find.h"

#include "gpu/host/backend.h"

int find(const char *path, const struct judging *how, struct finding *f)
{
	struct capture c;
	struct error e;

	if (capture_read(&c, path, &e)) {
		finding_judge(f, path, &c, how);
		if (f->judged) judge_stale(&c, gpu_source_sha256(c.op), &f->verdict);
		capture_free(&c);
	} else finding_unread(f, path, &e);
	return finding_exit(f);
}
