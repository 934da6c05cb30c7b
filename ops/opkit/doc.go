// Package opkit helps to write ops. EDL's own ops are written with it, and so are ops in modules of their own.
//
// An op is one ops.Def. For a new op without gradient, call ops.Register in an init function. For an op with a gradient, call Register
// of this package. It takes the Def and a Gradient and registers two ops: "name" and "name_grad".
//
// Files, in the order of writing an op:
//
//   - infer.go helps in Def.Infer and Def.Cost. Dims are int64, and program.Unknown marks an open extent. Dims and attributes may come from a
//     hostile program, so nothing in this file allocates memory by an extent or overflows.
//   - bind.go helps in Def.Bind. One generic kernel serves several element types, and Loop lets the executor divide the work.
//   - gradient.go derives the gradient op from the forward op.
//
// The example of the package defines a whole op. To check a gradient numerically, see package gradcheck.
package opkit
