// Package plan compiles one block of a program for one set of feed shapes into a flat list of bound kernels over memory that is
// laid out in advance, and runs it.
//
// Compiling goes through the files in this order:
//
//	infer.go     every variable gets its concrete dtype and dims, and a place where its value lives
//	lifetime.go  every temporary gets the interval of steps that touch it; dying inputs are written over in place
//	arena.go     temporaries are packed: two may share memory when their intervals do not meet
//	bind.go      tensors are made over that memory, and each op is bound to its own
//	hazards.go   for parallel runs, the order that steps must keep, of data and of reused memory
//
// Running (run.go one after the other, pool.go and dataflow.go on several goroutines) allocates nothing. Both ways give equal bits,
// because every step that touches a piece of memory keeps its order to every other step that does, unless both only read.
package plan
