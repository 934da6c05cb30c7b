// Package state holds the entries in which a coordinator keeps its task queues in the store of the cluster. They are read again by the next
// coordinator of the job, and by people through edl show. The Go code is generated from state.proto.
package state
