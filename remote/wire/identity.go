package wire

import (
	"bytes"
	"fmt"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
)

// Identity is what all messages of one job in one generation have in common.
type Identity struct {
	Job        string
	Program    []byte // SHA-256 of the user's program
	Generation uint64
}

// Of returns the identity of one message.
func (i Identity) Of(rank uint32, round uint64, attempt uint32) *rpc.Identity {
	return &rpc.Identity{Job: i.Job, ProgramHash: i.Program, Generation: i.Generation, Rank: rank, Round: round, Attempt: attempt}
}

// Check refuses a message of another job or program (fault.Foreign) or generation (fault.Stale).
func (i Identity) Check(id *rpc.Identity) error {
	switch {
	case id == nil:
		return &fault.Fault{Kind: fault.Foreign, Got: "a message without identity", Want: "job " + i.Job}
	case id.Job != i.Job:
		return &fault.Fault{Kind: fault.Foreign, Got: "job " + fault.Quote(id.Job), Want: "job " + i.Job}
	case !bytes.Equal(id.ProgramHash, i.Program):
		return &fault.Fault{Kind: fault.Foreign, Got: fmt.Sprintf("program %.12x", id.ProgramHash), Want: fmt.Sprintf("program %.12x", i.Program)}
	case id.Generation != i.Generation:
		return &fault.Fault{Kind: fault.Stale, Got: fmt.Sprintf("generation %d", id.Generation), Want: fmt.Sprintf("generation %d", i.Generation)}
	}
	return nil
}
