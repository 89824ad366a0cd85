/* NCCL, loaded at run time: a program that needs one device runs where NCCL is absent. */
#include "gpu/nccl/ranks.cuh"

#include <cstdlib>
#include <cstring>
#include <unistd.h>

#if __has_include(<nccl.h>)
#include <dlfcn.h>
#include <nccl.h>

struct ranks::inside {
	void *library = nullptr;
	int mine = 0, size = 0, devices = 0;
	ncclComm_t comm = nullptr;
	cudaStream_t stream = nullptr;

	template <class Function> Function *function(const char *name) const
	{
		void *found = dlsym(library, name);

		if (!found)
			refuse(E_NO_BACKEND, name, "not in this NCCL");
		return reinterpret_cast<Function *>(found);
	}

	template <class Function, class... A> void call(const char *name, A... arguments) const
	{
		ncclResult_t status = function<Function>(name)(arguments...);

		if (status != ncclSuccess)
			refuse(E_DEVICE, name, "NCCL: %s",
			       function<decltype(ncclGetErrorString)>("ncclGetErrorString")(status));
	}
};

#define NCCL(name, ...) in_->call<decltype(name)>(#name, ##__VA_ARGS__)

static ncclDataType_t type_of(enum travels t)
{
	switch (t) {
	case TRAVELS_BF16: return ncclBfloat16;
	case TRAVELS_F16: return ncclFloat16;
	case TRAVELS_E4M3: return ncclFloat8e4m3;
	default: return ncclFloat32;
	}
}

/* Before NCCL reads its environment, which it does once. */
static void set_environment(int mine, bool shared_device)
{
	setenv("NCCL_NVLS_ENABLE", "0", 1);
	if (shared_device) {
		setenv("NCCL_HOSTID", ("rank" + std::to_string(mine)).c_str(), 1);
		setenv("NCCL_SOCKET_IFNAME", "lo", 1);
	}
}

ranks::ranks(int mine, int n, struct meeting *place) : in_(new inside)
{
	ncclUniqueId id;
	static_assert(sizeof id == sizeof place->id, "the meeting has room for NCCL's id");

	if (cudaGetDeviceCount(&in_->devices) != cudaSuccess || in_->devices < 1)
		refuse(E_NO_DEVICE, nullptr, "no CUDA device");
	check(cudaSetDevice(mine % in_->devices), "cudaSetDevice");
	set_environment(mine, in_->devices < n);
	if (!(in_->library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL)))
		refuse(E_NO_BACKEND, "libnccl.so.2",
		       "not found; install NCCL, or name its folder in LD_LIBRARY_PATH");
	if (mine == 0) {
		NCCL(ncclGetUniqueId, &id);
		memcpy(place->id, &id, sizeof id);
		__sync_synchronize();
		place->written = 1;
	}
	while (!place->written)
		usleep(1000);           /* whoever started the ranks ends this one if rank 0 fails */
	__sync_synchronize();
	memcpy(&id, place->id, sizeof id);
	NCCL(ncclCommInitRank, &in_->comm, n, id, mine);
	in_->mine = mine;
	in_->size = n;
	check(cudaStreamCreate(&in_->stream), "cudaStreamCreate");
}

ranks::~ranks()
{
	if (in_->stream)
		cudaStreamDestroy(in_->stream);
	if (in_->comm)
		in_->function<decltype(ncclCommDestroy)>("ncclCommDestroy")(in_->comm);
}

int ranks::mine() const { return in_->mine; }
int ranks::size() const { return in_->size; }
int ranks::devices() const { return in_->devices; }
cudaStream_t ranks::stream() const { return in_->stream; }

std::string ranks::library() const
{
	int v = 0;

	NCCL(ncclGetVersion, &v);
	return "NCCL " + std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "."
	       + std::to_string(v % 100);
}

void ranks::wait() const { check(cudaDeviceSynchronize(), "this rank's work"); }

void ranks::all_reduce(void *at, size_t count, enum travels type)
{
	const void *from = at;

	NCCL(ncclAllReduce, from, at, count, type_of(type), ncclSum, in_->comm, in_->stream);
}

void ranks::reduce_scatter(const void *from, void *to, size_t each, enum travels type)
{
	NCCL(ncclReduceScatter, from, to, each, type_of(type), ncclSum, in_->comm, in_->stream);
}

void ranks::all_gather(const void *from, void *to, size_t each, enum travels type)
{
	NCCL(ncclAllGather, from, to, each, type_of(type), in_->comm, in_->stream);
}

void ranks::send(const void *from, size_t bytes, int to)
{
	NCCL(ncclSend, from, bytes, ncclInt8, to, in_->comm, in_->stream);
}

void ranks::receive(void *to, size_t bytes, int from)
{
	NCCL(ncclRecv, to, bytes, ncclInt8, from, in_->comm, in_->stream);
}

void ranks::begin_together() { NCCL(ncclGroupStart); }
void ranks::end_together() { NCCL(ncclGroupEnd); }

#else

/* Built without NCCL's header: ranks are refused. */
struct ranks::inside {};
ranks::ranks(int, int, struct meeting *)
{
	refuse(E_NO_BACKEND, "NCCL", "this etalon was built without nccl.h; install NCCL and build again");
}
ranks::~ranks() {}
int ranks::mine() const { return 0; }
int ranks::size() const { return 1; }
int ranks::devices() const { return 0; }
cudaStream_t ranks::stream() const { return nullptr; }
std::string ranks::library() const { return "NCCL"; }
void ranks::wait() const {}
void ranks::all_reduce(void *, size_t, enum travels) {}
void ranks::reduce_scatter(const void *, void *, size_t, enum travels) {}
void ranks::all_gather(const void *, void *, size_t, enum travels) {}
void ranks::send(const void *, size_t, int) {}
void ranks::receive(void *, size_t, int) {}
void ranks::begin_together() {}
void ranks::end_together() {}

#endif
