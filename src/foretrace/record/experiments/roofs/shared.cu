// Kernels that read, write, copy and chase in shared memory; see gpu_memory.py.
#define COUNT 2048
#define UNROLLED 8

__device__ void fill(int4* tile) {
    for (int i = threadIdx.x; i < COUNT; i += blockDim.x)
        tile[i] = make_int4(i * 40503, i ^ 77, i * 9, ~i);
    __syncthreads();
}

extern "C" __global__ void read_shared(int* out, int rounds) {
    __shared__ int4 tile[COUNT];
    fill(tile);
    int4 sum = make_int4(0, 0, 0, 0);
    int at = threadIdx.x;
    for (int round = 0; round < rounds; ++round) {
        const int4* from = tile + (at & (COUNT / 2 - 1));
        #pragma unroll
        for (int step = 0; step < UNROLLED; ++step) {
            int4 got = from[step * (COUNT / 2 / UNROLLED)];
            sum.x ^= got.x; sum.y ^= got.y; sum.z ^= got.z; sum.w ^= got.w;
        }
        at += 8;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum.x + sum.y + sum.z + sum.w;
}

extern "C" __global__ void write_shared(int* out, int rounds) {
    __shared__ int4 tile[COUNT];
    fill(tile);
    int at = threadIdx.x;
    for (int round = 0; round < rounds; ++round) {
        int4* to = tile + (at & (COUNT / 2 - 1));
        #pragma unroll
        for (int step = 0; step < UNROLLED; ++step)
            to[step * (COUNT / 2 / UNROLLED)] = make_int4(at, round, step, at);
        at += 8;
    }
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = tile[threadIdx.x].x + tile[threadIdx.x].y;
}

extern "C" __global__ void copy_shared(int* out, int rounds) {
    __shared__ int4 tile[COUNT];
    fill(tile);
    int at = threadIdx.x;
    for (int round = 0; round < rounds; ++round) {
        int4* from = tile + (at & (COUNT / 4 - 1));
        #pragma unroll
        for (int step = 0; step < UNROLLED; ++step)
            from[COUNT / 2 + step * (COUNT / 4 / UNROLLED)] = from[step * (COUNT / 4 / UNROLLED)];
        at += 8;
    }
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = tile[COUNT / 2 + (threadIdx.x & 511)].x;
}

extern "C" __global__ void chase_shared(int* out, int steps) {
    __shared__ int chain[4096];
    for (int i = threadIdx.x; i < 4096; i += blockDim.x) chain[i] = (i + 1057) & 4095;
    __syncthreads();
    int at = threadIdx.x;
    for (int step = 0; step < steps; ++step) at = chain[at];
    out[threadIdx.x] = at;
}
