// Package kernel holds the numeric loops. Its functions know slices and plain integers, and no programs, variables or tensors. The packages of ops
// validate shapes and attributes, choose buffers, and call these functions.
//
// # Contracts of every function
//
// Lengths. A caller passes slices of exactly the lengths in the comment of a function. The functions do not report errors. A slice that is too
// short ends in Go's bounds check.
//
// Memory. A run allocates nothing. A function that needs scratch memory takes a workspace slice, and a function named XxxWorkspace returns its
// length. A workspace holds arbitrary values before and after a call. Plans (ReducePlan, TransposePlan) are built once per shape, and concurrent
// calls may share them.
//
// Aliasing. If the comment of a function says so, an output may be the same slice as an input. Slices must never overlap partly.
//
// Determinism. The order of every sum depends only on shapes. So equal inputs give equal bits on all machines with the same build and the same
// vector instructions, see below. Elementwise and optimizer functions compute each element from its own operands only, so a slice of an array gets
// the bits of the whole. Gemm, convolution and the functions over rows give a row the same bits, whatever other rows are in the batch.
//
// Precision. Elements are computed in their own type, as in Fluid. Sums along contiguous memory run in float64 in four interleaved lanes (element i
// in lane i mod 4) and are rounded once. Transcendental functions are evaluated in float64. Exceptions are Exp, Sigmoid, Tanh and the exponentials
// of softmax in float32 with vector instructions, which are within 2 units in the last place. Winograd rounds more than Conv2D: its errors are
// about 6 times as large at most (TestWinogradError).
//
// Goroutines. The functions start none. They may run concurrently if they write disjoint slices. Callers divide work by rows.
//
// # Vector instructions
//
// On amd64 the loops of float32, and the matrix products of float64, use AVX2 with FMA or AVX-512 if the machine has them (package internal/simd,
// which chooses at run time). Otherwise, and with the build tag purego, portable Go computes the same functions. Machines differ as follows:
//
//   - AVX2 and AVX-512 give the same bits. A cluster of such machines agrees in every bit.
//   - Portable Go gives the bits of the vector instructions except in Gemm and convolution, which fuse a multiplication with its addition in vector
//     instructions, and in Exp, Sigmoid, Tanh and softmax.
//   - On architectures where the compiler fuses (arm64, or amd64 with GOAMD64=v3), the last bit may also differ in functions without vector loops.
//
// # Naming
//
// Functions have the names of Fluid's operators. XxxGrad computes gradients of inputs from the gradient of the output, which is called dout. If a
// comment allows a nil slice, the function skips the result that the caller does not want.
package kernel

//go:generate go -C internal/gen run .
