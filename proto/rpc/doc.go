// Package rpc is the wire contract between the processes of a cluster: the Listener that takes jobs, the Coordinator that
// hands out data and collects results, and the ParameterServer. The Go code is generated from rpc.proto.
package rpc
