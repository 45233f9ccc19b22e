"""The words of a program's state: its constants, memory that is kept, and its limits."""

from __future__ import annotations

# In 64-bit words.
CONSTANTS, FREE, LIMIT, KEPT, REQUESTS, MISSES, MUTEX, BLOCKS = 0, 1, 2, 3, 4, 5, 8, 24
MUTEX_WORDS = 8
# Threads that a kernel may use.
THREADS = 6
# Where the workers of the process have their state (``abi.threads``), or 0.
HOME = 7
KEPT_BLOCKS = 16
# Results: bytes of them that are kept at most and now, and the one that is to go next.
RESULT_LIMIT, RESULTS, NEXT_RESULT = 21, 22, 23
RESULT_ENTRIES = BLOCKS + 2 * KEPT_BLOCKS
KEPT_RESULTS = 64  # a step of a decoder has two for each layer
STATE_WORDS = RESULT_ENTRIES + 2 * KEPT_RESULTS
# Of programs for a device: whether it is open, its context, the program's module and functions
# there, where the constants are, what frees a result, and the driver's functions.
DEVICE = STATE_WORDS
OPENED, CONTEXT, MODULE, FUNCTIONS, DEVICE_CONSTANTS, RELEASE, CALLS = (
    DEVICE + k for k in range(7)
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
# More of them, of programs that keep CUDA graphs.
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
# The graphs of such a program: where they are, how many calls asked for one, how many had to be
# made, how many gave way to another, and nodes that got other arguments.
GRAPHS = CALLS + len(DRIVER_CALLS) + len(GRAPH_CALLS)
GRAPH_USES, GRAPHS_MADE, GRAPHS_EVICTED, GRAPH_UPDATES = (GRAPHS + 1 + k for k in range(4))
GRAPH_MUTEX = GRAPHS + 5
# A library of products: what is called of it, where that is, and its handle or 0.
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
