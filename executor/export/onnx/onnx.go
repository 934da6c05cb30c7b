// Package onnx translates between inference programs and ONNX models. Write makes a model of a program and its parameters, in opset 17, that ONNX Runtime and other
// engines run. Read makes a program and its parameters of a model, to serve it or to train it further.
//
// One op becomes one node or a few. Values have the names of the variables, so that what a model takes and returns is called the same in both. Both directions refuse
// a model with ops that have no counterpart, and name these ops. Numbers agree to rounding, because engines add up in different orders.
//
// Files in reading order: onnx.go, tensors.go, write.go with the ops in write_ops.go and write_shapes.go, read.go with read_ops.go and read_shapes.go, and fold.go.
package onnx

// Versions of what Write writes. Read takes models of opset 7 to 21 where their ops mean the same.
const (
	Opset     = 17 // of the domain of ONNX
	irVersion = 8

	oldestOpset = 7
	newestOpset = 21
)

// Extension is how the names of files end.
const Extension = ".onnx"
