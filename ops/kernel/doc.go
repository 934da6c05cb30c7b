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
// build runs. Builds for other architectures (or another GOAMD64) may fuse multiplications with additions and differ in the last bit. Elementwise and optimizer functions compute each element from its own operands only: cutting an
// array into slices and computing these one by one gives the bits of computing it whole. Gemm, convolution and the
// functions over rows give a row the same bits whatever other rows stand in the batch.
//
// Precision. Elements are computed in their own type, as Fluid does. Sums along contiguous memory are accumulated in
// float64 in four interleaved lanes (element i in lane i mod 4) and rounded once; transcendental functions are evaluated
// in float64.
//
// Goroutines. None are started. Functions may run concurrently when the slices that they write are disjoint; callers
// split work by rows.
//
// # Naming
//
// Functions carry the names of Fluid's operators. XxxGrad computes input gradients from the gradient of the output, which
// is called dout. A result that a caller does not want (a nil slice) is skipped where the comment allows it.
package kernel

//go:generate go -C internal/gen run .
