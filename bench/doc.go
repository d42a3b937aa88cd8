// Package bench measures throughput: whole training steps of fixed workloads,
// private and plain, relative to the machine's peak and to other programs.
package bench
