// Package control has the ops of control flow: those that run blocks of the program (branch.go, loop.go and recurrent.go; gradient.go: gradients), and those that work on
// what loops read and write (array.go: tensor arrays; rank.go and shrink.go: batches of sequences step by step), and beam.go, which
// searches for the best sequences.
//
// Their names, slots and attributes are Fluid's. Package ops says what sets ops of this class apart (ops/control.go), and package executor/internal/plan runs
// the blocks.
package control
