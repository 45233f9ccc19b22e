"""Threads of compiled programs: one set of workers for all programs of a process.

========== =====================================================================================
atomics    what TIR lacks: atomic words, system calls, indirect calls, as imported LLVM code
state      the words that threads share
home       where the process keeps them, and forks
cores      which cores a thread may use, and a worker that leaves its caller's core
launch     a parallel loop hands out its parts, and does those itself that nobody has begun
worker     a thread that waits for parts
module     these as machine code, once for each architecture
glue       what a program does to use them
========== =====================================================================================

A launch never waits for a thread that has not begun. Its parts are claimed one by one from a
counter, by the caller as by the workers; the caller returns when those are done that were begun.
TVM's own pool gives every thread its part beforehand, and the caller waits for all of them: where
another process has the core of one, for a time slice of the scheduler.
"""
