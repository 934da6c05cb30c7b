// Package wire is the transport room: connections, deadlines, faults that survive the wire, and tensors of any size.
//
// Control messages are ordinary gRPC. Tensor bytes travel as a stream of rpc.VariableChunk; the codec of this package encodes the header of a
// chunk as protobuf and lets the elements follow straight from the tensor's own memory, and on the other side copies
// them once, from the transport's buffers into the tensor that waits for them. The bytes on the wire are a legal VariableChunk, so any
// gRPC implementation can speak with us. Nobody outside of this package knows how tensors move.
//
// Elements travel little-endian, as they lie in the memory of every machine that EDL runs on.
package wire
