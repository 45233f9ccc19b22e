"""Layout of a program's state: constants, cached memory, and limits."""

from __future__ import annotations

# Offsets in 64-bit words.
CONSTANTS, FREE, LIMIT, KEPT, REQUESTS, MISSES, MUTEX, BLOCKS = 0, 1, 2, 3, 4, 5, 8, 24
MUTEX_WORDS = 8
# number of threads that a kernel may use
THREADS = 6
# address of the process's thread pool (``abi.threads``), or 0
HOME = 7
KEPT_BLOCKS = 16
# Cache of results: its limit and current size in bytes, and the next entry to evict.
RESULT_LIMIT, RESULTS, NEXT_RESULT = 21, 22, 23
RESULT_ENTRIES = BLOCKS + 2 * KEPT_BLOCKS
KEPT_RESULTS = 64  # entries of the cache of results; a decoder step has two results per layer
STATE_WORDS = RESULT_ENTRIES + 2 * KEPT_RESULTS
# For GPU programs: whether the device is open, its context, the module and its functions, the
# address of the constants, the deleter of results, the compute capability (90 for 9.0), and the
# addresses of the driver's functions.
DEVICE = STATE_WORDS
OPENED, CONTEXT, MODULE, FUNCTIONS, DEVICE_CONSTANTS, RELEASE, CAPABILITY, CALLS = (
    DEVICE + k for k in range(8)
)
DRIVER_CALLS = (
    "cuInit",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxRetain",
    "cuCtxSetCurrent",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuFuncSetAttribute",
    "cuLaunchKernel",
    "cuMemAlloc_v2",
    "cuMemAllocAsync",
    "cuMemFreeAsync",
    "cuMemcpyHtoD_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuStreamSynchronize",
    "cuDeviceGetDefaultMemPool",
    "cuMemPoolSetAttribute",
    "cuMemPoolTrimTo",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuEventElapsedTime",
    "cuEventDestroy_v2",
    "cuCtxSynchronize",
    "cuMemFree_v2",
)
# additional functions for programs with CUDA graphs
GRAPH_CALLS = (
    "cuGraphCreate",
    "cuGraphDestroy",
    "cuGraphAddKernelNode",
    "cuGraphAddEventRecordNode",
    "cuGraphInstantiateWithFlags",
    "cuGraphExecKernelNodeSetParams",
    "cuGraphExecDestroy",
    "cuGraphLaunch",
    "cuStreamWaitEvent",
)
# CUDA graphs: the address of their list, and the numbers of calls that used a graph, of graphs
# made, of graphs evicted, and of updates of node arguments.
GRAPHS = CALLS + len(DRIVER_CALLS) + len(GRAPH_CALLS)
GRAPH_USES, GRAPHS_MADE, GRAPHS_EVICTED, GRAPH_UPDATES = (GRAPHS + 1 + k for k in range(4))
GRAPH_MUTEX = GRAPHS + 5
# cuBLASLt: its functions, their addresses, and its handle or 0
LIBRARY_CALLS = (
    "cublasLtCreate",
    "cublasLtMatmulDescCreate",
    "cublasLtMatmulDescSetAttribute",
    "cublasLtMatmulDescDestroy",
    "cublasLtMatrixLayoutCreate",
    "cublasLtMatrixLayoutSetAttribute",
    "cublasLtMatrixLayoutDestroy",
    "cublasLtMatmul",
)
LIBRARY_HANDLE = GRAPH_MUTEX + MUTEX_WORDS
LIBRARY_CODES = LIBRARY_HANDLE + 1
DEVICE_STATE_WORDS = LIBRARY_CODES + len(LIBRARY_CALLS)
GRAPH_STATISTICS = {
    "graph_calls": GRAPH_USES,
    "graphs_made": GRAPHS_MADE,
    "graphs_evicted": GRAPHS_EVICTED,
    "graph_updates": GRAPH_UPDATES,
}
