"""What holds a worker back on Linux without root: Landlock for files, seccomp for system calls, no new privileges."""
