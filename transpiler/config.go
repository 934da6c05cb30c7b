package transpiler

import (
	"fmt"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
)

// A Mode says when a pserver applies contributions. It is also the attribute sync_mode of listen_and_serv.
type Mode int

const (
	// Sync: a round ends when every trainer has declared its contribution complete. The server merges all and applies the result once.
	Sync Mode = iota
	// Async: the server applies each contribution by itself as soon as it is complete.
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
	// RoundRobin gives slices to servers one by one, the largest first, each to the server with the fewest bytes. Slices of equal size go
	// to the same servers as in Fluid: slice i to server i mod n. It is the default.
	RoundRobin = "round_robin"
	// HashName chooses the server by the FNV-1a hash of the name of a slice. So a slice keeps its server if other parts of the model
	// change. Loads are uneven by chance.
	HashName = "hash_name"
)

// DefaultMinBlockSize is Fluid's smallest slice, in elements. Smaller messages waste bandwidth.
const DefaultMinBlockSize = 8192

// MaxPServers bounds the number of servers, because every slice and every exchange names each of them.
const MaxPServers = 1024

// Config says how to spread a program over machines. Set Trainers and PServers. The zero value of every other field is its default.
type Config struct {
	// Trainers is the number of trainers at the start of the job, at least 1. No program contains it, so a job may grow and shrink.
	Trainers int
	// PServers is the number of servers, 1 to MaxPServers. If there are more servers than slices, some keep nothing.
	PServers int
	// Mode is Sync or Async.
	Mode Mode
	// MinBlockSize is the smallest slice in elements. 0 means DefaultMinBlockSize. Small values spread small parameters more
	// evenly and cost a message each.
	MinBlockSize int64
	// NoSlice keeps every parameter whole on one server.
	NoSlice bool
	// SplitMethod is RoundRobin (also when empty) or HashName.
	SplitMethod string
	// CompressGradients says how float32 gradients travel to servers: none (also when empty), bf16, fp16, topk:FRACTION or topk:FRACTION:LEAST. Servers add
	// them up in float32.
	CompressGradients string
	// CompressParameters says how float32 parameters travel to trainers: none (also when empty), bf16 or fp16. Servers keep float32. So trainers compute
	// with rounded parameters, and report those if they are fetched.
	CompressParameters string
	// Fetch names variables that trainers must be able to report. Trainers receive a variable that only servers have, such as the learning
	// rate, in every step.
	Fetch []string
	// KeepReceived makes trainers keep what they have received until they receive it again, so that a step of async mode may receive nothing.
	KeepReceived bool
	// Devices says that a trainer may have several devices, which share its rows of a batch: it merges what they have computed before it sends it. The program
	// does not contain how many there are.
	Devices bool
	// MergeHosts says that trainers of one host merge their contributions. Sparse gradients are refused then: only servers merge rows.
	MergeHosts bool
	// Backups says that a round may lack contributions. Servers send back whole tables then, because a trainer that has missed a round lacks the rows that it
	// has changed, and distributed tables are refused.
	Backups bool
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
	if _, err := compress.ParseGradients(c.CompressGradients); err != nil {
		wrong("CompressGradients", fault.Quote(c.CompressGradients), compress.GradientForms)
	}
	if _, err := compress.ParseParameters(c.CompressParameters); err != nil {
		wrong("CompressParameters", fault.Quote(c.CompressParameters), compress.ParameterForms)
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
