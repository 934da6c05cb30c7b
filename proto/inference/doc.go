// Package inference is the wire contract of servers of models: the gRPC form of the KServe v2 inference protocol, with its names and field numbers, so that clients
// of other servers can call EDL's. The Go code is generated from inference.proto.
package inference
