/* The nccl backend: from a capture's op to what runs it, in a process for each rank.
 *
 * The processes share the memory of the outputs, of which each rank writes its own part. None may have used
 * CUDA before it is one of several, so this process does not. */
#include "gpu/host/backend.h"
#include "gpu/host/nccl.h"
#include "gpu/nccl/ranks.cuh"

#include <csignal>
#include <cstring>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Each runs its op as one of the ranks, writes its part of c's outputs and returns the name of what ran. */
const char *run_allreduce_norm(capture &c, ranks &all);
const char *run_allreduce_norm_fp8(capture &c, ranks &all);
const char *run_row_parallel(capture &c, ranks &all);
const char *run_sharded_delta(capture &c, ranks &all);
const char *run_state_transfer(capture &c, ranks &all);

static size_t ranks_of_x(const capture &c) { return capture_in(&c, "x")->shape[0]; }
static size_t ranks_of_y(const capture &c) { return capture_out(&c, "y") ? capture_out(&c, "y")->shape[0] : 1; }
/* Two at least: one that prefills, one that decodes. */
static size_t ranks_of_state(const capture &c)
{
	return std::max({ capture_in(&c, "state")->shape[0], capture_out(&c, "state")->shape[0], (size_t)2 });
}

static const struct op_of_ranks {
	const char *op;
	size_t (*count)(const capture &);
	const char *(*run)(capture &, ranks &);
} kernels[] = {
	{ "allreduce_norm", ranks_of_x, run_allreduce_norm },
	{ "allreduce_norm_fp8", ranks_of_x, run_allreduce_norm_fp8 },
	{ "row_parallel", ranks_of_y, run_row_parallel },
	{ "sharded_delta", ranks_of_y, run_sharded_delta },
	{ "state_transfer", ranks_of_state, run_state_transfer },
};

/* What the processes share, with the outputs behind it. */
struct shared {
	struct meeting meeting;
	struct error error;             /* of the first rank that failed */
	volatile int failed;
	char producer[128], device[320];
};

class shared_memory {
public:
	explicit shared_memory(size_t bytes) : bytes_(bytes)
	{
		at_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (at_ == MAP_FAILED)
			refuse(E_MEMORY, nullptr, "%zu bytes that ranks share", bytes);
	}
	~shared_memory() { munmap(at_, bytes_); }
	shared_memory(const shared_memory &) = delete;
	char *at() const { return static_cast<char *>(at_); }

private:
	void *at_;
	size_t bytes_;
};

static bool is_output(const tensor &t) { return !strncmp(t.name, "out.", 4); }

/* Where the next tensor begins: at a multiple of 256 bytes. */
static size_t padded(size_t bytes) { return (bytes + 255) / 256 * 256; }

static void say_what_ran(struct shared *s, const char *name, const ranks &all)
{
	cudaDeviceProp device;

	check(cudaGetDeviceProperties(&device, 0), "device 0");
	snprintf(s->producer, sizeof s->producer, "etalon %s, %s, CUDA %d.%d", name, all.library().c_str(),
	         CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
	if (all.devices() < all.size())
		snprintf(s->device, sizeof s->device, "%d ranks on %d %s", all.size(), all.devices(), device.name);
	else
		snprintf(s->device, sizeof s->device, "%d %s", all.size(), device.name);
}

/* One rank, in its process; its exit status. */
static int run_rank(const op_of_ranks &k, capture &c, struct shared *s, int mine, int n)
{
	struct error e = {};
	bool done = caught(c.op, &e, [&] {
		ranks all(mine, n, &s->meeting);
		const char *name = k.run(c, all);

		all.wait();
		if (mine == 0)
			say_what_ran(s, name, all);
	});

	if (!done && !__sync_lock_test_and_set(&s->failed, 1))
		s->error = e;
	return done ? 0 : 1;
}

/* Waits for all; ends the others when one has failed, as they would wait for it. */
static void wait_for(std::vector<pid_t> &children, struct shared *s)
{
	bool broken = false;

	for (size_t left = children.size(); left; left--) {
		int status = 0;
		pid_t ended = wait(&status);

		for (pid_t &child : children)
			if (child == ended)
				child = 0;
		if (ended < 0 || !WIFEXITED(status) || WEXITSTATUS(status)) {
			for (pid_t child : children)
				if (child)
					kill(child, SIGKILL);
			broken = true;
		}
	}
	if (s->failed)
		throw s->error;
	if (broken)
		refuse(E_DEVICE, nullptr, "a rank ended before it was done");
}

static void run_ranks(const op_of_ranks &k, capture &c)
{
	int n = small(k.count(c), "ranks", 64);
	size_t bytes = padded(sizeof(struct shared));
	std::vector<tensor *> outputs;
	std::vector<void *> own;
	std::vector<pid_t> children;
	struct error e = {};

	for (size_t i = 0; i < c.tensors.n; i++)
		if (is_output(c.tensors.item[i])) {
			outputs.push_back(&c.tensors.item[i]);
			bytes += padded(c.tensors.item[i].bytes);
		}
	shared_memory memory(bytes);
	auto *s = reinterpret_cast<struct shared *>(memory.at());
	char *at = memory.at() + padded(sizeof *s);
	for (tensor *t : outputs) {
		memcpy(at, t->data, t->bytes);
		own.push_back(t->data);
		t->data = at;
		at += padded(t->bytes);
	}
	fflush(nullptr);
	for (int r = 0; r < n; r++) {
		pid_t child = fork();
		if (child == 0)
			_exit(run_rank(k, c, s, r, n));
		if (child > 0)
			children.push_back(child);
		else
			s->failed = error_set(&s->error, E_MEMORY, nullptr, NO_OFFSET, "no process for rank %d", r) + 1;
	}
	bool done = caught(c.op, &e, [&] { wait_for(children, s); });
	for (size_t i = 0; i < outputs.size(); i++) {
		memcpy(own[i], outputs[i]->data, outputs[i]->bytes);
		outputs[i]->data = own[i];
	}
	if (!done || !backend_stamp(&c, s->producer, s->device, gpu_source_sha256(c.op), &e))
		throw e;
}

bool nccl_run(struct capture *c, struct error *e)
{
	return caught(c->op, e, [&] {
		for (const op_of_ranks &k : kernels)
			if (!strcmp(k.op, c->op))
				return run_ranks(k, *c);
		refuse(E_OP, c->op, "this op has no kernel over several ranks");
	});
}
