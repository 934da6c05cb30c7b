// Package pserver runs the parameter-server role: it serves the slices of the model that a pserver program holds until every trainer
// has completed.
//
// Trainers are members of a generation, which a coordinator ends with Freeze and begins with Resume. What a generation has not finished counts only
// if the coordinator says so; its messages are refused from then on (fault.Superseded), and those of a generation to come wait for it. Coordinators
// are told apart by their fence.
//
// Sync mode is a sequence of rounds. Rounds, a pure state machine, says which contribution belongs to the round, when every member has declared its
// own complete, and who contributed; the server merges contributions in rank order, runs the program's blocks, and serves the new
// version. Async mode has one queue per gradient and applies each contribution as an update of its own; Updates, a pure state machine,
// tells the steps of a trainer from those that its rank sent before it was started again. In both, a message that was
// applied before, is late, or belongs to another job is refused and counted, and never changes a value.
//
// Server 0 keeps the Ledger of the records that updates were computed from.
//
// A server that waits knows for whom, since when and until when, and Status tells it; when the deadline passes it fails naming them.
package pserver
