"""Programs whose kernels run on an NVIDIA GPU.

========== =====================================================================================
target     what ``target="cuda"`` means
source     device functions as CUDA C
nvrtc      CUDA C as machine code, by NVIDIA's run-time compiler
image      machine code of several architectures as bytes behind the program's constants
calls      calls of the driver's functions by address, as imported LLVM code
driver     opening the device: the driver, the code, the constants
stream     the caller's stream, and what of it failed
graphs     CUDA graphs of a call's launches, one for each set of dims
library    products by cuBLASLt, where it is found
events     how long a kernel of a profiled call took, by events of the driver
card       the GPU of this machine, by which measured times are kept
launch     what a call does on the device: launches, memory, copies, new tensors
========== =====================================================================================

The library of a saved program contains all of it. It finds the driver when it is first called.
"""
