// Package onnx is the format of ONNX files, as far as EDL writes and reads it: the field numbers and the names of the fields are those of ONNX, and fields that EDL
// does not use are left out. The Go code is generated from onnx.proto. The name of the protobuf package differs from ONNX's own, so that a program may also link
// another module that has it.
package onnx
