package transpiler

import (
	"fmt"

	"github.com/edl-go/edl/fault"
)

// A Mode says when a pserver applies contributions. It has this one meaning everywhere, also as the attribute sync_mode of
// listen_and_serv.
type Mode int

const (
	// Sync: a round ends when every trainer declared its contribution complete; the merged contribution is applied once.
	Sync Mode = iota
	// Async: each contribution is applied by itself as soon as it is complete.
	Async
)

// String returns "sync" or "async".
func (m Mode) String() string {
	switch m {
	case Sync:
		return "sync"
	case Async:
		return "async"
	}
	return fmt.Sprintf("mode(%d)", int(m))
}

// Ways to choose the server of a slice.
const (
	// RoundRobin deals slices to servers in turn, the largest first, each to the server that holds the fewest bytes. Slices of equal
	// size land as in Fluid: slice i on server i mod n. It is the default.
	RoundRobin = "round_robin"
	// HashName puts a slice on the server that the FNV-1a hash of its name chooses, so that a slice stays where it is when the
	// model around it changes. Loads are as even as chance makes them.
	HashName = "hash_name"
)

// DefaultMinBlockSize is Fluid's smallest slice in elements: smaller messages waste bandwidth.
const DefaultMinBlockSize = 8192

// MaxPServers bounds the number of servers: every slice and every exchange names each of them.
const MaxPServers = 1024

// Config says how a program is spread over machines. Trainers and PServers must be set; the zero value of every other
// field is its default.
type Config struct {
	// Trainers is how many trainers the job starts with, at least 1. No program depends on it, so a job may grow and shrink.
	Trainers int
	// PServers is how many servers hold the parameters, 1 to MaxPServers. More servers than slices leaves some empty.
	PServers int
	// Mode is Sync or Async.
	Mode Mode
	// MinBlockSize is the smallest slice in elements; 0 means DefaultMinBlockSize. Small values spread small parameters more
	// evenly and cost a message each.
	MinBlockSize int64
	// NoSlice keeps every parameter whole on one server.
	NoSlice bool
	// SplitMethod is RoundRobin (also when empty) or HashName.
	SplitMethod string
	// Fetch names variables that trainers must be able to report. What lives on servers only, such as the learning rate, is
	// received by trainers in every step when it is named here.
	Fetch []string
	// Dump keeps a copy of all programs after each pass in Result.Stages.
	Dump bool
}

// Validate reports every setting that is out of range. The error is a fault.List.
func (c Config) Validate() error {
	var faults fault.List
	wrong := func(field, got, want string) {
		faults.Add(fault.E(fault.InvalidArgument, fault.At("transpiler configuration"), fault.Got(field+" "+got), fault.Want(want)))
	}
	if c.Trainers < 1 {
		wrong("Trainers", fmt.Sprint(c.Trainers), "at least 1")
	}
	if c.PServers < 1 || c.PServers > MaxPServers {
		wrong("PServers", fmt.Sprint(c.PServers), fmt.Sprintf("1 to %d", MaxPServers))
	}
	if c.Mode != Sync && c.Mode != Async {
		wrong("Mode", c.Mode.String(), "sync or async")
	}
	if c.MinBlockSize < 0 {
		wrong("MinBlockSize", fmt.Sprint(c.MinBlockSize), "at least 0")
	}
	if c.SplitMethod != "" && c.SplitMethod != RoundRobin && c.SplitMethod != HashName {
		wrong("SplitMethod", fmt.Sprintf("%q", c.SplitMethod), RoundRobin+" or "+HashName)
	}
	return faults.Err()
}

// minBlock returns the smallest slice in elements.
func (c Config) minBlock() int64 {
	if c.MinBlockSize == 0 {
		return DefaultMinBlockSize
	}
	return c.MinBlockSize
}
