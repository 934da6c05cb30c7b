// Package id has one type for each number that messages of a job are told apart by. They are distinct types, so that a round is never taken for a
// generation or a rank. Protobuf messages and the rooms below remote carry plain integers; package wire converts the
// identity of a message, and the packages of remote convert the rest of it where they read and write it.
package id

import "strconv"

type (
	// Rank is the number of a trainer in its job, from 0 on. It outlives the process: a trainer that is started again has the same rank.
	Rank uint32
	// Round is the number of a sync round of a job, from 0 on: the update that makes version Round+1 of the parameters out of version Round. In
	// async mode it counts the steps of one trainer.
	Round uint64
	// Step is the number of a step as a user sees it, from 0 on. In sync mode it equals the round.
	Step uint64
	// Generation is the number of a set of trainers that train together, from 1 on; 0 is none. It rises whenever a trainer joins or is lost.
	Generation uint64
	// Fence is the revision in etcd at which a coordinator took the lock of its job. A later coordinator has a greater one.
	Fence uint64
	// Incarnation is the revision in etcd at which a process took the key of its role. It tells a process from the one that had the role before.
	Incarnation uint64
	// Retry counts how often the sender has sent the same message before, from 0 on.
	Retry uint32
)

// A Sender says who has sent a message, and how far it was, as the identity of the message tells.
type Sender struct {
	Rank       Rank
	Generation Generation // sync: that it is a member of; async: that its process joined in
	Round      Round      // sync: the round; async: the step of this trainer
	Fence      Fence      // the highest one that it knows
}

// String is the number in decimal.
func (r Rank) String() string { return strconv.FormatUint(uint64(r), 10) }

// String is the number in decimal.
func (r Round) String() string { return strconv.FormatUint(uint64(r), 10) }
