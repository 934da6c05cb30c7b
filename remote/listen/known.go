package listen

import (
	"time"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
)

// known is what the servers of a job have said last. It outlives them.
type known struct {
	queues  *rpc.QueuesResponse
	ledger  *rpc.LedgerResponse
	servers map[int]*rpc.StatusResponse
	refused map[int]uint64 // messages, by pserver
	silent  map[cluster.Member]silence
	waits   map[cluster.Member][]*job.Wait // of roles that serve nobody, as their processes have told
}

// silence is a server that was asked and has not answered.
type silence struct {
	since time.Time // when it was asked first
	err   error     // of the last question
}

func newKnown() known {
	return known{servers: map[int]*rpc.StatusResponse{}, refused: map[int]uint64{}, silent: map[cluster.Member]silence{},
		waits: map[cluster.Member][]*job.Wait{}}
}

// forget drops what was said of a history that has ended.
func (k *known) forget() { *k = newKnown() }

// startsAgain drops what the last process of a role said.
func (k *known) startsAgain(m cluster.Member) {
	delete(k.silent, m)
	delete(k.waits, m)
}

// heard notes whether a server has answered.
func (k *known) heard(m cluster.Member, asked time.Time, err error) {
	if err == nil {
		delete(k.silent, m)
		return
	}
	s, ok := k.silent[m]
	if !ok {
		s.since = asked
	}
	s.err = err
	k.silent[m] = s
}
