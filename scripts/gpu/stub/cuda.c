// A CUDA driver without a GPU, of as much of the interface as CubeCL calls: memory is the host's,
// and kernels are loaded and not run. With it the whole way of a launch runs on the host up to the
// GPU: what goes wrong there is seen, its time can be taken (`polyglow-bench launches --device
// cuda`), and with `CUBECL_CUDA_DUMP_PTX=DIR` kernels can be read and given to `ptxas -v`, which
// says how many registers they need. Its attributes are those of an H100.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#define OK 0
typedef int Status;
typedef void *Handle;
typedef unsigned long long Address;
static long modules;
Status cuInit(unsigned f) { return OK; }
Status cuDriverGetVersion(int *v) {
    *v = 13000;
    return OK;
}
Status cuDeviceGet(int *d, int i) {
    *d = i;
    return OK;
}
Status cuDeviceGetCount(int *n) {
    *n = 1;
    return OK;
}
Status cuDeviceGetName(char *b, int n, int d) {
    snprintf(b, n, "NVIDIA H100 80GB HBM3");
    return OK;
}
Status cuDeviceGetPCIBusId(char *b, int n, int d) {
    snprintf(b, n, "0000:01:00.0");
    return OK;
}
Status cuDeviceTotalMem_v2(size_t *b, int d) {
    *b = 85000000000ull;
    return OK;
}
Status cuDeviceGetUuid_v2(char *u, int d) {
    memset(u, 7, 16);
    return OK;
}
// By CUdevice_attribute; those that are not named here are 1.
static const int attributes[] = {
    [1] = 1024,
    [2] = 1024,
    [3] = 1024,
    [4] = 64, // threads of a block, and along each axis
    [5] = 2147483647,
    [6] = 65535,
    [7] = 65535, // blocks along each axis
    [8] = 49152,
    [81] = 233472,
    [97] = 232448, // shared memory of a block, of a multiprocessor, on
                   // request
    [10] = 32,
    [12] = 65536,
    [82] = 65536, // threads of a warp, registers
    [13] = 1755000,
    [16] = 132,
    [39] = 2048,     // clock, multiprocessors and their threads
    [38] = 52428800, // second cache
    [75] = 9,
    [76] = -1, // compute capability; -1 stands for 0
    [115] = 1,
};
Status cuDeviceGetAttribute(int *v, int a, int d) {
    int known = a < (int)(sizeof attributes / sizeof *attributes) ? attributes[a] : 0;
    *v = known ? (known < 0 ? 0 : known) : 1;
    return OK;
}
Status cuDevicePrimaryCtxRetain(Handle *c, int d) {
    *c = (Handle)0x1000;
    return OK;
}
Status cuDevicePrimaryCtxRelease_v2(int d) { return OK; }
Status cuCtxSetCurrent(Handle c) { return OK; }
Status cuCtxGetCurrent(Handle *c) {
    *c = (Handle)0x1000;
    return OK;
}
Status cuCtxGetDevice(int *d) {
    *d = 0;
    return OK;
}
Status cuCtxSynchronize(void) { return OK; }
Status cuCtxGetStreamPriorityRange(int *a, int *b) {
    *a = 0;
    *b = -5;
    return OK;
}
Status cuStreamCreate(Handle *s, unsigned f) {
    static long n = 0x2000;
    *s = (Handle)(n++);
    return OK;
}
Status cuStreamCreateWithPriority(Handle *s, unsigned f, int p) { return cuStreamCreate(s, f); }
Status cuStreamDestroy_v2(Handle s) { return OK; }
Status cuStreamSynchronize(Handle s) { return OK; }
Status cuStreamQuery(Handle s) { return OK; }
Status cuStreamWaitEvent(Handle s, Handle e, unsigned f) { return OK; }
static Status get(Address *p, size_t n) {
    void *m = mmap(0, n + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (m == MAP_FAILED)
        return 2;
    *p = (Address)m;
    return OK;
}
Status cuMemAlloc_v2(Address *p, size_t n) { return get(p, n); }
Status cuMemAllocAsync(Address *p, size_t n, Handle s) { return get(p, n); }
Status cuMemAllocFromPoolAsync(Address *p, size_t n, Handle q, Handle s) { return get(p, n); }
Status cuMemFree_v2(Address p) { return OK; }
Status cuMemFreeAsync(Address p, Handle s) { return OK; }
Status cuMemAllocHost_v2(Handle *p, size_t n) {
    *p = malloc(n);
    return OK;
}
Status cuMemHostAlloc(Handle *p, size_t n, unsigned f) {
    *p = malloc(n);
    return OK;
}
Status cuMemFreeHost(Handle p) {
    free(p);
    return OK;
}
Status cuMemGetInfo_v2(size_t *f, size_t *t) {
    *f = 80000000000ull;
    *t = 85000000000ull;
    return OK;
}
Status cuMemcpyHtoDAsync_v2(Address d, const void *s, size_t n, Handle st) {
    memcpy((Handle)d, s, n);
    return OK;
}
Status cuMemcpyHtoD_v2(Address d, const void *s, size_t n) {
    memcpy((Handle)d, s, n);
    return OK;
}
Status cuMemcpyDtoHAsync_v2(Handle d, Address s, size_t n, Handle st) {
    memcpy(d, (Handle)s, n);
    return OK;
}
Status cuMemcpyDtoH_v2(Handle d, Address s, size_t n) {
    memcpy(d, (Handle)s, n);
    return OK;
}
Status cuMemcpyDtoDAsync_v2(Address d, Address s, size_t n, Handle st) {
    memcpy((Handle)d, (Handle)s, n);
    return OK;
}
typedef struct {
    size_t sx, sy;
    int st;
    int _;
    const char *sh;
    Address sd;
    Handle sa;
    size_t sp;
    size_t dx, dy;
    int dt;
    int _2;
    char *dh;
    Address dd;
    Handle da;
    size_t dp;
    size_t w, h;
} Copy2D;
Status cuMemcpy2DAsync_v2(const Copy2D *c, Handle s) {
    const char *a = c->st == 1 ? c->sh : (char *)c->sd;
    char *b = c->dt == 1 ? c->dh : (char *)c->dd;
    for (size_t i = 0; i < c->h; i++)
        memcpy(b + (c->dy + i) * c->dp + c->dx, a + (c->sy + i) * c->sp + c->sx, c->w);
    return OK;
}
Status cuMemsetD8Async(Address d, unsigned char v, size_t n, Handle s) {
    memset((Handle)d, v, n);
    return OK;
}
Status cuEventCreate(Handle *e, unsigned f) {
    static long n = 0x9000;
    *e = (Handle)(n++);
    return OK;
}
Status cuEventDestroy_v2(Handle e) { return OK; }
Status cuEventRecord(Handle e, Handle s) { return OK; }
Status cuEventSynchronize(Handle e) { return OK; }
Status cuEventQuery(Handle e) { return OK; }
Status cuEventElapsedTime(float *m, Handle a, Handle b) {
    *m = 0.01f;
    return OK;
}
Status cuEventElapsedTime_v2(float *m, Handle a, Handle b) {
    *m = 0.01f;
    return OK;
}
static Status load(Handle *m, const void *t) {
    *m = (Handle)(0x100000L + __sync_add_and_fetch(&modules, 1));
    return OK;
}
Status cuModuleLoadData(Handle *m, const void *t) { return load(m, t); }
Status cuModuleLoadDataEx(Handle *m, const void *t, unsigned n, Handle o, Handle v) {
    return load(m, t);
}
Status cuModuleUnload(Handle m) { return OK; }
Status cuModuleGetFunction(Handle *f, Handle m, const char *n) {
    *f = m;
    return OK;
}
Status cuFuncSetAttribute(Handle f, int a, int v) { return OK; }
Status cuFuncGetAttribute(int *v, int a, Handle f) {
    *v = 1024;
    return OK;
}
Status cuLaunchKernel(Handle f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e,
                      unsigned g, unsigned s, Handle st, Handle *k, Handle *x) {
    return OK;
}
Status cuLaunchKernelEx(const void *c, Handle f, Handle *k, Handle *x) { return OK; }
Status cuGetErrorName(Status e, const char **s) {
    *s = "E";
    return OK;
}
Status cuGetErrorString(Status e, const char **s) {
    *s = "error";
    return OK;
}
Status cuTensorMapEncodeTiled() { return OK; }
Status cuTensorMapEncodeIm2col() { return OK; }
Status cuDeviceCanAccessPeer(int *a, int b, int c) {
    *a = 0;
    return OK;
}
Status cuDeviceGetDefaultMemPool(Handle *p, int d) {
    *p = (Handle)0x77;
    return OK;
}
Status cuMemPoolSetAttribute(Handle p, int a, Handle v) { return OK; }
Status cuMemPoolTrimTo(Handle p, size_t n) { return OK; }
Status cuMemPoolGetAttribute(Handle p, int a, Address *v) {
    *v = 0;
    return OK;
}
