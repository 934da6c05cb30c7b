// Package kernel is the room of the numeric loops. Its functions know slices and plain integers: no programs, no
// variables, no tensors. The packages of ops above it validate shapes and attributes, choose buffers, and call these.
//
// # Contracts that hold for every function here
//
// Lengths. A caller passes slices of exactly the lengths that the comment of a function names; the functions do not
// report errors. A slice that is too short ends in Go's own bounds check.
//
// Memory. Nothing is allocated while running. What needs scratch memory takes a workspace slice, and a function named
// XxxWorkspace tells its length. The content of a workspace is undefined before and after a call. Plans (ReducePlan,
// TransposePlan) are built once per shape and may be shared by concurrent calls.
//
// Aliasing. Where a comment says so, an output may be the very same slice as an input. Partly overlapping slices are
// never allowed.
//
// Determinism. The order of every summation depends on shapes alone, so equal inputs give equal bits wherever the same
// build runs on machines with the same vector instructions, see below. Elementwise and optimizer functions compute each
// element from its own operands only: cutting an array into slices and computing these one by one gives the bits of
// computing it whole. Gemm, convolution and the functions over rows give a row the same bits whatever other rows stand in
// the batch.
//
// Precision. Elements are computed in their own type, as Fluid does. Sums along contiguous memory are accumulated in
// float64 in four interleaved lanes (element i in lane i mod 4) and rounded once; transcendental functions are evaluated
// in float64, but for Exp, Sigmoid, Tanh and the exponentials of softmax of float32 with vector instructions, which are
// within 2 units in the last place.
//
// Goroutines. None are started. Functions may run concurrently when the slices that they write are disjoint; callers
// split work by rows.
//
// # Vector instructions
//
// On amd64 the loops of float32, and the matrix products of float64, run on AVX2 with FMA or on AVX-512 where the machine has
// them (internal/simd; the choice is made at run time). Otherwise, and with the build tag purego, portable Go computes
// the same functions. What differs between machines:
//
//   - AVX2 and AVX-512 give the same bits everywhere. A cluster of such machines agrees in every bit.
//   - Portable Go gives the bits of the vector instructions but for Gemm and convolution (which fuse a multiplication with its addition
//     there), Exp, Sigmoid, Tanh and softmax.
//   - On architectures where the compiler fuses by itself (arm64, or amd64 with GOAMD64=v3) the last bit may differ in functions
//     without vector loops too.
//
// # Naming
//
// Functions carry the names of Fluid's operators. XxxGrad computes input gradients from the gradient of the output, which
// is called dout. A result that a caller does not want (a nil slice) is skipped where the comment allows it.
package kernel

//go:generate go -C internal/gen run .
