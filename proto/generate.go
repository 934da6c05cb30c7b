// Package proto is the root of the wire contracts. Each folder below it holds
// one .proto file or more and the Go code generated from them, and nothing else:
//
//   - framework: the program format, with Fluid's field numbers
//   - inference: requests to a model that is served, as the KServe v2 protocol has them
//   - onnx: models in the format of ONNX, as far as EDL writes and reads it
//   - job: what a user submits and what comes back
//   - rpc: the services between trainers, parameter servers and coordinators
//   - state: what a coordinator keeps in the store
//
// Run `go generate ./proto` after a change to a .proto file.
package proto

//go:generate go run ../internal/protogen
