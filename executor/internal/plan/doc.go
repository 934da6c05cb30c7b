// Package plan compiles one block of a program for one set of feed shapes into a flat list of steps over memory that is
// laid out in advance, and runs it.
//
// Compiling goes through the files in this order:
//
//	infer.go     every variable gets its concrete dtype and dims, and a place where its value lives
//	pace.go      a plan that is too small to gain from workers is compiled for one
//	bind.go      each op is bound to its tensors (tensors.go), and falls into pieces: a kernel that runs as a whole, or loops that can be cut
//	unread.go    pieces that nobody needs are left out
//	views.go     copies share the elements of what they copy
//	epilogues.go products add biases and apply functions themselves
//	fanin.go     products add their results to the gradients that these are summed with
//	rows.go      loops that hand rows on to each other become one step
//	updates.go   so do the updates of small parameters
//	lifetime.go  every temporary gets the interval of steps that touch it; dying inputs are written over in place
//	arena.go     temporaries are packed: two may share memory when their intervals do not meet
//	attach.go    tensors get that memory
//	cut.go       each step is divided into as many parts as it has work for
//	hazards.go   for runs on a pool, the order that steps must keep, of data and of reused memory
//
// Running (run.go one step after the other, pool.go on several workers, share.go for the parts of one step, trial.go to choose between them)
// allocates nothing.
//
// # The law
//
// What is fused, how steps are divided and how many workers there are changes no bit of any result. It rests on two things. The ranges of a loop
// give the bits of the whole in whatever order they run (ops.Loop, which gradcheck holds every op to). And every step that touches a piece of
// memory keeps its order to every other step that does, unless both only read; within a step, what one iteration writes no other
// touches.
package plan
