"""Threads of compiled programs: one pool of workers for all programs of a process.

========== =====================================================================================
atomics    atomic operations, system calls and indirect calls, as imported LLVM code
state      addresses of the words that threads share
home       the process-wide registration of the pool, and forks
cores      the cores a thread may use; moves a worker off its caller's core (in C)
launch     a parallel loop: offers parts to workers, and runs the parts that remain
worker     the loop of a worker thread
module     the functions above as machine code, once for each architecture
glue       the code that a program emits to use the pool
========== =====================================================================================

A launch never waits for a thread that has not started a part. The caller and the workers claim
parts one by one from a counter; the caller returns when all claimed parts have finished. TVM's
pool, in contrast, assigns one part to each thread in advance, and the caller waits for all threads.
If another process occupies the core of one thread, this wait takes up to a time slice of the
scheduler.
"""
