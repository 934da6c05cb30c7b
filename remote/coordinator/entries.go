package coordinator

import (
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/coordinator/generation"
)

// beside is what is durable of the job beside its members.
type beside struct {
	saver *uint32
	steps uint64
}

// restoreJob reads the entries of the job itself.
func restoreJob(entries map[string][]byte) (out generation.State, extra beside, err error) {
	read := func(key string, m proto.Message) bool {
		b, ok := entries[key]
		if ok && err == nil {
			err = fault.Wrap(fault.Corrupt, "entry "+key, proto.Unmarshal(b, m))
		}
		return ok && err == nil
	}
	var g state.Generation
	if read(generationKey, &g) {
		out.Number, out.Round = g.Number, g.Round
		for _, m := range g.Members {
			out.Members = append(out.Members, generation.Member{Rank: m.Rank, Since: m.Since, Incarnation: m.Incarnation})
		}
	}
	var settled state.Settled
	if read(settledKey, &settled) {
		out.Settled = settled.Generation
	}
	for key := range entries {
		var left state.Left
		if strings.HasPrefix(key, leftKey) && read(key, &left) {
			out.Left = append(out.Left, left.Rank)
		}
	}
	var saves state.Saver
	if read(saverKey, &saves) {
		extra.saver = &saves.Rank
	}
	var steps state.Steps
	if read(stepsKey, &steps) {
		extra.steps = steps.Steps
	}
	return out, extra, err
}

// entryOf is the durable form of a generation.
func entryOf(g generation.Generation) *state.Generation {
	e := &state.Generation{Number: g.Number, Round: g.Round}
	for _, m := range g.Members {
		e.Members = append(e.Members, &state.Member{Rank: m.Rank, Since: m.Since, Incarnation: m.Incarnation})
	}
	return e
}
