"""Programs whose kernels run on an NVIDIA GPU.

========== =====================================================================================
source     device functions as CUDA C
tensor     PTX instructions that device functions use for tensor cores
nvrtc      compilation of CUDA C by NVIDIA's run-time compiler
image      machine code of several architectures, appended to the program's constants
calls      calls of driver functions by address, as imported LLVM code
driver     opening the device: the driver, the code, the constants
stream     the caller's stream, and errors on it
graphs     CUDA graphs of a call's launches, one for each combination of dims
library    matrix products by cuBLASLt, if it is installed
events     timing of kernels by CUDA events
card       the GPU of this machine, which keys measured times
launch     operations of a call on the device: launches, memory, copies, new tensors
========== =====================================================================================

``source``, ``tensor`` and ``nvrtc`` are used only by builds, and ``card`` only in Python. A saved
program contains everything else as compiled code. It loads the driver in its first call.
"""
