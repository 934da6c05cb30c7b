// Package pserver runs the parameter-server role: it serves the slices of the model that a pserver program holds until every trainer
// has completed.
//
// Sync mode is a sequence of rounds. Rounds, a pure state machine, says which contribution belongs to the round, when every member has declared its own
// complete, and who contributed; the server merges contributions in rank order, runs the program's blocks, and serves the new
// version. Async mode has one queue per gradient and applies each contribution as an update of its own. In both, a message that was
// applied before, is late, or belongs to another job is refused and counted, and never changes a value.
//
// A server that waits knows for whom, since when and until when; when the deadline passes it fails naming them.
package pserver
