"""Programs whose kernels run on an NVIDIA GPU.

========== =====================================================================================
target     what ``target="cuda"`` means
source     device functions as CUDA C
nvrtc      CUDA C as machine code, by NVIDIA's run-time compiler
image      machine code of several architectures as bytes behind the program's constants
calls      calls of the driver's functions by address, as imported LLVM code
driver     opening the device: the driver, the code, the constants
launch     what a call does on the device: launches, memory, copies, new tensors
========== =====================================================================================

The library of a saved program contains all of it. It finds the driver when it is first called.
"""
