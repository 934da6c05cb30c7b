// Package id has one type for each number that messages of a job are told apart by. They are distinct types, so that a round is never taken for a
// generation or a rank. Protobuf messages and the rooms below remote carry plain integers; the packages of remote convert where they read and write those.
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
	// Attempt counts how often the sender has sent the same message, from 0 on.
	Attempt uint32
)

// String is the number in decimal.
func (r Rank) String() string { return strconv.FormatUint(uint64(r), 10) }

// String is the number in decimal.
func (r Round) String() string { return strconv.FormatUint(uint64(r), 10) }
