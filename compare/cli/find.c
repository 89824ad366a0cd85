/* Reads a capture and judges it. */
#include "find.h"

#include "gpu/host/backend.h"
#include "compare/print/print.h"

static void judge_capture(const struct capture *c, const struct judging *how, struct finding *f)
{
	copy_clean(f->op, sizeof f->op, c->op);
	copy_clean(f->producer, sizeof f->producer, c->producer);
	copy_clean(f->device, sizeof f->device, c->device);
	f->judged = judge(c, how, &f->verdict, &f->error);
	if (!f->judged) return;
	if (!how->quick) judge_cause(c, how, &f->verdict);
	judge_stale(c, gpu_source_sha256(c->op), &f->verdict);
}

int find(const char *path, const struct judging *how, struct finding *f)
{
	struct capture c;

	*f = (struct finding){ 0 };
	copy_clean(f->path, sizeof f->path, path);
	if (capture_read(&c, path, &f->error)) {
		judge_capture(&c, how, f);
		capture_free(&c);
	}
	if (!f->judged) {
		copy_clean(f->error.file, sizeof f->error.file, path);
		make_clean(f->error.item);
		make_clean(f->error.detail);
	}
	for (int i = 0; i < f->verdict.n_reason; i++) make_clean(f->verdict.reason[i]);
	make_clean(f->verdict.cause.left_out);
	return finding_exit(f);
}
